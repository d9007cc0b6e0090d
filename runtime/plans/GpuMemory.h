#ifndef MESHC_RUNTIME_PLANS_GPUMEMORY_H
#define MESHC_RUNTIME_PLANS_GPUMEMORY_H

/// The memory of one GPU: one allocation for all devices on it, cut into ranges
/// whose sizes follow from the executable alone. The compiler shows them, the
/// runtime checks and allocates them.
///
///   tables | addresses | staging | received | workspace 0, ... | arena 0, ...
///
/// Arenas come last, so that what strays beyond the last of them is outside of
/// the allocation. Not here is what the driver has for itself: the context,
/// modules, graphs, and the buffers of NCCL's communicators.

#include "layout/Mesh.h"
#include "runtime/exec/Error.h"
#include "runtime/exec/exec_generated.h"
#include "runtime/plans/CollectiveSlice.h"
#include "runtime/plans/MoveList.h"

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace meshc::runtime::cuda {

/// Where ranges begin: as allocations of the driver do, which some kernels and
/// copies are faster for, and which algorithms of cuBLASLt ask for, as all of
/// its workspaces do from 12.9 Update 1 on.
/// Source: CUDA C++ Programming Guide 13.0, "Device Memory Accesses"; release
/// notes of CUDA 12.9 Update 1, cuBLAS.
inline constexpr uint64_t memoryAlignment = 256;

/// The least multiple of memoryAlignment from `bytes` on.
constexpr uint64_t alignMemory(uint64_t bytes) {
  return (bytes + memoryAlignment - 1) / memoryAlignment * memoryAlignment;
}

/// The devices of the mesh that one process has on its GPU.
struct GpuShare {
  int64_t first = 0;
  int64_t count = 1;
  bool hasPeers = false; ///< other processes have the rest
};

/// Bytes of the allocation. Sizes are multiples of memoryAlignment, but for
/// those of arenas.
struct MemoryRange {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

struct GpuMemoryPlan {
  MemoryRange tables;    ///< what moves between devices, and copies as boxes
  MemoryRange addresses; ///< of products, one table behind the other
  MemoryRange staging;   ///< of collectives between processes
  MemoryRange received;  ///< a piece of another process's block
  // Per device.
  std::vector<MemoryRange> workspaces; ///< of cuBLASLt; empty without products
  std::vector<MemoryRange> arenas;     ///< of one byte at least

  uint64_t bytes = 0; ///< of the allocation
};

/// Plans the memory of an executable's GPUs. What devices need for one
/// collective is the same at all positions of the axes over which it repeats,
/// and remembered.
class GpuMemoryPlanner {
public:
  /// `executable` is verified; both outlive the planner.
  GpuMemoryPlanner(const exec::ExecutableT &executable,
                   const layout::Mesh &mesh);

  /// Errors: UnsupportedOnGpu, see MoveList::add; with the name of the first
  /// command that has it.
  Result<GpuMemoryPlan> plan(const GpuShare &share);

private:
  /// A command that moves boxes.
  struct Mover {
    const exec::ProgramT *program;
    const exec::CommandT *command;

    /// `error` with the names of both.
    Error explain(Error error) const;
  };
  /// Bytes of the tables and of the messages of a command.
  struct Need {
    uint64_t tables = 0;
    uint64_t staging = 0;
  };
  struct PlannedCollective {
    Mover mover; ///< the first
    std::vector<Collective::Member> members;
    /// Commands whose moves are the same but for their places.
    uint64_t count = 1;
    /// Made when it is asked for.
    std::optional<CollectiveSlice> slice = std::nullopt;
    /// Of devices of the slice that have been planned.
    std::map<int64_t, Need> needs = {};
    std::map<int64_t, bool> isNative = {}; ///< by group of the slice
  };

  /// What one device needs where others have peers of their own.
  Result<Need> getNeed(PlannedCollective &planned, int64_t device) const;
  /// The tables of all devices where they share a GPU.
  Result<uint64_t> measureShared(const PlannedCollective &planned) const;
  /// The tables of copies on one device.
  Result<uint64_t> measureCopies() const;

  const exec::ExecutableT &executable;
  const layout::Mesh &mesh;
  bool hasProducts = false;
  uint64_t addressBytes = 0; ///< of the products of one device
  std::vector<PlannedCollective> collectives;
  std::vector<Mover> boxCopies;
  std::optional<uint64_t> copyBytes; ///< of one device, if measured
};

} // namespace meshc::runtime::cuda

#endif
