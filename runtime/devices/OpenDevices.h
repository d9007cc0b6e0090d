#ifndef MESHC_RUNTIME_DEVICES_OPENDEVICES_H
#define MESHC_RUNTIME_DEVICES_OPENDEVICES_H

/// The kinds of devices. Each has a library of its own, with a main function,
/// and an executable is linked with that of its target: one for GPUs does not
/// need what products on CPUs need.

#include "runtime/cuda/Peers.h"
#include "runtime/devices/DeviceSet.h"
#include "runtime/exec/Executable.h"
#include "runtime/exec/KernelTable.h"
#include "runtime/ranks/Ranks.h"
#include "runtime/ranks/Transport.h"

#include <memory>
#include <optional>
#include <span>

namespace meshc::runtime {

/// How an executable for GPUs uses them.
struct GpuFlags {
  std::optional<int64_t> devicesPerGpu; ///< logical devices; none given: one
  bool usesGraphs = true;      ///< else every command is issued in every run
  bool tunesMatmuls = false;   ///< see cuda/MatmulTuning.h
  bool checksCommands = false; ///< waits for each, so that errors name it
  std::optional<int64_t> stallSeconds; ///< see CudaOptions::deadline
};

/// What devices are opened for and with; all that it refers to outlives them.
struct DeviceRequest {
  const Executable &executable;
  std::span<const meshcKernelEntry> kernels;
  int threads = 0; ///< of CPUs; 0: see Session::create
  TransportKind transport = TransportKind::Auto; ///< between CPUs
  GpuFlags gpus;
  Ranks *ranks = nullptr;       ///< the other processes; null: none
  cuda::Peers *peers = nullptr; ///< the same for GPUs
};

/// Prepares the devices of an executable.
using OpenDevices = Result<std::unique_ptr<DeviceSet>>(const DeviceRequest &);

/// Of an executable for CPUs; in meshc_runtime_cpu.
/// Errors: OtherProcessor, WrongRanks, see createTransport, Executor::create.
OpenDevices openCpuDevices;
/// Of an executable for GPUs; in meshc_runtime_cuda.
/// Errors: see CudaDevices::create.
OpenDevices openGpuDevices;

} // namespace meshc::runtime

#endif
