#include "runtime/plans/GpuMemory.h"

#include "runtime/plans/CopyPlan.h"
#include "runtime/plans/MatmulPlan.h"
#include "runtime/plans/NcclPlan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::cuda;

/// Blocks of other processes are read in pieces of this size.
static constexpr uint64_t receivedBytes = uint64_t(16) << 20;

static void addLayout(const exec::TensorLayoutT &layout,
                      std::vector<int64_t> &key) {
  auto addAxes = [&](const std::vector<exec::AxisRef> &axes) {
    key.push_back(int64_t(axes.size()));
    for (const exec::AxisRef &axis : axes)
      key.insert(key.end(), {axis.axis(), axis.pre(), axis.size()});
  };
  key.push_back(int64_t(layout.dims.size()));
  for (const auto &dim : layout.dims) {
    key.push_back(dim->size);
    addAxes(dim->axes);
    key.push_back(dim->window != nullptr);
    if (const exec::WindowT *window = dim->window.get())
      key.insert(key.end(), {window->size, window->factor, window->low,
                             window->high, window->divisor});
  }
  key.push_back(int64_t(layout.partial));
  addAxes(layout.partial_axes);
}

/// What the sizes of a collective's tables and messages follow from: equal for
/// those whose moves are the same but for their places. Only where operands
/// share memory their places count, since data may be where it is needed.
static std::vector<int64_t>
getMoveKey(const exec::ExecutableT &executable,
           std::span<const Collective::Member> members) {
  std::vector<int64_t> key;
  for (const Collective::Member &member : members) {
    addLayout(*member.collective->source, key);
    addLayout(*member.collective->target, key);
    for (const exec::OperandT *operand : {member.from, member.to}) {
      key.push_back(int64_t(operand->element));
      key.insert(key.end(), operand->strides.begin(), operand->strides.end());
    }
    const exec::BufferT &from =
        *executable.buffers[size_t(member.from->buffer)];
    const exec::BufferT &to = *executable.buffers[size_t(member.to->buffer)];
    const bool share = from.offset < to.offset + to.bytes &&
                       to.offset < from.offset + from.bytes;
    key.push_back(share);
    if (share)
      key.push_back(int64_t(member.toOffset - member.fromOffset));
  }
  return key;
}

GpuMemoryPlanner::GpuMemoryPlanner(const exec::ExecutableT &executable,
                                   const layout::Mesh &mesh)
    : executable(executable) {
  std::map<std::vector<int64_t>, size_t> places;
  for (const auto &program : executable.programs)
    for (const auto &command : program->commands)
      switch (command->action.type) {
      case exec::Action::Matmul:
        hasProducts = true;
        break;
      case exec::Action::Collective: {
        const std::vector<Collective::Member> members =
            Collective::getMembers(executable, *command);
        const auto [place, isFirst] = places.try_emplace(
            getMoveKey(executable, members), collectives.size());
        if (!isFirst) {
          ++collectives[place->second].count;
          break;
        }
        PlannedCollective planned{{program.get(), command.get()},
                                  Collective::create(mesh, members),
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
  uint64_t tableBytes = 0, stagingBytes = 0;
  auto add = [&](const Mover &mover, std::span<const MoveList::Box> boxes,
                 uint64_t count = 1) -> Status {
    Result<uint64_t> bytes = MoveList::measure(boxes);
    if (bytes) {
      tableBytes += *bytes * count;
      return Status::success();
    }
    Error error = bytes.getError();
    error.message += fmt::format(", in command '{}' of program '{}'",
                                 mover.command->name, mover.program->name);
    return error;
  };
  const std::vector<DevicePointer> arenas(size_t(share.count));
  for (const auto &[mover, collective, isNative, count] : collectives) {
    if (!share.hasPeers) {
      for (int64_t group = 0; group < collective.getNumGroups(); ++group)
        MESHC_RETURN_IF_ERROR(
            add(mover, getBoxes(collective, group, arenas), count));
      continue;
    }
    const int64_t group = collective.getGroup(share.first);
    if (group < 0 || isNative[size_t(group)])
      continue;
    const NcclMessages messages = planMessages(collective, share.first, 0, 0);
    stagingBytes = std::max(stagingBytes, messages.stagingBytes);
    MESHC_RETURN_IF_ERROR(add(mover, messages.pack, count));
    MESHC_RETURN_IF_ERROR(add(mover, messages.unpack, count));
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
  plan.tables = reserve(alignMemory(tableBytes));
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
