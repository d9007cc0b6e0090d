// Indexes: their forms, and what they read.

#include "tests/fuzz/Check.h"
#include "tests/fuzz/Position.h"

#include <set>

using namespace meshc::fuzz;

/// Collects the dims of a position and checks what stands in it.
bool Checker::checkPosition(Expr &expr, size_t component, Dims &dims,
                            bool &hasTensor) {
  switch (expr.kind) {
  case ExprKind::Number:
    return expr.number == double(int64_t(expr.number)) || fail("a fraction");
  case ExprKind::Position:
    dims = unite(dims, expr.dims);
    return true;
  case ExprKind::Size:
    return true;
  case ExprKind::Tuple:
    if (component >= expr.operands.size() && expr.operands.size() != 1)
      return fail("lists of different lengths");
    return checkPosition(
        expr.operands[expr.operands.size() == 1 ? 0 : component], component,
        dims, hasTensor);
  case ExprKind::Call:
    if (expr.name == "floor")
      return checkPosition(expr.operands[0], component, dims, hasTensor);
    break;
  case ExprKind::Operator: {
    bool isTensor = false;
    for (Expr &operand : expr.operands)
      if (!checkPosition(operand, component, dims, isTensor))
        return false;
    hasTensor |= isTensor;
    const bool isQuotient = expr.name == "/" || expr.name == "%";
    if (isQuotient && isTensor)
      return fail("a quotient of tensors");
    if (expr.operands.size() == 2 && expr.operands[1].number == 0 &&
        expr.operands[1].kind == ExprKind::Number && isQuotient)
      return fail("by 0");
    if (expr.name == "*")
      for (const Expr &operand : expr.operands)
        if (operand.kind == ExprKind::Number && operand.number == 0)
          return fail("times 0");
    return true;
  }
  default:
    break;
  }
  if (!check(expr))
    return false;
  hasTensor = true;
  dims = unite(dims, expr.type.dims);
  return expr.type.element == Element::I32 || fail("an index of floats");
}

/// Calls `visit` with every point of `dims`.
template <class Visit>
static void forEachPoint(const Tree &tree, const Dims &dims,
                         std::vector<int64_t> &point, size_t depth,
                         Visit &&visit) {
  if (depth == dims.size())
    return visit();
  int64_t &position = point[size_t(dims[depth])];
  for (position = 0; position < tree.dims[size_t(dims[depth])].size; ++position)
    forEachPoint(tree, dims, point, depth + 1, visit);
}

/// What is outside needs an `else`; a window of several dims that is outside
/// wherever it lies is illegal, and so is an index that reads nothing.
bool Checker::checkWhere(const Expr &index) {
  for (const Part &part : index.parts)
    for (size_t i = 0; i < part.dims.size(); ++i) {
      Dims dims;
      bool hasTensor = false;
      Expr position = part.position;
      if (!checkPosition(position, i, dims, hasTensor))
        return false;
      if (hasTensor)
        continue;
      std::set<std::pair<DimId, int64_t>> seen;
      bool misses = false, reads = false;
      std::vector<int64_t> point(tree->dims.size(), 0);
      forEachPoint(*tree, dims, point, 0, [&] {
        Fraction place = evaluatePosition(*tree, position, i, point,
                                          [](const Expr &) { return 0; });
        if (!place.isWhole() || place.get() < 0 ||
            place.get() >= size(part.dims[i])) {
          misses = true;
          return;
        }
        reads = true;
        for (DimId dim : dims)
          seen.insert({dim, point[size_t(dim)]});
      });
      if (misses && !index.otherwise)
        return fail("outside without else");
      if (!reads)
        return fail("nothing is read");
      if (dims.size() < 2)
        continue;
      for (DimId dim : dims)
        for (int64_t at = 0; at < size(dim); ++at)
          if (!seen.contains({dim, at}))
            return fail("outside wherever the window lies");
    }
  return true;
}

bool Checker::checkIndex(Expr &expr) {
  Expr &x = expr.operands[0];
  if (!check(x))
    return false;
  Dims read, added;
  for (Part &part : expr.parts) {
    const size_t components = countComponents(part.position);
    if (components != part.dims.size() && components != 1)
      return fail("lists of different lengths");
    for (size_t i = 0; i < part.dims.size(); ++i) {
      const DimId dim = part.dims[i];
      if (!x.type.has(dim) ||
          std::find(read.begin(), read.end(), dim) != read.end())
        return fail("an index of a dim that is not there");
      read.push_back(dim);
      bool hasTensor = false;
      if (!checkPosition(part.position, i, added, hasTensor))
        return false;
    }
  }
  if (expr.otherwise && x.type.element == Element::Bool)
    return fail("else of a truth");
  if (expr.otherwise && x.type.element == Element::I32 &&
      *expr.otherwise != double(int64_t(*expr.otherwise)))
    return fail("else of a fraction");
  expr.type = {x.type.element, unite(without(x.type.dims, read), added)};
  return checkWhere(expr);
}
