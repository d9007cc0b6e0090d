#ifndef MESHC_TESTS_FUZZ_COMPARE_H
#define MESHC_TESTS_FUZZ_COMPARE_H

/// Between tensors of a tree and those of programs, whose dims have an order.

#include "dialect/ND.h"
#include "tests/dialect/Programs.h"
#include "tests/fuzz/Evaluate.h"

namespace meshc::fuzz {

/// The tensor in the order of a program's type.
meshc::test::F64Tensor toProgram(const Tree &tree, const Tensor &tensor,
                                 nd::NamedTensorType type);
/// A result of a program, in the order of the tree; empty if it has other dims.
std::optional<Tensor> fromProgram(const Tree &tree,
                                  const meshc::test::F64Tensor &tensor,
                                  nd::NamedTensorType type);

/// Why `found` is not `expected`, whose largest magnitude (at least `least`)
/// times `bound` is how far an element may be off; empty if it is. Of zeros
/// alone they may be off by what rounding leaves of terms that cancel.
/// Integers and truths are equal.
std::string compare(const Tensor &expected, const Tensor &found, double bound,
                    double least);

} // namespace meshc::fuzz

#endif
