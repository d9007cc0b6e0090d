// Kernels of the tests, in the form of a `host` image. The tests say what each
// is for.

#include "codegen/gpu/HostImage.h"

#include <cmath>
#include <cstring>

namespace {

constexpr int32_t blockThreads = 64;

template <class Value> Value get(void **parameters, int index) {
  Value value;
  std::memcpy(&value, parameters[index], sizeof value);
  return value;
}

int64_t globalId(int32_t threads) {
  return int64_t(meshc_fiber_block_id()) * threads + meshc_fiber_thread_id();
}

float *sharedFloats() { return reinterpret_cast<float *>(meshc_fiber_shared); }

} // namespace

extern "C" {

/// to[i] = from[i] + 1 for i < count, blocks of 64.
void add_one(void **parameters) {
  auto *from = get<const float *>(parameters, 0);
  auto *to = get<float *>(parameters, 1);
  int64_t i = globalId(blockThreads);
  if (i < get<int64_t>(parameters, 2))
    to[i] = from[i] + 1;
}

/// to[i] = a[i] * b[i] + to[i] for i < count, blocks of 64.
void multiply_add(void **parameters) {
  auto *a = get<const float *>(parameters, 0);
  auto *b = get<const float *>(parameters, 1);
  auto *to = get<float *>(parameters, 2);
  int64_t i = globalId(blockThreads);
  if (i < get<int64_t>(parameters, 3))
    to[i] = a[i] * b[i] + to[i];
}

/// Reverses each block of 64, through shared memory.
void reverse(void **parameters) {
  auto *values = get<float *>(parameters, 0);
  int32_t thread = meshc_fiber_thread_id();
  int64_t i = globalId(blockThreads);
  sharedFloats()[thread] = values[i];
  meshc_fiber_barrier(1);
  values[i] = sharedFloats()[blockThreads - 1 - thread];
}

/// The same without the barrier.
void reverse_unsafe(void **parameters) {
  auto *values = get<float *>(parameters, 0);
  int32_t thread = meshc_fiber_thread_id();
  int64_t i = globalId(blockThreads);
  sharedFloats()[thread] = values[i];
  values[i] = sharedFloats()[blockThreads - 1 - thread];
}

/// to[block] = sum of a block of 64: shuffles, then shared memory.
void sum_blocks(void **parameters) {
  auto *from = get<const double *>(parameters, 0);
  auto *to = get<double *>(parameters, 1);
  auto *shared = reinterpret_cast<double *>(meshc_fiber_shared);
  double sum = from[globalId(blockThreads)];
  for (int32_t mask = 16; mask > 0; mask /= 2) {
    int64_t bits;
    std::memcpy(&bits, &sum, sizeof bits);
    bits = meshc_fiber_shuffle_xor(bits, mask, 1);
    double other;
    std::memcpy(&other, &bits, sizeof other);
    sum += other;
  }
  int32_t thread = meshc_fiber_thread_id();
  if (thread % 32 == 0)
    shared[thread / 32] = sum;
  meshc_fiber_barrier(1);
  if (thread == 0)
    to[meshc_fiber_block_id()] = shared[0] + shared[1];
}

/// Thread 3 of block 2 leaves without the barrier.
void lost_thread(void **) {
  if (meshc_fiber_block_id() == 2 && meshc_fiber_thread_id() == 3)
    return;
  meshc_fiber_barrier(1);
}

/// The first warp is at a shuffle while the others are at a barrier.
void split_threads(void **) {
  if (meshc_fiber_thread_id() == 5)
    meshc_fiber_barrier(1);
  else
    meshc_fiber_shuffle_xor(0, 1, 1);
}

/// All threads come to a barrier, but the second warp to another one.
void other_barrier(void **) {
  if (meshc_fiber_thread_id() < 32)
    meshc_fiber_barrier(1);
  else
    meshc_fiber_barrier(2);
}

/// The same of a warp's shuffles: the first warp has one for all, the second
/// two.
void other_shuffle(void **) {
  if (meshc_fiber_thread_id() < 50)
    meshc_fiber_shuffle_xor(0, 1, 4);
  else
    meshc_fiber_shuffle_xor(0, 1, 7);
}

/// A barrier in a loop that one thread leaves early, and another one behind it.
void short_loop(void **) {
  const int32_t rounds = meshc_fiber_thread_id() == 6 ? 2 : 3;
  for (int32_t i = 0; i < rounds; ++i)
    meshc_fiber_barrier(1);
  meshc_fiber_barrier(2);
}

/// The threads of a warp disagree about the mask.
void mixed_masks(void **) {
  meshc_fiber_shuffle_xor(0, meshc_fiber_thread_id() == 7 ? 2 : 1, 1);
}

/// to[thread] = what shared memory holds before anything was written there.
void read_shared(void **parameters) {
  get<float *>(parameters, 0)[meshc_fiber_thread_id()] =
      sharedFloats()[meshc_fiber_thread_id()];
}

/// Writes the given byte of shared memory.
void write_shared(void **parameters) {
  meshc_fiber_shared[get<int64_t>(parameters, 0)] = 1;
}

/// to[index] = 1, wherever that is.
void write_at(void **parameters) {
  get<float *>(parameters, 0)[get<int64_t>(parameters, 1)] = 1;
}

/// *to = block: what is left is the last block that ran.
void last_block(void **parameters) {
  *get<int32_t *>(parameters, 0) = meshc_fiber_block_id();
}

/// Calls nothing that waits, many threads: the cost of a thread.
void cheap(void **parameters) {
  get<int32_t *>(parameters, 0)[meshc_fiber_thread_id()] += 1;
}

/// Four barriers per thread: the cost of a switch.
void waiting(void **parameters) {
  for (int i = 0; i < 4; ++i) {
    get<int32_t *>(parameters, 0)[meshc_fiber_thread_id()] += 1;
    meshc_fiber_barrier(1);
  }
}

/// Needs a stack deeper than there is.
void deep(void **parameters) {
  volatile char room[1 << 20];
  for (int i = (1 << 20) - 1; i >= 0; --i)
    room[i] = 1;
  *get<int32_t *>(parameters, 0) = room[0];
}

} // extern "C"
