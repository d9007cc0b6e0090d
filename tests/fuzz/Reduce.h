#ifndef MESHC_TESTS_FUZZ_REDUCE_H
#define MESHC_TESTS_FUZZ_REDUCE_H

#include "tests/fuzz/Run.h"

namespace meshc::fuzz {

/// A smaller case that fails in the same stage: without statements, with their
/// values as inputs, with parts of expressions, smaller dims, fewer rules and
/// axes. Runs at most `attempts` cases.
Case reduce(const Case &item, const Failure &failure, const Checks &checks,
            int attempts);

} // namespace meshc::fuzz

#endif
