#ifndef MESHC_RUNTIME_CPU_LIBRARYELEMENT_H
#define MESHC_RUNTIME_CPU_LIBRARYELEMENT_H

#include "runtime/exec/Executable.h"

#include <dnnl.hpp>

namespace meshc::runtime {

/// oneDNN's name of a type of element that we give it: f32, bf16 or f16.
inline dnnl::memory::data_type getDataType(exec::ElementType element) {
  switch (element) {
  case exec::ElementType::f32:
    return dnnl::memory::data_type::f32;
  case exec::ElementType::bf16:
    return dnnl::memory::data_type::bf16;
  case exec::ElementType::f16:
    return dnnl::memory::data_type::f16;
  case exec::ElementType::f64:
  case exec::ElementType::i32:
  case exec::ElementType::i64:
  case exec::ElementType::boolean:
  case exec::ElementType::u8:
  case exec::ElementType::i8:
  case exec::ElementType::i16:
    break;
  }
  __builtin_unreachable(); // BlockedMatmul has the others
}

} // namespace meshc::runtime

#endif
