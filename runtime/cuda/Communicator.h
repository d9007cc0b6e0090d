#ifndef MESHC_RUNTIME_CUDA_COMMUNICATOR_H
#define MESHC_RUNTIME_CUDA_COMMUNICATOR_H

/// How devices exchange data. A collective is added while a program is read,
/// built when the addresses of all memory are known, and then issued as often
/// as the program runs.

#include "runtime/cuda/MoveTable.h"
#include "runtime/plans/Collective.h"
#include "runtime/plans/GpuMemoryNeed.h"

#include <memory>
#include <span>

namespace meshc::runtime::cuda {

class Communicator {
public:
  virtual ~Communicator() = default;

  /// Adds a collective; returns its number. Every process adds the same ones in
  /// the same order.
  virtual Result<size_t> add(Collective collective) = 0;
  /// Memory that GpuMemoryPlan does not have, for everything that was added.
  virtual NcclNeed getNcclNeed() const { return {}; }
  /// Builds everything that was added. `arenas` has the memory of each device
  /// of this process, `staging` what GpuMemoryPlan has for collectives.
  virtual Status build(MoveTable &table, std::span<const DevicePointer> arenas,
                       DevicePointer staging) = 0;
  /// Enqueues a collective; `streams` has a stream for each device of this
  /// process, on which everything it waits for has been enqueued. What is
  /// enqueued on them later comes after the collective.
  virtual Status issue(size_t number, std::span<const Stream> streams) = 0;

  /// Brings `bytes` of memory of device `device` into all processes: `source`
  /// is its address where it is local, `target` memory of this process's
  /// device, which is left alone there.
  virtual Status broadcast(int64_t device, DevicePointer source,
                           DevicePointer target, uint64_t bytes,
                           Stream stream) = 0;
  /// Whether collectives occupy the GPU until other processes take part. What
  /// the driver loads at first use may wait for the GPU, so nothing is used for
  /// the first time meanwhile.
  virtual bool waitsOnGpu() const = 0;
  /// Waits until a stream has done all it was given.
  virtual Status wait(Stream stream) = 0;
};

} // namespace meshc::runtime::cuda

#endif
