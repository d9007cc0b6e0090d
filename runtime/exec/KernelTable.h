#ifndef MESHC_RUNTIME_EXEC_KERNELTABLE_H
#define MESHC_RUNTIME_EXEC_KERNELTABLE_H

/// The border between generated code and the runtime.
///
/// The object that the compiler writes defines the four symbols below; the
/// runtime's main reads them. Nothing else of either side is visible to the
/// other.

#include <cstdint>

extern "C" {

/// Runs the independent iterations [begin, end) of a kernel on one device.
/// `operands` are the command's operands in order, `coordinates` the device's
/// coordinate on each mesh axis.
typedef void (*meshcKernelFunction)(void *const *operands,
                                    const int64_t *coordinates, int64_t begin,
                                    int64_t end);

/// What a kernel may touch of an operand.
struct meshcOperandUse {
  uint64_t bytes;     ///< from its first one
  uint64_t alignment; ///< of its first byte in the arena, a power of two
};

/// A launch of a kernel on GPUs, see Launch in exec.fbs.
struct meshcLaunchUse {
  const char *symbol; ///< in the images
  int64_t grid;
  int32_t block;
  int32_t sharedBytes;
};

struct meshcKernelEntry {
  const char *name;             ///< Kernel.symbol of the commands that call it
  meshcKernelFunction function; ///< null: on GPUs
  /// What its code was generated for; commands are checked against it, since
  /// nothing else knows what machine code reaches. Kernels that are written by
  /// hand, for tests, leave `operands` null, and take what their command has.
  int64_t extent = 0;
  uint64_t numOperands = 0;
  const meshcOperandUse *operands = nullptr;
  uint64_t numLaunches = 0;
  const meshcLaunchUse *launches = nullptr;
};

extern const uint8_t meshc_program_data[];
extern const uint64_t meshc_program_size; ///< bytes of meshc_program_data
extern const meshcKernelEntry meshc_kernel_table[];
extern const uint64_t meshc_kernel_count; ///< entries of meshc_kernel_table

} // extern "C"

#endif
