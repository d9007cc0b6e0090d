/// What the ranks of a run tell each other before it begins.

#include "runtime/ranks/Ranks.h"
#include "runtime/io/RunningDigest.h"
#include "runtime/ranks/StoreServer.h"
#include "tests/runtime/RankThreads.h"

#include <gtest/gtest.h>

#include <functional>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;

namespace {

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

void runCounted(int64_t count, const std::function<void(Ranks &)> &body) {
  runRanks(count, body, LocalRanks::Counted);
}

TEST(RanksTest, local_ranks_are_counted_where_nobody_told_them) {
  runCounted(3, [](Ranks &ranks) {
    EXPECT_EQ(ranks.getLocalRank(), ranks.getRank());
    EXPECT_EQ(ranks.getNumLocalRanks(), 3);
    EXPECT_EQ(ranks.getHost(), "127.0.0.1");
  });
}

TEST(RanksTest, what_is_equal_is_agreed_on) {
  runCounted(4, [](Ranks &ranks) {
    EXPECT_TRUE(ranks.agree({{"the program", "12"}, {"--seed", "1"}}));
    EXPECT_TRUE(ranks.agree({}));
  });
}

TEST(RanksTest, what_differs_is_named_on_all_ranks) {
  runCounted(4, [](Ranks &ranks) {
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
