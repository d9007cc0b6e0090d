#ifndef MESHC_RUNTIME_SAMPLES_CONVERSION_H
#define MESHC_RUNTIME_SAMPLES_CONVERSION_H

#include "runtime/exec/exec_generated.h"
#include "runtime/samples/SampleArray.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace meshc::runtime {

/// The same type among those of files, u8 for booleans; none for 16-bit floats.
std::optional<SampleElement> getSampleElement(exec::ElementType type);

/// Whether To, the type of an input, has `value`: an integer itself, a float
/// the nearest one, which is infinite for what is infinite alone.
template <typename To, typename From> bool hasValue(From value) {
  if constexpr (std::is_integral_v<To> && std::is_integral_v<From>)
    return std::in_range<To>(value);
  else if constexpr (std::is_floating_point_v<From> &&
                     sizeof(To) < sizeof(From))
    return !std::isinf(To(value)) || std::isinf(value);
  else
    return true;
}

/// From elements of a file to those of the input that they feed. Integers stay
/// what they are, or are refused; floats get the nearest one, and are refused
/// where the input has integers or none so large.
class Conversion {
public:
  /// Errors: WrongData where no value of the file could feed the input.
  static Result<Conversion> create(const SampleArray &from,
                                   const exec::PortT &to);

  /// Converts `count` elements; the place of the first one that the input does
  /// not take, if there is one.
  std::optional<int64_t> convert(const std::byte *from, int64_t count,
                                 std::byte *to) const {
    return function(from, count, to, bound);
  }
  /// Looks at `count` elements, and gives the place of the first one that the
  /// input does not take.
  std::optional<int64_t> check(const std::byte *from, int64_t count) const {
    return function(from, count, nullptr, bound);
  }
  /// Whether elements are copied and all of them are taken.
  bool isCopy() const { return copies; }
  /// Whether the input takes whatever may be in the file.
  bool takesAll() const { return !refuses; }

  /// ValueOutOfRange: the element of the file which was refused.
  Error getError(const SampleArray &from, int64_t element) const;

  /// From so many elements on; null `to`: they are only looked at.
  using Function = std::optional<int64_t> (*)(const std::byte *from,
                                              int64_t count, std::byte *to,
                                              int64_t bound);

private:
  const exec::PortT *port = nullptr;
  Function function = nullptr;
  int64_t bound = 0; ///< of integers, exclusive; 0: that of their type
  bool copies = false, refuses = false;
};

} // namespace meshc::runtime

#endif
