#include "runtime/Cuda/NcclCommunicator.h"

#include "runtime/Cuda/LocalCommunicator.h"
#include "runtime/Executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <thread>

using namespace meshc::runtime;
using namespace meshc::runtime::cuda;
namespace exec = meshc::exec;

using Clock = std::chrono::steady_clock;

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

/// Where a device's end of a move is; none if it has none.
static std::optional<uint64_t> findEnd(const std::vector<Collective::End> &ends,
                                       int64_t device) {
  for (const Collective::End &end : ends)
    if (end.device == device)
      return end.offset;
  return std::nullopt;
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
  for (const Collective::Move &move : collective.getMoves())
    if (collective.getGroup(move.targets[0].device) == group)
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
// Communicators
//===----------------------------------------------------------------------===//

static int getType(exec::ElementType element) {
  switch (element) {
  case exec::ElementType::f32:
    return ncclFloat32;
  case exec::ElementType::f64:
    return ncclFloat64;
  case exec::ElementType::i32:
    return ncclInt32;
  case exec::ElementType::i64:
    return ncclInt64;
  case exec::ElementType::boolean:
    return ncclUint8;
  case exec::ElementType::bf16:
    return ncclBfloat16;
  case exec::ElementType::f16:
    return ncclFloat16;
  }
  __builtin_unreachable(); // checkExecutable refuses other values
}

static int getOperation(exec::ReduceKind kind) {
  switch (kind) {
  case exec::ReduceKind::sum:
    return ncclSum;
  case exec::ReduceKind::max:
    return ncclMax;
  case exec::ReduceKind::min:
    return ncclMin;
  case exec::ReduceKind::none:
    break;
  }
  __builtin_unreachable(); // collectives that reduce have a kind
}

static void *toPointer(DevicePointer address) {
  return reinterpret_cast<void *>(address);
}

/// Between two looks at something that is under way.
static void pause(Clock::time_point start) {
  // What ends soon is looked at again at once, what takes long does not heat
  // the processor.
  if (Clock::now() - start > std::chrono::milliseconds(2))
    std::this_thread::sleep_for(std::chrono::microseconds(50));
}

Result<std::unique_ptr<NcclCommunicator>>
NcclCommunicator::create(Gpu &gpu, Peers &peers,
                         std::chrono::seconds deadline) {
  Result<const Nccl *> nccl = Nccl::get();
  if (!nccl)
    return nccl.getError();
  std::unique_ptr<NcclCommunicator> communicator(
      new NcclCommunicator(gpu, **nccl, peers, deadline));
  NcclUniqueId id{};
  if (peers.getRank() == 0)
    MESHC_RETURN_IF_ERROR((*nccl)->getUniqueId(&id));
  Result<std::string> shared =
      peers.shareFirst("nccl", std::string(id.bytes, sizeof(id.bytes)));
  if (!shared)
    return shared.getError();
  if (shared->size() != sizeof(id.bytes))
    return Error{ErrorCode::CommunicationFailed,
                 fmt::format("rank 0 sent {} bytes for NCCL, expected {}",
                             shared->size(), sizeof(id.bytes)),
                 ""};
  std::memcpy(id.bytes, shared->data(), sizeof(id.bytes));
  NcclConfig config;
  config.blocking = 0;
  const int status =
      (*nccl)->commInitRank.call(&communicator->world, int(peers.getNumRanks()),
                                 id, int(peers.getRank()), &config);
  Status settled = communicator->settle(communicator->world,
                                        (*nccl)->commInitRank.symbol, status);
  if (!settled && communicator->failure == ncclInvalidUsage)
    return Error{ErrorCode::TooFewGpus,
                 fmt::format("the processes cannot use their GPUs together: {}",
                             settled.getError().message),
                 fmt::format("each needs a GPU of its own, this one has {}; "
                             "CUDA_VISIBLE_DEVICES may give several the same",
                             gpu.getProperties().toString())};
  if (!settled)
    return settled.getError();
  return communicator;
}

NcclCommunicator::~NcclCommunicator() {
  // Others may still be at work with what this process sent: communicators are
  // closed in order, and at once only after a failure or where others do not
  // take part.
  deadline = std::min(deadline, std::chrono::seconds(5));
  for (auto &[groups, comm] : splits)
    if (comm && isSound)
      isSound = bool(
          settle(comm, nccl.commFinalize.symbol, nccl.commFinalize.call(comm)));
  if (world && isSound)
    isSound = bool(
        settle(world, nccl.commFinalize.symbol, nccl.commFinalize.call(world)));
  if (!isSound) {
    abort();
    return;
  }
  for (auto &[groups, comm] : splits)
    if (comm)
      nccl.commDestroy.call(comm);
  if (world)
    nccl.commDestroy.call(world);
}

void NcclCommunicator::abort() {
  isSound = false;
  for (auto &[groups, comm] : splits)
    if (comm)
      nccl.commAbort.call(comm);
  splits.clear();
  if (world)
    nccl.commAbort.call(std::exchange(world, nullptr));
}

Status NcclCommunicator::settle(NcclComm comm, const char *symbol, int status) {
  const Clock::time_point start = Clock::now();
  while (status == ncclInProgress) {
    pause(start);
    if (const int asked = nccl.commGetAsyncError.call(comm, &status))
      status = asked;
    Status sound = peers.check();
    if (sound && Clock::now() - start > deadline)
      sound = Error{
          ErrorCode::CommunicationFailed,
          fmt::format("{} has not ended after {} s", symbol, deadline.count()),
          "another process may hang or be late"};
    if (!sound) {
      isSound = false;
      return sound;
    }
  }
  if (status == 0)
    return Status::success();
  isSound = false;
  failure = status;
  return Nccl::describe(symbol, status);
}

Result<NcclComm>
NcclCommunicator::getComm(const std::vector<std::vector<int64_t>> &groups) {
  const int64_t ranks = peers.getNumRanks();
  const bool isWorld = groups.size() == 1 &&
                       int64_t(groups[0].size()) == ranks &&
                       std::is_sorted(groups[0].begin(), groups[0].end());
  if (isWorld)
    return world;
  auto [entry, isAbsent] = splits.try_emplace(groups, nullptr);
  if (!isAbsent)
    return entry->second;
  int color = ncclSplitNoColor;
  int key = 0;
  for (size_t group = 0; group < groups.size(); ++group)
    for (size_t i = 0; i < groups[group].size(); ++i)
      if (groups[group][i] == peers.getRank()) {
        color = int(group);
        key = int(i);
      }
  NcclConfig config;
  config.blocking = 0;
  const int status =
      nccl.commSplit.call(world, color, key, &entry->second, &config);
  // The parent is in progress until the child is there.
  MESHC_RETURN_IF_ERROR(settle(world, nccl.commSplit.symbol, status));
  if (entry->second) {
    int state = 0;
    if (const int asked = nccl.commGetAsyncError.call(entry->second, &state))
      state = asked;
    MESHC_RETURN_IF_ERROR(settle(entry->second, nccl.commSplit.symbol, state));
  }
  return entry->second;
}

Status NcclCommunicator::check() {
  auto look = [&](NcclComm comm) -> Status {
    int state = 0;
    MESHC_RETURN_IF_ERROR(nccl.commGetAsyncError(comm, &state));
    if (state == 0 || state == ncclInProgress)
      return Status::success();
    Error error = Nccl::describe("a collective of NCCL", state);
    error.code = ErrorCode::CommunicationFailed;
    return error;
  };
  MESHC_RETURN_IF_ERROR(look(world));
  for (const auto &[groups, comm] : splits)
    if (comm)
      MESHC_RETURN_IF_ERROR(look(comm));
  return peers.check();
}

Status NcclCommunicator::wait(Stream stream) {
  const Driver &driver = gpu.getDriver();
  const Clock::time_point start = Clock::now();
  for (;;) {
    const int status = driver.streamQuery.call(stream);
    if (status == 0)
      return Status::success();
    if (status != errorNotReady)
      return Driver::describe(driver.streamQuery.symbol, status);
    Status sound = check();
    if (sound && Clock::now() - start > deadline)
      sound = Error{ErrorCode::CommunicationFailed,
                    fmt::format("the GPU has not ended its work after {} s",
                                deadline.count()),
                    "another process may hang or be late"};
    if (!sound) {
      abort();
      return sound;
    }
    pause(start);
  }
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

uint64_t NcclCommunicator::planMessages(Entry &entry, DevicePointer arena,
                                        DevicePointer staging,
                                        Pending &boxes) const {
  const Collective &collective = entry.collective;
  const int64_t bytes = getElementBytes(collective.getElement());
  const int64_t self = peers.getRank();
  entry.sends.clear();
  entry.receives.clear();
  uint64_t used = 0;
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

  for (const Collective::Move &move : collective.getMoves()) {
    const std::vector<Collective::MoveDim> dims = getDims(move);
    const std::vector<int64_t> packed = getPacked(dims);
    int64_t elements = 1;
    for (const Collective::MoveDim &dim : dims)
      elements *= dim.size;

    // To others.
    if (const std::optional<uint64_t> from = findEnd(move.sources, self)) {
      Message message{-1, false, *from, elements};
      for (const Collective::End &target : move.targets) {
        if (target.device == self)
          continue;
        const bool isFirst = message.peer < 0;
        message.peer = target.device;
        if (isFirst && !isDense(dims, &Collective::MoveDim::fromStride)) {
          message.isStaged = true;
          message.offset = reserve(elements);
          MoveTable::Box box{{arena + *from}, {staging + message.offset}, dims};
          for (size_t i = 0; i < dims.size(); ++i)
            box.dims[i].toStride = packed[i];
          boxes.pack.push_back(std::move(box));
        }
        entry.sends.push_back(message);
      }
    }

    // From others.
    const std::optional<uint64_t> to = findEnd(move.targets, self);
    if (!to)
      continue;
    const bool isCopy = move.sources.size() == 1;
    if (isCopy && move.sources[0].device != self &&
        isDense(dims, &Collective::MoveDim::toStride)) {
      entry.receives.push_back({move.sources[0].device, false, *to, elements});
      continue;
    }
    // All sources of a box need the same steps: a device's own part is packed
    // too where it is not dense and others are added.
    const bool hasOthers = std::any_of(
        move.sources.begin(), move.sources.end(),
        [&](const Collective::End &source) { return source.device != self; });
    MoveTable::Box box{{}, {arena + *to}, dims};
    if (hasOthers)
      for (size_t i = 0; i < dims.size(); ++i)
        box.dims[i].fromStride = packed[i];
    for (const Collective::End &source : move.sources) {
      if (source.device != self) {
        const uint64_t place = reserve(elements);
        entry.receives.push_back({source.device, true, place, elements});
        box.sources.push_back(staging + place);
        continue;
      }
      if (!hasOthers || isDense(dims, &Collective::MoveDim::fromStride)) {
        box.sources.push_back(arena + source.offset);
        continue;
      }
      const uint64_t place = reserve(elements);
      MoveTable::Box own{{arena + source.offset}, {staging + place}, dims};
      for (size_t i = 0; i < dims.size(); ++i)
        own.dims[i].toStride = packed[i];
      boxes.pack.push_back(std::move(own));
      box.sources.push_back(staging + place);
    }
    boxes.unpack.push_back(std::move(box));
  }
  return used;
}

Result<size_t> NcclCommunicator::add(Collective collective) {
  Entry entry{std::move(collective), -1, {}, nullptr, {}, {}, {}, {}};
  const Collective &added = entry.collective;
  entry.group = added.getGroup(peers.getRank());
  // Splitting is a collective itself, so every process looks at every group.
  std::vector<std::vector<int64_t>> groups;
  for (int64_t group = 0; group < added.getNumGroups(); ++group)
    if (std::vector<NativeCollective> native = findNative(added, group);
        !native.empty()) {
      groups.push_back(native[0].devices);
      if (group == entry.group)
        entry.native = std::move(native);
    }
  if (!groups.empty()) {
    Result<NcclComm> comm = getComm(groups);
    if (!comm)
      return comm.getError();
    entry.comm = *comm;
  }
  if (entry.native.empty()) {
    Pending boxes;
    stagingBytes = std::max(stagingBytes, planMessages(entry, 0, 0, boxes));
  }
  entries.push_back(std::move(entry));
  return entries.size() - 1;
}

Status NcclCommunicator::build(MoveTable &table,
                               std::span<const DevicePointer> arenas,
                               DevicePointer staging) {
  arena = arenas[0];
  stagingMemory = staging;
  moves = &table;
  for (Entry &entry : entries) {
    if (!entry.native.empty() || entry.group < 0)
      continue;
    Pending boxes;
    planMessages(entry, arena, staging, boxes);
    const exec::ElementType element = entry.collective.getElement();
    Result<MoveLaunch> pack =
        table.add(exec::ReduceKind::none, element, boxes.pack);
    if (!pack)
      return pack.getError();
    entry.pack = *pack;
    Result<MoveLaunch> unpack = table.add(
        getReduceKind(entry.collective, entry.group), element, boxes.unpack);
    if (!unpack)
      return unpack.getError();
    entry.unpack = *unpack;
  }
  return Status::success();
}

/// Whether a call went well or is under way.
static bool isGood(int status) {
  return status == 0 || status == ncclInProgress;
}

Status NcclCommunicator::issueNative(const Entry &entry, Stream stream) {
  const int type = getType(entry.collective.getElement());
  const std::vector<int64_t> &devices = entry.native[0].devices;
  const size_t place =
      size_t(std::find(devices.begin(), devices.end(), peers.getRank()) -
             devices.begin());
  const char *symbol = nullptr;
  auto call = [&](const NativeCollective &native) {
    void *from = toPointer(arena + native.from[place]);
    void *to = toPointer(arena + native.to[place]);
    const size_t elements = size_t(native.elements);
    switch (native.kind) {
    case NativeCollective::Kind::AllReduce:
      symbol = nccl.allReduce.symbol;
      return nccl.allReduce.call(from, to, elements, type,
                                 getOperation(native.reduce), entry.comm,
                                 stream);
    case NativeCollective::Kind::AllGather:
      symbol = nccl.allGather.symbol;
      return nccl.allGather.call(from, to, elements, type, entry.comm, stream);
    case NativeCollective::Kind::ReduceScatter:
      symbol = nccl.reduceScatter.symbol;
      return nccl.reduceScatter.call(from, to, elements, type,
                                     getOperation(native.reduce), entry.comm,
                                     stream);
    }
    __builtin_unreachable();
  };
  if (entry.native.size() == 1) {
    const int status = call(entry.native[0]);
    return settle(entry.comm, symbol, status);
  }
  MESHC_RETURN_IF_ERROR(nccl.groupStart());
  for (const NativeCollective &native : entry.native)
    if (const int status = call(native); !isGood(status))
      return Nccl::describe(symbol, status);
  return settle(entry.comm, nccl.groupEnd.symbol, nccl.groupEnd.call());
}

Status NcclCommunicator::issue(size_t number, std::span<const Stream> streams) {
  const Entry &entry = entries[number];
  const Stream stream = streams[0];
  if (entry.group < 0)
    return Status::success();
  if (!entry.native.empty())
    return issueNative(entry, stream);
  const int type = getType(entry.collective.getElement());
  MESHC_RETURN_IF_ERROR(moves->launch(entry.pack, stream));
  if (!entry.sends.empty() || !entry.receives.empty()) {
    auto getAddress = [&](const Message &message) {
      return toPointer((message.isStaged ? stagingMemory : arena) +
                       message.offset);
    };
    MESHC_RETURN_IF_ERROR(nccl.groupStart());
    for (const Message &message : entry.sends)
      if (const int status =
              nccl.send.call(getAddress(message), size_t(message.elements),
                             type, int(message.peer), world, stream);
          !isGood(status))
        return Nccl::describe(nccl.send.symbol, status);
    for (const Message &message : entry.receives)
      if (const int status =
              nccl.recv.call(getAddress(message), size_t(message.elements),
                             type, int(message.peer), world, stream);
          !isGood(status))
        return Nccl::describe(nccl.recv.symbol, status);
    MESHC_RETURN_IF_ERROR(
        settle(world, nccl.groupEnd.symbol, nccl.groupEnd.call()));
  }
  return moves->launch(entry.unpack, stream);
}

Status NcclCommunicator::broadcast(int64_t device, DevicePointer source,
                                   DevicePointer target, uint64_t bytes,
                                   Stream stream) {
  const bool isOwner = device == peers.getRank();
  // The owner's own data may stay where it is.
  void *to = toPointer(isOwner ? source : target);
  return settle(world, nccl.broadcast.symbol,
                nccl.broadcast.call(to, to, size_t(bytes), ncclUint8,
                                    int(device), world, stream));
}
