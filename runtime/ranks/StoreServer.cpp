#include "runtime/ranks/StoreServer.h"

#include "runtime/io/Escape.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

using Clock = std::chrono::steady_clock;

/// For a stranger to say Hello.
static constexpr double helloSeconds = 5;
/// Between looks at the clock.
static constexpr int tickMilliseconds = 100;

std::string runtime::listRanks(const std::vector<int64_t> &ranks) {
  constexpr size_t maxListed = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  const size_t listed = std::min(ranks.size(), maxListed);
  for (size_t i = 0; i < listed; ++i)
    text += fmt::format("{}{}",
                        i == 0                  ? ""
                        : i + 1 == ranks.size() ? " and "
                                                : ", ",
                        ranks[i]);
  if (listed < ranks.size())
    text += fmt::format(" and {} more", ranks.size() - listed);
  return text;
}

bool Pause::explains(Clock::time_point now, double patience) const {
  // A sign of life comes five times in that time (StoreClient::read), so that
  // the last one may have been older than the pause.
  return std::chrono::duration<double>(length).count() > patience * 4 / 5 &&
         now - end < std::chrono::seconds(1);
}

Error runtime::getStopped(int64_t rank, const Pause &pause) {
  return {ErrorCode::RankLost,
          fmt::format(
              "rank {} was stopped for {:.0f} s, and the others did not wait",
              rank, std::chrono::duration<double>(pause.length).count()),
          ""};
}

StoreServer::StoreServer(Socket listener, Options options)
    : listener(std::move(listener)), options(std::move(options)),
      wakeUp(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      endings(this->options.endings) {
  setNonBlocking(this->listener);
  thread = std::thread([this] { serve(); });
}

StoreServer::~StoreServer() {
  const uint64_t one = 1;
  // An eventfd takes this write unless its counter is full.
  [[maybe_unused]] ssize_t written = write(wakeUp.get(), &one, sizeof(one));
  thread.join();
}

bool StoreServer::waitForEnd(Deadline deadline) {
  while (numClients > 0 && getSecondsUntil(deadline) > 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return numClients == 0;
}

void StoreServer::serve() {
  for (;;) {
    std::vector<pollfd> polls = {{wakeUp.get(), POLLIN, 0},
                                 {listener.get(), POLLIN, 0},
                                 {endings.get(), POLLIN, 0}};
    const size_t numOwn = polls.size();
    std::vector<Connection *> polled;
    for (Connection &connection : connections) {
      const bool hasUnsent = !connection.unsent.empty();
      polls.push_back({connection.socket.get(),
                       short(POLLIN | (hasUnsent ? POLLOUT : 0)), 0});
      polled.push_back(&connection);
    }
    if (poll(polls.data(), polls.size(), tickMilliseconds) < 0)
      continue; // interrupted
    if (polls[0].revents)
      return;
    // A time in which this process was stopped says nothing about the others.
    constexpr auto longestTick = std::chrono::seconds(1);
    const Clock::time_point now = Clock::now();
    if (now - lastCheck > longestTick) {
      pause = {now - lastCheck, now};
      for (Connection &connection : connections)
        connection.lastHeard += pause.length;
    }
    lastCheck = now;
    for (size_t i = 0; i < polled.size(); ++i) {
      const short events = polls[i + numOwn].revents;
      if (events & POLLOUT)
        flush(*polled[i]);
      if (events & (POLLIN | POLLHUP | POLLERR))
        receive(*polled[i]);
    }
    if (polls[1].revents)
      accept();
    if (polls[2].revents)
      takeEndings();
    checkTimes(Clock::now());
    closeBroken();
  }
}

void StoreServer::accept() {
  for (;;) {
    Socket socket(::accept4(listener.get(), nullptr, nullptr,
                            SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.isOpen())
      return;
    // Strangers may not keep the ranks out: the oldest of too many goes.
    constexpr int64_t maxStrangers = 256;
    int64_t strangers = 0;
    for (Connection &connection : connections)
      strangers += connection.rank < 0;
    if (strangers >= maxStrangers)
      std::find_if(connections.begin(), connections.end(),
                   [](const Connection &connection) {
                     return connection.rank < 0 && !connection.isBroken;
                   })
          ->isBroken = true;
    connections.emplace_back();
    connections.back().socket = std::move(socket);
    connections.back().lastHeard = Clock::now();
    closeBroken();
  }
}

void StoreServer::takeEndings() {
  int64_t rank = -1;
  ssize_t got;
  while ((got = read(endings.get(), &rank, sizeof(rank))) == sizeof(rank))
    if (!instances.count(rank))
      fail({ErrorCode::RankLost,
            fmt::format("rank {} ended before the others", rank), ""});
  // The launcher has gone, and takes this process with it.
  if (got == 0)
    endings.close();
}

void StoreServer::receive(Connection &connection) {
  std::array<char, 65536> bytes;
  for (;;) {
    const ssize_t got =
        recv(connection.socket.get(), bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      break;
    if (got <= 0) {
      connection.isBroken = true;
      break;
    }
    connection.received.append(bytes.data(), size_t(got));
    connection.lastHeard = Clock::now();
    if (size_t(got) < bytes.size())
      break;
  }
  bool tooLong = false;
  while (std::optional<std::string> body = takeFrame(
             connection.received,
             connection.rank < 0 ? maxHelloBytes : maxStoreMessageBytes,
             tooLong)) {
    if (connection.rank < 0) {
      greet(connection, *body);
    } else {
      MessageReader message(*body);
      handle(connection, message);
      connection.isBroken |= !message.isComplete();
    }
    if (connection.isBroken)
      return;
  }
  if (tooLong && connection.rank < 0)
    turnAway(connection, "a process", "it is no rank of meshc");
  connection.isBroken |= tooLong;
}

void StoreServer::turnAway(Connection &connection, std::string_view who,
                           const std::string &why) {
  connection.isBroken = true;
  // Whoever is turned away may come again and again.
  constexpr size_t maxTold = 32;
  const std::string host = getPeerAddress(connection.socket).host;
  if (!options.onTurnedAway || turnedAway.size() >= maxTold ||
      !turnedAway.insert(fmt::format("{}, {}, {}", host, who, why)).second)
    return;
  options.onTurnedAway(fmt::format(
      "turned away {} from {}: {}{}", who, host, why,
      turnedAway.size() == maxTold ? "; others will not be told of" : ""));
}

void StoreServer::greet(Connection &connection, std::string_view body) {
  std::string answer;
  const Reception::State state = connection.reception.take(
      options.key, storePlace, options.job, body, answer);
  if (!answer.empty())
    sendTo(connection, std::move(answer));
  if (state == Reception::State::Stranger)
    turnAway(connection, "a process", connection.reception.getReason());
  else if (state == Reception::State::Known)
    admit(connection);
}

void StoreServer::admit(Connection &connection) {
  const Caller &caller = connection.reception.getCaller();
  constexpr size_t maxNameBytes = 256;
  const std::string name = escapeForTerminal(caller.process, maxNameBytes);
  auto refuseRank = [&](const std::string &why) {
    refuse(connection, 0, {ErrorCode::WrongRanks, why, ""});
    turnAway(connection, name, why);
  };
  if (caller.ranks != options.ranks)
    return refuseRank(fmt::format("rank {} was told of {} ranks, rank 0 of {}",
                                  caller.rank, caller.ranks, options.ranks));
  auto [known, isNew] = instances.try_emplace(caller.rank, caller.instance);
  if (known->second != caller.instance)
    return refuseRank(
        fmt::format("two processes were told rank {}", caller.rank));
  // The same process has given an earlier connection up.
  if (!isNew)
    for (Connection &other : connections)
      if (other.rank == caller.rank)
        other.saidBye = other.isBroken = true;
  connection.rank = caller.rank;
  connection.name = name;
  ++numClients;
  answer(connection, 0, "");
  // Whoever comes late learns that it is over.
  if (failure)
    sendTo(connection,
           MessageWriter(StoreMessage::Notice, 0).error(*failure).finish());
}

void StoreServer::handle(Connection &connection, MessageReader &message) {
  if (!message.isValid())
    return;
  const uint32_t request = message.getRequest();
  auto getSeconds = [&] { return double(message.number()) / 1e3; };
  switch (message.getKind()) {
  case StoreMessage::Set: {
    const std::string key = message.text();
    std::string value = message.text();
    if (!message.isComplete())
      return;
    if (Status set = values.set(key, std::move(value)); !set)
      return refuse(connection, request, set.getError());
    answer(connection, request, "");
    wakeWaiters(key);
    return;
  }
  case StoreMessage::Get: {
    const std::string key = message.text();
    const double seconds = getSeconds();
    if (!message.isComplete())
      return;
    if (const std::string *found = values.find(key))
      answer(connection, request, *found);
    else if (failure)
      refuse(connection, request, *failure);
    else
      wait({&connection, request, false, key, getDeadline(seconds), seconds});
    return;
  }
  case StoreMessage::Add: {
    const std::string key = message.text();
    const auto increment = int64_t(message.number());
    if (!message.isComplete())
      return;
    Result<int64_t> sum = values.add(key, increment);
    if (!sum)
      return refuse(connection, request, sum.getError());
    answer(connection, request, std::to_string(*sum));
    wakeWaiters(key);
    return;
  }
  case StoreMessage::Barrier: {
    const std::string name = message.text();
    const double seconds = getSeconds();
    if (message.isComplete())
      arrive(connection, request, name, seconds);
    return;
  }
  case StoreMessage::Ping:
    sendTo(connection, MessageWriter(StoreMessage::Pong, request).finish());
    return;
  case StoreMessage::Stop: {
    const uint64_t signal = message.number();
    const bool isSignal =
        signal == SIGINT || signal == SIGTERM || signal == SIGHUP;
    connection.isBroken |= !isSignal;
    if (message.isComplete() && isSignal && options.onStop)
      options.onStop(connection.rank, int(signal));
    return;
  }
  case StoreMessage::Fail: {
    Error error = message.error();
    if (!message.isComplete())
      return;
    // It goes to every rank.
    constexpr size_t maxTextBytes = 16384;
    error.message.resize(std::min(error.message.size(), maxTextBytes));
    error.note.resize(std::min(error.note.size(), maxTextBytes));
    fail(error);
    answer(connection, request, hasEnded ? endedAnswer : "");
    return;
  }
  case StoreMessage::Bye:
    connection.saidBye = true;
    answer(connection, request, "");
    return;
  case StoreMessage::Hello:
  case StoreMessage::Proof:
  case StoreMessage::Challenge:
  case StoreMessage::Value:
  case StoreMessage::Error:
  case StoreMessage::Notice:
  case StoreMessage::Pong:
    connection.isBroken = true;
    return;
  }
}

void StoreServer::arrive(Connection &connection, uint32_t request,
                         const std::string &name, double seconds) {
  if (failure)
    return refuse(connection, request, *failure);
  auto barrier = barriers.find(name);
  const int64_t arrived =
      barrier == barriers.end()
          ? 1
          : int64_t(barrier->second.size()) +
                (barrier->second.count(connection.rank) == 0);
  if (arrived < options.ranks) {
    if (wait({&connection, request, true, name, getDeadline(seconds), seconds}))
      barriers[name].insert(connection.rank);
    return;
  }
  // Complete: the name is free again.
  barriers.erase(name);
  if (name == startBarrier && !hasStarted) {
    hasStarted = true;
    for (Connection &other : connections)
      other.lastHeard = Clock::now();
  }
  hasEnded |= name == endBarrier;
  answer(connection, request, "");
  std::erase_if(waiters, [&](const Waiter &waiter) {
    if (!waiter.isBarrier || waiter.key != name)
      return false;
    answer(*waiter.connection, waiter.request, "");
    return true;
  });
}

bool StoreServer::wait(Waiter waiter) {
  // A rank's threads ask one by one; barriers keep their names for longer.
  constexpr int64_t maxWaiters = 1024;
  const int64_t waiting =
      std::count_if(waiters.begin(), waiters.end(), [&](const Waiter &other) {
        return other.connection == waiter.connection;
      });
  const bool isFull = waiting >= maxWaiters ||
                      int64_t(barriers.size()) >= maxWaiters ||
                      waiter.key.size() > StoreValues::maxKeyBytes;
  if (isFull)
    refuse(*waiter.connection, waiter.request,
           {ErrorCode::DoesNotFit, "the store keeps no more requests", ""});
  else
    waiters.push_back(std::move(waiter));
  return !isFull;
}

void StoreServer::answer(Connection &connection, uint32_t request,
                         std::string_view value) {
  sendTo(connection,
         MessageWriter(StoreMessage::Value, request).text(value).finish());
}

void StoreServer::refuse(Connection &connection, uint32_t request,
                         const Error &error) {
  sendTo(connection,
         MessageWriter(StoreMessage::Error, request).error(error).finish());
}

void StoreServer::sendTo(Connection &connection, std::string frame) {
  connection.unsent += frame;
  flush(connection);
  // Whoever asks for more without reading it is no rank of a healthy run.
  constexpr size_t maxUnsentBytes = size_t(4) * maxStoreMessageBytes;
  connection.isBroken |= connection.unsent.size() > maxUnsentBytes;
}

void StoreServer::flush(Connection &connection) {
  while (!connection.unsent.empty()) {
    const ssize_t sent =
        send(connection.socket.get(), connection.unsent.data(),
             connection.unsent.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent < 0) {
      connection.isBroken |= errno != EAGAIN && errno != EWOULDBLOCK;
      return;
    }
    connection.unsent.erase(0, size_t(sent));
  }
}

void StoreServer::wakeWaiters(const std::string &key) {
  std::erase_if(waiters, [&](const Waiter &waiter) {
    if (waiter.isBarrier || waiter.key != key)
      return false;
    answer(*waiter.connection, waiter.request, *values.find(key));
    return true;
  });
}

Error StoreServer::getMissing(const Waiter &waiter) const {
  if (!waiter.isBarrier)
    return {ErrorCode::MissingRank,
            fmt::format("no rank has set '{}' within {:g} s", waiter.key,
                        waiter.seconds),
            ""};
  const std::set<int64_t> &arrived = barriers.at(waiter.key);
  std::vector<int64_t> missing;
  bool neverCame = true;
  for (int64_t rank = 0; rank < options.ranks; ++rank)
    if (!arrived.count(rank)) {
      missing.push_back(rank);
      neverCame &= !instances.count(rank);
    }
  return {ErrorCode::MissingRank,
          fmt::format("{} of {} did not {} within {:g} s", listRanks(missing),
                      options.ranks,
                      neverCame ? "start"
                                : fmt::format("arrive at '{}'", waiter.key),
                      waiter.seconds),
          ""};
}

void StoreServer::checkTimes(Clock::time_point now) {
  std::erase_if(waiters, [&](const Waiter &waiter) {
    if (waiter.deadline > now)
      return false;
    refuse(*waiter.connection, waiter.request, getMissing(waiter));
    return true;
  });
  for (Connection &connection : connections) {
    const double silent =
        std::chrono::duration<double>(now - connection.lastHeard).count();
    if (connection.rank < 0) {
      connection.isBroken |= silent > helloSeconds;
    } else if (hasStarted && silent > options.silenceSeconds &&
               !connection.isBroken) {
      connection.isBroken = connection.saidBye = true;
      fail({ErrorCode::RankLost,
            fmt::format("rank {} has not answered for {:g} s", connection.rank,
                        options.silenceSeconds),
            connection.name});
    }
  }
}

bool StoreServer::wasPaused() const {
  return hasStarted && pause.explains(lastCheck, options.silenceSeconds);
}

void StoreServer::closeBroken() {
  for (auto next = connections.begin(); next != connections.end();) {
    auto connection = next++;
    if (!connection->isBroken)
      continue;
    std::erase_if(waiters, [&](const Waiter &waiter) {
      return waiter.connection == &*connection;
    });
    if (connection->rank >= 0 && !connection->saidBye) {
      // fail() must not find it.
      connection->saidBye = true;
      // While this process was stopped, the others have given it up.
      fail(wasPaused() ? getStopped(0, pause)
                       : Error{ErrorCode::RankLost,
                               fmt::format("rank {} ended before the others",
                                           connection->rank),
                               connection->name});
    }
    numClients -= connection->rank >= 0;
    connections.erase(connection);
  }
}

void StoreServer::fail(const Error &error) {
  if (failure || hasEnded)
    return;
  failure = error;
  isStopped = wasPaused();
  const std::string notice =
      MessageWriter(StoreMessage::Notice, 0).error(error).finish();
  auto tell = [&](bool isFirst) {
    for (Connection &connection : connections)
      if (connection.rank >= 0 && (connection.rank == 0) == isFirst &&
          !connection.isBroken)
        sendTo(connection, notice);
  };
  tell(/*isFirst=*/false);
  tell(/*isFirst=*/true);
  for (const Waiter &waiter : waiters)
    if (!waiter.connection->isBroken)
      refuse(*waiter.connection, waiter.request, error);
  waiters.clear();
}
