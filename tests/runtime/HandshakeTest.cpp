/// How a rank and the store introduce themselves, where one of them stops.

#include "runtime/ranks/Handshake.h"
#include "runtime/ranks/Socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include <sys/socket.h>

using namespace meshc;
using namespace meshc::runtime;
using testing::HasSubstr;

namespace {

/// The body of a caller's first message.
std::string receiveHello(const Socket &caller) {
  const Deadline deadline = getDeadline(5);
  std::string size(4, '\0');
  if (!receiveAll(caller, std::as_writable_bytes(std::span(size)), deadline))
    return "";
  size_t bytes = 0;
  for (size_t i = 0; i < size.size(); ++i)
    bytes |= size_t(static_cast<unsigned char>(size[i])) << (8 * i);
  std::string body(bytes, '\0');
  return receiveAll(caller, std::as_writable_bytes(std::span(body)), deadline)
             ? body
             : "";
}

/// What the caller makes of a store that says as much as `leave` has it say.
template <class Leave> Status call(Leave leave) {
  Result<Socket> listener = listenOn({"127.0.0.1", 0});
  EXPECT_TRUE(listener);
  const Address address = getLocalAddress(*listener);
  const RankKey key = *RankKey::fromText("test", "sixteen bytes are");
  auto status = std::async([&] {
    Result<Socket> socket = connectTo(address, getDeadline(2));
    EXPECT_TRUE(socket);
    const Caller self{"store", "job", 1, 2, "the same", "me"};
    return introduce(*socket, address, key, self, 5, getDeadline(0.5));
  });
  Socket caller(accept(listener->get(), nullptr, nullptr));
  Reception reception;
  std::string challenge;
  EXPECT_EQ(
      reception.take(key, "store", "job", receiveHello(caller), challenge),
      Reception::State::Waiting);
  leave(caller, challenge);
  return status.get();
}

TEST(Handshake, a_store_that_stops_before_its_challenge_does_not_answer) {
  Status status = call([](Socket &, const std::string &) {});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.getError().code, ErrorCode::MissingRank);
  EXPECT_THAT(status.getError().message, HasSubstr("does not answer"));
}

TEST(Handshake, a_store_that_stops_behind_its_challenge_does_not_answer) {
  Status status = call([](Socket &caller, const std::string &challenge) {
    EXPECT_TRUE(sendAll(caller, std::as_bytes(std::span(challenge))));
  });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.getError().code, ErrorCode::MissingRank);
  EXPECT_THAT(status.getError().message, HasSubstr("does not answer"));
}

TEST(Handshake, a_store_that_ends_behind_its_challenge_closes_the_connection) {
  Status status = call([](Socket &caller, const std::string &challenge) {
    EXPECT_TRUE(sendAll(caller, std::as_bytes(std::span(challenge))));
    caller.close();
  });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.getError().code, ErrorCode::CannotConnect);
  EXPECT_THAT(status.getError().message, HasSubstr("was closed"));
}

} // namespace
