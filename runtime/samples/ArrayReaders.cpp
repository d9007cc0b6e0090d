// Samples that are arrays in their files: IDX and NumPy.

#include "runtime/data/NpyFile.h"
#include "runtime/samples/Conversion.h"
#include "runtime/samples/Idx.h"
#include "runtime/samples/Readers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

using namespace meshc;
using namespace meshc::runtime;

static SampleElement getElement(IdxType type) {
  switch (type) {
  case IdxType::U8:
    return SampleElement::u8;
  case IdxType::I8:
    return SampleElement::i8;
  case IdxType::I16:
    return SampleElement::i16;
  case IdxType::I32:
    return SampleElement::i32;
  case IdxType::F32:
    return SampleElement::f32;
  case IdxType::F64:
    return SampleElement::f64;
  }
  __builtin_unreachable(); // readIdx refuses others
}

/// The shape of samples that are the items of an array.
static Result<SampleShape> getItems(const SampleRequest &request,
                                    SampleElement element,
                                    const std::vector<int64_t> &sizes) {
  SampleShape shape;
  shape.element = element;
  shape.sizes.assign(sizes.begin() + 1, sizes.end());
  shape.stride = std::max<int64_t>(shape.getSampleElements(), 1);
  shape.numSamples = sizes[0];
  shape.format = fmt::format("samples of {}", getName(element));
  if (!shape.sizes.empty())
    shape.format += fmt::format(", {} each", fmt::join(shape.sizes, " x "));
  Status same = checkFormat(request, shape.format);
  return same ? Result<SampleShape>(std::move(shape)) : same.getError();
}

Result<Samples> runtime::openIdx(const SampleRequest &request) {
  Result<IdxFile> file = readIdx(request.path, request.listener);
  if (!file)
    return file.getError();
  Result<SampleShape> shape =
      getItems(request, getElement(file->type), file->sizes);
  if (!shape)
    return shape.getError();
  // The format is big-endian.
  const auto width = size_t(getBytes(shape->element));
  for (size_t i = 0; width > 1 && i + width <= file->data.size(); i += width)
    std::reverse(file->data.begin() + ptrdiff_t(i),
                 file->data.begin() + ptrdiff_t(i + width));
  return Samples(std::make_unique<SamplesInMemory>(
      request.path, std::move(*shape), std::move(file->data)));
}

namespace {

/// An .npy file, wherever its elements are.
class NpySamples : public SampleArray {
public:
  NpySamples(NpyFile file, SampleShape shape)
      : SampleArray(file.getPath(), std::move(shape)), file(std::move(file)) {}

  Status read(int64_t first, std::span<std::byte> target) const override {
    return file.read(first, target);
  }
  int64_t getUnreadBytes() const override {
    return file.isInMemory() ? 0 : SampleArray::getUnreadBytes();
  }

private:
  NpyFile file;
};

} // namespace

Result<Samples> runtime::openNpy(const SampleRequest &request) {
  Result<NpyFile> file = NpyFile::open(request.path);
  if (!file)
    return file.getError();
  const std::vector<int64_t> &sizes = file->getShape();
  const std::optional<SampleElement> element =
      getSampleElement(file->getElement());
  if (!element || sizes.empty())
    return Error{ErrorCode::WrongData,
                 fmt::format("'{}' is {}: samples are numbers, and counted by "
                             "the first axis",
                             request.path, toString(file->getElement(), sizes)),
                 ""};
  Result<SampleShape> shape = getItems(request, *element, sizes);
  if (!shape)
    return shape.getError();
  return Samples(
      std::make_unique<NpySamples>(std::move(*file), std::move(*shape)));
}
