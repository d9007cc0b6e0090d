#include "runtime/plans/NcclPlan.h"

#include "runtime/exec/Executable.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

using namespace meshc::runtime;
using namespace meshc::runtime::cuda;
namespace exec = meshc::exec;

//===----------------------------------------------------------------------===//
// Collectives of NCCL's own
//===----------------------------------------------------------------------===//

/// Elements of a box that is contiguous in both operands; 0 if it is not.
static int64_t getContiguous(const Collective::Move &move) {
  const std::vector<Collective::MoveDim> dims = mergeMoveDims(getDims(move));
  if (dims.empty())
    return 1;
  return dims.size() == 1 && dims[0].fromStride == 1 && dims[0].toStride == 1
             ? dims[0].size
             : 0;
}

/// Where a device's only end of a move is; none if it has none, or several.
static std::optional<uint64_t> findEnd(const std::vector<Collective::End> &ends,
                                       int64_t device) {
  const auto found =
      std::ranges::equal_range(ends, device, {}, &Collective::End::device);
  if (found.size() != 1)
    return std::nullopt;
  return found.front().offset;
}

static std::optional<NativeCollective>
findAllReduce(std::span<const Collective::Move *const> moves,
              std::span<const int64_t> devices) {
  const Collective::Move &move = *moves[0];
  NativeCollective native{
      NativeCollective::Kind::AllReduce, {}, 0, move.reduce, {}, {}};
  native.elements = getContiguous(move);
  if (moves.size() != 1 || native.elements == 0 ||
      move.reduce == exec::ReduceKind::none)
    return std::nullopt;
  for (int64_t device : devices) {
    const std::optional<uint64_t> from = findEnd(move.sources, device);
    const std::optional<uint64_t> to = findEnd(move.targets, device);
    if (!from || !to)
      return std::nullopt;
    native.devices.push_back(device);
    native.from.push_back(*from);
    native.to.push_back(*to);
  }
  return native;
}

/// Whether places are `step` apart.
static bool areSpaced(std::span<const uint64_t> places, uint64_t step) {
  for (size_t i = 1; i < places.size(); ++i)
    if (places[i] != places[i - 1] + step)
      return false;
  return true;
}

static std::optional<NativeCollective>
findAllGather(std::span<const Collective::Move *const> moves,
              std::span<const int64_t> devices, uint64_t elementBytes) {
  NativeCollective native{
      NativeCollective::Kind::AllGather, {}, 0, exec::ReduceKind::none, {}, {}};
  if (moves.size() != devices.size())
    return std::nullopt;
  native.elements = getContiguous(*moves[0]);
  const uint64_t bytes = uint64_t(native.elements) * elementBytes;
  // Every block goes to the same place of every other device; a device's own
  // may be there already.
  struct Block {
    uint64_t to;
    int64_t device;
    uint64_t from;
  };
  std::vector<Block> blocks;
  for (const Collective::Move *move : moves) {
    if (move->reduce != exec::ReduceKind::none || move->sources.size() != 1 ||
        move->targets.empty() || getContiguous(*move) != native.elements ||
        native.elements == 0)
      return std::nullopt;
    const Collective::End &source = move->sources[0];
    const uint64_t to = move->targets[0].offset;
    for (int64_t device : devices) {
      std::optional<uint64_t> found = findEnd(move->targets, device);
      if (!found && device == source.device)
        found = source.offset; // in place
      if (found != to)
        return std::nullopt;
    }
    blocks.push_back({to, source.device, source.offset});
  }
  std::sort(blocks.begin(), blocks.end(),
            [](const Block &x, const Block &y) { return x.to < y.to; });
  std::set<int64_t> seen;
  std::vector<uint64_t> places;
  for (const Block &block : blocks) {
    seen.insert(block.device);
    places.push_back(block.to);
    native.devices.push_back(block.device);
    native.from.push_back(block.from);
    native.to.push_back(blocks[0].to);
  }
  if (seen.size() != devices.size() || !areSpaced(places, bytes))
    return std::nullopt;
  return native;
}

static std::optional<NativeCollective>
findReduceScatter(std::span<const Collective::Move *const> moves,
                  std::span<const int64_t> devices, uint64_t elementBytes) {
  NativeCollective native{
      NativeCollective::Kind::ReduceScatter, {}, 0, moves[0]->reduce, {}, {}};
  if (moves.size() != devices.size() || native.reduce == exec::ReduceKind::none)
    return std::nullopt;
  native.elements = getContiguous(*moves[0]);
  const uint64_t bytes = uint64_t(native.elements) * elementBytes;
  struct Block {
    uint64_t from;
    int64_t device;
    uint64_t to;
  };
  std::vector<Block> blocks;
  for (const Collective::Move *move : moves) {
    if (move->reduce != native.reduce || move->targets.size() != 1 ||
        getContiguous(*move) != native.elements || native.elements == 0 ||
        move->sources.size() != devices.size())
      return std::nullopt;
    for (int64_t device : devices)
      if (findEnd(move->sources, device) != move->sources[0].offset)
        return std::nullopt;
    blocks.push_back({move->sources[0].offset, move->targets[0].device,
                      move->targets[0].offset});
  }
  std::sort(blocks.begin(), blocks.end(),
            [](const Block &x, const Block &y) { return x.from < y.from; });
  std::set<int64_t> seen;
  std::vector<uint64_t> places;
  for (const Block &block : blocks) {
    seen.insert(block.device);
    places.push_back(block.from);
    native.devices.push_back(block.device);
    native.from.push_back(blocks[0].from);
    native.to.push_back(block.to);
  }
  if (seen.size() != devices.size() || !areSpaced(places, bytes))
    return std::nullopt;
  return native;
}

/// Takes `next` into `native` where its blocks lie behind those of `native` on
/// every device: whether it could.
static bool append(NativeCollective &native, const NativeCollective &next,
                   uint64_t elementBytes) {
  if (native.kind != NativeCollective::Kind::AllReduce)
    return false;
  const uint64_t bytes = uint64_t(native.elements) * elementBytes;
  for (size_t i = 0; i < native.devices.size(); ++i)
    if (next.from[i] != native.from[i] + bytes ||
        next.to[i] != native.to[i] + bytes)
      return false;
  native.elements += next.elements;
  return true;
}

std::vector<NativeCollective> cuda::findNative(const Collective &collective,
                                               int64_t group) {
  const std::span<const int64_t> devices = collective.getDevices(group);
  if (devices.size() < 2)
    return {};
  std::map<size_t, std::vector<const Collective::Move *>> members;
  for (const Collective::Move &move : collective.getMoves(group))
    members[move.member].push_back(&move);
  const uint64_t bytes = uint64_t(getElementBytes(collective.getElement()));
  std::vector<NativeCollective> found;
  for (const auto &[member, moves] : members) {
    auto native = findAllReduce(moves, devices);
    if (!native)
      native = findAllGather(moves, devices, bytes);
    if (!native)
      native = findReduceScatter(moves, devices, bytes);
    if (!native || (!found.empty() && (native->kind != found[0].kind ||
                                       native->devices != found[0].devices)))
      return {};
    if (found.empty() || !append(found.back(), *native, bytes))
      found.push_back(std::move(*native));
  }
  return found;
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

NcclMessages cuda::planMessages(const Collective &collective, int64_t self,
                                DevicePointer arena, DevicePointer staging) {
  const int64_t bytes = getElementBytes(collective.getElement());
  NcclMessages messages;
  uint64_t &used = messages.stagingBytes;
  // Steps of a box's dimensions in staging memory, where it is contiguous.
  auto getPacked = [](const std::vector<Collective::MoveDim> &dims) {
    std::vector<int64_t> strides(dims.size());
    int64_t stride = 1;
    for (size_t i = dims.size(); i-- > 0;) {
      strides[i] = stride;
      stride *= dims[i].size;
    }
    return strides;
  };
  auto isDense = [](const std::vector<Collective::MoveDim> &dims,
                    int64_t Collective::MoveDim::*stride) {
    int64_t expected = 1;
    for (size_t i = dims.size(); i-- > 0;) {
      if (dims[i].size > 1 && dims[i].*stride != expected)
        return false;
      expected *= dims[i].size;
    }
    return true;
  };
  auto reserve = [&](int64_t elements) {
    // As allocations are: some kernels and copies are faster for it.
    constexpr uint64_t alignment = 256;
    const uint64_t place = used;
    used +=
        (uint64_t(elements * bytes) + alignment - 1) / alignment * alignment;
    return place;
  };

  const int64_t group = collective.getGroup(self);
  for (const Collective::Move &move : collective.getMoves(group)) {
    const std::vector<Collective::MoveDim> dims = getDims(move);
    const std::vector<int64_t> packed = getPacked(dims);
    int64_t elements = 1;
    for (const Collective::MoveDim &dim : dims)
      elements *= dim.size;

    // To others.
    if (const std::optional<uint64_t> from = findEnd(move.sources, self)) {
      NcclMessages::Message message{-1, false, *from, elements};
      for (const Collective::End &target : move.targets) {
        // A device gets a box once, however many places it has for it.
        if (target.device == self || target.device == message.peer)
          continue;
        const bool isFirst = message.peer < 0;
        message.peer = target.device;
        if (isFirst && !isDense(dims, &Collective::MoveDim::fromStride)) {
          message.isStaged = true;
          message.offset = reserve(elements);
          MoveList::Box box{{arena + *from}, {staging + message.offset}, dims};
          for (size_t i = 0; i < dims.size(); ++i)
            box.dims[i].toStride = packed[i];
          addBox(messages.pack, exec::ReduceKind::none, std::move(box));
        }
        messages.sends.push_back(message);
      }
    }

    // From others.
    MoveList::Box box{{}, {}, dims};
    const auto ends = std::ranges::equal_range(move.targets, self, {},
                                               &Collective::End::device);
    for (const Collective::End &target : ends)
      box.targets.push_back(arena + target.offset);
    if (ends.empty())
      continue;
    const bool isCopy = move.sources.size() == 1 && ends.size() == 1;
    if (isCopy && move.sources[0].device != self &&
        isDense(dims, &Collective::MoveDim::toStride)) {
      messages.receives.push_back(
          {move.sources[0].device, false, ends.front().offset, elements});
      continue;
    }
    // All sources of a box need the same steps: a device's own part is packed
    // too where it is not dense and others are added.
    const bool hasOthers = std::any_of(
        move.sources.begin(), move.sources.end(),
        [&](const Collective::End &source) { return source.device != self; });
    if (hasOthers)
      for (size_t i = 0; i < dims.size(); ++i)
        box.dims[i].fromStride = packed[i];
    for (const Collective::End &source : move.sources) {
      if (source.device != self) {
        const uint64_t place = reserve(elements);
        messages.receives.push_back({source.device, true, place, elements});
        box.sources.push_back(staging + place);
        continue;
      }
      if (!hasOthers || isDense(dims, &Collective::MoveDim::fromStride)) {
        box.sources.push_back(arena + source.offset);
        continue;
      }
      const uint64_t place = reserve(elements);
      MoveList::Box own{{arena + source.offset}, {staging + place}, dims};
      for (size_t i = 0; i < dims.size(); ++i)
        own.dims[i].toStride = packed[i];
      addBox(messages.pack, exec::ReduceKind::none, std::move(own));
      box.sources.push_back(staging + place);
    }
    addBox(messages.unpack, move.reduce, std::move(box));
  }
  return messages;
}
