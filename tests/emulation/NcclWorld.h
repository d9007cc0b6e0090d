#ifndef MESHC_TESTS_EMULATION_NCCLWORLD_H
#define MESHC_TESTS_EMULATION_NCCLWORLD_H

/// The processes of one NCCL communicator of all ranks and the messages between
/// them. Each process listens on a local socket named by the unique id and its
/// rank and is connected with every other; a socket that closes without a
/// farewell is a rank that has died.

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

namespace meshc::emulation {

/// What a message is.
enum class MessageKind : uint32_t {
  firstPhase,  ///< of a collective
  secondPhase, ///< the parts of an all_reduce, summed
  point,       ///< from send to recv
  split,
  failure, ///< of a communicator
  farewell
};

struct MessageKey {
  uint64_t communicator;
  MessageKind kind;
  uint64_t sequence; ///< counts per communicator, of points per peer
  int from;          ///< rank of the world

  auto tie() const { return std::tie(communicator, kind, sequence, from); }
  bool operator<(const MessageKey &other) const { return tie() < other.tie(); }
};

struct Message {
  std::string header;
  std::string payload;
};

struct Communicator;

/// Never destroyed: its thread may be the last one that knows it.
class World {
public:
  World(std::string id, int size, int rank, int bus);
  World(const World &) = delete;

  /// Connects with every rank. Returns an ncclResult_t and says in `error` what
  /// went wrong. Not with the lock held.
  int connect(std::string &error);
  /// Says farewell to all ranks once everything is written, and waits for that;
  /// lets connect return. Not with the lock held.
  void stop();

  const std::string id;
  const int size, rank;
  std::mutex mutex;

  // The rest needs the lock.
  void send(int to, const MessageKey &key, std::string header,
            std::string payload);
  /// Null as long as it has not arrived.
  const Message *find(const MessageKey &key) const;
  Message take(const MessageKey &key);
  /// Ranks that have died.
  std::vector<bool> dead;
  /// Ranks that have said farewell: nothing more comes from them.
  std::vector<bool> left;

  std::map<uint64_t, uint64_t> begun; ///< collectives, per communicator
  int64_t executions = 0;             ///< of collectives and groups of messages
  std::map<uint64_t, std::weak_ptr<Communicator>> communicators;

private:
  struct Peer {
    int socket = -1;
    std::string in;
    std::deque<std::string> out;
    size_t sent = 0; ///< of out's first
    bool saidFarewell = false;
    int bus = -1;
    std::string host;
  };
  int connectAll(std::string &error);
  int connectTo(int peer);
  bool exchange(int socket, int &peer, std::string &error);
  int checkPlaces(std::string &error) const;
  void transfer(); ///< the thread that does all reading and writing
  void read(int peer);
  void write(int peer);
  void lose(int peer);
  bool parse(int peer);
  void closeAll();
  /// Tells the communicators of a message; without one, that a rank has died.
  void tell(const MessageKey &key, const Message *message);

  const int bus;
  std::vector<Peer> peers;
  std::map<MessageKey, Message> inbox;
  int listener = -1, wake = -1;
  std::atomic<bool> stopping = false, transferring = false, ended = false;
};

} // namespace meshc::emulation

#endif
