/// The compiler emits the move kernels that launches need, and no others.

#include "runtime/plans/MoveKernels.h"
#include "runtime/plans/CopyPlan.h"
#include "runtime/plans/NcclPlan.h"
#include "tests/cuda/RandomProgram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::cuda;
using namespace meshc::runtime::test;

namespace {

using Kinds = std::set<exec::ReduceKind>;

void addKinds(const std::vector<MoveBatch> &batches, Kinds &kinds) {
  for (const MoveBatch &batch : batches)
    kinds.insert(batch.reduce);
}

/// What is launched for a collective: by one process, or by one for each
/// device.
Kinds findLaunched(const Collective &collective, int64_t devices) {
  Kinds kinds;
  const std::vector<DevicePointer> arenas(static_cast<size_t>(devices));
  for (int64_t group = 0; group < collective.getNumGroups(); ++group)
    addKinds(getBatches(collective, group, arenas), kinds);
  for (int64_t device = 0; device < devices; ++device) {
    if (collective.getGroup(device) < 0)
      continue;
    const NcclMessages messages = planMessages(collective, device, 0, 0);
    addKinds(messages.pack, kinds);
    addKinds(messages.unpack, kinds);
  }
  return kinds;
}

TEST(MoveKernelsTest, are_those_that_are_launched) {
  int mixed = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    RandomOptions options;
    options.axes = {{"x", 2}, {"y", 2 + int64_t(seed % 2)}};
    options.hasWindows = true;
    const Executable executable = makeRandomProgram(seed, options);
    Kinds launched;
    for (const auto &command : executable.data.programs[0]->commands) {
      if (command->action.type == exec::Action::Copy &&
          planCopy(*command).form == CopyForm::Boxes)
        launched.insert(exec::ReduceKind::none);
      if (command->action.type != exec::Action::Collective)
        continue;
      const Kinds kinds = findLaunched(
          Collective::create(executable.mesh,
                             Collective::getMembers(executable.data, *command)),
          executable.getNumDevices());
      mixed += kinds.contains(exec::ReduceKind::sum) &&
               kinds.contains(exec::ReduceKind::max);
      launched.insert(kinds.begin(), kinds.end());
    }
    Kinds found;
    for (const MoveKernel &kernel :
         findMoveKernels(executable.data, executable.mesh)) {
      EXPECT_EQ(kernel.element, exec::ElementType::f32);
      EXPECT_FALSE(kernel.isWide);
      EXPECT_TRUE(found.insert(kernel.reduce).second) << "twice";
    }
    EXPECT_EQ(found, launched) << "seed " << seed;
  }
  EXPECT_GT(mixed, 0);
}

} // namespace
