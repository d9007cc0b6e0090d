/// The executor with kernels written by hand: what is executed, how often, on
/// which device, and that the number of threads changes no bit.

#include "runtime/cpu/Executor.h"
#include "tests/runtime/ProgramBuilder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <mutex>
#include <thread>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;

namespace {

constexpr exec::ElementType f32 = exec::ElementType::f32;
constexpr exec::ElementType i64 = exec::ElementType::i64;

/// out[i] += 1 for each iteration.
void countIterations(void *const *operands, const int64_t *, int64_t begin,
                     int64_t end) {
  auto *out = static_cast<int64_t *>(operands[0]);
  for (int64_t i = begin; i < end; ++i)
    ++out[i];
}

/// out[0], out[1] = the device's coordinates.
void storeCoordinates(void *const *operands, const int64_t *coordinates,
                      int64_t, int64_t) {
  auto *out = static_cast<int64_t *>(operands[0]);
  out[0] = coordinates[0];
  out[1] = coordinates[1];
}

/// out[i] = f(in[i], coordinate): something whose bits depend on every operand.
void mix(void *const *operands, const int64_t *coordinates, int64_t begin,
         int64_t end) {
  const auto *in = static_cast<const float *>(operands[0]);
  auto *out = static_cast<float *>(operands[1]);
  for (int64_t i = begin; i < end; ++i)
    out[i] =
        std::sin(in[i] * 1.7f + float(coordinates[0]) * 0.3f + float(i % 13));
}

std::atomic<int> callsOfSlow;

void slow(void *const *operands, const int64_t *, int64_t begin, int64_t end) {
  ++callsOfSlow;
  auto *out = static_cast<double *>(operands[0]);
  for (int64_t i = begin; i < end; ++i) {
    double x = double(i);
    for (int j = 0; j < 20000; ++j)
      x = std::sqrt(x + 1);
    out[i] = x;
  }
}

std::atomic<bool> hasLaterStarted;
std::atomic<bool> hasSeenLater;

/// The first iterations wait until announce() has run, or give up.
void awaitLater(void *const *, const int64_t *, int64_t begin, int64_t) {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (begin == 0 && std::chrono::steady_clock::now() < deadline)
    if (hasLaterStarted) {
      hasSeenLater = true;
      return;
    }
}

void announce(void *const *, const int64_t *, int64_t, int64_t) {
  hasLaterStarted = true;
}

/// out[i] = 1, after a while.
void storeLate(void *const *operands, const int64_t *, int64_t begin,
               int64_t end) {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  auto *out = static_cast<int64_t *>(operands[0]);
  for (int64_t i = begin; i < end; ++i)
    out[i] = 1;
}

/// out[i] = in[i].
void copyValues(void *const *operands, const int64_t *, int64_t begin,
                int64_t end) {
  const auto *in = static_cast<const int64_t *>(operands[0]);
  auto *out = static_cast<int64_t *>(operands[1]);
  std::copy(in + begin, in + end, out + begin);
}

/// out[i] = in[i] 2^-20.
void shrink(void *const *operands, const int64_t *, int64_t begin,
            int64_t end) {
  const auto *in = static_cast<const float *>(operands[0]);
  auto *out = static_cast<float *>(operands[1]);
  for (int64_t i = begin; i < end; ++i)
    out[i] = in[i] * 0x1p-20f;
}

const meshcKernelEntry kernels[] = {
    {"shrink", shrink},
    {"awaitLater", awaitLater},
    {"announce", announce},
    {"storeLate", storeLate},
    {"copyValues", copyValues},
    {"countIterations", countIterations},
    {"storeCoordinates", storeCoordinates},
    {"mix", mix},
    {"slow", slow},
};

std::unique_ptr<Executor> makeExecutor(const Executable &executable,
                                       int threads) {
  Result<std::unique_ptr<Executor>> executor =
      Executor::create(executable, kernels, threads);
  EXPECT_TRUE(executor) << executor.getError().message;
  return std::move(*executor);
}

TEST(ExecutorTest, every_iteration_runs_once) {
  for (int64_t devices : {1, 2, 5})
    for (int threads : {1, 2, 3, 4})
      for (int64_t extent : {0, 1, 7, 64, 1000, 10001}) {
        ProgramBuilder builder({{"x", devices}});
        int out = builder.addBuffer("out", extent * 8 + 8);
        builder.beginProgram("p");
        // Declared large, so that it is worth being cut.
        builder.addKernel("countIterations", extent,
                          list(builder.view(out, i64, {extent})), 1,
                          int64_t(1) << 24);
        builder.addKernel("countIterations", extent,
                          list(builder.view(out, i64, {extent})), 1);
        Executable executable = builder.finish();
        std::unique_ptr<Executor> executor = makeExecutor(executable, threads);
        for (int run = 1; run <= 3; ++run) {
          ASSERT_TRUE(executor->run(*executable.data.programs[0]));
          for (int64_t device = 0; device < devices; ++device) {
            std::vector<int64_t> counts(extent + 1);
            std::memcpy(counts.data(), executor->getBlock(device, out),
                        counts.size() * 8);
            for (int64_t i = 0; i < extent; ++i)
              ASSERT_EQ(counts[i], 2 * run);
            ASSERT_EQ(counts[extent], 0);
          }
        }
      }
}

/// On every thread, and for no one else.
TEST(ExecutorTest, results_below_the_normal_range_are_zero) {
  constexpr int64_t size = 1 << 20;
  ProgramBuilder builder({{"d", 1}});
  const int in = builder.addBuffer("in", size * 4);
  const int out = builder.addBuffer("out", size * 4);
  builder.beginProgram("step");
  builder.addKernel(
      "shrink", size,
      list(builder.view(in, f32, {size}), builder.view(out, f32, {size})), 1,
      size * 8);
  Executable executable = builder.finish();
  volatile float least = 0x1p-126f; // the least normal number
  for (int threads : {1, 3}) {
    std::unique_ptr<Executor> executor = makeExecutor(executable, threads);
    auto *values = reinterpret_cast<float *>(executor->getBlock(0, in));
    for (int64_t i = 0; i < size; ++i)
      values[i] = std::ldexp(i % 2 ? -1.0f : 1.0f, int(-104 - i % 12));
    values[5] = 0x1p-140f;
    ASSERT_TRUE(executor->run(*executable.data.programs[0]));
    const auto *results =
        reinterpret_cast<const float *>(executor->getBlock(0, out));
    for (int64_t i = 0; i < size; ++i)
      ASSERT_EQ(results[i],
                i % 12 <= 2 && i != 5
                    ? std::ldexp(i % 2 ? -1.0f : 1.0f, int(-124 - i % 12))
                    : 0)
          << i << " on " << threads;
    EXPECT_GT(least * 0.5f, 0) << "the caller's own arithmetic";
  }
}

TEST(ExecutorTest, devices_start_commands_in_the_order_of_the_list) {
  for (int threads : {1, 2, 4}) {
    ProgramBuilder builder({{"x", 2}, {"y", 3}});
    const exec::TensorLayoutT whole = makeLayout(f32, {{"d", 1000}});
    const exec::TensorLayoutT partial = makeLayout(
        f32, {{"d", 1000}}, exec::ReduceKind::sum, {builder.axis(1)});
    const int value = builder.addBuffer("value", whole);
    const int other = builder.addBuffer("other", whole);
    builder.beginProgram("p");
    auto addKernel = [&](int buffer) {
      builder.addKernel("mix", 1000,
                        list(builder.view(buffer, f32, {1000}),
                             builder.view(buffer, f32, {1000})),
                        1, int64_t(1) << 20);
    };
    addKernel(value);
    builder.addCollective(exec::CollectiveKind::all_reduce, partial, value,
                          whole, value);
    addKernel(other);
    addKernel(other);
    builder.addCollective(exec::CollectiveKind::all_reduce, partial, other,
                          whole, other);
    addKernel(value);
    Executable executable = builder.finish();
    std::unique_ptr<Executor> executor = makeExecutor(executable, threads);
    std::mutex mutex;
    std::vector<std::vector<size_t>> starts(6);
    executor->observeStarts([&](int64_t device, size_t command) {
      std::lock_guard lock(mutex);
      starts[size_t(device)].push_back(command);
    });
    ASSERT_TRUE(executor->run(*executable.data.programs[0]));
    for (const std::vector<size_t> &ofDevice : starts)
      EXPECT_EQ(ofDevice, (std::vector<size_t>{0, 1, 2, 3, 4, 5}));
    executor->observeStarts(nullptr);
    ASSERT_TRUE(executor->run(*executable.data.programs[0]));
    EXPECT_EQ(starts[0].size(), 6u);
  }
}

TEST(ExecutorTest, a_device_goes_on_past_a_collective_that_is_not_needed_yet) {
  ProgramBuilder builder({{"x", 2}});
  const exec::TensorLayoutT whole = makeLayout(f32, {{"d", 10}});
  const exec::TensorLayoutT partial =
      makeLayout(f32, {{"d", 10}}, exec::ReduceKind::sum, {builder.axis(0)});
  const int value = builder.addBuffer("value", whole);
  const int other = builder.addBuffer("other", whole);
  builder.beginProgram("p");
  for (int buffer : {value, other, value}) {
    builder.addKernel(
        "mix", 10,
        list(builder.view(buffer, f32, {10}), builder.view(buffer, f32, {10})),
        1);
    if (buffer == value)
      builder.addCollective(exec::CollectiveKind::all_reduce, partial, value,
                            whole, value);
  }
  Executable executable = builder.finish();
  std::unique_ptr<Executor> executor = makeExecutor(executable, 1);
  std::vector<std::pair<int64_t, size_t>> starts;
  executor->observeStarts([&](int64_t device, size_t command) {
    starts.emplace_back(device, command);
  });
  ASSERT_TRUE(executor->run(*executable.data.programs[0]));
  ASSERT_EQ(starts.size(), 10u);
  // Device 0 is parked before command 3, which needs the sum.
  starts.resize(5);
  EXPECT_EQ(starts, (std::vector<std::pair<int64_t, size_t>>{
                        {0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}}));
}

TEST(ExecutorTest, a_device_goes_on_beside_the_last_pieces_of_a_command) {
  ProgramBuilder builder({});
  const int64_t extent = 128; // two pieces
  const int a = builder.addBuffer("a", extent * 8);
  const int b = builder.addBuffer("b", extent * 8);
  builder.beginProgram("p");
  builder.addKernel("awaitLater", extent, list(builder.view(a, i64, {extent})),
                    1, 1 << 20);
  builder.addKernel("announce", 1, list(builder.view(b, i64, {extent})), 1);
  Executable executable = builder.finish();
  std::unique_ptr<Executor> executor = makeExecutor(executable, 2);
  hasLaterStarted = hasSeenLater = false;
  ASSERT_TRUE(executor->run(*executable.data.programs[0]));
  EXPECT_TRUE(hasSeenLater);
}

TEST(ExecutorTest, what_an_empty_command_waits_for_is_waited_for) {
  ProgramBuilder builder({});
  const int64_t extent = 128; // two pieces
  const int in = builder.addBuffer("in", extent * 8);
  const int none = builder.addBuffer("none", 8);
  const int out = builder.addBuffer("out", extent * 8);
  builder.beginProgram("p");
  builder.addKernel("storeLate", extent, list(builder.view(in, i64, {extent})),
                    1, 1 << 20);
  // Independent, so that the device goes on beside the first command.
  builder.addKernel("announce", 1, list(builder.view(none, i64, {1})), 1);
  builder.addKernel("announce", 0, list(builder.view(none, i64, {0})), 1)
      .waits = {0, 1};
  builder
      .addKernel("copyValues", extent,
                 list(builder.view(in, i64, {extent}),
                      builder.view(out, i64, {extent})),
                 1)
      .waits = {2};
  Executable executable = builder.finish();
  std::unique_ptr<Executor> executor = makeExecutor(executable, 3);
  ASSERT_TRUE(executor->run(*executable.data.programs[0]));
  const auto *values =
      reinterpret_cast<const int64_t *>(executor->getBlock(0, out));
  EXPECT_EQ(std::count(values, values + extent, 1), extent);
}

TEST(ExecutorTest, kernels_get_the_coordinates_of_their_device) {
  ProgramBuilder builder({{"x", 2}, {"y", 3}});
  int out = builder.addBuffer("out", 16);
  builder.beginProgram("p");
  builder.addKernel("storeCoordinates", 1, list(builder.view(out, i64, {2})),
                    1);
  Executable executable = builder.finish();
  std::unique_ptr<Executor> executor = makeExecutor(executable, 2);
  ASSERT_TRUE(executor->run(*executable.data.programs[0]));
  for (int64_t device = 0; device < 6; ++device) {
    int64_t found[2];
    std::memcpy(found, executor->getBlock(device, out), 16);
    EXPECT_EQ(found[0], device / 3);
    EXPECT_EQ(found[1], device % 3);
  }
}

TEST(ExecutorTest, a_missing_kernel_is_an_error) {
  ProgramBuilder builder({});
  int out = builder.addBuffer("out", 16);
  builder.beginProgram("p");
  builder.addKernel("nowhere", 1, list(builder.view(out, i64, {2})), 1);
  Executable executable = builder.finish();
  Result<std::unique_ptr<Executor>> executor =
      Executor::create(executable, kernels, 1);
  ASSERT_FALSE(executor);
  EXPECT_EQ(executor.getError().code, ErrorCode::DamagedProgram);
  EXPECT_EQ(executor.getError().message,
            "damaged program: it has no kernel 'nowhere', which command "
            "'nowhere' of program 'p' calls");
}

TEST(ExecutorTest, arenas_larger_than_memory_are_refused) {
  ProgramBuilder builder({{"x", 8}});
  builder.addBuffer("huge", int64_t(1) << 50);
  builder.beginProgram("p");
  Executable executable = builder.finish();
  Result<std::unique_ptr<Executor>> executor =
      Executor::create(executable, kernels, 1);
  ASSERT_FALSE(executor);
  EXPECT_EQ(executor.getError().code, ErrorCode::DoesNotFit);
}

TEST(ExecutorTest, copies_between_strides) {
  for (int threads : {1, 3}) {
    ProgramBuilder builder({});
    const int64_t rows = 70, columns = 130;
    int from = builder.addBuffer("from", rows * columns * 8);
    int to = builder.addBuffer("to", rows * columns * 8);
    builder.beginProgram("p");
    // Transposed, and then one scalar.
    builder.addCopy(builder.view(from, i64, {columns, rows}, {1, columns}),
                    builder.view(to, i64, {columns, rows}), 1 << 22);
    builder.addCopy(builder.view(from, i64, {}, {}, 8),
                    builder.view(to, i64, {}));
    Executable executable = builder.finish();
    std::unique_ptr<Executor> executor = makeExecutor(executable, threads);
    auto *source = reinterpret_cast<int64_t *>(executor->getBlock(0, from));
    for (int64_t i = 0; i < rows * columns; ++i)
      source[i] = i;
    ASSERT_TRUE(executor->run(*executable.data.programs[0]));
    const auto *target =
        reinterpret_cast<const int64_t *>(executor->getBlock(0, to));
    EXPECT_EQ(target[0], 1);
    for (int64_t i = 1; i < rows * columns; ++i)
      ASSERT_EQ(target[i], i % rows * columns + i / rows);
  }
}

/// Kernels and products between collectives of several groups.
Executable makeMixedProgram(int64_t x, int64_t y, bool hasMatmul) {
  const int64_t size = 96; // of the square blocks
  ProgramBuilder builder({{"x", x}, {"y", y}});
  std::vector<Dim> dims = {{"r", size}, {"c", size}};
  exec::TensorLayoutT whole = makeLayout(f32, dims);
  exec::TensorLayoutT partialX =
      makeLayout(f32, dims, exec::ReduceKind::sum, {builder.axis(0)});
  exec::TensorLayoutT partialY =
      makeLayout(f32, dims, exec::ReduceKind::sum, {builder.axis(1)});
  exec::TensorLayoutT split =
      makeLayout(f32, {{"r", size, {builder.axis(1)}}, {"c", size}});
  int a = builder.addBuffer("a", whole);
  int b = builder.addBuffer("b", whole);
  int c = builder.addBuffer("c", whole);
  int part = builder.addBuffer("part", split);
  builder.addVariable("a", whole, a);
  builder.beginProgram("p");
  auto addKernel = [&](int from, int to) {
    builder.addKernel("mix", size * size,
                      list(builder.view(from, f32, {size, size}),
                           builder.view(to, f32, {size, size})),
                      1, int64_t(1) << 22);
  };
  for (int round = 0; round < 4; ++round) {
    addKernel(a, b);
    builder.addCollective(exec::CollectiveKind::all_reduce, partialX, b, whole,
                          b);
    if (hasMatmul) {
      exec::MatmulT matmul;
      matmul.m = matmul.n = matmul.k = size;
      matmul.a_strides = {size, 1};
      matmul.b_strides = {1, size};
      matmul.c_strides = {size, 1};
      builder.addMatmul(matmul, list(builder.view(b, f32, {size, size}),
                                     builder.view(a, f32, {size, size}),
                                     builder.view(c, f32, {size, size})));
    } else {
      addKernel(b, c);
    }
    builder.addCollective(exec::CollectiveKind::reduce_scatter, partialY, c,
                          split, part);
    builder.addCollective(exec::CollectiveKind::all_gather, split, part, whole,
                          b);
    addKernel(b, a);
  }
  return builder.finish();
}

std::vector<std::byte> runMixedProgram(const Executable &executable,
                                       int threads) {
  std::unique_ptr<Executor> executor = makeExecutor(executable, threads);
  const exec::BufferT &a = *executable.data.buffers[0];
  for (int64_t device = 0; device < executable.getNumDevices(); ++device) {
    auto *values = reinterpret_cast<float *>(executor->getBlock(device, 0));
    for (uint64_t i = 0; i < a.bytes / 4; ++i)
      values[i] = float(i % 17) * 0.1f + float(device);
  }
  EXPECT_TRUE(executor->run(*executable.data.programs[0]));
  EXPECT_TRUE(executor->run(*executable.data.programs[0]));
  std::vector<std::byte> result;
  for (int64_t device = 0; device < executable.getNumDevices(); ++device) {
    const std::byte *arena = executor->getArenas()[device];
    result.insert(result.end(), arena, arena + executable.data.arena_bytes);
  }
  return result;
}

TEST(ExecutorTest, threads_change_no_bit) {
  for (auto [x, y] : {std::pair{1, 1},
                      {1, 2},
                      {2, 1},
                      {3, 1},
                      {2, 2},
                      {1, 5},
                      {2, 3},
                      {7, 1},
                      {4, 2}}) {
    Executable executable = makeMixedProgram(x, y, false);
    std::vector<std::byte> expected = runMixedProgram(executable, 1);
    for (int threads = 2; threads <= 4; ++threads)
      EXPECT_EQ(runMixedProgram(executable, threads), expected)
          << x << " x " << y << " devices, " << threads << " threads";
  }
}

TEST(ExecutorMatmulTest, threads_change_no_bit) {
  for (auto [x, y] : {std::pair{1, 1}, {3, 1}, {2, 2}, {4, 2}}) {
    Executable executable = makeMixedProgram(x, y, true);
    std::vector<std::byte> expected = runMixedProgram(executable, 1);
    for (int threads = 2; threads <= 4; ++threads)
      EXPECT_EQ(runMixedProgram(executable, threads), expected)
          << x << " x " << y << " devices, " << threads << " threads";
  }
}

TEST(ExecutorMatmulTest, cut_products_have_the_same_bits_on_all_threads) {
  // Large enough to be cut into pieces.
  const int64_t m = 300, n = 700, k = 400;
  ProgramBuilder builder({});
  int a = builder.addBuffer("a", m * k * 4);
  int b = builder.addBuffer("b", k * n * 4);
  int c = builder.addBuffer("c", m * n * 4);
  builder.beginProgram("p");
  exec::MatmulT matmul;
  matmul.m = m;
  matmul.n = n;
  matmul.k = k;
  matmul.a_strides = {k, 1};
  matmul.b_strides = {n, 1};
  matmul.c_strides = {n, 1};
  builder.addMatmul(matmul, list(builder.view(a, f32, {m, k}),
                                 builder.view(b, f32, {k, n}),
                                 builder.view(c, f32, {m, n})));
  Executable executable = builder.finish();
  std::vector<float> expected;
  for (int threads = 1; threads <= 4; ++threads) {
    std::unique_ptr<Executor> executor = makeExecutor(executable, threads);
    auto *values = reinterpret_cast<float *>(executor->getBlock(0, a));
    for (int64_t i = 0; i < m * k + k * n; ++i)
      values[i] = std::sin(float(i));
    ASSERT_TRUE(executor->run(*executable.data.programs[0]));
    const auto *found =
        reinterpret_cast<const float *>(executor->getBlock(0, c));
    std::vector<float> result(found, found + m * n);
    if (threads == 1)
      expected = result;
    EXPECT_EQ(result, expected) << threads << " threads";
  }
}

TEST(ExecutorTest, idle_threads_take_part_of_a_kernel) {
  ProgramBuilder builder({});
  int out = builder.addBuffer("out", 4096 * 8);
  builder.beginProgram("p");
  builder.addKernel("slow", 4096,
                    list(builder.view(out, exec::ElementType::f64, {4096})), 1,
                    int64_t(1) << 24);
  Executable executable = builder.finish();
  std::unique_ptr<Executor> executor = makeExecutor(executable, 2);
  callsOfSlow = 0;
  ASSERT_TRUE(executor->run(*executable.data.programs[0]));
  EXPECT_GE(callsOfSlow, 2);
  Profile profile = executor->getProfile();
  EXPECT_EQ(profile.runs, 1);
  // All time is accounted for.
  double sum = 0;
  for (double seconds : profile.seconds)
    sum += seconds;
  const double used = sum;
  sum += profile.idleSeconds;
  EXPECT_NEAR(sum, 2 * profile.wallSeconds, 0.05 * profile.wallSeconds + 1e-3);
  ASSERT_FALSE(profile.commands.empty());
  double ofCommands = 0;
  for (size_t n = 0; n < profile.commands.size(); ++n) {
    ofCommands += profile.commands[n].seconds;
    EXPECT_LE(profile.commands[n].seconds, profile.commands[0].seconds);
  }
  EXPECT_NEAR(ofCommands, used, 1e-6);
  EXPECT_GT(profile.seconds[size_t(exec::Action::Kernel)],
            profile.wallSeconds * 0.5);
  executor->resetProfile(false);
  EXPECT_EQ(executor->getProfile().runs, 0);
}

} // namespace
