/// What collectives send between processes, byte by byte.

#include "layout/Collective.h"
#include "runtime/cpu/Executor.h"
#include "runtime/ranks/SocketTransport.h"
#include "tests/runtime/ProgramBuilder.h"
#include "tests/runtime/RankThreads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <tuple>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;

namespace {

constexpr exec::ElementType f32 = exec::ElementType::f32;
constexpr exec::ReduceKind sum = exec::ReduceKind::sum;

/// Counts what goes through another transport.
class CountingTransport : public Transport {
public:
  CountingTransport(std::unique_ptr<Transport> inner,
                    std::atomic<int64_t> &sentBytes)
      : inner(std::move(inner)), sentBytes(sentBytes) {}

  void start(Listener &listener) override { inner->start(listener); }
  void receive(std::span<const TransportMessage> messages) override {
    inner->receive(messages);
  }
  void send(std::span<const TransportMessage> messages) override {
    for (const TransportMessage &message : messages)
      sentBytes += int64_t(message.bytes);
    inner->send(messages);
  }

private:
  std::unique_ptr<Transport> inner;
  std::atomic<int64_t> &sentBytes;
};

exec::AxisRef wholeAxis(int64_t devices) { return {0, 1, int32_t(devices)}; }

exec::TensorLayoutT makeWhole(int64_t elements) {
  return makeLayout(f32, {{"e", elements}});
}

exec::TensorLayoutT makeSplit(int64_t elements, int64_t devices) {
  return makeLayout(f32, {{"e", elements, {wholeAxis(devices)}}});
}

exec::TensorLayoutT makePartial(int64_t elements, int64_t devices,
                                exec::ReduceKind kind = sum,
                                exec::ElementType element = f32) {
  return makeLayout(element, {{"e", elements}}, kind, {wholeAxis(devices)});
}

/// Bytes that each of some processes sends for a collective.
std::vector<int64_t> countSent(int64_t devices, int64_t ranks,
                               const exec::TensorLayoutT &source,
                               const exec::TensorLayoutT &target) {
  ProgramBuilder builder({{"x", devices}});
  const int from = builder.addBuffer("from", source);
  const int to = builder.addBuffer("to", target);
  builder.beginProgram("p");
  builder.addCollective(exec::CollectiveKind::exchange, source, from, target,
                        to);
  const Executable executable = builder.finish();
  std::vector<std::atomic<int64_t>> sent(static_cast<size_t>(ranks));
  runRanks(ranks, [&](Ranks &group) {
    Result<std::unique_ptr<Transport>> sockets = SocketTransport::create(group);
    ASSERT_TRUE(sockets);
    auto counting = std::make_unique<CountingTransport>(
        std::move(*sockets), sent[size_t(group.getRank())]);
    Result<std::unique_ptr<Executor>> part =
        Executor::create(executable, {}, 1,
                         {ranks, group.getRank(), ranks, std::move(counting)});
    ASSERT_TRUE(part);
    for (int round = 0; round < 2; ++round)
      ASSERT_TRUE((*part)->run(*executable.data.programs[0]));
    ASSERT_TRUE(group.getStore().barrier("done", 60));
  });
  std::vector<int64_t> bytes;
  for (const std::atomic<int64_t> &ofBoth : sent) {
    EXPECT_EQ(ofBoth % 2, 0);
    bytes.push_back(ofBoth / 2);
  }
  return bytes;
}

/// 16 floats are a cache line, at which boxes begin in messages; with this many
/// lines, every share is a whole number of them.
constexpr int64_t elements = 16 * 3 * 4 * 5 * 7 * 8;

TEST(ExecutorTrafficTest, a_device_per_process_sends_what_the_plan_says) {
  using layout::CollectiveKind;
  for (int64_t devices : {2, 3, 4, 5, 7}) {
    const exec::TensorLayoutT whole = makeWhole(elements);
    const exec::TensorLayoutT split = makeSplit(elements, devices);
    const exec::TensorLayoutT partial = makePartial(elements, devices);
    const int64_t bytes = 4 * elements;
    for (auto [kind, source, target, payload] :
         {std::tuple{CollectiveKind::AllReduce, &partial, &whole, bytes},
          {CollectiveKind::ReduceScatter, &partial, &split, bytes},
          {CollectiveKind::AllGather, &split, &whole, bytes / devices}}) {
      const int64_t expected = layout::getWireBytes(kind, payload, devices);
      EXPECT_EQ(countSent(devices, devices, *source, *target),
                std::vector(size_t(devices), expected))
          << layout::getName(kind) << " of " << devices;
    }
  }
}

TEST(ExecutorTrafficTest, terms_go_one_by_one_where_their_order_matters) {
  const int64_t bytes = 4 * elements;
  for (auto [devices, ranks] :
       {std::pair<int64_t, int64_t>{4, 2}, {6, 2}, {6, 3}, {8, 4}}) {
    const int64_t local = devices / ranks;
    // The terms of the others' shares, then the own share for them.
    const int64_t shares = (ranks - 1) * bytes / ranks;
    EXPECT_EQ(countSent(devices, ranks, makePartial(elements, devices),
                        makeWhole(elements)),
              std::vector(size_t(ranks), local * shares + shares));
    // One term per process says as much of these.
    for (auto [kind, element] :
         {std::pair{exec::ReduceKind::max, f32},
          {exec::ReduceKind::sum, exec::ElementType::i32}})
      EXPECT_EQ(countSent(devices, ranks,
                          makePartial(elements, devices, kind, element),
                          makeLayout(element, {{"e", elements}})),
                std::vector(size_t(ranks), ranks == 2 ? bytes : 2 * shares));
  }
}

TEST(ExecutorTrafficTest, short_sums_take_one_message) {
  constexpr int64_t few = 16;
  EXPECT_EQ(countSent(5, 5, makePartial(few, 5), makeWhole(few)),
            std::vector<int64_t>(5, 4 * few * 4));
}

} // namespace
