#ifndef MESHC_RUNTIME_RANKS_SOCKETTRANSPORT_H
#define MESHC_RUNTIME_RANKS_SOCKETTRANSPORT_H

#include "runtime/ranks/Ranks.h"
#include "runtime/ranks/Socket.h"
#include "runtime/ranks/Transport.h"

#include <array>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

namespace meshc::runtime {

/// A TCP connection between any two ranks. A thread receives; what is sent goes
/// into the connection at once as far as it takes it, the rest follows from the
/// thread. What waits for its receive waits in the connection, which thereby
/// slows its sender down.
class SocketTransport : public Transport {
public:
  /// Connects all ranks with each other; every rank has to call it.
  /// Errors: CannotConnect; those of the store.
  static Result<std::unique_ptr<Transport>> create(Ranks &ranks);
  ~SocketTransport() override;

  void start(Listener &listener) override;
  void receive(std::span<const TransportMessage> messages) override;
  void send(std::span<const TransportMessage> messages) override;

private:
  /// Before the bytes of a message.
  struct Header {
    uint32_t tag;
    uint32_t magic;
    uint64_t bytes;
  };
  struct Outgoing {
    Header header;
    TransportMessage message;
    size_t sent = 0; ///< of header and bytes
  };
  struct Peer {
    Socket socket;
    // Guarded by `mutex`.
    std::unordered_map<uint32_t, std::deque<TransportMessage>> expected;
    std::deque<Outgoing> outgoing;
    std::mutex mutex;
    // Of the thread alone.
    Header header;
    size_t received = 0; ///< of header and bytes
    std::optional<TransportMessage> incoming;
  };

  SocketTransport() = default;

  Status connectAll(Ranks &ranks);
  void work();
  /// Reads what is there; false if the connection is broken.
  bool readFrom(int64_t rank);
  /// The receive for the header that was read; none if it is not posted yet.
  bool findReceive(Peer &peer);
  /// Sends what the connection takes; false if it is broken. Adds the tokens of
  /// messages that are out. The peer's mutex is held.
  bool sendTo(Peer &peer, std::vector<size_t> &done);
  void breakDown(int64_t rank, const std::string &why);
  void notify();

  std::vector<std::unique_ptr<Peer>> peers; ///< null for this rank
  Listener *listener = nullptr;
  Socket wakeUp;         ///< readable when the thread has something else to do
  bool stopping = false; ///< guarded by doneMutex
  std::vector<size_t> doneAtOnce; ///< sent by callers; guarded by doneMutex
  std::mutex doneMutex;
  std::thread thread;
};

} // namespace meshc::runtime

#endif
