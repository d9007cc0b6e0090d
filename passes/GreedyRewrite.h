#ifndef MESHC_PASSES_GREEDYREWRITE_H
#define MESHC_PASSES_GREEDYREWRITE_H

#include "mlir/IR/PatternMatch.h"

namespace meshc {

/// Applies `patterns` to what is inside `root`, and folds, until nothing
/// matches any more.
///
/// Patterns have to come to an end by themselves: every rewrite makes some
/// measure smaller (Simplifications.h has that of ours). A set that does not is
/// stopped after `rewritesPerOperation` rewrites for each operation there was,
/// with an error that names the pattern that kept matching, at an operation
/// that it matched.
mlir::LogicalResult rewriteGreedily(mlir::Operation *root,
                                    mlir::RewritePatternSet patterns);

/// Rewrites and folds of one run: a fixed part for small programs, and so many
/// for each operation. A generous bound, not a measurement: the random programs
/// and the chains of tests/passes/SimplificationsTest.cpp stay below it, and
/// what does not end reaches it within seconds.
inline constexpr int64_t fewestRewrites = 4096;
inline constexpr int64_t rewritesPerOperation = 64;

} // namespace meshc

#endif
