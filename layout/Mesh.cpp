#include "layout/Mesh.h"

#include <algorithm>

using namespace meshc::layout;

/// Devices per step of the coordinate on `ref`, counted along its axis.
static int64_t getStride(int64_t axisSize, AxisRef ref) {
  return axisSize / (ref.pre * ref.size);
}

std::optional<int32_t> Mesh::findAxis(std::string_view name) const {
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i].name == name)
      return int32_t(i);
  return std::nullopt;
}

int64_t Mesh::getNumDevices() const {
  int64_t devices = 1;
  for (const MeshAxis &axis : axes)
    devices *= axis.size;
  return devices;
}

std::vector<int64_t> Mesh::getCoordinates(int64_t device) const {
  std::vector<int64_t> coordinates(axes.size());
  for (size_t i = axes.size(); i-- > 0;) {
    coordinates[i] = device % axes[i].size;
    device /= axes[i].size;
  }
  return coordinates;
}

int64_t Mesh::getDevice(std::span<const int64_t> coordinates) const {
  int64_t device = 0;
  for (size_t i = 0; i < axes.size(); ++i)
    device = device * axes[i].size + coordinates[i];
  return device;
}

int64_t Mesh::getCoordinate(AxisRef ref,
                            std::span<const int64_t> coordinates) const {
  return coordinates[ref.axis] / getStride(axes[ref.axis].size, ref) % ref.size;
}

std::vector<int64_t> Mesh::getGroup(int64_t device,
                                    std::span<const AxisRef> over) const {
  std::vector<int64_t> origin = getCoordinates(device);
  int64_t count = 1;
  for (AxisRef ref : over) {
    origin[ref.axis] -=
        getCoordinate(ref, origin) * getStride(axes[ref.axis].size, ref);
    count *= ref.size;
  }
  std::vector<int64_t> group(count);
  for (int64_t index = 0; index < count; ++index) {
    std::vector<int64_t> coordinates = origin;
    int64_t rest = index;
    for (size_t i = over.size(); i-- > 0; rest /= over[i].size)
      coordinates[over[i].axis] +=
          rest % over[i].size * getStride(axes[over[i].axis].size, over[i]);
    group[index] = getDevice(coordinates);
  }
  return group;
}
