#include "runtime/samples/SampleFiles.h"

#include "runtime/io/RunningDigest.h"

#include <algorithm>

using namespace meshc;
using namespace meshc::runtime;

/// Files up to this length, together, are looked at as a whole before a
/// training: some seconds at the rate of a slow disk.
static constexpr int64_t quickBytes = int64_t(1) << 28;

void SampleFiles::add(std::unique_ptr<SampleArray> file) {
  ends.push_back(getNumSamples() + file->getShape().numSamples);
  files.push_back(std::move(file));
}

SampleFiles::Place SampleFiles::find(int64_t sample) const {
  const auto number =
      size_t(std::upper_bound(ends.begin(), ends.end(), sample) - ends.begin());
  const SampleArray &file = *files[number];
  const int64_t before = number == 0 ? 0 : ends[number - 1];
  return {file, (sample - before) * file.getShape().stride};
}

bool SampleFiles::isQuick() const {
  int64_t bytes = 0;
  for (const auto &file : files)
    if (__builtin_add_overflow(bytes, file->getUnreadBytes(), &bytes))
      return false;
  return bytes <= quickBytes;
}

Result<std::string> SampleFiles::getDigest() const {
  const bool readsAll = isQuick();
  if (files.size() == 1)
    return files.front()->getDigest(readsAll);
  RunningDigest digest;
  for (const auto &file : files) {
    Result<std::string> one = file->getDigest(readsAll);
    if (!one)
      return one;
    digest.add(std::as_bytes(std::span(*one)));
  }
  return digest.get();
}
