#include "tests/fuzz/Isolate.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace meshc::fuzz;

/// A case takes a second at most; ten times that on a busy machine, and more
/// with sanitizers.
static constexpr unsigned secondsPerCase = 60;

/// What the child says: "@STAGE\n" before each stage, then "!STAGE\nMESSAGE"
/// or, where everything is as it should be, ".".
static void say(int pipe, const std::string &text) {
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t count =
        write(pipe, text.data() + written, text.size() - written);
    if (count <= 0)
      return;
    written += size_t(count);
  }
}

[[noreturn]] static void runChild(Case item, Checks checks, int pipe,
                                  int words) {
  alarm(secondsPerCase);
  dup2(words, STDOUT_FILENO);
  dup2(words, STDERR_FILENO);
  checks.enter = [=](const std::string &stage) {
    say(pipe, "@" + stage + "\n");
  };
  if (Failure failure = run(item, checks))
    say(pipe, "!" + failure.stage + "\n" + failure.message);
  else
    say(pipe, ".");
  _exit(0);
}

/// The first words of a process: an assertion, or the first frames of a crash.
static std::string readEnd(std::FILE *file) {
  constexpr long enough = 1500;
  std::fseek(file, 0, SEEK_END);
  const long size = std::ftell(file);
  std::fseek(file, 0, SEEK_SET);
  std::string text(size_t(std::min(size, enough)), '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  return text;
}

Failure meshc::fuzz::runIsolated(const Case &item, const Checks &checks) {
  int ends[2];
  if (pipe(ends) != 0)
    return {"no pipe", std::strerror(errno)};
  std::FILE *words = std::tmpfile();
  if (!words)
    return {"no file for what the case says", std::strerror(errno)};
  const pid_t child = fork();
  if (child < 0)
    return {"no process", std::strerror(errno)};
  if (child == 0) {
    close(ends[0]);
    runChild(item, checks, ends[1], fileno(words));
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t count; (count = read(ends[0], buffer, sizeof(buffer))) > 0;)
    text.append(buffer, size_t(count));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  const std::string said = readEnd(words);
  std::fclose(words);
  std::string stage;
  size_t at = 0;
  while (at < text.size() && text[at] == '@') {
    const size_t end = text.find('\n', at);
    stage = text.substr(at + 1, end - at - 1);
    at = end + 1;
  }
  if (at < text.size() && text[at] == '!') {
    const size_t end = text.find('\n', at);
    return {text.substr(at + 1, end - at - 1), text.substr(end + 1)};
  }
  if (WIFSIGNALED(status))
    return {fmt::format("{} ends by signal {}", stage, WTERMSIG(status)), said};
  if (WEXITSTATUS(status) != 0)
    return {fmt::format("{} ends with {}", stage, WEXITSTATUS(status)), said};
  if (text.substr(at) != ".")
    return {fmt::format("{} ends without a word", stage), said};
  return {};
}
