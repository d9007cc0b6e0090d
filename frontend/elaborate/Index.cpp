// x[d = e else v]: which element of a tensor is read where.

#include "frontend/elaborate/Digits.h"
#include "frontend/elaborate/Elaborator.h"
#include "frontend/elaborate/Position.h"

#include <algorithm>

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::frontend;
using ast::ExprKind;
using ast::Operator;

/// Where one dim is read. A truth or a string is none, and poison says nothing.
struct Elaborator::Index {
  std::variant<Poison, Number, Position, Tensor> place;

  bool isPoison() const { return std::holds_alternative<Poison>(place); }
};

/// What an index does to a tensor at a time: reads of all dims that dims and
/// numbers determine, or a gather along one.
struct Elaborator::IndexStep {
  std::vector<std::pair<Dim, Position>> positions;
  std::optional<Dim> gathered;
  Tensor index;
  Span span, dimSpan; ///< of what is gathered

  bool addsDim(std::string_view name) const {
    if (gathered)
      return index.hasDim(name);
    return std::any_of(
        positions.begin(), positions.end(), [&](const auto &known) {
          const std::vector<Dim> loops = known.second.getLoops();
          return std::any_of(loops.begin(), loops.end(), [&](const Dim &loop) {
            return loop.name == name;
          });
        });
  }
  bool reads(std::string_view name) const {
    if (gathered)
      return gathered->name == name;
    return std::any_of(
        positions.begin(), positions.end(),
        [&](const auto &known) { return known.first.name == name; });
  }
};

std::optional<std::vector<Elaborator::Index>>
Elaborator::toIndices(const Value &value, Span span) {
  if (isPoison(value))
    return std::nullopt;
  std::vector<Index> indices;
  if (const auto *dims = std::get_if<Dims>(&value)) {
    for (const Dim &dim : *dims)
      indices.push_back({Position::of(dim)});
  } else if (const auto *number = std::get_if<Number>(&value)) {
    indices.push_back({*number});
  } else if (const auto *tensor = std::get_if<Tensor>(&value)) {
    indices.push_back({*tensor});
  } else {
    error(Code::IndexNotInteger, span,
          fmt::format("an index is an integer, found {}", describe(value)));
    return std::nullopt;
  }
  return indices;
}

/// floor(n / 2), ceil(n / 2) or size(n).
static const ast::Expr *getOperand(const ast::Expr &expr,
                                   std::string_view function) {
  if (expr.kind != ExprKind::Call)
    return nullptr;
  const auto &call = static_cast<const ast::CallExpr &>(expr);
  return call.callee.text == function && call.arguments.size() == 1 &&
                 !call.arguments[0].arrow && !call.arguments[0].name
             ? call.arguments[0].value.get()
             : nullptr;
}

bool Elaborator::isPlace(const ast::Expr &expr) {
  switch (expr.kind) {
  case ExprKind::Name:
  case ExprKind::Tuple:
    return true;
  case ExprKind::Unary:
    return static_cast<const ast::UnaryExpr &>(expr).op == Operator::Negate;
  case ExprKind::Chain:
    return isArithmetic(static_cast<const ast::ChainExpr &>(expr).ops.front());
  default:
    return getOperand(expr, "floor") || getOperand(expr, "ceil") ||
           getOperand(expr, "size");
  }
}

Value Elaborator::evaluatePlace(const ast::Expr &expr) {
  if (expr.kind == ExprKind::Name) {
    Value value = evaluateName(static_cast<const ast::NameExpr &>(expr));
    if (!std::holds_alternative<Dims>(value))
      return value;
  }
  std::optional<std::vector<Index>> indices = evaluateIndices(expr);
  if (!indices)
    return Poison();
  if (indices->size() == 1)
    return toValue(indices->front(), expr.span, ElementType::I32);
  error(Code::WrongKind, expr.span,
        fmt::format("a list of {} positions stands where one is taken",
                    indices->size()))
      .help("a function is called for each dim, and size(...) is the size");
  return Poison();
}

std::optional<std::vector<Elaborator::Index>>
Elaborator::evaluateIndices(const ast::Expr &expr) {
  switch (expr.kind) {
  case ExprKind::Name:
    return toIndices(evaluateName(static_cast<const ast::NameExpr &>(expr)),
                     expr.span);
  case ExprKind::Tuple: {
    std::vector<Index> all;
    for (const ast::ExprPtr &element :
         static_cast<const ast::TupleExpr &>(expr).elements) {
      std::optional<std::vector<Index>> indices = evaluateIndices(*element);
      if (!indices)
        return std::nullopt;
      all.insert(all.end(), indices->begin(), indices->end());
    }
    return all;
  }
  case ExprKind::Unary: {
    const auto &unary = static_cast<const ast::UnaryExpr &>(expr);
    if (!isPlace(expr))
      break;
    std::optional<std::vector<Index>> indices = evaluateIndices(*unary.operand);
    if (!indices)
      return std::nullopt;
    // 0 - n, in whose errors the operator is the one that was written.
    return combine(Operator::Subtract, {{Number::of(int64_t(0))}}, expr.span,
                   *indices, unary.operand->span);
  }
  case ExprKind::Chain: {
    const auto &chain = static_cast<const ast::ChainExpr &>(expr);
    if (!isPlace(expr))
      break;
    std::optional<std::vector<Index>> indices =
        evaluateIndices(*chain.operands[0]);
    Span span = chain.operands[0]->span;
    for (size_t i = 0; i < chain.ops.size() && indices; ++i) {
      const ast::Expr &operand = *chain.operands[i + 1];
      std::optional<std::vector<Index>> rhs = evaluateIndices(operand);
      if (!rhs)
        return std::nullopt;
      indices = combine(chain.ops[i], *indices, span, *rhs, operand.span);
      span = join(span, operand.span);
    }
    return indices;
  }
  case ExprKind::Call: {
    if (const ast::Expr *dims = getOperand(expr, "size"))
      return getSizes(*dims);
    for (std::string_view name : {"floor", "ceil"})
      if (const ast::Expr *operand = getOperand(expr, name))
        return round(*operand, name == "ceil");
    break;
  }
  default:
    break;
  }
  return toIndices(evaluate(expr), expr.span);
}

bool Elaborator::isArithmetic(Operator op) {
  return op == Operator::Add || op == Operator::Subtract ||
         op == Operator::Multiply || op == Operator::Divide ||
         op == Operator::Remainder;
}

/// The sizes of dims, one for each: of a list where it is in step with others.
std::optional<std::vector<Elaborator::Index>>
Elaborator::getSizes(const ast::Expr &expr) {
  std::optional<Dims> dims = evaluateDims(expr);
  if (!dims)
    return std::nullopt;
  std::vector<Index> sizes;
  for (const Dim &dim : *dims)
    sizes.push_back({Number::of(dim.size)});
  return sizes;
}

std::optional<std::vector<Elaborator::Index>>
Elaborator::round(const ast::Expr &expr, bool isUp) {
  std::optional<std::vector<Index>> indices = evaluateIndices(expr);
  if (!indices)
    return std::nullopt;
  for (Index &index : *indices) {
    if (const auto *position = std::get_if<Position>(&index.place)) {
      index.place = isUp ? ceil(*position) : floor(*position);
    } else if (const auto *number = std::get_if<Number>(&index.place)) {
      std::optional<Number> rounded = roundNumber(*number, isUp, expr.span);
      if (!rounded)
        return std::nullopt;
      index.place = *rounded;
    } else {
      error(Code::WrongKind, expr.span,
            fmt::format("\"{}\" is for numbers and dims; the quotient of "
                        "integer tensors is whole already",
                        isUp ? "ceil" : "floor"));
      return std::nullopt;
    }
  }
  return indices;
}

std::optional<std::vector<Elaborator::Index>>
Elaborator::combine(Operator op, const std::vector<Index> &lhs, Span lhsSpan,
                    const std::vector<Index> &rhs, Span rhsSpan) {
  if (lhs.size() != rhs.size() && lhs.size() != 1 && rhs.size() != 1) {
    error(Code::WrongKind, join(lhsSpan, rhsSpan),
          fmt::format("lists of {} and {} positions do not go in step",
                      lhs.size(), rhs.size()));
    return std::nullopt;
  }
  std::vector<Index> all;
  bool isEmpty = lhs.empty() || rhs.empty();
  for (size_t i = 0; i < std::max(lhs.size(), rhs.size()) && !isEmpty; ++i) {
    Index index = combine(op, lhs[lhs.size() == 1 ? 0 : i], lhsSpan,
                          rhs[rhs.size() == 1 ? 0 : i], rhsSpan);
    if (index.isPoison())
      return std::nullopt;
    all.push_back(std::move(index));
  }
  return all;
}

Elaborator::Index Elaborator::combine(Operator op, const Index &lhs,
                                      Span lhsSpan, const Index &rhs,
                                      Span rhsSpan) {
  const auto *a = std::get_if<Position>(&lhs.place);
  const auto *b = std::get_if<Position>(&rhs.place);
  if (std::holds_alternative<Tensor>(lhs.place) ||
      std::holds_alternative<Tensor>(rhs.place) || (!a && !b)) {
    // Beside a tensor a dim is the tensor of its positions.
    ElementType hint = ElementType::I32;
    for (const Index *side : {&lhs, &rhs})
      if (const auto *tensor = std::get_if<Tensor>(&side->place))
        hint = isForData(tensor->getElementType()) ? ElementType::I32
                                                   : tensor->getElementType();
    Value value = apply(op, toValue(lhs, lhsSpan, hint), lhsSpan,
                        toValue(rhs, rhsSpan, hint), rhsSpan);
    std::optional<std::vector<Index>> indices =
        toIndices(value, join(lhsSpan, rhsSpan));
    return indices ? indices->front() : Index{Poison()};
  }
  PositionError why;
  std::optional<Position> result;
  const auto *m = std::get_if<Number>(&lhs.place);
  const auto *n = std::get_if<Number>(&rhs.place);
  if (n)
    result = compute(op, *a, *n, why);
  else if (m)
    result = compute(op, *m, *b, why);
  else if (op == Operator::Add || op == Operator::Subtract)
    result = add(*a, *b, op == Operator::Subtract, why);
  else
    why = {Code::WrongKind,
           fmt::format("\"{}\" of two dims makes no position",
                       ast::getSpelling(op)),
           "where the size of a dim is meant, write size(dim)"};
  if (result)
    return {*result};
  Diagnostic &reported =
      error(why.code, join(lhsSpan, rhsSpan), std::move(why.message));
  if (!why.help.empty())
    reported.help(std::move(why.help));
  return {Poison()};
}

Value Elaborator::toValue(const Index &index, Span span, ElementType type) {
  if (const auto *number = std::get_if<Number>(&index.place))
    return *number;
  if (const auto *tensor = std::get_if<Tensor>(&index.place))
    return *tensor;
  const auto *position = std::get_if<Position>(&index.place);
  if (!position)
    return Poison();
  if (!checkNumbers(*position, span))
    return Poison();
  if (!position->parts.empty()) {
    error(Code::MixedIndex, span,
          "nested quotients and remainders of dims stand beside a tensor")
        .help("of integer tensors \"/\" is whole: iota(n) / 2");
    return Poison();
  }
  if (position->kind == Position::Kind::Exact && position->divisor != 1) {
    error(Code::MixedIndex, span,
          "a quotient of dims that is not always whole stands beside a tensor")
        .help("floor(n / 2) is whole");
    return Poison();
  }
  return orPoison(
      checked(builder.position(position->getAccess({}), type, getWhere(span))));
}

Value Elaborator::evaluateIndex(const ast::IndexExpr &expr) {
  Tensor x = evaluateTensor(*expr.operand, "what an index reads");
  std::vector<IndexStep> steps;
  IndexStep view;
  // The tensor, where dims are read, and the dims.
  std::vector<Operand> operands{{expr.operand->span, x}}, named;
  bool isValid = bool(x);
  for (const ast::IndexPart &part : expr.parts) {
    Dims dims;
    std::vector<Operand> names;
    for (const ast::Name &name : part.dims) {
      std::optional<Dims> found = lookUpDims(name.text, name.span);
      isValid &= found.has_value();
      if (!found)
        continue;
      dims.insert(dims.end(), found->begin(), found->end());
      names.insert(names.end(), found->size(), Operand{name.span});
    }
    const bool isAround = std::exchange(isInIndex, true);
    std::optional<std::vector<Index>> indices = evaluateIndices(*part.position);
    isInIndex = isAround;
    if (!indices || !isValid)
      return Poison();
    if (indices->size() != dims.size() && indices->size() != 1) {
      error(Code::WrongKind, part.position->span,
            fmt::format("{} dims are read at {} positions", dims.size(),
                        indices->size()));
      return Poison();
    }
    for (size_t i = 0; i < dims.size(); ++i) {
      const Index &index = (*indices)[indices->size() == 1 ? 0 : i];
      if (const auto *given = std::get_if<Tensor>(&index.place)) {
        Tensor tensor = *given;
        if (isForData(tensor.getElementType()))
          tensor = checked(builder.cast(tensor, ElementType::I32,
                                        getWhere(part.position->span)));
        if (!tensor)
          return Poison();
        if (tensor.getElementType() != ElementType::I32 &&
            tensor.getElementType() != ElementType::I64) {
          error(Code::IndexNotInteger, part.position->span,
                fmt::format("an index has integer elements, found {}",
                            getName(tensor.getElementType())));
          return Poison();
        }
        steps.push_back(
            {{}, dims[i], tensor, part.position->span, names[i].span});
        continue;
      }
      std::optional<Position> position = toPosition(index, part.position->span);
      if (!position || !checkNumbers(*position, part.position->span))
        return Poison();
      view.positions.emplace_back(dims[i], *position);
      operands.push_back({part.position->span});
      named.push_back(names[i]);
    }
  }
  if (!isValid)
    return Poison();
  std::optional<Value> otherwise;
  if (expr.otherwise) {
    otherwise = evaluateIn(false, *expr.otherwise);
    if (isPoison(*otherwise))
      return Poison();
    if (!getNumber(*otherwise) && !std::holds_alternative<bool>(*otherwise)) {
      error(Code::WrongKind, expr.otherwise->span,
            fmt::format("what is outside is a number, found {}",
                        describe(*otherwise)))
          .help("where(condition, a, b) chooses between tensors");
      return Poison();
    }
  }
  operands.insert(operands.end(), named.begin(), named.end());
  if (!view.positions.empty())
    steps.insert(steps.begin(), view);
  return readElements(expr, x, std::move(steps), otherwise, operands);
}

bool Elaborator::checkNumbers(const Position &position, Span span) {
  if (position.fitsAccess())
    return true;
  error(Code::NumberOverflow, span,
        "this index has a number that goes beyond 2^31");
  return false;
}

/// A place of dims and numbers as a whole position.
std::optional<Position> Elaborator::toPosition(const Index &index, Span span) {
  if (const auto *position = std::get_if<Position>(&index.place))
    return *position;
  Number number = std::get<Number>(index.place);
  if (std::optional<int64_t> whole = toInteger(number))
    return Position{{}, *whole};
  error(Code::IndexNotInteger, span,
        fmt::format("an index is the number {}, which {}", toString(number),
                    describeNoInteger(number)));
  return std::nullopt;
}

/// `x` with other names for the dims that `step` adds and gathers are still to
/// read, which read them under these names. A view comes before all gathers.
Tensor Elaborator::setApart(Tensor x, const IndexStep &step,
                            std::vector<IndexStep> &steps, const Where &where) {
  for (IndexStep &other : steps)
    if (x && &other != &step && other.gathered &&
        x.hasDim(other.gathered->name) && step.addsDim(other.gathered->name)) {
      const Dim apart = asRead(*other.gathered);
      x = checked(builder.rename(x, {{*other.gathered, apart}}, where));
      other.gathered = apart;
    }
  return x;
}

/// Reads `x` at positions, and sets `inside`, unless null, to where they are
/// there; to null if they all are.
Tensor Elaborator::readPositions(
    Tensor x, const std::vector<std::pair<Dim, Position>> &positions,
    bool isPadded, Tensor *inside, const std::vector<Operand> &operands,
    const Where &where) {
  PositionError why;
  const std::vector<Dim> dims(x.getDims().begin(), x.getDims().end());
  std::optional<DigitReads> digits = readByDigits(dims, positions, why);
  if (!digits) {
    Span span = operands[1].span;
    for (size_t i = 0; i < positions.size(); ++i)
      span = join(span, operands[i + 1].span);
    Diagnostic &reported = error(why.code, span, std::move(why.message));
    if (!why.help.empty())
      reported.help(std::move(why.help));
    return {};
  }
  // What is read beside the positions given stands nowhere.
  std::vector<Operand> spans = operands;
  const size_t numAdded = digits->reads.front().size() - positions.size();
  spans.insert(spans.begin() + 1 + ptrdiff_t(positions.size()), numAdded,
               operands.front());
  spans.insert(spans.end(), numAdded, operands.front());
  Tensor read = checked(builder.view(x, digits->reads.front(),
                                     isPadded || digits->isInside, where),
                        spans);
  if (inside)
    *inside = read ? checked(builder.isInside(digits->reads.front(), where))
                   : Tensor();
  for (size_t i = 1; i < digits->reads.size() && read; ++i) {
    auto take = [&](Tensor from) {
      std::vector<ViewAccess> accesses = digits->reads[i];
      std::erase_if(accesses, [&](const ViewAccess &access) {
        return !from.hasDim(access.dim.name);
      });
      return accesses.empty()
                 ? from
                 : checked(builder.view(from, accesses, false, where));
    };
    read = take(read);
    if (inside && *inside)
      *inside = take(*inside);
  }
  // Digits that are always 0 leave out what they are of.
  std::vector<Dim> repeated;
  for (const auto &[dim, position] : positions)
    for (const Dim &loop : position.getLoops())
      if (read && !read.hasDim(loop.name) &&
          std::find(repeated.begin(), repeated.end(), loop) == repeated.end())
        repeated.push_back(loop);
  return repeated.empty() ? read
                          : checked(builder.broadcast(read, repeated, where));
}

/// Does the steps, each when no dim that it adds is one that another is still
/// to read.
Value Elaborator::readElements(const ast::IndexExpr &expr, Tensor x,
                               std::vector<IndexStep> steps,
                               const std::optional<Value> &otherwise,
                               const std::vector<Operand> &operands) {
  Where where = getWhere(expr.span);
  std::optional<Number> number;
  if (otherwise)
    number = getNumber(*otherwise);
  bool isZero = !otherwise || (number && number->toDouble() == 0);
  Tensor inside;
  auto require = [&](Tensor condition) {
    inside = inside && condition
                 ? checked(builder.andOf(inside, condition, where))
             : condition ? condition
                         : inside;
  };
  while (!steps.empty()) {
    auto ready =
        std::find_if(steps.begin(), steps.end(), [&](const IndexStep &step) {
          return std::none_of(
              steps.begin(), steps.end(), [&](const IndexStep &other) {
                return &other != &step &&
                       std::any_of(x.getDims().begin(), x.getDims().end(),
                                   [&](const Dim &dim) {
                                     return other.reads(dim.name) &&
                                            step.addsDim(dim.name);
                                   });
              });
        });
    if (ready == steps.end()) {
      ready = steps.begin();
      x = setApart(x, *ready, steps, where);
      if (!x)
        return Poison();
    }
    IndexStep step = std::move(*ready);
    steps.erase(ready);
    if (step.gathered) {
      if (!isZero)
        require(checked(builder.isInside(step.index, *step.gathered, where)));
      x = checked(
          builder.gather(x, step.index, *step.gathered, where,
                         otherwise.has_value()),
          {{expr.operand->span, x}, {step.span, step.index}, {step.dimSpan}});
    } else {
      Tensor isThere;
      x = readPositions(x, step.positions, otherwise.has_value(),
                        isZero ? nullptr : &isThere, operands, where);
      require(isThere);
    }
    if (!x)
      return Poison();
  }
  if (!inside)
    return x;
  Tensor outside =
      toTensor(*otherwise, expr.otherwise->span, x.getElementType());
  return orPoison(outside ? checked(builder.select(inside, x, outside, where))
                          : Tensor());
}
