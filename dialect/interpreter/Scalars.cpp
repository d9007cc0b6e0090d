#include "dialect/interpreter/Scalars.h"
#include "dialect/interpreter/SpecialFunctions.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace meshc::interpreter;

//===-- Double precision --------------------------------------------------===//

std::optional<int64_t> F64::toInteger(double value) {
  // 2^63 is a double, 2^63 - 1 is not. NaN fails both comparisons.
  if (!(value > -0x1p63 && value < 0x1p63))
    return std::nullopt;
  return int64_t(value);
}

double F64::round(double value, FloatFormat format) {
  auto convert = [&](const llvm::fltSemantics &semantics) {
    llvm::APFloat rounded(value);
    bool losesInfo;
    rounded.convert(semantics, llvm::APFloat::rmNearestTiesToEven, &losesInfo);
    return rounded.convertToDouble();
  };
  switch (format) {
  case FloatFormat::Unrounded:
    return value;
  case FloatFormat::BF16:
    return convert(llvm::APFloat::BFloat());
  case FloatFormat::F16:
    return convert(llvm::APFloat::IEEEhalf());
  }
  llvm_unreachable("not a format");
}

F64::Unary F64::findUnary(llvm::StringRef name) {
  return llvm::StringSwitch<Unary>(name)
      .Case("neg", [](double x) { return -x; })
      .Case("exp", [](double x) { return std::exp(x); })
      .Case("log", [](double x) { return std::log(x); })
      .Case("tanh", [](double x) { return std::tanh(x); })
      .Case("logistic", [](double x) { return 1 / (1 + std::exp(-x)); })
      .Case("erf", [](double x) { return std::erf(x); })
      .Case("erf_inv", invertErf)
      .Case("sqrt", [](double x) { return std::sqrt(x); })
      .Case("rsqrt", [](double x) { return 1 / std::sqrt(x); })
      .Case("sin", [](double x) { return std::sin(x); })
      .Case("cos", [](double x) { return std::cos(x); })
      .Case("abs", [](double x) { return std::fabs(x); })
      .Case("sign", [](double x) { return double((x > 0) - (x < 0)); })
      .Case("stop_gradient", [](double x) { return x; })
      .Default(nullptr);
}

F64::Binary F64::findBinary(llvm::StringRef name) {
  return llvm::StringSwitch<Binary>(name)
      .Case("add", [](double x, double y) { return x + y; })
      .Case("sub", [](double x, double y) { return x - y; })
      .Case("mul", [](double x, double y) { return x * y; })
      .Case("div", [](double x, double y) { return x / y; })
      .Case("minimum",
            [](double x, double y) { return std::isnan(x) || x < y ? x : y; })
      .Case("maximum",
            [](double x, double y) { return std::isnan(x) || x > y ? x : y; })
      .Case("pow", [](double x, double y) { return std::pow(x, y); })
      .Default(nullptr);
}

F64::Relation F64::findRelation(llvm::StringRef name) {
  return llvm::StringSwitch<Relation>(name)
      .Case("eq", [](double x, double y) { return x == y; })
      .Case("ne", [](double x, double y) { return x != y; })
      .Case("lt", [](double x, double y) { return x < y; })
      .Case("le", [](double x, double y) { return x <= y; })
      .Case("gt", [](double x, double y) { return x > y; })
      .Case("ge", [](double x, double y) { return x >= y; })
      .Default(nullptr);
}

ElementKind meshc::interpreter::getElementKind(mlir::Type elementType) {
  if (elementType.isIndex())
    return {false, 64};
  FloatFormat format = elementType.isBF16()  ? FloatFormat::BF16
                       : elementType.isF16() ? FloatFormat::F16
                                             : FloatFormat::Unrounded;
  return {mlir::isa<mlir::FloatType>(elementType),
          elementType.getIntOrFloatBitWidth(), format,
          elementType.isUnsignedInteger()};
}

//===-- Integers ----------------------------------------------------------===//

int64_t meshc::interpreter::wrapInteger(int64_t value, unsigned width) {
  if (width == 1)
    return value & 1;
  return int64_t(uint64_t(value) << (64 - width)) >> (64 - width);
}

int64_t meshc::interpreter::wrapInteger(int64_t value, ElementKind kind) {
  return kind.isUnsigned ? int64_t(getBits(value, kind.width))
                         : wrapInteger(value, kind.width);
}

uint64_t meshc::interpreter::getBits(int64_t value, unsigned width) {
  return uint64_t(value) << (64 - width) >> (64 - width);
}

IntegerUnary meshc::interpreter::findIntegerUnary(llvm::StringRef name) {
  return llvm::StringSwitch<IntegerUnary>(name)
      .Case("neg", [](int64_t x, unsigned) { return int64_t(-uint64_t(x)); })
      .Case("abs", [](int64_t x,
                      unsigned) { return x < 0 ? int64_t(-uint64_t(x)) : x; })
      .Case("sign",
            [](int64_t x, unsigned) { return int64_t((x > 0) - (x < 0)); })
      .Case("not", [](int64_t x, unsigned) { return ~x; })
      .Case("stop_gradient", [](int64_t x, unsigned) { return x; })
      .Default(nullptr);
}

/// `op` on 64-bit unsigned numbers: wrapped later, it is right for any width.
template <class Operation>
static std::optional<int64_t> modular(int64_t x, int64_t y, Operation op) {
  return int64_t(op(uint64_t(x), uint64_t(y)));
}

/// x / y toward zero; undefined for y = 0 and where the quotient overflows.
/// nd.div gives x there.
static std::optional<int64_t> divide(int64_t x, int64_t y, unsigned width) {
  bool isLowest =
      width > 1 && x == wrapInteger(int64_t(1) << (width - 1), width);
  if (y == 0 || (isLowest && y == -1))
    return std::nullopt;
  return x / y;
}

IntegerBinary meshc::interpreter::findIntegerBinary(llvm::StringRef name) {
  using Result = std::optional<int64_t>;
  return llvm::StringSwitch<IntegerBinary>(name)
      .Case("add",
            [](int64_t x, int64_t y, unsigned) {
              return modular(x, y, std::plus<uint64_t>());
            })
      .Case("sub",
            [](int64_t x, int64_t y, unsigned) {
              return modular(x, y, std::minus<uint64_t>());
            })
      .Case("mul",
            [](int64_t x, int64_t y, unsigned) {
              return modular(x, y, std::multiplies<uint64_t>());
            })
      .Case("sdiv", divide)
      .Case("div",
            [](int64_t x, int64_t y, unsigned width) {
              return Result(divide(x, y, width).value_or(x));
            })
      .Case("rem",
            [](int64_t x, int64_t y, unsigned width) {
              Result quotient = divide(x, y, width);
              return quotient ? Result(x - *quotient * y) : Result();
            })
      .Case("udiv",
            [](int64_t x, int64_t y, unsigned width) {
              return y == 0 ? Result()
                            : Result(getBits(x, width) / getBits(y, width));
            })
      .Case("urem",
            [](int64_t x, int64_t y, unsigned width) {
              return y == 0 ? Result()
                            : Result(getBits(x, width) % getBits(y, width));
            })
      .Case("minimum", [](int64_t x, int64_t y,
                          unsigned) { return Result(std::min(x, y)); })
      .Case("maximum", [](int64_t x, int64_t y,
                          unsigned) { return Result(std::max(x, y)); })
      .Case("and", [](int64_t x, int64_t y, unsigned) { return Result(x & y); })
      .Case("or", [](int64_t x, int64_t y, unsigned) { return Result(x | y); })
      .Case("xor", [](int64_t x, int64_t y, unsigned) { return Result(x ^ y); })
      .Case("random_bits",
            [](int64_t x, int64_t y, unsigned) {
              return Result(getRandomBits(uint64_t(x), uint64_t(y)));
            })
      .Case("fold_in",
            [](int64_t x, int64_t y, unsigned) {
              return Result(foldIn(uint64_t(x), uint64_t(y)));
            })
      .Case("shl",
            [](int64_t x, int64_t y, unsigned width) {
              return getBits(y, width) < width ? Result(uint64_t(x) << y)
                                               : Result();
            })
      .Case("shr",
            [](int64_t x, int64_t y, unsigned width) {
              return getBits(y, width) < width ? Result(x >> y) : Result();
            })
      .Case("ushr",
            [](int64_t x, int64_t y, unsigned width) {
              return getBits(y, width) < width ? Result(getBits(x, width) >> y)
                                               : Result();
            })
      .Default(nullptr);
}

IntegerRelation meshc::interpreter::findIntegerRelation(llvm::StringRef name) {
  return llvm::StringSwitch<IntegerRelation>(name)
      .Case("eq", [](int64_t x, int64_t y, unsigned) { return x == y; })
      .Case("ne", [](int64_t x, int64_t y, unsigned) { return x != y; })
      .Case("lt", [](int64_t x, int64_t y, unsigned) { return x < y; })
      .Case("le", [](int64_t x, int64_t y, unsigned) { return x <= y; })
      .Case("gt", [](int64_t x, int64_t y, unsigned) { return x > y; })
      .Case("ge", [](int64_t x, int64_t y, unsigned) { return x >= y; })
      .Case("ult",
            [](int64_t x, int64_t y, unsigned width) {
              return getBits(x, width) < getBits(y, width);
            })
      .Case("ule",
            [](int64_t x, int64_t y, unsigned width) {
              return getBits(x, width) <= getBits(y, width);
            })
      .Case("ugt",
            [](int64_t x, int64_t y, unsigned width) {
              return getBits(x, width) > getBits(y, width);
            })
      .Case("uge",
            [](int64_t x, int64_t y, unsigned width) {
              return getBits(x, width) >= getBits(y, width);
            })
      .Default(nullptr);
}
