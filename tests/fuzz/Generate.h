#ifndef MESHC_TESTS_FUZZ_GENERATE_H
#define MESHC_TESTS_FUZZ_GENERATE_H

#include "tests/fuzz/Tree.h"

#include <set>
#include <span>
#include <string>

namespace meshc::fuzz {

/// What a program may consist of, by name: every kind can be left out.
struct Kind {
  const char *name, *meaning;
};
std::span<const Kind> getKinds();

using Kinds = std::set<std::string>;

/// A legal program of some `statements` statements in its blocks, a function of
/// the seed and of what is left out alone.
Tree generate(uint64_t seed, int statements, const Kinds &leftOut);

} // namespace meshc::fuzz

#endif
