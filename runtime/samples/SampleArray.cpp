#include "runtime/samples/SampleArray.h"

#include "runtime/io/RunningDigest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

using namespace meshc;
using namespace meshc::runtime;

/// Of a longer file the digest has the first bytes of every so many.
static constexpr int64_t probeBytes = int64_t(1) << 12;
static constexpr int64_t probeDistance = int64_t(1) << 20;

std::string_view runtime::getName(SampleElement element) {
  static constexpr std::string_view names[] = {"u8",  "i8",  "u16", "i16",
                                               "i32", "i64", "f32", "f64"};
  return names[size_t(element)];
}

int64_t runtime::getBytes(SampleElement element) {
  static constexpr int64_t bytes[] = {1, 1, 2, 2, 4, 8, 4, 8};
  return bytes[size_t(element)];
}

bool runtime::isInteger(SampleElement element) {
  return element != SampleElement::f32 && element != SampleElement::f64;
}

int64_t SampleShape::getSampleElements() const {
  // Zero sizes first: they make any other size harmless.
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end())
    return 0;
  int64_t elements = 1;
  for (int64_t size : sizes)
    if (__builtin_mul_overflow(elements, size, &elements))
      return std::numeric_limits<int64_t>::max();
  return elements;
}

int64_t SampleShape::getNumElements() const {
  int64_t elements = 0;
  if (numSamples > 0 &&
      (__builtin_mul_overflow(numSamples - 1, stride, &elements) ||
       __builtin_add_overflow(elements, getSampleElements(), &elements)))
    return std::numeric_limits<int64_t>::max();
  return elements;
}

int64_t runtime::countWindows(int64_t elements, int64_t length,
                              int64_t stride) {
  return elements < length ? 0 : (elements - length) / stride + 1;
}

Status SampleArray::readInteger(int64_t element, int64_t &value) const {
  std::array<std::byte, 8> bytes{};
  Status done =
      read(element, std::span(bytes).first(size_t(getBytes(shape.element))));
  value = withType(shape.element, [&](auto found) {
    std::memcpy(&found, bytes.data(), sizeof(found));
    return int64_t(found);
  });
  return done;
}

int64_t SampleArray::getUnreadBytes() const {
  int64_t bytes = 0;
  return __builtin_mul_overflow(shape.getNumElements(), getBytes(shape.element),
                                &bytes)
             ? std::numeric_limits<int64_t>::max()
             : bytes;
}

Result<std::string> SampleArray::getDigest(bool readsAll) const {
  RunningDigest digest;
  const std::string head =
      fmt::format("{} {} {} {}", getName(shape.element), shape.numSamples,
                  shape.stride, shape.getSampleElements());
  digest.add(std::as_bytes(std::span(head)));
  if (readsAll) {
    Status read =
        forEachPart(*this, [&](int64_t, std::span<const std::byte> bytes) {
          digest.add(bytes);
          return Status::success();
        });
    return read ? Result<std::string>(digest.get())
                : Result<std::string>(read.getError());
  }
  const int64_t width = getBytes(shape.element);
  const int64_t count = shape.getNumElements();
  std::vector<std::byte> probe;
  for (int64_t first = 0; first < count; first += probeDistance / width) {
    probe.resize(size_t(std::min(probeBytes, (count - first) * width)));
    if (Status probed = read(first, probe); !probed)
      return probed.getError();
    digest.add(probe);
  }
  return digest.get();
}

Status SamplesInMemory::read(int64_t first, std::span<std::byte> target) const {
  std::memcpy(target.data(),
              elements.data() + first * getBytes(getShape().element),
              target.size());
  return Status::success();
}

Status SamplesInFile::read(int64_t first, std::span<std::byte> target) const {
  return file.read(headerBytes + uint64_t(first * getBytes(getShape().element)),
                   target);
}
