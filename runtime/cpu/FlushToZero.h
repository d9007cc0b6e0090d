#ifndef MESHC_RUNTIME_CPU_FLUSHTOZERO_H
#define MESHC_RUNTIME_CPU_FLUSHTOZERO_H

#include <xmmintrin.h>

namespace meshc::runtime {

/// While it lives, what this thread computes below the normal range, 1.2e-38 of
/// f32 and 2.2e-308 of f64, is 0. Processors take a hundred cycles and more for
/// a result there, and softmax has many where scores are large: exp(-90).
/// Operands that are there count as they are: f16 below its normal range is
/// read by way of them (HalfFloats.h).
class FlushToZero {
public:
  FlushToZero() : previous(_mm_getcsr()) {
    _mm_setcsr(previous | _MM_FLUSH_ZERO_ON);
  }
  ~FlushToZero() { _mm_setcsr(previous); }
  FlushToZero(const FlushToZero &) = delete;
  FlushToZero &operator=(const FlushToZero &) = delete;

private:
  unsigned previous;
};

} // namespace meshc::runtime

#endif
