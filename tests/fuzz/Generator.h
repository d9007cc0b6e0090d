#ifndef MESHC_TESTS_FUZZ_GENERATOR_H
#define MESHC_TESTS_FUZZ_GENERATOR_H

/// The state of Generate.h; for its own sources.

#include "tests/fuzz/Check.h"
#include "tests/fuzz/Generate.h"

#include <functional>
#include <random>

namespace meshc::fuzz {

class Generator {
public:
  Generator(uint64_t seed, const Kinds &leftOut)
      : random(seed), leftOut(leftOut) {}

  Tree run(int statements);

private:
  using Body = std::vector<Statement>;

  //===-- Choices ---------------------------------------------------------===//
  int64_t pick(int64_t choices) {
    return int64_t(random() % uint64_t(choices));
  }
  bool flip(int64_t outOf = 2) { return pick(outOf) == 0; }
  template <class T> const T &pickFrom(const std::vector<T> &all) {
    return all[size_t(pick(int64_t(all.size())))];
  }
  bool allows(const char *kind) const { return !leftOut.contains(kind); }
  std::string makeName(const char *stem) {
    return stem + std::to_string(++numNames);
  }
  int64_t size(DimId dim) const { return tree.dims[size_t(dim)].size; }
  /// A number of eighths, which f32 holds.
  double pickNumber() { return double(pick(25) - 12) / 8; }
  /// A visible value that `is` so, of the last ones rather than of the first.
  std::optional<std::string>
  pickVariable(const std::function<bool(const Variable &)> &is);
  std::optional<std::string> pickFloat();
  std::optional<std::string> pickFloatWithDims();
  const Variable &get(const std::string &name) {
    return checker->getVariable(name);
  }
  const Dims &getDims(const std::string &name) { return get(name).type.dims; }
  /// A dim that a value lacks; of this size, if any is asked for.
  std::optional<DimId> pickOtherDim(const Dims &not_, int64_t ofSize = 0,
                                    int64_t atMost = 1000);
  Dims pickSubset(Dims dims, bool isEmptyAllowed);

  //===-- Statements ------------------------------------------------------===//
  void declare();
  void addStatements(Body &body, int count);
  void addStatement(Body &body);
  /// let NAME = ... of some expression.
  void addValue(Body &body);
  /// Adds it if it is legal.
  bool add(Body &body, Statement statement, double magnitude);
  /// let NAME = value, within bounds.
  bool bind(Body &body, Expr value);
  /// Of what is left out, the kinds that no choice of a generator is.
  bool isLeftOut(const Expr &value);
  void addParameter(Body &body);
  /// let NAME: TYPE = value.
  bool addTyped(Body &body);
  void finish();
  double getMagnitude(const Expr &expr);
  double getLayerMagnitude(const Expr &expr);

  //===-- Expressions -----------------------------------------------------===//
  std::optional<Expr> makeElementwise();
  std::optional<Expr> makeUnary(Expr x);
  std::optional<Expr> makeReduction();
  std::optional<Expr> makeEinsum();
  std::optional<Expr> makeShape();
  std::optional<Expr> makeChoice();
  std::optional<Expr> makeInteger();
  std::optional<Expr> makeDraw();
  std::optional<Expr> makeLayer();
  std::optional<Expr> makeWindowed(const std::string &x);
  std::optional<Expr> makeView();
  std::optional<Expr> makeViewOf(const std::string &name);
  std::optional<Expr> makePosition(DimId dim, const Dims &taken);
  std::optional<Expr> makeTensorPosition(DimId dim);
  std::optional<Expr> makeNumber(int64_t positions, const Dims &taken);
  std::optional<Expr> makeSeveral(const std::string &name);
  std::optional<Expr> makeSlice();
  std::optional<Expr> makeViewedProduct();
  /// A name, or sometimes an expression of its type.
  Expr makeOperand(const std::string &name);

  //===-- Functions and branches ------------------------------------------===//
  /// Of a function the types of the first arguments, and what arguments and
  /// values are at most.
  struct Limits {
    std::vector<Type> types;
    std::vector<double> arguments, values;
    /// Of integers that are fed: they lie in [0, bound). 0: others.
    std::vector<int64_t> argumentBounds, valueBounds;
  };
  int64_t getBound(const Expr &expr) const {
    auto known = bounds.find(expr.name);
    return expr.kind == ExprKind::Name && known != bounds.end() ? known->second
                                                                : 0;
  }
  void addFunction(Body &body);
  void fillFunction(Function &made, Limits &most);
  bool addCall(Body &body);
  /// Adds a call if it is legal.
  bool addUse(Body &body, Statement use);
  void addOwnDim(Body &body);
  void addBranch(Body &body);
  void rebindInBranch(Body &body);
  /// Adds what gives a visible name another value, if it is legal.
  bool addRebinding(Body &body, Statement statement, double magnitude);
  void addDropout(Body &body);
  Expr makeComparison();
  Expr makeCondition();
  /// What no run executes, nor would compile.
  Body makeDead();
  /// An `if` whose live side is this.
  Statement wrap(Statement live);
  void addState(Body &body);
  Expr makeInitialOf(const Type &type);
  std::optional<Expr> makeNextOf(const std::string &name);
  std::optional<Statement> makeSetting(const std::string &name,
                                       bool isTraining);
  /// `state`: what it sets; empty: of another value.
  void addTraining(Body &body, const std::string &state = "");
  /// if training { STATEMENT }, if it is legal.
  void addWhenTraining(Body &body, Statement statement);
  std::optional<std::string> pickRebindable();
  std::optional<Statement> makeRebinding(const std::string &name);
  Expr makeInitial(const Type &type);
  Expr makeInitialTerm(const Type &type);

  //===-- Loops -----------------------------------------------------------===//
  void addLoop(Body &body);
  /// What the block of a loop makes of values outside of it.
  struct Roles {
    std::vector<std::string> carried, summed, stacked;
  };
  Roles makeRoles(Body &body, DimId dim);
  void fillLoop(Statement &loop, const Roles &roles);
  void update(Body &body, const Statement &loop, const Roles &roles);
  std::optional<Expr> makeIntegersLike(const Type &type);
  std::optional<Expr> makeLike(const Type &type);

  std::mt19937_64 random;
  const Kinds &leftOut;
  Tree tree;
  std::optional<Checker> checker;
  std::vector<std::string> order; ///< names, as they were bound
  /// What the blocks around must not read: sums, and what they set.
  std::vector<std::string> hidden;
  Dims declared, windows;
  std::map<std::string, int64_t> bounds; ///< integers lie in [0, bound)
  /// The function whose body is made; empty: the model's is.
  std::string function;
  std::map<std::string, Limits> limits; ///< of functions
  int numNames = 0;
  int depth = 0;
  bool isInTraining = false; ///< what is made is of the training step alone
};

} // namespace meshc::fuzz

#endif
