#include "runtime/io/StandardStreams.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

void runtime::openStandardStreams() {
  std::signal(SIGPIPE, SIG_IGN);
  int descriptor;
  do
    // The lowest number that is free. A folder cannot be opened for writing by
    // the name of the stream, /dev/stdout, either.
    descriptor =
        open(fcntl(STDIN_FILENO, F_GETFD) < 0 ? "/dev/null" : "/", O_RDONLY);
  while (descriptor >= 0 && descriptor <= STDERR_FILENO);
  if (descriptor >= 0)
    close(descriptor);
}

bool runtime::colorsMessages() {
  auto getVariable = [](const char *name) {
    const char *value = std::getenv(name);
    return std::string_view(value ? value : "");
  };
  const std::string_view terminal = getVariable("TERM");
  return getVariable("NO_COLOR").empty() && !terminal.empty() &&
         terminal != "dumb" && isatty(STDERR_FILENO) == 1;
}

/// Whether the last line of standard error can still be rewritten.
static std::atomic<bool> isLineOpen = false;

void runtime::printMessage(std::string_view text) {
  if (text.empty())
    return;
  const bool leavesOpen = text.back() != '\n';
  const bool wasOpen = isLineOpen.exchange(leavesOpen);
  const bool goesOn = text.front() == '\r' || text.front() == '\n';
  const std::string line = (wasOpen && !goesOn ? "\n" : "") + std::string(text);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

/// Why standard output could not be written when that was seen first; 0: it
/// could.
static int outputError = 0;

static void noteOutputError() {
  if (outputError == 0)
    outputError = errno != 0 ? errno : EIO;
}

void runtime::printOutput(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
    noteOutputError();
}

Status runtime::flushOutput() {
  errno = 0;
  if (std::fflush(stdout) != 0)
    noteOutputError();
  if (outputError == 0)
    return Status::success();
  const int reason = outputError;
  outputError = 0;
  std::clearerr(stdout);
  return Error{ErrorCode::CannotWrite,
               std::string("cannot write to standard output: ") +
                   std::strerror(reason),
               ""};
}
