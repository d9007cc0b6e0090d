#include "runtime/plans/Reduction.h"

#include "runtime/exec/Clones.h"
#include "runtime/exec/Executable.h"
#include "runtime/exec/HalfFloats.h"
#include "runtime/exec/SumBlock.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <type_traits>

using namespace meshc;
using namespace meshc::runtime;

// The loops are memory-bound from the second-level cache on; wider registers
// help where the rows are in the first.

namespace {

template <exec::ReduceKind kind, typename T>
[[gnu::always_inline]] inline T combine(T a, T b) {
  if constexpr (kind == exec::ReduceKind::sum) {
    if constexpr (std::is_integral_v<T>)
      return T(std::make_unsigned_t<T>(a) + std::make_unsigned_t<T>(b));
    else
      return a + b;
  } else if constexpr (kind == exec::ReduceKind::max) {
    return a > b || a != a ? a : b;
  } else {
    static_assert(kind == exec::ReduceKind::min);
    return a < b || a != a ? a : b;
  }
}

template <exec::ReduceKind kind, typename T> T getIdentity() {
  if constexpr (kind == exec::ReduceKind::sum)
    return T(0);
  else if constexpr (std::is_floating_point_v<T>)
    return kind == exec::ReduceKind::max ? -std::numeric_limits<T>::infinity()
                                         : std::numeric_limits<T>::infinity();
  else if constexpr (std::is_same_v<T, uint8_t>)
    return kind == exec::ReduceKind::max ? 0 : 1;
  else
    return kind == exec::ReduceKind::max ? std::numeric_limits<T>::min()
                                         : std::numeric_limits<T>::max();
}

/// Calls `body.template operator()<kind, T>()` for the types the runtime has.
template <typename Body>
void dispatch(exec::ElementType element, exec::ReduceKind kind, Body &&body) {
  using exec::ReduceKind;
  auto withKind = [&]<typename T>() {
    switch (kind) {
    case ReduceKind::sum:
      return body.template operator()<ReduceKind::sum, T>();
    case ReduceKind::max:
      return body.template operator()<ReduceKind::max, T>();
    case ReduceKind::min:
      return body.template operator()<ReduceKind::min, T>();
    case ReduceKind::none:
      break;
    }
    __builtin_unreachable(); // a move of several sources has a kind
  };
  switch (element) {
  case exec::ElementType::f32:
    return withKind.template operator()<float>();
  case exec::ElementType::f64:
    return withKind.template operator()<double>();
  case exec::ElementType::i32:
    return withKind.template operator()<int32_t>();
  case exec::ElementType::i64:
    return withKind.template operator()<int64_t>();
  case exec::ElementType::boolean:
    return withKind.template operator()<uint8_t>();
  case exec::ElementType::u8: // which is only summed, the same with a sign
  case exec::ElementType::i8:
    return withKind.template operator()<int8_t>();
  case exec::ElementType::i16:
    return withKind.template operator()<int16_t>();
  case exec::ElementType::bf16:
  case exec::ElementType::f16:
    break;
  }
  __builtin_unreachable(); // these are reduced as f32
}

template <exec::ReduceKind kind, typename T>
[[gnu::always_inline]] inline void
combineTwo(const T *a, const T *b, T *__restrict out, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    out[i] = combine<kind>(a[i], b[i]);
}

template <exec::ReduceKind kind, typename T>
[[gnu::always_inline]] inline void
combineFour(const T *a, const T *b, const T *c, const T *d, T *__restrict out,
            int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    out[i] =
        combine<kind>(combine<kind>(combine<kind>(a[i], b[i]), c[i]), d[i]);
}

template <exec::ReduceKind kind, typename T>
[[gnu::always_inline]] inline void addThree(const T *b, const T *c, const T *d,
                                            T *out, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    out[i] =
        combine<kind>(combine<kind>(combine<kind>(out[i], b[i]), c[i]), d[i]);
}

/// How many of `count` terms are summed apart before the next so many are, and
/// added: a power of the block. All of them if they are no floats to add, or
/// one block.
template <exec::ReduceKind kind, typename T>
size_t getSourcesPerSum(size_t count) {
  if (kind != exec::ReduceKind::sum || std::is_integral_v<T>)
    return count;
  size_t perSum = size_t(sumBlock);
  if (count <= perSum)
    return count;
  while (perSum * size_t(sumBlock) < count)
    perSum *= size_t(sumBlock);
  return perSum;
}

/// Combines columns [start, start + length) of the sources in a tile.
template <exec::ReduceKind kind, typename T>
[[gnu::always_inline]] inline void
combineBlock(const std::byte *const *sources, size_t numSources, int64_t start,
             T *tile, int64_t length) {
  auto from = [&](size_t i) {
    return reinterpret_cast<const T *>(sources[i]) + start;
  };
  size_t next = 2;
  if (numSources >= 4) {
    combineFour<kind>(from(0), from(1), from(2), from(3), tile, length);
    next = 4;
  } else if (numSources == 1) {
    std::memcpy(tile, from(0), size_t(length) * sizeof(T));
    return;
  } else {
    combineTwo<kind>(from(0), from(1), tile, length);
  }
  for (; next + 3 <= numSources; next += 3)
    addThree<kind>(from(next), from(next + 1), from(next + 2), tile, length);
  for (; next < numSources; ++next) {
    const T *source = from(next);
    for (int64_t i = 0; i < length; ++i)
      tile[i] = combine<kind>(tile[i], source[i]);
  }
}

/// The same of many sources, in blocks.
template <exec::ReduceKind kind, typename T>
void combineBlocks(const std::byte *const *sources, size_t numSources,
                   int64_t start, T *tile, int64_t length) {
  const size_t perSum = getSourcesPerSum<kind, T>(numSources);
  if (perSum == numSources)
    return combineBlock<kind>(sources, numSources, start, tile, length);
  alignas(64) T next[maxCombinedBytes / sizeof(T)];
  for (size_t first = 0; first < numSources; first += perSum) {
    const size_t count = std::min(perSum, numSources - first);
    combineBlocks<kind>(sources + first, count, start, first == 0 ? tile : next,
                        length);
    if (first == 0)
      continue;
    for (int64_t i = 0; i < length; ++i)
      tile[i] = combine<kind>(tile[i], next[i]);
  }
}

/// Through a tile in the first-level cache: a target may then be any source.
/// Source: 25 ms through a tile of 4 KiB against 23 ms for loads, sums and
/// stores without one, eight buffers of 80 MB on two threads of an AVX-512
/// server; streaming stores take 43 ms.
template <exec::ReduceKind kind, typename T>
[[gnu::always_inline]] inline void
reduceThroughTile(const std::byte *const *sources, size_t numSources,
                  std::byte *const *targets, size_t numTargets, int64_t count) {
  constexpr int64_t tileElements = maxCombinedBytes / sizeof(T);
  alignas(64) T tile[tileElements];
  const bool isOneBlock = getSourcesPerSum<kind, T>(numSources) == numSources;
  for (int64_t start = 0; start < count; start += tileElements) {
    const int64_t length = std::min(tileElements, count - start);
    if (isOneBlock)
      combineBlock<kind>(sources, numSources, start, tile, length);
    else
      combineBlocks<kind>(sources, numSources, start, tile, length);
    for (size_t i = 0; i < numTargets; ++i)
      std::memcpy(reinterpret_cast<T *>(targets[i]) + start, tile,
                  size_t(length) * sizeof(T));
  }
}

MESHC_CLONES void sumFloats(const std::byte *const *sources, size_t numSources,
                            std::byte *const *targets, size_t numTargets,
                            int64_t count) {
  reduceThroughTile<exec::ReduceKind::sum, float>(sources, numSources, targets,
                                                  numTargets, count);
}

MESHC_CLONES void combineFloats(exec::ReduceKind kind, const float *source,
                                float *target, int64_t count) {
  dispatch(exec::ElementType::f32, kind, [&]<exec::ReduceKind K, typename T>() {
    for (int64_t i = 0; i < count; ++i)
      target[i] = combine<K>(target[i], source[i]);
  });
}

constexpr int64_t halfTile = maxCombinedBytes / sizeof(float);

} // namespace

void runtime::fillIdentity(exec::ElementType element, exec::ReduceKind kind,
                           std::byte *target, int64_t targetStride,
                           int64_t count) {
  dispatch(element, kind, [&]<exec::ReduceKind K, typename T>() {
    T *out = reinterpret_cast<T *>(target);
    for (int64_t i = 0; i < count; ++i)
      out[i * targetStride] = getIdentity<K, T>();
  });
}

void runtime::combineInto(exec::ElementType element, exec::ReduceKind kind,
                          const std::byte *source, int64_t sourceStride,
                          std::byte *target, int64_t targetStride,
                          int64_t count) {
  dispatch(element, kind, [&]<exec::ReduceKind K, typename T>() {
    const T *in = reinterpret_cast<const T *>(source);
    T *out = reinterpret_cast<T *>(target);
    for (int64_t i = 0; i < count; ++i)
      out[i * targetStride] =
          combine<K>(out[i * targetStride], in[i * sourceStride]);
  });
}

exec::ElementType runtime::getSumElement(exec::ElementType element) {
  return isHalfFloat(element) ? exec::ElementType::f32 : element;
}

/// A strided row of `element` as a contiguous row of its sum element.
static void copyToSum(exec::ElementType element, const std::byte *source,
                      int64_t sourceStride, std::byte *sum, int64_t count) {
  if (isHalfFloat(element))
    return widenRow(element, source, sourceStride,
                    reinterpret_cast<float *>(sum), count);
  copyRow(getElementBytes(element), source, sourceStride, sum, 1, count);
}

/// sum = combine(sum, source), for a row of `element` and one of its sum
/// element.
static void combineIntoSum(exec::ElementType element, exec::ReduceKind kind,
                           const std::byte *source, int64_t sourceStride,
                           std::byte *sum, int64_t count) {
  if (!isHalfFloat(element))
    return combineInto(element, kind, source, sourceStride, sum, 1, count);
  alignas(64) float next[halfTile];
  widenRow(element, source, sourceStride, next, count);
  combineFloats(kind, next, reinterpret_cast<float *>(sum), count);
}

void runtime::combineRows(exec::ElementType element, exec::ReduceKind kind,
                          std::span<const std::byte *const> sources,
                          std::span<const int64_t> strides, int64_t start,
                          std::byte *sum, int64_t count) {
  const exec::ElementType sumElement = getSumElement(element);
  if (sources.empty())
    return fillIdentity(sumElement, kind, sum, 1, count);
  size_t perSum = sources.size();
  // A single one is moved, and has no kind.
  if (sources.size() > 1)
    dispatch(sumElement, kind, [&]<exec::ReduceKind K, typename T>() {
      perSum = getSourcesPerSum<K, T>(sources.size());
    });
  if (perSum == sources.size()) {
    const int64_t bytes = getElementBytes(element);
    for (size_t i = 0; i < sources.size(); ++i) {
      const int64_t stride = strides.empty() ? 1 : strides[i];
      const std::byte *source = sources[i] + start * stride * bytes;
      if (i == 0)
        copyToSum(element, source, stride, sum, count);
      else
        combineIntoSum(element, kind, source, stride, sum, count);
    }
    return;
  }
  alignas(64) std::array<std::byte, maxCombinedBytes> next;
  for (size_t first = 0; first < sources.size(); first += perSum) {
    const size_t number = std::min(perSum, sources.size() - first);
    combineRows(element, kind, sources.subspan(first, number),
                strides.empty() ? strides : strides.subspan(first, number),
                start, first == 0 ? sum : next.data(), count);
    if (first > 0)
      combineInto(sumElement, kind, next.data(), 1, sum, 1, count);
  }
}

void runtime::copyFromSum(exec::ElementType element, const std::byte *sum,
                          std::byte *target, int64_t targetStride,
                          int64_t count) {
  if (isHalfFloat(element))
    return narrowRow(element, reinterpret_cast<const float *>(sum), target,
                     targetStride, count);
  copyRow(getElementBytes(element), sum, 1, target, targetStride, count);
}

void runtime::copyRow(int64_t elementBytes, const std::byte *source,
                      int64_t sourceStride, std::byte *target,
                      int64_t targetStride, int64_t count) {
  if (sourceStride == 1 && targetStride == 1) {
    std::memmove(target, source, size_t(count * elementBytes));
    return;
  }
  auto copy = [&]<typename T>() {
    const T *in = reinterpret_cast<const T *>(source);
    T *out = reinterpret_cast<T *>(target);
    for (int64_t i = 0; i < count; ++i)
      out[i * targetStride] = in[i * sourceStride];
  };
  switch (elementBytes) {
  case 1:
    return copy.template operator()<uint8_t>();
  case 2:
    return copy.template operator()<uint16_t>();
  case 4:
    return copy.template operator()<uint32_t>();
  case 8:
    return copy.template operator()<uint64_t>();
  }
  __builtin_unreachable(); // getElementBytes gives no other
}

void runtime::reduceRow(exec::ElementType element, exec::ReduceKind kind,
                        std::span<const std::byte *const> sources,
                        std::span<std::byte *const> targets, int64_t count) {
  if (sources.size() > 1 && element == exec::ElementType::f32 &&
      kind == exec::ReduceKind::sum)
    return sumFloats(sources.data(), sources.size(), targets.data(),
                     targets.size(), count);
  if (sources.size() != 1 && isHalfFloat(element)) {
    // Combined in f32 and rounded once.
    alignas(64) std::array<std::byte, halfTile * sizeof(float)> sum;
    for (int64_t start = 0; start < count; start += halfTile) {
      const int64_t length = std::min(halfTile, count - start);
      combineRows(element, kind, sources, {}, start, sum.data(), length);
      for (std::byte *target : targets)
        copyFromSum(element, sum.data(),
                    target + start * getElementBytes(element), 1, length);
    }
    return;
  }
  if (sources.size() > 1)
    return dispatch(element, kind, [&]<exec::ReduceKind K, typename T>() {
      reduceThroughTile<K, T>(sources.data(), sources.size(), targets.data(),
                              targets.size(), count);
    });
  for (std::byte *target : targets) {
    if (sources.empty())
      fillIdentity(element, kind, target, 1, count);
    else if (target != sources[0])
      std::memcpy(target, sources[0], size_t(count * getElementBytes(element)));
  }
}
