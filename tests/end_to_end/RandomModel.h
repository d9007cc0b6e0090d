#ifndef MESHC_TESTS_END_TO_END_RANDOMMODEL_H
#define MESHC_TESTS_END_TO_END_RANDOMMODEL_H

#include "tests/end_to_end/Harness.h"

namespace meshc::test {

/// A random model of up to `operations` operations on dimensions "d0" to "d4",
/// with a loss, its gradient and a training step; a function of `seed` alone.
///
/// Values stay in a range where f64 is exact enough to compare, and no decision
/// hangs on rounding: floats are compared with constants only.
Model makeRandomModel(mlir::MLIRContext &context, uint64_t seed,
                      int operations);

/// A random mesh of up to 8 devices and a random layout for the model; in most
/// cases a legal one.
Layout makeRandomLayout(const Model &model, uint64_t seed);

} // namespace meshc::test

#endif
