#include "frontend/plan/MemoryUse.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

using namespace meshc;
using namespace meshc::plan;

const char *plan::getName(MemoryCategory category) {
  switch (category) {
  case MemoryCategory::Params:
    return "params";
  case MemoryCategory::ModelState:
    return "model_state";
  case MemoryCategory::Gradients:
    return "gradients";
  case MemoryCategory::Optimizer:
    return "optimizer";
  case MemoryCategory::Activations:
    return "activations";
  case MemoryCategory::Communication:
    return "communication";
  case MemoryCategory::Workspace:
    return "workspace";
  }
  std::abort();
}

MemoryCategory plan::getCategory(exec::BufferRole role) {
  switch (role) {
  case exec::BufferRole::parameter:
    return MemoryCategory::Params;
  case exec::BufferRole::model_state:
    return MemoryCategory::ModelState;
  case exec::BufferRole::state:
    return MemoryCategory::Optimizer;
  case exec::BufferRole::input:
  case exec::BufferRole::output:
  case exec::BufferRole::activation:
    return MemoryCategory::Activations;
  case exec::BufferRole::gradient:
    return MemoryCategory::Gradients;
  case exec::BufferRole::communication:
    return MemoryCategory::Communication;
  case exec::BufferRole::workspace:
    return MemoryCategory::Workspace;
  }
  std::abort();
}

static std::vector<Life> getLives(const Plan &plan) {
  std::vector<Life> lives(plan.executable.buffers.size());
  int end = std::max(int(plan.commands.size()) - 1, 0);
  auto addWhole = [&](int buffer) {
    lives[size_t(buffer)].add(0);
    lives[size_t(buffer)].add(end);
  };
  // Variables outlive the program; inputs are filled before it and may be used
  // by its next run; outputs are read after it.
  for (const auto &variable : plan.executable.variables)
    addWhole(variable->buffer);
  if (!plan.program)
    return lives;
  for (const auto &input : plan.program->inputs)
    addWhole(input->buffer);
  for (const auto &output : plan.program->outputs)
    lives[size_t(output->buffer)].add(end);
  for (int index = 0; index < int(plan.commands.size()); ++index)
    for (const auto &operand : plan.commands[size_t(index)].command->operands)
      lives[size_t(operand->buffer)].add(index);
  // What a loop uses keeps its memory until the last iteration is over.
  for (const auto &loop : plan.program->loops) {
    auto isInside = [&](int index) {
      const int position = plan.commands[size_t(index)].position;
      return position >= loop->first && position < loop->first + loop->commands;
    };
    std::vector<int> inside;
    for (int index = 0; index < int(plan.commands.size()); ++index)
      if (isInside(index))
        inside.push_back(index);
    for (int index : inside)
      for (const auto &operand :
           plan.commands[size_t(index)].command->operands) {
        lives[size_t(operand->buffer)].add(inside.front());
        lives[size_t(operand->buffer)].add(inside.back());
      }
  }
  return lives;
}

MemoryUse::MemoryUse(const Plan &plan, const GpuUse &gpu)
    : peakBytes(int64_t(plan.executable.arena_bytes)), arenaBytes(peakBytes) {
  if (isGpuPlan(plan)) {
    peakBytes = arenaBytes = int64_t(gpu.memory.getTotal());
    besideArena = gpu.memory.getRowsBesideArenas();
    for (const runtime::cuda::MemoryRow &row : besideArena)
      arenaBytes -= int64_t(row.bytes);
  }
  const auto &buffers = plan.executable.buffers;
  lives = getLives(plan);
  int steps = std::max(int(plan.commands.size()), 1);
  std::vector<int64_t> change(size_t(steps) + 1);
  for (size_t buffer = 0; buffer < buffers.size(); ++buffer)
    if (lives[buffer].isUsed()) {
      change[size_t(lives[buffer].first)] += int64_t(buffers[buffer]->bytes);
      change[size_t(lives[buffer].last) + 1] -= int64_t(buffers[buffer]->bytes);
    }
  std::partial_sum(change.begin(), change.end(), change.begin());
  int peak =
      int(std::max_element(change.begin(), change.end()) - change.begin());
  if (!plan.commands.empty())
    command = peak;

  unusedBytes = arenaBytes;
  for (size_t buffer = 0; buffer < buffers.size(); ++buffer) {
    if (!lives[buffer].isAlive(peak))
      continue;
    auto size = int64_t(buffers[buffer]->bytes);
    bytes[size_t(getCategory(buffers[buffer]->role))] += size;
    unusedBytes -= size;
    live.push_back(int(buffer));
  }
  std::sort(live.begin(), live.end(), [&](int left, int right) {
    // Larger first; the order of equals is that of the executable.
    uint64_t leftBytes = buffers[size_t(left)]->bytes;
    uint64_t rightBytes = buffers[size_t(right)]->bytes;
    return leftBytes != rightBytes ? leftBytes > rightBytes : left < right;
  });
}
