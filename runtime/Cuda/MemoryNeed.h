#ifndef MESHC_RUNTIME_CUDA_MEMORYNEED_H
#define MESHC_RUNTIME_CUDA_MEMORYNEED_H

#include "runtime/Error.h"
#include "runtime/exec_generated.h"

#include <cstdint>
#include <string>

namespace meshc::runtime::cuda {

/// What the memory of one device is for, in bytes. Buffers that take turns
/// share memory: each byte of the arena counts for the first of these uses that
/// it has, in this order, and as unused where it has none.
struct MemoryNeed {
  uint64_t parameters = 0;
  uint64_t state = 0;       ///< of the optimizer
  uint64_t activations = 0; ///< inputs and outputs too
  uint64_t gradients = 0;
  uint64_t communication = 0;
  uint64_t workspace = 0;
  uint64_t unused = 0;
  uint64_t products = 0; ///< given to the library of matrix products
  uint64_t tables = 0;   ///< of what is moved between devices
  uint64_t staging = 0;  ///< data on its way to other processes

  uint64_t getTotal() const;
  /// "parameters 1.5 MiB, optimizer 3.1 MiB, ...", without what is 0.
  std::string toString() const;
};

/// The part of an executable's arena.
MemoryNeed getArenaNeed(const exec::ExecutableT &executable);

/// An error of code DoesNotFit if `devices` devices with this need do not find
/// room in `freeBytes` of `where`, "GPU 0 (...)".
Status checkMemory(const MemoryNeed &need, int64_t devices, uint64_t freeBytes,
                   const std::string &where);

/// "1.50 MiB".
std::string formatBytes(uint64_t bytes);

} // namespace meshc::runtime::cuda

#endif
