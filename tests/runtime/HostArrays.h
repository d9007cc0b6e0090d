#ifndef MESHC_TESTS_RUNTIME_HOSTARRAYS_H
#define MESHC_TESTS_RUNTIME_HOSTARRAYS_H

#include "runtime/data/Values.h"

#include <span>
#include <utility>
#include <vector>

namespace meshc::runtime::test {

/// An array of these elements, in C order.
template <typename T>
HostArray makeArray(exec::ElementType element, std::vector<int64_t> shape,
                    const std::vector<T> &values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {element, std::move(shape), {bytes.begin(), bytes.end()}};
}

} // namespace meshc::runtime::test

#endif
