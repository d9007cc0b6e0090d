#include "runtime/data/NpyFile.h"

#include "runtime/data/Npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

using namespace meshc;
using namespace meshc::runtime;

namespace {

/// The bytes of a file from the first on.
class FrontReader : public ByteReader {
public:
  explicit FrontReader(const RandomAccessFile &file)
      : file(file), rest(file.getSize()) {}

  Result<size_t> read(std::span<std::byte> target) override {
    const size_t count = size_t(std::min<uint64_t>(target.size(), rest));
    Status filled = file.read(file.getSize() - rest, target.first(count));
    if (!filled)
      return filled.getError();
    rest -= count;
    return count;
  }
  std::optional<uint64_t> getMost() const override { return rest; }

private:
  const RandomAccessFile &file;
  uint64_t rest;
};

} // namespace

Result<NpyFile> NpyFile::open(const std::string &path) {
  NpyFile result(path);
  std::error_code failed; // opening it tells why
  if (!std::filesystem::is_regular_file(path, failed)) {
    // Opened once: who writes into a pipe may have gone by then.
    Result<HostArray> array = readNpy(path);
    if (!array)
      return array.getError();
    result.array = std::move(*array);
    return result;
  }
  Result<RandomAccessFile> opened = RandomAccessFile::open(path);
  if (!opened)
    return opened.getError();
  FrontReader reader(*opened);
  Result<NpyHeader> header = parseNpyHeader(reader, path);
  if (!header)
    return header.getError();
  result.array = {header->element, std::move(header->shape), {}};
  const std::optional<uint64_t> declared =
      countBytes(header->storage.bytes, result.array.shape);
  const uint64_t found = opened->getSize() - header->bytes;
  if (declared != found)
    return Error{
        ErrorCode::DamagedFile,
        fmt::format("'{}' is damaged: {} bytes of elements, expected {} for "
                    "its shape {}",
                    path, found,
                    declared ? std::to_string(*declared)
                             : "more than any file has",
                    toString(result.array.element, result.array.shape)),
        ""};
  result.headerBytes = header->bytes;
  result.storage = header->storage;
  result.file = std::move(*opened);
  return result;
}

Status NpyFile::read(int64_t first, std::span<std::byte> target) const {
  const uint64_t offset = uint64_t(first * getElementBytes(array.element));
  if (!file) {
    std::copy_n(array.data.begin() + ptrdiff_t(offset), target.size(),
                target.begin());
    return Status::success();
  }
  if (storage.isPlain()) {
    Status filled = file->read(headerBytes + offset, target);
    return filled ? checkBooleans(array.element, target, path) : filled;
  }
  // In pieces, so that no more is in memory than a part.
  constexpr size_t pieceElements = size_t(1) << 16;
  const auto width = size_t(getElementBytes(array.element));
  std::vector<std::byte> stored;
  for (size_t done = 0; done < target.size() / width;) {
    const size_t count = std::min(pieceElements, target.size() / width - done);
    stored.resize(count * storage.bytes);
    Status filled = file->read(
        headerBytes + (uint64_t(first) + done) * storage.bytes, stored);
    if (filled)
      filled = decode(storage, stored,
                      target.subspan(done * width, count * width), path);
    if (!filled)
      return filled;
    done += count;
  }
  return Status::success();
}

Result<NpyWriter> NpyWriter::create(const std::string &path,
                                    exec::ElementType element,
                                    std::span<const int64_t> shape) {
  Result<std::string> header = makeNpyHeader(element, shape, path);
  if (!header)
    return header.getError();
  const std::optional<uint64_t> bytes = countBytes(element, shape);
  if (!bytes || *bytes > uint64_t(INT64_MAX) - header->size())
    return Error{ErrorCode::CannotWrite,
                 fmt::format("cannot write '{}': no file can have the elements "
                             "of {}",
                             path, toString(element, shape)),
                 ""};
  Result<PartFile> file = PartFile::create(path, header->size() + *bytes);
  if (!file)
    return file.getError();
  Status written = file->write(0, std::as_bytes(std::span(*header)));
  if (!written)
    return written.getError();
  return NpyWriter(std::move(*file), header->size(), getElementBytes(element));
}

Status NpyWriter::write(int64_t first, std::span<const std::byte> elements) {
  return file.write(headerBytes + uint64_t(first * elementBytes), elements);
}
