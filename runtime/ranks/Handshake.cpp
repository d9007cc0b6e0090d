#include "runtime/ranks/Handshake.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

using namespace meshc;
using namespace meshc::runtime;

/// The first field of Hello; its end is the version.
static constexpr std::string_view helloMagic = "meshc ranks 2";
/// Of the random numbers.
static constexpr size_t numberBytes = 32;

/// Who proves something.
static constexpr std::string_view callerRole = "caller";
static constexpr std::string_view calledRole = "called";

static std::string getBody(const std::string &frame) { return frame.substr(4); }

static bool sendFrame(const Socket &socket, const std::string &frame) {
  return sendAll(socket, std::as_bytes(std::span(frame)));
}

/// The next frame and nothing beyond it; empty if none comes in time.
static std::string receiveFrame(const Socket &socket, Deadline deadline) {
  std::string size(4, '\0');
  if (!receiveAll(socket, std::as_writable_bytes(std::span(size)), deadline))
    return "";
  uint32_t bytes = 0;
  for (size_t i = 0; i < size.size(); ++i)
    bytes |= uint32_t(static_cast<unsigned char>(size[i])) << (8 * i);
  std::string body(bytes > maxHelloBytes ? 0 : bytes, '\0');
  return receiveAll(socket, std::as_writable_bytes(std::span(body)), deadline)
             ? body
             : "";
}

Error runtime::getNoKey(const Address &store) {
  return {ErrorCode::StoreKey,
          fmt::format("the store at {} is reached from other machines: this "
                      "run needs a key",
                      toString(store)),
          "give all ranks one by --store-key FILE, where FILE has mode 600 and "
          "was made by: head -c 32 /dev/urandom | base64 > FILE; or what is in "
          "it by MESHC_STORE_KEY"};
}

Status runtime::introduce(const Socket &socket, const Address &address,
                          const RankKey &key, const Caller &caller,
                          double answerSeconds, Deadline deadline) {
  auto fail = [&](ErrorCode code, std::string_view why, std::string note = "") {
    return Error{
        code,
        fmt::format("cannot join the run at {}: {}", toString(address), why),
        std::move(note)};
  };
  const Error noStore =
      fail(ErrorCode::CannotConnect, "what listens there is no store of meshc");
  const std::string frame = MessageWriter(StoreMessage::Hello, 0)
                                .text(helloMagic)
                                .text(caller.place)
                                .text(caller.job)
                                .number(uint64_t(caller.rank))
                                .number(uint64_t(caller.ranks))
                                .text(caller.instance)
                                .text(getRandomBytes(numberBytes))
                                .text(caller.process)
                                .finish();
  const std::string hello = getBody(frame);
  if (!sendFrame(socket, frame))
    return fail(ErrorCode::CannotConnect, "the connection was closed");

  const Deadline answered = std::min(deadline, getDeadline(answerSeconds));
  const Error noAnswer =
      fail(ErrorCode::MissingRank,
           "rank 0, or who else listens there, does not answer");
  const std::string first = receiveFrame(socket, answered);
  if (first.empty() && getSecondsUntil(answered) <= 0)
    return noAnswer;
  MessageReader challenge(first);
  // Nobody in particular says so: its own words are not passed on.
  if (challenge.isValid() && challenge.getKind() == StoreMessage::Error)
    return fail(ErrorCode::CannotConnect,
                "the store there belongs to another run");
  if (!challenge.isValid() || challenge.getKind() != StoreMessage::Challenge)
    return noStore;
  const std::string number = challenge.text();
  const std::string proof = challenge.text();
  if (!challenge.isComplete() || number.size() != numberBytes)
    return noStore;
  const bool isOurs = key.isProven(proof, {calledRole, hello, number});
  // An empty proof says that the other one's was wrong.
  MessageWriter answer(StoreMessage::Proof, 0);
  answer.text(isOurs ? key.prove({callerRole, hello, number}) : "");
  const bool isSent = sendFrame(socket, answer.finish());
  if (!isOurs)
    return fail(ErrorCode::StoreKey,
                key.isGiven() ? "what listens there does not have this key"
                              : "what listens there has a key, and this "
                                "process has none",
                "give all ranks the same key by --store-key FILE or "
                "MESHC_STORE_KEY");
  if (!isSent)
    return fail(ErrorCode::CannotConnect, "the connection was closed");

  const std::string last = receiveFrame(socket, deadline);
  if (last.empty() && getSecondsUntil(deadline) <= 0)
    return noAnswer;
  MessageReader verdict(last);
  if (verdict.isValid() && verdict.getKind() == StoreMessage::Value)
    return Status::success();
  if (!verdict.isValid() || verdict.getKind() != StoreMessage::Error)
    return fail(ErrorCode::CannotConnect, "the connection was closed");
  const Error error = verdict.error();
  return verdict.isComplete() ? error : noStore;
}

Reception::State Reception::take(const RankKey &key, std::string_view place,
                                 std::string_view job, std::string_view body,
                                 std::string &answer) {
  auto turnAway = [&](const char *why) {
    reason = why;
    return State::Stranger;
  };
  MessageReader message(body);
  if (hello.empty()) {
    const std::string magic = message.text();
    caller.place = message.text();
    caller.job = message.text();
    caller.rank = int64_t(message.number());
    caller.ranks = int64_t(message.number());
    caller.instance = message.text();
    const std::string number = message.text();
    caller.process = message.text();
    if (message.getKind() != StoreMessage::Hello || !message.isComplete() ||
        magic != helloMagic || number.size() != numberBytes ||
        caller.rank < 0 || caller.rank >= caller.ranks)
      return turnAway("it is no rank of this version of meshc");
    if (caller.place != place || caller.job != job) {
      answer = MessageWriter(StoreMessage::Error, message.getRequest())
                   .error({ErrorCode::CannotConnect, "", ""})
                   .finish();
      return turnAway("it belongs to another run");
    }
    hello = body;
    challenge = getRandomBytes(numberBytes);
    answer = MessageWriter(StoreMessage::Challenge, message.getRequest())
                 .text(challenge)
                 .text(key.prove({calledRole, hello, challenge}))
                 .finish();
    return State::Waiting;
  }
  const std::string proof = message.text();
  if (message.getKind() != StoreMessage::Proof || !message.isComplete())
    return turnAway("it is no rank of this version of meshc");
  return key.isProven(proof, {callerRole, hello, challenge})
             ? State::Known
             : turnAway("it does not have the key of this run");
}
