// The elements of expressions.

#include "tests/fuzz/Evaluator.h"
#include "tests/fuzz/Position.h"
#include "tests/fuzz/RandomBits.h"

using namespace meshc::fuzz;

Scalar Evaluator::at(const Expr &expr, Point &point) {
  switch (expr.kind) {
  case ExprKind::Number:
    return {expr.number, -1};
  case ExprKind::Name: {
    const Value &value = values.at(expr.name);
    return value.elements[getOffset(value.dims, point)];
  }
  case ExprKind::Iota:
    return {double(point[size_t(expr.dims[0])]), -1};
  case ExprKind::Operator:
    return atOperator(expr, point);
  case ExprKind::Call:
    return atCall(expr, point);
  case ExprKind::Reduce:
  case ExprKind::Einsum:
    return atReduce(expr, point);
  case ExprKind::Index:
    return atIndex(expr, point);
  case ExprKind::Random:
    return atRandom(expr, point);
  case ExprKind::Rename: {
    Point renamed = point;
    renamed[size_t(expr.dims[0])] = point[size_t(expr.targets[0])];
    return at(expr.operands[0], renamed);
  }
  case ExprKind::Broadcast:
    return at(expr.operands[0], point);
  case ExprKind::Gather: {
    const auto place = int64_t(at(expr.operands[1], point).value);
    if (place < 0 || place >= size(expr.dims[0]))
      return {0, -1};
    Point read = point;
    read[size_t(expr.dims[0])] = place;
    return at(expr.operands[0], read);
  }
  case ExprKind::Layer:
    return atLayer(expr, point);
  case ExprKind::Position:
  case ExprKind::Size:
  case ExprKind::Tuple:
  case ExprKind::Function:
    break;
  }
  __builtin_unreachable();
}

/// Every position is computed at the point of the result.
Scalar Evaluator::atIndex(const Expr &expr, Point &point) {
  Point read = point;
  for (const Part &part : expr.parts)
    for (size_t i = 0; i < part.dims.size(); ++i) {
      Fraction place = evaluatePosition(
          tree, part.position, i, point,
          [&](const Expr &tensor) { return int64_t(at(tensor, point).value); });
      if (!place.isWhole() || place.get() < 0 ||
          place.get() >= size(part.dims[i]))
        return {expr.otherwise.value_or(0), -1};
      read[size_t(part.dims[i])] = place.get();
    }
  return at(expr.operands[0], read);
}

void Evaluator::decide(Scalar x, Scalar y) {
  if (x.node == y.node && (x.node >= 0 || x.value == y.value))
    return;
  // Infinities are told from anything.
  if (std::isinf(x.value) || std::isinf(y.value))
    return;
  if (std::fabs(x.value - y.value) < margin * std::max(1.0, std::fabs(x.value)))
    note("a decision hangs on rounding");
}

Scalar Evaluator::atOperator(const Expr &expr, Point &point) {
  const std::string &op = expr.name;
  const Scalar x = at(expr.operands[0], point);
  if (expr.operands.size() == 1)
    return op == "not" ? Scalar{double(x.value == 0), -1}
                       : tape.unary(-x.value, x, -1);
  const Scalar y = at(expr.operands[1], point);
  const bool isFloat = expr.operands[0].type.element == Element::F32 &&
                       expr.operands[1].type.element == Element::F32;
  if (op == "+")
    return tape.add(x, y);
  if (op == "-")
    return tape.sub(x, y);
  if (op == "*")
    return tape.mul(x, y);
  if (op == "/")
    return tape.div(x, y);
  if (op == "^")
    return tape.unary(std::pow(x.value, y.value), x,
                      y.value * std::pow(x.value, y.value - 1));
  auto truth = [](bool holds) { return Scalar{double(holds), -1}; };
  if (op == "and")
    return truth(x.value != 0 && y.value != 0);
  if (op == "or")
    return truth(x.value != 0 || y.value != 0);
  if (isFloat)
    decide(x, y);
  return truth(op == "<"    ? x.value < y.value
               : op == "<=" ? x.value <= y.value
               : op == ">"  ? x.value > y.value
               : op == ">=" ? x.value >= y.value
               : op == "==" ? x.value == y.value
                            : x.value != y.value);
}

/// erf'(x) = 2 / sqrt(pi) exp(-x^2)
static double slopeOfErf(double x) {
  return 2 / std::sqrt(M_PI) * std::exp(-x * x);
}

Scalar Evaluator::atCall(const Expr &expr, Point &point) {
  const std::string &name = expr.name;
  const Scalar x = at(expr.operands[0], point);
  const double v = x.value;
  if (name == "where")
    return at(expr.operands[v != 0 ? 1 : 2], point);
  if (name == "maximum" || name == "minimum") {
    const Scalar y = at(expr.operands[1], point);
    if (expr.type.element == Element::F32)
      decide(x, y);
    return (v > y.value) == (name == "maximum") ? x : y;
  }
  if (name == "f32" || name == "i32")
    return x;
  if (name == "stop_gradient")
    return {v, -1};
  if (name == "abs") {
    if (expr.type.element == Element::F32)
      decide(x, {0, -1});
    return tape.unary(std::fabs(v), x, v > 0 ? 1 : -1);
  }
  if (name == "relu") {
    decide(x, {0, -1});
    return v > 0 ? x : Scalar{0, -1};
  }
  if (name == "exp")
    return tape.exp(x);
  if (name == "log")
    return tape.log(x);
  if (name == "tanh") {
    const double t = tape.round(std::tanh(v));
    return tape.unary(t, x, 1 - t * t);
  }
  if (name == "logistic" || name == "silu") {
    const double s = tape.round(1 / (1 + std::exp(-v)));
    return name == "silu" ? tape.unary(v * s, x, s + v * s * (1 - s))
                          : tape.unary(s, x, s * (1 - s));
  }
  if (name == "sqrt")
    return tape.unary(std::sqrt(v), x, 0.5 / std::sqrt(v));
  if (name == "rsqrt")
    return tape.unary(1 / std::sqrt(v), x, -0.5 / (v * std::sqrt(v)));
  if (name == "sin")
    return tape.unary(std::sin(v), x, std::cos(v));
  if (name == "cos")
    return tape.unary(std::cos(v), x, -std::sin(v));
  if (name == "erf_inv") {
    const double y = invertErf(v);
    return tape.unary(y, x, 1 / slopeOfErf(y));
  }
  if (name == "erf")
    return tape.unary(std::erf(v), x, slopeOfErf(v));
  // Constants of the library are f32 in the program.
  if (name == "gelu") {
    const double scale = double(float(std::sqrt(0.5)));
    return tape.unary(0.5 * v * (1 + std::erf(v * scale)), x,
                      0.5 * (1 + std::erf(v * scale)) +
                          0.5 * v * slopeOfErf(v * scale) * scale);
  }
  if (name == "gelu_tanh") {
    const double scale = double(float(0.7978845608028654)),
                 cubic = double(float(0.044715));
    const double inner = scale * (v + cubic * v * v * v);
    const double t = tape.round(std::tanh(inner));
    return tape.unary(0.5 * v * (1 + t), x,
                      0.5 * (1 + t) + 0.5 * v * (1 - t * t) * scale *
                                          (1 + 3 * cubic * v * v));
  }
  note("an unknown function");
  return x;
}

Scalar Evaluator::findExtreme(const std::vector<Scalar> &candidates,
                              bool isMaximum, size_t &place) {
  place = 0;
  for (size_t i = 1; i < candidates.size(); ++i)
    if (isMaximum ? candidates[i].value > candidates[place].value
                  : candidates[i].value < candidates[place].value)
      place = i;
  return candidates[place];
}

Scalar Evaluator::softmax(const Expr &x, const Dims &over, Point point,
                          bool takesLog) {
  const Scalar own = at(x, point);
  double highest = -HUGE_VAL;
  forEach(over, point,
          [&] { highest = std::max(highest, at(x, point).value); });
  const Scalar base{highest, -1};
  const Scalar total =
      sum(over, point, [&] { return tape.exp(tape.sub(at(x, point), base)); });
  const Scalar centred = tape.sub(own, base);
  return takesLog ? tape.sub(centred, tape.log(total))
                  : tape.div(tape.exp(centred), total);
}

Scalar Evaluator::atReduce(const Expr &expr, Point &point) {
  const std::string &name = expr.name;
  const Expr &x = expr.operands[0];
  if (expr.kind == ExprKind::Einsum)
    return sum(expr.dims, point, [&] {
      Scalar product{1, -1};
      for (const Expr &operand : expr.operands)
        product = tape.mul(product, at(operand, point));
      return product;
    });
  if (name == "softmax" || name == "log_softmax")
    return softmax(x, expr.dims, point, name == "log_softmax");
  if (name == "cross_entropy") {
    Point labelled = point;
    const auto label = int64_t(at(expr.operands[1], point).value);
    double highest = -HUGE_VAL;
    forEach(expr.dims, point,
            [&] { highest = std::max(highest, at(x, point).value); });
    const Scalar base{highest, -1};
    const Scalar total = sum(expr.dims, point, [&] {
      return tape.exp(tape.sub(at(x, point), base));
    });
    Scalar chosen{0, -1};
    labelled[size_t(expr.dims[0])] = label;
    if (label >= 0 && label < size(expr.dims[0]))
      chosen = at(x, labelled);
    return tape.add(tape.log(total), tape.sub(base, chosen));
  }
  if (name == "sum")
    return sum(expr.dims, point, [&] { return at(x, point); });
  if (name == "mean")
    return tape.mean(sum(expr.dims, point, [&] { return at(x, point); }),
                     countElements(tree, expr.dims));
  if (name == "norm") {
    const Scalar squares = sum(expr.dims, point, [&] {
      const Scalar element = at(x, point);
      return tape.mul(element, element);
    });
    decide(squares, {0, -1});
    const double root = std::sqrt(squares.value);
    return squares.value > 0 ? tape.unary(root, squares, 0.5 / root)
                             : Scalar{0, -1};
  }
  std::vector<Scalar> candidates;
  forEach(expr.dims, point, [&] { candidates.push_back(at(x, point)); });
  size_t place;
  const bool isMaximum = name == "max" || name == "argmax";
  const Scalar extreme = findExtreme(candidates, isMaximum, place);
  if (x.type.element == Element::F32)
    for (const Scalar &candidate : candidates)
      decide(extreme, candidate);
  if (name == "max" || name == "min")
    return extreme;
  return {double(place), -1};
}
