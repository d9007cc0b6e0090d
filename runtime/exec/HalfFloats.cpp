#include "runtime/exec/HalfFloats.h"

#include "runtime/exec/Clones.h"

using namespace meshc;
using namespace meshc::runtime;

namespace {

template <typename T>
[[gnu::always_inline]] inline void widen(const T *source, int64_t stride,
                                         float *__restrict target,
                                         int64_t count) {
  if (stride == 1)
    for (int64_t i = 0; i < count; ++i)
      target[i] = source[i].toFloat();
  else
    for (int64_t i = 0; i < count; ++i)
      target[i] = source[i * stride].toFloat();
}

template <typename T>
[[gnu::always_inline]] inline void narrow(const float *source,
                                          T *__restrict target, int64_t stride,
                                          int64_t count) {
  if (stride == 1)
    for (int64_t i = 0; i < count; ++i)
      target[i] = T::round(source[i]);
  else
    for (int64_t i = 0; i < count; ++i)
      target[i * stride] = T::round(source[i]);
}

MESHC_CLONES void widenBFloat16(const BFloat16 *source, int64_t stride,
                                float *target, int64_t count) {
  widen(source, stride, target, count);
}
MESHC_CLONES void widenFloat16(const Float16 *source, int64_t stride,
                               float *target, int64_t count) {
  widen(source, stride, target, count);
}
MESHC_CLONES void narrowBFloat16(const float *source, BFloat16 *target,
                                 int64_t stride, int64_t count) {
  narrow(source, target, stride, count);
}
MESHC_CLONES void narrowFloat16(const float *source, Float16 *target,
                                int64_t stride, int64_t count) {
  narrow(source, target, stride, count);
}

} // namespace

bool runtime::isHalfFloat(exec::ElementType element) {
  return element == exec::ElementType::bf16 ||
         element == exec::ElementType::f16;
}

void runtime::widenRow(exec::ElementType element, const void *source,
                       int64_t stride, float *target, int64_t count) {
  if (element == exec::ElementType::bf16)
    widenBFloat16(static_cast<const BFloat16 *>(source), stride, target, count);
  else
    widenFloat16(static_cast<const Float16 *>(source), stride, target, count);
}

void runtime::narrowRow(exec::ElementType element, const float *source,
                        void *target, int64_t stride, int64_t count) {
  if (element == exec::ElementType::bf16)
    narrowBFloat16(source, static_cast<BFloat16 *>(target), stride, count);
  else
    narrowFloat16(source, static_cast<Float16 *>(target), stride, count);
}
