#ifndef MESHC_TESTS_MUTANTS_MUTATOR_H
#define MESHC_TESTS_MUTANTS_MUTATOR_H

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace meshc::mutants {

/// Makes mutants of sound files: one to four edits of one of them.
class Mutator {
public:
  Mutator(std::vector<std::string> files, uint64_t seed, bool isText)
      : files(std::move(files)), seed(seed), isText(isText) {}

  struct Mutant {
    size_t file; ///< it is one of
    std::string bytes;
  };

  /// The same for the same files, seed and number.
  Mutant make(uint64_t number);

private:
  size_t pick(size_t count) { return count ? random() % count : 0; }
  void edit(std::string &bytes);

  std::vector<std::string> files;
  uint64_t seed;
  bool isText;
  std::mt19937_64 random;
};

} // namespace meshc::mutants

#endif
