#ifndef MESHC_RUNTIME_RANKS_RANKS_H
#define MESHC_RUNTIME_RANKS_RANKS_H

/// The processes that run one program together, seen from one of them.
///
/// They find each other through the store that rank 0 keeps. Whatever ends one
/// of them ends all, within a second or two and with one message:
///
///   rank 2 is killed        its connection to the store ends, rank 0 reports
///                           "rank 2 ended before the others"
///   rank 2 reports an error it hands it to rank 0, which reports it
///   rank 0 is killed        the others notice by themselves and report it, or
///                           leave it to the launcher of Launcher.h
///
/// Only rank 0 prints, so that an error that all of them have is read once.

#include "runtime/exec/Error.h"
#include "runtime/ranks/RankIdentity.h"
#include "runtime/ranks/Store.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meshc::runtime {

class StoreClient;
class StoreServer;

struct RanksOptions {
  /// Until all ranks have to be there.
  double joinSeconds = 120;
  /// A machine that has not answered for so long counts as lost, once all were
  /// there. (The end of a process is noticed at once.)
  double silenceSeconds = 10;
  /// Called from another thread when the run has failed elsewhere, instead of
  /// ending this process; for tests.
  std::function<void(const Error &)> onFailure;
  /// Called on rank 0 from another thread when another rank asks for the end of
  /// the run after the step in progress; must not wait.
  std::function<void(int64_t rank, int signal)> onStop;
};

/// What two processes may have to be equal in, by name: "the program",
/// "--seed".
using Agreements = std::vector<std::pair<std::string, std::string>>;

class Ranks {
public:
  /// Opens the store on rank 0 and connects to it. With one rank, nothing is
  /// listened on.
  /// Errors: CannotConnect, MissingRank, WrongRanks, StoreKey; each rank has to
  /// report its own.
  static Result<std::unique_ptr<Ranks>> connect(RankIdentity identity,
                                                RanksOptions options = {});
  ~Ranks();

  /// Waits until all ranks are there. Errors: MissingRank, naming those that
  /// did not come in time.
  Status start();

  const RankIdentity &getIdentity() const { return identity; }
  int64_t getRank() const { return identity.rank; }
  int64_t getNumRanks() const { return identity.ranks; }
  /// Among the processes on this machine.
  int64_t getLocalRank() const { return identity.localRank; }
  int64_t getNumLocalRanks() const { return identity.localRanks; }
  /// Whether this one prints and writes for all.
  bool isFirst() const { return identity.rank == 0; }
  Store &getStore() { return *store; }
  /// The address under which other ranks reach this machine.
  std::string getHost() const;
  const RankKey &getKey() const { return identity.key; }

  /// Compares the same items on all ranks, and returns the same on all of them.
  /// Errors: RanksDiffer, naming the first item in which ranks differ from
  /// rank 0, and the ranks.
  Status agree(const Agreements &items);

  /// An error if the run is known to have failed elsewhere.
  Status check() const;

  /// Ends the run in good order: waits for all ranks.
  Status finish();

  /// Ends the run because of an error: tells the others and, on rank 0, calls
  /// `print`. Returns the exit code. Does not return where the end is already
  /// under way in another thread, unless that gives way.
  int end(const Error &error, const std::function<void(const Error &)> &print);
  /// The same for what comes from outside, and in a thread that others may wait
  /// for: returns nothing where the end is under way, or where all ranks have
  /// come to the good end of the run.
  std::optional<int> tryEnd(const Error &error,
                            const std::function<void(const Error &)> &print);
  /// Asks rank 0 to end the run after the step in progress; waits for nothing.
  void requestStop(int signal);

private:
  Ranks(RankIdentity identity, RanksOptions options);

  Status findLocalRank();
  void onFailure(StoreClient &caller, const Error &error, bool isOver);
  /// Gives this rank the time to end by itself.
  void waitForOwnEnd(double seconds) const;
  /// Has the end of the run to this thread alone; waits for one that has it.
  void beginEnd();
  void giveWay();
  /// Tells the others of an error, and prints it if nobody else does; false
  /// where the run has ended well.
  bool tell(const Error &error,
            const std::function<void(const Error &)> &print);
  /// Prints that a rank is lost where that is left to the ranks by themselves,
  /// in the turn of this one; `wasStopped`: it is the one that the others miss.
  void printLost(const Error &error, bool wasStopped,
                 const std::function<void(const Error &)> &print);

  RankIdentity identity;
  double joinSeconds;
  double silenceSeconds;
  std::unique_ptr<StoreServer> server; ///< on rank 0
  std::unique_ptr<StoreClient> client; ///< with more than one rank
  LocalStore localStore;
  Store *store = &localStore;
  std::function<void(const Error &)> failureCallback;
  std::function<void(int64_t, int)> stopCallback;
  std::atomic<bool> isEnding = false;
  /// With which a signal ends this rank while it waits for its turn to speak;
  /// 0: it does not. Whoever sends one then has heard of another rank.
  std::atomic<int> speechlessCode = 0;
  int64_t numAgreements = 0;
};

/// To be called before a rank says by itself that another one is lost.
/// Launchers other than our own end all ranks where one has ended in error, so
/// that the first one to say it is the only one on their terminal; the ones
/// before it may be lost too, so each has its turn. `isLast`: it is this rank
/// that the others miss. Ranks that were started by hand have terminals of
/// their own, and wait for nothing.
void waitForTurn(const RankIdentity &identity, bool isLast = false);

/// Prints an error as "meshc: error[MR0501]: ..." with its note, whatever
/// characters are in it: it may come from another process.
void printError(const Error &error);
/// Prints "meshc: warning: ..." of a text that is formed as that of an error.
void printWarning(std::string_view text);
/// Prints "meshc: note: ..." in the same way.
void printNote(std::string_view text);

} // namespace meshc::runtime

#endif
