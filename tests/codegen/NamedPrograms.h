#ifndef MESHC_TESTS_CODEGEN_NAMEDPROGRAMS_H
#define MESHC_TESTS_CODEGEN_NAMEDPROGRAMS_H

#include "tests/dialect/Programs.h"

#include <string>

namespace meshc::test {

/// Programs @p of one device, as text, from operations on named dimensions,
/// taken through the passes that a user's program takes: for what partitioning
/// builds and ProgramText does not write.
///
/// Types are what stands in `!nd.tensor<...>`, with a sharding: `["a"=7], f32,
/// <"a"@x>`. Meshes are what stands in the brackets: `"x"=2, "y"=3`. Fail the
/// test and return nothing if a pass does.

/// The output "y" of `type`: random numbers from the input "seed", an i64.
/// `distribution`: "uniform(-1.0, 3.0)", "normal(0.0, 2.0)".
std::string getRandomProgram(const std::string &distribution, int64_t key,
                             const std::string &type,
                             const std::string &mesh = R"("x"=1)");

/// The output "y" of `type`: the input "x" at the input "i" along "v".
std::string getGatherProgram(const std::string &x, const std::string &i,
                             const std::string &type,
                             const std::string &mesh = R"("x"=1)");

/// The output "y" of `type`: the view of the input "x" by `accesses`, what
/// stands in its brackets: `"v" = 2 "r" + "k" - 1`.
std::string getViewProgram(const std::string &x, const std::string &accesses,
                           const std::string &type,
                           const std::string &mesh = R"("x"=1)");

/// The gradient of the sum of x[i] * w by x, as output "grad:x", for types
/// without a sharding. `sum`: that of the sum, of no dimension.
std::string getGatherGradient(const std::string &x, const std::string &i,
                              const std::string &w, const std::string &sum);

/// Numbers for their inputs: small integers, which every element type holds and
/// whose sums are exact; 0 and 1 for "i1".
F64Tensor getWhole(llvm::ArrayRef<int64_t> sizes, const std::string &type,
                   unsigned seed);

} // namespace meshc::test

#endif
