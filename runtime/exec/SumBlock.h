#ifndef MESHC_RUNTIME_EXEC_SUMBLOCK_H
#define MESHC_RUNTIME_EXEC_SUMBLOCK_H

#include <cstdint>

namespace meshc::runtime {

/// Terms that one accumulator takes before it is added to another one.
///
/// Each addition rounds the sum so far by half a unit in its last place at
/// most, u = 2^-24 of it in f32. One accumulator of n terms has an error of up
/// to (n - 1) u times the sum of the terms' magnitudes, and comes near it where
/// all roundings have one direction: 2e7 ones are 2^24 in f32. In blocks,
///
///   s = ((x0 + .. + x63) + (x64 + .. + x127) + ..) + ((x4096 + ..) + ..) + ..
///
/// a term meets 64 roundings on each of log64 n levels, and the bound is
/// 64 u ceil(log64 n): 320 u for 2e7 terms of one accumulator. That takes one
/// addition more for 64 terms.
/// Source: N. Higham, Accuracy and Stability of Numerical Algorithms, 2nd
/// edition, 4.2 and 4.3. 64 is where rows of up to 1024 columns and parts of 64
/// rows, most that trainings have, are one block.
inline constexpr int64_t sumBlock = 64;

/// Levels of accumulators for so many terms, the outermost one included.
constexpr int countSumLevels(int64_t terms) {
  int levels = 1;
  for (; terms > sumBlock; ++levels)
    terms = (terms - 1) / sumBlock + 1;
  return levels;
}

/// How many levels, from the innermost on, have a whole block when `terms` are
/// there: each is added to the next one then, and starts again.
constexpr int countWholeBlocks(int64_t terms) {
  int levels = 0;
  for (; terms > 0 && terms % sumBlock == 0; terms /= sumBlock)
    ++levels;
  return levels;
}

} // namespace meshc::runtime

#endif
