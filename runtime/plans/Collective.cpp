#include "runtime/plans/Collective.h"

#include "layout/Transfers.h"
#include "runtime/exec/Executable.h"
#include "runtime/plans/Reduction.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

using namespace meshc;
using namespace meshc::runtime;

static exec::ReduceKind getReduceKind(layout::ReduceKind kind) {
  switch (kind) {
  case layout::ReduceKind::None:
    return exec::ReduceKind::none;
  case layout::ReduceKind::Sum:
    return exec::ReduceKind::sum;
  case layout::ReduceKind::Max:
    return exec::ReduceKind::max;
  case layout::ReduceKind::Min:
    return exec::ReduceKind::min;
  }
  __builtin_unreachable();
}

/// Representative of `device` in a forest of sets, with path halving.
static int64_t findRoot(std::vector<int64_t> &parents, int64_t device) {
  while (parents[device] != device) {
    parents[device] = parents[parents[device]];
    device = parents[device];
  }
  return device;
}

int64_t Collective::countElements(std::span<const MoveDim> dims) {
  int64_t count = 1;
  for (const MoveDim &dim : dims)
    count *= dim.size;
  return count;
}

int64_t Collective::getBytesPerElement(const Move &move) const {
  return getElementBytes(element) *
         int64_t(move.sources.size() + move.targets.size());
}

std::vector<Collective::Member>
Collective::getMembers(const exec::ExecutableT &data,
                       const exec::CommandT &command) {
  const std::vector<const exec::CollectiveT *> collectives =
      runtime::getMembers(*command.action.AsCollective());
  auto getOffset = [&](const exec::OperandT &operand) {
    return data.buffers[size_t(operand.buffer)]->offset + operand.offset;
  };
  std::vector<Member> members;
  for (size_t i = 0; i < collectives.size(); ++i) {
    const exec::OperandT &from = *command.operands[i];
    const exec::OperandT &to = *command.operands[collectives.size() + i];
    members.push_back({getShardingChange(*collectives[i]), &from,
                       getOffset(from), &to, getOffset(to)});
  }
  return members;
}

Collective Collective::create(const layout::Mesh &mesh,
                              std::span<const Member> members) {
  uint64_t stagingBytes = 0;
  return create(mesh, members, {mesh.getNumDevices(), 1, 0}, stagingBytes);
}

/// A transfer between blocks as a move between memories. It has no targets
/// where everything is in its place already.
static Collective::Move getMove(const layout::Transfer &transfer,
                                const Collective::Member &member) {
  const exec::OperandT &from = *member.from;
  const exec::OperandT &to = *member.to;
  const int64_t bytes = getElementBytes(from.element);
  Collective::Move move;
  move.reduce = getReduceKind(transfer.reduce);
  auto getEnd = [&](const layout::TransferEnd &block, uint64_t base,
                    std::span<const int64_t> strides) {
    uint64_t elements = 0;
    for (size_t i = 0; i < strides.size(); ++i)
      elements += uint64_t(block.offset[i] * strides[i]);
    return Collective::End{block.device, base + elements * uint64_t(bytes)};
  };
  for (const layout::TransferEnd &block : transfer.sources)
    move.sources.push_back(getEnd(block, member.fromOffset, from.strides));
  for (const layout::TransferEnd &block : transfer.targets) {
    Collective::End end = getEnd(block, member.toOffset, to.strides);
    // In place, the data of a single source is there already.
    const bool inPlace =
        move.sources.size() == 1 && move.sources[0].device == end.device &&
        move.sources[0].offset == end.offset && from.strides == to.strides;
    if (!inPlace)
      move.targets.push_back(end);
  }

  std::vector<Collective::MoveDim> dims;
  for (size_t i = 0; i < transfer.shape.size(); ++i) {
    Collective::MoveDim dim{transfer.shape[i], from.strides[i], to.strides[i]};
    if (dim.size == 1)
      continue;
    // Dimensions that are contiguous in both operands are one.
    if (!dims.empty() && dims.back().fromStride == dim.size * dim.fromStride &&
        dims.back().toStride == dim.size * dim.toStride)
      dims.back() = {dims.back().size * dim.size, dim.fromStride, dim.toStride};
    else
      dims.push_back(dim);
  }
  move.inner = dims.empty() ? Collective::MoveDim{1, 1, 1} : dims.back();
  if (!dims.empty())
    dims.pop_back();
  move.outer = std::move(dims);
  return move;
}

Collective Collective::create(const layout::Mesh &mesh,
                              std::span<const Member> members,
                              const Division &division,
                              uint64_t &stagingBytes) {
  Collective result;
  std::vector<Move> wholeMoves;
  result.element = members[0].from->element;
  const int64_t devices = mesh.getNumDevices();
  std::vector<int64_t> parents(devices);
  std::iota(parents.begin(), parents.end(), 0);
  std::vector<bool> involved(devices, false);

  for (size_t number = 0; number < members.size(); ++number) {
    const layout::ShardingChange &change = members[number].change;
    for (const layout::Transfer &transfer : layout::getTransfers(
             mesh, change.sizes, change.source, change.target)) {
      Move move = getMove(transfer, members[number]);
      if (move.targets.empty())
        continue;
      move.member = number;
      const int64_t root = findRoot(parents, move.targets[0].device);
      for (const std::vector<End> *ends : {&move.sources, &move.targets})
        for (const End &end : *ends) {
          involved[end.device] = true;
          parents[findRoot(parents, end.device)] = root;
        }
      wholeMoves.push_back(std::move(move));
    }
  }

  result.groupOf.assign(devices, -1);
  std::map<int64_t, int64_t> groupOfRoot;
  for (int64_t device = 0; device < devices; ++device) {
    if (!involved[device])
      continue;
    auto [found, isFirst] = groupOfRoot.try_emplace(
        findRoot(parents, device), int64_t(result.groups.size()));
    if (isFirst)
      result.groups.emplace_back();
    result.groupOf[device] = found->second;
    if (division.isLocal(device))
      result.groups[found->second].devices.push_back(device);
  }
  std::vector<std::vector<const Move *>> movesOf(result.groups.size());
  for (const Move &move : wholeMoves)
    movesOf[result.groupOf[move.targets[0].device]].push_back(&move);
  for (size_t number = 0; number < movesOf.size(); ++number) {
    Group &group = result.groups[number];
    group.firstMove = result.moves.size();
    for (const Move *move : movesOf[number])
      result.addPart(*move, group, division);
    group.numMoves = result.moves.size() - group.firstMove;
  }
  result.placeMessages(stagingBytes);
  return result;
}

void Collective::runStrip(const Move &move, const Strip &strip,
                          std::span<std::byte *const> arenas,
                          std::byte *staging) const {
  const int64_t bytes = getElementBytes(element);
  const MoveDim &inner = move.inner;
  const bool contiguous = inner.fromStride == 1 && inner.toStride == 1;
  // Ends of one row; on the stack for any mesh that fits into one machine.
  constexpr size_t maxOnStack = 128;
  std::array<const std::byte *, maxOnStack> fewSources;
  std::array<std::byte *, maxOnStack> fewTargets;
  std::vector<const std::byte *> manySources;
  std::vector<std::byte *> manyTargets;
  std::vector<int64_t> strides; // of sources that are not contiguous
  std::span<const std::byte *> sources(
      fewSources.data(), std::min(move.sources.size(), maxOnStack));
  std::span<std::byte *> targets(fewTargets.data(),
                                 std::min(move.targets.size(), maxOnStack));
  if (move.sources.size() > maxOnStack) {
    manySources.resize(move.sources.size());
    sources = manySources;
  }
  if (move.targets.size() > maxOnStack) {
    manyTargets.resize(move.targets.size());
    targets = manyTargets;
  }

  for (int64_t row = strip.rowBegin; row < strip.rowEnd; ++row) {
    int64_t from = strip.begin * inner.fromStride;
    int64_t to = strip.begin * inner.toStride;
    int64_t rest = row;
    for (size_t i = move.outer.size(); i-- > 0;) {
      const MoveDim &dim = move.outer[i];
      from += rest % dim.size * dim.fromStride;
      to += rest % dim.size * dim.toStride;
      rest /= dim.size;
    }
    const int64_t packed = row * inner.size + strip.begin;
    auto getPlace = [&](const End &end, int64_t element) {
      return (end.isStaged ? staging : arenas[end.device]) + end.offset +
             (end.isStaged ? packed : element) * bytes;
    };
    for (size_t i = 0; i < sources.size(); ++i)
      sources[i] = getPlace(move.sources[i], from);
    for (size_t i = 0; i < targets.size(); ++i)
      targets[i] = getPlace(move.targets[i], to);
    const int64_t count = strip.end - strip.begin;
    if (contiguous) {
      reduceRow(element, move.reduce, sources, targets, count);
      continue;
    }
    // Strided rows go through a contiguous tile.
    constexpr int64_t tileElements = maxCombinedBytes / 8;
    alignas(64) std::array<std::byte, maxCombinedBytes> tile;
    strides.clear();
    for (const End &source : move.sources)
      strides.push_back(source.isStaged ? 1 : inner.fromStride);
    for (int64_t start = 0; start < count; start += tileElements) {
      const int64_t length = std::min(tileElements, count - start);
      combineRows(element, move.reduce, sources, strides, start, tile.data(),
                  length);
      for (size_t i = 0; i < targets.size(); ++i) {
        const int64_t stride = move.targets[i].isStaged ? 1 : inner.toStride;
        copyFromSum(element, tile.data(), targets[i] + start * stride * bytes,
                    stride, length);
      }
    }
  }
}
