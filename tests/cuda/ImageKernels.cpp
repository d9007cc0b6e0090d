// A `host` image: kernels for the programs of these tests, and the move kernels
// that every image has.

#include "tests/cuda/ImageKernels.h"

#include "codegen/gpu/HostImage.h"
#include "runtime/exec/GpuKernels.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

using namespace meshc::runtime;

namespace {

template <typename T> T get(void **parameters, int index) {
  T value;
  std::memcpy(&value, parameters[index], sizeof value);
  return value;
}

struct Copy {
  template <typename T> static T getIdentity() { return T(); }
  template <typename T> static T combine(T, T y) { return y; }
};
struct Sum {
  template <typename T> static T getIdentity() { return T(0); }
  template <typename T> static T combine(T x, T y) { return x + y; }
};
struct Max {
  template <typename T> static T getIdentity() {
    return std::numeric_limits<T>::has_infinity
               ? -std::numeric_limits<T>::infinity()
               : std::numeric_limits<T>::lowest();
  }
  template <typename T> static T combine(T x, T y) { return std::max(x, y); }
};
struct Min {
  template <typename T> static T getIdentity() {
    return std::numeric_limits<T>::has_infinity
               ? std::numeric_limits<T>::infinity()
               : std::numeric_limits<T>::max();
  }
  template <typename T> static T combine(T x, T y) { return std::min(x, y); }
};

/// See MovePiece.
template <typename T, typename Kind> void move(void **parameters) {
  const MovePiece &piece =
      get<const MovePiece *>(parameters, 0)[meshc_fiber_block_id()];
  const auto *sources = reinterpret_cast<const uint64_t *>(piece.sources);
  const auto *targets = reinterpret_cast<const uint64_t *>(piece.targets);
  for (int64_t i = piece.begin + meshc_fiber_thread_id(); i < piece.end;
       i += moveKernelThreads) {
    int64_t from = 0;
    int64_t to = 0;
    int64_t rest = i;
    for (int64_t d = piece.rank; d-- > 0;) {
      from += rest % piece.sizes[d] * piece.fromStrides[d];
      to += rest % piece.sizes[d] * piece.toStrides[d];
      rest /= piece.sizes[d];
    }
    T value = Kind::template getIdentity<T>();
    for (int64_t s = 0; s < piece.numSources; ++s) {
      const T term = reinterpret_cast<const T *>(sources[s])[from];
      value = s == 0 ? term : Kind::combine(value, term);
    }
    for (int64_t t = 0; t < piece.numTargets; ++t)
      reinterpret_cast<T *>(targets[t])[to] = value;
  }
}

} // namespace

extern "C" {

/// to[i] = mixElement(a[i], b[i], i, first coordinate), blocks of 64.
void mix(void **parameters) {
  const auto *a = get<const float *>(parameters, 0);
  const auto *b = get<const float *>(parameters, 1);
  auto *to = get<float *>(parameters, 2);
  const int64_t i =
      int64_t(meshc_fiber_block_id()) * 64 + meshc_fiber_thread_id();
  if (i < test::mixElements)
    to[i] = test::mixElement(a[i], b[i], i, get<int64_t>(parameters, 3));
}

/// Reverses blocks of 64 through shared memory, in two launches' worth of
/// blocks: to[i] = from[64 * block + 63 - thread].
void reverse(void **parameters) {
  const auto *from = get<const float *>(parameters, 0);
  auto *to = get<float *>(parameters, 1);
  const int32_t thread = meshc_fiber_thread_id();
  const int64_t i = int64_t(meshc_fiber_block_id()) * 64 + thread;
  auto *shared = reinterpret_cast<float *>(meshc_fiber_shared);
  shared[thread] = from[i];
  meshc_fiber_barrier(1);
  to[i] = shared[63 - thread];
}

/// Writes far outside of its operand.
void stray(void **parameters) {
  get<float *>(parameters, 0)[int64_t(1) << 40] = 1;
}

void meshc_move_1(void **parameters) { move<uint8_t, Copy>(parameters); }
void meshc_move_2(void **parameters) { move<uint16_t, Copy>(parameters); }
void meshc_move_4(void **parameters) { move<uint32_t, Copy>(parameters); }
void meshc_move_8(void **parameters) { move<uint64_t, Copy>(parameters); }
void meshc_reduce_sum_f32(void **parameters) { move<float, Sum>(parameters); }
void meshc_reduce_max_f32(void **parameters) { move<float, Max>(parameters); }
void meshc_reduce_min_f32(void **parameters) { move<float, Min>(parameters); }
void meshc_reduce_sum_f64(void **parameters) { move<double, Sum>(parameters); }
void meshc_reduce_sum_i64(void **parameters) { move<int64_t, Sum>(parameters); }

} // extern "C"
