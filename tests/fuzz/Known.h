#ifndef MESHC_TESTS_FUZZ_KNOWN_H
#define MESHC_TESTS_FUZZ_KNOWN_H

namespace meshc::fuzz {

/// Kinds that the slice of the tests leaves out, each with the defect that it
/// finds. A kind leaves the list when that is mended.
struct KnownDefect {
  const char *kind, *reason;
};
inline constexpr KnownDefect knownDefects[] = {
    {"constrain-carried",
     "@ on what a loop in the same block has carried under "
     "the same name does not partition"},
};

} // namespace meshc::fuzz

#endif
