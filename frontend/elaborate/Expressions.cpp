// Operators and what values can stand for.

#include "frontend/elaborate/Elaborator.h"

#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace meshc;
using namespace meshc::frontend;
using ast::ExprKind;
using ast::Operator;

/// Nested evaluations, through calls too: what the stack holds several times
/// over, sanitizers included.
static constexpr int maxDepth = 1000;

bool Elaborator::beginEvaluation(Span span) {
  if (!countStep(span))
    return false;
  if (++depth <= maxDepth)
    return true;
  --depth;
  error(Code::ProgramTooLarge, span,
        fmt::format("expressions and calls are nested more than {} deep",
                    maxDepth));
  aborted = true;
  return false;
}

Value Elaborator::evaluate(const ast::Expr &expr) {
  if (!beginEvaluation(expr.span))
    return Poison();
  Value value = evaluateKind(expr);
  --depth;
  return value;
}

std::optional<Elaborator::Values>
Elaborator::evaluateAll(const ast::Expr &expr) {
  if (expr.kind != ExprKind::Call) {
    Value value = evaluate(expr);
    return isPoison(value) ? std::nullopt : std::optional(Values{value});
  }
  if (!beginEvaluation(expr.span))
    return std::nullopt;
  std::optional<Values> values =
      evaluateCall(static_cast<const ast::CallExpr &>(expr));
  --depth;
  return values;
}

Value Elaborator::evaluateIn(bool isIndex, const ast::Expr &expr) {
  const bool isAround = std::exchange(isInIndex, isIndex);
  Value value = evaluate(expr);
  isInIndex = isAround;
  return value;
}

Value Elaborator::evaluateKind(const ast::Expr &expr) {
  if (isInIndex && isPlace(expr))
    return evaluatePlace(expr);
  switch (expr.kind) {
  case ExprKind::Integer:
    return Number::of(static_cast<const ast::IntegerExpr &>(expr).value);
  case ExprKind::Float:
    return Number::of(static_cast<const ast::FloatExpr &>(expr).value);
  case ExprKind::String:
    error(Code::WrongKind, expr.span,
          "a string is not a value; strings name files in \"import\" and "
          "\"data\"");
    return Poison();
  case ExprKind::Name:
    return evaluateName(static_cast<const ast::NameExpr &>(expr));
  case ExprKind::Tuple: {
    std::optional<Dims> dims = evaluateDims(expr);
    return dims ? Value(*dims) : Value(Poison());
  }
  case ExprKind::Unary:
    return evaluateUnary(static_cast<const ast::UnaryExpr &>(expr));
  case ExprKind::Chain:
    return evaluateChain(static_cast<const ast::ChainExpr &>(expr));
  case ExprKind::Call: {
    const auto &call = static_cast<const ast::CallExpr &>(expr);
    std::optional<Values> values = evaluateCall(call);
    if (values && values->size() == 1)
      return std::move(values->front());
    if (values)
      reportSeveral(call, values->size());
    return Poison();
  }
  case ExprKind::Index:
    return evaluateIndex(static_cast<const ast::IndexExpr &>(expr));
  }
  __builtin_unreachable();
}

//===----------------------------------------------------------------------===//
// Numbers and tensors
//===----------------------------------------------------------------------===//

std::optional<Number> Elaborator::getNumber(const Value &value) {
  if (const auto *number = std::get_if<Number>(&value))
    return *number;
  const auto *dims = std::get_if<Dims>(&value);
  if (!dims)
    return std::nullopt;
  Number product = Number::of(int64_t(1));
  std::string why;
  for (const Dim &dim : *dims) {
    std::optional<Number> next =
        compute(Operator::Multiply, product, Number::of(dim.size), why);
    if (!next)
      return std::nullopt;
    product = *next;
  }
  return product;
}

std::optional<Number> Elaborator::evaluateNumber(const ast::Expr &expr,
                                                 std::string_view what) {
  Value value = evaluate(expr);
  std::optional<Number> number = getNumber(value);
  if (!number && !isPoison(value))
    error(Code::WrongKind, expr.span,
          fmt::format("{} is a number, found {}", what, describe(value)));
  return number;
}

ElementType Elaborator::getOperandType(Tensor tensor) {
  const ElementType type = tensor.getElementType();
  return isForData(type) ? ElementType::F64 : type;
}

Tensor Elaborator::toTensor(const Value &value, Span span, ElementType hint) {
  if (const auto *tensor = std::get_if<Tensor>(&value))
    return *tensor;
  if (const auto *truth = std::get_if<bool>(&value))
    return checked(
        builder.constant(int64_t(*truth), ElementType::Bool, getWhere(span)));
  if (std::optional<Number> number = getNumber(value)) {
    const Where where = getWhere(span);
    if (updated && isFloat(hint) && number->isSettable())
      return checked(toSetting(*number, hint, where));
    const runtime::Number plain = number->get();
    return checked(plain.isInteger
                       ? builder.constant(plain.integer, hint, where)
                       : builder.constant(plain.real, hint, where));
  }
  if (!isPoison(value))
    error(Code::WrongKind, span,
          fmt::format("expected a tensor or a number, found {}",
                      describe(value)));
  return {};
}

Tensor Elaborator::evaluateTensor(const ast::Expr &expr,
                                  std::string_view what) {
  Value value = evaluate(expr);
  if (const auto *tensor = std::get_if<Tensor>(&value))
    return *tensor;
  if (!isPoison(value))
    error(Code::WrongKind, expr.span,
          fmt::format("{} is a tensor, found {}", what, describe(value)));
  return {};
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

Value Elaborator::evaluateUnary(const ast::UnaryExpr &expr) {
  Value value = evaluate(*expr.operand);
  if (isPoison(value))
    return value;
  Where where = getWhere(expr.span);
  std::vector<Operand> operands{{expr.operand->span}};
  if (const auto *tensor = std::get_if<Tensor>(&value))
    return orPoison(checked(expr.op == Operator::Not
                                ? builder.notOf(*tensor, where)
                                : builder.neg(*tensor, where),
                            operands));
  std::optional<Number> number = getNumber(value);
  const auto *truth = std::get_if<bool>(&value);
  if (expr.op == Operator::Not && truth)
    return !*truth;
  if (expr.op == Operator::Negate && number) {
    std::string why;
    std::optional<Number> result = negate(*number, why);
    if (result)
      return *result;
    error(Code::NumberOverflow, expr.span, why);
    return Poison();
  }
  error(Code::WrongKind, expr.operand->span,
        fmt::format("\"{}\" does not apply to {}", getSpelling(expr.op),
                    describe(value)));
  return Poison();
}

Value Elaborator::evaluateChain(const ast::ChainExpr &chain) {
  if (chain.ops.front() == Operator::Power) {
    // Powers group to the right.
    std::vector<Value> values;
    for (const ast::ExprPtr &operand : chain.operands)
      values.push_back(evaluate(*operand));
    Value value = std::move(values.back());
    Span span = chain.operands.back()->span;
    for (size_t i = values.size() - 1; i-- > 0;) {
      Span base = chain.operands[i]->span;
      value = apply(Operator::Power, values[i], base, value, span);
      span = join(base, span);
    }
    return value;
  }
  Value value = evaluate(*chain.operands[0]);
  Span span = chain.operands[0]->span;
  for (size_t i = 0; i < chain.ops.size(); ++i) {
    const ast::Expr &operand = *chain.operands[i + 1];
    value = apply(chain.ops[i], value, span, evaluate(operand), operand.span);
    span = join(span, operand.span);
  }
  return value;
}

static std::optional<Comparison> getComparison(Operator op) {
  switch (op) {
  case Operator::Equal:
    return Comparison::Eq;
  case Operator::NotEqual:
    return Comparison::Ne;
  case Operator::Less:
    return Comparison::Lt;
  case Operator::LessEqual:
    return Comparison::Le;
  case Operator::Greater:
    return Comparison::Gt;
  case Operator::GreaterEqual:
    return Comparison::Ge;
  default:
    return std::nullopt;
  }
}

/// Whether numbers of `type` are as they were with `number` on the right, or
/// the left. The dialect would fold it as well, and the name of the result with
/// it.
static bool isNeutral(Operator op, ElementType type, const Number &number,
                      bool isRight) {
  if (isForData(type) || type == ElementType::Bool)
    return false; // which compute nothing, and say so
  if (number.isSettable())
    return false; // it may be another one
  switch (op) {
  case Operator::Add:
    return number.toDouble() == 0;
  case Operator::Subtract:
    return isRight && number.toDouble() == 0;
  case Operator::Multiply:
    return number.toDouble() == 1;
  case Operator::Divide:
    return isRight && number.toDouble() == 1;
  default:
    return false;
  }
}

Value Elaborator::apply(Operator op, const Value &lhs, Span lhsSpan,
                        const Value &rhs, Span rhsSpan) {
  if (isPoison(lhs) || isPoison(rhs))
    return Poison();
  Span span = join(lhsSpan, rhsSpan);
  const auto *left = std::get_if<Tensor>(&lhs);
  const auto *right = std::get_if<Tensor>(&rhs);
  if (!left && !right) {
    std::optional<Number> a = getNumber(lhs), b = getNumber(rhs);
    if (a && b)
      return applyToNumbers(op, *a, *b, span);
    const auto *p = std::get_if<bool>(&lhs), *q = std::get_if<bool>(&rhs);
    if (p && q)
      return applyToTruths(op, *p, *q, span);
    error(Code::WrongKind, span,
          fmt::format("\"{}\" does not apply to {} and {}", getSpelling(op),
                      describe(lhs), describe(rhs)));
    return Poison();
  }
  if (op == Operator::Remainder) {
    error(Code::WrongKind, span, "\"%\" applies to numbers, not to tensors");
    return Poison();
  }
  // x ^ 2 is x * x: exact, and cheap to differentiate.
  std::optional<Number> number = getNumber(left ? rhs : lhs);
  if (op == Operator::Power && left && number && number->toDouble() == 2)
    return orPoison(checked(builder.mul(*left, *left, getWhere(span)),
                            {{lhsSpan, *left}, {lhsSpan, *left}}));
  const Tensor beside = left ? *left : *right;
  if (number && isNeutral(op, beside.getElementType(), *number, left))
    return beside;
  ElementType hint =
      getComparison(op) ? beside.getElementType() : getOperandType(beside);
  Tensor a = toTensor(lhs, lhsSpan, hint), b = toTensor(rhs, rhsSpan, hint);
  Tensor result = checked(applyToTensors(op, a, b, getWhere(span)),
                          {{lhsSpan, a}, {rhsSpan, b}});
  noteOuter(getSpelling(op), result, span, {lhsSpan, a}, {rhsSpan, b});
  return orPoison(result);
}

/// The dims of `x` that `other` lacks.
static Dims getOwnDims(Tensor x, Tensor other) {
  Dims own;
  for (const Dim &dim : x.getDims())
    if (!other.hasDim(dim.name))
      own.push_back(dim);
  return own;
}

void Elaborator::noteOuter(std::string_view what, const Tensor &result,
                           Span span, const Operand &lhs, const Operand &rhs) {
  // Comparisons make masks, integers count positions.
  if (!result || !lhs.value || !rhs.value ||
      (result.getElementType() != ElementType::F32 &&
       result.getElementType() != ElementType::F64))
    return;
  Dims left = getOwnDims(lhs.value, rhs.value),
       right = getOwnDims(rhs.value, lhs.value);
  if (left.empty() || right.empty())
    return;
  // Tables of positions and parameters are made so: angles, two embeddings.
  Origin least = builder.getOrigin(lhs.value),
         most = builder.getOrigin(rhs.value);
  if (std::min(least, most) == Origin::Numbers ||
      std::max(least, most) != Origin::Inputs)
    return;
  // A weight for each of a layer's outputs, times what is fed: a * w + b.
  if (what == "*" && std::min(least, most) == Origin::Parameters)
    return;
  auto print = [](Tensor x) {
    return toString(x.getElementType(), x.getDims());
  };
  auto list = [](const Dims &dims) {
    std::vector<std::string> names;
    for (const Dim &dim : dims)
      names.push_back(dim.name);
    return fmt::format("{}", fmt::join(names, ", "));
  };
  Diagnostic &note = diagnostics.notify(
      Level::Note, Code::OuterResult, getUserSpan(span),
      fmt::format("\"{}\" of {} and {} is {}: all pairs of positions", what,
                  print(lhs.value), print(rhs.value), print(result)));
  if (left.size() == 1 && right.size() == 1 &&
      left.front().size == right.front().size)
    note.help(fmt::format("where they are one dimension, write rename(..., {} "
                          "-> {}) around the second",
                          list(right), list(left)));
  note.help(fmt::format("where pairs are meant, broadcast(..., {}) around the "
                        "first says so",
                        list(right)));
  addCalls(note, span);
}

Value Elaborator::applyToNumbers(Operator op, const Number &lhs,
                                 const Number &rhs, Span span) {
  if (std::optional<Comparison> comparison = getComparison(op))
    return compare(*comparison, lhs, rhs);
  if (op == Operator::And || op == Operator::Or) {
    error(Code::WrongKind, span,
          fmt::format("\"{}\" does not apply to numbers", getSpelling(op)));
    return Poison();
  }
  std::string why;
  std::optional<Number> result = compute(op, lhs, rhs, why);
  if (result)
    return *result;
  error(Code::NumberOverflow, span,
        fmt::format("{} {} {}: {}", toString(lhs), getSpelling(op),
                    toString(rhs), why));
  return Poison();
}

Value Elaborator::applyToTruths(Operator op, bool lhs, bool rhs, Span span) {
  if (op == Operator::And)
    return lhs && rhs;
  if (op == Operator::Or)
    return lhs || rhs;
  if (op == Operator::Equal)
    return lhs == rhs;
  if (op == Operator::NotEqual)
    return lhs != rhs;
  error(Code::WrongKind, span,
        fmt::format("\"{}\" does not apply to truth values", getSpelling(op)));
  return Poison();
}

Tensor Elaborator::applyToTensors(Operator op, Tensor lhs, Tensor rhs,
                                  const Where &where) {
  if (std::optional<Comparison> comparison = getComparison(op))
    return builder.compare(*comparison, lhs, rhs, where);
  switch (op) {
  case Operator::Or:
    return builder.orOf(lhs, rhs, where);
  case Operator::And:
    return builder.andOf(lhs, rhs, where);
  case Operator::Add:
    return builder.add(lhs, rhs, where);
  case Operator::Subtract:
    return builder.sub(lhs, rhs, where);
  case Operator::Multiply:
    return builder.mul(lhs, rhs, where);
  case Operator::Divide:
    return builder.div(lhs, rhs, where);
  case Operator::Power:
    return builder.pow(lhs, rhs, where);
  default:
    break; // comparisons above; % is refused before; not and - are unary
  }
  __builtin_unreachable();
}
