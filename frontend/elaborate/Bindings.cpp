// What statements bind to names.

#include "frontend/elaborate/Elaborator.h"
#include "layout/Spelling.h"

#include <algorithm>

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::frontend;

Value Elaborator::evaluateBound(const ast::Expr &expr) {
  bound = &expr;
  return evaluate(expr);
}

/// The scope that a call says to have, which tells what it gives: the two
/// values of `let h = block(h) as b1` and `let h = block(h) as b2` are b1/h and
/// b2/h. Empty of anything else.
static std::string getScopeOfCall(const ast::Expr &value) {
  if (value.kind != ast::ExprKind::Call)
    return "";
  const auto &call = static_cast<const ast::CallExpr &>(value);
  return call.scope ? std::string(call.scope->text) : "";
}

void Elaborator::checkNew(const ast::Name &name, std::optional<Span> keyword) {
  auto known = frame->bindings.find(name.text);
  if (known == frame->bindings.end())
    return;
  Diagnostic &bound =
      error(Code::NameIsBound, name.span,
            fmt::format("\"{}\" is bound already, and ends with the block if "
                        "it is bound anew",
                        name.text))
          .alsoAt(getUserSpan(known->second.span), "bound here");
  if (keyword)
    bound.fix({keyword->source, keyword->begin, name.span.begin}, "",
              fmt::format("without \"let\" the {} \"{}\"",
                          frame->block ? "loop carries" : "block rebinds",
                          name.text));
}

/// Reports what is wrong with a name that a statement binds, whatever its
/// value.
void Elaborator::checkName(const ast::LetStatement &let,
                           const ast::Name &name) {
  auto sameName = [&](const ast::Name &other) {
    return other.text == name.text;
  };
  const ast::Name &first = *std::ranges::find_if(let.names, sameName);
  if (&first != &name)
    error(Code::DuplicateName, name.span,
          fmt::format("\"{}\" is bound to two values", name.text))
        .alsoAt(first.span, "the first");
  const bool binds = let.kind == ast::LetStatement::Kind::Binds;
  const std::optional<Span> keyword =
      let.names.size() == 1 ? std::optional(let.keyword) : std::nullopt;
  if (binds && checkNoState(name, keyword) && frame->numBlocks)
    checkNew(name, keyword);
  if (binds || frame->bindings.contains(name.text))
    return;
  std::vector<std::string> names;
  for (const auto &[known, binding] : frame->bindings)
    names.emplace_back(known);
  error(Code::UnknownName, name.span,
        fmt::format("\"{}\" is not defined here, so that it cannot be "
                    "redefined",
                    name.text))
      .help("a first definition begins with \"let\"")
      .didYouMean(layout::findNearest(name.text, names));
}

/// "2 values", "one value".
static std::string countValues(size_t count) {
  return count == 1 ? "one value" : fmt::format("{} values", count);
}

Elaborator::Values Elaborator::evaluateFor(const ast::LetStatement &let) {
  const ast::Expr &expr = *let.value;
  if (let.names.size() == 1)
    return {evaluateBound(expr)};
  bound = &expr;
  std::optional<Values> values = evaluateAll(expr);
  if (values && values->size() == let.names.size())
    return std::move(*values);
  if (values) {
    const bool isCall = expr.kind == ast::ExprKind::Call;
    std::string what =
        isCall
            ? fmt::format("\"{}\"",
                          static_cast<const ast::CallExpr &>(expr).callee.text)
            : "an expression";
    Diagnostic &reported =
        error(Code::WrongNumberOfValues,
              join(let.names.front().span, let.names.back().span),
              fmt::format("{} gives {}, and there are {} names", what,
                          countValues(values->size()), let.names.size()));
    if (!isCall)
      reported.note("functions that return several values give several");
  }
  return Values(let.names.size(), Poison());
}

void Elaborator::reportSeveral(const ast::CallExpr &call, size_t count) {
  error(Code::WrongNumberOfValues, call.span,
        fmt::format("\"{}\" gives {} where one is taken", call.callee.text,
                    countValues(count)))
      .help(fmt::format("bind each of them: let a, b = {}(...)",
                        call.callee.text));
}

Value Elaborator::toType(const ast::ParameterType &type, const ast::Name &name,
                         const Value &value, Span span) {
  std::optional<ElementType> element;
  if (type.element && !(element = getElementType(*type.element)))
    return Poison();
  std::optional<Dims> dims = getDims(type.dims);
  if (!dims || isPoison(value))
    return Poison();
  const bool isTensor = std::holds_alternative<Tensor>(value);
  Tensor x = toTensor(value, span, element.value_or(ElementType::F32));
  if (!x)
    return Poison();
  auto isNamed = [&](const Dim &dim) {
    return std::ranges::find(*dims, dim) != dims->end();
  };
  const bool hasElement = !element || x.getElementType() == *element;
  const bool hasDims =
      !isTensor ||
      (std::ranges::all_of(
           *dims, [&](const Dim &dim) { return x.hasDim(dim.name); }) &&
       (type.isOpen || std::ranges::all_of(x.getDims(), isNamed)));
  if (!hasElement || !hasDims) {
    Diagnostic &reported =
        error(Code::TypeDiffers, span,
              fmt::format("\"{}\" is {} by its type, found {}", name.text,
                          sources.getText(type.span),
                          isTensor ? toString(x.getElementType(), x.getDims())
                                   : std::string(describe(value))));
    if (!hasElement && isTensor)
      reported.help(fmt::format("{}(...) converts", getName(*element)));
    if (!hasDims && !type.isOpen)
      reported.help("\"[.., d]\" leaves other dimensions open");
    return Poison();
  }
  if (isTensor || dims->empty())
    return x;
  return orPoison(
      checked(builder.broadcast(x, *dims, getWhere(span)), {{span, x}}));
}

void Elaborator::execute(const ast::LetStatement &let) {
  using Kind = ast::LetStatement::Kind;
  for (const ast::Name &name : let.names)
    checkName(let, name);
  if (let.kind == Kind::Adds && addToSum(let))
    return;
  Values values = evaluateFor(let);
  if (let.kind == Kind::Adds) {
    const ast::Name &name = let.names.front();
    auto known = frame->bindings.find(name.text);
    values.front() = known != frame->bindings.end()
                         ? apply(ast::Operator::Add, known->second.value,
                                 name.span, values.front(), let.value->span)
                         : Value(Poison());
  }
  for (size_t i = 0; i < let.names.size(); ++i) {
    const ast::Name &name = let.names[i];
    if (let.type)
      values[i] = toType(*let.type, name, values[i], let.value->span);
    if (const auto *tensor = std::get_if<Tensor>(&values[i]))
      values[i] = builder.bind(*tensor, std::string(name.text),
                               getScopeOfCall(*let.value), getWhere(name.span));
    frame->bindings[name.text] = {std::move(values[i]), name.span};
  }
}

void Elaborator::execute(const ast::DimStatement &dim) {
  const ast::Name &name = dim.name;
  if (name.text.ends_with('\''))
    reportPrime(name);
  auto known = frame->bindings.find(name.text);
  const bool isNew = known == frame->bindings.end();
  if (frame->numBlocks)
    checkNew(name);
  else if (!isNew)
    error(Code::DuplicateName, name.span,
          fmt::format("\"{}\" is bound already; a dimension has a name of its "
                      "own",
                      name.text))
        .alsoAt(getUserSpan(known->second.span), "bound here");
  readsParted = false;
  std::optional<int64_t> size =
      getSize(name, evaluate(*dim.value), dim.value->span);
  Value value = Poison();
  if (size && isNew) {
    Dim made =
        builder.ownDim(std::string(name.text), *size, getWhere(name.span));
    reportBuildErrors({});
    if (readsParted)
      builder.addParted(made.name);
    frame->dims.push_back(made.name);
    value = Dims{made};
  }
  frame->bindings[name.text] = {std::move(value), name.span};
}
