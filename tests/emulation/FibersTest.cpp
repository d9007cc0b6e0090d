#include "Fibers.h"

#include "TestImage.h"
#include "codegen/gpu/HostImage.h"

#include <bit>
#include <cfloat>
#include <chrono>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <set>
#include <sys/mman.h>
#include <vector>

using namespace meshc::emulation;
using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;

namespace {

const std::vector<FiberOrder> orders = {{FiberOrder::forward, 0},
                                        {FiberOrder::backward, 0},
                                        {FiberOrder::random, 1},
                                        {FiberOrder::random, 2}};

KernelFunction getKernel(const std::string &name) {
  static std::string error;
  static std::optional<HostImage> image =
      HostImage::load(readTestImage(), error);
  if (!image) {
    ADD_FAILURE() << error;
    return nullptr;
  }
  KernelFunction kernel = image->find(name);
  EXPECT_TRUE(kernel) << name;
  return kernel;
}

template <class... Values>
std::string run(const std::string &name, FiberOrder order, int64_t grid,
                int32_t block, int32_t shared, Values... values) {
  void *parameters[] = {&values..., nullptr};
  return launch(getKernel(name), name, grid, block, shared, parameters, order);
}

std::vector<float> makeFloats(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 3.0f);
  return values;
}

} // namespace

TEST(Fibers, EveryThreadRunsOnce) {
  for (FiberOrder order : orders) {
    std::vector<float> from = makeFloats(150), to(150, -1);
    EXPECT_EQ(
        run("add_one", order, 3, 64, 0, from.data(), to.data(), int64_t(150)),
        "");
    for (size_t i = 0; i < to.size(); ++i)
      EXPECT_EQ(to[i], from[i] + 1);
  }
}

TEST(Fibers, ThreadsMeetAtBarriers) {
  for (FiberOrder order : orders) {
    std::vector<float> from = makeFloats(5 * 64), values = from;
    EXPECT_EQ(run("reverse", order, 5, 64, 256, values.data()), "");
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(values[i], from[i / 64 * 64 + 63 - i % 64]);
  }
}

TEST(Fibers, WarpsShuffle) {
  for (FiberOrder order : orders) {
    std::vector<double> from(7 * 64), to(7);
    std::iota(from.begin(), from.end(), 0.5);
    EXPECT_EQ(run("sum_blocks", order, 7, 64, 16, from.data(), to.data()), "");
    for (size_t block = 0; block < to.size(); ++block)
      EXPECT_EQ(to[block], std::accumulate(from.begin() + block * 64,
                                           from.begin() + block * 64 + 64, 0.));
  }
}

TEST(Fibers, AMissingBarrierGivesWrongValues) {
  for (FiberOrder order : orders) {
    std::vector<float> from = makeFloats(64), values = from;
    EXPECT_EQ(run("reverse_unsafe", order, 1, 64, 256, values.data()), "");
    int wrong = 0;
    for (size_t i = 0; i < values.size(); ++i)
      wrong += values[i] != from[63 - i];
    EXPECT_GT(wrong, 0);
  }
}

TEST(Fibers, BlocksRunInTheOrderAskedFor) {
  int32_t last = -1;
  EXPECT_EQ(run("last_block", orders[0], 9, 1, 0, &last), "");
  EXPECT_EQ(last, 8);
  EXPECT_EQ(run("last_block", orders[1], 9, 1, 0, &last), "");
  EXPECT_EQ(last, 0);
  std::vector<int32_t> lasts;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(run("last_block", {FiberOrder::random, seed}, 9, 1, 0, &last),
              "");
    lasts.push_back(last);
  }
  EXPECT_GT(std::set<int32_t>(lasts.begin(), lasts.end()).size(), 3u);
}

TEST(Fibers, ALostThreadIsNamed) {
  for (FiberOrder order : orders) {
    EXPECT_THAT(run("lost_thread", order, 4, 96, 0),
                AllOf(HasSubstr("kernel 'lost_thread', block 2, thread "),
                      HasSubstr("waits at barrier 1 that not every thread "
                                "reaches: thread 3 has ended")));
    // And the next launch is none the worse for it.
    std::vector<float> values = makeFloats(64);
    EXPECT_EQ(run("reverse", order, 1, 64, 256, values.data()), "");
  }
}

TEST(Fibers, ABarrierAndAShuffleDoNotMeet) {
  for (FiberOrder order : orders)
    EXPECT_THAT(run("split_threads", order, 1, 32, 0),
                AllOf(HasSubstr("thread 0 waits at shuffle 1"),
                      HasSubstr("thread 5 waits at barrier 1")));
}

TEST(Fibers, BarriersOfABlockAreToldApart) {
  for (FiberOrder order : orders) {
    EXPECT_THAT(run("other_barrier", order, 2, 64, 0),
                MatchesRegex("kernel 'other_barrier', block [01], thread 32 "
                             "waits at barrier 2 while thread 0 waits at "
                             "barrier 1"));
    EXPECT_EQ(run("other_barrier", order, 2, 32, 0), "");
    EXPECT_THAT(run("short_loop", order, 1, 32, 0),
                HasSubstr("thread 6 waits at barrier 2 while thread 0 waits at "
                          "barrier 1"));
    EXPECT_EQ(run("short_loop", order, 1, 5, 0), "");
  }
}

TEST(Fibers, ShufflesOfAWarpAreToldApart) {
  for (FiberOrder order : orders) {
    EXPECT_THAT(run("other_shuffle", order, 1, 64, 0),
                HasSubstr("thread 50 waits at shuffle 7 while thread 32 waits "
                          "at shuffle 4"));
    EXPECT_EQ(run("other_shuffle", order, 1, 32, 0), "");
  }
}

TEST(Fibers, MasksOfAWarpAgree) {
  for (FiberOrder order : orders)
    EXPECT_THAT(run("mixed_masks", order, 1, 64, 0),
                AllOf(HasSubstr("kernel 'mixed_masks', block 0, thread "),
                      HasSubstr(" shuffles by ")));
}

TEST(Fibers, ShufflesStayInThePartOfAWarpThatThereIs) {
  EXPECT_THAT(run("sum_blocks", {}, 1, 20, 16, nullptr, nullptr),
              HasSubstr("not mapped"));
  std::vector<double> from(20, 1.0), to(1);
  EXPECT_THAT(run("sum_blocks", {}, 1, 20, 16, from.data(), to.data()),
              HasSubstr("shuffles with thread 20, which is not in its warp"));
}

TEST(Fibers, SharedMemoryIsPoisonedBeforeEveryBlock) {
  std::vector<float> values(64, 0);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(run("read_shared", {}, 3, 64, 256, values.data()), "");
    for (float value : values)
      EXPECT_TRUE(std::isnan(value));
    std::vector<float> other = makeFloats(64);
    EXPECT_EQ(run("reverse", {}, 1, 64, 256, other.data()), "");
  }
}

TEST(Fibers, WritesOutsideSharedMemoryAreFound) {
  EXPECT_EQ(run("write_shared", {}, 1, 1, 100, int64_t(0)), "");
  EXPECT_EQ(run("write_shared", {}, 1, 1, 100, int64_t(99)), "");
  EXPECT_THAT(run("write_shared", {}, 1, 1, 100, int64_t(100)),
              HasSubstr("writes outside its shared memory of 100 bytes, at "
                        "byte 100"));
  EXPECT_THAT(run("write_shared", {}, 1, 1, 100, int64_t(-1)),
              HasSubstr("at byte -1"));
  EXPECT_EQ(run("write_shared", {}, 1, 1, maxSharedBytes,
                int64_t(maxSharedBytes - 1)),
            "");
}

TEST(Fibers, AFaultIsAnErrorWithItsThread) {
  void *closed =
      mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (FiberOrder order : orders)
    EXPECT_THAT(run("write_at", order, 1, 1, 0, closed, int64_t(5)),
                AllOf(HasSubstr("kernel 'write_at', block 0, thread 0 accesses "
                                "0x"),
                      HasSubstr("which is not mapped")));
  munmap(closed, 4096);
  float value = 0;
  EXPECT_EQ(run("write_at", {}, 1, 1, 0, &value, int64_t(0)), "");
  EXPECT_EQ(value, 1);
}

TEST(Fibers, StacksEnd) {
  int32_t value;
  EXPECT_THAT(run("deep", {}, 1, 1, 0, &value), HasSubstr("not mapped"));
}

TEST(Fibers, SizesAreChecked) {
  EXPECT_THAT(run("add_one", {}, 0, 64, 0), HasSubstr("a grid of 0 blocks"));
  EXPECT_THAT(run("add_one", {}, 1, 1025, 0), HasSubstr("1025 threads"));
  EXPECT_THAT(run("add_one", {}, 1, 64, maxSharedBytes + 1),
              HasSubstr("bytes of shared memory"));
}

TEST(Fibers, OrdersHaveNames) {
  EXPECT_EQ(parseFiberOrder("forward")->kind, FiberOrder::forward);
  EXPECT_EQ(parseFiberOrder("backward")->kind, FiberOrder::backward);
  EXPECT_EQ(parseFiberOrder("random:7")->kind, FiberOrder::random);
  EXPECT_EQ(parseFiberOrder("random:7")->seed, 7u);
  for (const char *wrong : {"", "random", "random:", "random:x", "sideways"})
    EXPECT_FALSE(parseFiberOrder(wrong)) << wrong;
}

TEST(Fibers, ThreadsThatNeverWaitAreCheap) {
  // 30 million threads, and 5 million with four switches each: about a
  // second each on two cores of a server of 2023.
  std::vector<int32_t> counts(256);
  auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(run("cheap", {}, 117188, 256, 0, counts.data()), "");
  auto middle = std::chrono::steady_clock::now();
  EXPECT_EQ(counts[255], 117188);
  EXPECT_EQ(run("waiting", {}, 19532, 256, 1024, counts.data()), "");
  auto end = std::chrono::steady_clock::now();
  EXPECT_EQ(counts[0], 117188 + 4 * 19532);
  using Seconds = std::chrono::duration<double>;
  RecordProperty("cheap_s", std::to_string(Seconds(middle - begin).count()));
  RecordProperty("waiting_s", std::to_string(Seconds(end - middle).count()));
  std::printf("cheap %.2f s, waiting %.2f s\n", Seconds(middle - begin).count(),
              Seconds(end - middle).count());
}

//===-- Approximate instructions ------------------------------------------===//

namespace {

constexpr float infinite = std::numeric_limits<float>::infinity();
constexpr float quietNaN = std::numeric_limits<float>::quiet_NaN();

/// An instruction of one operand; the largest error in units of 2^-24 of the
/// result's power of two, the mantissa being `result` divided by that.
struct Instruction {
  float (*run)(float);
  double (*exact)(double);
  double (*getBound)(double mantissa);
  /// Results for -infinity, -1, -0, 0, infinity.
  std::vector<float> ends;
};

const std::vector<Instruction> instructions = {
    {meshc_fiber_sqrt_approx,
     [](double x) { return std::sqrt(x); },
     [](double mantissa) { return 2 * mantissa; },
     {quietNaN, quietNaN, -0.0f, 0.0f, infinite}},
    {meshc_fiber_rsqrt_approx,
     [](double x) { return 1 / std::sqrt(x); },
     [](double mantissa) { return std::exp2(1.1) * mantissa; },
     {quietNaN, quietNaN, -infinite, infinite, 0.0f}},
    {meshc_fiber_rcp_approx_ftz,
     [](double x) { return 1 / x; },
     [](double) { return 2.0; },
     {-0.0f, {}, -infinite, infinite, 0.0f}},
    {meshc_fiber_ex2_approx_ftz,
     [](double x) { return std::exp2(x); },
     [](double) { return 5.0; },
     {0.0f, {}, 1.0f, 1.0f, infinite}},
    {[](float x) { return meshc_fiber_div_full(3.0f, x); },
     [](double x) { return 3 / x; },
     [](double) { return 4.0; },
     {-0.0f, {}, -infinite, infinite, 0.0f}},
};

} // namespace

/// Errors of either sign reach their bounds but for a place, and none is
/// larger.
TEST(Approximations, ErrAsMuchAsTheyMay) {
  for (const Instruction &instruction : instructions) {
    SCOPED_TRACE(&instruction - instructions.data());
    double least = 0, most = 0;
    for (int i = 1; i < 100000; ++i) {
      const float x = 0.0011f * float(i);
      const double exact = instruction.exact(x);
      const double power = std::ldexp(1.0, std::ilogb(exact));
      const double error =
          (double(instruction.run(x)) - exact) / power * 0x1p24;
      const double share = error / instruction.getBound(exact / power);
      least = std::min(least, share);
      most = std::max(most, share);
      ASSERT_EQ(instruction.run(x), instruction.run(x));
    }
    EXPECT_LE(most, 1.0 + 1e-9);
    EXPECT_GE(least, -1.0 - 1e-9);
    EXPECT_GE(most, 0.7);
    EXPECT_LE(least, -0.7);
  }
}

TEST(Approximations, AreExactWhereTheIsaListsTheResult) {
  const float arguments[] = {-infinite, -1.0f, -0.0f, 0.0f, infinite};
  for (const Instruction &instruction : instructions) {
    SCOPED_TRACE(&instruction - instructions.data());
    EXPECT_TRUE(std::isnan(instruction.run(quietNaN)));
    for (size_t i = 0; i < std::size(arguments); ++i) {
      const float expected = instruction.ends[i];
      const float found = instruction.run(arguments[i]);
      if (std::isnan(expected))
        EXPECT_TRUE(std::isnan(found)) << arguments[i];
      else if (arguments[i] != -1)
        EXPECT_EQ(std::bit_cast<uint32_t>(found),
                  std::bit_cast<uint32_t>(expected))
            << arguments[i];
    }
  }
  const float least = 0x1p-149f;
  // Subnormal numbers, and what the .ftz forms make of them.
  EXPECT_NEAR(meshc_fiber_sqrt_approx(least), 0x1p-74 * std::sqrt(0.5),
              0x1p-97);
  EXPECT_NEAR(meshc_fiber_rsqrt_approx(least), 0x1p74 * std::sqrt(2), 0x1p52);
  EXPECT_EQ(meshc_fiber_rcp_approx_ftz(-least), -infinite);
  EXPECT_EQ(meshc_fiber_rcp_approx_ftz(0x1p127f), 0.0f);
  EXPECT_EQ(meshc_fiber_ex2_approx_ftz(least), 1.0f);
  EXPECT_EQ(meshc_fiber_ex2_approx_ftz(-127.0f), 0.0f);
  EXPECT_NEAR(meshc_fiber_div_full(least, 0.125f), 8 * least, 2 * least);
  EXPECT_TRUE(std::isnan(meshc_fiber_div_full(infinite, infinite)));
  EXPECT_TRUE(std::isnan(meshc_fiber_div_full(0.0f, 0.0f)));
  EXPECT_EQ(meshc_fiber_div_full(FLT_MAX, 0.5f), infinite);
  EXPECT_NEAR(meshc_fiber_div_full(FLT_MAX, FLT_MAX), 1.0, 0x1p-22);
}
