#include "runtime/io/StopSignals.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

static constexpr int stopSignals[] = {SIGINT, SIGTERM, SIGHUP};

static const char *getName(int signal) {
  return signal == SIGINT ? "SIGINT" : signal == SIGTERM ? "SIGTERM" : "SIGHUP";
}

static ErrorCode getCode(int signal) {
  return signal == SIGINT    ? ErrorCode::Interrupted
         : signal == SIGTERM ? ErrorCode::Terminated
                             : ErrorCode::HungUp;
}

/// `how` follows "stopped by SIGINT"; empty: nothing does.
static Error getError(int signal, const std::string &how, std::string note) {
  return {getCode(signal),
          fmt::format("stopped by {}{}{}", getName(signal),
                      how.empty() ? "" : " ", how),
          std::move(note)};
}

static sigset_t getSet() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : stopSignals) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (signal != SIGHUP || action.sa_handler != SIG_IGN)
      sigaddset(&set, signal);
  }
  return set;
}

static int64_t getNanoseconds() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

void StopSignals::block() {
  const sigset_t set = getSet();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

std::optional<Error> StopSignals::sleep(double seconds,
                                        const std::string &when) {
  const sigset_t set = getSet();
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    const double left = std::max(
        0.0,
        std::chrono::duration<double>(end - std::chrono::steady_clock::now())
            .count());
    const timespec rest = {time_t(left), long(std::fmod(left, 1) * 1e9)};
    if (const int signal = sigtimedwait(&set, nullptr, &rest); signal > 0)
      return getError(signal, when, "");
    // It was over, or interrupted by a signal that stops and goes on.
    if (errno == EAGAIN)
      return std::nullopt;
  }
}

StopSignals::StopSignals(std::string when, Actions actions)
    : actions(std::move(actions)), when(std::move(when)) {
  const sigset_t set = getSet();
  pthread_sigmask(SIG_BLOCK, &set, &previous);
  signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  wakeUp = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  thread = std::thread([this] { watch(); });
}

StopSignals::~StopSignals() {
  isStopping = true;
  const uint64_t one = 1;
  [[maybe_unused]] ssize_t written = write(wakeUp, &one, sizeof(one));
  thread.join();
  {
    std::lock_guard<std::mutex> lock(mutex);
    isOver = true;
    takeAll();
  }
  close(signals);
  close(wakeUp);
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
}

void StopSignals::setActions(Actions newActions) {
  std::lock_guard<std::mutex> lock(mutex);
  actions = std::move(newActions);
}

void StopSignals::setWhen(std::string text) {
  std::lock_guard<std::mutex> lock(mutex);
  when = std::move(text);
}

void StopSignals::beginSteps() {
  std::lock_guard<std::mutex> lock(mutex);
  inSteps = true;
}

void StopSignals::endSteps(std::string text) {
  std::lock_guard<std::mutex> lock(mutex);
  inSteps = false;
  when = std::move(text);
  if (requested != 0 && !isOver)
    actions.end(getOwnError(requested, when));
}

int StopSignals::getRequested() {
  std::lock_guard<std::mutex> lock(mutex);
  takeAll();
  return requested;
}

Error StopSignals::stop(int signal, const std::string &text) {
  std::lock_guard<std::mutex> lock(mutex);
  isOver = true;
  return getOwnError(signal, text);
}

void StopSignals::request(int64_t rank, int signal) {
  remote = rank << 8 | signal;
  const uint64_t one = 1;
  [[maybe_unused]] ssize_t written = write(wakeUp, &one, sizeof(one));
}

Error StopSignals::getOwnError(int signal, const std::string &how) const {
  return getError(signal, how,
                  requestingRank > 0
                      ? fmt::format("rank {} got the signal", requestingRank)
                      : "");
}

void StopSignals::takeAll() {
  signalfd_siginfo info;
  while (read(signals, &info, sizeof(info)) == ssize_t(sizeof(info)))
    handle(int(info.ssi_signo), 0);
  if (const int64_t other = remote.exchange(0))
    handle(int(other & 0xff), other >> 8);
}

void StopSignals::handle(int signal, int64_t fromRank) {
  if (isOver)
    return;
  constexpr int64_t oneSignal = 500'000'000;
  const int64_t now = getNanoseconds();
  const bool isOwn = fromRank == 0;
  if (isOwn && firstNanoseconds == 0)
    firstNanoseconds = now;
  const bool isSecond =
      requested != 0 && isOwn && now - firstNanoseconds > oneSignal;
  if (!inSteps || isSecond) {
    requestingRank = isSecond ? 0 : fromRank;
    return actions.end(getOwnError(
        signal, inSteps ? "for the second time, within a step" : when));
  }
  if (requested != 0)
    return;
  requested = signal;
  requestingRank = fromRank;
  if (isOwn && actions.forward)
    actions.forward(signal);
}

void StopSignals::watch() {
  for (;;) {
    std::array<pollfd, 2> polls = {{{wakeUp, POLLIN, 0}, {signals, POLLIN, 0}}};
    if (poll(polls.data(), polls.size(), -1) < 0)
      continue; // interrupted
    if (isStopping)
      return;
    uint64_t count;
    [[maybe_unused]] ssize_t got = read(wakeUp, &count, sizeof(count));
    std::lock_guard<std::mutex> lock(mutex);
    takeAll();
  }
}
