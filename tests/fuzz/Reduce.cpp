#include "tests/fuzz/Reduce.h"
#include "tests/fuzz/Check.h"
#include "tests/fuzz/Condition.h"
#include "tests/fuzz/Isolate.h"
#include "tests/fuzz/Print.h"

#include <cmath>
#include <fmt/format.h>

using namespace meshc;
using namespace meshc::fuzz;

namespace {

class Reducer {
public:
  Reducer(Case item, const Failure &failure, const Checks &checks, int attempts)
      : best(std::move(item)), stage(failure.stage), checks(checks),
        attempts(attempts) {
    // Kernels take the most time, and few failures need them.
    if (!stage.starts_with("devices"))
      this->checks.devices.reset();
  }

  Case run();

private:
  /// Takes the candidate over if it fails as the case does.
  bool accept(Case candidate);
  bool acceptTree(Tree tree) {
    Case candidate = best;
    candidate.tree = std::move(tree);
    return accept(std::move(candidate));
  }

  bool dropLayouts();
  bool dropStatements();
  bool cutStatements();
  bool simplifyExprs();
  bool shrinkDims();
  bool dropDims();
  bool dropDeclarations();
  bool dropResults();
  bool openBranches();

  Case best;
  const std::string stage;
  Checks checks;
  int attempts;
};

/// Every block of a tree, outermost first.
template <class Visit>
void forEachBody(std::vector<Statement> &body, Visit &&visit) {
  visit(body);
  for (Statement &statement : body)
    if (statement.kind == StatementKind::For ||
        statement.kind == StatementKind::If) {
      forEachBody(statement.body, visit);
      forEachBody(statement.otherwise, visit);
    }
}
template <class Visit> void forEachBody(Tree &tree, Visit &&visit) {
  forEachBody(tree.body, visit);
  for (Function &function : tree.functions)
    forEachBody(function.body, visit);
}

template <class Visit> void forEachMutable(Expr &expr, Visit &&visit) {
  visit(expr);
  for (Expr &operand : expr.operands)
    forEachMutable(operand, visit);
}

size_t countStatements(Tree &tree) {
  size_t count = 0;
  forEachBody(tree, [&](auto &body) { count += body.size(); });
  return count;
}

/// Calls `edit(block, place)` for statement number `number`.
template <class Edit>
void editStatement(Tree &tree, size_t number, Edit &&edit) {
  bool isDone = false;
  forEachBody(tree, [&](std::vector<Statement> &body) {
    if (isDone)
      return;
    if (number < body.size()) {
      isDone = true;
      edit(body, number);
      return;
    }
    number -= body.size();
  });
}

} // namespace

bool Reducer::accept(Case candidate) {
  if (attempts <= 0 || !check(candidate.tree).empty() ||
      !findProblem(candidate.tree, candidate.seed, checks.getPrecision())
           .empty())
    return false;
  --attempts;
  Failure failure = runIsolated(candidate, checks);
  if (failure.stage != stage)
    return false;
  check(candidate.tree); // its types
  best = std::move(candidate);
  return true;
}

/// One layout, with as few rules and axes as there can be.
bool Reducer::dropLayouts() {
  bool changed = false;
  for (size_t i = best.layouts.size(); i-- > 0 && !best.layouts.empty();) {
    Case candidate = best;
    candidate.layouts.erase(candidate.layouts.begin() + std::ptrdiff_t(i));
    changed |= accept(std::move(candidate));
  }
  for (size_t i = 0; i < best.layouts.size(); ++i) {
    for (size_t dropped = best.layouts[i].getLines().size(); dropped-- > 0;) {
      Case candidate = best;
      std::vector<std::string> lines = best.layouts[i].getLines();
      if (dropped >= lines.size())
        continue;
      lines.erase(lines.begin() + std::ptrdiff_t(dropped));
      candidate.layouts[i].rules = fmt::format("{}", fmt::join(lines, ","));
      changed |= accept(std::move(candidate));
    }
    const auto axes = best.layouts[i].getAxes();
    for (size_t shrunk = 0; shrunk < axes.size(); ++shrunk)
      for (int64_t size = 1; size < axes[shrunk].size; ++size) {
        Case candidate = best;
        std::string &text = candidate.layouts[i].mesh;
        const auto now = best.layouts[i].getAxes();
        text.clear();
        for (size_t j = 0; j < now.size(); ++j)
          text += fmt::format("{}{}={}", text.empty() ? "" : ",", now[j].name,
                              j == shrunk ? size : now[j].size);
        if (accept(std::move(candidate))) {
          changed = true;
          break;
        }
      }
  }
  return changed;
}

bool Reducer::dropStatements() {
  bool changed = false;
  for (size_t i = countStatements(best.tree); i-- > 0;) {
    if (i >= countStatements(best.tree))
      continue;
    Tree tree = best.tree;
    editStatement(tree, i, [](auto &body, size_t place) {
      body.erase(body.begin() + std::ptrdiff_t(place));
    });
    changed |= acceptTree(std::move(tree));
  }
  return changed;
}

/// Values that become inputs: what they were computed from can go.
bool Reducer::cutStatements() {
  bool changed = false;
  for (size_t i = best.tree.body.size(); i-- > 0;) {
    if (i >= best.tree.body.size())
      continue;
    const Statement statement = best.tree.body[i];
    const Type type = statement.kind == StatementKind::Param
                          ? statement.type
                          : statement.value.type;
    Tree tree = best.tree;
    if (statement.kind == StatementKind::Call) {
      tree.body.erase(tree.body.begin() + std::ptrdiff_t(i));
      for (size_t j = 0; j < statement.names.size(); ++j)
        tree.inputs.push_back(
            {statement.names[j], statement.results[j].type, 2});
    } else if (statement.kind == StatementKind::Let ||
               statement.kind == StatementKind::Param) {
      tree.body.erase(tree.body.begin() + std::ptrdiff_t(i));
      tree.inputs.push_back({statement.name, type, 2});
    } else if (statement.kind == StatementKind::For ||
               statement.kind == StatementKind::If) {
      // What it has rebound is as it was before.
      tree.body.erase(tree.body.begin() + std::ptrdiff_t(i));
    } else {
      continue;
    }
    changed |= acceptTree(std::move(tree));
  }
  return changed;
}

/// Operands in the place of expressions; indexes of fewer parts; no `else`.
bool Reducer::simplifyExprs() {
  bool changed = false;
  const size_t numStatements = countStatements(best.tree);
  for (size_t i = 0; i < numStatements; ++i)
    for (size_t number = 0;; ++number) {
      // Expression `number` of statement i, in all ways.
      size_t numWays = 0;
      bool isThere = false;
      auto edit = [&](Tree &tree, size_t way) {
        editStatement(tree, i, [&](auto &body, size_t place) {
          size_t seen = 0;
          Expr *found = nullptr;
          forEachMutable(body[place].value, [&](Expr &expr) {
            if (seen++ == number)
              found = &expr;
          });
          isThere = found != nullptr;
          if (!found)
            return;
          const size_t numOperands = found->operands.size();
          numWays = numOperands + found->parts.size() + 2;
          if (way < numOperands) {
            Expr operand = found->operands[way];
            *found = std::move(operand);
          } else if (way < numOperands + found->parts.size()) {
            found->parts.erase(found->parts.begin() +
                               std::ptrdiff_t(way - numOperands));
            if (found->parts.empty())
              isThere = false;
          } else if (way == numWays - 2) {
            if (!found->otherwise || *found->otherwise == 0)
              isThere = false;
            found->otherwise = 0;
          } else {
            if (!found->otherwise)
              isThere = false;
            found->otherwise.reset();
          }
        });
      };
      Tree probe = best.tree;
      edit(probe, 0);
      if (!isThere && numWays == 0)
        break;
      for (size_t way = 0; way < numWays; ++way) {
        Tree tree = best.tree;
        isThere = true;
        edit(tree, way);
        if (isThere && acceptTree(std::move(tree))) {
          changed = true;
          break;
        }
      }
    }
  return changed;
}

/// Branches without the `if` around them.
bool Reducer::openBranches() {
  bool changed = false;
  for (size_t i = countStatements(best.tree); i-- > 0;) {
    // Of those of the training step either side.
    for (const bool holds : {true, false}) {
      if (i >= countStatements(best.tree))
        continue;
      Tree tree = best.tree;
      bool isThere = false;
      editStatement(tree, i, [&](auto &body, size_t place) {
        const Statement branch = body[place];
        isThere = branch.kind == StatementKind::If &&
                  (isOfTraining(branch.value) ||
                   evaluateCondition(best.tree, branch.value) == holds);
        if (!isThere)
          return;
        const auto at = body.erase(body.begin() + std::ptrdiff_t(place));
        const auto &live = holds ? branch.body : branch.otherwise;
        body.insert(at, live.begin(), live.end());
      });
      if (isThere)
        changed |= acceptTree(std::move(tree));
    }
  }
  return changed;
}

/// Functions that nothing calls, and values that nothing reads.
bool Reducer::dropResults() {
  bool changed = false;
  for (size_t i = best.tree.functions.size(); i-- > 0;) {
    Tree tree = best.tree;
    tree.functions.erase(tree.functions.begin() + std::ptrdiff_t(i));
    if (acceptTree(std::move(tree))) {
      changed = true;
      continue;
    }
    for (size_t j = best.tree.functions[i].results.size(); j-- > 0;) {
      tree = best.tree;
      Function &function = tree.functions[i];
      if (function.results.size() == 1)
        break;
      function.results.erase(function.results.begin() + std::ptrdiff_t(j));
      forEachBody(tree, [&](auto &body) {
        for (Statement &statement : body)
          if (statement.kind == StatementKind::Call &&
              statement.value.name == function.name)
            statement.names.erase(statement.names.begin() + std::ptrdiff_t(j));
      });
      changed |= acceptTree(std::move(tree));
    }
  }
  return changed;
}

bool Reducer::shrinkDims() {
  bool changed = false;
  for (size_t dim = 0; dim < best.tree.dims.size(); ++dim) {
    if (best.tree.dims[dim].primeOf >= 0 ||
        !best.tree.dims[dim].function.empty())
      continue;
    for (int64_t size = 1; size < best.tree.dims[dim].size; ++size) {
      Tree tree = best.tree;
      tree.dims[dim].size = size;
      for (Dim &prime : tree.dims)
        if (prime.primeOf == DimId(dim))
          prime.size = size;
      // Of the sizes of others follow those of functions.
      for (Function &function : tree.functions)
        for (Statement &statement : function.body)
          if (statement.kind == StatementKind::Dim)
            tree.dims[size_t(statement.dim)].size =
                evaluateSize(tree, statement.value);
      if (acceptTree(std::move(tree))) {
        changed = true;
        break;
      }
    }
  }
  return changed;
}

/// Takes a dim out of all lists; what then has none of those it needs is
/// illegal.
static void dropDim(Expr &expr, DimId dim) {
  LayerArguments &layer = expr.layer;
  for (Dims *dims : {&expr.dims, &layer.over, &layer.at, &layer.window,
                     &layer.from, &layer.to, &layer.each})
    std::erase(*dims, dim);
  for (Expr &operand : expr.operands)
    dropDim(operand, dim);
  const bool isReduction =
      (expr.kind == ExprKind::Reduce || expr.kind == ExprKind::Broadcast) &&
      expr.dims.empty();
  if (isReduction) {
    Expr operand = expr.operands[0];
    expr = std::move(operand);
  }
}
static void dropDim(std::vector<Statement> &body, DimId dim) {
  for (Statement &statement : body) {
    std::erase(statement.type.dims, dim);
    dropDim(statement.value, dim);
    dropDim(statement.body, dim);
    dropDim(statement.otherwise, dim);
  }
}

bool Reducer::dropDims() {
  bool changed = false;
  for (DimId dim : findUsedDims(best.tree)) {
    Tree tree = best.tree;
    for (Input &input : tree.inputs)
      std::erase(input.type.dims, dim);
    dropDim(tree.body, dim);
    for (Function &function : tree.functions) {
      dropDim(function.body, dim);
      for (Expr &result : function.results)
        dropDim(result, dim);
    }
    const Dims left = findUsedDims(tree);
    if (std::find(left.begin(), left.end(), dim) == left.end())
      changed |= acceptTree(std::move(tree));
  }
  return changed;
}

bool Reducer::dropDeclarations() {
  bool changed = false;
  for (size_t i = best.tree.inputs.size(); i-- > 0;) {
    Tree tree = best.tree;
    tree.inputs.erase(tree.inputs.begin() + std::ptrdiff_t(i));
    changed |= acceptTree(std::move(tree));
  }
  return changed;
}

Case Reducer::run() {
  check(best.tree);
  bool changed = true;
  while (changed && attempts > 0) {
    changed = dropLayouts();
    changed |= dropStatements();
    changed |= cutStatements();
    changed |= dropDeclarations();
    changed |= dropResults();
    changed |= openBranches();
    changed |= simplifyExprs();
    changed |= shrinkDims();
    changed |= dropDims();
  }
  return best;
}

Case meshc::fuzz::reduce(const Case &item, const Failure &failure,
                         const Checks &checks, int attempts) {
  return Reducer(item, failure, checks, attempts).run();
}
