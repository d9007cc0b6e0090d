#ifndef MESHC_RUNTIME_DEVICES_ARENA_H
#define MESHC_RUNTIME_DEVICES_ARENA_H

#include "runtime/Error.h"

#include <cstddef>
#include <cstdint>

namespace meshc::runtime {

/// The memory of one device: zeroed, from a multiple of 2 MiB on, in huge pages
/// where the kernel grants them on request.
///
/// Source: 0 to 25 % less time on buffers of a few MiB than with 4 KiB pages,
/// measured on a two-core AVX-512 server.
class Arena {
public:
  Arena(Arena &&other) noexcept;
  Arena &operator=(Arena &&other) noexcept;
  ~Arena();

  /// The memory that an arena of `bytes` takes.
  static uint64_t getReservedBytes(uint64_t bytes, uint64_t skew);

  /// `skew`: bytes from the 2 MiB boundary to the first byte of data, less than
  /// a page; see getMatmulSkew().
  /// Errors: ErrorCode::DoesNotFit where the system has not as much.
  static Result<Arena> create(uint64_t bytes, uint64_t skew);

  std::byte *getData() const { return pages + skew; }

private:
  Arena(std::byte *pages, uint64_t bytes, uint64_t skew)
      : pages(pages), bytes(bytes), skew(skew) {}

  std::byte *pages = nullptr;
  uint64_t bytes = 0; ///< of the pages
  uint64_t skew = 0;
};

} // namespace meshc::runtime

#endif
