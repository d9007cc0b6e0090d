#include "runtime/data/Values.h"

#include "runtime/exec/SumBlock.h"
#include "runtime/plans/Reduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

using namespace meshc;
using namespace meshc::runtime;

int64_t HostArray::getNumElements() const {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

std::string runtime::toString(exec::ElementType element,
                              std::span<const int64_t> shape) {
  return fmt::format("{}[{}]", getName(element), fmt::join(shape, ", "));
}

bool runtime::isFloat(exec::ElementType element) {
  return element == exec::ElementType::f32 || element == exec::ElementType::f64;
}

std::optional<uint64_t> runtime::countBytes(exec::ElementType element,
                                            std::span<const int64_t> shape) {
  return countBytes(uint64_t(getElementBytes(element)), shape);
}

std::optional<uint64_t> runtime::countBytes(uint64_t elementBytes,
                                            std::span<const int64_t> shape) {
  // Zero sizes first: they make any other size harmless.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end())
    return 0;
  uint64_t bytes = elementBytes;
  for (int64_t size : shape)
    if (__builtin_mul_overflow(bytes, uint64_t(size), &bytes))
      return std::nullopt;
  return bytes;
}

std::optional<OutOfRange>
runtime::findOutOfRange(exec::ElementType element,
                        std::span<const std::byte> data, int64_t bound) {
  auto find = [&]<typename T>() -> std::optional<OutOfRange> {
    for (size_t i = 0; i < data.size(); i += sizeof(T)) {
      T value;
      std::memcpy(&value, data.data() + i, sizeof(T));
      if (value < 0 || value >= bound)
        return OutOfRange{int64_t(i / sizeof(T)), int64_t(value)};
    }
    return std::nullopt;
  };
  if (element == exec::ElementType::i32)
    return find.template operator()<int32_t>();
  if (element == exec::ElementType::i64)
    return find.template operator()<int64_t>();
  if (element == exec::ElementType::u8)
    return find.template operator()<uint8_t>();
  if (element == exec::ElementType::i8)
    return find.template operator()<int8_t>();
  if (element == exec::ElementType::i16)
    return find.template operator()<int16_t>();
  return std::nullopt;
}

Placement runtime::getPlacement(const layout::Mesh &mesh,
                                std::span<const int64_t> sizes,
                                const layout::Sharding &sharding,
                                int64_t device) {
  Placement placement;
  placement.block = layout::getLocalShape(sizes, sharding);
  std::vector<int64_t> coordinates = mesh.getCoordinates(device);
  for (size_t i = 0; i < sizes.size(); ++i)
    placement.owned.push_back(
        layout::getOwnedRange(mesh, sizes[i], sharding.dims[i], coordinates));
  return placement;
}

/// Bytes of one device's block.
static uint64_t getBlockBytes(const exec::TensorLayoutT &layout) {
  return uint64_t(getLocalElements(layout) * getElementBytes(layout.element));
}

Status runtime::scatter(DeviceSet &devices, const exec::TensorLayoutT &layout,
                        int buffer, std::span<const std::byte> data) {
  const layout::Mesh &mesh = devices.getExecutable().mesh;
  const std::vector<int64_t> sizes = getSizes(layout);
  const layout::Sharding sharding = getSharding(layout);
  const int64_t bytes = getElementBytes(layout.element);
  for (int64_t device = 0; device < mesh.getNumDevices(); ++device) {
    auto fill = [&](std::byte *target) {
      forEachRow(sizes, getPlacement(mesh, sizes, sharding, device),
                 [&](int64_t whole, int64_t block, int64_t count) {
                   std::memcpy(target + block * bytes,
                               data.data() + whole * bytes,
                               size_t(count * bytes));
                 });
    };
    Status written = devices.write(device, buffer, getBlockBytes(layout), fill);
    if (!written)
      return written;
  }
  return Status::success();
}

Result<HostArray> runtime::gather(DeviceSet &devices,
                                  const exec::TensorLayoutT &layout,
                                  int buffer) {
  const layout::Mesh &mesh = devices.getExecutable().mesh;
  HostArray result{layout.element, getSizes(layout), {}};
  const layout::Sharding sharding = getSharding(layout);
  const int64_t bytes = getElementBytes(layout.element);
  result.data.resize(size_t(result.getNumElements() * bytes));

  // Replicas are read once: a device gives its term if no earlier one had the
  // same part and the same place among the partial values.
  std::set<std::vector<int64_t>> termsSeen;
  struct Part {
    Placement placement;
    int64_t terms = 0;
  };
  std::map<std::vector<int64_t>, Part> parts;
  // Sums of whole blocks of terms (SumBlock.h), where there are more.
  std::vector<std::byte> blocks;
  const bool addsFloats = layout.partial == exec::ReduceKind::sum &&
                          (layout.element == exec::ElementType::f32 ||
                           layout.element == exec::ElementType::f64);
  auto add = [&](const std::byte *from, std::byte *to, int64_t count) {
    combineInto(layout.element, layout.partial, from, 1, to, 1, count);
  };
  for (int64_t device = 0; device < mesh.getNumDevices(); ++device) {
    const Placement placement =
        getPlacement(mesh, result.shape, sharding, device);
    // A device whose block is padding alone has the offset of another's part.
    std::vector<int64_t> key;
    bool ownsNothing = false;
    for (const layout::Range &range : placement.owned) {
      key.push_back(range.offset);
      ownsNothing |= range.count == 0;
    }
    if (ownsNothing)
      continue;
    Part &part = parts.try_emplace(key, Part{placement}).first->second;
    const std::vector<int64_t> coordinates = mesh.getCoordinates(device);
    for (const layout::AxisRef &axis : sharding.partialAxes)
      key.push_back(mesh.getCoordinate(axis, coordinates));
    if (!termsSeen.insert(key).second)
      continue;
    Result<const std::byte *> source =
        devices.read(device, buffer, getBlockBytes(layout));
    if (!source)
      return source.getError();
    const int64_t term = part.terms++;
    const bool endsBlock = addsFloats && term > 0 && term % sumBlock == 0;
    if (endsBlock && blocks.empty())
      blocks.resize(result.data.size());
    forEachRow(result.shape, placement,
               [&](int64_t whole, int64_t block, int64_t count) {
                 std::byte *to = result.data.data() + whole * bytes;
                 const std::byte *from = *source + block * bytes;
                 if (endsBlock)
                   add(to, blocks.data() + whole * bytes, count);
                 if (endsBlock || term == 0)
                   std::memcpy(to, from, size_t(count * bytes));
                 else
                   add(from, to, count);
               });
  }
  for (const auto &[key, part] : parts)
    if (addsFloats && part.terms > sumBlock)
      forEachRow(result.shape, part.placement,
                 [&](int64_t whole, int64_t, int64_t count) {
                   add(blocks.data() + whole * bytes,
                       result.data.data() + whole * bytes, count);
                 });
  return result;
}

double runtime::getScalar(const HostArray &array) {
  auto read = [&]<typename T>() {
    T value;
    std::memcpy(&value, array.data.data(), sizeof(T));
    return double(value);
  };
  switch (array.element) {
  case exec::ElementType::f32:
    return read.template operator()<float>();
  case exec::ElementType::f64:
    return read.template operator()<double>();
  case exec::ElementType::i32:
    return read.template operator()<int32_t>();
  case exec::ElementType::i64:
    return read.template operator()<int64_t>();
  case exec::ElementType::boolean:
    return read.template operator()<uint8_t>();
  case exec::ElementType::u8:
    return read.template operator()<uint8_t>();
  case exec::ElementType::i8:
    return read.template operator()<int8_t>();
  case exec::ElementType::i16:
    return read.template operator()<int16_t>();
  case exec::ElementType::bf16:
  case exec::ElementType::f16:
    break;
  }
  __builtin_unreachable(); // checkExecutable refuses ports of these types
}
