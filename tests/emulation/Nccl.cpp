// The functions of the emulated libnccl.so.2.

#include "Environment.h"
#include "Extension.h"
#include "Fibers.h"
#include "NcclComm.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <optional>
#include <sys/random.h>
#include <thread>
#include <utility>

using namespace meshc::emulation;

namespace {

/// What the handles of communicators stand for; never destroyed, and a handle
/// is never used twice.
struct Handles {
  std::mutex mutex;
  uintptr_t last = 0x7000;
  std::map<uintptr_t, CommunicatorRef> live;
};

Handles &getHandles() {
  static Handles *handles = new Handles;
  return *handles;
}

CommunicatorRef find(ncclComm_t handle) {
  Handles &handles = getHandles();
  std::lock_guard lock(handles.mutex);
  auto found = handles.live.find(reinterpret_cast<uintptr_t>(handle));
  return found == handles.live.end() ? nullptr : found->second;
}

ncclComm_t add(const CommunicatorRef &communicator) {
  Handles &handles = getHandles();
  std::lock_guard lock(handles.mutex);
  handles.live[handles.last += 16] = communicator;
  return reinterpret_cast<ncclComm_t>(handles.last);
}

bool remove(ncclComm_t handle) {
  Handles &handles = getHandles();
  std::lock_guard lock(handles.mutex);
  return handles.live.erase(reinterpret_cast<uintptr_t>(handle)) == 1;
}

std::mutex lastErrorMutex;
std::string lastError;

int refuse(int code, const std::string &why) {
  std::fprintf(stderr, "meshc emulation: NCCL: %s\n", why.c_str());
  std::lock_guard lock(lastErrorMutex);
  lastError = why;
  return code;
}

bool isFailing(const char *name, const std::string &arguments, int &code) {
  return meshcEmulationCall(name, arguments.c_str(), &code);
}

uint64_t hashName(const std::string &name) {
  // FNV-1a, 64 bits (Fowler, Noll, Vo).
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : name)
    hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

// ---- groups -----------------------------------------------------------------

struct Call {
  CommunicatorRef communicator;
  Request request;
  cudaStream_t stream;
};

struct Group {
  int depth = 0;
  int error = ncclSuccess; ///< of the first call in it that failed
  std::vector<Call> calls;
  std::vector<CommunicatorRef> making; ///< waited for at the end
};

thread_local Group group;

bool isPoint(const Request &request) {
  return request.kind == CollectiveKind::send ||
         request.kind == CollectiveKind::recv;
}

/// What is put into a stream, or captured in a graph; lives until it has run,
/// and until the graph is destroyed.
class Piece {
public:
  Piece(CommunicatorRef communicator, std::vector<Request> requests)
      : communicator(std::move(communicator)), requests(std::move(requests)) {
    std::lock_guard lock(this->communicator->world->mutex);
    ++this->communicator->references;
  }
  Piece(const Piece &) = delete;
  ~Piece() {
    std::lock_guard lock(communicator->world->mutex);
    --communicator->references;
  }

  std::unique_ptr<Execution> begin() const {
    return isPoint(requests[0]) ? beginPoints(communicator, requests)
                                : beginCollective(communicator, requests[0]);
  }

private:
  CommunicatorRef communicator;
  std::vector<Request> requests;
};

int submit(const Call &first, std::vector<Request> requests) {
  std::string text = "NCCL " + describe(requests[0]);
  meshcEmulationWork work;
  work.text = text.c_str();
  work.data = new Piece(first.communicator, std::move(requests));
  work.waits = true;
  work.begin = [](void *data) -> void * {
    return static_cast<Piece *>(data)->begin().release();
  };
  work.poll = [](void *state) {
    return static_cast<Execution *>(state)->poll();
  };
  work.end = [](void *state) { delete static_cast<Execution *>(state); };
  work.destroy = [](void *data) { delete static_cast<Piece *>(data); };
  return meshcEmulationSubmit(first.stream, &work) == CUDA_SUCCESS
             ? ncclSuccess
             : refuse(ncclUnhandledCudaError,
                      "the work cannot be put into the stream");
}

/// The sends and recvs of a communicator and stream go together, where the
/// first of them stands.
int submitAll(std::vector<Call> calls) {
  while (!calls.empty()) {
    Call first = calls.front();
    std::vector<Request> requests;
    auto taken = [&](const Call &call) {
      bool together = requests.empty() ||
                      (isPoint(first.request) && isPoint(call.request) &&
                       call.communicator == first.communicator &&
                       call.stream == first.stream);
      if (together)
        requests.push_back(call.request);
      return together;
    };
    std::vector<Call> rest;
    for (const Call &call : calls)
      if (!taken(call))
        rest.push_back(call);
    if (int result = submit(first, std::move(requests)))
      return result;
    calls = std::move(rest);
  }
  return ncclSuccess;
}

/// What a test wants of this rank's collectives: to end it before one, or to
/// swap one with the next.
std::vector<Call> disturb(const Call &call) {
  static std::mutex mutex;
  static std::optional<Call> held;
  static int64_t count = 0;
  if (isPoint(call.request))
    return {call};
  const Environment &environment = getEnvironment();
  std::lock_guard lock(mutex);
  ++count;
  int rank = call.communicator->world->rank;
  if (environment.kill.rank == rank && environment.kill.call == count)
    raise(SIGKILL);
  if (environment.swapCollectives.rank == rank &&
      environment.swapCollectives.call == count) {
    held = call;
    return {};
  }
  std::vector<Call> calls = {call};
  if (held) {
    calls.push_back(*held);
    held.reset();
  }
  return calls;
}

int finish(const CommunicatorRef &communicator, int result) {
  if (result != ncclSuccess || communicator->isBlocking)
    return result;
  // A communicator that does not block may say so at any call.
  int polls = static_cast<int>(getEnvironment().seed % 3);
  std::lock_guard lock(communicator->world->mutex);
  communicator->busyPolls = polls;
  return polls > 0 ? ncclInProgress : ncclSuccess;
}

/// Whether a communicator may be asked for something, as NCCL's
/// ncclCommEnsureReady says. With the world's lock held.
int checkReady(const char *name, const Communicator &communicator) {
  if (communicator.error)
    return communicator.error;
  if (communicator.isInProgress())
    return refuse(ncclInvalidArgument,
                  std::string(name) + ": the communicator is used before the "
                                      "previous operation has ended");
  return ncclSuccess;
}

/// Connects the channels of a communicator, which takes memory.
int connect(Communicator &communicator) {
  size_t bytes = getEnvironment().ncclBytes;
  if (bytes == 0 || communicator.buffers)
    return ncclSuccess;
  return cuMemAlloc_v2(&communicator.buffers, bytes) == CUDA_SUCCESS
             ? ncclSuccess
             : refuse(ncclUnhandledCudaError, "Failed to CUDA malloc " +
                                                  std::to_string(bytes) +
                                                  " bytes");
}

int enqueueCall(const char *name, ncclComm_t handle, Request request,
                cudaStream_t stream) {
  CommunicatorRef communicator = find(handle);
  int code;
  std::string arguments = "\"what\": \"" + describe(request) + "\"";
  if (communicator)
    arguments += ", \"rank\": " + std::to_string(communicator->world->rank) +
                 ", \"communicator\": \"" + communicator->name + "\"";
  if (isFailing(name, arguments, code))
    return code;
  if (!communicator)
    return refuse(ncclInvalidArgument, std::string(name) + ": no communicator");
  int size = communicator->size(), rank = communicator->rank;
  {
    std::lock_guard lock(communicator->world->mutex);
    if (int refused = checkReady(name, *communicator))
      return refused;
    if (communicator->finalized)
      return refuse(ncclInvalidUsage,
                    std::string(name) + ": the communicator was finalized");
  }
  size_t bytes = request.count * getNcclTypeBytes(request.type);
  if (getNcclTypeBytes(request.type) == 0 || request.operation < ncclSum ||
      request.operation > ncclMin || request.root < 0 || request.root >= size)
    return refuse(ncclInvalidArgument,
                  std::string(name) + ": " + describe(request));
  bool scatters = request.kind == CollectiveKind::reduceScatter ||
                  request.kind == CollectiveKind::allToAll;
  bool gathers = request.kind == CollectiveKind::allGather ||
                 request.kind == CollectiveKind::allToAll;
  bool reads =
      request.kind != CollectiveKind::recv &&
      (request.kind != CollectiveKind::broadcast || request.root == rank);
  bool writes = request.kind != CollectiveKind::send;
  size_t fromBytes = bytes * (scatters ? size : 1);
  size_t toBytes = bytes * (gathers ? size : 1);
  auto from = reinterpret_cast<CUdeviceptr>(request.from);
  auto to = reinterpret_cast<CUdeviceptr>(request.to);
  if ((reads && meshcEmulationCheckRange(from, fromBytes)) ||
      (writes && meshcEmulationCheckRange(to, toBytes)))
    return refuse(ncclInvalidArgument, std::string(name) + ": " +
                                           describe(request) +
                                           " reaches outside an allocation");
  // In place only as the header says at each function.
  if (reads && writes && from < to + toBytes && to < from + fromBytes) {
    bool inPlace = request.kind == CollectiveKind::allGather
                       ? from == to + rank * bytes
                   : request.kind == CollectiveKind::reduceScatter
                       ? to == from + rank * bytes
                   : request.kind == CollectiveKind::allToAll ? false
                                                              : from == to;
    if (!inPlace)
      return refuse(ncclInvalidUsage, std::string(name) + ": " +
                                          describe(request) +
                                          " overwrites what it reads");
  }
  if (int refused = connect(*communicator))
    return refused;
  for (Call &call : disturb({communicator, request, stream}))
    group.calls.push_back(call);
  if (group.depth > 0)
    return ncclSuccess;
  int result = submitAll(std::move(group.calls));
  group.calls.clear();
  return finish(communicator, result);
}

int enqueue(const char *name, ncclComm_t handle, Request request,
            cudaStream_t stream) {
  int result = enqueueCall(name, handle, request, stream);
  if (group.depth > 0 && group.error == ncclSuccess)
    group.error = result;
  return result;
}

Request makeRequest(CollectiveKind kind, const void *from, void *to,
                    size_t count, int type) {
  Request request{kind};
  request.from = static_cast<const unsigned char *>(from);
  request.to = static_cast<unsigned char *>(to);
  request.count = count;
  request.type = type;
  return request;
}

// ---- making and ending ------------------------------------------------------

/// Gives the caller the child of a split that has ended. With the world's lock
/// held.
void finishSplit(Communicator &parent) {
  if (!std::exchange(parent.hasSplit, false))
    return;
  parent.state = ncclSuccess;
  if (parent.child)
    *parent.childPlace = add(std::exchange(parent.child, nullptr));
}

void waitUntilMade(const CommunicatorRef &communicator) {
  for (;;) {
    {
      std::lock_guard lock(communicator->world->mutex);
      finishSplit(*communicator);
      if (communicator->state != ncclInProgress || communicator->error)
        return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

int getState(const CommunicatorRef &communicator) {
  std::lock_guard lock(communicator->world->mutex);
  return communicator->error ? communicator->error : communicator->state;
}

/// Starts `make` in a thread; a communicator that blocks is waited for.
int start(const CommunicatorRef &communicator,
          const std::function<void()> &make) {
  std::thread(make).detach();
  if (!communicator->isBlocking)
    return ncclInProgress;
  if (group.depth > 0) {
    group.making.push_back(communicator);
    return ncclSuccess;
  }
  waitUntilMade(communicator);
  return getState(communicator);
}

bool isBlocking(const ncclConfig_t *config) {
  return !config || config->blocking != 0;
}

int makeWorld(const char *name, ncclComm_t *handle, int ranks,
              const ncclUniqueId &id, int rank, const ncclConfig_t *config) {
  int code;
  if (isFailing(name,
                "\"ranks\": " + std::to_string(ranks) +
                    ", \"rank\": " + std::to_string(rank),
                code))
    return code;
  if (!handle || ranks < 1 || rank < 0 || rank >= ranks)
    return refuse(ncclInvalidArgument, std::string(name) + ": rank " +
                                           std::to_string(rank) + " of " +
                                           std::to_string(ranks));
  if (config && config->magic != 0xcafebeef)
    return refuse(ncclInvalidArgument,
                  std::string(name) + ": the configuration has no magic");
  CUdevice device;
  int bus = meshcEmulationCurrentBus();
  if (bus < 0 || cuCtxGetDevice(&device) != CUDA_SUCCESS)
    return refuse(ncclUnhandledCudaError,
                  std::string(name) + ": there is no current GPU");
  auto communicator = std::make_shared<Communicator>();
  communicator->name = "world";
  std::string text(id.internal, strnlen(id.internal, sizeof id.internal));
  communicator->world = new World(text, ranks, rank, bus);
  communicator->hash = hashName(text);
  for (int i = 0; i < ranks; ++i)
    communicator->members.push_back(i);
  communicator->rank = rank;
  communicator->device = device;
  communicator->isBlocking = isBlocking(config);
  World &world = *communicator->world;
  world.communicators[communicator->hash] = communicator;
  world.begun[communicator->hash] = 0;
  *handle = add(communicator);
  return start(communicator, [communicator] {
    std::string error;
    int result = communicator->world->connect(error);
    std::lock_guard lock(communicator->world->mutex);
    if (result)
      communicator->fail(result, error);
    else
      communicator->state = ncclSuccess;
  });
}

/// What a rank says at a split.
struct SplitChoice {
  int32_t color, key;
};

/// Hears what all others choose, and makes the child of those of one color.
/// The parent has it when it is no longer in progress.
void split(const CommunicatorRef &parent, const CommunicatorRef &child,
           SplitChoice own, uint64_t sequence) {
  World &world = *parent->world;
  std::vector<std::tuple<int, int, int>> chosen; // key, rank, world's rank
  for (int i = 0; i < parent->size(); ++i) {
    MessageKey key{parent->hash, MessageKind::split, sequence,
                   parent->members[i]};
    for (;;) {
      std::unique_lock lock(world.mutex);
      if (parent->error || parent->aborted)
        return;
      if (world.find(key)) {
        SplitChoice choice;
        std::memcpy(&choice, world.take(key).header.data(), sizeof choice);
        if (choice.color == own.color)
          chosen.emplace_back(choice.key, i, parent->members[i]);
        break;
      }
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
  std::sort(chosen.begin(), chosen.end());
  std::lock_guard lock(world.mutex);
  parent->hasSplit = true;
  if (!child)
    return;
  for (auto [key, rank, member] : chosen) {
    if (member == world.rank)
      child->rank = child->size();
    child->members.push_back(member);
  }
  // Members of other colors have another communicator under this number.
  child->name = parent->name + "/" + std::to_string(sequence) + ":" +
                std::to_string(own.color);
  child->hash = hashName(world.id + child->name);
  world.begun[child->hash] = 0;
  world.communicators[child->hash] = child;
  child->state = ncclSuccess;
  parent->child = child;
}

void abort(Communicator &communicator) {
  std::lock_guard lock(communicator.world->mutex);
  if (!communicator.error)
    communicator.tell(ncclRemoteError,
                      "rank " + std::to_string(communicator.world->rank) +
                          " has aborted");
  communicator.aborted = true;
}

/// Until nothing of the communicator is under way and no graph has any of it,
/// as NCCL's commDestroySync does: an abort ends the kernels, but not the wait
/// for the graphs.
void waitUntilDone(Communicator &communicator) {
  for (;;) {
    {
      std::lock_guard lock(communicator.world->mutex);
      if (communicator.references == 0)
        return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool isInUse(const World *world) {
  Handles &handles = getHandles();
  std::lock_guard lock(handles.mutex);
  return std::any_of(
      handles.live.begin(), handles.live.end(),
      [&](const auto &entry) { return entry.second->world == world; });
}

int end(const char *name, ncclComm_t handle, bool aborts) {
  int code;
  if (isFailing(name, "", code))
    return code;
  CommunicatorRef communicator = find(handle);
  if (!communicator)
    return refuse(ncclInvalidArgument, std::string(name) + ": no communicator");
  if (aborts) {
    abort(*communicator);
  } else {
    std::lock_guard lock(communicator->world->mutex);
    if (int refused = checkReady(name, *communicator))
      return refused;
  }
  waitUntilDone(*communicator);
  if (communicator->buffers)
    cuMemFree_v2(communicator->buffers);
  remove(handle);
  // The last communicator of this process says farewell.
  if (!isInUse(communicator->world))
    communicator->world->stop();
  return ncclSuccess;
}

} // namespace

extern "C" {

MESHC_EMULATION_API ncclResult_t ncclGetVersion(int *version) {
  if (!version)
    return ncclInvalidArgument;
  *version = getEnvironment().ncclVersion;
  return ncclSuccess;
}

MESHC_EMULATION_API ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  int code;
  if (isFailing("ncclGetUniqueId", "", code))
    return code;
  unsigned char bytes[16];
  if (!id || getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
    return ncclInvalidArgument;
  std::memset(id->internal, 0, sizeof id->internal);
  for (size_t i = 0; i < sizeof bytes; ++i)
    std::snprintf(id->internal + 2 * i, 3, "%02x", bytes[i]);
  return ncclSuccess;
}

MESHC_EMULATION_API const char *ncclGetErrorString(ncclResult_t result) {
  switch (result) {
  case ncclSuccess:
    return "no error";
  case ncclUnhandledCudaError:
    return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
  case ncclSystemError:
    return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
  case ncclInternalError:
    return "internal error - please report this issue to the NCCL developers";
  case ncclInvalidArgument:
    return "invalid argument (run with NCCL_DEBUG=WARN for details)";
  case ncclInvalidUsage:
    return "invalid usage (run with NCCL_DEBUG=WARN for details)";
  case ncclRemoteError:
    return "remote process exited or there was a network error";
  case ncclInProgress:
    return "NCCL operation in progress";
  default:
    return "unknown result code";
  }
}

MESHC_EMULATION_API const char *ncclGetLastError(ncclComm_t handle) {
  static thread_local std::string text;
  CommunicatorRef communicator = find(handle);
  if (communicator) {
    std::lock_guard lock(communicator->world->mutex);
    text = communicator->text;
  }
  if (!communicator || text.empty()) {
    std::lock_guard lock(lastErrorMutex);
    text = lastError;
  }
  return text.c_str();
}

MESHC_EMULATION_API ncclResult_t ncclMemAlloc(void **address, size_t bytes) {
  int code;
  if (isFailing("ncclMemAlloc", "\"bytes\": " + std::to_string(bytes), code))
    return code;
  CUdeviceptr device;
  if (!address || cuMemAlloc_v2(&device, bytes) != CUDA_SUCCESS)
    return ncclUnhandledCudaError;
  *address = reinterpret_cast<void *>(device);
  return ncclSuccess;
}

MESHC_EMULATION_API ncclResult_t ncclMemFree(void *address) {
  return cuMemFree_v2(reinterpret_cast<CUdeviceptr>(address)) == CUDA_SUCCESS
             ? ncclSuccess
             : ncclUnhandledCudaError;
}

MESHC_EMULATION_API ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks,
                                                  ncclUniqueId id, int rank) {
  return makeWorld("ncclCommInitRank", comm, ranks, id, rank, nullptr);
}

MESHC_EMULATION_API ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm,
                                                        int ranks,
                                                        ncclUniqueId id,
                                                        int rank,
                                                        ncclConfig_t *config) {
  return makeWorld("ncclCommInitRankConfig", comm, ranks, id, rank, config);
}

MESHC_EMULATION_API ncclResult_t ncclCommSplit(ncclComm_t handle, int color,
                                               int key, ncclComm_t *child,
                                               ncclConfig_t *config) {
  int code;
  if (isFailing("ncclCommSplit",
                "\"color\": " + std::to_string(color) +
                    ", \"key\": " + std::to_string(key),
                code))
    return code;
  CommunicatorRef parent = find(handle);
  if (!parent || !child || color < splitNoColor)
    return refuse(ncclInvalidArgument, "ncclCommSplit: no communicator");
  *child = nullptr;
  CommunicatorRef made;
  uint64_t sequence;
  SplitChoice own{color, key};
  {
    std::lock_guard lock(parent->world->mutex);
    if (int refused = checkReady("ncclCommSplit", *parent))
      return refused;
    if (parent->finalized)
      return refuse(ncclInvalidUsage,
                    "ncclCommSplit: the communicator was finalized");
    sequence = parent->splits++;
    parent->state = ncclInProgress;
    parent->childPlace = child;
    for (int member : parent->members)
      parent->world->send(
          member,
          {parent->hash, MessageKind::split, sequence, parent->world->rank},
          std::string(reinterpret_cast<const char *>(&own), sizeof own), "");
  }
  if (color != splitNoColor) {
    made = std::make_shared<Communicator>();
    made->world = parent->world;
    made->device = parent->device;
    made->isBlocking = config ? isBlocking(config) : parent->isBlocking;
  }
  int result = start(parent, [=] { split(parent, made, own, sequence); });
  if (parent->isBlocking)
    return result;
  // NCCL gives success for a split that has only begun: its last call, whose
  // status would tell, is inside of a macro that lets "in progress" pass
  // (ncclCommSplit in init.cc of 2.18 to 2.28). The documentation allows both.
  return getEnvironment().seed % 2 ? ncclInProgress : ncclSuccess;
}

MESHC_EMULATION_API ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  int code;
  if (isFailing("ncclCommFinalize", "", code))
    return code;
  CommunicatorRef communicator = find(handle);
  if (!communicator)
    return ncclInvalidArgument;
  {
    std::lock_guard lock(communicator->world->mutex);
    if (int refused = checkReady("ncclCommFinalize", *communicator))
      return refused;
    if (communicator->finalized)
      return refuse(ncclInvalidArgument, "ncclCommFinalize: a second time");
    communicator->finalized = true;
    if (!communicator->isBlocking)
      return communicator->isInProgress() ? ncclInProgress : ncclSuccess;
  }
  waitUntilDone(*communicator);
  return ncclSuccess;
}

MESHC_EMULATION_API ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  return end("ncclCommDestroy", handle, /*aborts=*/false);
}

MESHC_EMULATION_API ncclResult_t ncclCommAbort(ncclComm_t handle) {
  return end("ncclCommAbort", handle, /*aborts=*/true);
}

MESHC_EMULATION_API ncclResult_t ncclCommGetAsyncError(ncclComm_t handle,
                                                       ncclResult_t *result) {
  CommunicatorRef communicator = find(handle);
  if (!communicator || !result)
    return ncclInvalidArgument;
  std::lock_guard lock(communicator->world->mutex);
  finishSplit(*communicator);
  *result = communicator->error            ? communicator->error
            : communicator->isInProgress() ? ncclInProgress
                                           : ncclSuccess;
  if (communicator->busyPolls > 0)
    --communicator->busyPolls;
  return ncclSuccess;
}

MESHC_EMULATION_API ncclResult_t ncclCommCount(const ncclComm_t handle,
                                               int *count) {
  CommunicatorRef communicator = find(handle);
  if (!communicator || !count)
    return ncclInvalidArgument;
  *count = communicator->size();
  return ncclSuccess;
}

MESHC_EMULATION_API ncclResult_t ncclCommCuDevice(const ncclComm_t handle,
                                                  int *device) {
  CommunicatorRef communicator = find(handle);
  if (!communicator || !device)
    return ncclInvalidArgument;
  *device = communicator->device;
  return ncclSuccess;
}

MESHC_EMULATION_API ncclResult_t ncclCommUserRank(const ncclComm_t handle,
                                                  int *rank) {
  CommunicatorRef communicator = find(handle);
  if (!communicator || !rank)
    return ncclInvalidArgument;
  *rank = communicator->rank;
  return ncclSuccess;
}

MESHC_EMULATION_API ncclResult_t ncclGroupStart(void) {
  int code;
  if (isFailing("ncclGroupStart", "", code))
    return code;
  ++group.depth;
  return ncclSuccess;
}

MESHC_EMULATION_API ncclResult_t ncclGroupEnd(void) {
  int code;
  if (isFailing("ncclGroupEnd", "", code))
    return code;
  if (group.depth == 0)
    return refuse(ncclInvalidUsage, "ncclGroupEnd: no group was started");
  if (--group.depth > 0)
    return ncclSuccess;
  // Nothing of a group is done in which a call has failed.
  if (int error = std::exchange(group.error, ncclSuccess)) {
    group.calls.clear();
    return error;
  }
  std::vector<CommunicatorRef> making = std::move(group.making);
  group.making.clear();
  for (const CommunicatorRef &communicator : making) {
    waitUntilMade(communicator);
    if (int state = getState(communicator))
      return state;
  }
  std::vector<Call> calls = std::move(group.calls);
  group.calls.clear();
  if (calls.empty())
    return ncclSuccess;
  CommunicatorRef communicator = calls.front().communicator;
  return finish(communicator, submitAll(std::move(calls)));
}

MESHC_EMULATION_API ncclResult_t
ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
              ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  Request request =
      makeRequest(CollectiveKind::allReduce, from, to, count, type);
  request.operation = operation;
  return enqueue("ncclAllReduce", comm, request, stream);
}

MESHC_EMULATION_API ncclResult_t
ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type,
                  ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  Request request =
      makeRequest(CollectiveKind::reduceScatter, from, to, count, type);
  request.operation = operation;
  return enqueue("ncclReduceScatter", comm, request, stream);
}

MESHC_EMULATION_API ncclResult_t ncclAllGather(const void *from, void *to,
                                               size_t count,
                                               ncclDataType_t type,
                                               ncclComm_t comm,
                                               cudaStream_t stream) {
  return enqueue("ncclAllGather", comm,
                 makeRequest(CollectiveKind::allGather, from, to, count, type),
                 stream);
}

MESHC_EMULATION_API ncclResult_t ncclBroadcast(const void *from, void *to,
                                               size_t count,
                                               ncclDataType_t type, int root,
                                               ncclComm_t comm,
                                               cudaStream_t stream) {
  Request request =
      makeRequest(CollectiveKind::broadcast, from, to, count, type);
  request.root = root;
  return enqueue("ncclBroadcast", comm, request, stream);
}

MESHC_EMULATION_API ncclResult_t ncclAlltoAll(const void *from, void *to,
                                              size_t count, ncclDataType_t type,
                                              ncclComm_t comm,
                                              cudaStream_t stream) {
  return enqueue("ncclAlltoAll", comm,
                 makeRequest(CollectiveKind::allToAll, from, to, count, type),
                 stream);
}

MESHC_EMULATION_API ncclResult_t ncclSend(const void *from, size_t count,
                                          ncclDataType_t type, int peer,
                                          ncclComm_t comm,
                                          cudaStream_t stream) {
  Request request =
      makeRequest(CollectiveKind::send, from, nullptr, count, type);
  request.root = peer;
  return enqueue("ncclSend", comm, request, stream);
}

MESHC_EMULATION_API ncclResult_t ncclRecv(void *to, size_t count,
                                          ncclDataType_t type, int peer,
                                          ncclComm_t comm,
                                          cudaStream_t stream) {
  Request request = makeRequest(CollectiveKind::recv, nullptr, to, count, type);
  request.root = peer;
  return enqueue("ncclRecv", comm, request, stream);
}

} // extern "C"
