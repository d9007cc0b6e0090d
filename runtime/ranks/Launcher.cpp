#include "runtime/ranks/Launcher.h"

#include "runtime/io/StandardStreams.h"
#include "runtime/ranks/RankKey.h"
#include "runtime/ranks/Ranks.h"
#include "runtime/ranks/Socket.h"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <ranges>
#include <vector>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

/// For the other ranks to notice and report the end of one.
static constexpr double graceSeconds = 8;
/// For them to notice that rank 0 was killed.
static constexpr double lossSeconds = 2;
/// For one that is stopped when another one has ended well: as long as a rank
/// may be silent for the others, and the grace.
static constexpr double stoppedSeconds = 18;

/// What goes on to the ranks.
static constexpr int forwardedSignals[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                           SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};

namespace {

class Launcher {
public:
  RunEnd run(int64_t processes, const char *const *arguments);

private:
  struct Rank {
    pid_t process = -1;
    std::optional<int> status; ///< of waitpid, once it has ended
    bool isKilled = false;     ///< by the launcher
    int stopSignal = 0;        ///< that has stopped it; 0: it runs
    Deadline stopped;          ///< when
  };

  /// What rank 0 is given: of the store, and of a pipe.
  struct Descriptors {
    Socket listener, endings;
  };

  bool start(int64_t rank, int64_t processes, const char *const *arguments,
             const Descriptors &given, const sigset_t &mask);
  void collect();
  /// What waitpid says about a rank.
  void note(size_t rank, int status);
  /// The end of a run of which a rank cannot be started.
  RunEnd giveUp(int64_t rank, int64_t processes);
  void limitStops();
  void forward(int signal);
  void sendToAll(int signal);
  void killAll();
  int getExitCode() const;
  RunEnd getEnd() const;
  /// Whether a signal has ended a rank that is not the launcher's.
  bool isKilledByOthers(size_t rank) const;
  /// Whether rank 0 has said what has ended the run.
  bool hasSpoken() const;
  /// The rank that has ended the run, of which one did not end well.
  size_t findCulprit() const;
  void reportCulprit(int code) const;
  /// "rank 2", or "the process" where there is no other.
  std::string getName(size_t rank) const;
  /// "was killed by signal 9 (Killed)": how a rank ended.
  std::string describeEnd(size_t rank) const;

  std::vector<Rank> ranks;
  std::string key; ///< of the run
  Socket endings;  ///< a pipe that tells rank 0 who has not ended well
  size_t numEnded = 0;
  std::optional<size_t> firstBad;   ///< that did not end well
  std::optional<Deadline> patience; ///< after which the rest is killed
  int lastSignal = 0;               ///< forwarded
  bool hasPassedOn = false;         ///< the signal by which a rank has stopped
};

} // namespace

bool Launcher::start(int64_t rank, int64_t processes,
                     const char *const *arguments, const Descriptors &given,
                     const sigset_t &mask) {
  const pid_t launcher = getpid();
  const pid_t process = fork();
  if (process != 0) {
    if (process > 0)
      ranks.emplace_back().process = process;
    return process > 0;
  }
  // No rank survives the launcher, even where it is killed in between.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher)
    _exit(int(ExitCode::RankLost));
  // The terminal's signals come through the launcher, once.
  setpgid(0, 0);
  setenv("MESHC_RANK", std::to_string(rank).c_str(), 1);
  setenv("MESHC_RANKS", std::to_string(processes).c_str(), 1);
  // Of this user's processes alone: others cannot read what is set for one.
  setenv(storeKeyVariable, key.c_str(), 1);
  setenv("MESHC_STORE", toString(getLocalAddress(given.listener)).c_str(), 1);
  if (rank == 0) {
    auto give = [](const char *variable, const Socket &socket) {
      setenv(variable, std::to_string(socket.get()).c_str(), 1);
      fcntl(socket.get(), F_SETFD, 0);
    };
    give("MESHC_STORE_LISTENER", given.listener);
    give("MESHC_ENDINGS", given.endings);
  } else {
    // What is typed is for rank 0.
    const int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0)
      dup2(nothing, STDIN_FILENO);
  }
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  execv("/proc/self/exe", const_cast<char *const *>(arguments));
  printError(
      {ErrorCode::Internal,
       fmt::format("cannot start rank {}: {}", rank, std::strerror(errno)),
       ""});
  _exit(int(ExitCode::Internal));
}

void Launcher::note(size_t rank, int status) {
  Rank &found = ranks[rank];
  if (WIFSTOPPED(status)) {
    found.stopSignal = WSTOPSIG(status);
    found.stopped = getDeadline(0);
    return;
  }
  if (WIFCONTINUED(status)) {
    found.stopSignal = 0;
    return;
  }
  found.status = status;
  ++numEnded;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return;
  if (!firstBad)
    firstBad = rank;
  // One that was stopped before it had joined could not tell the others.
  for (int signal : {SIGINT, SIGTERM, SIGHUP})
    if (WIFEXITED(status) && WEXITSTATUS(status) == 128 + signal &&
        !hasPassedOn) {
      hasPassedOn = true;
      sendToAll(signal);
    }
  // One that has not joined has no connection that would end with it.
  if (lastSignal == 0 && !hasPassedOn) {
    const auto number = int64_t(rank);
    [[maybe_unused]] ssize_t told =
        write(endings.get(), &number, sizeof(number));
  }
  // Without rank 0 nobody has anything to report.
  const bool canReport = rank > 0 || !WIFSIGNALED(status);
  if (!patience)
    patience = getDeadline(canReport ? graceSeconds : lossSeconds);
}

void Launcher::collect() {
  int status;
  pid_t process;
  while ((process = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0)
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      if (ranks[rank].process == process)
        note(rank, status);
}

void Launcher::limitStops() {
  // Nobody else is left to notice it.
  if (numEnded == 0 || patience)
    return;
  for (const Rank &rank : ranks)
    if (!rank.status && rank.stopSignal != 0 &&
        getSecondsUntil(rank.stopped) < -stoppedSeconds)
      patience = getDeadline(0);
}

void Launcher::sendToAll(int signal) {
  for (const Rank &rank : ranks)
    if (!rank.status)
      kill(rank.process, signal);
}

void Launcher::killAll() {
  // Rank 0 last: the others would say that they have lost it.
  for (Rank &rank : std::views::reverse(ranks))
    if (!rank.status) {
      kill(rank.process, SIGKILL);
      rank.isKilled = true;
    }
}

void Launcher::forward(int signal) {
  sendToAll(signal);
  if (signal == SIGTSTP) {
    raise(SIGSTOP);
    // Nobody had a part of the time in between.
    sendToAll(SIGCONT);
    if (patience)
      patience = getDeadline(graceSeconds);
  } else if (signal != SIGCONT)
    lastSignal = signal;
}

int Launcher::getExitCode() const {
  // Rank 0 speaks for all where it could.
  for (const Rank &rank : ranks)
    if (WIFEXITED(*rank.status) && WEXITSTATUS(*rank.status) != 0)
      return WEXITSTATUS(*rank.status);
  return firstBad ? int(ExitCode::RankLost) : 0;
}

std::string Launcher::describeEnd(size_t rank) const {
  const Rank &found = ranks[rank];
  const int status = *found.status;
  if (found.isKilled && found.stopSignal != 0)
    return fmt::format("was stopped by signal {} ({}) {:.0f} s ago",
                       found.stopSignal, strsignal(found.stopSignal),
                       -getSecondsUntil(found.stopped));
  if (found.isKilled && firstBad)
    return fmt::format("did not end within {:g} s of rank {}", graceSeconds,
                       *firstBad);
  if (WIFSIGNALED(status))
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

bool Launcher::isKilledByOthers(size_t rank) const {
  return WIFSIGNALED(*ranks[rank].status) && !ranks[rank].isKilled;
}

bool Launcher::hasSpoken() const {
  const int first = *ranks[0].status;
  return WIFEXITED(first) && WEXITSTATUS(first) != 0;
}

size_t Launcher::findCulprit() const {
  // Rank 0 has spoken where it ended in error; one that hangs has not, and
  // neither has one that could not know.
  if (!WIFEXITED(*ranks[0].status))
    return 0;
  // Whoever was stopped, else killed, else whoever ended first.
  size_t culprit = *firstBad;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    if (isKilledByOthers(rank))
      culprit = rank;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    if (ranks[rank].isKilled && ranks[rank].stopSignal != 0)
      culprit = rank;
  return culprit;
}

std::string Launcher::getName(size_t rank) const {
  return ranks.size() == 1 ? "the process" : fmt::format("rank {}", rank);
}

void Launcher::reportCulprit(int code) const {
  // Those that got a signal when rank 0 was gone have left it to that to say
  // so; it has not where it was killed.
  if (code != int(ExitCode::RankLost) && !(code > 128 && isKilledByOthers(0)))
    return;
  const size_t culprit = findCulprit();
  const std::string name = getName(culprit);
  const std::string how = fmt::format("{} {}", name, describeEnd(culprit));
  const bool isHung = ranks[culprit].isKilled;
  if (!hasSpoken())
    printError({ErrorCode::RankLost,
                fmt::format("{} {}", name,
                            isHung              ? "does not answer"
                            : ranks.size() == 1 ? "ended before its time"
                                                : "ended before the others"),
                how});
  else if (isHung || WIFSIGNALED(*ranks[culprit].status) ||
           WEXITSTATUS(*ranks[culprit].status) != code)
    printNote(how);
}

RunEnd Launcher::getEnd() const {
  RunEnd end;
  end.code = getExitCode();
  end.isStopped = lastSignal != 0 || hasPassedOn;
  if (!firstBad)
    return end;
  const size_t culprit = findCulprit();
  end.cause = fmt::format("{} {}", getName(culprit), describeEnd(culprit));
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    end.isKilled |= isKilledByOthers(rank);
  return end;
}

RunEnd Launcher::giveUp(int64_t rank, int64_t processes) {
  RunEnd end;
  end.code = int(ExitCode::DoesNotFit);
  end.cause = fmt::format("cannot start rank {} of {}: {}", rank, processes,
                          std::strerror(errno));
  printError({ErrorCode::DoesNotFit, end.cause, ""});
  killAll();
  for (const Rank &started : ranks)
    waitpid(started.process, nullptr, 0);
  return end;
}

RunEnd Launcher::run(int64_t processes, const char *const *arguments) {
  Result<Socket> listener = listenOn({"127.0.0.1", 0});
  int pipe[2] = {-1, -1};
  if (listener && pipe2(pipe, O_CLOEXEC | O_NONBLOCK) != 0)
    listener = Error{ErrorCode::DoesNotFit,
                     fmt::format("no pipe: {}", std::strerror(errno)), ""};
  if (!listener) {
    printError(listener.getError());
    RunEnd end;
    end.code = int(runtime::getExitCode(listener.getError().code));
    end.cause = listener.getError().message;
    return end;
  }
  Descriptors given{std::move(*listener), Socket(pipe[0])};
  endings = Socket(pipe[1]);
  key = RankKey::makeText();

  sigset_t watched;
  sigset_t before;
  sigemptyset(&watched);
  sigaddset(&watched, SIGCHLD);
  for (int signal : forwardedSignals)
    sigaddset(&watched, signal);
  sigprocmask(SIG_BLOCK, &watched, &before);
  std::fflush(nullptr);
  for (int64_t rank = 0; rank < processes; ++rank)
    if (!start(rank, processes, arguments, given, before)) {
      const RunEnd end = giveUp(rank, processes);
      sigprocmask(SIG_SETMASK, &before, nullptr);
      return end;
    }
  given = {};

  while (numEnded < ranks.size()) {
    const timespec tick = {0, 100'000'000};
    const int signal = sigtimedwait(&watched, nullptr, &tick);
    if (signal > 0 && signal != SIGCHLD)
      forward(signal);
    collect();
    limitStops();
    if (patience && getSecondsUntil(*patience) <= 0)
      killAll();
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);

  // A signal that has ended the ranks ends the launcher in the same way.
  if (lastSignal != 0 && firstBad && WIFSIGNALED(*ranks[*firstBad].status) &&
      WTERMSIG(*ranks[*firstBad].status) == lastSignal) {
    signal(lastSignal, SIG_DFL);
    raise(lastSignal);
  }
  if (firstBad)
    reportCulprit(getExitCode());
  return getEnd();
}

RunEnd runtime::launchRanks(int64_t processes, const char *const *arguments) {
  return Launcher().run(processes, arguments);
}
