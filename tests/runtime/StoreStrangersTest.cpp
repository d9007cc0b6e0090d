/// Who may connect to the store of a run, and what a rank takes for one.

#include "tests/runtime/StoreFixture.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <thread>

#include <sys/socket.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using ::testing::HasSubstr;

namespace {

std::string makeHello(std::string_view magic, int64_t rank, int64_t ranks) {
  return MessageWriter(StoreMessage::Hello, 1)
      .text(magic)
      .text("store")
      .text("job")
      .number(uint64_t(rank))
      .number(uint64_t(ranks))
      .text("instance")
      .text(std::string(32, 'n'))
      .text("me")
      .finish();
}

TEST_F(StoreTest, strangers_disturb_nobody) {
  serve(2);
  auto first = connect(0, 2);
  std::vector<Socket> strangers;
  const std::string garbage[] = {
      "",
      "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
      std::string(100000, '\xff'),
      std::string(100000, '\0'),
      std::string("\4\0\0\0\0\0\0\0", 8),
      // Another kind of message first, and a Hello without fields.
      MessageWriter(StoreMessage::Set, 1).text("a").text("b").finish(),
      MessageWriter(StoreMessage::Hello, 1).finish(),
      makeHello("meshc ranks 0", 1, 2),
      makeHello("meshc ranks 2", 7, 2),
      makeHello("meshc ranks 2", -1, 2),
      // The challenge is answered by something else, or by another Hello.
      makeHello("meshc ranks 2", 1, 2) +
          MessageWriter(StoreMessage::Set, 1).text("a").text("b").finish(),
      makeHello("meshc ranks 2", 1, 2) + makeHello("meshc ranks 2", 1, 2),
      makeHello("meshc ranks 2", 1, 2) +
          MessageWriter(StoreMessage::Proof, 1).text("none").finish(),
  };
  for (const std::string &bytes : garbage) {
    Result<Socket> socket = connectTo(address, getDeadline(2));
    ASSERT_TRUE(socket);
    sendAll(*socket, std::as_bytes(std::span(bytes)));
    strangers.push_back(std::move(*socket));
  }
  // More than are let in at once, that say nothing.
  for (int i = 0; i < 300; ++i)
    if (Result<Socket> socket = connectTo(address, getDeadline(2)); socket)
      strangers.push_back(std::move(*socket));
  auto second = connect(1, 2);
  ASSERT_TRUE(second->set("key", "value"));
  EXPECT_EQ(*first->get("key", 1), "value");
  // All but the silent ones have been closed, after what is said to them.
  for (size_t i = 1; i < std::size(garbage); ++i) {
    std::byte byte;
    size_t bytes = 0;
    while (bytes < 200 &&
           receiveAll(strangers[i], std::span(&byte, 1), getDeadline(1)))
      ++bytes;
    EXPECT_LT(bytes, 200u) << i;
  }
}

TEST_F(StoreTest, a_rank_that_sends_garbage_is_lost) {
  serve(2);
  Notice notice;
  auto first = connect(0, 2, &notice);
  Result<Socket> socket = connectTo(address, getDeadline(2));
  ASSERT_TRUE(socket);
  ASSERT_TRUE(introduceAs(*socket, {"store", "job", 1, 2, "1", "me"}));
  const std::string bytes(64, '\xff');
  ASSERT_TRUE(sendAll(*socket, std::as_bytes(std::span(bytes))));
  ASSERT_EQ(notice.future.wait_for(std::chrono::seconds(2)),
            std::future_status::ready);
  auto [error, isOver] = notice.future.get();
  EXPECT_EQ(error.message, "rank 1 ended before the others");
  EXPECT_EQ(error.note, "me");
}

TEST_F(StoreTest, those_of_another_run_are_turned_away) {
  serve(2);
  RankIdentity other = getIdentity(1, 2);
  other.job = "another";
  Result<std::unique_ptr<StoreClient>> refused = tryConnect(other, 0.5);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.getError().code, ErrorCode::CannotConnect);
  EXPECT_THAT(refused.getError().message, HasSubstr("another run"));

  refused = tryConnect(getIdentity(1, 3));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.getError().code, ErrorCode::WrongRanks);
  EXPECT_EQ(refused.getError().message,
            "rank 1 was told of 3 ranks, rank 0 of 2");

  auto second = connect(1, 2);
  refused = tryConnect(getIdentity(1, 2));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.getError().message, "two processes were told rank 1");
  EXPECT_TRUE(second->set("key", "value"));

  // Rank 0 says so as it happens, once where somebody comes again and again.
  std::vector<std::string> told = getTurnedAway(3);
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told[0], "turned away a process from 127.0.0.1: it belongs to "
                     "another run");
  const std::string self = fmt::format("turned away process {} on ", getpid());
  EXPECT_THAT(told[1], HasSubstr(self));
  EXPECT_THAT(told[1], HasSubstr(" from 127.0.0.1: rank 1 was told of 3 ranks, "
                                 "rank 0 of 2"));
  EXPECT_THAT(told[2], HasSubstr("two processes were told rank 1"));
}

TEST_F(StoreTest, the_latest_connection_of_a_process_counts) {
  serve(2);
  Notice notice;
  auto first = connect(0, 2, &notice);
  const Caller self{"store", "job", 1, 2, "the same", "me"};
  Result<Socket> early = connectTo(address, getDeadline(2));
  Result<Socket> late = connectTo(address, getDeadline(2));
  ASSERT_TRUE(early && late);
  ASSERT_TRUE(introduceAs(*early, self));
  ASSERT_TRUE(introduceAs(*late, self));
  // The first one has been closed, and that is no loss.
  std::byte byte;
  EXPECT_FALSE(receiveAll(*early, std::span(&byte, 1), getDeadline(5)));
  EXPECT_EQ(notice.future.wait_for(std::chrono::milliseconds(300)),
            std::future_status::timeout);
  Result<Socket> other = connectTo(address, getDeadline(2));
  ASSERT_TRUE(other);
  Status refused = introduceAs(*other, {"store", "job", 1, 2, "another", "me"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.getError().message, "two processes were told rank 1");
  // The end of the latest is one.
  late->close();
  ASSERT_EQ(notice.future.wait_for(std::chrono::seconds(5)),
            std::future_status::ready);
  EXPECT_EQ(notice.future.get().first.message,
            "rank 1 ended before the others");
}

TEST_F(StoreTest, a_caller_that_gave_up_does_not_take_its_own_rank) {
  // Nobody accepts while these three come: two are given up before their Hello
  // is read, as where rank 0 is stopped.
  Result<Socket> listener = listenOn({"127.0.0.1", 0});
  ASSERT_TRUE(listener);
  address = getLocalAddress(*listener);
  const Caller self{"store", "job", 1, 2, "the same", "me"};
  for (int i = 0; i < 2; ++i) {
    Result<Socket> socket = connectTo(address, getDeadline(2));
    ASSERT_TRUE(socket);
    EXPECT_FALSE(introduce(*socket, address, key, self, 0.1, getDeadline(0.1)));
  }
  std::future<std::unique_ptr<StoreClient>> last =
      std::async([&] { return connect(1, 2); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  StoreServer::Options options;
  options.ranks = 2;
  options.job = "job";
  server = std::make_unique<StoreServer>(std::move(*listener), options);
  auto second = last.get();
  ASSERT_TRUE(second);
  auto first = connect(0, 2);
  EXPECT_TRUE(second->set("key", "value"));
  EXPECT_EQ(*first->get("key", 1), "value");
}

TEST_F(StoreTest, those_without_the_key_are_turned_away) {
  key = *RankKey::fromText("test", "sixteen bytes are");
  serve(2);
  auto first = connect(0, 2);
  for (const RankKey &wrong :
       {RankKey(), *RankKey::fromText("test", "sixteen bytes arE")}) {
    RankIdentity other = getIdentity(1, 2);
    other.key = wrong;
    const Clock::time_point start = Clock::now();
    Result<std::unique_ptr<StoreClient>> refused = tryConnect(other);
    // At once: it is the same run, and will not have another key.
    EXPECT_LT(getSeconds(start), 2);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.getError().code, ErrorCode::StoreKey);
    EXPECT_THAT(
        refused.getError().message,
        HasSubstr(wrong.isGiven()
                      ? "what listens there does not have this key"
                      : "what listens there has a key, and this process "
                        "has none"));
  }
  EXPECT_THAT(getTurnedAway(1),
              testing::ElementsAre(
                  "turned away a process from 127.0.0.1: it does not have the "
                  "key of this run"));
  auto second = connect(1, 2);
  EXPECT_TRUE(second->set("key", "value"));
}

TEST_F(StoreTest, a_server_without_the_key_is_not_believed) {
  serve(2);
  RankIdentity identity = getIdentity(1, 2);
  identity.key = *RankKey::fromText("test", "sixteen bytes are");
  Result<std::unique_ptr<StoreClient>> refused = tryConnect(identity);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.getError().code, ErrorCode::StoreKey);
}

TEST_F(StoreTest, names_of_others_do_not_steer_the_terminal) {
  serve(2);
  Result<Socket> socket = connectTo(address, getDeadline(2));
  ASSERT_TRUE(socket);
  EXPECT_FALSE(introduceAs(*socket, {"store", "job", 1, 3, "i",
                                     "\x1b]0;x\a" + std::string(999, 'n')}));
  std::vector<std::string> told = getTurnedAway(1);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told[0], HasSubstr("turned away \\x1b]0;x\\x07nn"));
  EXPECT_LT(told[0].size(), 400u);
}

TEST_F(StoreTest, a_run_that_others_can_reach_needs_a_key) {
  for (const char *host : {"0.0.0.0", "192.0.2.1", "::"})
    for (int64_t rank : {0, 1}) {
      RankIdentity identity = getIdentity(rank, 2);
      identity.store = {host, 9};
      Result<std::unique_ptr<Ranks>> ranks = Ranks::connect(identity);
      ASSERT_FALSE(ranks);
      EXPECT_EQ(ranks.getError().code, ErrorCode::StoreKey) << host;
      EXPECT_THAT(ranks.getError().message, HasSubstr("this run needs a key"));
      EXPECT_THAT(ranks.getError().note, HasSubstr("--store-key FILE"));
    }
  for (const char *host : {"127.0.0.1", "127.3.4.5", "::1", "localhost"})
    EXPECT_EQ(isLoopback({host, 9}), true) << host;
  EXPECT_EQ(isLoopback({"::ffff:127.0.0.1", 9}), true);
  EXPECT_EQ(isLoopback({"::ffff:192.0.2.1", 9}), false);
  EXPECT_EQ(isLoopback({"no such host", 9}), std::nullopt);
  EXPECT_TRUE(isWildcard({"0.0.0.0", 9}) && isWildcard({"::", 9}));
  EXPECT_FALSE(isWildcard({"127.0.0.1", 9}) || isWildcard({"::1", 9}));
}

TEST_F(StoreTest, clients_wait_for_a_server_that_comes_late) {
  Result<Socket> reserved = listenOn({"127.0.0.1", 0});
  ASSERT_TRUE(reserved);
  address = getLocalAddress(*reserved);
  reserved->close();
  std::future<Result<std::unique_ptr<StoreClient>>> early =
      std::async([&] { return tryConnect(getIdentity(0, 1), 10); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  Result<Socket> listener = listenOn(address);
  ASSERT_TRUE(listener) << listener.getError().message;
  StoreServer::Options options;
  options.job = "job";
  server = std::make_unique<StoreServer>(std::move(*listener), options);
  EXPECT_TRUE(early.get());
}

TEST_F(StoreTest, nobody_there_is_an_error_in_time) {
  Result<Socket> reserved = listenOn({"127.0.0.1", 0});
  ASSERT_TRUE(reserved);
  address = getLocalAddress(*reserved);
  reserved->close();
  const Clock::time_point start = Clock::now();
  Result<std::unique_ptr<StoreClient>> client =
      tryConnect(getIdentity(1, 2), 0.5);
  EXPECT_LT(getSeconds(start), 2);
  ASSERT_FALSE(client);
  EXPECT_EQ(client.getError().code, ErrorCode::CannotConnect);
  EXPECT_THAT(client.getError().message,
              HasSubstr(toString(address) + ": Connection refused"));
}

TEST_F(StoreTest, a_server_of_another_kind_is_an_error) {
  Result<Socket> listener = listenOn({"127.0.0.1", 0});
  ASSERT_TRUE(listener);
  address = getLocalAddress(*listener);
  std::thread other([&] {
    const std::string text = "220 mail.example.org ready\r\n";
    for (;;) {
      Socket socket(accept(listener->get(), nullptr, nullptr));
      if (!socket.isOpen())
        return;
      sendAll(socket, std::as_bytes(std::span(text)));
    }
  });
  Result<std::unique_ptr<StoreClient>> client =
      tryConnect(getIdentity(1, 2), 0.3);
  shutdown(listener->get(), SHUT_RDWR);
  other.join();
  ASSERT_FALSE(client);
  EXPECT_EQ(client.getError().code, ErrorCode::CannotConnect);
  EXPECT_THAT(client.getError().message, HasSubstr("no store of meshc"));
}

TEST_F(StoreTest, a_server_that_says_nothing_is_an_error) {
  Result<Socket> listener = listenOn({"127.0.0.1", 0});
  ASSERT_TRUE(listener);
  address = getLocalAddress(*listener);
  Result<std::unique_ptr<StoreClient>> client =
      tryConnect(getIdentity(1, 2), 0.3);
  ASSERT_FALSE(client);
  EXPECT_EQ(client.getError().code, ErrorCode::MissingRank);
  EXPECT_THAT(client.getError().message, HasSubstr("does not answer"));
}

TEST_F(StoreTest, a_port_in_use_is_an_error) {
  Result<Socket> listener = listenOn({"127.0.0.1", 0});
  ASSERT_TRUE(listener);
  Result<Socket> again = listenOn(getLocalAddress(*listener));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.getError().code, ErrorCode::CannotConnect);
  EXPECT_THAT(again.getError().message, HasSubstr("Address already in use"));
  EXPECT_THAT(again.getError().note, HasSubstr("--store"));
}

TEST_F(StoreTest, only_the_given_address_is_listened_on) {
  Result<Socket> listener = listenOn({"127.0.0.2", 0});
  ASSERT_TRUE(listener);
  Address other = getLocalAddress(*listener);
  EXPECT_EQ(other.host, "127.0.0.2");
  EXPECT_TRUE(connectTo(other, getDeadline(1)));
  other.host = "127.0.0.1";
  EXPECT_FALSE(connectTo(other, getDeadline(0.1)));
  EXPECT_FALSE(listenOn({"203.0.113.7", 0}));
  EXPECT_FALSE(listenOn({"no such host", 1}));
}

} // namespace
