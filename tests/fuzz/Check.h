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
  size_t block = 0; ///< blocks and calls around
  Origin origin = Origin::Plain;
  bool isNumber = false; ///< `let s = 0`: no tensor before the loop adds to it
  bool isPosition = false;
  bool isState = false; ///< of the block: its type stays
  /// Elements lie in [-magnitude, magnitude]; kept by the generator.
  double magnitude = 1;
};

/// Where the parameters of a scope are, and the loops over which they are
/// stacked.
struct Place {
  std::string path; ///< "layer/attention/"
  Dims loops;       ///< in order
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
  /// For the statements of a loop, of a branch, or of a function one by one;
  /// `apply` does all for a whole one.
  bool enter(DimId dim, const std::string &position);
  void enterBranch() { outer.push_back(frame); }
  bool enterCall(const Function &function, const std::vector<Type> &arguments,
                 const LayerArguments &scopes);
  /// Checks what needs all of the block, `loop`.
  bool leave(const Statement &loop);
  void leaveBranch();

  const std::map<std::string, Variable> &getVariables() const {
    return frame.variables;
  }
  Variable &getVariable(const std::string &name) {
    return frame.variables.at(name);
  }
  const std::vector<std::pair<DimId, std::string>> &getLoops() const {
    return loops;
  }
  /// What is fed, in the order of the program.
  const std::vector<Leaf> &getLeaves() const { return leaves; }
  /// Scopes of calls of a function whose parameters a call here may have.
  std::vector<std::string> getCalls(const std::string &function) const;
  size_t getNumBlocks() const { return outer.size(); }
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
  bool addLeaf(const std::string &name, Type type,
               LeafKind kind = LeafKind::Parameter, bool isPositive = false);
  bool checkNew(const std::string &name);
  bool checkVisible(const Dims &dims);
  bool applyVariable(Statement &statement);
  bool applyLet(Statement &statement);
  bool applyTyped(Statement &statement);
  bool applyDim(const Statement &statement);
  bool applyBranch(Statement &statement);
  bool applyWhenTraining(Statement &statement);
  bool applyCall(Statement &statement);
  bool applyRebinding(Statement &statement);
  void bind(const std::string &name, const Type &type, bool isNumber = false);
  bool isSame(const Dims &lhs, const Dims &rhs) const;
  int64_t size(DimId dim) const { return tree->dims[size_t(dim)].size; }

  struct KnownCall {
    std::string function;
    Place place;
  };
  /// What one function, or the model, sees.
  struct Frame {
    std::string function;
    std::map<std::string, Variable> variables;
    std::map<std::string, KnownCall> calls; ///< by scope
    Dims ownDims;
    Place place;
    bool isShared = false; ///< parameters are those of another call
  };

  const Tree *tree;
  Frame frame;
  std::vector<Frame> outer; ///< of each block and call
  std::vector<std::pair<DimId, std::string>> loops;
  std::vector<Leaf> leaves;
  bool isInitial = false; ///< within the initial value of a variable
  Type initialType;       ///< of that variable
  std::string reason;
};

/// Checks a whole tree, in the training step too, and sets the types of what
/// it is for; empty, or why it is illegal.
std::string check(Tree &tree);
/// A legal tree as it is in the training step.
Tree makeTrainingStep(Tree tree);
/// Whether that may be another program: the tree has state or reads `training`,
/// if in no more than a branch that is dead.
bool mayDifferInTraining(const Tree &tree);
/// What is fed to a legal tree.
std::vector<Leaf> getLeaves(Tree &tree);

/// Whether the condition of an `if` holds.
bool evaluateCondition(const Tree &tree, const Expr &condition);
/// Whether it is about training.
bool isOfTraining(const Expr &condition);
/// The size of a dim that a function makes; 0: none.
int64_t evaluateSize(const Tree &tree, const Expr &size);
/// The statements of a block, with those of branches in the place of each `if`.
std::vector<const Statement *> flatten(const Tree &tree,
                                       const std::vector<Statement> &body);

/// The dims of every expression of a statement, and of those within.
template <class Visit> void forEachExpr(const Expr &expr, Visit &&visit) {
  visit(expr);
  for (const Expr &operand : expr.operands)
    forEachExpr(operand, visit);
  for (const Part &part : expr.parts)
    forEachExpr(part.position, visit);
}

} // namespace meshc::fuzz

#endif
