#ifndef MESHC_RUNTIME_KERNELTABLE_H
#define MESHC_RUNTIME_KERNELTABLE_H

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

struct meshcKernelEntry {
  const char *name; ///< Kernel.symbol of the commands that call it
  meshcKernelFunction function;
};

extern const uint8_t meshc_program_data[];
extern const uint64_t meshc_program_size; ///< bytes of meshc_program_data
extern const meshcKernelEntry meshc_kernel_table[];
extern const uint64_t meshc_kernel_count; ///< entries of meshc_kernel_table

} // extern "C"

#endif
