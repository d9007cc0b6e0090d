#ifndef MESHC_TESTS_FUZZ_EVALUATE_H
#define MESHC_TESTS_FUZZ_EVALUATE_H

/// What a program means: the tree is walked position by position in f64, loops
/// are run as they are written, and gradients follow from the slopes of every
/// single operation on numbers (Tape.h). Nothing here knows of tensors'
/// gradients, of views as operations, or of loops as values.

#include "tests/fuzz/Precision.h"
#include "tests/fuzz/Tree.h"

#include <map>

namespace meshc::fuzz {

/// A whole tensor, row-major in the order of `dims`.
struct Tensor {
  Dims dims;
  Element element = Element::F32;
  std::vector<double> elements;
};

/// What the leaves hold, by name. Floats are such that f32 holds them, in
/// [-1, 1).
using Feeds = std::map<std::string, Tensor>;
Feeds drawFeeds(const Tree &tree, const std::vector<Leaf> &leaves,
                uint64_t seed);

struct Evaluation {
  /// In the training step also what it leaves of state, by leaf.
  std::map<std::string, Tensor> outputs;
  std::map<std::string, Tensor> gradients; ///< of "loss", by leaf
  /// Why the program cannot be compared: a decision hangs on rounding, or a
  /// value is infinite, NaN or large.
  std::string problem;
};

/// Numbers that are closer than this relative to their size, or to 1, may come
/// in either order in f32.
inline constexpr double f32Margin = 1e-4;

/// Runs a legal tree, whose types are set (Check.h), as what it is for. Each
/// operation is rounded to `precision`. Numbers that are closer than `margin`,
/// relative to their size or to 1, may come in either order.
Evaluation evaluate(const Tree &tree, const std::vector<Leaf> &leaves,
                    const Feeds &feeds, Precision precision = Precision::F64,
                    double margin = f32Margin);

/// What variables begin as that say so by an expression, by name; of all
/// iterations of the loops around them.
std::map<std::string, Tensor> evaluateInitials(const Tree &tree);

} // namespace meshc::fuzz

#endif
