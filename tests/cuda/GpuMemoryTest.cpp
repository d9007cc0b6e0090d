/// The memory of a GPU is one allocation whose ranges lie apart; what is said
/// about it before it is allocated is what is allocated.

#include "runtime/cuda/CudaDevices.h"
#include "runtime/plans/CopyPlan.h"
#include "runtime/plans/GpuMemoryNeed.h"
#include "runtime/plans/NcclPlan.h"
#include "tests/cuda/CudaTesting.h"
#include "tests/cuda/RandomProgram.h"
#include "tests/runtime/LinearModel.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::cuda;
using namespace meshc::runtime::test;
using testing::HasSubstr;

namespace {

using Axes = std::vector<std::pair<std::string, int64_t>>;

const Axes meshes[] = {
    {{"x", 1}}, {{"x", 3}}, {{"x", 2}, {"y", 2}}, {{"x", 2}, {"y", 3}}};

Executable makeProgram(uint64_t seed, const Axes &axes) {
  RandomOptions options;
  options.axes = axes;
  options.hasProducts = seed % 2 == 0;
  return makeRandomProgram(seed, options);
}

/// What is wrong with the ranges of a plan; empty: nothing.
std::string findDefect(const GpuMemoryPlan &plan) {
  std::vector<MemoryRange> ranges = {plan.tables, plan.addresses, plan.staging,
                                     plan.received};
  ranges.insert(ranges.end(), plan.workspaces.begin(), plan.workspaces.end());
  ranges.insert(ranges.end(), plan.arenas.begin(), plan.arenas.end());
  uint64_t end = 0;
  for (const MemoryRange &range : ranges) {
    if (range.offset % 256 != 0)
      return fmt::format("a range begins at {}", range.offset);
    if (range.offset < end)
      return fmt::format("a range begins at {}, the one before ends at {}",
                         range.offset, end);
    end = range.offset + range.bytes;
  }
  return end == plan.bytes
             ? ""
             : fmt::format("the last range ends at {} of {}", end, plan.bytes);
}

/// All ways to put a mesh on GPUs.
std::vector<GpuShare> getShares(int64_t devices) {
  std::vector<GpuShare> shares = {{0, devices, false}};
  for (int64_t device = 0; devices > 1 && device < devices; ++device)
    shares.push_back({device, 1, true});
  return shares;
}

TEST(GpuMemoryTest, ranges_are_aligned_and_lie_apart) {
  uint64_t tables = 0;
  uint64_t staging = 0;
  for (uint64_t seed = 0; seed < 8; ++seed)
    for (const Axes &axes : meshes) {
      const Executable executable = makeProgram(seed, axes);
      GpuMemoryPlanner planner(executable.data, executable.mesh);
      for (const GpuShare &share : getShares(executable.getNumDevices())) {
        Result<GpuMemoryPlan> plan = planner.plan(share);
        ASSERT_TRUE(plan) << plan.getError().message;
        EXPECT_EQ(findDefect(*plan), "");
        EXPECT_EQ(plan->arenas.size(), size_t(share.count));
        for (const MemoryRange &arena : plan->arenas)
          EXPECT_EQ(arena.bytes, executable.data.arena_bytes);
        EXPECT_TRUE(plan->workspaces.empty() ||
                    plan->workspaces.size() == plan->arenas.size());
        EXPECT_EQ(plan->received.bytes > 0, share.hasPeers);
        tables += plan->tables.bytes;
        staging += plan->staging.bytes;
      }
    }
  EXPECT_GT(tables, 0u);
  EXPECT_GT(staging, 0u);
}

/// Tables and staging of one device of several, from the moves between all.
std::pair<uint64_t, uint64_t> measureTables(const Executable &executable,
                                            int64_t device) {
  uint64_t tables = 0, staging = 0;
  for (const auto &command : executable.data.programs[0]->commands) {
    if (command->action.type == exec::Action::Copy &&
        planCopy(*command).form == CopyForm::Boxes) {
      const MoveList::Box box = getCopyBox(*command, 0, 0);
      tables += *MoveList::measure({&box, 1});
    }
    if (command->action.type != exec::Action::Collective)
      continue;
    const Collective collective = Collective::create(
        executable.mesh, Collective::getMembers(executable.data, *command));
    const int64_t group = collective.getGroup(device);
    if (group < 0 || !findNative(collective, group).empty())
      continue;
    const NcclMessages messages = planMessages(collective, device, 0, 0);
    tables += *measureBatches(messages.pack);
    tables += *measureBatches(messages.unpack);
    staging = std::max(staging, messages.stagingBytes);
  }
  return {alignMemory(tables), alignMemory(staging)};
}

TEST(GpuMemoryTest, devices_need_what_the_moves_between_all_of_them_say) {
  const Axes axes[] = {{{"x", 2}, {"y", 3}}, {{"x", 2}, {"y", 2}, {"z", 3}}};
  std::set<uint64_t> sizes;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    RandomOptions options;
    options.axes = axes[seed % 2];
    options.isEven = seed % 3 != 0;
    const Executable executable = makeRandomProgram(seed, options);
    GpuMemoryPlanner planner(executable.data, executable.mesh);
    for (int64_t device = 0; device < executable.getNumDevices(); ++device) {
      Result<GpuMemoryPlan> plan = planner.plan({device, 1, true});
      ASSERT_TRUE(plan) << plan.getError().message;
      EXPECT_EQ(std::pair(plan->tables.bytes, plan->staging.bytes),
                measureTables(executable, device))
          << "device " << device << " of seed " << seed;
      sizes.insert(plan->tables.bytes);
    }
  }
  EXPECT_GT(sizes.size(), 24u);
}

/// The sum of "parameters 1.50 KiB, optimizer 12 B" up to a ';', in bytes, and
/// how far rounding may have moved it.
std::pair<double, double> addUp(const std::string &text) {
  double sum = 0;
  double rounding = 0;
  const std::string rows = text.substr(0, text.find(';'));
  const std::regex row("([0-9.]+) (B|[KMG]iB)(,|$)");
  for (std::sregex_iterator i(rows.begin(), rows.end(), row), end; i != end;
       ++i) {
    const std::string unit = (*i)[2];
    const double factor = unit == "B"     ? 1
                          : unit == "KiB" ? 1024.0
                          : unit == "MiB" ? 1024.0 * 1024
                                          : 1024.0 * 1024 * 1024;
    sum += std::stod((*i)[1]) * factor;
    rounding += unit == "B" ? 0 : 0.005 * factor;
  }
  return {sum, rounding};
}

TEST(GpuMemoryTest, the_message_adds_up_to_the_allocation) {
  for (uint64_t seed = 0; seed < 8; ++seed)
    for (const Axes &axes : meshes) {
      const Executable executable = makeProgram(seed, axes);
      GpuMemoryPlanner planner(executable.data, executable.mesh);
      for (const GpuShare &share : getShares(executable.getNumDevices())) {
        Result<GpuMemoryPlan> plan = planner.plan(share);
        ASSERT_TRUE(plan) << plan.getError().message;
        const GpuMemoryNeed need = getMemoryNeed(*plan, executable.data);
        EXPECT_EQ(need.getTotal(), plan->bytes);
        EXPECT_TRUE(checkMemory(need, share.count, plan->bytes, "GPU 0"));
        Status fits = checkMemory(need, share.count, plan->bytes - 1, "GPU 0");
        ASSERT_FALSE(fits);
        EXPECT_EQ(fits.getError().code, ErrorCode::DoesNotFit);
        EXPECT_THAT(
            fits.getError().message,
            HasSubstr(fmt::format(" {} on GPU 0", formatBytes(plan->bytes))));
        const auto [sum, rounding] = addUp(fits.getError().note);
        EXPECT_NEAR(sum, double(plan->bytes), rounding + 0.5)
            << fits.getError().note;
      }
    }
}

TEST(GpuMemoryTest, devices_that_share_a_gpu_share_one_allocation) {
  for (uint64_t seed = 0; seed < 4; ++seed)
    for (const Axes &axes : meshes) {
      const Executable executable = makeProgram(seed, axes);
      const int64_t devices = executable.getNumDevices();
      const TemporaryFolder folder;
      const std::string log = folder / "calls";
      EXPECT_EQ(runEmulated({{"LOG", log}},
                            [&]() -> std::string {
                              CudaOptions options;
                              options.devicesPerGpu = devices;
                              Result<std::unique_ptr<CudaDevices>> gpu =
                                  CudaDevices::create(executable, options);
                              if (!gpu)
                                return gpu.getError().message;
                              for (int run = 0; run < 3; ++run)
                                if (Status ran = (*gpu)->run(
                                        *executable.data.programs[0]);
                                    !ran)
                                  return ran.getError().message;
                              return "";
                            }),
                "");
      Result<GpuMemoryPlan> plan =
          GpuMemoryPlanner(executable.data, executable.mesh)
              .plan({0, devices, false});
      ASSERT_TRUE(plan) << plan.getError().message;
      EXPECT_THAT(readAllocations(log), testing::ElementsAre(plan->bytes));
    }
}

} // namespace
