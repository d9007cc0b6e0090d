#include "runtime/data/InputFiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

using namespace meshc;
using namespace meshc::runtime;

std::optional<size_t> runtime::findDim(const exec::TensorLayoutT &layout,
                                       std::string_view name) {
  for (size_t i = 0; i < layout.dims.size() && !name.empty(); ++i)
    if (layout.dims[i]->name == name)
      return i;
  return std::nullopt;
}

Status InputFiles::checkShape(const Input &input, const std::string &batchDim) {
  const exec::TensorLayoutT &layout = *input.port->layout;
  const std::vector<int64_t> &found = input.file.getShape();
  std::vector<int64_t> expected = getSizes(layout);
  if (input.axis && found.size() == expected.size())
    expected[*input.axis] = found[*input.axis];
  if (input.file.getElement() == layout.element && found == expected)
    return Status::success();
  return Error{
      ErrorCode::WrongArray,
      fmt::format("input '{}': expected {}, found {} in '{}'", input.port->name,
                  toString(layout), toString(input.file.getElement(), found),
                  input.file.getPath()),
      input.axis ? fmt::format("along '{}' it may have any number of samples",
                               batchDim)
                 : ""};
}

Result<InputFiles>
InputFiles::open(std::vector<std::pair<const exec::PortT *, std::string>> files,
                 const std::string &batchDim, bool comparesRanks) {
  InputFiles result;
  result.comparesRanks = comparesRanks;
  const Input *counted = nullptr; // says how many samples there are
  result.inputs.reserve(files.size());
  for (const auto &[port, path] : files) {
    Result<NpyFile> file = NpyFile::open(path);
    if (!file)
      return file.getError();
    const exec::TensorLayoutT &layout = *port->layout;
    Input &input = result.inputs.emplace_back(
        Input{port, std::move(*file), findDim(layout, batchDim), {}, {}});
    Status fits = checkShape(input, batchDim);
    if (!fits)
      return fits.getError();
    input.batch.resize(
        size_t(getGlobalElements(layout) * getElementBytes(layout.element)));
    if (!input.axis) {
      Status filled = result.read(input, 0, input.batch);
      if (!filled)
        return filled.getError();
      continue;
    }
    const int64_t count = input.file.getShape()[*input.axis];
    if (counted && count != *result.numSamples)
      return Error{
          ErrorCode::WrongArray,
          fmt::format("input '{}' has {} samples along '{}' in '{}', '{}' has "
                      "{} in '{}'",
                      port->name, count, batchDim, path, counted->port->name,
                      *result.numSamples, counted->file.getPath()),
          ""};
    counted = &input;
    result.numSamples = count;
  }
  return result;
}

Status InputFiles::read(Input &input, int64_t first,
                        std::span<std::byte> target) const {
  Status filled = input.file.read(first, target);
  if (!filled)
    return filled;
  if (comparesRanks)
    input.digest.add(target);
  const exec::PortT &port = *input.port;
  if (port.index_bound > 0)
    if (auto outside =
            findOutOfRange(port.layout->element, target, port.index_bound))
      return Error{ErrorCode::ValueOutOfRange,
                   fmt::format("input '{}': element {} is {} in '{}', expected "
                               "at least 0 and less than {}",
                               port.name, first + outside->element,
                               outside->value, input.file.getPath(),
                               port.index_bound),
                   ""};
  return Status::success();
}

Status InputFiles::readBatch(Input &input,
                             std::span<const int64_t> samples) const {
  const exec::TensorLayoutT &layout = *input.port->layout;
  const std::vector<int64_t> sizes = getSizes(layout);
  // Samples that follow one another lie together in each of `outer` pieces.
  int64_t outer = 1;
  int64_t inner = 1;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (i != *input.axis)
      (i < *input.axis ? outer : inner) *= sizes[i];
  const auto places = int64_t(samples.size());
  const auto bytes = size_t(inner * getElementBytes(layout.element));
  for (int64_t place = 0; place < places;) {
    int64_t count = 1;
    while (place + count < places &&
           samples[size_t(place + count)] == samples[size_t(place)] + count)
      ++count;
    for (int64_t piece = 0; piece < outer; ++piece) {
      const int64_t first =
          (piece * *numSamples + samples[size_t(place)]) * inner;
      Status filled = read(input, first,
                           std::span(input.batch)
                               .subspan(size_t(piece * places + place) * bytes,
                                        size_t(count) * bytes));
      if (!filled)
        return filled;
    }
    place += count;
  }
  return Status::success();
}

Status InputFiles::feed(DeviceSet &devices, std::span<const int64_t> samples) {
  for (Input &input : inputs) {
    Status fed = input.axis ? readBatch(input, samples) : Status::success();
    // Also what was not read again: a run may put other values there.
    if (fed)
      fed = scatter(devices, *input.port->layout, input.port->buffer,
                    input.batch);
    if (!fed)
      return fed;
  }
  return Status::success();
}

std::vector<std::string> InputFiles::getPaths() const {
  std::vector<std::string> paths;
  for (const Input &input : inputs)
    paths.push_back(input.file.getPath());
  return paths;
}

std::vector<int64_t> InputFiles::getIntegers(const exec::PortT &port,
                                             int64_t count) const {
  const auto input =
      std::find_if(inputs.begin(), inputs.end(),
                   [&](const Input &input) { return input.port == &port; });
  std::vector<int64_t> integers;
  auto copy = [&]<typename T>() {
    std::vector<T> elements(static_cast<size_t>(count));
    std::memcpy(elements.data(), input->batch.data(),
                elements.size() * sizeof(T));
    integers.assign(elements.begin(), elements.end());
  };
  switch (port.layout->element) {
  case exec::ElementType::i64:
    copy.template operator()<int64_t>();
    return integers;
  case exec::ElementType::i32:
    copy.template operator()<int32_t>();
    return integers;
  case exec::ElementType::i16:
    copy.template operator()<int16_t>();
    return integers;
  case exec::ElementType::i8:
    copy.template operator()<int8_t>();
    return integers;
  case exec::ElementType::u8:
    copy.template operator()<uint8_t>();
    return integers;
  case exec::ElementType::f32:
  case exec::ElementType::f64:
  case exec::ElementType::boolean:
  case exec::ElementType::bf16:
  case exec::ElementType::f16:
    break;
  }
  __builtin_unreachable(); // the caller asks for an input of integers
}

Agreements InputFiles::getShapes() const {
  Agreements items;
  for (const Input &input : inputs)
    items.push_back({fmt::format("the shape of input '{}'", input.port->name),
                     toString(input.file.getElement(), input.file.getShape())});
  return items;
}

Agreements InputFiles::getDigests() const {
  Agreements items;
  for (const Input &input : inputs)
    items.push_back(
        {fmt::format("input '{}'", input.port->name), input.digest.get()});
  return items;
}
