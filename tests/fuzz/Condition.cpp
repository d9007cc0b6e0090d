#include "tests/fuzz/Condition.h"
#include "tests/fuzz/Check.h"

#include <algorithm>
#include <cmath>

using namespace meshc::fuzz;

Results meshc::fuzz::getResults(const Evaluation &evaluation) {
  Results results = evaluation.outputs;
  for (const auto &[name, tensor] : evaluation.gradients)
    results["grad:" + name] = tensor;
  return results;
}

double meshc::fuzz::getCondition(const Results &exact, const Results &rounded) {
  double worst = 0;
  for (const auto &[name, tensor] : exact) {
    const Tensor &other = rounded.at(name);
    double largest = 0, error = 0;
    for (size_t i = 0; i < tensor.elements.size(); ++i) {
      largest = std::max(largest, std::fabs(tensor.elements[i]));
      error =
          std::max(error, std::fabs(tensor.elements[i] - other.elements[i]));
    }
    if (largest > 0)
      worst = std::max(worst, error / largest);
  }
  return worst;
}

std::string meshc::fuzz::findProblemOf(const Tree &tree,
                                       const std::vector<Leaf> &leaves,
                                       const Feeds &feeds,
                                       Precision precision) {
  const bool isNarrow = precision != Precision::F32;
  const Evaluation exact =
      evaluate(tree, leaves, feeds, Precision::F64,
               isNarrow ? maxRoundings * getUnit(precision) : f32Margin);
  if (!exact.problem.empty())
    return exact.problem;
  // An eighth of the least that is allowed on devices: other orders of the same
  // operations round differently.
  constexpr double limit = 4 * 32 * 0x1p-24 / 8;
  auto isConditioned = [&](Precision rounding, double most) {
    const Evaluation rounded = evaluate(tree, leaves, feeds, rounding);
    return rounded.problem.empty() &&
           getCondition(getResults(exact), getResults(rounded)) <= most;
  };
  return isConditioned(Precision::F32, limit) &&
                 (!isNarrow || isConditioned(precision, maxCondition))
             ? ""
             : "ill-conditioned";
}

std::string meshc::fuzz::findProblem(const Tree &tree, uint64_t seed,
                                     Precision precision) {
  Tree copy = tree;
  const std::vector<Leaf> leaves = getLeaves(copy);
  const Feeds feeds = drawFeeds(copy, leaves, seed);
  std::string problem = findProblemOf(copy, leaves, feeds, precision);
  if (problem.empty() && mayDifferInTraining(copy))
    problem = findProblemOf(makeTrainingStep(copy), leaves, feeds, precision);
  return problem;
}
