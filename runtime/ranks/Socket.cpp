#include "runtime/ranks/Socket.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

using Clock = std::chrono::steady_clock;

Socket &Socket::operator=(Socket &&other) noexcept {
  if (this != &other) {
    close();
    descriptor = other.release();
  }
  return *this;
}

int Socket::release() { return std::exchange(descriptor, -1); }

void Socket::close() {
  if (descriptor >= 0)
    ::close(release());
}

Result<Address> runtime::parseAddress(std::string_view what,
                                      std::string_view text) {
  const size_t colon = text.rfind(':');
  std::string_view host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != std::string_view::npos)
    host = "";
  unsigned port = 0;
  if (colon != std::string_view::npos) {
    const char *end = text.data() + text.size();
    auto [rest, error] = std::from_chars(text.data() + colon + 1, end, port);
    if (error != std::errc() || rest != end)
      port = 0;
  }
  if (host.empty() || port == 0 || port > 65535)
    return Error{ErrorCode::WrongRanks,
                 fmt::format("{}: expected HOST:PORT, found '{}'", what, text),
                 ""};
  return Address{std::string(host), uint16_t(port)};
}

std::string runtime::toString(const Address &address) {
  return address.host.find(':') == std::string::npos
             ? fmt::format("{}:{}", address.host, address.port)
             : fmt::format("[{}]:{}", address.host, address.port);
}

Deadline runtime::getDeadline(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(seconds));
}

double runtime::getSecondsUntil(Deadline deadline) {
  return std::chrono::duration<double>(deadline - Clock::now()).count();
}

/// For poll(): rounded up, so that the time has passed afterwards.
static int getMilliseconds(Deadline deadline) {
  return int(std::ceil(std::clamp(getSecondsUntil(deadline), 0.0, 1e6) * 1e3));
}

static Error getConnectError(const char *what, const Address &address,
                             const std::string &why, std::string note = "") {
  return {ErrorCode::CannotConnect,
          fmt::format("cannot {} {}: {}", what, toString(address), why),
          std::move(note)};
}

namespace {
struct FreeAddresses {
  void operator()(addrinfo *addresses) const { freeaddrinfo(addresses); }
};
using AddressList = std::unique_ptr<addrinfo, FreeAddresses>;
} // namespace

/// What the name of a host stands for; the number of getaddrinfo if nothing.
static std::pair<AddressList, int> resolve(const Address &address) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo *found = nullptr;
  const int error =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(),
                  &hints, &found);
  return {AddressList(error == 0 ? found : nullptr), error};
}

static void setOption(const Socket &socket, int level, int option) {
  const int on = 1;
  setsockopt(socket.get(), level, option, &on, sizeof(on));
}

Result<Socket> runtime::listenOn(const Address &address) {
  auto [addresses, unknown] = resolve(address);
  if (unknown)
    return getConnectError("listen on", address, gai_strerror(unknown));
  int error = 0;
  for (addrinfo *info = addresses.get(); info; info = info->ai_next) {
    Socket socket(
        ::socket(info->ai_family, info->ai_socktype | SOCK_CLOEXEC, 0));
    if (!socket.isOpen()) {
      error = errno;
      continue;
    }
    setOption(socket, SOL_SOCKET, SO_REUSEADDR);
    if (bind(socket.get(), info->ai_addr, info->ai_addrlen) == 0 &&
        listen(socket.get(), SOMAXCONN) == 0)
      return socket;
    error = errno;
  }
  std::string note;
  if (error == EADDRINUSE)
    note = "choose another port with --store or MASTER_PORT";
  else if (error == EADDRNOTAVAIL)
    note = "rank 0 must run on the machine of this address";
  return getConnectError("listen on", address, std::strerror(error), note);
}

/// A connection to one address; the reason in `error` if there is none.
static Socket connectOnce(const addrinfo &info, Deadline deadline, int &error) {
  Socket socket(::socket(info.ai_family,
                         info.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.isOpen()) {
    error = errno;
    return {};
  }
  if (connect(socket.get(), info.ai_addr, info.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) {
      error = errno;
      return {};
    }
    pollfd wait{socket.get(), POLLOUT, 0};
    int ready;
    do
      ready = poll(&wait, 1, getMilliseconds(deadline));
    while (ready < 0 && errno == EINTR);
    error = ETIMEDOUT;
    socklen_t size = sizeof(error);
    if (ready > 0)
      getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0)
      return {};
  }
  // A client may be given the very port that it looks for, and reach itself.
  sockaddr_storage near{}, far{};
  socklen_t nearSize = sizeof(near), farSize = sizeof(far);
  getsockname(socket.get(), reinterpret_cast<sockaddr *>(&near), &nearSize);
  getpeername(socket.get(), reinterpret_cast<sockaddr *>(&far), &farSize);
  if (nearSize == farSize && std::memcmp(&near, &far, nearSize) == 0) {
    error = ECONNREFUSED;
    return {};
  }
  fcntl(socket.get(), F_SETFL, fcntl(socket.get(), F_GETFL) & ~O_NONBLOCK);
  setOption(socket, IPPROTO_TCP, TCP_NODELAY);
  return socket;
}

Result<Socket> runtime::connectTo(const Address &address, Deadline deadline) {
  constexpr double attemptSeconds = 5;
  constexpr auto pause = std::chrono::milliseconds(20);
  for (;;) {
    auto [addresses, unknown] = resolve(address);
    if (unknown && unknown != EAI_AGAIN)
      return getConnectError("connect to", address, gai_strerror(unknown));
    std::string why = unknown ? gai_strerror(unknown) : "";
    for (addrinfo *info = addresses.get(); info; info = info->ai_next) {
      int error = 0;
      Socket socket = connectOnce(
          *info, std::min(deadline, getDeadline(attemptSeconds)), error);
      if (socket.isOpen())
        return socket;
      why = std::strerror(error);
    }
    if (Clock::now() + pause >= deadline)
      return getConnectError("connect to", address, why);
    std::this_thread::sleep_for(pause);
  }
}

/// One end of a connection, by getsockname or getpeername.
static Address getEnd(const Socket &socket,
                      int (*get)(int, sockaddr *, socklen_t *)) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  auto *address = reinterpret_cast<sockaddr *>(&storage);
  get(socket.get(), address, &size);
  char host[NI_MAXHOST] = "";
  char port[NI_MAXSERV] = "0";
  getnameinfo(address, size, host, sizeof(host), port, sizeof(port),
              NI_NUMERICHOST | NI_NUMERICSERV);
  return {host, uint16_t(std::atoi(port))};
}

Address runtime::getLocalAddress(const Socket &socket) {
  return getEnd(socket, getsockname);
}

Address runtime::getPeerAddress(const Socket &socket) {
  return getEnd(socket, getpeername);
}

/// The IPv4 address of one, also where it is written as one of IPv6.
static std::optional<uint32_t> getVersion4(const sockaddr &address) {
  if (address.sa_family == AF_INET)
    return ntohl(
        reinterpret_cast<const sockaddr_in &>(address).sin_addr.s_addr);
  const in6_addr &host =
      reinterpret_cast<const sockaddr_in6 &>(address).sin6_addr;
  if (address.sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&host))
    return std::nullopt;
  uint32_t bits;
  std::memcpy(&bits, host.s6_addr + 12, sizeof(bits));
  return ntohl(bits);
}

std::optional<bool> runtime::isLoopback(const Address &address) {
  auto [addresses, unknown] = resolve(address);
  if (unknown)
    return std::nullopt;
  for (addrinfo *info = addresses.get(); info; info = info->ai_next) {
    const std::optional<uint32_t> version4 = getVersion4(*info->ai_addr);
    const bool isOne =
        version4 ? *version4 >> 24 == IN_LOOPBACKNET
                 : info->ai_family == AF_INET6 &&
                       IN6_IS_ADDR_LOOPBACK(
                           &reinterpret_cast<sockaddr_in6 *>(info->ai_addr)
                                ->sin6_addr);
    if (!isOne)
      return false;
  }
  return true;
}

bool runtime::isWildcard(const Address &address) {
  auto [addresses, unknown] = resolve(address);
  for (addrinfo *info = addresses.get(); info; info = info->ai_next) {
    const std::optional<uint32_t> version4 = getVersion4(*info->ai_addr);
    if (version4 ? *version4 == INADDR_ANY
                 : info->ai_family == AF_INET6 &&
                       IN6_IS_ADDR_UNSPECIFIED(
                           &reinterpret_cast<sockaddr_in6 *>(info->ai_addr)
                                ->sin6_addr))
      return true;
  }
  return false;
}

void runtime::setNonBlocking(const Socket &socket) {
  fcntl(socket.get(), F_SETFL, fcntl(socket.get(), F_GETFL) | O_NONBLOCK);
}

bool runtime::sendAll(const Socket &socket, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent =
        send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      pollfd wait{socket.get(), POLLOUT, 0};
      poll(&wait, 1, -1);
      continue;
    }
    if (sent < 0)
      return false;
    bytes = bytes.subspan(size_t(sent));
  }
  return true;
}

bool runtime::receiveAll(const Socket &socket, std::span<std::byte> bytes,
                         Deadline deadline) {
  while (!bytes.empty()) {
    pollfd wait{socket.get(), POLLIN, 0};
    const int ready = poll(&wait, 1, getMilliseconds(deadline));
    if (ready < 0 && errno == EINTR)
      continue;
    if (ready <= 0)
      return false;
    const ssize_t got =
        recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
      continue;
    if (got <= 0)
      return false;
    bytes = bytes.subspan(size_t(got));
  }
  return true;
}
