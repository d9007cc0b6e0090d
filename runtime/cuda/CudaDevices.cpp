#include "runtime/cuda/CudaDevices.h"

#include "runtime/cuda/LocalCommunicator.h"
#include "runtime/cuda/MatmulTuning.h"
#include "runtime/cuda/NcclCommunicator.h"
#include "runtime/plans/GpuMemoryNeed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>

using namespace meshc::runtime;
using namespace meshc::runtime::cuda;
namespace exec = meshc::exec;

/// The GPU of this process among `gpus`; an error if the devices of the mesh
/// cannot be on the GPUs and in the processes that there are.
static Result<int> chooseGpu(int64_t devices, bool hasDeviceOrder,
                             const CudaOptions &options, int gpus) {
  if (gpus == 0)
    return Error{ErrorCode::TooFewGpus,
                 fmt::format("the mesh has {} device{}, this machine no GPU",
                             devices, devices == 1 ? "" : "s"),
                 "the driver sees none; CUDA_VISIBLE_DEVICES may hide them"};
  const int64_t ranks = options.peers ? options.peers->getNumRanks() : 1;
  const int64_t perGpu = options.devicesPerGpu;
  if (ranks > 1 && perGpu != 1)
    return Error{ErrorCode::Usage,
                 fmt::format("--devices-per-gpu {} needs one process, found {}",
                             perGpu, ranks),
                 "NCCL counts one device per GPU, and devices that share one "
                 "exchange data by kernels that do not reach other processes; "
                 "collectives of both kinds at once are not built"};
  if (ranks > 1 && hasDeviceOrder)
    return Error{ErrorCode::UnsupportedOnGpu,
                 "the mesh gives its devices an order, which processes with a "
                 "GPU each cannot follow",
                 "change the order of the processes instead"};
  if (ranks > 1 && ranks != devices)
    return Error{ErrorCode::TooFewGpus,
                 fmt::format("the mesh has {} devices, the run {} processes "
                             "with a GPU each",
                             devices, ranks),
                 fmt::format("start {} processes, or one with "
                             "--devices-per-gpu {}",
                             devices, devices)};
  if (ranks == 1 && devices > perGpu) {
    const std::string found =
        perGpu > 1 ? fmt::format("--devices-per-gpu allows {}", perGpu)
        : gpus < devices
            ? fmt::format("this machine {} GPU{}", gpus, gpus == 1 ? "" : "s")
            : "this process takes one GPU";
    return Error{ErrorCode::TooFewGpus,
                 fmt::format("the mesh has {} devices, {}", devices, found),
                 fmt::format("put all devices on one GPU with "
                             "--devices-per-gpu {}, or start {} processes "
                             "with a GPU each",
                             devices, devices)};
  }
  // A launcher that shows each process its own GPU leaves it with number 0.
  if (gpus == 1 && std::getenv("CUDA_VISIBLE_DEVICES"))
    return 0;
  if (options.numLocalRanks > gpus)
    return Error{ErrorCode::TooFewGpus,
                 fmt::format("{} devices on this machine need a GPU each, "
                             "found {}",
                             options.numLocalRanks, gpus),
                 fmt::format("put all devices on one GPU with "
                             "--devices-per-gpu {}",
                             devices)};
  return int(options.localRank);
}

Status CudaDevices::openGpu() {
  Result<const Driver *> driver = Driver::get();
  if (!driver)
    return driver.getError();
  Result<int> gpus = countGpus(**driver);
  if (!gpus)
    return gpus.getError();
  Result<int> ordinal =
      chooseGpu(executable.getNumDevices(),
                !executable.data.mesh->device_order.empty(), options, *gpus);
  if (!ordinal)
    return ordinal.getError();
  Result<std::unique_ptr<Gpu>> opened = Gpu::open(**driver, *ordinal);
  if (!opened)
    return opened.getError();
  gpu = std::move(*opened);
  return gpu->load(executable.data);
}

Status CudaDevices::allocateMemory() {
  const Driver &driver = gpu->getDriver();
  const int64_t count = int64_t(session.devices.size());
  Result<GpuMemoryPlan> planned =
      GpuMemoryPlanner(executable.data, executable.mesh)
          .plan({session.devices[0].number, count, options.peers != nullptr});
  if (!planned)
    return planned.getError();
  memoryPlan = std::move(*planned);
  size_t freeBytes = 0;
  size_t totalBytes = 0;
  MESHC_RETURN_IF_ERROR(driver.memGetInfo(&freeBytes, &totalBytes));
  MESHC_RETURN_IF_ERROR(checkMemory(
      getMemoryNeed(memoryPlan, executable.data), count, freeBytes,
      gpu->getProperties().toString(), session.communicator->getNcclNeed()));
  Result<DeviceMemory> allocated = allocate(driver, memoryPlan.bytes);
  if (!allocated)
    return allocated.getError();
  memory = std::move(*allocated);
  session.productTables.place(getAddress(memoryPlan.addresses));
  for (size_t i = 0; i < session.devices.size(); ++i) {
    LogicalDevice &device = session.devices[i];
    device.arena = getAddress(memoryPlan.arenas[i]);
    MESHC_RETURN_IF_ERROR(driver.memsetD8Async(
        device.arena, 0, memoryPlan.arenas[i].bytes, device.compute.get()));
    if (!memoryPlan.workspaces.empty())
      device.matmulWorkspace = getAddress(memoryPlan.workspaces[i]);
  }
  return Status::success();
}

Status CudaDevices::tune() {
  if (!options.tunesMatmuls || !session.products)
    return Status::success();
  const LogicalDevice &first = session.devices[0];
  Result<MatmulTuning> tuning =
      tuneMatmuls(*session.products, *gpu, first.matmulWorkspace,
                  first.compute.get(), options.peers);
  if (!tuning)
    return tuning.getError();
  tuningReport = tuning->toString();
  if (!tuning->complaint.empty())
    tuningReport += "; " + tuning->complaint;
  return Status::success();
}

Status CudaDevices::prepare() {
  const Driver &driver = gpu->getDriver();
  session.gpu = gpu.get();
  session.checksCommands = options.checksCommands;
  if (!options.kernels.empty())
    session.use.emplace(options.kernels);
  session.executable = &executable;
  session.moves = std::make_unique<MoveTable>(*gpu);
  int lowest = 0;
  int highest = 0;
  MESHC_RETURN_IF_ERROR(
      driver.contextGetStreamPriorityRange(&lowest, &highest));
  const int64_t first = options.peers ? options.peers->getRank() : 0;
  const int64_t count = options.peers ? 1 : executable.getNumDevices();
  for (int64_t number = first; number < first + count; ++number) {
    LogicalDevice device;
    device.number = number;
    Result<OwnedStream> compute = makeStream(driver, lowest);
    if (!compute)
      return compute.getError();
    device.compute = std::move(*compute);
    // What others wait for goes first where both could run.
    Result<OwnedStream> communication = makeStream(driver, highest);
    if (!communication)
      return communication.getError();
    device.communication = std::move(*communication);
    session.devices.push_back(std::move(device));
  }
  if (options.peers) {
    Result<std::unique_ptr<NcclCommunicator>> communicator =
        NcclCommunicator::create(*gpu, *options.peers, options.deadline);
    if (!communicator)
      return communicator.getError();
    NcclCommunicator &joined = **communicator;
    session.communicator = std::move(*communicator);
    MESHC_RETURN_IF_ERROR(joined.connect());
  } else {
    Result<std::unique_ptr<LocalCommunicator>> communicator =
        LocalCommunicator::create(*gpu, count);
    if (!communicator)
      return communicator.getError();
    session.communicator = std::move(*communicator);
  }

  for (const auto &program : executable.data.programs) {
    Result<std::unique_ptr<GpuProgram>> prepared =
        GpuProgram::create(session, *program);
    if (!prepared)
      return prepared.getError();
    commandSeconds.emplace_back((*prepared)->getNumCommands());
    programs.push_back(std::move(*prepared));
  }
  MESHC_RETURN_IF_ERROR(allocateMemory());
  std::vector<DevicePointer> arenas;
  for (const LogicalDevice &device : session.devices)
    arenas.push_back(device.arena);
  MESHC_RETURN_IF_ERROR(session.communicator->build(
      *session.moves, arenas, getAddress(memoryPlan.staging)));
  for (const std::unique_ptr<GpuProgram> &program : programs)
    MESHC_RETURN_IF_ERROR(program->build());
  MESHC_RETURN_IF_ERROR(session.unsupported.check());
  if (const int64_t products =
          session.products ? session.products->getNumSplitTables() : 0)
    batchReport = fmt::format(
        "{} product{} of several batch dimensions take{} a call for each "
        "position "
        "of all but one: cuBLASLt {} has no algorithm that reads where each "
        "matrix is",
        products, products == 1 ? "" : "s", products == 1 ? "s" : "",
        session.products->getVersionText());
  if (const int64_t batches =
          session.products ? session.products->getNumSplitBatches() : 0)
    batchReport += fmt::format(
        "{}"
        "the products of {} batch{} are computed one by one: cuBLASLt {} has "
        "no algorithm for batches with these ends; compiled with "
        "--matmul-epilogues none they are computed together",
        batchReport.empty() ? "" : "; ", batches, batches == 1 ? "" : "es",
        session.products->getVersionText());
  assert(alignMemory(session.moves->getBytes()) == memoryPlan.tables.bytes &&
         "the plan has the moves of all commands");
  MESHC_RETURN_IF_ERROR(session.moves->upload(
      getAddress(memoryPlan.tables), session.devices[0].compute.get()));
  assert(alignMemory(session.productTables.getBytes()) ==
             memoryPlan.addresses.bytes &&
         "the plan has the tables of all products");
  MESHC_RETURN_IF_ERROR(
      session.productTables.upload(driver, session.devices[0].compute.get()));
  for (const LogicalDevice &device : session.devices)
    MESHC_RETURN_IF_ERROR(driver.streamSynchronize(device.compute.get()));
  MESHC_RETURN_IF_ERROR(tune());

  for (Staging *staging :
       {&writes[0], &writes[1], &writes[2], &writes[3], &reads}) {
    Result<OwnedEvent> end = makeEvent(driver);
    if (!end)
      return end.getError();
    staging->end = std::move(*end);
  }
  return Status::success();
}

Result<std::unique_ptr<CudaDevices>>
CudaDevices::create(const Executable &executable, const CudaOptions &options) {
  std::unique_ptr<CudaDevices> devices(new CudaDevices(executable, options));
  Status ready = devices->openGpu();
  if (ready)
    ready = devices->prepare();
  if (ready)
    return devices;
  if (options.peers)
    static_cast<void>(devices.release());
  return ready.getError();
}

CudaDevices::~CudaDevices() = default;

bool CudaDevices::isLocal(int64_t device) const {
  return !options.peers || device == options.peers->getRank();
}

size_t CudaDevices::getIndex(int64_t device) const {
  return size_t(device - session.devices[0].number);
}

Status CudaDevices::run(const exec::ProgramT &program) {
  const auto found =
      std::find_if(programs.begin(), programs.end(), [&](const auto &prepared) {
        return &prepared->getSource() == &program;
      });
  assert(found != programs.end() && "a program of another executable");
  GpuProgram &prepared = **found;
  const Clock::time_point start = Clock::now();
  if (timesCommands || trace) {
    Result<std::vector<GpuProgram::Span>> spans = prepared.runTimed();
    if (!spans)
      return spans.getError();
    if (timesCommands)
      addTimes(size_t(found - programs.begin()), *spans);
    if (trace)
      collectTrace(prepared, *spans, start);
  } else {
    MESHC_RETURN_IF_ERROR(prepared.start(
        options.usesGraphs && !options.checksCommands && !session.endObserver));
    Status ended = session.communicator->wait(session.devices[0].compute.get());
    if (!ended) {
      Error error = ended.getError();
      error.message += fmt::format(", in program '{}'", program.name);
      if (error.note.empty())
        error.note = "with --check-commands the command is named";
      return error;
    }
  }
  runSeconds += std::chrono::duration<double>(Clock::now() - start).count();
  ++runs;
  return Status::success();
}

/// Adds the times of a run, of all devices.
void CudaDevices::addTimes(size_t program,
                           std::span<const GpuProgram::Span> spans) {
  for (size_t i = 0; i < spans.size(); ++i) {
    const size_t command = i / session.devices.size();
    const double seconds = spans[i].end - spans[i].begin;
    commandSeconds[program][command] += seconds;
    const exec::CommandT &source =
        *programs[program]->getSource().commands[command];
    kindSeconds[size_t(source.action.type)] += seconds;
  }
}

void CudaDevices::collectTrace(const GpuProgram &program,
                               const std::vector<GpuProgram::Span> &spans,
                               Clock::time_point start) {
  auto getNanoseconds = [](Clock::time_point time) {
    return int64_t(std::chrono::nanoseconds(time.time_since_epoch()).count());
  };
  trace->begin = getNanoseconds(start);
  trace->end = getNanoseconds(Clock::now());
  trace->events.clear();
  program.addEvents(spans, *trace);
  // The clocks of the GPU and the host are not one.
  for (const TraceEvent &event : trace->events)
    trace->end = std::max(trace->end, event.end);
}

Status CudaDevices::reserve(Staging &staging, uint64_t bytes) {
  const Driver &driver = gpu->getDriver();
  if (staging.isBusy)
    MESHC_RETURN_IF_ERROR(driver.eventSynchronize(staging.end.get()));
  staging.isBusy = false;
  if (bytes <= staging.bytes)
    return Status::success();
  staging.memory = PinnedMemory();
  staging.bytes = 0;
  Result<PinnedMemory> memory = allocatePinned(driver, bytes);
  if (!memory)
    return memory.getError();
  staging.memory = std::move(*memory);
  staging.bytes = bytes;
  return Status::success();
}

Status CudaDevices::write(int64_t device, int buffer, uint64_t bytes,
                          const std::function<void(std::byte *)> &fill) {
  if (!isLocal(device) || bytes == 0)
    return Status::success();
  const Driver &driver = gpu->getDriver();
  // Runs begin on this stream, so they see what it copies.
  const Stream stream = session.devices[0].compute.get();
  Staging &staging = writes[nextWrite++ % writes.size()];
  MESHC_RETURN_IF_ERROR(reserve(staging, bytes));
  fill(static_cast<std::byte *>(staging.memory.get()));
  MESHC_RETURN_IF_ERROR(driver.memcpyHtoDAsync(
      session.devices[getIndex(device)].arena +
          executable.data.buffers[size_t(buffer)]->offset,
      staging.memory.get(), bytes, stream));
  staging.isBusy = true;
  return driver.eventRecord(staging.end.get(), stream);
}

Status
CudaDevices::readLocal(int64_t device, int buffer, uint64_t offset,
                       uint64_t bytes,
                       const std::function<void(const std::byte *)> &take) {
  assert(isLocal(device) && "a device of another process");
  // Runs end on this stream.
  const Stream stream = session.devices[0].compute.get();
  MESHC_RETURN_IF_ERROR(reserve(reads, bytes));
  MESHC_RETURN_IF_ERROR(gpu->getDriver().memcpyDtoHAsync(
      reads.memory.get(),
      session.devices[getIndex(device)].arena +
          executable.data.buffers[size_t(buffer)]->offset + offset,
      bytes, stream));
  MESHC_RETURN_IF_ERROR(session.communicator->wait(stream));
  take(static_cast<const std::byte *>(reads.memory.get()));
  return Status::success();
}

Result<const std::byte *> CudaDevices::read(int64_t device, int buffer,
                                            uint64_t bytes) {
  const Driver &driver = gpu->getDriver();
  const Stream stream = session.devices[0].compute.get();
  MESHC_RETURN_IF_ERROR(reserve(reads, bytes));
  std::byte *target = static_cast<std::byte *>(reads.memory.get());
  const DevicePointer source =
      isLocal(device) ? session.devices[getIndex(device)].arena +
                            executable.data.buffers[size_t(buffer)]->offset
                      : 0;
  const uint64_t pieceBytes = options.peers ? memoryPlan.received.bytes : bytes;
  const DevicePointer received = getAddress(memoryPlan.received);
  auto copy = [&]() -> Status {
    for (uint64_t begin = 0; begin < bytes; begin += pieceBytes) {
      const uint64_t length = std::min(pieceBytes, bytes - begin);
      MESHC_RETURN_IF_ERROR(session.communicator->broadcast(
          device, source + begin, received, length, stream));
      MESHC_RETURN_IF_ERROR(driver.memcpyDtoHAsync(
          target + begin, isLocal(device) ? source + begin : received, length,
          stream));
    }
    return session.communicator->wait(stream);
  };
  if (Status copied = copy(); !copied) {
    Error error = copied.getError();
    error.message +=
        fmt::format(", while buffer '{}' of device {} was read",
                    executable.data.buffers[size_t(buffer)]->name, device);
    return error;
  }
  return static_cast<const std::byte *>(target);
}

Result<uint8_t> CudaDevices::decide(uint8_t mine) {
  if (!options.peers)
    return mine;
  const Driver &driver = gpu->getDriver();
  const Stream stream = session.devices[0].compute.get();
  MESHC_RETURN_IF_ERROR(reserve(reads, sizeof(mine)));
  auto *value = static_cast<uint8_t *>(reads.memory.get());
  *value = mine;
  const DevicePointer place = getAddress(memoryPlan.received);
  MESHC_RETURN_IF_ERROR(
      driver.memcpyHtoDAsync(place, value, sizeof(mine), stream));
  MESHC_RETURN_IF_ERROR(session.communicator->broadcast(
      /*device=*/0, place, place, sizeof(mine), stream));
  MESHC_RETURN_IF_ERROR(
      driver.memcpyDtoHAsync(value, place, sizeof(mine), stream));
  MESHC_RETURN_IF_ERROR(session.communicator->wait(stream));
  return *value;
}

void CudaDevices::resetProfile(bool timed) {
  timesCommands = timed;
  runSeconds = 0;
  runs = 0;
  kindSeconds = {};
  for (std::vector<double> &seconds : commandSeconds)
    std::fill(seconds.begin(), seconds.end(), 0.0);
}

Profile CudaDevices::getProfile() {
  Profile profile;
  profile.wallSeconds = runSeconds;
  profile.runs = runs;
  profile.seconds = kindSeconds;
  double idle = runSeconds * double(session.devices.size());
  for (double seconds : kindSeconds)
    idle -= seconds;
  profile.idleSeconds = std::max(0.0, idle);
  for (size_t i = 0; i < programs.size(); ++i)
    for (size_t command = 0; command < programs[i]->getNumCommands(); ++command)
      if (commandSeconds[i][command] > 0)
        profile.commands.push_back(
            {programs[i]->getSource().commands[command].get(),
             commandSeconds[i][command]});
  std::sort(profile.commands.begin(), profile.commands.end(),
            [](const CommandTime &x, const CommandTime &y) {
              return x.seconds > y.seconds;
            });
  return profile;
}
