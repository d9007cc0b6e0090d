#ifndef MESHC_RUNTIME_CUDA_GPUSESSION_H
#define MESHC_RUNTIME_CUDA_GPUSESSION_H

#include "runtime/cuda/Communicator.h"
#include "runtime/cuda/MatmulCalls.h"
#include "runtime/cuda/ProductTables.h"
#include "runtime/cuda/UnsupportedProducts.h"
#include "runtime/devices/DeviceSet.h"
#include "runtime/exec/Executable.h"
#include "runtime/exec/KernelUse.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace meshc::runtime::cuda {

/// One logical device: its memory and the two queues of its commands.
struct LogicalDevice {
  int64_t number = 0; ///< in the mesh
  DevicePointer arena = 0;
  DevicePointer matmulWorkspace = 0; ///< 0 without products
  OwnedStream compute;
  OwnedStream communication; ///< of higher priority

  Stream getStream(exec::Queue queue) const {
    return queue == exec::Queue::compute ? compute.get() : communication.get();
  }
};

/// What the commands of all programs work with.
struct GpuSession {
  Gpu *gpu = nullptr;
  const Executable *executable = nullptr;
  std::optional<KernelUse> use;       ///< none: see CudaOptions
  std::vector<LogicalDevice> devices; ///< of this process
  std::unique_ptr<MoveTable> moves;
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<MatmulCalls> products; ///< null where there is no product
  ProductTables productTables;
  UnsupportedProducts unsupported;
  bool checksCommands = false; ///< see CudaOptions
  DeviceSet::EndObserver endObserver;

  /// Where an operand begins on a device, when its arena is there.
  DevicePointer getAddress(const LogicalDevice &device,
                           const exec::OperandT &operand) const {
    return device.arena +
           executable->data.buffers[size_t(operand.buffer)]->offset +
           operand.offset;
  }
  /// `error` with the command's name and its place in the spec.
  Error locate(Error error, const exec::ProgramT &program,
               const exec::CommandT &command) const;
};

} // namespace meshc::runtime::cuda

#endif
