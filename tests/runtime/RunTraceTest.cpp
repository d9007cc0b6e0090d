/// What the executor tells of a run: every command once on every device, when
/// what it waits for is over, with the parts of collectives inside of it.

#include "runtime/cpu/Executor.h"
#include "runtime/ranks/SocketTransport.h"
#include "tests/runtime/ProgramBuilder.h"
#include "tests/runtime/RankThreads.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <thread>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;

namespace {

constexpr exec::ElementType f32 = exec::ElementType::f32;
using Part = TraceEvent::Part;

/// Takes a millisecond more on each device than on the one before.
void stagger(void *const *operands, const int64_t *coordinates, int64_t begin,
             int64_t end) {
  auto *values = static_cast<float *>(operands[0]);
  std::this_thread::sleep_for(std::chrono::milliseconds(1 + coordinates[0]));
  for (int64_t i = begin; i < end; ++i)
    values[i] += float(i);
}

/// Takes long enough that other threads take its pieces.
void work(void *const *operands, const int64_t *, int64_t begin, int64_t end) {
  auto *values = static_cast<float *>(operands[0]);
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (int64_t i = begin; i < end; ++i)
    values[i] *= 0.5f;
}

const meshcKernelEntry kernels[] = {{"stagger", stagger}, {"work", work}};

/// A sum over the devices between kernels, and one beside it.
///
///   0 stagger a    1 all_reduce a    2 work b, in pieces    3 work a
Executable makeSums(int64_t devices, int64_t count) {
  ProgramBuilder builder({{"x", devices}});
  const exec::TensorLayoutT partial =
      makeLayout(f32, {{"r", count}}, exec::ReduceKind::sum, {builder.axis(0)});
  const exec::TensorLayoutT whole = makeLayout(f32, {{"r", count}});
  const int a = builder.addBuffer("a", count * 4);
  const int b = builder.addBuffer("b", 1000 * 4);
  builder.beginProgram("p");
  auto addKernel = [&](const char *symbol, int buffer, int64_t count,
                       int64_t bytes) {
    std::vector<std::unique_ptr<exec::OperandT>> operands;
    operands.push_back(builder.view(buffer, f32, {count}));
    builder.addKernel(symbol, count, std::move(operands), 1, bytes);
  };
  addKernel("stagger", a, count, 0);
  builder.addCollective(exec::CollectiveKind::all_reduce, partial, a, whole, a)
      .queue = exec::Queue::communication;
  addKernel("work", b, 1000, int64_t(1) << 24);
  addKernel("work", a, count, 0);
  return builder.finish();
}

/// Elements of a sum that is divided over three processes or more, of which
/// each then spreads what the others have combined.
constexpr int64_t largeSum = 100003;

/// Checks the trace of a run of `executable` in which this process has the
/// devices that `executor` says. `isDivided`: others have some of them, and
/// `hasShares`: combine shares of the sum.
void checkTrace(const Executable &executable, const Executor &executor,
                const RunTrace &trace, bool isDivided, bool hasShares) {
  const auto &commands = executable.data.programs[0]->commands;
  std::map<std::pair<int32_t, int32_t>, TraceEvent> whole;
  std::map<int32_t, int64_t> lastArrival;
  for (const TraceEvent &event : trace.events) {
    EXPECT_LE(trace.begin, event.begin);
    EXPECT_LE(event.begin, event.end);
    EXPECT_LE(event.end, trace.end);
    EXPECT_TRUE(executor.isLocal(event.device));
    if (event.part != Part::Command)
      continue;
    EXPECT_TRUE(whole.try_emplace({event.device, event.command}, event).second)
        << "command " << event.command << " twice on device " << event.device;
    int64_t &last = lastArrival[event.command];
    last = std::max(last, event.begin);
  }
  std::map<int32_t, int> waits;
  for (int32_t device = 0; device < executable.getNumDevices(); ++device)
    for (size_t number = 0;
         executor.isLocal(device) && number < commands.size(); ++number) {
      ASSERT_TRUE(whole.contains({device, int32_t(number)}));
      const TraceEvent &event = whole[{device, int32_t(number)}];
      for (int wait : commands[number]->waits)
        EXPECT_LE((whole[{device, wait}].end), event.begin) << number;
      // Parts come one after the other.
      int64_t last = event.begin;
      std::map<Part, int64_t> parts;
      for (const TraceEvent &part : trace.events) {
        if (part.part == Part::Command || part.device != device ||
            part.command != int32_t(number))
          continue;
        EXPECT_EQ(number, 1u) << "only collectives have parts";
        EXPECT_LE(last, part.begin);
        EXPECT_LE(part.end, event.end);
        last = part.end;
        EXPECT_TRUE(
            parts.try_emplace(part.part, part.end - part.begin).second ||
            part.part == Part::Messages);
        if (part.part == Part::Devices)
          EXPECT_EQ(part.end, lastArrival[part.command]);
      }
      if (number != 1)
        continue;
      EXPECT_EQ(parts.contains(Part::Devices), event.begin < lastArrival[1]);
      EXPECT_TRUE(parts.contains(Part::Combine));
      EXPECT_EQ(parts.contains(Part::Pack), isDivided);
      EXPECT_EQ(parts.contains(Part::Messages), isDivided);
      EXPECT_EQ(parts.contains(Part::Spread), hasShares);
    }
}

TEST(RunTraceTest, has_every_command_of_every_device) {
  const int64_t count = 7;
  for (int64_t devices : {2, 3, 5})
    for (int threads : {1, 3}) {
      const Executable executable = makeSums(devices, count);
      Result<std::unique_ptr<Executor>> executor =
          Executor::create(executable, kernels, threads);
      ASSERT_TRUE(executor);
      RunTrace trace;
      (*executor)->traceRuns(&trace);
      int64_t end = 0;
      for (int run = 0; run < 3; ++run) {
        ASSERT_TRUE((*executor)->run(*executable.data.programs[0]));
        SCOPED_TRACE(testing::Message() << devices << " devices");
        checkTrace(executable, **executor, trace, false, false);
        EXPECT_LE(end, trace.begin);
        end = trace.end;
      }
      // Nobody writes to what nobody wants.
      (*executor)->traceRuns(nullptr);
      ASSERT_TRUE((*executor)->run(*executable.data.programs[0]));
      EXPECT_EQ(trace.end, end);
    }
}

TEST(RunTraceTest, has_what_comes_from_other_processes) {
  for (int64_t devices : {2, 3, 5})
    for (auto [ranks, count] : {std::pair<int64_t, int64_t>{2, 7},
                                {devices, 7},
                                {2, largeSum},
                                {devices, largeSum}}) {
      const Executable executable = makeSums(devices, count);
      runRanks(ranks, [&, ranks = ranks, count = count](Ranks &group) {
        Result<std::unique_ptr<Transport>> transport =
            SocketTransport::create(group);
        ASSERT_TRUE(transport);
        Result<std::unique_ptr<Executor>> part = Executor::create(
            executable, kernels, 2,
            {ranks, group.getRank(), ranks, std::move(*transport)});
        ASSERT_TRUE(part);
        RunTrace trace;
        (*part)->traceRuns(&trace);
        for (int run = 0; run < 2; ++run) {
          ASSERT_TRUE((*part)->run(*executable.data.programs[0]));
          checkTrace(executable, **part, trace, true,
                     count == largeSum && devices > 2);
        }
        EXPECT_TRUE(group.getStore().barrier("done", 60));
      });
    }
}

} // namespace
