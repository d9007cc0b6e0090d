#ifndef MESHC_FRONTEND_PLAN_MEMORYUSE_H
#define MESHC_FRONTEND_PLAN_MEMORYUSE_H

#include "frontend/plan/GpuUse.h"
#include "frontend/plan/Plan.h"

#include <algorithm>
#include <array>
#include <limits>

namespace meshc::plan {

enum class MemoryCategory : uint8_t {
  Params,
  ModelState,
  Gradients,
  Optimizer,
  Activations, ///< inputs and outputs are among them
  Communication,
  Workspace,
};

inline constexpr size_t numMemoryCategories = 7;

/// "params", "gradients", ... as in the plan's JSON.
const char *getName(MemoryCategory category);
MemoryCategory getCategory(exec::BufferRole role);

/// First and last command, a position in Plan.commands, that a buffer has to
/// keep its content for.
struct Life {
  int first = std::numeric_limits<int>::max();
  int last = std::numeric_limits<int>::min();

  void add(int command) {
    first = std::min(first, command);
    last = std::max(last, command);
  }
  bool isAlive(int command) const {
    return first <= command && command <= last;
  }
  /// Whether the program uses the buffer at all.
  bool isUsed() const { return first <= last; }
};

/// What one device holds when the planned program holds most.
struct MemoryUse {
  MemoryUse(const Plan &plan, const GpuUse &gpu);

  /// What a device has to have: the arena and, on a GPU, what is beside it.
  int64_t peakBytes = 0;
  int64_t arenaBytes = 0;
  /// What a GPU has beside the arena, also what is 0; empty on CPUs.
  std::vector<runtime::cuda::MemoryRow> besideArena;
  /// Bytes of the live buffers of each category at the peak. Their sum is
  /// `arenaBytes` less `unusedBytes`.
  std::array<int64_t, numMemoryCategories> bytes{};
  /// The rest of the arena: alignment, gaps between buffers of different
  /// lifetimes, and what only another program of the executable needs.
  int64_t unusedBytes = 0;
  std::vector<Life> lives; ///< by buffer
  std::vector<int> live;   ///< buffers at the peak, largest first
  int command = -1;        ///< the first command at the peak; -1: no commands
};

} // namespace meshc::plan

#endif
