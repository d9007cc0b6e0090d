#ifndef MESHC_RUNTIME_RANKS_STORESERVER_H
#define MESHC_RUNTIME_RANKS_STORESERVER_H

#include "runtime/exec/Error.h"
#include "runtime/ranks/Handshake.h"
#include "runtime/ranks/Socket.h"
#include "runtime/ranks/Store.h"
#include "runtime/ranks/StoreMessage.h"

#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace meshc::runtime {

/// A time in which this process was stopped, as its own threads can tell.
struct Pause {
  using Clock = std::chrono::steady_clock;

  Clock::duration length{};
  Clock::time_point end;

  /// Whether a connection that is found closed was closed because of it, by one
  /// that waits for so many seconds: it was long enough and is over just now.
  bool explains(Clock::time_point now, double patience) const;
};

/// The store of a run, kept by a thread of rank 0.
///
/// It also notices failures: a rank whose connection ends without a word, that
/// stays silent for too long, or that says that it has failed, ends the run.
/// Everyone is told then, rank 0 last, because the store ends with it, and
/// every request from then on is answered with the same error. Whether a run
/// has failed or ended well is decided here, once: when all have arrived at
/// endBarrier it has ended well, and nothing that a rank says or does later is
/// a failure.
///
/// What does not speak the protocol, does not have the key, belongs to another
/// run or claims a rank that is taken is turned away and disturbs nobody. A
/// process that calls again is no other one: its latest connection counts.
///
/// What a client makes it keep is bounded: values as in StoreValues, requests
/// that wait, and answers that are not read.
class StoreServer {
public:
  /// The barrier at which all ranks are there.
  static constexpr const char *startBarrier = "start";
  /// The barrier at which all have done what was asked for.
  static constexpr const char *endBarrier = "end";

  struct Options {
    int64_t ranks = 1;
    std::string job;
    /// Of a rank before it counts as lost; from the time when all are there
    /// (startBarrier), which they are given for that.
    double silenceSeconds = 10;
    RankKey key;
    /// Readable where a rank has ended otherwise than well, with its number as
    /// int64_t, of the launcher; -1: none. It goes to the server.
    int endings = -1;
    /// Called from the server's thread with who was turned away and why, ready
    /// for a terminal; not for each of many.
    std::function<void(const std::string &)> onTurnedAway;
    /// Called from there when a rank has got a signal; must not wait.
    std::function<void(int64_t rank, int signal)> onStop;
  };

  /// Serves whoever connects to `listener` from now on.
  StoreServer(Socket listener, Options options);
  /// Tells nobody; see waitForEnd.
  ~StoreServer();

  /// Waits until all clients have gone; false if some are left in the end.
  bool waitForEnd(Deadline deadline);
  /// Whether the run failed just after this process was stopped for longer than
  /// the others wait.
  bool wasStopped() const { return isStopped; }

private:
  using Clock = std::chrono::steady_clock;

  struct Connection {
    Socket socket;
    Reception reception;
    int64_t rank = -1; ///< of those who are known
    std::string name;  ///< "process 123 on node1"
    std::string received;
    std::string unsent;
    Clock::time_point lastHeard;
    bool saidBye = false;
    bool isBroken = false; ///< to be closed
  };
  /// A request that waits for a value or for others at a barrier.
  struct Waiter {
    Connection *connection;
    uint32_t request;
    bool isBarrier;
    std::string key;
    Clock::time_point deadline;
    double seconds;
  };

  void serve();
  void accept();
  /// Reads who has ended: that of a rank which has not joined shows nowhere
  /// else.
  void takeEndings();
  void receive(Connection &connection);
  void handle(Connection &connection, MessageReader &message);
  void greet(Connection &connection, std::string_view body);
  /// Lets a process in that has proven to be one of the run.
  void admit(Connection &connection);
  /// Closes a connection and tells why, once for each caller and reason.
  void turnAway(Connection &connection, std::string_view who,
                const std::string &why);
  void arrive(Connection &connection, uint32_t request, const std::string &name,
              double seconds);
  /// Has a request wait; refuses it where too many do.
  bool wait(Waiter waiter);
  void answer(Connection &connection, uint32_t request, std::string_view value);
  void refuse(Connection &connection, uint32_t request, const Error &error);
  void sendTo(Connection &connection, std::string frame);
  void flush(Connection &connection);
  void wakeWaiters(const std::string &key);
  void checkTimes(Clock::time_point now);
  bool wasPaused() const; ///< for too long, just now
  void closeBroken();
  /// Ends the run for everyone, unless it has ended.
  void fail(const Error &error);
  Error getMissing(const Waiter &waiter) const;

  Socket listener;
  const Options options;
  Socket wakeUp;  ///< readable when the thread is to stop
  Socket endings; ///< as in the options
  std::list<Connection> connections;
  StoreValues values;
  std::list<Waiter> waiters;
  std::map<std::string, std::set<int64_t>, std::less<>> barriers;
  std::map<int64_t, std::string> instances; ///< of the ranks that were here
  std::set<std::string> turnedAway;         ///< as was told
  bool hasStarted = false;
  bool hasEnded = false; ///< well; there is no failure then
  std::optional<Error> failure;
  Clock::time_point lastCheck = Clock::now();
  Pause pause;
  std::atomic<bool> isStopped = false;
  std::atomic<int64_t> numClients = 0; ///< that have said Hello
  std::thread thread;
};

/// "rank 2", "ranks 1 and 3", "ranks 0, 1 and 5"; long lists are cut short.
std::string listRanks(const std::vector<int64_t> &ranks);

/// That the others have ended while this rank was stopped.
Error getStopped(int64_t rank, const Pause &pause);

} // namespace meshc::runtime

#endif
