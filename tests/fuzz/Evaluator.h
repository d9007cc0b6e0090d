#ifndef MESHC_TESTS_FUZZ_EVALUATOR_H
#define MESHC_TESTS_FUZZ_EVALUATOR_H

/// The state of Evaluate.h; for its own sources.

#include "tests/fuzz/Check.h"
#include "tests/fuzz/Evaluate.h"
#include "tests/fuzz/Tape.h"

#include <set>

namespace meshc::fuzz {

class Evaluator {
public:
  Evaluator(const Tree &tree, Precision precision, double margin)
      : tree(tree), tape(precision), margin(margin) {}

  /// Adds the dims of a function that are made of a dim of the samples.
  void findParted(const std::vector<Statement> &body);
  void feed(const std::vector<Leaf> &leaves, const Feeds &feeds);
  /// Finds the random numbers of a block in the scopes `path`, and their keys.
  void findDraws(const std::vector<Statement> &body, const std::string &path);
  void run(const std::vector<Statement> &body);
  Evaluation finish(const std::vector<Leaf> &leaves);
  /// Adds what the variables of a block in `place` begin as.
  void findInitials(const std::vector<Statement> &body, const Place &place,
                    std::map<std::string, Tensor> &initials);

private:
  /// Where every dim is, by its number.
  using Point = std::vector<int64_t>;
  struct Value {
    Dims dims;
    std::vector<Scalar> elements;
  };

  /// Nodes of the longest program: 200 MB.
  static constexpr size_t maxNodes = 6'000'000;

  void run(const Statement &statement);
  void runLoop(const Statement &loop);
  void runCall(const Statement &call);
  void addTo(const std::string &name, const Expr &term);
  void findDraws(const Expr &expr, const std::string &name,
                 std::map<std::string, int> &numDraws);
  Value bind(const Expr &expr);
  /// `point`, and where the iterations that run are, of variables.
  Point atIterations(Point point) const;
  Scalar readVariable(const std::string &name, const Point &point);
  /// What the training step leaves of state: at the end of the block that
  /// declares it, and of layers in an expression.
  void keepStates(const std::vector<Statement> &body);
  void keepState(const std::string &name, const Dims &dims, const Value &value);
  void keepStates(const Expr &expr);

  /// The element of an expression at a point that has all its dims.
  Scalar at(const Expr &expr, Point &point);
  Scalar atOperator(const Expr &expr, Point &point);
  Scalar atCall(const Expr &expr, Point &point);
  Scalar atReduce(const Expr &expr, Point &point);
  Scalar atIndex(const Expr &expr, Point &point);
  Scalar atRandom(const Expr &expr, const Point &point);
  Scalar atLayer(const Expr &expr, Point &point);
  Scalar atNorm(const Expr &expr, Point &point);
  /// The mean over `dims`, and that of the squares of what is off it.
  std::pair<Scalar, Scalar> getMoments(const Expr &x, const Dims &dims,
                                       Point &point);
  Scalar atConvolution(const Expr &expr, Point &point);
  Scalar atPool(const Expr &expr, Point &point);
  /// Sets where a window sees x; false where that is outside.
  bool lookThrough(const Expr &expr, const Point &point, Point &seen) const;

  template <class Term>
  Scalar sum(const Dims &dims, Point &point, Term &&term) {
    Scalar total;
    forEach(dims, point, [&] { total = tape.accumulate(total, term()); });
    return tape.settle(total);
  }
  Scalar softmax(const Expr &x, const Dims &over, Point point, bool takesLog);
  /// The extreme of `candidates`, and its place.
  Scalar findExtreme(const std::vector<Scalar> &candidates, bool isMaximum,
                     size_t &place);
  /// Notes a problem if rounding decides between two floats.
  void decide(Scalar x, Scalar y);
  void note(const char *what) {
    if (problem.empty())
      problem = what;
  }

  int64_t size(DimId dim) const { return tree.dims[size_t(dim)].size; }
  bool isParted(DimId dim) const {
    const DimId prime = tree.dims[size_t(dim)].primeOf;
    return parted.contains(prime < 0 ? dim : prime);
  }
  /// A position, and one more than the largest, as random numbers count them:
  /// of the whole batch where a part has some of its samples.
  uint64_t getDrawn(DimId dim, int64_t position) const {
    return isParted(dim) ? uint64_t(position * tree.parts + tree.part)
                         : uint64_t(position);
  }
  uint64_t getNumDrawn(DimId dim) const {
    return uint64_t(isParted(dim) ? size(dim) * tree.parts : size(dim));
  }
  size_t getOffset(const Dims &dims, const Point &point) const;

  template <class Visit>
  void forEach(const Dims &dims, Point &point, Visit &&visit,
               size_t depth = 0) const {
    if (depth == dims.size()) {
      visit();
      return;
    }
    const auto dim = size_t(dims[depth]);
    const int64_t before = point[dim];
    for (int64_t i = 0; i < size(dims[depth]); ++i) {
      point[dim] = i;
      forEach(dims, point, visit, depth + 1);
    }
    point[dim] = before;
  }

  const Tree &tree;
  Tape tape;
  const double margin;
  std::map<std::string, Value> values, variables;
  std::map<std::string, Value> left; ///< of state that the step has set
  std::map<std::string, std::vector<int>> leafNodes;
  std::map<const Expr *, uint64_t> keys; ///< of random numbers
  /// By name: in runs, and of what variables begin as.
  std::map<std::string, int> numDraws, numInitialDraws;
  std::vector<std::pair<DimId, std::string>> loops;
  Place place;                            ///< of variables
  std::map<std::string, Place> places;    ///< of calls, by scope
  std::set<DimId> parted = {Tree::batch}; ///< without primes
  bool isInitial = false;                 ///< computes what variables begin as
  std::vector<std::pair<std::string, Element>> outputs;
  std::string problem;
};

} // namespace meshc::fuzz

#endif
