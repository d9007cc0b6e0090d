#ifndef MESHC_RUNTIME_CUDA_LOCALCOMMUNICATOR_H
#define MESHC_RUNTIME_CUDA_LOCALCOMMUNICATOR_H

#include "runtime/cuda/Communicator.h"

#include <vector>

namespace meshc::runtime::cuda {

/// Collectives between logical devices that share one GPU. The last device of a
/// group to arrive is the one whose stream has waited for the others: one
/// kernel then moves everything for the group, combining in the order of device
/// numbers, and the others wait for it. No kernel waits for another one on the
/// GPU itself, so any number of devices can share it.
///
///   device 0   ... produce | record        wait | consume ...
///   device 1   ... produce | wait | move | record | consume ...
class LocalCommunicator : public Communicator {
public:
  /// For devices 0 to `numDevices`, all of one process.
  static Result<std::unique_ptr<LocalCommunicator>> create(Gpu &gpu,
                                                           int64_t numDevices);

  Result<size_t> add(Collective collective) override;
  Status build(MoveTable &table, std::span<const DevicePointer> arenas,
               DevicePointer staging) override;
  Status issue(size_t number, std::span<const Stream> streams) override;
  Status broadcast(int64_t device, DevicePointer source, DevicePointer target,
                   uint64_t bytes, Stream stream) override;
  bool waitsOnGpu() const override { return false; }
  Status wait(Stream stream) override;

private:
  explicit LocalCommunicator(Gpu &gpu) : gpu(gpu) {}

  struct Entry {
    Collective collective;
    std::vector<std::vector<MoveLaunch>> launches; ///< per group
  };

  Gpu &gpu;
  const MoveTable *moves = nullptr;
  std::vector<Entry> entries;
  std::vector<OwnedEvent> arrivals; ///< per device
  std::vector<OwnedEvent> ends;     ///< per device that runs a group's kernel
};

} // namespace meshc::runtime::cuda

#endif
