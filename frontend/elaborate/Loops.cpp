// Loops: which names a block rebinds, and what becomes of them.

#include "frontend/elaborate/Loops.h"
#include "frontend/elaborate/BlockText.h"

#include <algorithm>

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::frontend;
using ast::ExprKind;

//===----------------------------------------------------------------------===//
// Elaboration
//===----------------------------------------------------------------------===//

Builder::LoopValue Elaborator::getLoopValue(const ast::Name &name,
                                            const Value &value,
                                            ElementType hint) {
  return {std::string(name.text), toTensor(value, name.span, hint),
          getWhere(name.span)};
}

/// The element type that numbers beside `value` become.
static ElementType getHint(const Value &value) {
  const auto *tensor = std::get_if<Tensor>(&value);
  return tensor ? tensor->getElementType() : ElementType::F32;
}

/// How often a loop is to run that is written over a number: 12, or what is in
/// range(12), range(0, 12) or size(time). Null if that is not plain.
static const ast::Expr *findCount(const ast::Expr &expr) {
  if (expr.kind == ExprKind::Integer || expr.kind == ExprKind::Float ||
      expr.kind == ExprKind::Unary || expr.kind == ExprKind::Chain)
    return &expr;
  if (expr.kind != ExprKind::Call)
    return nullptr;
  const auto &call = static_cast<const ast::CallExpr &>(expr);
  const std::string_view callee = call.callee.text;
  const bool isRange = callee == "range" || callee == "arange";
  if (!isRange && callee != "size" && callee != "len")
    return nullptr;
  const auto &arguments = call.arguments;
  auto isZero = [](const ast::Argument &argument) {
    return argument.value && argument.value->kind == ExprKind::Integer &&
           static_cast<const ast::IntegerExpr &>(*argument.value).value == 0;
  };
  const bool isPlain =
      arguments.size() == 1 ||
      (isRange && arguments.size() == 2 && isZero(arguments[0]));
  return isPlain ? arguments.back().value.get() : nullptr;
}

/// The dim that a loop runs over; none after an error.
std::optional<Dim> Elaborator::evaluateLoopDim(const ast::LoopStatement &loop) {
  const ast::Expr &expr = *loop.dim;
  if (expr.kind == ExprKind::Name || expr.kind == ExprKind::Tuple)
    return evaluateDim(expr);
  Diagnostic &reported = error(Code::WrongKind, expr.span,
                               "a loop runs over the positions of a dimension");
  const ast::Expr *count = findCount(expr);
  if (!count) {
    reported.help(
        "\"for t in time\" runs over those of the dimension \"time\"");
    return std::nullopt;
  }
  if (count->kind == ExprKind::Name) {
    const auto &name = static_cast<const ast::NameExpr &>(*count);
    const Value *value = lookUp(name.name);
    if (value && std::holds_alternative<Dims>(*value)) {
      reported.fix(
          expr.span, std::string(name.name),
          fmt::format("write \"for {} in {}\"", loop.variable.text, name.name));
      return std::nullopt;
    }
  }
  reported.help(
      fmt::format("write \"dim n = {}\" at the top level and \"for {} in n\"",
                  print(*count), loop.variable.text));
  return std::nullopt;
}

void Elaborator::execute(const ast::LoopStatement &loop) {
  std::optional<Dim> dim = evaluateLoopDim(loop);
  checkNew(loop.variable);
  auto outer = frame->bindings;
  const auto calls = frame->calls; // those in the block end with it
  LoopBlock block{loop.variable.text, {}, {}, {}, frame->block};
  std::vector<Builder::LoopValue> initial;
  const Branches branches = decideBranches(loop);
  for (const auto &[name, kind] : findRebindings(loop, branches)) {
    auto known = outer.find(name.text);
    if (known == outer.end()) // reported where it is rebound
      continue;
    Value &value = known->second.value;
    if (!dim || isPoison(value)) {
      value = Poison();
      frame->bindings[name.text].value = Poison();
    } else if (kind == Rebinding::Carried) {
      Builder::LoopValue carried = getLoopValue(name, value, getHint(value));
      carried.where = getWhere(known->second.span);
      if (carried.value) {
        block.carried.push_back({name, carried.value.getElementType()});
        initial.push_back(std::move(carried));
      } else {
        value = Poison();
      }
    } else if (kind == Rebinding::Stacked) {
      if (readsWhatItSets(loop, branches, name.text)) {
        error(
            Code::NotSupported, name.span,
            fmt::format("not supported yet: the block reads elements of \"{}\" "
                        "that it sets",
                        name.text))
            .help("carry what the next iteration needs under another name");
        value = Poison();
        frame->bindings[name.text].value = Poison();
      }
    } else if (kind == Rebinding::Summed) {
      block.sums[name.text] = {name, {}};
    }
  }
  if (!dim) {
    frame->bindings = std::move(outer);
    return;
  }
  block.dim = *dim;
  Builder::LoopArguments arguments =
      builder.beginLoop(std::string(loop.variable.text), *dim, initial,
                        getWhere(join(loop.variable.span, loop.dim->span)));
  reportBuildErrors({});
  frame->bindings[loop.variable.text] = {arguments.position,
                                         loop.variable.span};
  for (size_t i = 0; i < block.carried.size(); ++i)
    frame->bindings[block.carried[i].first.text].value = arguments.carried[i];

  frame->block = &block;
  ++frame->numBlocks;
  execute(loop.body->statements);
  --frame->numBlocks;
  frame->block = block.outer;
  frame->calls = calls;
  std::swap(frame->bindings, outer);
  block.last = std::move(outer);
  finishLoop(loop, block);
}

void Elaborator::finishLoop(const ast::LoopStatement &loop, LoopBlock &block) {
  std::vector<Builder::LoopValue> carried, stacked, summed;
  bool isValid = true;
  auto add = [&](std::vector<Builder::LoopValue> &values, const ast::Name &name,
                 const Value &value, ElementType hint) {
    values.push_back(getLoopValue(name, value, hint));
    isValid &= bool(values.back().value);
  };
  for (auto &[name, element] : block.carried)
    add(carried, {name.text, block.last[name.text].span},
        block.last[name.text].value, element);
  for (auto &[text, placed] : block.placed)
    add(stacked, placed.name, placed.value, ElementType::F32);
  // Where no branch that exists adds to it there is no sum.
  std::erase_if(block.sums,
                [](const auto &sum) { return !sum.second.isStarted; });
  for (auto &[text, sum] : block.sums)
    add(summed, sum.name, sum.value, getHint(frame->bindings[text].value));
  if (!isValid)
    builder.markIncomplete();
  std::optional<Builder::LoopResults> results =
      builder.endLoop(carried, stacked, summed,
                      getWhere(join(loop.variable.span, loop.dim->span)));
  reportBuildErrors({});

  // Without results every name is poison.
  auto bind = [&](const ast::Name &name, Value value) {
    frame->bindings[name.text] = {std::move(value), name.span};
  };
  size_t i = 0;
  for (auto &[name, element] : block.carried)
    bind(name, results ? Value(results->carried[i++]) : Value(Poison()));
  i = 0;
  for (auto &[text, placed] : block.placed)
    bind(placed.name, results ? Value(results->stacked[i++]) : Value(Poison()));
  i = 0;
  for (auto &[text, sum] : block.sums)
    bind(sum.name,
         results ? apply(ast::Operator::Add, frame->bindings[text].value,
                         sum.name.span, results->summed[i++], sum.name.span)
                 : Value(Poison()));
}

bool Elaborator::addToSum(const ast::LetStatement &let) {
  if (!frame->block)
    return false;
  const ast::Name &name = let.names.front();
  auto sum = frame->block->sums.find(name.text);
  if (sum == frame->block->sums.end())
    return false;
  Value term = evaluateBound(*let.value);
  // Numbers as what they are added to.
  if (!isPoison(term)) {
    Tensor tensor = toTensor(term, let.value->span,
                             getHint(frame->bindings[name.text].value));
    builder.setName(tensor, std::string(name.text));
    term = tensor ? Value(tensor) : Value(Poison());
  }
  Value &all = sum->second.value;
  all = sum->second.isStarted
            ? apply(ast::Operator::Add, all, name.span, term, let.value->span)
            : term;
  sum->second.isStarted = true;
  return true;
}

void Elaborator::execute(const ast::PlaceStatement &place) {
  Value value = evaluateBound(*place.value);
  auto known = frame->bindings.find(place.name.text);
  if (known == frame->bindings.end()) {
    error(
        Code::UnknownName, place.name.span,
        fmt::format("\"{}\" is not defined here, so that none of its elements "
                    "can be set",
                    place.name.text));
    return;
  }
  LoopBlock *block = frame->block;
  std::optional<Dims> dims = lookUpDims(place.dim.text, place.dim.span);
  if (!dims)
    return;
  bool isAtPosition =
      block && dims->size() == 1 && dims->front() == block->dim &&
      place.position->kind == ExprKind::Name &&
      static_cast<const ast::NameExpr &>(*place.position).name ==
          block->variable;
  if (!isAtPosition) {
    error(Code::NotSupported, place.position->span,
          "not supported yet: setting elements elsewhere than at the position "
          "of the innermost loop");
    return;
  }
  const auto *whole = std::get_if<Tensor>(&known->second.value);
  if (!whole && !isPoison(known->second.value)) {
    error(Code::WrongKind, place.name.span,
          fmt::format("\"{}\" is {}; elements are set of a tensor",
                      place.name.text, describe(known->second.value)));
    return;
  }
  if (!whole)
    return;
  Tensor part = toTensor(value, place.value->span, whole->getElementType());
  if (!part)
    return;
  builder.setName(part, std::string(place.name.text));
  Dims all(part.getDims().begin(), part.getDims().end());
  all.push_back(block->dim);
  if (part.getElementType() != whole->getElementType() ||
      !std::is_permutation(all.begin(), all.end(), whole->getDims().begin(),
                           whole->getDims().end())) {
    error(Code::CarriedTypeChanges, place.value->span,
          fmt::format(
              "the value at a position of \"{}\" is {}, and \"{}\" is {}",
              place.dim.text, toString(part.getElementType(), part.getDims()),
              place.name.text,
              toString(whole->getElementType(), whole->getDims())))
        .alsoAt(getUserSpan(known->second.span), "defined here");
    return;
  }
  block->placed[place.name.text] = {place.name, part};
}
