#ifndef MESHC_RUNTIME_IO_STOPSIGNALS_H
#define MESHC_RUNTIME_IO_STOPSIGNALS_H

#include "runtime/exec/Error.h"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace meshc::runtime {

/// SIGINT, SIGTERM and SIGHUP: each ends the run in good order. While steps are
/// made, after the step in progress, and a second one at once; else at once.
/// Signals within half a second are one: a launcher may pass on what the
/// terminal has sent too.
///
/// No handler takes them, but a thread that reads them: a product of oneDNN may
/// keep data below the stack pointer, further down than the 128 bytes that the
/// system leaves alone, and would read its pointers from the signal's frame.
/// Source: measured; oneDNN 2.6.3 with AVX-512, "gemm:jit", a signal every
/// 50 us: 24 of 28 runs of 1500 products ended by corrupted memory, none of 14
/// with a stack of the handler's own.
///
/// To be made before threads are, which have to leave the signals to it: one in
/// a process. A SIGHUP that was ignored before stays so, as nohup wants.
class StopSignals {
public:
  struct Actions {
    /// Ends the process because of an error that says which signal and when.
    /// Returns where it is about to end anyway. Called from the thread of
    /// StopSignals or from one that calls it.
    std::function<void(const Error &)> end;
    /// Tells rank 0 of a signal that waits for the end of a step; must not
    /// wait. Empty on rank 0 itself.
    std::function<void(int signal)> forward;
  };

  /// Has this thread and those that it starts leave the signals alone; what
  /// comes meanwhile waits for a StopSignals.
  static void block();
  /// Waits in a thread that has blocked them; the error of the one that ends
  /// the wait, if one does. `when` as below.
  static std::optional<Error> sleep(double seconds, const std::string &when);

  /// `when` follows "stopped by SIGINT"; empty: nothing does.
  StopSignals(std::string when, Actions actions);
  /// Signals that come later have no effect any more.
  ~StopSignals();
  StopSignals(const StopSignals &) = delete;
  StopSignals &operator=(const StopSignals &) = delete;

  void setActions(Actions newActions);
  /// For signals from now on.
  void setWhen(std::string text);

  /// Signals wait for the ends of steps; the last one that has not been asked
  /// for acts in endSteps, as one that comes at that time.
  void beginSteps();
  void endSteps(std::string when);
  /// At the end of a step: the signal that ends the run, or 0.
  int getRequested();
  /// The error of a run that getRequested() or another rank has ended, and that
  /// ends now: signals have no effect from now on.
  Error stop(int signal, const std::string &when);

  /// On rank 0: another rank got a signal during its steps. Never waits.
  void request(int64_t rank, int signal);

private:
  void watch();
  /// Takes what has come; the mutex is held.
  void takeAll();
  void handle(int signal, int64_t fromRank);
  Error getOwnError(int signal, const std::string &how) const;

  std::mutex mutex;
  Actions actions;
  std::string when;
  bool inSteps = false;
  bool isOver = false;
  int requested = 0;
  int64_t requestingRank = 0;
  int64_t firstNanoseconds = 0; ///< when this process got its first; 0: not yet
  std::atomic<int64_t> remote = 0; ///< rank and signal of request(); 0: none
  sigset_t previous;
  int signals; ///< readable where one has come
  int wakeUp;  ///< readable where there is something else to do
  std::atomic<bool> isStopping = false;
  std::thread thread;
};

} // namespace meshc::runtime

#endif
