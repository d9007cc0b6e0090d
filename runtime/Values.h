#ifndef MESHC_RUNTIME_VALUES_H
#define MESHC_RUNTIME_VALUES_H

#include "runtime/Devices/Executor.h"
#include "runtime/exec_generated.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace meshc::runtime {

/// A whole tensor on the host: C order, little-endian.
struct HostArray {
  exec::ElementType element = exec::ElementType::f32;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;

  int64_t getNumElements() const;
};

/// "f32[3, 5]".
std::string toString(exec::ElementType element, std::span<const int64_t> shape);

/// Cuts a whole tensor into the devices' blocks in `buffer`; padding is left as
/// it is. `data` has the elements of `layout` in C order.
void scatter(const Executor &executor, const exec::TensorLayoutT &layout,
             int buffer, std::span<const std::byte> data);

/// Puts the devices' blocks in `buffer` together. A partial value is combined
/// in the order of device numbers.
HostArray gather(const Executor &executor, const exec::TensorLayoutT &layout,
                 int buffer);

/// The only element of an array as a double.
double getScalar(const HostArray &array);

} // namespace meshc::runtime

#endif
