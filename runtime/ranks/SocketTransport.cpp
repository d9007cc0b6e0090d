#include "runtime/ranks/SocketTransport.h"

#include "runtime/ranks/Handshake.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <list>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

static constexpr uint32_t messageMagic = 0x6d736867;
static constexpr double connectSeconds = 60;

namespace {
/// Where a rank takes the connections of the others.
struct DataPlace {
  RankKey key;      ///< of this transport of this run
  std::string name; ///< of the rank that is called
};

/// A connection that somebody has made.
struct Visitor {
  Socket socket;
  Reception reception;
  std::string received;
};
} // namespace

static DataPlace getPlace(const RankKey &key, int64_t rank) {
  return {key, fmt::format("data of rank {}", rank)};
}

/// Calls a rank, again where it has closed the connection: too many strangers
/// may have called at the same time.
static Result<Socket> callPeer(const Address &address, const DataPlace &place,
                               Caller caller) {
  constexpr auto pause = std::chrono::milliseconds(100);
  const Deadline deadline = getDeadline(connectSeconds);
  caller.place = place.name;
  for (;;) {
    Result<Socket> socket = connectTo(address, deadline);
    if (!socket)
      return socket;
    Status known = introduce(*socket, address, place.key, caller,
                             connectSeconds, deadline);
    if (known)
      return socket;
    if (known.getError().code != ErrorCode::CannotConnect ||
        getSecondsUntil(deadline) <= 0)
      return known.getError();
    std::this_thread::sleep_for(pause);
  }
}

/// Reads what a visitor says and answers; Waiting until that is enough.
static Reception::State talk(Visitor &visitor, const DataPlace &place) {
  std::array<char, 4096> bytes;
  const ssize_t got =
      recv(visitor.socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK))
    return Reception::State::Waiting;
  if (got <= 0)
    return Reception::State::Stranger;
  visitor.received.append(bytes.data(), size_t(got));
  bool tooLong = false;
  Reception::State state = Reception::State::Waiting;
  while (state == Reception::State::Waiting) {
    std::optional<std::string> body =
        takeFrame(visitor.received, maxHelloBytes, tooLong);
    if (!body)
      return tooLong ? Reception::State::Stranger : state;
    std::string answer;
    state = visitor.reception.take(place.key, place.name, /*job=*/"", *body,
                                   answer);
    // So short that every connection takes it.
    if (!sendAll(visitor.socket, std::as_bytes(std::span(answer))))
      return Reception::State::Stranger;
  }
  return state;
}

/// Accepts the connections of all higher ranks. Strangers are turned away, and
/// make nobody wait; one that says nothing may be a rank that is stopped.
static Status acceptPeers(const Socket &listener, const DataPlace &place,
                          std::vector<Socket> &sockets, int64_t rank) {
  constexpr size_t maxVisitors = 256;
  const Deadline deadline = getDeadline(connectSeconds);
  const std::string welcome =
      MessageWriter(StoreMessage::Value, 0).text("").finish();
  std::list<Visitor> visitors;
  int64_t missing = int64_t(sockets.size()) - rank - 1;
  while (missing > 0) {
    if (getSecondsUntil(deadline) <= 0)
      return Error{ErrorCode::MissingRank,
                   fmt::format("{} ranks did not connect to rank {} within "
                               "{:g} s",
                               missing, rank, connectSeconds),
                   ""};
    std::vector<pollfd> polls = {{listener.get(), POLLIN, 0}};
    for (const Visitor &visitor : visitors)
      polls.push_back({visitor.socket.get(), POLLIN, 0});
    if (poll(polls.data(), polls.size(), 100) < 0)
      continue; // interrupted
    size_t next = 1;
    for (auto visitor = visitors.begin(); visitor != visitors.end();) {
      auto current = visitor++;
      Reception::State state = Reception::State::Waiting;
      if (polls[next++].revents)
        state = talk(*current, place);
      const int64_t caller = current->reception.getCaller().rank;
      const bool isPeer = state == Reception::State::Known && caller > rank &&
                          caller < int64_t(sockets.size()) &&
                          !sockets[caller].isOpen() &&
                          current->received.empty();
      if (isPeer &&
          sendAll(current->socket, std::as_bytes(std::span(welcome)))) {
        const int on = 1;
        setsockopt(current->socket.get(), IPPROTO_TCP, TCP_NODELAY, &on,
                   sizeof(on));
        sockets[caller] = std::move(current->socket);
        --missing;
      }
      if (state != Reception::State::Waiting)
        visitors.erase(current);
    }
    if (!polls[0].revents)
      continue;
    Socket socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket.isOpen())
      continue;
    // The oldest of too many goes.
    if (visitors.size() == maxVisitors)
      visitors.pop_front();
    visitors.push_back({std::move(socket), {}, ""});
  }
  return Status::success();
}

Status SocketTransport::connectAll(Ranks &ranks) {
  Store &store = ranks.getStore();
  const int64_t rank = ranks.getRank();
  std::vector<Socket> sockets(ranks.getNumRanks());
  Result<Socket> listener = listenOn({ranks.getHost(), 0});
  if (!listener)
    return listener.getError();
  if (ranks.isFirst()) {
    Status set = store.set("transport/run", RankKey::makeText());
    if (!set)
      return set;
  }
  // Without a key of the run, those who can read the store know it.
  Result<std::string> run = store.get("transport/run", connectSeconds);
  if (!run)
    return run.getError();
  const RankKey key = ranks.getKey().derive({"data", *run});
  Status set = store.set(fmt::format("transport/{}", rank),
                         toString(getLocalAddress(*listener)));
  if (!set)
    return set;

  // Every rank calls the lower ones before it answers the higher ones: rank 0
  // answers at once, and so one after the other does.
  for (int64_t other = 0; other < rank; ++other) {
    Result<std::string> text =
        store.get(fmt::format("transport/{}", other), connectSeconds);
    if (!text)
      return text.getError();
    Result<Address> address = parseAddress("the store", *text);
    if (!address)
      return address.getError();
    Result<Socket> socket =
        callPeer(*address, getPlace(key, other),
                 {"", "", rank, ranks.getNumRanks(), "", ""});
    if (!socket)
      return getConnectionError(other, socket.getError().message);
    sockets[other] = std::move(*socket);
  }
  Status all = acceptPeers(*listener, getPlace(key, rank), sockets, rank);
  if (!all)
    return all;
  for (Socket &socket : sockets) {
    peers.emplace_back();
    if (!socket.isOpen())
      continue;
    setNonBlocking(socket);
    peers.back() = std::make_unique<Peer>();
    peers.back()->socket = std::move(socket);
  }
  return Status::success();
}

Result<std::unique_ptr<Transport>> SocketTransport::create(Ranks &ranks) {
  std::unique_ptr<SocketTransport> transport(new SocketTransport());
  Status connected = transport->connectAll(ranks);
  if (!connected)
    return connected.getError();
  transport->wakeUp = Socket(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  return std::unique_ptr<Transport>(std::move(transport));
}

SocketTransport::~SocketTransport() {
  if (!thread.joinable())
    return;
  {
    std::lock_guard<std::mutex> lock(doneMutex);
    stopping = true;
  }
  notify();
  thread.join();
}

void SocketTransport::start(Listener &newListener) {
  listener = &newListener;
  thread = std::thread([this] { work(); });
}

void SocketTransport::notify() {
  const uint64_t one = 1;
  [[maybe_unused]] ssize_t written = write(wakeUp.get(), &one, sizeof(one));
}

void SocketTransport::receive(std::span<const TransportMessage> messages) {
  for (const TransportMessage &message : messages) {
    Peer &peer = *peers[message.peer];
    std::lock_guard<std::mutex> lock(peer.mutex);
    peer.expected[message.tag].push_back(message);
  }
  // Something may have waited for one of them.
  notify();
}

void SocketTransport::send(std::span<const TransportMessage> messages) {
  std::vector<size_t> done;
  bool needsThread = false;
  for (const TransportMessage &message : messages) {
    Peer &peer = *peers[message.peer];
    std::lock_guard<std::mutex> lock(peer.mutex);
    const bool isIdle = peer.outgoing.empty();
    peer.outgoing.push_back(
        {{message.tag, messageMagic, message.bytes}, message, 0});
    // The thread finds out itself that a connection is broken.
    if (isIdle)
      sendTo(peer, done);
    needsThread |= !peer.outgoing.empty();
  }
  if (!done.empty()) {
    std::lock_guard<std::mutex> lock(doneMutex);
    doneAtOnce.insert(doneAtOnce.end(), done.begin(), done.end());
    needsThread = true;
  }
  if (needsThread)
    notify();
}

bool SocketTransport::sendTo(Peer &peer, std::vector<size_t> &done) {
  while (!peer.outgoing.empty()) {
    Outgoing &next = peer.outgoing.front();
    const size_t total = sizeof(Header) + next.message.bytes;
    std::array<iovec, 2> parts;
    int numParts = 0;
    if (next.sent < sizeof(Header))
      parts[numParts++] = {reinterpret_cast<char *>(&next.header) + next.sent,
                           sizeof(Header) - next.sent};
    const size_t skip =
        next.sent < sizeof(Header) ? 0 : next.sent - sizeof(Header);
    if (skip < next.message.bytes)
      parts[numParts++] = {next.message.data + skip, next.message.bytes - skip};
    msghdr packet{};
    packet.msg_iov = parts.data();
    packet.msg_iovlen = size_t(numParts);
    const ssize_t sent =
        sendmsg(peer.socket.get(), &packet, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent < 0)
      return errno == EAGAIN || errno == EWOULDBLOCK;
    next.sent += size_t(sent);
    if (next.sent == total) {
      done.push_back(next.message.token);
      peer.outgoing.pop_front();
    }
  }
  return true;
}

bool SocketTransport::findReceive(Peer &peer) {
  std::lock_guard<std::mutex> lock(peer.mutex);
  auto waiting = peer.expected.find(peer.header.tag);
  if (waiting == peer.expected.end() || waiting->second.empty())
    return false;
  peer.incoming = waiting->second.front();
  waiting->second.pop_front();
  return true;
}

void SocketTransport::breakDown(int64_t rank, const std::string &why) {
  listener->onBroken(getConnectionError(rank, why));
}

bool SocketTransport::readFrom(int64_t rank) {
  Peer &peer = *peers[rank];
  // Others have their turn after this many messages.
  constexpr int maxMessages = 16;
  for (int count = 0; count < maxMessages;) {
    std::byte *target;
    size_t wanted;
    if (peer.received < sizeof(Header)) {
      target = reinterpret_cast<std::byte *>(&peer.header) + peer.received;
      wanted = sizeof(Header) - peer.received;
    } else {
      if (!peer.incoming) {
        if (peer.header.magic != messageMagic ||
            peer.header.tag > maxTransportTag) {
          breakDown(rank, "it sends what is no message");
          return false;
        }
        if (!findReceive(peer))
          return true;
        if (peer.incoming->bytes != peer.header.bytes) {
          breakDown(rank, fmt::format("expected {} bytes, found {}",
                                      peer.incoming->bytes, peer.header.bytes));
          return false;
        }
      }
      const size_t got = peer.received - sizeof(Header);
      target = peer.incoming->data + got;
      wanted = peer.incoming->bytes - got;
      if (wanted == 0) {
        listener->onReceived(peer.incoming->token);
        peer.incoming.reset();
        peer.received = 0;
        ++count;
        continue;
      }
    }
    const ssize_t got = recv(peer.socket.get(), target, wanted, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      return true;
    if (got <= 0) {
      breakDown(rank, got == 0 ? "it was closed" : std::strerror(errno));
      return false;
    }
    peer.received += size_t(got);
  }
  return true;
}

void SocketTransport::work() {
  std::vector<bool> isHeldUp(peers.size()); ///< by a receive not posted yet
  for (;;) {
    std::vector<pollfd> polls = {{wakeUp.get(), POLLIN, 0}};
    std::vector<int64_t> polled;
    for (size_t rank = 0; rank < peers.size(); ++rank) {
      if (!peers[rank])
        continue;
      Peer &peer = *peers[rank];
      isHeldUp[rank] = peer.received == sizeof(Header) && !peer.incoming;
      short events = isHeldUp[rank] ? 0 : POLLIN;
      {
        std::lock_guard<std::mutex> lock(peer.mutex);
        if (!peer.outgoing.empty())
          events |= POLLOUT;
      }
      polls.push_back({peer.socket.get(), events, 0});
      polled.push_back(int64_t(rank));
    }
    if (poll(polls.data(), polls.size(), -1) < 0)
      continue; // interrupted
    const bool isWoken = polls[0].revents != 0;
    std::vector<size_t> done;
    if (isWoken) {
      uint64_t count;
      [[maybe_unused]] ssize_t got =
          ::read(wakeUp.get(), &count, sizeof(count));
      std::lock_guard<std::mutex> lock(doneMutex);
      if (stopping)
        return;
      done.swap(doneAtOnce);
    }
    for (size_t i = 0; i < polled.size(); ++i) {
      Peer &peer = *peers[polled[i]];
      const short events = polls[i + 1].revents;
      if (events & POLLOUT) {
        std::lock_guard<std::mutex> lock(peer.mutex);
        if (!sendTo(peer, done))
          return breakDown(polled[i], std::strerror(errno));
      }
      const bool mayGoOn =
          isHeldUp[polled[i]] ? isWoken : bool(events & POLLIN);
      if (mayGoOn && !readFrom(polled[i]))
        return;
      if ((events & (POLLERR | POLLHUP | POLLNVAL)) && !(events & POLLIN))
        return breakDown(polled[i], "it was closed");
    }
    for (size_t token : done)
      listener->onSent(token);
  }
}
