#ifndef MESHC_TESTS_FUZZ_CHECK_H
#define MESHC_TESTS_FUZZ_CHECK_H

/// Whether a tree is a legal program by frontend/README.md. What passes here
/// has to compile.

#include "tests/fuzz/Tree.h"

#include <map>

namespace meshc::fuzz {

/// What became of a value in a loop.
enum class Origin : uint8_t { Plain, Carried, Stacked, Summed };

struct Variable {
  Type type;
  size_t depth = 0; ///< loops around where it is bound
  Origin origin = Origin::Plain;
  bool isNumber = false; ///< `let s = 0`: no tensor before the loop adds to it
  bool isPosition = false;
  /// Elements lie in [-magnitude, magnitude]; kept by the generator.
  double magnitude = 1;
};

/// Checks statement by statement, so that a generator can ask before it adds
/// one.
class Checker {
public:
  explicit Checker(const Tree &tree);

  /// Sets the types within `expr`; false with a reason if it is illegal here.
  bool check(Expr &expr);
  /// Checks a statement and binds what it binds.
  bool apply(Statement &statement);
  /// For a loop's statements one by one; `apply` does both for a whole one.
  bool enter(DimId dim, const std::string &position);
  /// Checks what needs all of the block, `loop`.
  bool leave(const Statement &loop);

  const std::map<std::string, Variable> &getVariables() const {
    return variables;
  }
  Variable &getVariable(const std::string &name) { return variables.at(name); }
  const std::vector<std::pair<DimId, std::string>> &getLoops() const {
    return loops;
  }
  /// What is fed, in the order of the program.
  const std::vector<Leaf> &getLeaves() const { return leaves; }
  const std::string &getReason() const { return reason; }

  /// Elements of the largest value.
  static constexpr int64_t maxElements = 1500;

private:
  bool fail(std::string why) {
    reason = std::move(why);
    return false;
  }
  bool checkElementwise(Expr &expr);
  bool checkCall(Expr &expr);
  bool checkReduce(Expr &expr);
  bool checkIndex(Expr &expr);
  bool checkLayer(Expr &expr);
  bool checkPosition(Expr &expr, size_t component, Dims &dims, bool &hasTensor);
  bool checkWhere(const Expr &index);
  bool addLeaf(const std::string &name, Type type);
  bool isSame(const Dims &lhs, const Dims &rhs) const;
  int64_t size(DimId dim) const { return tree->dims[size_t(dim)].size; }

  const Tree *tree;
  std::map<std::string, Variable> variables;
  std::vector<std::pair<DimId, std::string>> loops;
  std::vector<std::map<std::string, Variable>> outer; ///< of each loop
  std::vector<Leaf> leaves;
  std::string reason;
};

/// Checks a whole tree; empty, or why it is illegal.
std::string check(Tree &tree);
/// What is fed to a legal tree.
std::vector<Leaf> getLeaves(Tree &tree);

/// The dims of every expression of a statement, and of those within.
template <class Visit> void forEachExpr(const Expr &expr, Visit &&visit) {
  visit(expr);
  for (const Expr &operand : expr.operands)
    forEachExpr(operand, visit);
  for (const Part &part : expr.parts)
    forEachExpr(part.position, visit);
}
template <class Visit>
void forEachExpr(const std::vector<Statement> &body, Visit &&visit) {
  for (const Statement &statement : body) {
    forEachExpr(statement.value, visit);
    forEachExpr(statement.body, visit);
  }
}

} // namespace meshc::fuzz

#endif
