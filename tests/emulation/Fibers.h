#ifndef MESHC_TESTS_EMULATION_FIBERS_H
#define MESHC_TESTS_EMULATION_FIBERS_H

/// Runs kernels of `host` images (codegen/gpu/HostImage.h) on the processor.
///
/// One block runs after the other. A block's threads are fibers that take turns
/// only where the kernel waits: at barriers and shuffles. Threads that never
/// wait run in a row on one stack, so a kernel without barriers pays nothing.
///
/// What a kernel gets wrong shows in one of three ways. The order in which
/// threads and blocks take their turns is free on a GPU, so a kernel that
/// depends on it gives other values under another `FiberOrder`. Shared memory
/// is filled with NaN before every block and lies between guard zones that are
/// checked after it. A barrier or shuffle that some threads never reach, or
/// where others are at another one, and an access to memory that is not mapped,
/// end the launch with an error.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#define MESHC_EMULATION_API __attribute__((visibility("default")))

namespace meshc::emulation {

struct FiberOrder {
  enum Kind { forward, backward, random } kind = forward;
  uint64_t seed = 0; ///< of `random`
};

/// "forward", "backward" or "random:SEED"; nothing if it is none of them.
MESHC_EMULATION_API std::optional<FiberOrder>
parseFiberOrder(std::string_view text);

/// What MESHC_EMULATION_ORDER says, `forward` where it is not set. Ends the
/// process with a message where it says something else.
MESHC_EMULATION_API FiberOrder getFiberOrder();

/// Bytes of shared memory that a block can have, and threads: those of
/// compute capability 9.0 (CUDA C++ Programming Guide, "Compute Capabilities").
inline constexpr int32_t maxSharedBytes = 227 * 1024;
inline constexpr int32_t maxBlockThreads = 1024;

using KernelFunction = void (*)(void **parameters);

/// Runs `grid` blocks of `block` threads. Returns what went wrong, naming the
/// kernel, block and thread; empty if nothing did. Launches of several host
/// threads follow one another.
MESHC_EMULATION_API std::string launch(KernelFunction function,
                                       std::string_view name, int64_t grid,
                                       int32_t block, int32_t sharedBytes,
                                       void **parameters,
                                       FiberOrder order = getFiberOrder());

/// A loaded `host` image; it stays loaded as long as the process.
class MESHC_EMULATION_API HostImage {
public:
  /// Loads the shared object at `data`. Nothing, and why in `error`, if the
  /// loader refuses it.
  static std::optional<HostImage> load(std::string_view data,
                                       std::string &error);
  /// Null if the image has no kernel of this name.
  KernelFunction find(const std::string &name) const;

private:
  explicit HostImage(void *handle) : handle(handle) {}
  void *handle;
};

} // namespace meshc::emulation

#endif
