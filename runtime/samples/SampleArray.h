#ifndef MESHC_RUNTIME_SAMPLES_SAMPLEARRAY_H
#define MESHC_RUNTIME_SAMPLES_SAMPLEARRAY_H

/// The samples of one file: arrays of one element type and one shape, which any
/// thread reads in parts.
///
/// A file is a sequence of elements; sample s begins at s * stride. Samples of
/// an array lie side by side, stride being their length; windows of a text may
/// overlap, or leave elements out.
///
///   elements  0 1 2 3 4 5 6 7     sizes {3}, stride 2:  0 1 2   2 3 4   4 5 6

#include "runtime/exec/Error.h"
#include "runtime/io/RandomAccessFile.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meshc::runtime {

/// Types of elements in files of samples, little-endian.
enum class SampleElement : uint8_t { u8, i8, u16, i16, i32, i64, f32, f64 };

std::string_view getName(SampleElement element);
int64_t getBytes(SampleElement element);
bool isInteger(SampleElement element);

/// Calls `use` with a value of the C++ type of `element`.
template <typename Use> auto withType(SampleElement element, Use use) {
  switch (element) {
  case SampleElement::u8:
    return use(uint8_t());
  case SampleElement::i8:
    return use(int8_t());
  case SampleElement::u16:
    return use(uint16_t());
  case SampleElement::i16:
    return use(int16_t());
  case SampleElement::i32:
    return use(int32_t());
  case SampleElement::i64:
    return use(int64_t());
  case SampleElement::f32:
    return use(float());
  case SampleElement::f64:
    return use(double());
  }
  __builtin_unreachable(); // readers make no others
}

struct SampleShape {
  SampleElement element = SampleElement::u8;
  std::vector<int64_t> sizes; ///< of a sample
  int64_t stride = 1;         ///< in elements, at least 1
  int64_t numSamples = 0;
  /// What the file says of its samples, in which all files of a pattern agree:
  /// "samples of u8, 28 x 28 each".
  std::string format = "";

  /// Elements of a sample; the most there is where 64 bits cannot count them.
  int64_t getSampleElements() const;
  /// From the first element of the first sample to the last one of the last;
  /// the most there is, as above.
  int64_t getNumElements() const;
};

/// How many windows of `length` there are in `elements`, `stride` apart.
int64_t countWindows(int64_t elements, int64_t length, int64_t stride);

class SampleArray {
public:
  SampleArray(std::string path, SampleShape shape)
      : path(std::move(path)), shape(std::move(shape)) {}
  virtual ~SampleArray() = default;

  const std::string &getPath() const { return path; }
  const SampleShape &getShape() const { return shape; }

  /// Fills `target` with elements from `first` on, counted over the file. Any
  /// number of threads may do so. Errors: CannotRead, DamagedFile.
  virtual Status read(int64_t first, std::span<std::byte> target) const = 0;
  /// One element of integers. Errors: the same.
  Status readInteger(int64_t element, int64_t &value) const;
  /// What reading all elements takes from the file, the most there is where 64
  /// bits cannot count it; 0 where they are in memory.
  virtual int64_t getUnreadBytes() const;
  /// Equal for equal samples: of all elements, or of some in each part of the
  /// file. Errors: as of read.
  virtual Result<std::string> getDigest(bool readsAll) const;

private:
  std::string path;
  SampleShape shape;
};

/// Elements that are in memory.
class SamplesInMemory : public SampleArray {
public:
  SamplesInMemory(std::string path, SampleShape shape,
                  std::vector<std::byte> elements)
      : SampleArray(std::move(path), std::move(shape)),
        elements(std::move(elements)) {}

  Status read(int64_t first, std::span<std::byte> target) const override;
  int64_t getUnreadBytes() const override { return 0; }

private:
  std::vector<std::byte> elements;
};

/// Elements that stay in their file, behind a header. They are read, not
/// mapped: the system keeps what was read as long as there is room, and a file
/// that is cut off meanwhile is an error, no signal.
class SamplesInFile : public SampleArray {
public:
  SamplesInFile(RandomAccessFile file, uint64_t headerBytes, SampleShape shape)
      : SampleArray(file.getPath(), std::move(shape)), file(std::move(file)),
        headerBytes(headerBytes) {}

  Status read(int64_t first, std::span<std::byte> target) const override;

private:
  RandomAccessFile file;
  uint64_t headerBytes;
};

/// Calls `visit(first element, bytes)` for all elements of the samples in
/// order, in parts of a few MiB; stops at the first error.
template <typename Visitor>
Status forEachPart(const SampleArray &array, Visitor &&visit) {
  constexpr int64_t partBytes = int64_t(1) << 22;
  const int64_t width = getBytes(array.getShape().element);
  const int64_t count = array.getShape().getNumElements();
  std::vector<std::byte> part;
  for (int64_t first = 0; first < count; first += partBytes / width) {
    part.resize(size_t(std::min(partBytes, (count - first) * width)));
    Status done = array.read(first, part);
    if (done)
      done = visit(first, std::span<const std::byte>(part));
    if (!done)
      return done;
  }
  return Status::success();
}

} // namespace meshc::runtime

#endif
