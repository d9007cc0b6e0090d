#include "runtime/plans/CollectiveSlice.h"

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::cuda;

MoveKey cuda::getMoveKey(const exec::ExecutableT &executable,
                         std::span<const Collective::Member> members) {
  MoveKey key;
  auto &[changes, places] = key;
  for (const Collective::Member &member : members) {
    changes.push_back(member.change);
    for (const exec::OperandT *operand : {member.from, member.to}) {
      places.push_back(int64_t(operand->element));
      places.insert(places.end(), operand->strides.begin(),
                    operand->strides.end());
    }
    const exec::BufferT &from =
        *executable.buffers[size_t(member.from->buffer)];
    const exec::BufferT &to = *executable.buffers[size_t(member.to->buffer)];
    const bool share = from.offset < to.offset + to.bytes &&
                       to.offset < from.offset + from.bytes;
    places.push_back(share);
    if (share)
      places.push_back(int64_t(member.toOffset - member.fromOffset));
  }
  return key;
}

CollectiveSlice
CollectiveSlice::create(const layout::Mesh &whole,
                        std::vector<Collective::Member> members) {
  std::vector<layout::ShardingChange> changes;
  for (const Collective::Member &member : members)
    changes.push_back(member.change);
  std::vector<int32_t> axes = layout::getRepeatedAxes(whole, changes);
  for (Collective::Member &member : members)
    member.change = layout::getSlice(member.change, axes);
  layout::Mesh mesh = layout::getSlice(whole, axes);
  Collective collective = Collective::create(mesh, members);
  return {std::move(axes), std::move(mesh), std::move(collective)};
}

int64_t CollectiveSlice::getDevice(const layout::Mesh &whole,
                                   int64_t device) const {
  std::vector<int64_t> coordinates = whole.getCoordinates(device);
  for (int32_t axis : repeatedAxes)
    coordinates[size_t(axis)] = 0;
  return mesh.getDevice(coordinates);
}
