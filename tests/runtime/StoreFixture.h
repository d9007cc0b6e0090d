#ifndef MESHC_TESTS_RUNTIME_STOREFIXTURE_H
#define MESHC_TESTS_RUNTIME_STOREFIXTURE_H

/// A store and its clients in one process, each with a connection of its own.

#include "runtime/ranks/Handshake.h"
#include "runtime/ranks/Ranks.h"
#include "runtime/ranks/Socket.h"
#include "runtime/ranks/StoreClient.h"
#include "runtime/ranks/StoreServer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace meshc::runtime::test {

using Clock = std::chrono::steady_clock;

inline double getSeconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

/// What a rank is told when another one fails.
struct Notice {
  std::promise<std::pair<Error, bool>> promise;
  std::future<std::pair<Error, bool>> future = promise.get_future();
};

class StoreTest : public ::testing::Test {
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

} // namespace meshc::runtime::test

#endif
