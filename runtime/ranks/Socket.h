#ifndef MESHC_RUNTIME_RANKS_SOCKET_H
#define MESHC_RUNTIME_RANKS_SOCKET_H

/// TCP connections between the processes of one run.

#include "runtime/exec/Error.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace meshc::runtime {

/// A descriptor that is closed with the object.
class Socket {
public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor(descriptor) {}
  Socket(Socket &&other) noexcept : descriptor(other.release()) {}
  Socket &operator=(Socket &&other) noexcept;
  ~Socket() { close(); }

  bool isOpen() const { return descriptor >= 0; }
  int get() const { return descriptor; }
  /// Gives the descriptor away.
  int release();
  void close();

private:
  int descriptor = -1;
};

struct Address {
  std::string host;
  uint16_t port = 0;
};

/// "127.0.0.1:29500", "node3:29500", "[::1]:29500".
/// Errors: WrongRanks where the host is empty or the port no number in
/// [1, 65535]; `what` says where the text came from.
Result<Address> parseAddress(std::string_view what, std::string_view text);
std::string toString(const Address &address);

using Deadline = std::chrono::steady_clock::time_point;
Deadline getDeadline(double seconds);
double getSecondsUntil(Deadline deadline);

/// Listens on this address alone; port 0 takes a free one.
/// Errors: CannotConnect, in the system's words.
Result<Socket> listenOn(const Address &address);
/// Connects, again and again while nobody listens there yet.
/// Errors: CannotConnect when the deadline has passed or the host is unknown.
Result<Socket> connectTo(const Address &address, Deadline deadline);

/// The end of a connection, or of a listening socket, on this machine.
Address getLocalAddress(const Socket &socket);
/// The other end of a connection.
Address getPeerAddress(const Socket &socket);

/// Whether all that a host stands for is this machine as only its own processes
/// reach it: 127.0.0.1, ::1, localhost. Nothing where the host is unknown.
std::optional<bool> isLoopback(const Address &address);
/// Whether it stands for every network of this machine: 0.0.0.0 or ::.
bool isWildcard(const Address &address);

/// Makes reads and writes return at once instead of waiting.
void setNonBlocking(const Socket &socket);

/// Sends or fills all of `bytes`; false if the connection ends first or, with
/// a deadline, that has passed.
bool sendAll(const Socket &socket, std::span<const std::byte> bytes);
bool receiveAll(const Socket &socket, std::span<std::byte> bytes,
                Deadline deadline);

} // namespace meshc::runtime

#endif
