#ifndef MESHC_TESTS_FUZZ_RANDOMBITS_H
#define MESHC_TESTS_FUZZ_RANDOMBITS_H

#include <cstdint>

namespace meshc::fuzz {

/// Two words of Philox4x32-10 (Salmon et al. 2011) for a key and the counter
/// words (counter, stream, 0).
uint64_t getBits(uint64_t key, uint64_t counter, uint32_t stream);

/// What a run of a program draws from; runs count from 1.
uint64_t getSeedOfRun(int64_t seed, uint64_t run);

/// The x of which y, within (-1, 1), is the error function.
double invertErf(double y);

} // namespace meshc::fuzz

#endif
