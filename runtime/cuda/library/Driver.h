#ifndef MESHC_RUNTIME_CUDA_LIBRARY_DRIVER_H
#define MESHC_RUNTIME_CUDA_LIBRARY_DRIVER_H

/// The CUDA driver, libcuda.so.1, found at run time. Types and numbers are
/// those of its binary interface; no header of CUDA is used.

#include "runtime/cuda/library/LibraryFunction.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace meshc::runtime::cuda {

using DeviceHandle = int;
using DevicePointer = unsigned long long;
using Context = struct ContextObject *;
using Stream = struct StreamObject *;
using Event = struct EventObject *;
using Module = struct ModuleObject *;
using KernelHandle = struct KernelObject *;
using Graph = struct GraphObject *;
using GraphExecutable = struct GraphExecutableObject *;

/// CUDA_MEMCPY2D of version 2.
struct Copy2D {
  size_t fromXBytes, fromY;
  int fromMemoryType;
  const void *fromHost;
  DevicePointer fromDevice;
  void *fromArray;
  size_t fromPitch;
  size_t toXBytes, toY;
  int toMemoryType;
  void *toHost;
  DevicePointer toDevice;
  void *toArray;
  size_t toPitch;
  size_t widthBytes, height;
};

// Statuses, flags and attributes. Source: cuda.h of CUDA 13.0.
inline constexpr int errorOutOfMemory = 2;
inline constexpr int errorNoDevice = 100;
inline constexpr int errorInvalidImage = 200;
inline constexpr int errorNoBinaryForGpu = 209;
inline constexpr int errorInvalidPtx = 218;
inline constexpr int errorUnsupportedPtx = 222;
inline constexpr int errorNotFound = 500;
inline constexpr int errorNotReady = 600;
inline constexpr int memoryTypeDevice = 2;
inline constexpr unsigned streamNonBlocking = 1;
inline constexpr unsigned eventDisableTiming = 2;
inline constexpr int captureThreadLocal = 1;
inline constexpr unsigned long long graphUsesNodePriorities = 8;
inline constexpr int attributeMultiprocessors = 16;
inline constexpr int attributeArchitectureMajor = 75;
inline constexpr int attributeArchitectureMinor = 76;
inline constexpr int attributeMaxSharedBytes = 97; ///< by opting in
inline constexpr int functionMaxDynamicSharedBytes = 8;
/// Dynamic shared memory that a kernel may have without asking for it.
inline constexpr int usualSharedBytes = 48 * 1024;

/// The oldest driver that is used: CUDA 12.0, whose driver interface has all
/// that DriverFunctions.def lists.
inline constexpr int minDriverVersion = 12000;

struct Driver {
#define MESHC_CUDA_FUNCTION(NAME, SYMBOL, ...)                                 \
  LibraryFunction<Driver, __VA_ARGS__> NAME{#SYMBOL};
#include "runtime/cuda/library/DriverFunctions.def"

  std::string path;
  int version = 0; ///< of CUDA: 13000 is 13.0
  bool hasDevices = false;

  /// The initialised driver; loaded by the first call.
  /// Errors: MissingGpuLibrary, OldGpuLibrary, GpuCallFailed.
  static Result<const Driver *> get();

  /// Error of a failed call: DoesNotFit where memory is what lacks, else
  /// GpuCallFailed.
  static Error describe(const char *symbol, int status);

private:
  static Result<const Driver *> load();
};

/// "13.0" of 13000.
std::string getVersionText(int version);

} // namespace meshc::runtime::cuda

#endif
