#ifndef MESHC_LAYOUT_MESH_H
#define MESHC_LAYOUT_MESH_H

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meshc::layout {

struct MeshAxis {
  std::string name;
  int64_t size = 1;

  bool operator==(const MeshAxis &) const = default;
};

/// Axis `axis` of a mesh, or a part of it.
///
/// An axis of size 8 seen as 2 x 4 has the parts {pre=1, size=2} (its
/// major-most half) and {pre=2, size=4}. The coordinate on a part, for
/// coordinate c on the axis, is (c / (axisSize / (pre * size))) % size. The
/// whole axis is {pre=1, size=axisSize}.
struct AxisRef {
  int32_t axis = 0;
  int64_t pre = 1;
  int64_t size = 1;

  bool operator==(const AxisRef &) const = default;
  auto operator<=>(const AxisRef &) const = default;
};

/// Devices arranged along named axes; device number d is the row-major index of
/// its coordinates, the last axis fastest.
class Mesh {
public:
  /// At most this many devices; a mesh beyond it is refused where it is read.
  static constexpr int64_t maxDevices = int64_t(1) << 20;

  Mesh() = default;
  explicit Mesh(std::vector<MeshAxis> axes) : axes(std::move(axes)) {}

  std::span<const MeshAxis> getAxes() const { return axes; }
  int64_t getNumAxes() const { return int64_t(axes.size()); }
  int64_t getAxisSize(int32_t axis) const { return axes[axis].size; }
  std::optional<int32_t> findAxis(std::string_view name) const;
  AxisRef getWholeAxis(int32_t axis) const {
    return {axis, 1, axes[axis].size};
  }

  /// Product of the axis sizes; 1 for a mesh without axes.
  int64_t getNumDevices() const;
  /// Coordinates of device `device`, one per axis.
  std::vector<int64_t> getCoordinates(int64_t device) const;
  int64_t getDevice(std::span<const int64_t> coordinates) const;
  /// Coordinate on the part `ref` of a device with these coordinates.
  int64_t getCoordinate(AxisRef ref,
                        std::span<const int64_t> coordinates) const;

  /// The devices that differ from `device` only on `over`, in row-major order
  /// of `over` (first major); contains `device`.
  std::vector<int64_t> getGroup(int64_t device,
                                std::span<const AxisRef> over) const;

  bool operator==(const Mesh &) const = default;

private:
  std::vector<MeshAxis> axes;
};

} // namespace meshc::layout

#endif
