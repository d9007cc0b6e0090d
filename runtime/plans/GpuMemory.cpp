#include "runtime/plans/GpuMemory.h"

#include "runtime/plans/CopyPlan.h"
#include "runtime/plans/MatmulPlan.h"
#include "runtime/plans/NcclPlan.h"

#include <fmt/format.h>

#include <algorithm>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::cuda;

/// Blocks of other processes are read in pieces of this size.
static constexpr uint64_t receivedBytes = uint64_t(16) << 20;

GpuMemoryPlanner::GpuMemoryPlanner(const exec::ExecutableT &executable,
                                   const layout::Mesh &mesh)
    : executable(executable) {
  for (const auto &program : executable.programs)
    for (const auto &command : program->commands)
      switch (command->action.type) {
      case exec::Action::Matmul:
        hasProducts = true;
        break;
      case exec::Action::Collective: {
        PlannedCollective planned{
            {program.get(), command.get()},
            Collective::create(mesh,
                               Collective::getMembers(executable, *command)),
            {}};
        for (int64_t group = 0; group < planned.collective.getNumGroups();
             ++group)
          planned.isNative.push_back(
              !findNative(planned.collective, group).empty());
        collectives.push_back(std::move(planned));
        break;
      }
      case exec::Action::Copy:
        if (planCopy(*command).form == CopyForm::Boxes)
          boxCopies.push_back({program.get(), command.get()});
        break;
      case exec::Action::Kernel:
      case exec::Action::Convolution:
      case exec::Action::NONE:
        break;
      }
}

Result<GpuMemoryPlan> GpuMemoryPlanner::plan(const GpuShare &share) const {
  // Sizes do not depend on addresses.
  MoveList moves;
  uint64_t stagingBytes = 0;
  auto add = [&](const Mover &mover,
                 std::span<const MoveList::Box> boxes) -> Status {
    Result<MoveList::Pieces> added = moves.add(boxes);
    if (added)
      return Status::success();
    Error error = added.getError();
    error.message += fmt::format(", in command '{}' of program '{}'",
                                 mover.command->name, mover.program->name);
    return error;
  };
  const std::vector<DevicePointer> arenas(size_t(share.count));
  for (const auto &[mover, collective, isNative] : collectives) {
    if (!share.hasPeers) {
      for (int64_t group = 0; group < collective.getNumGroups(); ++group)
        MESHC_RETURN_IF_ERROR(add(mover, getBoxes(collective, group, arenas)));
      continue;
    }
    const int64_t group = collective.getGroup(share.first);
    if (group < 0 || isNative[size_t(group)])
      continue;
    const NcclMessages messages = planMessages(collective, share.first, 0, 0);
    stagingBytes = std::max(stagingBytes, messages.stagingBytes);
    MESHC_RETURN_IF_ERROR(add(mover, messages.pack));
    MESHC_RETURN_IF_ERROR(add(mover, messages.unpack));
  }
  for (const Mover &mover : boxCopies)
    for (int64_t device = 0; device < share.count; ++device) {
      const MoveList::Box box = getCopyBox(*mover.command, 0, 0);
      MESHC_RETURN_IF_ERROR(add(mover, {&box, 1}));
    }

  GpuMemoryPlan plan;
  auto reserve = [&](uint64_t bytes) {
    const MemoryRange range{alignMemory(plan.bytes), bytes};
    plan.bytes = range.offset + range.bytes;
    return range;
  };
  plan.tables = reserve(alignMemory(moves.getBytes()));
  plan.staging = reserve(alignMemory(stagingBytes));
  plan.received = reserve(share.hasPeers ? receivedBytes : 0);
  for (int64_t device = 0; hasProducts && device < share.count; ++device)
    plan.workspaces.push_back(reserve(matmulWorkspaceBytes));
  // An empty arena has an address too.
  for (int64_t device = 0; device < share.count; ++device)
    plan.arenas.push_back(
        reserve(std::max<uint64_t>(executable.arena_bytes, 1)));
  return plan;
}
