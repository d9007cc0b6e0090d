#ifndef MESHC_RUNTIME_DATA_VALUES_H
#define MESHC_RUNTIME_DATA_VALUES_H

#include "runtime/devices/DeviceSet.h"
#include "runtime/exec/exec_generated.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace meshc::runtime {

/// A whole tensor on the host: C order, little-endian.
struct HostArray {
  exec::ElementType element = exec::ElementType::f32;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;

  int64_t getNumElements() const;
};

/// "f32[3, 5]".
std::string toString(exec::ElementType element, std::span<const int64_t> shape);

bool isFloat(exec::ElementType element);

/// Bytes of all elements; none where 64 bits cannot count them.
std::optional<uint64_t> countBytes(exec::ElementType element,
                                   std::span<const int64_t> shape);
/// The same of elements of so many bytes.
std::optional<uint64_t> countBytes(uint64_t elementBytes,
                                   std::span<const int64_t> shape);

/// The first integer outside [0, bound).
struct OutOfRange {
  int64_t element;
  int64_t value;
};
std::optional<OutOfRange> findOutOfRange(exec::ElementType element,
                                         std::span<const std::byte> data,
                                         int64_t bound);

/// Where one device's part of a tensor lies in the whole and in its block.
struct Placement {
  std::vector<layout::Range> owned; ///< per dimension
  std::vector<int64_t> block;       ///< shape of the block, padding included
};

Placement getPlacement(const layout::Mesh &mesh, std::span<const int64_t> sizes,
                       const layout::Sharding &sharding, int64_t device);

/// Calls `visit(first element in the whole, first element in the block, count)`
/// for every contiguous row of a device's part, in order.
template <typename Visitor>
void forEachRow(std::span<const int64_t> sizes, const Placement &placement,
                Visitor &&visit) {
  const size_t rank = sizes.size();
  int64_t rows = 1;
  for (const layout::Range &range : placement.owned)
    if (range.count == 0)
      return;
  for (size_t i = 0; i + 1 < rank; ++i)
    rows *= placement.owned[i].count;
  for (int64_t row = 0; row < rows; ++row) {
    int64_t rest = row;
    int64_t whole = rank == 0 ? 0 : placement.owned[rank - 1].offset;
    int64_t block = 0;
    int64_t wholeStride = rank == 0 ? 1 : sizes[rank - 1];
    int64_t blockStride = rank == 0 ? 1 : placement.block[rank - 1];
    for (size_t i = rank > 0 ? rank - 1 : 0; i-- > 0;) {
      const int64_t position = rest % placement.owned[i].count;
      rest /= placement.owned[i].count;
      whole += (placement.owned[i].offset + position) * wholeStride;
      block += position * blockStride;
      wholeStride *= sizes[i];
      blockStride *= placement.block[i];
    }
    visit(whole, block, rank == 0 ? 1 : placement.owned[rank - 1].count);
  }
}

/// Cuts a whole tensor into the devices' blocks in `buffer`; padding is
/// undefined afterwards. `data` has the elements of `layout` in C order.
Status scatter(DeviceSet &devices, const exec::TensorLayoutT &layout,
               int buffer, std::span<const std::byte> data);

/// Puts the devices' blocks in `buffer` together. A partial value is combined
/// in the order of device numbers.
Result<HostArray> gather(DeviceSet &devices, const exec::TensorLayoutT &layout,
                         int buffer);

/// The only element of an array as a double.
double getScalar(const HostArray &array);

} // namespace meshc::runtime

#endif
