#ifndef MESHC_RUNTIME_SAMPLES_SAMPLEFILES_H
#define MESHC_RUNTIME_SAMPLES_SAMPLEFILES_H

/// The samples of an input: those of its files, one file behind the other.
///
/// A sample is in one file: a window that would begin in one and end in the
/// next is none.
///
///   a: 0 1 2 3 4   b: 5 6 7 8   windows of 3, stride 2:  0 1 2  2 3 4  5 6 7

#include "runtime/samples/SampleArray.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace meshc::runtime {

class SampleFiles {
public:
  /// `name`: the path of the file, or the pattern that names all of them.
  explicit SampleFiles(std::string name) : name(std::move(name)) {}

  /// The next file, of the same format as those before.
  void add(std::unique_ptr<SampleArray> file);

  const std::string &getName() const { return name; }
  int64_t getNumSamples() const { return ends.empty() ? 0 : ends.back(); }
  std::span<const std::unique_ptr<SampleArray>> getFiles() const {
    return files;
  }

  struct Place {
    const SampleArray &file;
    int64_t element; ///< of the file, with which the sample begins
  };
  /// Where a sample is, of all counted from 0.
  Place find(int64_t sample) const;

  /// Whether all elements can be looked at before they are needed.
  bool isQuick() const;
  /// Equal for equal samples in equally many files; whatever these are called.
  /// Errors: as of reading.
  Result<std::string> getDigest() const;

private:
  std::string name;
  std::vector<std::unique_ptr<SampleArray>> files;
  std::vector<int64_t> ends; ///< samples of each file and of those before it
};

} // namespace meshc::runtime

#endif
