#ifndef MESHC_FRONTEND_ELABORATE_POSITION_H
#define MESHC_FRONTEND_ELABORATE_POSITION_H

#include "frontend/Builder.h"
#include "frontend/elaborate/Numbers.h"

#include <memory>
#include <optional>
#include <string>

namespace meshc::frontend {

/// A position that dims determine, inside an index: 2 * row + dy - 1. There a
/// dim stands for its positions and `/` is exact: (terms + offset) / divisor,
/// which is no position where it is not whole; or it is rounded down, or the
/// remainder by the divisor. Those may be terms of others: 2 * (h % 2) + w % 2.
struct Position {
  using Kind = layout::Access::Kind;

  /// Dims with their factors; those that cancelled too, with 0.
  std::vector<std::pair<Dim, int64_t>> terms;
  int64_t offset = 0;
  int64_t divisor = 1;
  Kind kind = Kind::Exact;
  /// Rounded quotients and remainders with their factors.
  std::vector<std::pair<std::shared_ptr<const Position>, int64_t>> parts = {};

  static Position of(const Dim &dim) { return {{{dim, 1}}}; }
  /// A sum that has the position as its only part.
  static Position of(Position part);

  /// Whether no dim changes it: one that is multiplied by 0 only repeats it.
  bool isConstant() const;
  /// The dims in it and in its parts, each once, in the order in which they
  /// occur.
  std::vector<Dim> getLoops() const;

  /// Whether all numbers are below 2^31, as an access needs them.
  bool fitsAccess() const;
  /// Whether it is one access: it has no parts, and if it is a remainder, then
  /// of no multiples of dims.
  bool isAccess() const;
  /// As an access of `dim`, its loops in the order in which they occur.
  /// Requires: fitsAccess, no parts.
  ViewAccess getAccess(const Dim &dim) const;

  /// The values it takes where it is whole, and perhaps others between them.
  layout::Range getRange() const;

  bool operator==(const Position &other) const;
};

/// Why there is no position, and the code that says so.
struct PositionError {
  Code code = Code::MixedIndex;
  std::string message;
  std::string help;
};

/// lhs op rhs for + and -. Nothing, with an error, where a number overflows.
std::optional<Position> add(const Position &lhs, const Position &rhs,
                            bool subtracts, PositionError &error);
/// lhs op rhs for + - * / % where one of them is a number. Nothing, with an
/// error, where the result is no position: x * row with a fraction x, 1 / row,
/// a remainder by a number that is not positive or of an exact quotient.
std::optional<Position> compute(ast::Operator op, const Position &lhs,
                                const Number &rhs, PositionError &error);
std::optional<Position> compute(ast::Operator op, const Number &lhs,
                                const Position &rhs, PositionError &error);
std::optional<Position> negate(const Position &position, PositionError &error);
/// Rounded down, or up, to a whole position.
Position floor(Position position);
Position ceil(Position position);

} // namespace meshc::frontend

#endif
