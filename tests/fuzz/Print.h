#ifndef MESHC_TESTS_FUZZ_PRINT_H
#define MESHC_TESTS_FUZZ_PRINT_H

#include "tests/fuzz/Tree.h"

namespace meshc::fuzz {

/// The spec, without mesh and layout; `recipe`: how it is trained.
std::string print(const Tree &tree, const std::string &recipe = "");
std::string print(const Tree &tree, const Expr &expr);

/// The dims that a spec names, or has a prime of, in the order of the tree.
Dims findUsedDims(const Tree &tree);

} // namespace meshc::fuzz

#endif
