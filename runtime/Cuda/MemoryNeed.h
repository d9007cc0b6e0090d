#ifndef MESHC_RUNTIME_CUDA_MEMORYNEED_H
#define MESHC_RUNTIME_CUDA_MEMORYNEED_H

#include "runtime/Cuda/MemoryPlan.h"
#include "runtime/Error.h"
#include "runtime/exec_generated.h"

#include <cstdint>
#include <string>
#include <vector>

namespace meshc::runtime::cuda {

/// A use of memory and its bytes.
struct MemoryRow {
  const char *name;
  uint64_t bytes;
};

/// What the memory of a GPU's devices is for, in bytes. Buffers that take turns
/// share memory: each byte of an arena counts for the first of these uses that
/// it has, in this order, and as unused where it has none.
struct MemoryNeed {
  uint64_t parameters = 0;
  uint64_t state = 0;       ///< of the optimizer
  uint64_t activations = 0; ///< inputs and outputs too
  uint64_t gradients = 0;
  uint64_t communication = 0;
  uint64_t workspace = 0;
  uint64_t unused = 0;   ///< between arenas too
  uint64_t products = 0; ///< workspaces of cuBLASLt
  uint64_t tables = 0;   ///< of what is moved between devices
  uint64_t staging = 0;  ///< data on its way between processes

  uint64_t getTotal() const;
  /// What is beside the arenas, also what is 0.
  std::vector<MemoryRow> getRowsBesideArenas() const;
  /// "parameters 1.50 MiB, optimizer 3.10 MiB, ...", without what is 0.
  std::string toString() const;
};

/// The part of an executable's arena, on one device.
MemoryNeed getArenaNeed(const exec::ExecutableT &executable);

/// What the ranges of a plan are for; the total is the plan's.
MemoryNeed getMemoryNeed(const MemoryPlan &plan,
                         const exec::ExecutableT &executable);

/// An error of code DoesNotFit if what `devices` devices need together does not
/// find room in `freeBytes` of `where`, "GPU 0 (...)".
Status checkMemory(const MemoryNeed &need, int64_t devices, uint64_t freeBytes,
                   const std::string &where);

/// "1.50 MiB".
std::string formatBytes(uint64_t bytes);

} // namespace meshc::runtime::cuda

#endif
