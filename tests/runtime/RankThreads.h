#ifndef MESHC_TESTS_RUNTIME_RANKTHREADS_H
#define MESHC_TESTS_RUNTIME_RANKTHREADS_H

/// Runs of several processes as threads of one: each with connections of its
/// own to the others.

#include "runtime/ranks/Ranks.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace meshc::runtime::test {

/// Whether ranks are told which of those on their host they are, or count.
enum class LocalRanks : uint8_t { Told, Counted };

/// Runs `body` as every rank of a run.
inline void runRanks(int64_t count, const std::function<void(Ranks &)> &body,
                     LocalRanks local = LocalRanks::Told) {
  Result<Socket> listener = listenOn({"127.0.0.1", 0});
  ASSERT_TRUE(listener);
  RankIdentity identity;
  identity.source = RankSource::Flags;
  identity.ranks = count;
  identity.localRanks = local == LocalRanks::Told ? count : -1;
  identity.store = getLocalAddress(*listener);
  const int first = listener->release();
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < count; ++rank) {
    identity.rank = rank;
    identity.localRank = local == LocalRanks::Told ? rank : -1;
    identity.listener = rank == 0 ? first : -1;
    threads.emplace_back([identity, &body] {
      RanksOptions options;
      options.onFailure = [](const Error &) {};
      Result<std::unique_ptr<Ranks>> ranks = Ranks::connect(identity, options);
      ASSERT_TRUE(ranks) << ranks.getError().message;
      ASSERT_TRUE((*ranks)->start());
      body(**ranks);
      EXPECT_TRUE((*ranks)->finish());
    });
  }
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace meshc::runtime::test

#endif
