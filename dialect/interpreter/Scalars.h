#ifndef MESHC_DIALECT_INTERPRETER_SCALARS_H
#define MESHC_DIALECT_INTERPRETER_SCALARS_H

/// Numbers and the functions of numbers, in one place for both interpreters.
///
/// An interpreter never computes: it looks a function up by name and calls it.
/// What a float *is* is decided by a domain, a class of static members such as
/// F64 below:
///
///   Number                      the type that stands for every float type
///   Unary, Binary               Number -> Number, (Number, Number) -> Number
///   Relation                    (Number, Number) -> bool
///   getConstant(double)         a literal of the program
///   fromInteger(int64_t)        exact where the domain can
///   toInteger(Number)           truncated toward zero, or nothing
///   round(Number, FloatFormat)  to the nearest of that format, ties to even
///   findUnary, findBinary, findRelation(name)    null if there is none
///
/// A domain is added by writing such a class and one line of instantiation at
/// the end of each of Blocks.cpp, NDInterpreter.cpp, ScalarProgram.cpp and
/// SPMDInterpreter.cpp.
///
/// Integers and booleans are exact in every domain: two's complement numbers of
/// their type's width, kept sign-extended in 64 bits (booleans as 0 and 1,
/// those without a sign as they are).

#include "mlir/IR/BuiltinTypes.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <variant>

namespace meshc::interpreter {

/// Content that means nothing: padding, and memory that nobody has written.
/// Whatever is computed from it is poison too, unless it cannot matter: the
/// choice a select does not take, the other operand of `false and`.
struct Poison {
  bool operator==(const Poison &) const = default;
};

/// One element: poison, a float, or an integer (boolean, index).
template <class Domain>
using Scalar = std::variant<Poison, typename Domain::Number, int64_t>;

template <class Domain> bool isPoison(const Scalar<Domain> &scalar) {
  return std::holds_alternative<Poison>(scalar);
}
template <class Domain>
typename Domain::Number asNumber(const Scalar<Domain> &scalar) {
  return std::get<typename Domain::Number>(scalar);
}
template <class Domain> int64_t asInteger(const Scalar<Domain> &scalar) {
  return std::get<int64_t>(scalar);
}

/// Which floats a domain rounds to: those whose rounding is part of what a
/// program means. f32 and f64 are not rounded.
enum class FloatFormat : uint8_t { Unrounded, BF16, F16 };

/// f32 and f64 as double: what f32 code computes, without its rounding. 16-bit
/// floats are rounded by each operation that has one as its result.
struct F64 {
  using Number = double;
  using Unary = double (*)(double);
  using Binary = double (*)(double, double);
  using Relation = bool (*)(double, double);

  static double getConstant(double value) { return value; }
  static double fromInteger(int64_t value) { return double(value); }
  /// Nothing for NaN and outside the 64-bit integers.
  static std::optional<int64_t> toInteger(double value);
  static double round(double value, FloatFormat format);
  static Unary findUnary(llvm::StringRef name);
  static Binary findBinary(llvm::StringRef name);
  static Relation findRelation(llvm::StringRef name);
};

/// `value` as a two's complement number of `width` bits; a boolean as 0 or 1.
int64_t wrapInteger(int64_t value, unsigned width);
struct ElementKind;
/// `value` as an integer of this kind holds it.
int64_t wrapInteger(int64_t value, ElementKind kind);
/// The bits of `value`, read without a sign.
uint64_t getBits(int64_t value, unsigned width);

/// Functions of integers of `width` bits; the caller wraps the result. Nothing
/// where the result is undefined (division by zero, shift beyond the width).
using IntegerUnary = int64_t (*)(int64_t, unsigned width);
using IntegerBinary = std::optional<int64_t> (*)(int64_t, int64_t,
                                                 unsigned width);
using IntegerRelation = bool (*)(int64_t, int64_t, unsigned width);
IntegerUnary findIntegerUnary(llvm::StringRef name);
IntegerBinary findIntegerBinary(llvm::StringRef name);
IntegerRelation findIntegerRelation(llvm::StringRef name);

/// What the functions need to know of an element type.
struct ElementKind {
  bool isFloat;
  unsigned width; ///< bits; index counts as 64
  FloatFormat format = FloatFormat::Unrounded;
  bool isUnsigned =
      false; ///< an integer from 0 on; booleans are by their width

  /// For what is computed on the way to one result and not rounded itself.
  ElementKind unrounded() const { return {isFloat, width}; }
};
ElementKind getElementKind(mlir::Type elementType);

template <class Domain>
using ScalarFunction =
    std::function<Scalar<Domain>(llvm::ArrayRef<Scalar<Domain>>)>;

/// `scalar` as an element of this kind can hold it.
template <class Domain>
Scalar<Domain> roundTo(const Scalar<Domain> &scalar, ElementKind kind);

/// The function of `arity` (1 or 2) operands of this kind, strict in poison but
/// for the absorbing operands of `and` and `or`. Empty if there is none.
template <class Domain>
ScalarFunction<Domain> findFunction(llvm::StringRef name, ElementKind kind,
                                    unsigned arity);

/// The comparison `name` (eq, ne, lt, le, gt, ge; for integers also ult, ule,
/// ugt, uge) as a boolean scalar. Empty if there is none.
template <class Domain>
ScalarFunction<Domain> findComparison(llvm::StringRef name, ElementKind kind);

/// Converts between element kinds: floats to integers by truncation (poison
/// where that has no value), numbers to booleans by comparison with 0.
template <class Domain>
ScalarFunction<Domain> getConversion(ElementKind from, ElementKind to);

//===-- Definitions -------------------------------------------------------===//

/// `function` where no operand is poison.
template <class Domain, class Function>
ScalarFunction<Domain> makeStrict(Function function) {
  return [=](llvm::ArrayRef<Scalar<Domain>> x) -> Scalar<Domain> {
    for (const Scalar<Domain> &operand : x)
      if (isPoison<Domain>(operand))
        return Poison();
    return function(x);
  };
}

template <class Domain>
Scalar<Domain> roundTo(const Scalar<Domain> &scalar, ElementKind kind) {
  if (kind.format == FloatFormat::Unrounded || isPoison<Domain>(scalar))
    return scalar;
  return Domain::round(asNumber<Domain>(scalar), kind.format);
}

template <class Domain>
ScalarFunction<Domain> findFunction(llvm::StringRef name, ElementKind kind,
                                    unsigned arity) {
  using S = llvm::ArrayRef<Scalar<Domain>>;
  unsigned width = kind.width;
  if (kind.isFloat && arity == 1) {
    if (auto function = Domain::findUnary(name))
      return makeStrict<Domain>([=](S x) {
        return roundTo<Domain>(function(asNumber<Domain>(x[0])), kind);
      });
    return {};
  }
  if (kind.isFloat && arity == 2) {
    if (auto function = Domain::findBinary(name))
      return makeStrict<Domain>([=](S x) {
        return roundTo<Domain>(
            function(asNumber<Domain>(x[0]), asNumber<Domain>(x[1])), kind);
      });
    return {};
  }
  if (arity == 1) {
    if (IntegerUnary function = findIntegerUnary(name))
      return makeStrict<Domain>([=](S x) {
        return Scalar<Domain>(
            wrapInteger(function(asInteger<Domain>(x[0]), width), width));
      });
    return {};
  }
  IntegerBinary function = findIntegerBinary(name);
  if (arity != 2 || !function)
    return {};
  auto strict = makeStrict<Domain>([=](S x) -> Scalar<Domain> {
    std::optional<int64_t> value =
        function(asInteger<Domain>(x[0]), asInteger<Domain>(x[1]), width);
    if (!value)
      return Poison();
    return wrapInteger(*value, width);
  });
  if (name != "and" && name != "or")
    return strict;
  // All bits clear decide `and`, all bits set decide `or`.
  int64_t absorbing = name == "and" ? 0 : wrapInteger(-1, width);
  return [=](S x) -> Scalar<Domain> {
    for (const Scalar<Domain> &operand : x)
      if (operand == Scalar<Domain>(absorbing))
        return operand;
    return strict(x);
  };
}

template <class Domain>
ScalarFunction<Domain> findComparison(llvm::StringRef name, ElementKind kind) {
  using S = llvm::ArrayRef<Scalar<Domain>>;
  if (kind.isFloat) {
    if (auto relation = Domain::findRelation(name))
      return makeStrict<Domain>([=](S x) {
        return Scalar<Domain>(
            int64_t(relation(asNumber<Domain>(x[0]), asNumber<Domain>(x[1]))));
      });
    return {};
  }
  if (IntegerRelation relation = findIntegerRelation(name))
    return makeStrict<Domain>([=, width = kind.width](S x) {
      return Scalar<Domain>(int64_t(
          relation(asInteger<Domain>(x[0]), asInteger<Domain>(x[1]), width)));
    });
  return {};
}

template <class Domain>
ScalarFunction<Domain> getConversion(ElementKind from, ElementKind to) {
  using S = llvm::ArrayRef<Scalar<Domain>>;
  if (from.isFloat && to.isFloat)
    return [=](S x) { return roundTo<Domain>(x[0], to); };
  if (!from.isFloat && to.isFloat)
    return makeStrict<Domain>([=](S x) {
      return roundTo<Domain>(Domain::fromInteger(asInteger<Domain>(x[0])), to);
    });
  if (to.width == 1) {
    ScalarFunction<Domain> differs = findComparison<Domain>("ne", from);
    Scalar<Domain> zero =
        from.isFloat ? Scalar<Domain>(Domain::getConstant(0)) : int64_t(0);
    return [=](S x) { return differs({x[0], zero}); };
  }
  if (!from.isFloat)
    return makeStrict<Domain>([=](S x) {
      return Scalar<Domain>(wrapInteger(asInteger<Domain>(x[0]), to));
    });
  return makeStrict<Domain>([=](S x) -> Scalar<Domain> {
    std::optional<int64_t> value = Domain::toInteger(asNumber<Domain>(x[0]));
    if (!value || wrapInteger(*value, to) != *value)
      return Poison();
    return *value;
  });
}

} // namespace meshc::interpreter

#endif
