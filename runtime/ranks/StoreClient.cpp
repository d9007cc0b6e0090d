#include "runtime/ranks/StoreClient.h"

#include "runtime/ranks/Handshake.h"
#include "runtime/ranks/StoreServer.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

using Clock = std::chrono::steady_clock;

static uint64_t getMilliseconds(double seconds) {
  return uint64_t(std::ceil(std::max(0.0, seconds) * 1e3));
}

static Error getServerLost() {
  return {ErrorCode::RankLost, "rank 0 ended before the others", ""};
}

/// "process 123 on node1".
static std::string getProcessName() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return fmt::format("process {} on {}", getpid(), host.data());
}

/// An error where this process would believe anyone on the network.
static Status checkKey(const RankIdentity &identity, const Socket &socket) {
  return identity.key.isGiven() ||
                 isLoopback(getPeerAddress(socket)).value_or(false)
             ? Status::success()
             : Status(getNoKey(identity.store));
}

Result<std::unique_ptr<StoreClient>>
StoreClient::connect(const RankIdentity &identity, Deadline deadline,
                     double silenceSeconds, FailureCallback onFailure) {
  constexpr double answerSeconds = 5, refusedSeconds = 0.5;
  constexpr auto pause = std::chrono::milliseconds(100);
  const Caller self{std::string(storePlace), identity.job,
                    identity.rank,           identity.ranks,
                    getRandomBytes(16),      getProcessName()};
  // The own launcher has listened before it started anybody: where nobody does
  // any more, rank 0 has gone.
  const bool isListening = identity.source == RankSource::Launcher;
  for (;;) {
    Result<Socket> socket =
        connectTo(identity.store,
                  isListening ? std::min(deadline, getDeadline(refusedSeconds))
                              : deadline);
    if (!socket && isListening)
      return getServerLost();
    if (!socket) {
      Error error = socket.getError();
      error.note = fmt::format("rank 0 keeps the store of the run there; is it "
                               "running?{}{}",
                               error.note.empty() ? "" : " ", error.note);
      return error;
    }
    Status greeted = checkKey(identity, *socket);
    if (!greeted)
      return greeted.getError();
    greeted = introduce(*socket, identity.store, identity.key, self,
                        answerSeconds, deadline);
    if (greeted)
      return std::unique_ptr<StoreClient>(
          new StoreClient(std::move(*socket), identity.rank, silenceSeconds,
                          std::move(onFailure)));
    // An earlier run may still be about to end, or rank 0 be stopped.
    const ErrorCode code = greeted.getError().code;
    if ((code != ErrorCode::CannotConnect && code != ErrorCode::MissingRank) ||
        Clock::now() + pause >= deadline)
      return greeted.getError();
    std::this_thread::sleep_for(pause);
  }
}

StoreClient::StoreClient(Socket connected, int64_t rank, double silenceSeconds,
                         FailureCallback onFailure)
    : socket(std::move(connected)), rank(rank), silenceSeconds(silenceSeconds),
      onFailure(std::move(onFailure)),
      wakeUp(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  thread = std::thread([this] { read(); });
}

StoreClient::~StoreClient() {
  const uint64_t one = 1;
  [[maybe_unused]] ssize_t written = write(wakeUp.get(), &one, sizeof(one));
  thread.join();
}

bool StoreClient::sendFrame(const std::string &frame) {
  std::lock_guard<std::mutex> lock(sending);
  return sendAll(socket, std::as_bytes(std::span(frame)));
}

void StoreClient::read() {
  /// Between signs of life; rank 0 waits for this long at least.
  constexpr double longestSilence = 10;
  std::string received;
  std::array<char, 65536> bytes;
  Clock::time_point lastHeard = Clock::now();
  Clock::time_point lastPing = lastHeard;
  Clock::time_point lastTick = lastHeard;
  Pause pause; ///< of this process
  for (;;) {
    const double silence = silenceSeconds;
    const int tick =
        int(std::max(1.0, std::min(silence, longestSilence) * 1e3 / 5));
    std::array<pollfd, 2> polls = {
        {{wakeUp.get(), POLLIN, 0}, {socket.get(), POLLIN, 0}}};
    if (poll(polls.data(), polls.size(), tick) < 0)
      continue; // interrupted
    if (polls[0].revents)
      return;
    const Clock::time_point now = Clock::now();
    // A time in which this process was stopped says nothing about rank 0.
    if (now - lastTick > std::chrono::milliseconds(tick + 1000)) {
      lastHeard += now - lastTick;
      pause = {now - lastTick, now};
    }
    lastTick = now;
    if (now - lastPing >= std::chrono::milliseconds(tick)) {
      lastPing = now;
      sendFrame(MessageWriter(StoreMessage::Ping, 0).finish());
    }
    if (!polls[1].revents) {
      if (std::chrono::duration<double>(now - lastHeard).count() > silence)
        return loseServer(
            {ErrorCode::RankLost,
             fmt::format("rank 0 has not answered for {:g} s", silence), ""});
      continue;
    }
    lastHeard = now;
    const ssize_t got =
        recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
      continue;
    if (got <= 0) {
      isStopped = rank > 0 && pause.explains(now, silence);
      return loseServer(isStopped ? getStopped(rank, pause) : getServerLost());
    }
    received.append(bytes.data(), size_t(got));
    bool makesSense = true;
    while (makesSense) {
      bool tooLong = false;
      std::optional<std::string> body =
          takeFrame(received, maxStoreMessageBytes, tooLong);
      if (!body) {
        makesSense = !tooLong;
        break;
      }
      MessageReader message(*body);
      makesSense = handle(message);
    }
    if (!makesSense)
      return loseServer({ErrorCode::RankLost,
                         "the store of rank 0 sends what is no message", ""});
  }
}

bool StoreClient::handle(MessageReader &message) {
  if (!message.isValid())
    return false;
  std::unique_lock<std::mutex> lock(mutex);
  auto setAnswer = [&](Result<std::string> result) {
    // Nobody waits for it any more where the run has failed.
    auto waiting = requests.find(message.getRequest());
    if (waiting != requests.end())
      waiting->second = std::move(result);
    changed.notify_all();
    return message.isComplete();
  };
  switch (message.getKind()) {
  case StoreMessage::Value:
    // Noted before anything that comes behind it, and be it the server's end.
    isLeaving |= endRequest != 0 && message.getRequest() == endRequest;
    return setAnswer(message.text());
  case StoreMessage::Error:
    return setAnswer(message.error());
  case StoreMessage::Pong:
    return message.isComplete();
  case StoreMessage::Notice: {
    const Error error = message.error();
    if (!message.isComplete())
      return false;
    isNoticed = true;
    if (failure)
      return true;
    failure = error;
    changed.notify_all();
    lock.unlock();
    onFailure(*this, error, /*isOver=*/false);
    return true;
  }
  case StoreMessage::Hello:
  case StoreMessage::Proof:
  case StoreMessage::Challenge:
  case StoreMessage::Set:
  case StoreMessage::Get:
  case StoreMessage::Add:
  case StoreMessage::Barrier:
  case StoreMessage::Ping:
  case StoreMessage::Stop:
  case StoreMessage::Fail:
  case StoreMessage::Bye:
    return false;
  }
  __builtin_unreachable(); // isValid() is false for other values
}

void StoreClient::loseServer(const Error &error) {
  bool isNews = false;
  {
    std::lock_guard<std::mutex> lock(mutex);
    isServerGone = true;
    isNews = !failure && !isLeaving;
    if (isNews)
      failure = error;
    changed.notify_all();
  }
  if (isNews)
    onFailure(*this, error, /*isOver=*/true);
}

uint32_t StoreClient::getNumber() {
  std::lock_guard<std::mutex> lock(mutex);
  return nextNumber++;
}

Result<std::string> StoreClient::request(MessageWriter &writer, uint32_t number,
                                         Deadline deadline) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (isServerGone)
      return failure.value_or(getServerLost());
    requests.try_emplace(number);
  }
  sendFrame(writer.finish());
  std::unique_lock<std::mutex> lock(mutex);
  auto isDone = [&] { return isServerGone || requests[number]; };
  // The clock of the condition variable cannot count to the end of time.
  if (deadline == Deadline::max())
    changed.wait(lock, isDone);
  else
    changed.wait_until(lock, deadline, isDone);
  std::optional<Result<std::string>> answer = std::move(requests[number]);
  requests.erase(number);
  if (answer)
    return std::move(*answer);
  return failure.value_or(getServerLost());
}

Status StoreClient::set(std::string_view key, std::string_view value) {
  const uint32_t number = getNumber();
  MessageWriter writer(StoreMessage::Set, number);
  writer.text(key).text(value);
  Result<std::string> answer = request(writer, number);
  return answer ? Status::success() : Status(answer.getError());
}

Result<std::string> StoreClient::get(std::string_view key, double seconds) {
  const uint32_t number = getNumber();
  MessageWriter writer(StoreMessage::Get, number);
  writer.text(key).number(getMilliseconds(seconds));
  return request(writer, number);
}

Result<int64_t> StoreClient::add(std::string_view key, int64_t increment) {
  const uint32_t number = getNumber();
  MessageWriter writer(StoreMessage::Add, number);
  writer.text(key).number(uint64_t(increment));
  Result<std::string> answer = request(writer, number);
  if (!answer)
    return answer.getError();
  int64_t sum = 0;
  std::from_chars(answer->data(), answer->data() + answer->size(), sum);
  return sum;
}

Status StoreClient::barrier(std::string_view name, double seconds) {
  const uint32_t number = getNumber();
  if (name == StoreServer::endBarrier) {
    std::lock_guard<std::mutex> lock(mutex);
    endRequest = number;
  }
  MessageWriter writer(StoreMessage::Barrier, number);
  writer.text(name).number(getMilliseconds(seconds));
  Result<std::string> answer = request(writer, number);
  return answer ? Status::success() : Status(answer.getError());
}

void StoreClient::requestStop(int signal) {
  MessageWriter writer(StoreMessage::Stop, 0);
  sendFrame(writer.number(uint64_t(signal)).finish());
}

StoreClient::Told StoreClient::fail(const Error &error, Deadline deadline) {
  const uint32_t number = getNumber();
  MessageWriter writer(StoreMessage::Fail, number);
  writer.error(error);
  const Result<std::string> answer = request(writer, number, deadline);
  if (answer)
    return *answer == endedAnswer ? Told::Ended : Told::Yes;
  // The server ends with the run, maybe before this was read.
  std::lock_guard<std::mutex> lock(mutex);
  return isLeaving      ? Told::Ended
         : isNoticed    ? Told::Yes
         : isServerGone ? Told::Gone
                        : Told::No;
}

void StoreClient::leave() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    isLeaving = true;
  }
  const uint32_t number = getNumber();
  MessageWriter writer(StoreMessage::Bye, number);
  (void)request(writer, number);
}

std::optional<Error> StoreClient::waitForFailure(Deadline deadline) {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait_until(lock, deadline, [&] { return failure.has_value(); });
  return failure;
}

void StoreClient::waitForServer(Deadline deadline) {
  // Not by what the thread has read: it may be the one that waits.
  while (getSecondsUntil(deadline) > 0) {
    pollfd wait{socket.get(), POLLRDHUP, 0};
    if (poll(&wait, 1, 100) > 0)
      return;
  }
}
