#ifndef MESHC_RUNTIME_RANKS_STORECLIENT_H
#define MESHC_RUNTIME_RANKS_STORECLIENT_H

#include "runtime/ranks/RankIdentity.h"
#include "runtime/ranks/Socket.h"
#include "runtime/ranks/Store.h"
#include "runtime/ranks/StoreMessage.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace meshc::runtime {

/// One rank's connection to the store of rank 0. A thread reads it, so that the
/// end of the run is noticed whatever the other threads do.
class StoreClient : public Store {
public:
  /// Called once, from the thread that reads and maybe before connect()
  /// returns, when the run has failed; `isOver` is set where the server is gone
  /// and everybody else notices by themselves.
  using FailureCallback =
      std::function<void(StoreClient &, const Error &, bool isOver)>;

  /// Connects and says who this is; where nobody answers yet, or another run
  /// does, it tries again until the deadline. Rank 0 counts as lost after
  /// `silenceSeconds` without a word.
  /// Errors: CannotConnect; MissingRank where the server does not answer;
  /// WrongRanks where it was told of other ranks; StoreKey where it has another
  /// key, or this process has none and others than those of this machine may be
  /// the server.
  static Result<std::unique_ptr<StoreClient>>
  connect(const RankIdentity &identity, Deadline deadline,
          double silenceSeconds, FailureCallback onFailure);
  ~StoreClient() override;

  Status set(std::string_view key, std::string_view value) override;
  Result<std::string> get(std::string_view key, double seconds) override;
  Result<int64_t> add(std::string_view key, int64_t increment) override;
  Status barrier(std::string_view name, double seconds) override;

  /// From now on rank 0 counts as lost after this time.
  void setSilence(double seconds) { silenceSeconds = seconds; }
  /// Tells rank 0 of a signal; waits for nothing.
  void requestStop(int signal);
  /// What has become of an error that was to end the run.
  enum class Told : uint8_t {
    Yes,  ///< all know it, or the one by which the run had ended
    No,   ///< the server does not answer in time
    Gone, ///< the server is gone
    Ended ///< the run had ended well, and stays so
  };
  /// Ends the run for everyone; returns when the server has told them.
  Told fail(const Error &error, Deadline deadline);
  /// Leaves in good order; no other call follows.
  void leave();
  /// Why the run has failed, once that is known; nothing if it is not in time.
  std::optional<Error> waitForFailure(Deadline deadline);
  /// Whether the others have gone on because this process was stopped for
  /// longer than they wait.
  bool wasStopped() const { return isStopped; }
  /// Waits until the server is gone.
  void waitForServer(Deadline deadline);
  /// This machine's end of the connection.
  Address getLocalAddress() const { return runtime::getLocalAddress(socket); }

private:
  StoreClient(Socket socket, int64_t rank, double silenceSeconds,
              FailureCallback onFailure);

  void read();
  /// Handles one message; false if it makes no sense.
  bool handle(MessageReader &message);
  void loseServer(const Error &error);
  Result<std::string> request(MessageWriter &writer, uint32_t number,
                              Deadline deadline = Deadline::max());
  uint32_t getNumber();
  bool sendFrame(const std::string &frame);

  Socket socket;
  const int64_t rank;
  std::atomic<bool> isStopped = false;
  std::atomic<double> silenceSeconds;
  FailureCallback onFailure;
  std::mutex sending;
  std::mutex mutex;
  std::condition_variable changed;
  uint32_t nextNumber = 1;
  /// Requests under way; with their answer once it is there.
  std::map<uint32_t, std::optional<Result<std::string>>> requests;
  std::optional<Error> failure; ///< of the run
  bool isNoticed = false;       ///< told by the server, not found here
  /// All have done what was asked for: the server may go.
  bool isLeaving = false;
  uint32_t endRequest = 0; ///< number of the one whose answer says so; 0: none
  bool isServerGone = false;
  Socket wakeUp;
  std::thread thread;
};

} // namespace meshc::runtime

#endif
