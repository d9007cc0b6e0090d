#include "runtime/exec/GpuKernels.h"

#include "runtime/exec/Executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

using namespace meshc;

// With l bits that hold size - 1 and m = floor(2^(31 + l) / size) + 1, which
// fits 32 bits as size > 2^(l - 1), m * size exceeds 2^(31 + l) by at most size
// <= 2^l: multiplied by n < 2^31 that is less than what would change the
// quotient.
runtime::MoveDivisor runtime::getMoveDivisor(int64_t size) {
  assert(size >= 1 && size < (int64_t(1) << 31) && "not a narrow size");
  const uint32_t bits = uint32_t(std::bit_width(uint64_t(size - 1)));
  const uint64_t power = uint64_t(1) << (31 + bits);
  return {uint32_t(power / uint64_t(size) + 1), 31 + bits};
}

bool runtime::isNarrow(const MovePiece &piece) {
  // The number of elements, and how far apart the first and the last one are.
  int64_t elements = 1, from = 1, to = 1;
  for (int64_t dim = 0; dim < piece.rank; ++dim) {
    const int64_t size = piece.sizes[dim];
    if (size > maxNarrowElements)
      return false;
    elements *= size;
    for (auto [extent, strides] : {std::pair(&from, piece.fromStrides),
                                   std::pair(&to, piece.toStrides)}) {
      if (strides[dim] < 0 || strides[dim] > maxNarrowElements)
        return false;
      *extent += (size - 1) * strides[dim];
    }
    if (std::max({elements, from, to}) > maxNarrowElements)
      return false;
  }
  return true;
}

std::string runtime::getMoveKernelName(exec::ReduceKind kind,
                                       exec::ElementType element, bool isWide) {
  const char *suffix = isWide ? "_wide" : "";
  if (kind == exec::ReduceKind::none)
    return fmt::format("meshc_move_{}{}", getElementBytes(element), suffix);
  return fmt::format("meshc_reduce_{}_{}{}", exec::EnumNameReduceKind(kind),
                     getName(element), suffix);
}
