#include "runtime/app/OutputFile.h"

#include <algorithm>

using namespace meshc;
using namespace meshc::runtime;

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
