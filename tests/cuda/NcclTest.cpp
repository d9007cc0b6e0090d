/// One process per emulated GPU, with the emulated NCCL between them, against
/// the CPU executor: the same bits, and no process waits for one that is gone.

#include "runtime/cpu/Executor.h"
#include "runtime/cuda/CudaDevices.h"
#include "tests/cuda/CudaTesting.h"
#include "tests/cuda/ImageKernels.h"
#include "tests/cuda/RandomProgram.h"
#include "tests/runtime/LinearModel.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

namespace {

/// What the processes of a test share before NCCL connects them.
struct SharedPage {
  std::atomic<int64_t> size;
  char bytes[256];
};

class PagePeers : public cuda::Peers {
public:
  PagePeers(SharedPage *page, int64_t rank, int64_t ranks)
      : page(page), rank(rank), ranks(ranks) {}

  int64_t getRank() const override { return rank; }
  int64_t getNumRanks() const override { return ranks; }
  Result<std::string> shareFirst(const std::string &,
                                 const std::string &value) override {
    if (rank == 0) {
      std::memcpy(page->bytes, value.data(), value.size());
      page->size = int64_t(value.size());
    }
    while (page->size == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return std::string(page->bytes, size_t(page->size));
  }
  Status check() override { return Status::success(); }

private:
  SharedPage *page;
  int64_t rank, ranks;
};

struct RankRequest {
  bool usesGraphs = true;
  int runs = 3;
  emulation::Variables variables; ///< of the emulation
  emulation::Variables others;    ///< of NCCL
  int64_t rankToKill = -1;        ///< before the second run
  /// The others begin the second run so much later.
  std::chrono::milliseconds delay{0};
  std::chrono::seconds deadline{60};
  /// This one sleeps for longer than the deadline before the second run, or
  /// before the first.
  int64_t rankToHang = -1;
  bool hangsAtStart = false;
  bool sharesGpu = false; ///< all on the first one
  /// The devices are destroyed after an error too: nothing hangs on them.
  bool destroysFailed = false;
};

/// What every rank found, and how it ended.
std::vector<std::string> runRanks(const Executable &executable,
                                  const RankRequest &request) {
  auto *page = static_cast<SharedPage *>(
      mmap(nullptr, sizeof(SharedPage), PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  new (page) SharedPage{};
  const int64_t ranks = executable.getNumDevices();
  emulation::Variables variables = {
      {"MESHC_CUDA_LIBRARIES", MESHC_EMULATION_FOLDER},
      {"MESHC_EMULATION_DEVICES", std::to_string(ranks)}};
  for (const auto &[name, value] : request.variables)
    variables.emplace_back("MESHC_EMULATION_" + name, value);
  variables.insert(variables.end(), request.others.begin(),
                   request.others.end());
  std::vector<std::unique_ptr<emulation::ForkedRun>> processes;
  for (int64_t rank = 0; rank < ranks; ++rank)
    processes.push_back(std::make_unique<emulation::ForkedRun>(
        variables, [&, rank]() -> std::string {
          PagePeers peers(page, rank, ranks);
          auto hang = [&] {
            std::this_thread::sleep_for(request.deadline +
                                        std::chrono::seconds(2));
            return "hung";
          };
          if (request.hangsAtStart && rank == request.rankToHang)
            return hang();
          cuda::CudaOptions options;
          options.usesGraphs = request.usesGraphs;
          options.localRank = request.sharesGpu ? 0 : rank;
          options.numLocalRanks = ranks;
          options.peers = &peers;
          options.deadline = request.deadline;
          Result<std::unique_ptr<Executor>> cpu =
              Executor::create(executable, getRandomKernels(), 1);
          if (!cpu)
            return cpu.getError().message;
          Result<std::unique_ptr<cuda::CudaDevices>> gpu =
              cuda::CudaDevices::create(executable, options);
          if (!gpu)
            return gpu.getError().message;
          auto compare = [&]() -> std::string {
            if (request.rankToKill < 0 && request.rankToHang < 0)
              return compareRuns(**cpu, **gpu, request.runs);
            std::string first = compareRuns(**cpu, **gpu, 1);
            if (!first.empty())
              return first;
            if (rank == request.rankToKill)
              raise(SIGKILL);
            if (rank == request.rankToHang)
              return hang();
            std::this_thread::sleep_for(request.delay);
            return compareRuns(**cpu, **gpu, 1);
          };
          std::string result = compare();
          if (!result.empty() && !request.destroysFailed)
            static_cast<void>(gpu->release());
          return result;
        }));
  std::vector<std::string> results;
  for (auto &process : processes) {
    emulation::ForkedResult result = process->wait(90);
    results.push_back(
        result.exitCode == 0
            ? result.value
            : fmt::format("exit code {}: {}", result.exitCode, result.errors));
  }
  munmap(page, sizeof(SharedPage));
  return results;
}

using Axes = std::vector<std::pair<std::string, int64_t>>;

class NcclTest : public testing::TestWithParam<int> {};

TEST_P(NcclTest, computes_what_the_cpu_computes) {
  const Axes meshes[] = {{{"x", 2}}, {{"x", 3}}, {{"x", 2}, {"y", 2}}};
  const int seed = GetParam();
  for (const Axes &axes : meshes) {
    RandomOptions options;
    options.axes = axes;
    options.commands = 16;
    // Collectives of NCCL's own combine padding too.
    options.isEven = true;
    const Executable executable =
        makeRandomProgram(uint64_t(100 + seed), options);
    RankRequest request;
    request.usesGraphs = seed % 2 == 0;
    request.variables = {{"SEED", std::to_string(seed)}};
    EXPECT_THAT(runRanks(executable, request), testing::Each(""))
        << executable.getNumDevices() << " ranks";
  }
}

/// What lies outside of a dimension is written in every place of a block.
TEST_P(NcclTest, computes_windows_that_the_cpu_computes) {
  RandomOptions options;
  options.axes = {{"x", 2}, {"y", 2 + GetParam() % 2}};
  options.commands = 12;
  options.isEven = true;
  options.hasWindows = true;
  EXPECT_THAT(runRanks(makeRandomProgram(uint64_t(GetParam()), options), {}),
              testing::Each(""));
}

INSTANTIATE_TEST_SUITE_P(Seeds, NcclTest, testing::Range(0, 6));

TEST(NcclMemoryTest, every_process_allocates_once_what_was_planned) {
  RandomOptions options;
  options.axes = {{"x", 2}, {"y", 3}};
  const Executable executable = makeRandomProgram(102, options);
  const TemporaryFolder folder;
  RankRequest request;
  request.variables = {{"LOG", folder / "calls"}};
  EXPECT_THAT(runRanks(executable, request), testing::Each(""));
  cuda::GpuMemoryPlanner planner(executable.data, executable.mesh);
  std::vector<uint64_t> expected;
  for (int64_t rank = 0; rank < executable.getNumDevices(); ++rank) {
    Result<cuda::GpuMemoryPlan> plan = planner.plan({rank, 1, true});
    ASSERT_TRUE(plan) << plan.getError().message;
    EXPECT_GT(plan->tables.bytes, 0u);
    EXPECT_GT(plan->staging.bytes, 0u);
    expected.push_back(plan->bytes);
  }
  EXPECT_THAT(readAllocations(folder / "calls"),
              testing::UnorderedElementsAreArray(expected));
}

/// For one communicator, of all devices, and for those of an axis beside it.
TEST(NcclMemoryTest, nccl_needs_room_beside_the_plan) {
  constexpr uint64_t megabyte = 1 << 20;
  auto run = [](const Axes &axes, uint64_t bytesBeside,
                const std::string &maxChannels = "", uint64_t taken = 0) {
    RandomOptions options;
    options.axes = axes;
    options.commands = 16;
    options.isEven = true;
    const Executable executable = makeRandomProgram(102, options);
    uint64_t most = 0;
    for (int64_t rank = 0; rank < executable.getNumDevices(); ++rank)
      most = std::max(most,
                      cuda::GpuMemoryPlanner(executable.data, executable.mesh)
                          .plan({rank, 1, true})
                          ->bytes);
    most = (most + 255) / 256 * 256;
    RankRequest request;
    request.variables = {{"MEMORY", std::to_string(most + bytesBeside)},
                         {"NCCL_MEMORY", std::to_string(taken)}};
    if (!maxChannels.empty())
      request.others = {{"NCCL_MAX_CTAS", maxChannels}};
    return runRanks(executable, request);
  };
  const Axes one = {{"x", 2}};
  EXPECT_THAT(run(one, 320 * megabyte, "", 320 * megabyte), testing::Each(""));
  // The first one that says so ends the others.
  EXPECT_THAT(
      run(one, 320 * megabyte - 256),
      testing::Contains(AllOf(StartsWith("1 device needs "),
                              HasSubstr("NCCL at least 320.00 MiB more; there "
                                        "are "))));
  EXPECT_THAT(run(one, 40 * megabyte, "4"), testing::Each(""));
  EXPECT_THAT(run(one, 40 * megabyte - 256, "4"),
              testing::Contains(HasSubstr("NCCL at least 40.00 MiB more")));
  EXPECT_THAT(
      run({{"x", 2}, {"y", 2}}, 0, "1"),
      testing::Contains(AnyOf(HasSubstr("NCCL at least 20.00 MiB more"),
                              HasSubstr("NCCL at least 30.00 MiB more"))));
  // It may take more than is foreseen.
  EXPECT_THAT(
      run(one, 320 * megabyte, "", 321 * megabyte),
      testing::Contains(AllOf(
          StartsWith("303: nccl"),
          HasSubstr("Failed to CUDA malloc 336592896 bytes (status 1)"))));
}

class NcclDeathTest : public testing::TestWithParam<std::chrono::milliseconds> {
};

/// Noticed while the others wait for it, or by the first call after it.
TEST_P(NcclDeathTest, a_rank_that_dies_ends_the_others) {
  RandomOptions options;
  options.axes = {{"x", 3}};
  options.isEven = true;
  options.commands = 30;
  const Executable executable = makeRandomProgram(7, options);
  for (bool usesGraphs : {true, false}) {
    RankRequest request;
    request.rankToKill = 1;
    request.delay = GetParam();
    request.usesGraphs = usesGraphs;
    const auto start = std::chrono::steady_clock::now();
    const std::vector<std::string> results = runRanks(executable, request);
    EXPECT_LT(std::chrono::steady_clock::now() - start,
              std::chrono::seconds(30));
    EXPECT_THAT(results[1], HasSubstr("exit code -9"));
    static_assert(int(ErrorCode::CommunicationFailed) == 407);
    for (int rank : {0, 2})
      EXPECT_THAT(results[size_t(rank)],
                  AllOf(StartsWith("407: "), HasSubstr("remote process exited"),
                        AnyOf(HasSubstr(", in program 'p'"),
                              HasSubstr(", in command '"),
                              HasSubstr(", while buffer 'b"))));
  }
}

INSTANTIATE_TEST_SUITE_P(Delays, NcclDeathTest,
                         testing::Values(std::chrono::milliseconds(0),
                                         std::chrono::milliseconds(500)),
                         [](const auto &info) {
                           return info.param.count() ? "late" : "at_once";
                         });

/// It is there, and does not take part: no status of NCCL says so.
TEST(NcclFaultTest, a_rank_that_hangs_ends_the_others_by_the_deadline) {
  RandomOptions options;
  options.axes = {{"x", 3}};
  options.isEven = true;
  options.commands = 30;
  const Executable executable = makeRandomProgram(7, options);
  RankRequest request;
  request.rankToHang = 1;
  request.deadline = std::chrono::seconds(1);
  for (auto [usesGraphs, hangsAtStart] :
       {std::pair(true, true), {true, false}, {false, false}}) {
    request.usesGraphs = usesGraphs;
    request.hangsAtStart = hangsAtStart;
    const std::vector<std::string> results = runRanks(executable, request);
    EXPECT_EQ(results[1], "hung");
    // The first one that gives up takes the other one along.
    const auto late = HasSubstr(
        hangsAtStart ? "ncclCommInitRankConfig has not ended after 1 s"
                     : "has not ended its work after 1 s");
    EXPECT_THAT(results, testing::Contains(late));
    for (int rank : {0, 2})
      EXPECT_THAT(results[size_t(rank)],
                  AnyOf(late, HasSubstr("remote process exited")));
  }
}

/// Two sums over two devices, which are one group of calls.
Executable makeTwoSums() {
  ProgramBuilder builder({{"x", 2}});
  const int a = builder.addBuffer("a", mixElements * 4);
  const int b = builder.addBuffer("b", mixElements * 4);
  builder.beginProgram("p");
  layout::Sharding whole;
  whole.dims.resize(1);
  layout::Sharding partial = whole;
  partial.partialAxes = {{0, 1, 2}};
  partial.partialKind = layout::ReduceKind::Sum;
  const auto before = makeLayout(exec::ElementType::f32, {8}, partial);
  const auto after = makeLayout(exec::ElementType::f32, {8}, whole);
  exec::CommandT &command = builder.addCollective(
      exec::CollectiveKind::exchange, before, a, after, a);
  builder.addMember(command, before, b, after, b);
  addHostImage(builder.get());
  return builder.finish();
}

/// What is called later would belong to the group, and never run.
TEST(NcclFaultTest, a_call_that_fails_in_a_group_ends_it) {
  for (const std::string call : {"ncclSend", "ncclRecv", "ncclAllReduce"}) {
    RandomOptions options;
    options.axes = {{"x", 2}};
    options.isEven = true;
    options.commands = 60;
    const Executable executable = call == "ncclAllReduce"
                                      ? makeTwoSums()
                                      : makeRandomProgram(11, options);
    const TemporaryFolder folder;
    RankRequest request;
    request.variables = {{"LOG", folder / "calls"}, {"FAIL", call + ":1:3"}};
    request.destroysFailed = true;
    const std::vector<std::string> results = runRanks(executable, request);
    const auto failed = AllOf(StartsWith("406: " + call + " failed: "),
                              HasSubstr("(status 3), in command '"));
    EXPECT_THAT(results, testing::Contains(failed));
    EXPECT_THAT(results, testing::Each(AnyOf(
                             failed, HasSubstr("remote process exited"))));
    const std::string calls = readBytes(folder / "calls");
    auto count = [&](const std::string &name) {
      const std::string text = "\"call\": \"" + name + "\"";
      int64_t found = 0;
      for (size_t at = calls.find(text); at != std::string::npos;
           at = calls.find(text, at + 1))
        ++found;
      return found;
    };
    EXPECT_GT(count("ncclGroupStart"), 0);
    EXPECT_EQ(count("ncclGroupStart"), count("ncclGroupEnd"));
    // The communicators are not taken for sound.
    EXPECT_EQ(count("ncclCommFinalize"), 0);
  }
}

TEST(NcclFaultTest, processes_on_one_gpu_are_reported) {
  RandomOptions options;
  options.axes = {{"x", 2}};
  const Executable executable = makeRandomProgram(9, options);
  RankRequest request;
  request.sharesGpu = true;
  for (const std::string &result : runRanks(executable, request))
    EXPECT_THAT(result, AllOf(HasSubstr("cannot use their GPUs together"),
                              HasSubstr("ncclCommInitRankConfig")));
}

TEST(NcclFaultTest, collectives_in_another_order_are_reported) {
  RandomOptions options;
  options.axes = {{"x", 2}};
  options.isEven = true;
  options.hasTransfers = false;
  options.commands = 30;
  const Executable executable = makeRandomProgram(8, options);
  RankRequest request;
  request.usesGraphs = false;
  request.variables = {{"SWAP_COLLECTIVES", "1:2"}};
  const std::vector<std::string> results = runRanks(executable, request);
  // One of them notices, and says so; the other one is ended or goes wrong.
  EXPECT_THAT(results, testing::Contains(StartsWith("40")));
}

} // namespace
