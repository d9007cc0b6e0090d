#ifndef MESHC_RUNTIME_PLANS_GPUMEMORYNEED_H
#define MESHC_RUNTIME_PLANS_GPUMEMORYNEED_H

#include "runtime/exec/Error.h"
#include "runtime/exec/exec_generated.h"
#include "runtime/plans/GpuMemory.h"

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
struct GpuMemoryNeed {
  uint64_t parameters = 0;
  uint64_t modelState = 0;
  uint64_t state = 0;       ///< of the optimizer
  uint64_t activations = 0; ///< inputs and outputs too
  uint64_t gradients = 0;
  uint64_t communication = 0;
  uint64_t workspace = 0;
  uint64_t unused = 0;   ///< between arenas too
  uint64_t products = 0; ///< workspaces of cuBLASLt, addresses that it reads
  uint64_t tables = 0;   ///< of what is moved between devices
  uint64_t staging = 0;  ///< data on its way between processes

  uint64_t getTotal() const;
  /// What is beside the arenas, also what is 0.
  std::vector<MemoryRow> getRowsBesideArenas() const;
  /// "parameters 1.50 MiB, optimizer 3.10 MiB, ...", without what is 0.
  std::string toString() const;
};

/// The part of an executable's arena, on one device.
GpuMemoryNeed getArenaNeed(const exec::ExecutableT &executable);

/// What the ranges of a plan are for; the total is the plan's.
GpuMemoryNeed getMemoryNeed(const GpuMemoryPlan &plan,
                            const exec::ExecutableT &executable);

/// What NCCL allocates beside a GpuMemoryPlan, when its communicators are used
/// first. How much that is follows from what it finds out about the machine;
/// this is estimated from below, as one connection for each channel, where
/// trees, messages and networks take more.
struct NcclNeed {
  /// Of a connection: NCCL_BUFFSIZE, 4 MiB, for the protocol Simple, 4.7 MiB
  /// for LL128, 0.5 MiB for LL, in pages of 2 MiB.
  /// Source: NCCL_BUFFSIZE in the user guide of NCCL 2.28; device.h and init.cc
  /// there for the others; nccl issue 1685 lists the allocations on an H100.
  static constexpr uint64_t connectionBytes = uint64_t(10) << 20;
  /// Of GPUs with NVLink. Source: nccl issue 1685.
  static constexpr int64_t maxChannels = 32;

  int64_t communicators = 0;
  int64_t channels = maxChannels; ///< of each

  uint64_t getBytes() const {
    return uint64_t(communicators * channels) * connectionBytes;
  }
};

/// An error of code DoesNotFit if what `devices` devices need together, and
/// NCCL for them, does not find room in `freeBytes` of `where`, "GPU 0 (...)".
Status checkMemory(const GpuMemoryNeed &need, int64_t devices,
                   uint64_t freeBytes, const std::string &where,
                   const NcclNeed &nccl = {});

/// "1.50 MiB".
std::string formatBytes(uint64_t bytes);

} // namespace meshc::runtime::cuda

#endif
