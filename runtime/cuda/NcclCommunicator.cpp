#include "runtime/cuda/NcclCommunicator.h"

#include "runtime/exec/Executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <thread>

using namespace meshc::runtime;
using namespace meshc::runtime::cuda;
namespace exec = meshc::exec;

using Clock = std::chrono::steady_clock;

//===----------------------------------------------------------------------===//
// Communicators
//===----------------------------------------------------------------------===//

namespace {
/// A type of NCCL, and how many of it an element is.
struct NcclType {
  int type;
  size_t count = 1;
};
} // namespace

static NcclType getNcclType(exec::ElementType element) {
  switch (element) {
  case exec::ElementType::f32:
    return {ncclFloat32};
  case exec::ElementType::f64:
    return {ncclFloat64};
  case exec::ElementType::i32:
    return {ncclInt32};
  case exec::ElementType::i64:
    return {ncclInt64};
  case exec::ElementType::boolean:
  case exec::ElementType::u8:
    return {ncclUint8};
  case exec::ElementType::i8:
    return {ncclInt8};
  case exec::ElementType::i16:
    // NCCL has no such integer. A sum of data has one term that is not 0
    // (isForData): its bytes may be summed apart.
    return {ncclUint8, 2};
  case exec::ElementType::bf16:
    return {ncclBfloat16};
  case exec::ElementType::f16:
    return {ncclFloat16};
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
  return communicator;
}

Status NcclCommunicator::connect() {
  NcclUniqueId id{};
  if (peers.getRank() == 0)
    MESHC_RETURN_IF_ERROR(nccl.getUniqueId(&id));
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
  const int status = nccl.commInitRank.call(&world, int(peers.getNumRanks()),
                                            id, int(peers.getRank()), &config);
  Status settled = settle(world, nccl.commInitRank.symbol, status);
  if (!settled && failure == ncclInvalidUsage)
    return Error{ErrorCode::TooFewGpus,
                 fmt::format("the processes cannot use their GPUs together: {}",
                             settled.getError().message),
                 fmt::format("each needs a GPU of its own, this one has {}; "
                             "CUDA_VISIBLE_DEVICES may give several the same",
                             gpu.getProperties().toString())};
  return settled;
}

NcclCommunicator::~NcclCommunicator() {
  // Others may still be at work with what this process sent, so communicators
  // are closed in order.
  deadline = std::min(deadline, std::chrono::seconds(5));
  for (auto &[groups, comm] : splits)
    if (comm && isSound)
      isSound = bool(
          settle(comm, nccl.commFinalize.symbol, nccl.commFinalize.call(comm)));
  if (world && isSound)
    isSound = bool(
        settle(world, nccl.commFinalize.symbol, nccl.commFinalize.call(world)));
  if (!isSound)
    return;
  for (auto &[groups, comm] : splits)
    if (comm)
      nccl.commDestroy.call(comm);
  if (world)
    nccl.commDestroy.call(world);
}

/// Whether a call went well or is under way.
static bool isGood(int status) {
  return status == 0 || status == ncclInProgress;
}

Status NcclCommunicator::settle(NcclComm comm, const char *symbol, int status) {
  const Clock::time_point start = Clock::now();
  while (isGood(status)) {
    // Success may mean that something has begun, as with ncclCommSplit: only
    // the communicator knows.
    if (const int asked = nccl.commGetAsyncError.call(comm, &status))
      status = asked;
    if (status == 0)
      return Status::success();
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
    pause(start);
  }
  isSound = false;
  failure = status;
  return Nccl::describe(symbol, status);
}

Status NcclCommunicator::endGroup(NcclComm comm, const char *symbol,
                                  int status) {
  // Left open, it would take in every later call.
  const int ended = nccl.groupEnd.call();
  if (isGood(status))
    return settle(comm, nccl.groupEnd.symbol, ended);
  isSound = false;
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
  if (entry->second)
    MESHC_RETURN_IF_ERROR(
        settle(entry->second, nccl.commSplit.symbol, /*status=*/0));
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
    if (status != errorNotReady) {
      isSound = false;
      return Driver::describe(driver.streamQuery.symbol, status);
    }
    Status sound = check();
    if (sound && Clock::now() - start > deadline)
      sound = Error{ErrorCode::CommunicationFailed,
                    fmt::format("the GPU has not ended its work after {} s",
                                deadline.count()),
                    "another process may hang or be late"};
    if (!sound) {
      isSound = false;
      return sound;
    }
    pause(start);
  }
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

Result<size_t> NcclCommunicator::add(Collective collective) {
  Entry entry{std::move(collective), -1, {}, nullptr, {}, {}, {}};
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
  entries.push_back(std::move(entry));
  return entries.size() - 1;
}

NcclNeed NcclCommunicator::getNcclNeed() const {
  NcclNeed need;
  need.communicators = 1; // that of all ranks, which every read goes through
  for (const auto &[groups, comm] : splits)
    need.communicators += comm != nullptr;
  // NCCL reads the same variables. Source: its user guide, "Environment
  // Variables".
  for (const char *variable : {"NCCL_MAX_CTAS", "NCCL_MAX_NCHANNELS"})
    if (const char *text = std::getenv(variable)) {
      int64_t channels = 0;
      std::from_chars(text, text + std::strlen(text), channels);
      if (channels > 0)
        need.channels = std::min(need.channels, channels);
    }
  return need;
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
    entry.messages =
        planMessages(entry.collective, peers.getRank(), arena, staging);
    const exec::ElementType element = entry.collective.getElement();
    Result<std::vector<MoveLaunch>> pack =
        table.add(element, entry.messages.pack);
    if (!pack)
      return pack.getError();
    entry.pack = std::move(*pack);
    Result<std::vector<MoveLaunch>> unpack =
        table.add(element, entry.messages.unpack);
    if (!unpack)
      return unpack.getError();
    entry.unpack = std::move(*unpack);
  }
  return Status::success();
}

Status NcclCommunicator::issueNative(const Entry &entry, Stream stream) {
  const auto [type, perElement] = getNcclType(entry.collective.getElement());
  const std::vector<int64_t> &devices = entry.native[0].devices;
  const size_t place =
      size_t(std::find(devices.begin(), devices.end(), peers.getRank()) -
             devices.begin());
  const char *symbol = nullptr;
  auto call = [&](const NativeCollective &native) {
    void *from = toPointer(arena + native.from[place]);
    void *to = toPointer(arena + native.to[place]);
    const size_t elements = size_t(native.elements) * perElement;
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
  int status = 0;
  for (const NativeCollective &native : entry.native)
    if (isGood(status))
      status = call(native);
  return endGroup(entry.comm, symbol, status);
}

Status NcclCommunicator::issue(size_t number, std::span<const Stream> streams) {
  const Entry &entry = entries[number];
  const Stream stream = streams[0];
  if (entry.group < 0)
    return Status::success();
  if (!entry.native.empty())
    return issueNative(entry, stream);
  const auto [type, perElement] = getNcclType(entry.collective.getElement());
  MESHC_RETURN_IF_ERROR(moves->launch(entry.pack, stream));
  if (!entry.messages.sends.empty() || !entry.messages.receives.empty()) {
    auto getAddress = [&](const NcclMessages::Message &message) {
      return toPointer((message.isStaged ? stagingMemory : arena) +
                       message.offset);
    };
    MESHC_RETURN_IF_ERROR(nccl.groupStart());
    const char *symbol = nccl.send.symbol;
    int status = 0;
    for (const NcclMessages::Message &message : entry.messages.sends)
      if (isGood(status))
        status = nccl.send.call(getAddress(message),
                                size_t(message.elements) * perElement, type,
                                int(message.peer), world, stream);
    for (const NcclMessages::Message &message : entry.messages.receives)
      if (isGood(status)) {
        symbol = nccl.recv.symbol;
        status = nccl.recv.call(getAddress(message),
                                size_t(message.elements) * perElement, type,
                                int(message.peer), world, stream);
      }
    MESHC_RETURN_IF_ERROR(endGroup(world, symbol, status));
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
