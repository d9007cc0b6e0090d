#include "frontend/elaborate/BlockText.h"

#include <algorithm>

using namespace meshc::frontend;
using ast::ExprKind;

void meshc::frontend::forEachStatement(
    const std::vector<ast::Statement> &body, const Branches &branches,
    const std::function<void(const ast::Statement &)> &visit) {
  for (const ast::Statement &statement : body) {
    visit(statement);
    const auto *branch = std::get_if<ast::IfStatement>(&statement);
    if (!branch)
      continue;
    auto decided = branches.find(branch);
    const bool isDecided = decided != branches.end();
    if (!isDecided || decided->second)
      forEachStatement(branch->then->statements, branches, visit);
    if (branch->otherwise && (!isDecided || !decided->second))
      forEachStatement(branch->otherwise->statements, branches, visit);
  }
}

namespace {
/// Whether a name occurs in a text, as an argument's name too. `sliced`: but
/// for slices at the position of this loop, which may be null.
class Mentions {
public:
  Mentions(std::string_view name, const Branches &branches,
           const ast::LoopStatement *sliced = nullptr)
      : name(name), branches(branches), sliced(sliced) {}

  bool in(const ast::Expr &expr) const {
    switch (expr.kind) {
    case ExprKind::Integer:
    case ExprKind::Float:
    case ExprKind::String:
      return false;
    case ExprKind::Name:
      return isName(expr, name);
    case ExprKind::Tuple:
      return in(static_cast<const ast::TupleExpr &>(expr).elements);
    case ExprKind::Unary:
      return in(*static_cast<const ast::UnaryExpr &>(expr).operand);
    case ExprKind::Chain:
      return in(static_cast<const ast::ChainExpr &>(expr).operands);
    case ExprKind::Call:
      return std::ranges::any_of(
          static_cast<const ast::CallExpr &>(expr).arguments,
          [&](const ast::Argument &argument) {
            return (argument.value && in(*argument.value)) ||
                   (argument.target && in(*argument.target));
          });
    case ExprKind::Index:
      return in(static_cast<const ast::IndexExpr &>(expr));
    }
    __builtin_unreachable();
  }

  bool in(const std::vector<ast::Statement> &body) const {
    bool isThere = false;
    forEachStatement(body, branches, [&](const ast::Statement &statement) {
      isThere |= in(statement);
    });
    return isThere;
  }

  /// Of an `if` the condition: its statements are visited too.
  bool in(const ast::Statement &statement) const {
    if (const auto *let = std::get_if<ast::LetStatement>(&statement))
      return in(*let->value);
    if (const auto *dim = std::get_if<ast::DimStatement>(&statement))
      return in(*dim->value);
    if (const auto *place = std::get_if<ast::PlaceStatement>(&statement))
      return in(*place->position) || in(*place->value);
    if (const auto *loop = std::get_if<ast::LoopStatement>(&statement))
      return in(*loop->dim) || in(loop->body->statements);
    if (const auto *branch = std::get_if<ast::IfStatement>(&statement))
      return in(*branch->condition);
    if (const auto *param = std::get_if<ast::VariableStatement>(&statement))
      return in(*param->initializer);
    if (const auto *assertion = std::get_if<ast::AssertStatement>(&statement))
      return in(*assertion->condition);
    return false; // the rest does not stand in blocks
  }

private:
  static bool isName(const ast::Expr &expr, std::string_view text) {
    return expr.kind == ExprKind::Name &&
           static_cast<const ast::NameExpr &>(expr).name == text;
  }

  bool in(const std::vector<ast::ExprPtr> &all) const {
    return std::ranges::any_of(
        all, [&](const ast::ExprPtr &expr) { return in(*expr); });
  }

  bool in(const ast::IndexExpr &index) const {
    bool isSlice =
        sliced && isName(*index.operand, name) &&
        std::ranges::any_of(index.parts, [&](const ast::IndexPart &part) {
          return part.dims.size() == 1 &&
                 isName(*sliced->dim, part.dims.front().text) &&
                 isName(*part.position, sliced->variable.text);
        });
    return (!isSlice && in(*index.operand)) ||
           (index.otherwise && in(*index.otherwise)) ||
           std::ranges::any_of(index.parts, [&](const ast::IndexPart &part) {
             return in(*part.position);
           });
  }

  std::string_view name;
  const Branches &branches;
  const ast::LoopStatement *sliced;
};

class Rebindings {
public:
  std::vector<std::pair<ast::Name, Rebinding>> names;

  Rebindings(const ast::LoopStatement &loop, const Branches &branches)
      : branches(branches) {
    collect(loop, {}, /*isInner=*/false);
    for (auto &[name, kind] : names)
      if (kind == Rebinding::Summed &&
          Mentions(name.text, branches).in(loop.body->statements))
        kind = Rebinding::Carried;
  }

private:
  using Names = std::set<std::string_view>;

  /// `own`: names that blocks around have bound themselves.
  void collect(const ast::LoopStatement &loop, Names own, bool isInner) {
    own.insert(loop.variable.text);
    forEachStatement(
        loop.body->statements, branches, [&](const ast::Statement &statement) {
          if (const auto *let = std::get_if<ast::LetStatement>(&statement))
            collect(*let, own, isInner);
          else if (const auto *param =
                       std::get_if<ast::VariableStatement>(&statement))
            for (const ast::Name &name : param->names)
              own.insert(name.text);
          else if (const auto *dim = std::get_if<ast::DimStatement>(&statement))
            own.insert(dim->name.text);
          else if (const auto *place =
                       std::get_if<ast::PlaceStatement>(&statement))
            note(place->name, own,
                 isInner ? Rebinding::Carried : Rebinding::Stacked);
          else if (const auto *inner =
                       std::get_if<ast::LoopStatement>(&statement))
            collect(*inner, own, /*isInner=*/true);
        });
  }

  void collect(const ast::LetStatement &let, Names &own, bool isInner) {
    using LetKind = ast::LetStatement::Kind;
    for (const ast::Name &name : let.names)
      if (let.kind == LetKind::Binds)
        own.insert(name.text);
      else
        note(name, own,
             let.kind == LetKind::Adds && !isInner ? Rebinding::Summed
                                                   : Rebinding::Carried);
  }

  void note(const ast::Name &name, const Names &own, Rebinding kind) {
    if (own.contains(name.text))
      return;
    for (auto &[known, knownKind] : names)
      if (known.text == name.text) {
        if (knownKind != kind)
          knownKind = Rebinding::Carried;
        return;
      }
    names.push_back({name, kind});
  }

  const Branches &branches;
};
} // namespace

std::vector<std::pair<ast::Name, Rebinding>>
meshc::frontend::findRebindings(const ast::LoopStatement &loop,
                                const Branches &branches) {
  return Rebindings(loop, branches).names;
}

bool meshc::frontend::readsWhatItSets(const ast::LoopStatement &loop,
                                      const Branches &branches,
                                      std::string_view name) {
  bool isSet = false, reads = false;
  forEachStatement(
      loop.body->statements, branches, [&](const ast::Statement &statement) {
        reads |=
            Mentions(name, branches, isSet ? nullptr : &loop).in(statement);
        const auto *place = std::get_if<ast::PlaceStatement>(&statement);
        isSet |= place && place->name.text == name;
      });
  return reads;
}

std::set<std::string_view>
meshc::frontend::findRebound(const std::vector<ast::Statement> &body) {
  std::set<std::string_view> names;
  forEachStatement(body, {}, [&](const ast::Statement &statement) {
    if (const auto *let = std::get_if<ast::LetStatement>(&statement)) {
      if (let->kind != ast::LetStatement::Kind::Binds)
        for (const ast::Name &name : let->names)
          names.insert(name.text);
    } else if (const auto *place =
                   std::get_if<ast::PlaceStatement>(&statement)) {
      names.insert(place->name.text);
    } else if (const auto *loop = std::get_if<ast::LoopStatement>(&statement)) {
      names.merge(findRebound(loop->body->statements));
    }
  });
  return names;
}
