#include "runtime/samples/Conversion.h"

#include "runtime/data/Values.h"

#include <fmt/format.h>

#include <cstring>

using namespace meshc;
using namespace meshc::runtime;

/// Whether To may lack what From has.
template <typename From, typename To>
static constexpr bool isNarrower = std::is_integral_v<To> ||
                                   (std::is_floating_point_v<From> &&
                                    sizeof(To) < sizeof(From));

template <typename From, typename To>
static std::optional<int64_t> convertElements(const std::byte *from,
                                              int64_t count, std::byte *to,
                                              int64_t bound) {
  if (to == nullptr && !isNarrower<From, To>)
    return std::nullopt;
  for (int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, from + i * int64_t(sizeof(From)), sizeof(From));
    if (!hasValue<To>(value))
      return i;
    if constexpr (std::is_integral_v<To> && std::is_integral_v<From>)
      if (bound > 0 &&
          (value < From(0) || std::cmp_greater_equal(value, bound)))
        return i;
    const To result = To(value);
    if (to)
      std::memcpy(to + i * int64_t(sizeof(To)), &result, sizeof(To));
  }
  return std::nullopt;
}

std::optional<SampleElement> runtime::getSampleElement(exec::ElementType type) {
  switch (type) {
  case exec::ElementType::f32:
    return SampleElement::f32;
  case exec::ElementType::f64:
    return SampleElement::f64;
  case exec::ElementType::i32:
    return SampleElement::i32;
  case exec::ElementType::i64:
    return SampleElement::i64;
  case exec::ElementType::u8:
  case exec::ElementType::boolean:
    return SampleElement::u8;
  case exec::ElementType::i8:
    return SampleElement::i8;
  case exec::ElementType::i16:
    return SampleElement::i16;
  case exec::ElementType::bf16:
  case exec::ElementType::f16:
    break;
  }
  return std::nullopt;
}

Result<Conversion> Conversion::create(const SampleArray &from,
                                      const exec::PortT &to) {
  const SampleElement stored = from.getShape().element;
  const std::optional<SampleElement> needed =
      getSampleElement(to.layout->element);
  if (!needed)
    return Error{ErrorCode::WrongData,
                 fmt::format("input '{}' is {}: data for 16-bit floats is not "
                             "supported",
                             to.name, toString(*to.layout)),
                 ""};
  if (isInteger(*needed) && !isInteger(stored))
    return Error{ErrorCode::WrongData,
                 fmt::format("'{}' has floating-point elements, input '{}' "
                             "expects {}",
                             from.getPath(), to.name, toString(*to.layout)),
                 ""};
  Conversion conversion;
  conversion.port = &to;
  // A boolean is 0 or 1.
  conversion.bound =
      to.layout->element == exec::ElementType::boolean ? 2 : to.index_bound;
  conversion.copies = stored == *needed && conversion.bound == 0;
  conversion.function = withType(stored, [&](auto source) {
    return withType(*needed, [&](auto target) -> Function {
      conversion.refuses =
          !conversion.copies && isNarrower<decltype(source), decltype(target)>;
      return convertElements<decltype(source), decltype(target)>;
    });
  });
  return conversion;
}

Error Conversion::getError(const SampleArray &from, int64_t element) const {
  const SampleShape &shape = from.getShape();
  std::byte bytes[8] = {};
  const int64_t width = getBytes(shape.element);
  std::string found = "another value";
  if (from.read(element, std::span(bytes).first(size_t(width))))
    found = withType(shape.element, [&](auto value) {
      std::memcpy(&value, bytes, sizeof(value));
      return fmt::format("{}", value);
    });
  // The first one that has it.
  const int64_t length = shape.getSampleElements();
  const int64_t sample =
      element < length ? 0 : (element - length) / shape.stride + 1;
  return {
      ErrorCode::ValueOutOfRange,
      fmt::format("'{}': sample {} is {}, input '{}' expects {}",
                  from.getPath(), sample, found, port->name,
                  bound > 0 ? fmt::format("at least 0 and less than {}", bound)
                            : toString(*port->layout)),
      length == 1 ? ""
                  : fmt::format("it is the element {} of the sample, from 0",
                                element - sample * shape.stride)};
}
