#ifndef MESHC_RUNTIME_RANKS_TRANSPORT_H
#define MESHC_RUNTIME_RANKS_TRANSPORT_H

#include "runtime/exec/Error.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace meshc::runtime {

/// Bytes on their way between two processes. The receiver knows how many come.
struct TransportMessage {
  int64_t peer = 0; ///< the other rank
  uint32_t tag = 0; ///< at most maxTransportTag
  std::byte *data = nullptr;
  size_t bytes = 0;
  size_t token = 0; ///< for the listener
};

inline constexpr uint32_t maxTransportTag = (uint32_t(1) << 20) - 1;

/// Moves bytes between the processes of a CPU mesh, without ever making the
/// caller wait.
///
/// A message finds the receive with its tag and sender; two with the same tag
/// find them in the order in which they were sent and posted. A sender may be
/// ahead: what nobody has asked for yet waits on the way, and with it all that
/// the same sender sends later. Hence the rule of use: work goes in rounds that
/// are the same in all processes, and a process posts every receive of a round
/// before it waits for anything in it. What waits is then of a later round.
class Transport {
public:
  /// Called from the transport's own thread, one call at a time; must not wait.
  class Listener {
  public:
    virtual ~Listener() = default;
    virtual void onReceived(size_t token) = 0;
    /// The memory of the message may be used again.
    virtual void onSent(size_t token) = 0;
    /// Nothing else happens after this one.
    virtual void onBroken(const Error &error) = 0;
  };

  virtual ~Transport() = default;

  /// Before anything else. `listener` must outlive the transport's use.
  virtual void start(Listener &listener) = 0;
  virtual void receive(std::span<const TransportMessage> messages) = 0;
  virtual void send(std::span<const TransportMessage> messages) = 0;
};

class Ranks;

/// By what messages go: Auto is MPI where an MPI launcher has started the run,
/// TCP elsewhere.
enum class TransportKind : uint8_t { Auto, Tcp, Mpi };

/// "lost the connection to rank RANK: WHY", of code RankLost.
Error getConnectionError(int64_t rank, const std::string &why);

/// Connects all ranks; every rank has to call it.
Result<std::unique_ptr<Transport>> createTransport(Ranks &ranks,
                                                   TransportKind kind);

} // namespace meshc::runtime

#endif
