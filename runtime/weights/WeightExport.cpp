#include "runtime/weights/WeightExport.h"

#include "runtime/checkpoint/Safetensors.h"
#include "runtime/exec/Executable.h"
#include "runtime/exec/HalfFloats.h"
#include "runtime/io/PartFile.h"
#include "runtime/weights/TensorFiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

using namespace meshc;
using namespace meshc::runtime;

namespace {

/// A tensor that is written, and what parameters have of it.
struct WrittenTensor {
  struct Piece {
    const exec::VariableT *parameter;
    StoredPart part;
  };

  exec::ElementType element;
  std::vector<int64_t> shape;
  std::vector<Piece> pieces;
};

/// Reads tensors out of parameters.
class TensorWriter {
public:
  TensorWriter(const ParameterSource &source, const NameMap *map)
      : source(source), map(map) {}

  /// The elements of a tensor, in C order.
  Result<std::vector<std::byte>> make(const std::string &name,
                                      const WrittenTensor &tensor);

private:
  Status add(const std::string &name, const WrittenTensor &tensor,
             const WrittenTensor::Piece &piece, std::vector<std::byte> &bytes);

  const ParameterSource &source;
  const NameMap *map;
  std::vector<bool> isWritten; ///< by element of the tensor
};

} // namespace

/// An error of a rule; without a map there are none.
static Error getRuleError(const NameMap *map, int64_t line,
                          const std::string &what) {
  return getMapError(map ? map->path : "", line, what);
}

/// An f64 as an f32 whose rounding to 16 bits is that of the f64: to odd where
/// it is not exact.
static float narrowToOdd(double number) {
  auto narrow = float(number);
  if (!std::isfinite(number) || double(narrow) == number)
    return narrow;
  if (std::fabs(double(narrow)) > std::fabs(number))
    narrow = std::nextafterf(narrow, 0);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(narrow) | 1);
}

static bool isFloatElement(exec::ElementType element) {
  return element == exec::ElementType::f32 || element == exec::ElementType::f64;
}

/// Rounds elements of type `from`, f32 or f64, in place to those of type `to`,
/// if that is another one. The first finite number that becomes infinite;
/// nothing if none does.
static std::optional<double> roundTo(exec::ElementType to,
                                     exec::ElementType from,
                                     std::vector<std::byte> &elements) {
  if (to == from)
    return std::nullopt;
  const auto fromWidth = size_t(getElementBytes(from));
  const auto toWidth = size_t(getElementBytes(to));
  const size_t count = elements.size() / fromWidth;
  std::vector<std::byte> rounded(count * toWidth);
  for (size_t i = 0; i < count; ++i) {
    double number = 0;
    if (from == exec::ElementType::f64) {
      std::memcpy(&number, &elements[i * fromWidth], sizeof(number));
    } else {
      float narrow = 0;
      std::memcpy(&narrow, &elements[i * fromWidth], sizeof(narrow));
      number = double(narrow);
    }
    auto put = [&](auto stored, double value) {
      std::memcpy(&rounded[i * toWidth], &stored, sizeof(stored));
      return std::isfinite(value) || !std::isfinite(number);
    };
    bool fits = true;
    if (to == exec::ElementType::bf16) {
      const BFloat16 stored = BFloat16::round(narrowToOdd(number));
      fits = put(stored.bits, double(stored.toFloat()));
    } else if (to == exec::ElementType::f16) {
      const Float16 stored = Float16::round(narrowToOdd(number));
      fits = put(stored.bits, double(stored.toFloat()));
    } else if (to == exec::ElementType::f32) {
      const auto stored = float(number);
      fits = put(stored, double(stored));
    } else {
      fits = put(number, number);
    }
    if (!fits)
      return number;
  }
  elements = std::move(rounded);
  return std::nullopt;
}

Status TensorWriter::add(const std::string &name, const WrittenTensor &tensor,
                         const WrittenTensor::Piece &piece,
                         std::vector<std::byte> &bytes) {
  const ParameterSource::Entry &entry = *source.find(piece.parameter->name);
  const exec::ElementType element = piece.parameter->layout->element;
  const int64_t width = getElementBytes(tensor.element);
  Placement placement{piece.part.box, {}};
  for (const layout::Range &range : piece.part.box)
    placement.block.push_back(range.count);
  std::vector<std::byte> block(
      size_t(getVolume(piece.part.box) * getElementBytes(element)));
  Status read = source.readBlock(entry, placement, block.data());
  if (!read)
    return read;
  if (const std::optional<double> wrong =
          roundTo(tensor.element, element, block))
    return Error{ErrorCode::ValueOutOfRange,
                 fmt::format("'{}' has {}, which is too large for {}",
                             piece.parameter->name, *wrong,
                             exec::EnumNameElementType(tensor.element)),
                 ""};
  bool isTwice = false;
  StoredRuns(piece.part, placement).visit([&](const StoredRun &run) {
    for (int64_t i = 0; i < run.count; ++i) {
      const auto place = size_t(run.stored + i);
      isTwice |= isWritten[place];
      isWritten[place] = true;
      std::copy_n(&block[size_t((run.local + i * run.stride) * width)], width,
                  &bytes[place * size_t(width)]);
    }
  });
  if (isTwice)
    return getRuleError(
        map, piece.part.line,
        fmt::format("tensor '{}' has elements that another rule writes, too",
                    name));
  return Status::success();
}

Result<std::vector<std::byte>> TensorWriter::make(const std::string &name,
                                                  const WrittenTensor &tensor) {
  const uint64_t size = *countBytes(tensor.element, tensor.shape);
  std::vector<std::byte> bytes(static_cast<size_t>(size));
  isWritten.assign(bytes.size() / size_t(getElementBytes(tensor.element)),
                   false);
  for (const WrittenTensor::Piece &piece : tensor.pieces)
    if (Status added = add(name, tensor, piece, bytes); !added)
      return added.getError();
  const auto missing = std::ranges::count(isWritten, false);
  if (missing > 0)
    return getRuleError(
        map, tensor.pieces.back().part.line,
        fmt::format("of tensor '{}', which is {}, no rule has {} elements",
                    name, toString(tensor.element, tensor.shape), missing));
  return bytes;
}

/// The tensors that parameters become, by name.
static Result<std::map<std::string, WrittenTensor>>
findTensors(std::vector<StoredParameter> parameters, const NameMap *map,
            const ExportChoice &choice) {
  std::map<std::string, WrittenTensor> tensors;
  auto isTaken = [&](const WrittenTensor::Piece &piece) {
    return !choice.takes || choice.takes(*piece.parameter);
  };
  for (StoredParameter &stored : parameters) {
    exec::ElementType element = stored.parameter->layout->element;
    if (isFloatElement(element))
      element = choice.floats.value_or(element);
    if (stored.parts.empty() &&
        (!choice.takes || choice.takes(*stored.parameter)))
      return Error{ErrorCode::WrongParameters,
                   fmt::format("'{}' has no rule for parameter '{}'", map->path,
                               stored.parameter->name),
                   ""};
    for (StoredPart &part : stored.parts) {
      if (!countBytes(element, part.shape))
        return getRuleError(map, part.line,
                            "the tensor has more bytes than 64 bits count");
      const std::string name =
          (part.numPrefixes > 0 ? map->prefixes[0] : "") + part.tensor;
      auto [tensor, isFirst] =
          tensors.try_emplace(name, WrittenTensor{element, part.shape, {}});
      if (tensor->second.shape != part.shape ||
          tensor->second.element != element)
        return getRuleError(
            map, part.line,
            fmt::format(
                "tensor '{}' is {} by this rule, and {} by another one", name,
                toString(element, part.shape),
                toString(tensor->second.element, tensor->second.shape)));
      tensor->second.pieces.push_back({stored.parameter, std::move(part)});
    }
  }
  for (const auto &[name, tensor] : tensors) {
    const auto taken = std::ranges::find_if(tensor.pieces, isTaken);
    const auto left = std::ranges::find_if_not(tensor.pieces, isTaken);
    if (taken != tensor.pieces.end() && left != tensor.pieces.end())
      return getRuleError(
          map, left->part.line,
          fmt::format("tensor '{}' has parameter '{}', which is not exported, "
                      "beside '{}'",
                      name, left->parameter->name, taken->parameter->name));
  }
  std::erase_if(tensors, [&](const auto &tensor) {
    return !isTaken(tensor.second.pieces.front());
  });
  return tensors;
}

Result<size_t> runtime::exportWeights(
    const ParameterSource &source,
    std::span<const exec::VariableT *const> parameters, const NameMap *map,
    const std::string &path, const ExportChoice &choice,
    const std::function<void(uint64_t, uint64_t)> &progress) {
  Result<std::vector<StoredParameter>> stored = applyNames(map, parameters);
  if (!stored)
    return stored.getError();
  Result<std::map<std::string, WrittenTensor>> tensors =
      findTensors(std::move(*stored), map, choice);
  if (!tensors)
    return tensors.getError();

  SafetensorsHeader header;
  // What readers in Python ask for before they open a file of weights.
  header.metadata["format"] = "pt";
  for (const auto &[name, tensor] : *tensors)
    header.entries.push_back({name, tensor.element, tensor.shape});
  // Each lies at a multiple of its width, then.
  std::ranges::sort(header.entries, {}, [](const SafetensorsEntry &entry) {
    return std::pair(-getElementBytes(entry.element),
                     std::string_view(entry.name));
  });
  const std::string front = layOut(header);
  const uint64_t bytes =
      header.entries.empty() ? front.size() : header.entries.back().end;
  Result<PartFile> file = PartFile::create(path, bytes);
  if (!file)
    return file.getError();
  Status written = file->write(0, std::as_bytes(std::span(front)));
  TensorWriter writer(source, map);
  for (const SafetensorsEntry &entry : header.entries) {
    if (!written)
      return written.getError();
    Result<std::vector<std::byte>> elements =
        writer.make(entry.name, tensors->at(entry.name));
    if (!elements)
      return elements.getError();
    written = file->write(entry.begin, *elements);
    progress(entry.end, bytes);
  }
  if (written)
    written = file->commit();
  if (!written)
    return written.getError();
  return header.entries.size();
}
