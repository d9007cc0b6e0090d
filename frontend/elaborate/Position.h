#ifndef MESHC_FRONTEND_ELABORATE_POSITION_H
#define MESHC_FRONTEND_ELABORATE_POSITION_H

#include "frontend/Builder.h"
#include "frontend/elaborate/Numbers.h"

#include <optional>
#include <string>

namespace meshc::frontend {

/// A position that dims determine, inside an index: 2 * row + dy - 1. There a
/// dim stands for its positions and `/` is exact: (terms + offset) / divisor,
/// which is no position where it is not whole; or it is rounded down, or the
/// remainder by the divisor.
struct Position {
  using Kind = layout::Access::Kind;

  /// Dims with their factors; those that cancelled too, with 0.
  std::vector<std::pair<Dim, int64_t>> terms;
  int64_t offset = 0;
  int64_t divisor = 1;
  Kind kind = Kind::Exact;

  static Position of(const Dim &dim) { return {{{dim, 1}}}; }

  /// Whether no dim changes it: one that is multiplied by 0 only repeats it.
  bool isConstant() const;

  /// Whether all numbers are below 2^31, as an access needs them.
  bool fitsAccess() const;
  /// As an access of `dim`, its loops in the order in which they occur.
  /// Requires: fitsAccess.
  ViewAccess getAccess(const Dim &dim) const;
};

/// Why there is no position, and the code that says so.
struct PositionError {
  Code code = Code::MixedIndex;
  std::string message;
  std::string help;
};

/// lhs op rhs for + and -. Nothing, with an error, where a remainder or a
/// rounded quotient meets more than a whole number, or a number overflows.
std::optional<Position> add(const Position &lhs, const Position &rhs,
                            bool subtracts, PositionError &error);
/// lhs op rhs for + - * / % where one of them is a number. Nothing, with an
/// error, where the result is no position: x * row with a fraction x, 1 / row,
/// what `add` refuses, a remainder by a number that is not positive or of
/// multiples of dims.
std::optional<Position> compute(ast::Operator op, const Position &lhs,
                                Number rhs, PositionError &error);
std::optional<Position> compute(ast::Operator op, Number lhs,
                                const Position &rhs, PositionError &error);
std::optional<Position> negate(const Position &position, PositionError &error);
/// Rounded down to a whole position.
Position floor(Position position);

} // namespace meshc::frontend

#endif
