#ifndef MESHC_TESTS_FUZZ_DEVICES_H
#define MESHC_TESTS_FUZZ_DEVICES_H

#include "runtime/exec/exec_generated.h"
#include "tests/fuzz/Evaluate.h"

#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <span>

namespace meshc::fuzz {

/// What the devices of a mesh are.
enum class DeviceKind : uint8_t {
  Cpus,     ///< in one process
  CpuRanks, ///< divided over two or three processes
  Gpu,      ///< all on one emulated GPU
  GpuRanks, ///< each an emulated GPU, in a process of its own
};

/// "cpus", "cpu-ranks", "gpu", "gpu-ranks", in the order of DeviceKind.
std::span<const char *const> getDeviceKinds();

/// How a program is compiled and run on devices.
struct DeviceSetting {
  DeviceKind kind = DeviceKind::Cpus;
  Precision precision = Precision::F32;
  /// Values of more bytes are computed in tiles; none: as the compiler does it.
  std::optional<int64_t> tileBytes = std::nullopt;
};
/// "gpu in bf16".
std::string toString(const DeviceSetting &setting);

/// Plans the steps of one device's programs, compiles and links their kernels,
/// and runs `program`. `executable` has the tensors (collectTensors); outputs
/// come by name, gradients as "grad:NAME", and what a step sets. A step of
/// parts has inputs for each of them, and the variables of the first. `seed`
/// chooses the order in which emulated GPUs do what has no order. Sets `error`
/// if something fails.
std::map<std::string, Tensor>
runOnDevices(const Tree &tree, mlir::ModuleOp module,
             const std::string &program, exec::ExecutableT &executable,
             const DeviceSetting &setting, const std::vector<Leaf> &leaves,
             std::span<const Feeds> parts, uint64_t seed, std::string &error);

} // namespace meshc::fuzz

#endif
