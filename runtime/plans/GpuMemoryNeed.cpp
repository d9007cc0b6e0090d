#include "runtime/plans/GpuMemoryNeed.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

using namespace meshc::runtime;
using namespace meshc::runtime::cuda;
namespace exec = meshc::exec;

std::string cuda::formatBytes(uint64_t bytes) {
  static constexpr const char *units[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024)
    return fmt::format("{} B", bytes);
  double value = double(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit)
    value /= 1024;
  return fmt::format("{:.2f} {}", value, units[unit]);
}

/// The count for buffers of a role.
static uint64_t &getCount(GpuMemoryNeed &need, exec::BufferRole role) {
  switch (role) {
  case exec::BufferRole::parameter:
    return need.parameters;
  case exec::BufferRole::model_state:
    return need.modelState;
  case exec::BufferRole::state:
    return need.state;
  case exec::BufferRole::input:
  case exec::BufferRole::output:
  case exec::BufferRole::activation:
    return need.activations;
  case exec::BufferRole::gradient:
    return need.gradients;
  case exec::BufferRole::communication:
    return need.communication;
  case exec::BufferRole::workspace:
    return need.workspace;
  }
  __builtin_unreachable(); // checkExecutable refuses other values
}

GpuMemoryNeed cuda::getArenaNeed(const exec::ExecutableT &executable) {
  using Role = exec::BufferRole;
  constexpr std::array order = {
      Role::parameter, Role::model_state,   Role::state,
      Role::input,     Role::output,        Role::activation,
      Role::gradient,  Role::communication, Role::workspace};
  GpuMemoryNeed need;
  // Parts of the arena that have been counted: disjoint, ascending.
  using Range = std::pair<uint64_t, uint64_t>;
  std::vector<Range> counted;
  for (Role role : order)
    for (const auto &buffer : executable.buffers) {
      if (buffer->role != role || buffer->bytes == 0)
        continue;
      Range range{buffer->offset, buffer->offset + buffer->bytes};
      uint64_t added = range.second - range.first;
      std::vector<Range> rest;
      for (const Range &other : counted) {
        const uint64_t begin = std::max(range.first, other.first);
        const uint64_t end = std::min(range.second, other.second);
        if (begin < end)
          added -= end - begin;
      }
      // What it touches becomes one part with it.
      for (const Range &other : counted)
        if (other.second < range.first || range.second < other.first) {
          rest.push_back(other);
        } else {
          range.first = std::min(range.first, other.first);
          range.second = std::max(range.second, other.second);
        }
      rest.push_back(range);
      counted = std::move(rest);
      getCount(need, role) += added;
    }
  need.unused = executable.arena_bytes;
  for (const Range &range : counted)
    need.unused -= range.second - range.first;
  return need;
}

GpuMemoryNeed cuda::getMemoryNeed(const GpuMemoryPlan &plan,
                                  const exec::ExecutableT &executable) {
  const GpuMemoryNeed arena = getArenaNeed(executable);
  const uint64_t devices = plan.arenas.size();
  GpuMemoryNeed need;
  need.parameters = arena.parameters * devices;
  need.modelState = arena.modelState * devices;
  need.state = arena.state * devices;
  need.activations = arena.activations * devices;
  need.gradients = arena.gradients * devices;
  need.communication = arena.communication * devices;
  need.workspace = arena.workspace * devices;
  need.products = plan.addresses.bytes;
  for (const MemoryRange &workspace : plan.workspaces)
    need.products += workspace.bytes;
  need.tables = plan.tables.bytes;
  need.staging = plan.staging.bytes + plan.received.bytes;
  need.unused = plan.bytes - need.getTotal();
  return need;
}

uint64_t GpuMemoryNeed::getTotal() const {
  return parameters + modelState + state + activations + gradients +
         communication + workspace + unused + products + tables + staging;
}

std::vector<MemoryRow> GpuMemoryNeed::getRowsBesideArenas() const {
  return {
      {"cuBLASLt", products}, {"move tables", tables}, {"staging", staging}};
}

std::string GpuMemoryNeed::toString() const {
  std::vector<MemoryRow> rows = {
      {"parameters", parameters}, {"model state", modelState},
      {"optimizer", state},       {"activations", activations},
      {"gradients", gradients},   {"communication", communication},
      {"workspace", workspace},   {"unused", unused}};
  const std::vector<MemoryRow> others = getRowsBesideArenas();
  rows.insert(rows.end(), others.begin(), others.end());
  std::vector<std::string> parts;
  for (const MemoryRow &row : rows)
    if (row.bytes > 0)
      parts.push_back(fmt::format("{} {}", row.name, formatBytes(row.bytes)));
  return fmt::format("{}", fmt::join(parts, ", "));
}

Status cuda::checkMemory(const GpuMemoryNeed &need, int64_t devices,
                         uint64_t freeBytes, const std::string &where,
                         const NcclNeed &nccl) {
  if (need.getTotal() + nccl.getBytes() <= freeBytes)
    return Status::success();
  const bool hasNccl = nccl.communicators > 0;
  return Error{
      ErrorCode::DoesNotFit,
      fmt::format("{} {} {} on {}, {} {} free", devices,
                  devices == 1 ? "device needs" : "devices need",
                  formatBytes(need.getTotal()), where,
                  hasNccl ? fmt::format("NCCL at least {} more; there are",
                                        formatBytes(nccl.getBytes()))
                          : "which has",
                  formatBytes(freeBytes)),
      fmt::format(
          "needed for {}; use a smaller batch, or split more dimensions{}",
          need.toString(),
          hasNccl ? fmt::format(
                        "; NCCL has {} communicator{} with {} channels "
                        "of {}, which NCCL_MAX_CTAS limits",
                        nccl.communicators, nccl.communicators == 1 ? "" : "s",
                        nccl.channels, formatBytes(NcclNeed::connectionBytes))
                  : "")};
}
