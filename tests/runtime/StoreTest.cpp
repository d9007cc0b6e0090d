/// The store of a run, and that the end of a rank is noticed: with several
/// ranks in one process, each with connections of its own, and with strangers.

#include "runtime/io/RunningDigest.h"
#include "runtime/ranks/Handshake.h"
#include "runtime/ranks/Ranks.h"
#include "runtime/ranks/Socket.h"
#include "runtime/ranks/StoreClient.h"
#include "runtime/ranks/StoreServer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <mutex>
#include <thread>

#include <sys/socket.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;
using testing::HasSubstr;

namespace {

using Clock = std::chrono::steady_clock;
using Told = StoreClient::Told;

double getSeconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

/// What a rank is told when another one fails.
struct Notice {
  std::promise<std::pair<Error, bool>> promise;
  std::future<std::pair<Error, bool>> future = promise.get_future();
};

class StoreTest : public testing::Test {
protected:
  void serve(int64_t ranks, double silenceSeconds = 10) {
    Result<Socket> listener = listenOn({"127.0.0.1", 0});
    ASSERT_TRUE(listener) << listener.getError().message;
    address = getLocalAddress(*listener);
    StoreServer::Options options;
    options.ranks = ranks;
    options.job = "job";
    options.silenceSeconds = silenceSeconds;
    options.key = key;
    options.onTurnedAway = [this](const std::string &text) {
      std::lock_guard<std::mutex> lock(mutex);
      turnedAway.push_back(text);
    };
    server =
        std::make_unique<StoreServer>(std::move(*listener), std::move(options));
  }
  /// Who was turned away so far, less the time that it takes to say so.
  std::vector<std::string> getTurnedAway(size_t expected) {
    for (const Deadline deadline = getDeadline(5);
         getSecondsUntil(deadline) > 0;) {
      std::lock_guard<std::mutex> lock(mutex);
      if (turnedAway.size() >= expected)
        break;
    }
    std::lock_guard<std::mutex> lock(mutex);
    return turnedAway;
  }
  /// Says Hello as the client of this process does; waits for the answer.
  Status introduceAs(const Socket &socket, const Caller &caller) {
    return introduce(socket, address, key, caller, 5, getDeadline(5));
  }
  RankIdentity getIdentity(int64_t rank, int64_t ranks) const {
    RankIdentity identity;
    identity.source = RankSource::Flags;
    identity.rank = rank;
    identity.ranks = ranks;
    identity.store = address;
    identity.job = "job";
    identity.key = key;
    return identity;
  }
  Result<std::unique_ptr<StoreClient>> tryConnect(const RankIdentity &identity,
                                                  double seconds = 5,
                                                  Notice *notice = nullptr) {
    return StoreClient::connect(
        identity, getDeadline(seconds), 10,
        [notice](StoreClient &, const Error &error, bool isOver) {
          if (notice)
            notice->promise.set_value({error, isOver});
        });
  }
  std::unique_ptr<StoreClient> connect(int64_t rank, int64_t ranks,
                                       Notice *notice = nullptr) {
    Result<std::unique_ptr<StoreClient>> client =
        tryConnect(getIdentity(rank, ranks), 5, notice);
    EXPECT_TRUE(client) << client.getError().message;
    return std::move(*client);
  }

  Address address;
  RankKey key;
  std::mutex mutex;
  std::vector<std::string> turnedAway; ///< guarded by mutex
  std::unique_ptr<StoreServer> server;
};

TEST_F(StoreTest, values_are_seen_by_all_ranks) {
  serve(2);
  auto first = connect(0, 2), second = connect(1, 2);
  ASSERT_TRUE(first->set("key", "value"));
  EXPECT_EQ(*second->get("key", 1), "value");
  const std::string bytes("\0\xff\n", 3);
  ASSERT_TRUE(second->set("key", bytes));
  EXPECT_EQ(*first->get("key", 1), bytes);
  const std::string large(3 << 20, 'x');
  ASSERT_TRUE(second->set("", large));
  EXPECT_EQ(*first->get("", 1), large);
}

TEST_F(StoreTest, get_waits_until_a_value_is_set) {
  serve(2);
  auto first = connect(0, 2), second = connect(1, 2);
  std::thread setter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_TRUE(second->set("late", "1"));
  });
  const Clock::time_point start = Clock::now();
  Result<std::string> value = first->get("late", 10);
  EXPECT_GT(getSeconds(start), 0.15);
  setter.join();
  ASSERT_TRUE(value);
  EXPECT_EQ(*value, "1");

  Result<std::string> never = first->get("never", 0.2);
  ASSERT_FALSE(never);
  EXPECT_EQ(never.getError().code, ErrorCode::MissingRank);
  EXPECT_THAT(never.getError().message,
              HasSubstr("no rank has set 'never' within 0.2 s"));
}

TEST_F(StoreTest, add_counts_across_ranks_and_threads) {
  serve(2);
  auto first = connect(0, 2), second = connect(1, 2);
  std::vector<std::thread> threads;
  for (StoreClient *client : {first.get(), first.get(), second.get()})
    threads.emplace_back([client] {
      for (int i = 0; i < 100; ++i)
        EXPECT_TRUE(client->add("count", 2));
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(*first->add("count", -600), 0);
  EXPECT_EQ(*second->get("count", 1), "0");
  ASSERT_TRUE(first->set("text", "no number"));
  EXPECT_FALSE(second->add("text", 1));
  ASSERT_TRUE(first->set("most", "9223372036854775807"));
  EXPECT_FALSE(second->add("most", 1));
}

TEST_F(StoreTest, a_barrier_opens_when_all_have_arrived) {
  constexpr int64_t ranks = 3;
  serve(ranks);
  std::vector<std::unique_ptr<StoreClient>> clients;
  for (int64_t rank = 0; rank < ranks; ++rank)
    clients.push_back(connect(rank, ranks));
  std::atomic<int> arrived = 0;
  std::vector<std::thread> threads;
  for (auto &client : clients)
    threads.emplace_back([&] {
      for (int round = 1; round <= 50; ++round) {
        ++arrived;
        EXPECT_TRUE(client->barrier("b", 10));
        EXPECT_GE(arrived, round * ranks);
        EXPECT_TRUE(client->barrier("c", 10));
      }
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST_F(StoreTest, a_barrier_names_those_who_did_not_come) {
  serve(4);
  auto first = connect(0, 4), third = connect(2, 4);
  const Clock::time_point start = Clock::now();
  std::future<Status> other =
      std::async([&] { return third->barrier("start", 5); });
  Status status = first->barrier("start", 0.3);
  EXPECT_LT(getSeconds(start), 2);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.getError().code, ErrorCode::MissingRank);
  EXPECT_EQ(status.getError().message,
            "ranks 1 and 3 of 4 did not start within 0.3 s");
  EXPECT_EQ(first->fail(status.getError(), getDeadline(5)), Told::Yes);
  EXPECT_EQ(other.get().getError().message, status.getError().message);
}

TEST_F(StoreTest, a_barrier_names_those_who_are_elsewhere) {
  serve(2);
  auto first = connect(0, 2), second = connect(1, 2);
  Status status = first->barrier("here", 0.2);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.getError().message,
            "rank 1 of 2 did not arrive at 'here' within 0.2 s");
}

TEST_F(StoreTest, the_end_of_a_connection_ends_the_run) {
  serve(3);
  Notice notices[2];
  auto first = connect(0, 3, &notices[0]), second = connect(1, 3, &notices[1]);
  auto third = connect(2, 3);
  std::future<Result<std::string>> waiting =
      std::async([&] { return first->get("never", 60); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const Clock::time_point start = Clock::now();
  third.reset();
  for (Notice &notice : notices) {
    ASSERT_EQ(notice.future.wait_for(std::chrono::seconds(2)),
              std::future_status::ready);
    auto [error, isOver] = notice.future.get();
    EXPECT_EQ(error.code, ErrorCode::RankLost);
    EXPECT_EQ(error.message, "rank 2 ended before the others");
    EXPECT_FALSE(isOver);
  }
  EXPECT_LT(getSeconds(start), 1);
  // Requests fail from now on, whether they waited already or not.
  EXPECT_EQ(waiting.get().getError().code, ErrorCode::RankLost);
  EXPECT_EQ(second->barrier("b", 60).getError().code, ErrorCode::RankLost);
  EXPECT_LT(getSeconds(start), 2);
}

TEST_F(StoreTest, the_end_of_the_server_is_noticed) {
  serve(2);
  Notice notice;
  auto second = connect(1, 2, &notice);
  std::future<Result<std::string>> waiting =
      std::async([&] { return second->get("never", 60); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  server.reset();
  ASSERT_EQ(notice.future.wait_for(std::chrono::seconds(2)),
            std::future_status::ready);
  auto [error, isOver] = notice.future.get();
  EXPECT_EQ(error.message, "rank 0 ended before the others");
  EXPECT_TRUE(isOver);
  EXPECT_EQ(waiting.get().getError().code, ErrorCode::RankLost);
  EXPECT_FALSE(second->set("key", "value"));
  EXPECT_EQ(second->fail({ErrorCode::HungUp, "stopped by SIGHUP", ""},
                         getDeadline(5)),
            Told::Gone);
}

TEST_F(StoreTest, a_rank_that_leaves_in_good_order_is_not_lost) {
  serve(2);
  Notice notice;
  auto first = connect(0, 2, &notice);
  auto second = connect(1, 2);
  second->leave();
  second.reset();
  EXPECT_EQ(notice.future.wait_for(std::chrono::milliseconds(300)),
            std::future_status::timeout);
  EXPECT_FALSE(server->waitForEnd(getDeadline(0.1)));
  first->leave();
  first.reset();
  EXPECT_TRUE(server->waitForEnd(getDeadline(2)));
}

TEST_F(StoreTest, values_are_bounded_in_number_and_bytes) {
  serve(1);
  auto first = connect(0, 1);
  const std::string large(size_t(60) << 20, 'x');
  for (const char *name : {"a", "b", "c", "d"})
    ASSERT_TRUE(first->set(name, large));
  // The fifth would be more than 256 MiB; another value of one that is there
  // is not.
  Status full = first->set("e", large);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.getError().code, ErrorCode::DoesNotFit);
  EXPECT_THAT(full.getError().message,
              HasSubstr("the store of the run is full"));
  EXPECT_TRUE(first->set("d", "small"));
  EXPECT_TRUE(first->set("e", large));
  EXPECT_FALSE(first->set("f", large));
  EXPECT_TRUE(first->set(std::string(1024, 'k'), "value"));
  EXPECT_FALSE(first->set(std::string(1025, 'k'), "value"));
  EXPECT_FALSE(first->add(std::string(1025, 'k'), 1));
}

TEST(StoreValuesTest, there_is_a_last_value) {
  StoreValues values;
  for (size_t i = 0; i < StoreValues::maxValues; ++i)
    ASSERT_TRUE(values.set(std::to_string(i), ""));
  EXPECT_FALSE(values.set("another", ""));
  EXPECT_TRUE(values.set("7", "new"));
  EXPECT_EQ(values.add("8", 5).getError().code, ErrorCode::Internal);
  EXPECT_EQ(values.add("count", 5).getError().code, ErrorCode::DoesNotFit);
}

TEST_F(StoreTest, requests_that_wait_are_bounded) {
  serve(2);
  auto first = connect(0, 2);
  Result<Socket> socket = connectTo(address, getDeadline(2));
  ASSERT_TRUE(socket);
  ASSERT_TRUE(introduceAs(*socket, {"store", "job", 1, 2, "1", "me"}));
  // Answers come for those that are too many alone.
  std::string requests;
  for (uint32_t i = 0; i < 1100; ++i)
    requests += MessageWriter(StoreMessage::Get, i)
                    .text("never")
                    .number(60000)
                    .finish();
  ASSERT_TRUE(sendAll(*socket, std::as_bytes(std::span(requests))));
  std::string frames;
  int refused = 0;
  while (refused < 1100 - 1024) {
    std::byte byte;
    ASSERT_TRUE(receiveAll(*socket, std::span(&byte, 1), getDeadline(5)));
    frames += char(byte);
    bool tooLong = false;
    if (std::optional<std::string> body = takeFrame(frames, 4096, tooLong)) {
      MessageReader message(*body);
      EXPECT_EQ(message.error().code, ErrorCode::DoesNotFit);
      ++refused;
    }
  }
  EXPECT_TRUE(first->set("key", "value"));
}

TEST_F(StoreTest, a_silent_rank_counts_as_lost) {
  serve(2, /*silenceSeconds=*/0.5);
  Notice notice;
  Result<std::unique_ptr<StoreClient>> first =
      StoreClient::connect(getIdentity(0, 2), getDeadline(5), 0.5,
                           [&](StoreClient &, const Error &error, bool isOver) {
                             notice.promise.set_value({error, isOver});
                           });
  ASSERT_TRUE(first);
  // It pings every two seconds: too rarely here, once all are there.
  auto second = connect(1, 2);
  EXPECT_EQ(notice.future.wait_for(std::chrono::milliseconds(1500)),
            std::future_status::timeout);
  std::future<Status> other =
      std::async([&] { return second->barrier(StoreServer::startBarrier, 5); });
  ASSERT_TRUE((*first)->barrier(StoreServer::startBarrier, 5));
  ASSERT_TRUE(other.get());
  ASSERT_EQ(notice.future.wait_for(std::chrono::seconds(3)),
            std::future_status::ready);
  EXPECT_EQ(notice.future.get().first.message,
            "rank 1 has not answered for 0.5 s");
}

TEST_F(StoreTest, a_reported_error_reaches_everyone) {
  serve(2);
  Notice notice;
  auto first = connect(0, 2, &notice), second = connect(1, 2);
  EXPECT_EQ(second->fail({ErrorCode::CannotRead, "cannot read 'x'", "a note"},
                         getDeadline(5)),
            Told::Yes);
  ASSERT_EQ(notice.future.wait_for(std::chrono::seconds(2)),
            std::future_status::ready);
  auto [error, isOver] = notice.future.get();
  EXPECT_EQ(error.code, ErrorCode::CannotRead);
  EXPECT_EQ(error.message, "cannot read 'x'");
  EXPECT_EQ(error.note, "a note");
}

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

TEST_F(StoreTest, a_run_that_has_ended_well_stays_so) {
  serve(3);
  Notice notices[3];
  std::vector<std::unique_ptr<StoreClient>> clients;
  for (int64_t rank = 0; rank < 3; ++rank)
    clients.push_back(connect(rank, 3, &notices[rank]));
  std::vector<std::future<Status>> ends;
  for (auto &client : clients)
    ends.push_back(std::async(
        [&] { return client->barrier(StoreServer::endBarrier, 5); }));
  for (std::future<Status> &end : ends)
    EXPECT_TRUE(end.get());
  // An error, a signal, a rank that goes without a word, and rank 0 itself.
  const Error error{ErrorCode::HungUp, "stopped by SIGHUP", ""};
  EXPECT_EQ(clients[1]->fail(error, getDeadline(5)), Told::Ended);
  clients[2].reset();
  EXPECT_EQ(notices[0].future.wait_for(std::chrono::milliseconds(300)),
            std::future_status::timeout);
  server.reset();
  EXPECT_EQ(notices[1].future.wait_for(std::chrono::milliseconds(300)),
            std::future_status::timeout);
  EXPECT_EQ(clients[1]->fail(error, getDeadline(5)), Told::Ended);
}

TEST_F(StoreTest, signals_at_the_end_leave_all_with_the_same_one) {
  for (int round = 0; round < 100; ++round) {
    std::vector<std::optional<int>> codes(3);
    std::atomic<int> finished = 0;
    Result<Socket> listener = listenOn({"127.0.0.1", 0});
    ASSERT_TRUE(listener);
    address = getLocalAddress(*listener);
    const int first = listener->release();
    std::vector<std::thread> threads;
    for (int64_t rank = 0; rank < 3; ++rank)
      threads.emplace_back([&, rank] {
        RankIdentity identity = getIdentity(rank, 3);
        identity.listener = rank == 0 ? first : -1;
        RanksOptions options;
        options.onFailure = [](const Error &) {};
        auto ranks = Ranks::connect(identity, options);
        ASSERT_TRUE(ranks);
        ASSERT_TRUE((*ranks)->start());
        // The later ones at the time when all arrive.
        std::thread signal([&] {
          std::this_thread::sleep_for(std::chrono::microseconds(5 * round));
          if (rank == round % 3)
            codes[rank] =
                (*ranks)->tryEnd({ErrorCode::HungUp, "stopped by SIGHUP", ""},
                                 [](const Error &) {});
        });
        const bool isWell = bool((*ranks)->finish());
        finished += isWell;
        // Others wait for the end of rank 0.
        signal.join();
        EXPECT_TRUE(!isWell || !codes[rank]) << rank;
        EXPECT_TRUE(isWell || rank != round % 3 || codes[rank] == 129) << rank;
      });
    for (std::thread &thread : threads)
      thread.join();
    EXPECT_TRUE(finished == 0 || finished == 3) << finished;
  }
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

TEST(LocalStoreTest, a_run_of_one_process_has_a_store_too) {
  Result<std::unique_ptr<Ranks>> ranks = Ranks::connect({});
  ASSERT_TRUE(ranks);
  ASSERT_TRUE((*ranks)->start());
  Store &store = (*ranks)->getStore();
  EXPECT_TRUE(store.set("a", "b"));
  EXPECT_EQ(*store.get("a", 0), "b");
  EXPECT_EQ(store.get("b", 0.05).getError().code, ErrorCode::MissingRank);
  EXPECT_EQ(*store.add("n", 3), 3);
  EXPECT_FALSE(store.add("a", 1));
  EXPECT_TRUE(store.barrier("x", 0));
  EXPECT_TRUE((*ranks)->agree({{"the program", "1"}}));
  EXPECT_TRUE((*ranks)->finish());
}

/// Some ranks of one run as threads of this process.
class RanksTest : public testing::Test {
protected:
  using Body = std::function<void(Ranks &)>;

  void run(int64_t count, const Body &body) {
    Result<Socket> listener = listenOn({"127.0.0.1", 0});
    ASSERT_TRUE(listener);
    const Address address = getLocalAddress(*listener);
    std::vector<std::thread> threads;
    for (int64_t rank = 0; rank < count; ++rank) {
      RankIdentity identity;
      identity.source = RankSource::Flags;
      identity.rank = rank;
      identity.ranks = count;
      identity.localRank = identity.localRanks = -1;
      identity.store = address;
      identity.listener = rank == 0 ? listener->release() : -1;
      threads.emplace_back([identity, &body] {
        RanksOptions options;
        options.joinSeconds = 10;
        options.onFailure = [](const Error &) {};
        Result<std::unique_ptr<Ranks>> ranks =
            Ranks::connect(identity, options);
        ASSERT_TRUE(ranks) << ranks.getError().message;
        ASSERT_TRUE((*ranks)->start());
        body(**ranks);
        EXPECT_TRUE((*ranks)->finish());
      });
    }
    for (std::thread &thread : threads)
      thread.join();
  }
};

TEST_F(RanksTest, local_ranks_are_counted_where_nobody_told_them) {
  run(3, [](Ranks &ranks) {
    EXPECT_EQ(ranks.getLocalRank(), ranks.getRank());
    EXPECT_EQ(ranks.getNumLocalRanks(), 3);
    EXPECT_EQ(ranks.getHost(), "127.0.0.1");
  });
}

TEST_F(RanksTest, what_is_equal_is_agreed_on) {
  run(4, [](Ranks &ranks) {
    EXPECT_TRUE(ranks.agree({{"the program", "12"}, {"--seed", "1"}}));
    EXPECT_TRUE(ranks.agree({}));
  });
}

TEST_F(RanksTest, what_differs_is_named_on_all_ranks) {
  run(4, [](Ranks &ranks) {
    const int64_t rank = ranks.getRank();
    Status status = ranks.agree({{"the program", "12"},
                                 {"--seed", rank % 2 == 1 ? "7" : "1"},
                                 {"--steps", std::to_string(rank)}});
    ASSERT_FALSE(status);
    EXPECT_EQ(status.getError().code, ErrorCode::RanksDiffer);
    EXPECT_EQ(status.getError().message,
              "ranks 1 and 3 and rank 0 differ in --seed");
    EXPECT_EQ(status.getError().note, "rank 0 has '1', rank 1 '7'");
  });
}

TEST(DigestTest, every_byte_counts) {
  auto digest = [](std::string_view text) {
    return getDigest(std::as_bytes(std::span(text)));
  };
  // FNV-1a of nothing is its offset basis.
  EXPECT_EQ(digest(""), "cbf29ce484222325");
  EXPECT_NE(digest("ab"), digest("ba"));
  EXPECT_NE(digest(std::string_view("\0", 1)),
            digest(std::string_view("\0\0", 2)));
}

TEST(RankListTest, long_lists_are_cut_short) {
  EXPECT_EQ(listRanks({2}), "rank 2");
  EXPECT_EQ(listRanks({2, 5}), "ranks 2 and 5");
  EXPECT_EQ(listRanks({2, 5, 6}), "ranks 2, 5 and 6");
  EXPECT_EQ(listRanks({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}),
            "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
}

} // namespace
