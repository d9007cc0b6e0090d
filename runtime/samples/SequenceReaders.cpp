// Samples that are windows of one long sequence: ids and text.

#include "runtime/io/FileKind.h"
#include "runtime/samples/Readers.h"
#include "runtime/samples/TextUnits.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

using namespace meshc;
using namespace meshc::runtime;

/// llm.c's header: 256 numbers of 32 bits, of which the first three are a mark,
/// a version and how many ids follow. Source: llm.c, dev/data/data_common.py.
static constexpr uint64_t headerBytes = 1024;

namespace {

struct TokenFormat {
  int32_t mark, version;
  SampleElement element;
};

} // namespace

static constexpr TokenFormat tokenFormats[] = {
    {20240520, 1, SampleElement::u16}, // of GPT-2's tokens
    {20240801, 7, SampleElement::i32}, // of Llama 3's
};

/// The windows of `elements` positions; an error where there is none.
static Result<SampleShape> getWindows(const SampleRequest &request,
                                      SampleElement element,
                                      int64_t numElements,
                                      std::string_view what) {
  SampleShape shape;
  shape.element = element;
  shape.sizes = request.sizes;
  shape.stride = request.source.stride;
  const int64_t length = shape.getSampleElements();
  shape.numSamples = countWindows(numElements, length, shape.stride);
  if (shape.numSamples == 0)
    return Error{ErrorCode::WrongData,
                 fmt::format("'{}' has {} {}, one sample of input '{}' has {}",
                             request.path, numElements, what,
                             request.source.input, length),
                 ""};
  return shape;
}

Result<Samples> runtime::openTokens(const SampleRequest &request) {
  Result<RandomAccessFile> file = RandomAccessFile::open(request.path);
  if (!file)
    return file.getError();
  const std::string &units = request.source.units;
  std::vector<std::byte> start(
      size_t(std::min<uint64_t>(file->getSize(), kindBytes)));
  if (Status read = file->read(0, start); !read)
    return read.getError();
  std::array<int32_t, 3> head{};
  if (file->getSize() >= headerBytes)
    std::memcpy(head.data(), start.data(), sizeof(head));
  const auto *format = std::find_if(
      std::begin(tokenFormats), std::end(tokenFormats),
      [&](const TokenFormat &known) { return known.mark == head[0]; });
  SampleElement element =
      units == "i32" ? SampleElement::i32 : SampleElement::u16;
  uint64_t first = 0;
  if (format != std::end(tokenFormats)) {
    if (head[1] != format->version)
      return Error{ErrorCode::WrongData,
                   fmt::format("'{}' has version {} of its format, expected {}",
                               request.path, head[1], format->version),
                   ""};
    if (!units.empty() && element != format->element)
      return Error{ErrorCode::WrongData,
                   fmt::format("the header of '{}' says that its ids are {}, "
                               "the data block that they are {}",
                               request.path, getName(format->element), units),
                   ""};
    element = format->element;
    first = headerBytes;
  } else if (const std::string_view kind =
                 findNumbersKind(start, file->getSize());
             !kind.empty()) {
    return getWrongKind(request.path, kind, "ids",
                        "ids lie one after the other, as NumPy's "
                        "array.tofile() writes them, or behind llm.c's header");
  } else if (units.empty()) {
    return Error{
        ErrorCode::WrongData,
        fmt::format("'{}' does not begin as llm.c's files do", request.path),
        "of ids without a header the data block says the type: type = "
        "u16, or i32"};
  }
  const std::string form =
      fmt::format("ids of {} {}", getName(element),
                  first > 0 ? "behind a header" : "without a header");
  if (Status same = checkFormat(request, form); !same)
    return same.getError();
  const auto width = uint64_t(getBytes(element));
  const uint64_t bytes = file->getSize() - first;
  const bool isCounted = first > 0;
  if (bytes % width != 0 ||
      (isCounted && (head[2] < 0 || bytes / width != uint64_t(head[2]))))
    return Error{
        ErrorCode::DamagedFile,
        fmt::format("'{}' is damaged: {} bytes of ids, expected {}",
                    request.path, bytes,
                    isCounted
                        ? fmt::format("{} ids of {} bytes", head[2], width)
                        : fmt::format("a multiple of {}", width)),
        ""};
  Result<SampleShape> shape =
      getWindows(request, element, int64_t(bytes / width), "ids");
  if (!shape)
    return shape.getError();
  shape->format = form;
  return Samples(std::make_unique<SamplesInFile>(std::move(*file), first,
                                                 std::move(*shape)));
}

Result<Samples> runtime::openText(const SampleRequest &request) {
  Result<std::vector<std::byte>> text =
      readText(request.path, request.listener);
  if (!text)
    return text.getError();
  Result<TextUnits> units = TextUnits::open(request.source, request.folder);
  if (!units)
    return units.getError();
  SampleElement element = SampleElement::u8;
  if (!units->areBytes()) {
    Result<std::vector<int32_t>> numbers = units->encode(*text, request.path);
    if (!numbers)
      return numbers.getError();
    const auto bytes = std::as_bytes(std::span(*numbers));
    text->assign(bytes.begin(), bytes.end());
    element = SampleElement::i32;
  }
  Result<SampleShape> shape =
      getWindows(request, element, int64_t(text->size()) / getBytes(element),
                 units->areBytes() ? "bytes" : "characters");
  if (!shape)
    return shape.getError();
  return Samples(std::make_unique<SamplesInMemory>(
      request.path, std::move(*shape), std::move(*text)));
}
