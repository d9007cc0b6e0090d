#ifndef MESHC_TESTS_FUZZ_ISOLATE_H
#define MESHC_TESTS_FUZZ_ISOLATE_H

#include "tests/fuzz/Run.h"

namespace meshc::fuzz {

/// Runs a case in a process of its own, so that a crash or a hang is a failure
/// of that case.
Failure runIsolated(const Case &item, const Checks &checks);

} // namespace meshc::fuzz

#endif
