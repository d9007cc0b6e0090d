#include "NcclWorld.h"

#include "NcclComm.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <utility>

using namespace meshc::emulation;

namespace {

/// What ranks tell each other first.
struct Hello {
  int32_t rank, size, bus;
  char host[64]; ///< NCCL_HOSTID: of another value, of another machine
};

struct Frame {
  uint64_t communicator, sequence;
  MessageKind kind;
  uint64_t headerBytes, payloadBytes;
};

std::string toBytes(const Frame &frame) {
  return {reinterpret_cast<const char *>(&frame), sizeof frame};
}

/// An abstract name: gone when the process is.
socklen_t makeAddress(const std::string &id, int rank, sockaddr_un &address) {
  address = {};
  address.sun_family = AF_UNIX;
  std::string name = "meshc-nccl-" + id + "-" + std::to_string(rank);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                name.size());
}

void rest() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

const char *getHost() {
  const char *host = std::getenv("NCCL_HOSTID");
  return host ? host : "";
}

} // namespace

World::World(std::string id, int size, int rank, int bus)
    : id(std::move(id)), size(size), rank(rank), dead(size), left(size),
      bus(bus), peers(size) {
  wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void World::stop() {
  {
    // What was sent is written; then the farewell.
    std::lock_guard lock(mutex);
    if (stopping)
      return;
    for (int peer = 0; peer < size && transferring; ++peer)
      if (peers[peer].socket >= 0)
        send(peer, {0, MessageKind::farewell, 0, rank}, "", "");
    stopping = true;
  }
  uint64_t one = 1;
  if (::write(wake, &one, sizeof one) != sizeof one)
    std::perror("meshc emulation: NCCL: waking");
  // The process may end after this.
  while (transferring && !ended)
    rest();
}

// ---- connecting -------------------------------------------------------------

/// A socket connected with the lower rank `peer`; -1 if this is to stop.
int World::connectTo(int peer) {
  sockaddr_un address;
  socklen_t bytes = makeAddress(id, peer, address);
  while (!stopping) {
    int connected = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(connected, reinterpret_cast<sockaddr *>(&address), bytes) ==
        0)
      return connected;
    close(connected);
    rest(); // not there yet
  }
  return -1;
}

bool World::exchange(int socket, int &peer, std::string &error) {
  Hello own{rank, size, bus, {}}, other;
  std::snprintf(own.host, sizeof own.host, "%s", getHost());
  if (::send(socket, &own, sizeof own, MSG_NOSIGNAL) != sizeof own ||
      recv(socket, &other, sizeof other, MSG_WAITALL) != sizeof other) {
    error = "a rank has died while ranks were connecting";
    return false;
  }
  if (other.size != size || other.rank < 0 || other.rank >= size) {
    error = "rank " + std::to_string(rank) + " is one of " +
            std::to_string(size) + ", rank " + std::to_string(other.rank) +
            " is one of " + std::to_string(other.size);
    return false;
  }
  peer = other.rank;
  peers[peer].socket = socket;
  peers[peer].bus = other.bus;
  peers[peer].host = other.host;
  return true;
}

/// NCCL 2.28.9 refuses two ranks on one GPU of one machine.
int World::checkPlaces(std::string &error) const {
  for (int i = 0; i < size; ++i)
    for (int j = 0; j < i; ++j)
      if (peers[i].bus == peers[j].bus && peers[i].host == peers[j].host) {
        char bus[16];
        std::snprintf(bus, sizeof bus, "%x", (peers[i].bus + 1) << 12);
        error = "Duplicate GPU detected : rank " + std::to_string(j) +
                " and rank " + std::to_string(i) + " both on CUDA device " +
                bus;
        return ncclInvalidUsage;
      }
  return ncclSuccess;
}

int World::connect(std::string &error) {
  int result = connectAll(error);
  if (result != ncclSuccess) {
    std::lock_guard lock(mutex);
    closeAll();
  }
  return result;
}

int World::connectAll(std::string &error) {
  peers[rank].bus = bus;
  peers[rank].host = getHost();
  sockaddr_un address;
  socklen_t bytes = makeAddress(id, rank, address);
  listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (bind(listener, reinterpret_cast<sockaddr *>(&address), bytes) ||
      listen(listener, size)) {
    error = "rank " + std::to_string(rank) +
            " is there twice: " + std::strerror(errno);
    return ncclInvalidUsage;
  }
  int peer;
  for (int lower = 0; lower < rank; ++lower) {
    int connected = connectTo(lower);
    if (connected < 0)
      return ncclInternalError;
    if (!exchange(connected, peer, error))
      return ncclRemoteError;
  }
  for (int higher = rank + 1; higher < size; ++higher) {
    int accepted = -1;
    while (!stopping && accepted < 0) {
      accepted = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (accepted < 0)
        rest();
    }
    if (accepted < 0)
      return ncclInternalError;
    if (!exchange(accepted, peer, error))
      return ncclRemoteError;
  }
  if (int result = checkPlaces(error))
    return result;
  transferring = true;
  std::thread([this] { transfer(); }).detach();
  return ncclSuccess;
}

// ---- messages ---------------------------------------------------------------

void World::send(int to, const MessageKey &key, std::string header,
                 std::string payload) {
  if (to == rank) {
    Message &message = inbox[key];
    message = {std::move(header), std::move(payload)};
    return;
  }
  Frame frame{key.communicator, key.sequence, key.kind, header.size(),
              payload.size()};
  Peer &peer = peers[to];
  peer.out.push_back(toBytes(frame) + header);
  if (!payload.empty())
    peer.out.push_back(std::move(payload));
  uint64_t one = 1;
  if (::write(wake, &one, sizeof one) != sizeof one && errno != EAGAIN)
    std::perror("meshc emulation: NCCL: waking");
}

const Message *World::find(const MessageKey &key) const {
  auto found = inbox.find(key);
  return found == inbox.end() ? nullptr : &found->second;
}

Message World::take(const MessageKey &key) {
  auto found = inbox.find(key);
  Message message = std::move(found->second);
  inbox.erase(found);
  return message;
}

void World::transfer() {
  // A rank that does not read does not keep another one from ending.
  using Clock = std::chrono::steady_clock;
  constexpr auto patience = std::chrono::seconds(2);
  Clock::time_point deadline = Clock::now() + patience;
  for (;;) {
    std::vector<pollfd> polled = {{wake, POLLIN, 0}};
    std::vector<int> numbers = {rank};
    bool writes = false, stops = false;
    {
      std::lock_guard lock(mutex);
      // With what is to be written: the farewell comes together with it.
      stops = stopping;
      for (int peer = 0; peer < size; ++peer) {
        if (peers[peer].socket < 0)
          continue;
        short events = POLLIN;
        if (!peers[peer].out.empty()) {
          events |= POLLOUT;
          writes = true;
        }
        polled.push_back({peers[peer].socket, events, 0});
        numbers.push_back(peer);
      }
    }
    if (stops && (!writes || Clock::now() > deadline))
      break;
    if (!stops)
      deadline = Clock::now() + patience;
    poll(polled.data(), polled.size(), 100);
    std::lock_guard lock(mutex);
    uint64_t count;
    while (::read(wake, &count, sizeof count) > 0)
      ;
    for (size_t i = 1; i < polled.size(); ++i) {
      if (polled[i].revents & POLLOUT)
        write(numbers[i]);
      if (polled[i].revents & (POLLIN | POLLHUP | POLLERR) &&
          peers[numbers[i]].socket >= 0)
        read(numbers[i]);
    }
  }
  std::lock_guard lock(mutex);
  closeAll();
  ended = true;
}

void World::closeAll() {
  for (Peer &peer : peers)
    if (peer.socket >= 0)
      close(std::exchange(peer.socket, -1));
  if (listener >= 0)
    close(std::exchange(listener, -1));
}

void World::tell(const MessageKey &key, const Message *message) {
  for (auto &[hash, weak] : communicators) {
    std::shared_ptr<Communicator> communicator = weak.lock();
    if (!communicator)
      continue;
    if (!message && communicator->hasMember(key.from))
      communicator->fail(ncclRemoteError,
                         "rank " + std::to_string(key.from) + " has died");
    if (!message || hash != key.communicator)
      continue;
    if (key.kind == MessageKind::firstPhase)
      communicator->check(key.sequence, key.from, message->header);
    if (key.kind == MessageKind::failure) {
      int code;
      std::memcpy(&code, message->header.data(), sizeof code);
      communicator->adopt(code, message->payload);
    }
  }
}

void World::write(int number) {
  Peer &peer = peers[number];
  while (peer.socket >= 0 && !peer.out.empty()) {
    const std::string &first = peer.out.front();
    ssize_t count =
        ::send(peer.socket, first.data() + peer.sent, first.size() - peer.sent,
               MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0) {
      if (errno != EAGAIN)
        lose(number);
      return;
    }
    peer.sent += count;
    if (peer.sent == first.size()) {
      peer.out.pop_front();
      peer.sent = 0;
    }
  }
}

void World::read(int number) {
  Peer &peer = peers[number];
  char buffer[1 << 16];
  ssize_t count;
  while ((count = recv(peer.socket, buffer, sizeof buffer, MSG_DONTWAIT)) > 0)
    peer.in.append(buffer, count);
  if (count == 0 || errno != EAGAIN)
    return lose(number);
  while (parse(number))
    ;
}

/// Takes one message out of what was read, if it is whole.
bool World::parse(int number) {
  Peer &peer = peers[number];
  Frame frame;
  if (peer.in.size() < sizeof frame)
    return false;
  std::memcpy(&frame, peer.in.data(), sizeof frame);
  size_t bytes = sizeof frame + frame.headerBytes + frame.payloadBytes;
  if (peer.in.size() < bytes) {
    peer.in.reserve(bytes);
    return false;
  }
  Message message{
      peer.in.substr(sizeof frame, frame.headerBytes),
      peer.in.substr(sizeof frame + frame.headerBytes, frame.payloadBytes)};
  peer.in.erase(0, bytes);
  if (frame.kind == MessageKind::farewell) {
    peer.saidFarewell = true;
    left[number] = true;
    return true;
  }
  MessageKey key{frame.communicator, frame.kind, frame.sequence, number};
  tell(key, &message);
  if (frame.kind != MessageKind::failure)
    inbox[key] = std::move(message);
  return true;
}

void World::lose(int number) {
  Peer &peer = peers[number];
  // Where the other side has not read everything, its end is told, once, before
  // what it has sent: a farewell may still come.
  char buffer[1 << 16];
  for (int errors = 0; errors < 2;) {
    ssize_t count = recv(peer.socket, buffer, sizeof buffer, MSG_DONTWAIT);
    if (count == 0)
      break;
    if (count < 0)
      ++errors;
    else
      peer.in.append(buffer, count);
  }
  while (parse(number))
    ;
  close(peer.socket);
  peer.socket = -1;
  peer.out.clear();
  if (peer.saidFarewell || stopping)
    return;
  dead[number] = true;
  tell({0, MessageKind::farewell, 0, number}, nullptr);
}
