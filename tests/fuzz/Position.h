#ifndef MESHC_TESTS_FUZZ_POSITION_H
#define MESHC_TESTS_FUZZ_POSITION_H

/// Positions within an index, by their definition: exact fractions of which
/// only whole ones are positions.

#include "tests/fuzz/Tree.h"

#include <numeric>
#include <stdexcept>

namespace meshc::fuzz {

struct Fraction {
  int64_t over, under; ///< under > 0

  bool isWhole() const { return over % under == 0; }
  int64_t get() const { return over / under; }
};

inline int64_t floorDiv(int64_t value, int64_t by) {
  return value / by - (value % by != 0 && (value < 0) != (by < 0));
}

/// The part of a list that goes into component `component`.
inline const Expr &getComponent(const Expr &tuple, size_t component) {
  return tuple.operands[tuple.operands.size() == 1 ? 0 : component];
}

/// How many components a position has: 1, or as many as its lists.
inline size_t countComponents(const Expr &expr) {
  if (expr.kind == ExprKind::Tuple)
    return expr.operands.size();
  size_t count = 1;
  if (expr.kind == ExprKind::Operator ||
      (expr.kind == ExprKind::Call && expr.name == "floor"))
    for (const Expr &operand : expr.operands)
      count = std::max(count, countComponents(operand));
  return count;
}

/// `read` gives what is no dim, number or operator: the elements of a tensor.
template <class Read>
Fraction evaluatePosition(const Tree &tree, const Expr &expr, size_t component,
                          const std::vector<int64_t> &point, Read &&read) {
  auto evaluate = [&](const Expr &operand) {
    return evaluatePosition(tree, operand, component, point, read);
  };
  switch (expr.kind) {
  case ExprKind::Number:
    return {int64_t(expr.number), 1};
  case ExprKind::Position:
    return {point[size_t(expr.dims[0])], 1};
  case ExprKind::Size:
    return {tree.dims[size_t(expr.dims[0])].size, 1};
  case ExprKind::Tuple:
    return evaluate(getComponent(expr, component));
  case ExprKind::Call:
    if (expr.name == "floor") {
      Fraction value = evaluate(expr.operands[0]);
      return {floorDiv(value.over, value.under), 1};
    }
    return {read(expr), 1};
  case ExprKind::Operator: {
    Fraction lhs = evaluate(expr.operands[0]);
    if (expr.operands.size() == 1)
      return {-lhs.over, lhs.under};
    Fraction rhs = evaluate(expr.operands[1]);
    if (expr.name == "*")
      return {lhs.over * rhs.over, lhs.under * rhs.under};
    if (expr.name == "/")
      return rhs.over < 0
                 ? Fraction{-lhs.over * rhs.under, -lhs.under * rhs.over}
                 : Fraction{lhs.over * rhs.under, lhs.under * rhs.over};
    if (expr.name == "%")
      return {lhs.get() - floorDiv(lhs.get(), rhs.get()) * rhs.get(), 1};
    const int64_t sign = expr.name == "-" ? -1 : 1;
    return {lhs.over * rhs.under + sign * rhs.over * lhs.under,
            lhs.under * rhs.under};
  }
  default:
    return {read(expr), 1};
  }
}

} // namespace meshc::fuzz

#endif
