#include "runtime/plans/GpuMemory.h"

#include "runtime/exec/Loops.h"
#include "runtime/plans/CopyPlan.h"
#include "runtime/plans/MatmulPlan.h"
#include "runtime/plans/NcclPlan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::cuda;

/// Blocks of other processes are read in pieces of this size.
static constexpr uint64_t receivedBytes = uint64_t(16) << 20;

GpuMemoryPlanner::GpuMemoryPlanner(const exec::ExecutableT &executable,
                                   const layout::Mesh &mesh)
    : executable(executable), mesh(mesh) {
  std::map<MoveKey, size_t> places;
  for (const auto &program : executable.programs) {
    const std::vector<int64_t> repeats = countRepeats(*program);
    for (size_t number = 0; number < program->commands.size(); ++number) {
      const auto &command = program->commands[number];
      if (command->action.AsMatmul()) {
        hasProducts = true;
        // What cannot be planned is an error elsewhere.
        const Result<MatmulPlan> product = planMatmul(*command);
        if (product && product->hasTables)
          addressBytes += getTableBytes(*product) * uint64_t(repeats[number]);
      } else if (command->action.AsCollective()) {
        std::vector<Collective::Member> members =
            Collective::getMembers(executable, *command);
        const auto [place, isFirst] = places.try_emplace(
            getMoveKey(executable, members), collectives.size());
        if (isFirst)
          collectives.push_back(
              {{program.get(), command.get()}, std::move(members)});
        else
          ++collectives[place->second].count;
      } else if (command->action.AsCopy() &&
                 planCopy(*command).form == CopyForm::Boxes) {
        boxCopies.push_back({program.get(), command.get()});
      }
    }
  }
}

Error GpuMemoryPlanner::Mover::explain(Error error) const {
  error.message += fmt::format(", in command '{}' of program '{}'",
                               command->name, program->name);
  return error;
}

// Sizes do not depend on addresses: here all memory is at 0.

Result<GpuMemoryPlanner::Need>
GpuMemoryPlanner::getNeed(PlannedCollective &planned, int64_t device) const {
  if (!planned.slice)
    planned.slice = CollectiveSlice::create(mesh, planned.members);
  const int64_t self = planned.slice->getDevice(mesh, device);
  const Collective &collective = planned.slice->collective;
  const int64_t group = collective.getGroup(self);
  if (const auto found = planned.needs.find(self); found != planned.needs.end())
    return found->second;
  Need need;
  if (group < 0)
    return planned.needs[self] = need;
  // A group may have all devices: it is looked at once, not by each of them.
  const auto [native, isFirst] = planned.isNative.try_emplace(group);
  if (isFirst)
    native->second = !findNative(collective, group).empty();
  if (native->second)
    return planned.needs[self] = need;
  const NcclMessages messages = planMessages(collective, self, 0, 0);
  for (const std::vector<MoveBatch> *batches :
       {&messages.pack, &messages.unpack}) {
    Result<uint64_t> bytes = measureBatches(*batches);
    if (!bytes)
      return planned.mover.explain(bytes.getError());
    need.tables += *bytes;
  }
  need.staging = messages.stagingBytes;
  return planned.needs[self] = need;
}

Result<uint64_t>
GpuMemoryPlanner::measureShared(const PlannedCollective &planned) const {
  const Collective collective = Collective::create(mesh, planned.members);
  const std::vector<DevicePointer> arenas(size_t(mesh.getNumDevices()));
  uint64_t total = 0;
  for (int64_t group = 0; group < collective.getNumGroups(); ++group) {
    Result<uint64_t> bytes =
        measureBatches(getBatches(collective, group, arenas));
    if (!bytes)
      return planned.mover.explain(bytes.getError());
    total += *bytes;
  }
  return total;
}

Result<uint64_t> GpuMemoryPlanner::measureCopies() const {
  uint64_t total = 0;
  for (const Mover &mover : boxCopies) {
    const MoveList::Box box = getCopyBox(*mover.command, 0, 0);
    Result<uint64_t> bytes = MoveList::measure({&box, 1});
    if (!bytes)
      return mover.explain(bytes.getError());
    total += *bytes;
  }
  return total;
}

Result<GpuMemoryPlan> GpuMemoryPlanner::plan(const GpuShare &share) {
  uint64_t tableBytes = 0, stagingBytes = 0;
  for (PlannedCollective &planned : collectives) {
    if (!share.hasPeers) {
      Result<uint64_t> bytes = measureShared(planned);
      if (!bytes)
        return bytes.getError();
      tableBytes += *bytes * planned.count;
      continue;
    }
    Result<Need> need = getNeed(planned, share.first);
    if (!need)
      return need.getError();
    tableBytes += need->tables * planned.count;
    stagingBytes = std::max(stagingBytes, need->staging);
  }
  if (!copyBytes) {
    Result<uint64_t> bytes = measureCopies();
    if (!bytes)
      return bytes.getError();
    copyBytes = *bytes;
  }
  tableBytes += *copyBytes * uint64_t(share.count);

  GpuMemoryPlan plan;
  auto reserve = [&](uint64_t bytes) {
    const MemoryRange range{alignMemory(plan.bytes), bytes};
    plan.bytes = range.offset + range.bytes;
    return range;
  };
  plan.tables = reserve(alignMemory(tableBytes));
  plan.addresses = reserve(alignMemory(addressBytes * uint64_t(share.count)));
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
