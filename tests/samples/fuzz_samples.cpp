/// libFuzzer's target for readers of samples; MESHC_FUZZED_READER names the
/// one: whatever a file says, it is refused, or all of its samples can be read.

#include "runtime/samples/ImageFile.h"
#include "runtime/samples/Readers.h"

#include <cstdlib>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

/// A file in memory with these bytes.
static std::string makeFile(const uint8_t *data, size_t size) {
  static const int file = memfd_create("samples", 0);
  if (ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != ssize_t(size))
    std::abort();
  return "/proc/self/fd/" + std::to_string(file);
}

static exec::DataSourceT makeSource(const std::string &reader) {
  exec::DataSourceT source;
  source.input = "x";
  source.stride = 2;
  source.columns = {"a", "b", "a"};
  for (exec::DataReader known : exec::EnumValuesDataReader())
    if (reader == exec::EnumNameDataReader(known))
      source.reader = known;
  if (source.reader == exec::DataReader::text)
    source.units = "chars";
  return source;
}

static void readAllOf(const SampleArray &array) {
  const SampleShape &shape = array.getShape();
  if (shape.numSamples < 0 || shape.stride < 1)
    std::abort();
  // Samples of no elements may be as many as a header says.
  if (shape.getSampleElements() == 0)
    return;
  Status read = forEachPart(array, [](int64_t, std::span<const std::byte>) {
    return Status::success();
  });
  static_cast<void>(read); // what is damaged is refused
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const std::string reader = std::getenv("MESHC_FUZZED_READER");
  const std::string path = makeFile(data, size);
  if (reader == "png" || reader == "jpeg") {
    for (int64_t channels : {1, 3})
      static_cast<void>(reader == "png" ? readPng(path, {5, 7, channels})
                                        : readJpeg(path, {5, 7, channels}));
    return 0;
  }
  static exec::DataSourceT source = makeSource(reader);
  for (exec::ElementType element :
       {exec::ElementType::f32, exec::ElementType::i64}) {
    source.train = path;
    Result<Samples> opened = openSamples({source, path, "", {3}, element});
    if (opened)
      readAllOf(**opened);
  }
  return 0;
}
