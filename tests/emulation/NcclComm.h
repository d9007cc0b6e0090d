#ifndef MESHC_TESTS_EMULATION_NCCLCOMM_H
#define MESHC_TESTS_EMULATION_NCCLCOMM_H

/// Communicators of the emulated NCCL, and the collectives as state machines
/// over messages. Every rank tells every other what it runs, so that ranks that
/// disagree are found; reductions are in the order of ranks.

#include "NcclAbi.h"
#include "NcclWorld.h"

#include <memory>

namespace meshc::emulation {

enum class CollectiveKind : int32_t {
  allReduce,
  reduceScatter,
  allGather,
  broadcast,
  allToAll,
  send,
  recv
};

/// What a rank was asked for.
struct Request {
  CollectiveKind kind;
  const unsigned char *from = nullptr;
  unsigned char *to = nullptr;
  uint64_t count = 0; ///< elements, as in the call
  int type = 0, operation = ncclSum;
  int root = 0; ///< of broadcast; the peer of send and recv
};

std::string describe(const Request &request);
/// 0 for types that are not emulated.
size_t getNcclTypeBytes(int type);

struct Communicator {
  World *world = nullptr;
  uint64_t hash = 0;
  std::vector<int> members; ///< ranks of the world
  int rank = 0;             ///< of this process among them
  bool isBlocking = true;
  int device = 0;
  std::string name;               ///< for messages
  unsigned long long buffers = 0; ///< since its first use

  // Under the world's lock.
  int state = ncclInProgress; ///< of its making; then success
  int error = ncclSuccess;
  std::string text; ///< of the error
  bool aborted = false, finalized = false;
  uint64_t begun = 0, done = 0, splits = 0;
  /// Work in streams that is not done, and in graphs that are not destroyed:
  /// only behind these does a communicator end.
  int references = 0;
  int busyPolls = 0; ///< how often it still says "in progress"
  /// A split has ended, of which the caller hears when it asks next: its child,
  /// null where there is none for this rank, and where the handle goes.
  bool hasSplit = false;
  std::shared_ptr<Communicator> child;
  ncclComm_t *childPlace = nullptr;
  std::map<uint64_t, std::string> issued; ///< headers of what was begun
  std::map<std::pair<int, bool>, uint64_t> points; ///< by peer and direction

  int size() const { return static_cast<int>(members.size()); }
  bool isInProgress() const {
    return state == ncclInProgress || busyPolls > 0 ||
           (finalized && references > 0);
  }
  bool hasMember(int rankOfWorld) const;
  /// What went wrong here: prints it and tells the other members. The first
  /// error stays.
  void fail(int code, const std::string &why);
  /// The same, of which the others hear nothing.
  void failAlone(int code, const std::string &why);
  /// What went wrong elsewhere, where it was printed.
  void adopt(int code, const std::string &why);
  void tell(int code, const std::string &why);
  /// Compares what another rank runs with what this one does.
  void check(uint64_t sequence, int from, const std::string &header);
};

using CommunicatorRef = std::shared_ptr<Communicator>;

/// One execution of a collective, or of the sends and recvs of a group.
class Execution {
public:
  virtual ~Execution() = default;
  /// As meshcEmulationWork::poll.
  int poll();

protected:
  /// With the world's lock held.
  explicit Execution(CommunicatorRef communicator);
  /// Whether it is complete. With the world's lock held.
  virtual bool advance() = 0;
  /// Whether a message from a member has come; fails where it cannot any more.
  bool hasArrived(const MessageKey &key);

  CommunicatorRef communicator;
  World &world;

private:
  /// Among all executions of this rank, from 1 on.
  int64_t number;
};

/// Numbers the request, so that it is matched with those of other ranks.
std::unique_ptr<Execution> beginCollective(const CommunicatorRef &communicator,
                                           const Request &request);
std::unique_ptr<Execution> beginPoints(const CommunicatorRef &communicator,
                                       const std::vector<Request> &requests);

} // namespace meshc::emulation

#endif
