#ifndef MESHC_TESTS_FUZZ_CONDITION_H
#define MESHC_TESTS_FUZZ_CONDITION_H

/// How much roundings take off the results of a tree: what cannot be compared.

#include "tests/fuzz/Evaluate.h"

namespace meshc::fuzz {

using Results = std::map<std::string, Tensor>;

/// In 16 bits: how much further off than roundings take the results of the tree
/// those of devices may be, which round in other places; and how far that may
/// be, relative to the largest element, so that a mistake is seen.
inline constexpr double maxRoundings = 8;
inline constexpr double maxCondition = 1.0 / 32;

/// Outputs, and gradients as "grad:NAME".
Results getResults(const Evaluation &evaluation);

/// Relative to the largest element, at least 1: the most that rounding to f32
/// takes off any result.
double getCondition(const Results &exact, const Results &rounded);

/// Whether the values of the tree can be compared at all, where devices compute
/// in `precision`; if not, why.
std::string findProblem(const Tree &tree, uint64_t seed, Precision precision);
/// The same of a tree for what it is meant, and of these feeds.
std::string findProblemOf(const Tree &tree, const std::vector<Leaf> &leaves,
                          const Feeds &feeds, Precision precision);

} // namespace meshc::fuzz

#endif
