/// The store of a run, and that the end of a rank is noticed: with several
/// ranks in one process.

#include "tests/runtime/StoreFixture.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using ::testing::HasSubstr;

namespace {

using Told = StoreClient::Told;

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

} // namespace
