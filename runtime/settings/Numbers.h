#ifndef MESHC_RUNTIME_SETTINGS_NUMBERS_H
#define MESHC_RUNTIME_SETTINGS_NUMBERS_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace meshc::runtime {

/// What is computed with numbers, by its sign.
enum class Arithmetic : char {
  Add = '+',
  Subtract = '-',
  Multiply = '*',
  Divide = '/',
  Remainder = '%',
  Power = '^'
};

/// A number of a spec: a 64-bit integer as long as the computation stays exact,
/// a double otherwise.
struct Number {
  bool isInteger = true;
  int64_t integer = 0;
  double real = 0;

  static Number of(int64_t value) { return {true, value, 0}; }
  static Number of(double value) { return {false, 0, value}; }
  double toDouble() const {
    return isInteger ? static_cast<double>(integer) : real;
  }
};

std::string toString(Number number);

/// The integer that a number is, of whichever kind: 1000 for 1e3. Nothing for
/// one with a fraction, infinity, and what does not fit 64 bits.
std::optional<int64_t> toInteger(Number number);

/// Why toInteger gives nothing, behind "which": "is not an integer".
std::string describeNoInteger(Number number);

/// lhs op rhs for + - * / % ^.
///
/// Integers stay integers: a quotient that does not come out even and a power
/// with a negative exponent are doubles, % has the sign of the divisor. Nothing
/// if the result overflows 64 bits, is not a number, or divides by zero; `why`
/// then says which.
std::optional<Number> compute(Arithmetic op, Number lhs, Number rhs,
                              std::string &why);

std::optional<Number> negate(Number number, std::string &why);

/// -1, 0 or 1; nothing if one is not a number.
std::optional<int> compareNumbers(Number lhs, Number rhs);

/// A comparison by its sign: == != < <= > >=. Nothing if it is none of these.
std::optional<bool> compare(std::string_view sign, Number lhs, Number rhs);

} // namespace meshc::runtime

#endif
