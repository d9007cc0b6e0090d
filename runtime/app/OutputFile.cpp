#include "runtime/app/OutputFile.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

using namespace meshc;
using namespace meshc::runtime;

namespace fs = std::filesystem;

static std::string getPlace(const std::string &path) {
  std::error_code failed;
  const fs::path place = fs::weakly_canonical(path, failed);
  return failed ? path : place.string(); // reading or writing it tells why
}

void TakenFiles::add(const std::string &path) { places.insert(getPlace(path)); }

Status TakenFiles::addWritten(const std::string &path,
                              const std::string &what) {
  std::error_code ignored;
  const bool isFile =
      !fs::exists(path, ignored) || fs::is_regular_file(path, ignored);
  if (!isFile || places.insert(getPlace(path)).second)
    return Status::success();
  return Error{
      ErrorCode::RepeatedInput,
      fmt::format("'{}', the file for '{}', is given twice", path, what),
      "what is there would be written over"};
}

Result<OutputFile> OutputFile::create(const exec::PortT &port,
                                      const std::string &path,
                                      const Samples &samples) {
  const exec::TensorLayoutT &layout = *port.layout;
  std::vector<int64_t> shape = getSizes(layout);
  const std::optional<size_t> axis = samples.findAxis(layout);
  int64_t outer = 1;
  int64_t inner = 1;
  for (size_t i = 0; i < shape.size(); ++i)
    if (i != axis)
      (axis && i < *axis ? outer : inner) *= shape[i];
  if (axis)
    shape[*axis] = samples.count;
  Result<NpyWriter> writer = NpyWriter::create(path, layout.element, shape);
  if (!writer)
    return writer.getError();
  OutputFile file(std::move(*writer), axis ? samples.count : 1);
  file.outer = outer;
  file.inner = inner;
  return file;
}

Status OutputFile::add(const HostArray &batch, int64_t first, int64_t count) {
  const int64_t bytes = inner * getElementBytes(batch.element);
  const int64_t places = int64_t(batch.data.size()) / (outer * bytes);
  count = std::min(count, places); // the only one, without the batch dim
  for (int64_t piece = 0; piece < outer; ++piece) {
    Status written = writer.write(
        (piece * numSamples + first) * inner,
        std::span(batch.data)
            .subspan(size_t(piece * places * bytes), size_t(count * bytes)));
    if (!written)
      return written;
  }
  return Status::success();
}
