// The built-in functions: one table, one method for each form of call.

#include "frontend/elaborate/Builtins.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::frontend;

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

namespace {

using UnaryMethod = Tensor (Builder::*)(Tensor, const Where &);

/// An elementwise function of one operand; `onNumbers` says of a number what it
/// is, or nothing if the function is for tensors only.
struct UnaryFunction {
  std::string_view name;
  UnaryMethod method;
  std::optional<double> (*onNumbers)(double);
};

constexpr UnaryFunction unaryFunctions[] = {
#define MESHC_NO_NUMBER std::nullopt
#define MESHC_FUNCTION(NAME, OP, ELEMENTS, OF_NUMBER)                          \
  {#NAME, &Builder::NAME,                                                      \
   []([[maybe_unused]] double x) -> std::optional<double> {                    \
     return OF_NUMBER;                                                         \
   }},
#include "frontend/Elementwise.def"
#undef MESHC_NO_NUMBER
};

constexpr std::pair<std::string_view, Reduction> reductions[] = {
    {"max", Reduction::Max},
    {"mean", Reduction::Mean},
    {"min", Reduction::Min},
    {"sum", Reduction::Sum},
};

constexpr std::pair<std::string_view, ElementType> casts[] = {
    {"bool", ElementType::Bool}, {"f32", ElementType::F32},
    {"f64", ElementType::F64},   {"i32", ElementType::I32},
    {"i64", ElementType::I64},   {"i8", ElementType::I8},
    {"i16", ElementType::I16},   {"u8", ElementType::U8},
};

} // namespace

const std::vector<Elaborator::Builtin> &Elaborator::getBuiltins() {
  static const std::vector<Builtin> builtins = [] {
    std::vector<Builtin> all = {
        {"argmax", &Elaborator::callArgReduce, true, {"x", "over"}, 2},
        {"argmin", &Elaborator::callArgReduce, true, {"x", "over"}, 2},
        {"broadcast", &Elaborator::callBroadcast, false},
        {"ceil", &Elaborator::callRounding, true, {"x"}, 1},
        {"count", &Elaborator::callCount, true, {"dims"}, 1, true},
        {"dims", &Elaborator::callDims, true, {"x", "except"}, 1},
        {"einsum", &Elaborator::callEinsum, false},
        {"floor", &Elaborator::callRounding, true, {"x"}, 1},
        {"gather", &Elaborator::callGather, true, {"x", "index", "over"}, 3},
        {"iota", &Elaborator::callIota, true, {"dim"}, 1},
        {"known", &Elaborator::callKnown, true, {"x"}, 1, true},
        {"largest", &Elaborator::callLargest, true, {"dims", "n"}, 2, true},
        {"maximum", &Elaborator::callExtremum, true, {"a", "b"}, 2},
        {"minimum", &Elaborator::callExtremum, true, {"a", "b"}, 2},
        {"rename", &Elaborator::callRename, false},
        {"reshape", &Elaborator::callReshape, false},
        {"size", &Elaborator::callSize, true, {"dim"}, 1},
        {"where", &Elaborator::callWhere, true, {"condition", "a", "b"}, 3},
    };
    for (const UnaryFunction &unary : unaryFunctions)
      all.push_back(
          {std::string(unary.name), &Elaborator::callUnary, true, {"x"}, 1});
    for (const RandomFunction &random : randomFunctions)
      all.push_back(
          {std::string(random.name),
           &Elaborator::callRandom,
           true,
           {std::string(random.first), std::string(random.second), "dims"},
           0});
    for (const auto &[name, reduction] : reductions)
      all.push_back(
          {std::string(name), &Elaborator::callReduce, true, {"x", "over"}, 1});
    for (const auto &[name, type] : casts)
      all.push_back({std::string(name), &Elaborator::callCast, true, {"x"}, 1});
    return all;
  }();
  return builtins;
}

const Elaborator::Builtin *Elaborator::findBuiltin(std::string_view name) {
  for (const Builtin &builtin : getBuiltins())
    if (builtin.name == name)
      return &builtin;
  return nullptr;
}

/// The row of a table that a call names; getBuiltins makes every such call come
/// from the table itself.
template <typename Row, size_t size>
static const Row &getRow(const Row (&table)[size], std::string_view name) {
  for (const Row &row : table)
    if (std::get<0>(row) == name)
      return row;
  __builtin_unreachable();
}

static const UnaryFunction &getUnary(std::string_view name) {
  return *std::find_if(
      std::begin(unaryFunctions), std::end(unaryFunctions),
      [&](const UnaryFunction &unary) { return unary.name == name; });
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

Value Elaborator::callUnary(const ast::CallExpr &call,
                            const Arguments &arguments) {
  const UnaryFunction &unary = getUnary(call.callee.text);
  const ast::Expr &argument = *arguments[0]->value;
  Value value = evaluate(argument);
  std::optional<Number> number = getNumber(value);
  const std::optional<double> result =
      number ? unary.onNumbers(number->toDouble()) : std::nullopt;
  if (result) {
    if (!std::isnan(*result))
      return Number::of(*result);
    error(Code::NumberOverflow, call.span,
          fmt::format("{}({}) is not a number", unary.name, toString(*number)));
    return Poison();
  }
  Tensor x = toTensor(value, argument.span, ElementType::F32);
  if (!x)
    return Poison();
  return orPoison(checked((builder.*unary.method)(x, getWhere(call.span)),
                          {{argument.span, x}}));
}

Value Elaborator::callExtremum(const ast::CallExpr &call,
                               const Arguments &arguments) {
  const ast::Expr &a = *arguments[0]->value, &b = *arguments[1]->value;
  Value lhs = evaluate(a), rhs = evaluate(b);
  bool isMaximum = call.callee.text == "maximum";
  std::optional<Number> x = getNumber(lhs), y = getNumber(rhs);
  if (x && y) {
    bool isRightLarger = compare(Comparison::Lt, *x, *y);
    return isRightLarger == isMaximum ? *y : *x;
  }
  const auto *left = std::get_if<Tensor>(&lhs);
  const auto *right = std::get_if<Tensor>(&rhs);
  ElementType hint = left    ? getOperandType(*left)
                     : right ? getOperandType(*right)
                             : ElementType::F32;
  Tensor p = toTensor(lhs, a.span, hint), q = toTensor(rhs, b.span, hint);
  Where where = getWhere(call.span);
  Tensor result = checked(isMaximum ? builder.maximum(p, q, where)
                                    : builder.minimum(p, q, where),
                          {{a.span, p}, {b.span, q}});
  noteOuter(call.callee.text, result, call.span, {a.span, p}, {b.span, q});
  return orPoison(result);
}

/// floor and ceil, on numbers: for sizes.
Value Elaborator::callRounding(const ast::CallExpr &call,
                               const Arguments &arguments) {
  std::optional<Number> x =
      evaluateNumber(*arguments[0]->value,
                     fmt::format("the argument of \"{}\"", call.callee.text));
  std::optional<Number> rounded =
      x ? roundNumber(*x, call.callee.text == "ceil", call.span) : std::nullopt;
  return rounded ? Value(*rounded) : Value(Poison());
}

std::optional<Number> Elaborator::roundNumber(const Number &x, bool isUp,
                                              Span span) {
  const runtime::Number number = x.get();
  if (number.isInteger)
    return x;
  double rounded = isUp ? std::ceil(number.real) : std::floor(number.real);
  if (std::abs(rounded) < 0x1p63)
    return Number::of(static_cast<int64_t>(rounded));
  error(Code::NumberOverflow, span,
        fmt::format("{} does not fit 64 bits", rounded));
  return std::nullopt;
}

/// The number of positions of a dim, or of all dims of a list together.
Value Elaborator::callSize(const ast::CallExpr &, const Arguments &arguments) {
  const ast::Expr &operand = *arguments[0]->value;
  std::optional<Dims> dims = evaluateDims(operand);
  if (!dims)
    return Poison();
  if (std::optional<Number> size = getNumber(*dims))
    return *size;
  error(Code::NumberOverflow, operand.span,
        "the sizes of these dims together do not fit 64 bits");
  return Poison();
}

Value Elaborator::callCount(const ast::CallExpr &, const Arguments &arguments) {
  std::optional<Dims> dims = evaluateDims(*arguments[0]->value);
  return dims ? Value(Number::of(int64_t(dims->size()))) : Value(Poison());
}

/// largest(dims, n): the n largest dims of a list, in its order; of dims of one
/// size the first.
Value Elaborator::callLargest(const ast::CallExpr &,
                              const Arguments &arguments) {
  std::optional<Dims> dims = evaluateDims(*arguments[0]->value);
  const ast::Expr &count = *arguments[1]->value;
  std::optional<Number> number = evaluateNumber(count, "a number of dims");
  if (!dims || !number)
    return Poison();
  std::optional<int64_t> wanted = toInteger(*number);
  if (!wanted || *wanted < 0 || *wanted > int64_t(dims->size())) {
    error(Code::InvalidSetting, count.span,
          fmt::format("{} of {} dims", toString(*number), dims->size()));
    return Poison();
  }
  std::vector<size_t> order(dims->size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::ranges::sort(order, {},
                    [&](size_t i) { return std::pair(-(*dims)[i].size, i); });
  order.resize(size_t(*wanted));
  std::ranges::sort(order);
  Dims found;
  for (size_t i : order)
    found.push_back((*dims)[i]);
  return found;
}

/// Whether the compiler knows what a value is: a number, or a truth.
Value Elaborator::callKnown(const ast::CallExpr &, const Arguments &arguments) {
  const Value value = evaluate(*arguments[0]->value);
  if (isPoison(value))
    return Poison();
  return !std::holds_alternative<Tensor>(value);
}

Value Elaborator::callWhere(const ast::CallExpr &call,
                            const Arguments &arguments) {
  const ast::Expr &c = *arguments[0]->value, &a = *arguments[1]->value,
                  &b = *arguments[2]->value;
  Value condition = evaluate(c), whenTrue = evaluate(a),
        whenFalse = evaluate(b);
  if (isPoison(condition) || isPoison(whenTrue) || isPoison(whenFalse))
    return Poison();
  if (const auto *truth = std::get_if<bool>(&condition))
    return *truth ? whenTrue : whenFalse;
  if (!std::holds_alternative<Tensor>(condition)) {
    error(Code::WrongKind, c.span,
          fmt::format("the condition of \"where\" is {}, expected a "
                      "comparison",
                      describe(condition)));
    return Poison();
  }
  const auto *left = std::get_if<Tensor>(&whenTrue);
  const auto *right = std::get_if<Tensor>(&whenFalse);
  ElementType hint = left    ? left->getElementType()
                     : right ? right->getElementType()
                             : ElementType::F32;
  Tensor p = std::get<Tensor>(condition), x = toTensor(whenTrue, a.span, hint),
         y = toTensor(whenFalse, b.span, hint);
  Tensor result = checked(builder.select(p, x, y, getWhere(call.span)),
                          {{c.span, p}, {a.span, x}, {b.span, y}});
  // The condition is a mask, of whatever dims.
  noteOuter("where", result, call.span, {a.span, x}, {b.span, y});
  return orPoison(result);
}

Value Elaborator::callCast(const ast::CallExpr &call,
                           const Arguments &arguments) {
  ElementType type = getRow(casts, call.callee.text).second;
  const ast::Expr &argument = *arguments[0]->value;
  Value value = evaluate(argument);
  if (const auto *tensor = std::get_if<Tensor>(&value))
    return orPoison(checked(builder.cast(*tensor, type, getWhere(call.span)),
                            {{argument.span, *tensor}}));
  if (const auto *truth = std::get_if<bool>(&value))
    value = Number::of(int64_t(*truth));
  return orPoison(toTensor(value, argument.span, type));
}

//===----------------------------------------------------------------------===//
// The set of dimensions
//===----------------------------------------------------------------------===//

/// einsum(a, b -> dims) names the dims that stay, einsum(a, b, over = dims)
/// those that are summed.
Value Elaborator::callEinsum(const ast::CallExpr &call, const Arguments &) {
  std::vector<Tensor> inputs;
  std::vector<Operand> operands, resultOperands;
  Dims result;
  std::optional<Dims> over;
  std::vector<Operand> overSpans;
  bool isResult = false;
  auto addResult = [&](const ast::Expr &expr) {
    std::optional<Dims> dims = evaluateDims(expr, &resultOperands);
    if (dims)
      result.insert(result.end(), dims->begin(), dims->end());
    return dims.has_value();
  };
  auto fail = [&](Span span, std::string message) {
    error(Code::ExpectedToken, span, std::move(message))
        .help("write einsum(a, b -> dims of the result)");
    return Poison();
  };
  bool isValid = true;
  for (const ast::Argument &argument : call.arguments) {
    if (argument.name) {
      if (argument.name->text != "over" || over) {
        error(Code::UnknownArgument, argument.name->span,
              "\"einsum\" takes inputs and one \"over\"");
        return Poison();
      }
      over = evaluateDims(*argument.value, &overSpans);
      isValid &= over.has_value();
      continue;
    }
    if (isResult) {
      if (argument.arrow)
        return fail(*argument.arrow, "a second \"->\" in one einsum");
      isValid &= addResult(*argument.value);
      continue;
    }
    inputs.push_back(evaluateTensor(*argument.value, "an input of einsum"));
    operands.push_back({argument.value->span, inputs.back()});
    isResult = argument.arrow.has_value();
    if (argument.target)
      isValid &= addResult(*argument.target);
  }
  if (isResult == over.has_value() && isValid)
    return fail(call.span,
                "einsum needs either \"-> dims\" or \"over = dims\"");
  if (!isValid ||
      std::find(inputs.begin(), inputs.end(), Tensor()) != inputs.end())
    return Poison();
  if (over) {
    // What is summed must be there.
    for (size_t i = 0; i < over->size(); ++i) {
      const Dim &dim = (*over)[i];
      bool isThere = std::any_of(inputs.begin(), inputs.end(),
                                 [&](Tensor x) { return x.hasDim(dim.name); });
      if (!isThere) {
        error(Code::DimNotInTensor, overSpans[i].span,
              fmt::format("no input of the einsum has dimension \"{}\"",
                          dim.name));
        return Poison();
      }
    }
    for (Tensor input : inputs)
      for (const Dim &dim : input.getDims())
        if (std::find(over->begin(), over->end(), dim) == over->end() &&
            std::find(result.begin(), result.end(), dim) == result.end())
          result.push_back(dim);
  }
  operands.insert(operands.end(), resultOperands.begin(), resultOperands.end());
  return orPoison(
      checked(builder.einsum(inputs, result, getWhere(call.span)), operands));
}

/// rename(x, from -> to, ...): all at once. Names that are given one after
/// another would go through tensors that the program does not have.
Value Elaborator::callRename(const ast::CallExpr &call, const Arguments &) {
  if (call.arguments.size() < 2 || call.arguments[0].arrow ||
      call.arguments[0].name) {
    error(Code::MissingArgument, call.span,
          "rename needs a tensor and the dimensions to rename")
        .help("write rename(x, from -> to)");
    return Poison();
  }
  const ast::Expr &operand = *call.arguments[0].value;
  Tensor x = evaluateTensor(operand, "what is renamed");
  std::vector<Renaming> renamings;
  std::vector<Operand> operands{{operand.span, x}};
  for (size_t i = 1; i < call.arguments.size(); ++i) {
    const ast::Argument &argument = call.arguments[i];
    if (!argument.arrow || !argument.target || argument.name) {
      error(Code::ExpectedToken, argument.value->span,
            "expected \"from -> to\"");
      return Poison();
    }
    std::optional<Dim> from = evaluateDim(*argument.value);
    std::optional<Dim> to = evaluateDim(*argument.target);
    if (!from || !to || !x)
      return Poison();
    renamings.push_back({*from, *to});
    operands.push_back({argument.value->span});
    operands.push_back({argument.target->span});
  }
  return orPoison(
      checked(builder.rename(x, renamings, getWhere(call.span)), operands));
}

Value Elaborator::callBroadcast(const ast::CallExpr &call, const Arguments &) {
  if (call.arguments.size() < 2) {
    error(Code::MissingArgument, call.span,
          "broadcast needs a tensor and the dimensions to add")
        .help("write broadcast(x, dim)");
    return Poison();
  }
  Dims added;
  std::vector<Operand> operands{{call.arguments[0].value->span}};
  Tensor x;
  for (const ast::Argument &argument : call.arguments) {
    if (argument.arrow || argument.name) {
      error(Code::ExpectedToken,
            argument.arrow ? *argument.arrow : argument.name->span,
            "broadcast takes a tensor and dimensions");
      return Poison();
    }
    if (&argument == &call.arguments[0]) {
      Value value = evaluate(*argument.value);
      x = toTensor(value, argument.value->span, ElementType::F32);
      continue;
    }
    std::optional<Dims> dims = evaluateDims(*argument.value, &operands);
    if (!dims)
      return Poison();
    added.insert(added.end(), dims->begin(), dims->end());
  }
  if (!x)
    return Poison();
  operands[0].value = x;
  return orPoison(
      checked(builder.broadcast(x, added, getWhere(call.span)), operands));
}

/// Without `over` the reduction is over all dimensions.
Value Elaborator::callReduce(const ast::CallExpr &call,
                             const Arguments &arguments) {
  Reduction reduction = getRow(reductions, call.callee.text).second;
  const ast::Expr &operand = *arguments[0]->value;
  Tensor x = evaluateTensor(
      operand, fmt::format("what \"{}\" reduces", call.callee.text));
  std::vector<Operand> operands{{operand.span, x}};
  std::optional<Dims> over;
  if (arguments[1]) {
    over = evaluateDims(*arguments[1]->value, &operands);
    if (!over)
      return Poison();
  }
  if (!x)
    return Poison();
  if (!over)
    over = Dims(x.getDims().begin(), x.getDims().end());
  return orPoison(checked(
      builder.reduce(reduction, x, *over, getWhere(call.span)), operands));
}

Value Elaborator::callArgReduce(const ast::CallExpr &call,
                                const Arguments &arguments) {
  const ast::Expr &operand = *arguments[0]->value, &dim = *arguments[1]->value;
  Tensor x = evaluateTensor(
      operand, fmt::format("what \"{}\" searches", call.callee.text));
  std::optional<Dim> over = evaluateDim(dim);
  if (!x || !over)
    return Poison();
  Extreme extreme = call.callee.text == "argmax" ? Extreme::Max : Extreme::Min;
  return orPoison(
      checked(builder.argReduce(extreme, x, *over, getWhere(call.span)),
              {{operand.span, x}, {dim.span}}));
}

Value Elaborator::callGather(const ast::CallExpr &call,
                             const Arguments &arguments) {
  const ast::Expr &operand = *arguments[0]->value,
                  &position = *arguments[1]->value, &dim = *arguments[2]->value;
  Tensor x = evaluateTensor(operand, "what \"gather\" picks from");
  Tensor index = evaluateTensor(position, "the index of \"gather\"");
  std::optional<Dim> over = evaluateDim(dim);
  if (!x || !index || !over)
    return Poison();
  return orPoison(
      checked(builder.gather(x, index, *over, getWhere(call.span)),
              {{operand.span, x}, {position.span, index}, {dim.span}}));
}

Value Elaborator::callIota(const ast::CallExpr &call,
                           const Arguments &arguments) {
  std::optional<Dim> dim = evaluateDim(*arguments[0]->value);
  if (!dim)
    return Poison();
  return orPoison(checked(builder.iota(*dim, getWhere(call.span))));
}
