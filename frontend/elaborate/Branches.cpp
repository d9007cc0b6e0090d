// if: which branch there is.

#include "frontend/elaborate/BlockText.h"
#include "frontend/elaborate/Elaborator.h"

#include <algorithm>

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::frontend;
using ast::ExprKind;

std::optional<bool> Elaborator::evaluateCondition(const ast::Expr &condition) {
  Value value = evaluate(condition);
  if (const auto *truth = std::get_if<bool>(&value))
    return *truth;
  const auto *tensor = std::get_if<Tensor>(&value);
  const bool isTruth = tensor && tensor->getElementType() == ElementType::Bool;
  const std::string found =
      tensor ? toString(tensor->getElementType(), tensor->getDims())
             : std::string(describe(value));
  constexpr std::string_view choose =
      "where(condition, a, b) chooses between values, of tensors element by "
      "element";
  if (isPoison(value))
    return std::nullopt;
  if (isTruth && !tensor->getDims().empty())
    error(
        Code::ConditionHasDims, condition.span,
        fmt::format("the condition of an \"if\" is one truth, found {}", found))
        .help(std::string(choose));
  else if (isTruth)
    error(Code::NotSupported, condition.span,
          "not supported yet: an \"if\" that the run decides")
        .note("the compiler knows numbers, sizes, truth values and what is "
              "computed from these")
        .help(std::string(choose));
  else
    error(
        Code::WrongKind, condition.span,
        fmt::format("the condition of an \"if\" is a truth, found {}", found));
  return std::nullopt;
}

void Elaborator::execute(const ast::IfStatement &branch) {
  std::optional<bool> condition = evaluateCondition(*branch.condition);
  if (!condition) {
    // What either branch makes of a name is not known.
    for (const ast::Block *block : {branch.then.get(), branch.otherwise.get()})
      if (block)
        for (std::string_view name : findRebound(block->statements))
          if (auto known = frame->bindings.find(name);
              known != frame->bindings.end())
            known->second.value = Poison();
    builder.markIncomplete();
    return;
  }
  const ast::Block *taken =
      *condition ? branch.then.get() : branch.otherwise.get();
  if (!taken)
    return;
  std::set<std::string_view> outer;
  for (const auto &[name, binding] : frame->bindings)
    outer.insert(name);
  ++frame->numBlocks;
  execute(taken->statements);
  --frame->numBlocks;
  std::erase_if(frame->bindings, [&](const auto &binding) {
    return !outer.contains(binding.first);
  });
}

//===----------------------------------------------------------------------===//
// Before a loop is elaborated
//===----------------------------------------------------------------------===//

/// Whether an expression is of numbers, dims and truth values alone, whose
/// names stand for such now.
bool Elaborator::isKnown(const ast::Expr &expr) {
  switch (expr.kind) {
  case ExprKind::Integer:
  case ExprKind::Float:
    return true;
  case ExprKind::Name: {
    const Value *value = lookUp(static_cast<const ast::NameExpr &>(expr).name);
    return value && !isPoison(*value) &&
           !std::holds_alternative<Tensor>(*value);
  }
  case ExprKind::Unary:
    return isKnown(*static_cast<const ast::UnaryExpr &>(expr).operand);
  case ExprKind::Chain:
    return std::ranges::all_of(
        static_cast<const ast::ChainExpr &>(expr).operands,
        [&](const ast::ExprPtr &operand) { return isKnown(*operand); });
  case ExprKind::Call: {
    // The size of a dim, which may be one that the block makes.
    const auto &call = static_cast<const ast::CallExpr &>(expr);
    return call.callee.text == "size" && call.arguments.size() == 1 &&
           call.arguments.front().value->kind == ExprKind::Name &&
           isKnown(*call.arguments.front().value);
  }
  case ExprKind::String:
  case ExprKind::Tuple:
  case ExprKind::Index:
    return false;
  }
  __builtin_unreachable();
}

void Elaborator::decide(const std::vector<ast::Statement> &body,
                        Branches &branches) {
  auto bind = [&](const ast::Name &name, Value value) {
    frame->bindings[name.text] = {std::move(value), name.span};
  };
  auto evaluateKnown = [&](const ast::Expr &expr) {
    return isKnown(expr) ? evaluate(expr) : Value(Poison());
  };
  for (const ast::Statement &statement : body) {
    if (const auto *let = std::get_if<ast::LetStatement>(&statement)) {
      const bool isPlain = let->kind == ast::LetStatement::Kind::Binds &&
                           let->names.size() == 1 && !let->type;
      for (const ast::Name &name : let->names)
        bind(name, isPlain ? evaluateKnown(*let->value) : Value(Poison()));
    } else if (const auto *dim = std::get_if<ast::DimStatement>(&statement)) {
      bind(dim->name, Poison());
    } else if (const auto *param =
                   std::get_if<ast::VariableStatement>(&statement)) {
      for (const ast::Name &name : param->names)
        bind(name, Poison());
    } else if (const auto *loop = std::get_if<ast::LoopStatement>(&statement)) {
      bind(loop->variable, Poison());
      decide(loop->body->statements, branches);
    } else if (const auto *branch = std::get_if<ast::IfStatement>(&statement)) {
      Value value = evaluateKnown(*branch->condition);
      const auto *truth = std::get_if<bool>(&value);
      if (truth)
        branches[branch] = *truth;
      if (!truth || *truth)
        decide(branch->then->statements, branches);
      if (branch->otherwise && (!truth || !*truth))
        decide(branch->otherwise->statements, branches);
    }
  }
}

Branches Elaborator::decideBranches(const ast::LoopStatement &loop) {
  Branches branches;
  bool hasBranches = false;
  const std::vector<ast::Statement> &body = loop.body->statements;
  std::function<void(const ast::Statement &)> look =
      [&](const ast::Statement &statement) {
        hasBranches |= std::holds_alternative<ast::IfStatement>(statement);
        if (const auto *inner = std::get_if<ast::LoopStatement>(&statement))
          forEachStatement(inner->body->statements, {}, look);
      };
  forEachStatement(body, {}, look);
  if (!hasBranches)
    return branches;
  auto outer = frame->bindings;
  // What iterations rebind, the run knows.
  for (std::string_view name : findRebound(body))
    if (auto known = frame->bindings.find(name); known != frame->bindings.end())
      known->second.value = Poison();
  frame->bindings[loop.variable.text] = {Poison(), loop.variable.span};
  decide(body, branches);
  frame->bindings = std::move(outer);
  return branches;
}
