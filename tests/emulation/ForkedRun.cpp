#include "ForkedRun.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace meshc::emulation;

namespace {

int openTemporary() {
  int file = memfd_create("meshc-test", MFD_CLOEXEC);
  if (file < 0) {
    std::perror("memfd_create");
    std::abort();
  }
  return file;
}

std::string readAll(int file) {
  std::string text(lseek(file, 0, SEEK_END), '\0');
  size_t done = 0;
  while (done < text.size()) {
    ssize_t count = pread(file, text.data() + done, text.size() - done, done);
    if (count <= 0)
      break;
    done += count;
  }
  return text;
}

} // namespace

ForkedRun::ForkedRun(const Variables &variables,
                     const std::function<std::string()> &body)
    : valueFile(openTemporary()), errorFile(openTemporary()) {
  std::fflush(nullptr);
  pid = fork();
  if (pid < 0) {
    std::perror("fork");
    std::abort();
  }
  if (pid > 0)
    return;
  dup2(errorFile, STDERR_FILENO);
  for (const auto &[name, value] : variables)
    setenv(name.c_str(), value.c_str(), 1);
  std::string value = body();
  ssize_t written = write(valueFile, value.data(), value.size());
  // Runs what the emulation does at the end of a process.
  std::exit(written == static_cast<ssize_t>(value.size()) ? 0 : 99);
}

ForkedRun::~ForkedRun() {
  if (pid > 0) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  close(valueFile);
  close(errorFile);
}

ForkedResult ForkedRun::wait(int seconds) {
  using Clock = std::chrono::steady_clock;
  auto deadline = Clock::now() + std::chrono::seconds(seconds);
  int status;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (Clock::now() > deadline)
      kill(pid, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  pid = -1;
  ForkedResult result;
  result.value = readAll(valueFile);
  result.errors = readAll(errorFile);
  result.exitCode = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return result;
}

ForkedResult
meshc::emulation::runForked(const Variables &variables,
                            const std::function<std::string()> &body) {
  return ForkedRun(variables, body).wait();
}
