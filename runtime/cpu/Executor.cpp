#include "runtime/cpu/Executor.h"

#include "runtime/cpu/FlushToZero.h"
#include "runtime/plans/CpuPieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <csignal>
#include <system_error>

#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

static double getSeconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

Executor::Executor(const Executable &executable, int numWorkers,
                   ExecutorGroup group)
    : DeviceSet(executable), numDevices(executable.getNumDevices()),
      numWorkers(numWorkers),
      workers(numWorkers), division{numDevices, group.ranks, group.rank},
      places(numDevices), transport(std::move(group.transport)) {
  for (int64_t device = 0; device < numDevices; ++device)
    coordinates.push_back(executable.mesh.getCoordinates(device));
}

Status Executor::createArenas(int64_t localRanks) {
  const uint64_t arenaBytes = executable.data.arena_bytes;
  const uint64_t reservedBytes =
      Arenas::getReservedBytes(arenaBytes, getMatmulSkew());
  const uint64_t memory =
      uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE));
  // Parts are equal up to one device, of which there may be fewer in all.
  const int64_t devicesHere =
      std::min(numDevices, division.getNumLocal() * localRanks);
  if (reservedBytes > memory / uint64_t(devicesHere))
    return Error{
        ErrorCode::DoesNotFit,
        fmt::format("{} devices need {:.1f} MiB each, this machine has "
                    "{:.1f} MiB in all",
                    devicesHere, double(reservedBytes) / (1 << 20),
                    double(memory) / (1 << 20)),
        "use a smaller batch, or split more dimensions"};
  Result<Arenas> owned =
      Arenas::create(division.getNumLocal(), arenaBytes, getMatmulSkew());
  if (!owned)
    return owned.getError();
  ownedArenas = std::move(*owned);
  arenas.resize(numDevices, nullptr);
  for (int64_t device = division.getBegin(); device < division.getEnd();
       ++device)
    arenas[device] = ownedArenas.getData(device - division.getBegin());
  return Status::success();
}

namespace {
/// While it lives, threads are made that handle no signals but those of their
/// own faults: a handler on the stack of a product may overwrite what oneDNN
/// has there (StopSignals.h).
class SignalBlock {
public:
  SignalBlock() {
    sigset_t signals;
    sigfillset(&signals);
    for (int fault : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP})
      sigdelset(&signals, fault);
    pthread_sigmask(SIG_BLOCK, &signals, &previous);
  }
  ~SignalBlock() { pthread_sigmask(SIG_SETMASK, &previous, nullptr); }
  SignalBlock(const SignalBlock &) = delete;
  SignalBlock &operator=(const SignalBlock &) = delete;

private:
  sigset_t previous;
};
} // namespace

Result<std::unique_ptr<Executor>>
Executor::create(const Executable &executable,
                 std::span<const meshcKernelEntry> kernels, int threads,
                 ExecutorGroup group) {
  const int64_t devices = executable.getNumDevices();
  if (threads == 0)
    threads = int(std::max(1u, std::thread::hardware_concurrency()));
  const int64_t localRanks = group.localRanks;
  std::unique_ptr<Executor> executor(
      new Executor(executable, threads, std::move(group)));
  Status created = executor->createArenas(localRanks);
  if (!created)
    return created.getError();

  useOneMatmulThread();
  executor->library = std::make_unique<LibraryPrimitives>(
      getMatmulPieces(devices, threads), threads);
  size_t numCommands = 0;
  for (const auto &program : executable.data.programs) {
    Result<CommandList> list = prepareProgram(
        executable, *program, kernels, executor->arenas, executor->division,
        threads, numCommands, *executor->library);
    if (!list)
      return list.getError();
    numCommands += list->commands.size();
    executor->lists.push_back(std::move(*list));
  }
  Status staged = executor->createStaging();
  if (!staged)
    return staged.getError();
  constexpr size_t alignment = 64;
  uint64_t scratchBytes = executor->library->getScratchBytes();
  for (const CommandList &list : executor->lists)
    for (const PreparedCommand &command : list.commands)
      if (command.own)
        scratchBytes = std::max(scratchBytes, command.own->getScratchBytes());
  for (Worker &worker : executor->workers) {
    worker.commandSeconds.resize(numCommands);
    worker.scratchMemory.resize(scratchBytes + alignment);
    auto address = reinterpret_cast<uintptr_t>(worker.scratchMemory.data());
    worker.scratch = worker.scratchMemory.data() +
                     (alignment - address % alignment) % alignment;
  }
  const SignalBlock block;
  try {
    for (int worker = 1; worker < threads; ++worker)
      executor->threads.emplace_back(
          [self = executor.get(), worker] { self->work(worker, false); });
  } catch (const std::system_error &error) {
    return Error{
        ErrorCode::DoesNotFit,
        fmt::format("cannot start {} threads: {}", threads, error.what()),
        "use fewer with --threads"};
  }
  return executor;
}

Executor::~Executor() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  for (std::thread &thread : threads)
    thread.join();
}

void Executor::work(int worker, bool isCaller) {
  const FlushToZero flushToZero;
  useOneMatmulThread();
  std::unique_lock<std::mutex> lock(mutex);
  for (;;) {
    if (stopping || (isCaller && (broken || (unfinishedDevices == 0 &&
                                             unsentMessages == 0))))
      return;
    // A collective holds up a whole group, a device only itself, and its job
    // has its own worker: in this order.
    if (!openJobs.empty() && (openJobs.front()->device < 0 || ready.empty())) {
      runPieces(*openJobs.front(), worker, lock);
    } else if (!ready.empty()) {
      int64_t device = ready.front();
      ready.pop_front();
      advance(device, worker, lock);
    } else {
      ++sleepers;
      changed.wait(lock);
      --sleepers;
    }
  }
}

void Executor::wake(int64_t count) {
  count = std::min(count, sleepers);
  for (int64_t i = 0; i < count; ++i)
    changed.notify_one();
}

void Executor::runPiece(const Job &job, int64_t piece, int worker) {
  const PreparedCommand &command = *job.command;
  if (!command.own) {
    command.collective->run(job.group, job.stage, piece, arenas,
                            staging.getData(0));
    return;
  }
  Status status = command.own->run(piece, {command.getOperands(job.device),
                                           coordinates[job.device].data(),
                                           worker, workers[worker].scratch});
  if (!status)
    keepFailure(status);
}

void Executor::keepFailure(const Status &status) {
  std::lock_guard<std::mutex> lock(mutex);
  if (!failure)
    failure = status.getError();
}

void Executor::runPieces(Job &job, int worker,
                         std::unique_lock<std::mutex> &lock) {
  // A job is alive as long as one of its pieces is unfinished.
  while (job.next < job.count) {
    const Job current = job;
    const int64_t piece = job.next++;
    if (job.next == job.count) {
      std::erase(openJobs, &job);
      if (job.device >= 0)
        release(job.device);
    }
    lock.unlock();
    const Clock::time_point start = Clock::now();
    runPiece(current, piece, worker);
    workers[worker].add(current, start, Clock::now());
    lock.lock();
    if (--job.unfinished == 0) {
      if (job.device < 0 && job.command->collective->isExchanged(job.group))
        finishStage(job, worker, lock);
      else
        finishJob(job);
      return;
    }
  }
}

Executor::Job &Executor::makeGroupJob(size_t slot, Collective::Stage stage) {
  const CommandGroup &place = current->groups[slot];
  const PreparedCommand &command = current->commands[place.command];
  const int64_t count = command.collective->getNumPieces(place.group, stage);
  groupJobs[slot] = {.command = &command,
                     .group = place.group,
                     .stage = stage,
                     .unfinished = count,
                     .count = count};
  return groupJobs[slot];
}

bool Executor::isHeldUp(const Place &place) const {
  if (place.next == current->commands.size())
    return !place.running.empty();
  const exec::CommandT &command = *current->commands[place.next].source;
  // Commands start in order, so that a wait that is left out because another
  // one implies it is over when that one is.
  return std::any_of(command.waits.begin(), command.waits.end(), [&](int wait) {
    return std::count(place.running.begin(), place.running.end(),
                      &current->commands[size_t(wait)]) > 0;
  });
}

void Executor::release(int64_t device) {
  places[device].isParked = isHeldUp(places[device]);
  if (places[device].isParked)
    return;
  ready.push_front(device);
  wake(1);
}

void Executor::finishCommand(int64_t device, const PreparedCommand &command) {
  if (endObserver)
    endObserver(device, size_t(&command - current->commands.data()));
  Place &place = places[device];
  std::erase(place.running, &command);
  if (place.isParked && !isHeldUp(place)) {
    place.isParked = false;
    if (command.collective)
      ready.push_back(device);
    else
      ready.push_front(device);
  }
}

void Executor::finishJob(Job &job) {
  const PreparedCommand &command = *job.command;
  const size_t wereReady = ready.size();
  if (job.device >= 0) {
    const int64_t device = job.device;
    places[device].jobs.remove_if(
        [&](const Job &other) { return &other == &job; });
    finishCommand(device, command);
  } else {
    if (trace)
      tracedGroups[command.firstGroup + size_t(job.group)].end = Clock::now();
    for (int64_t device : command.collective->getDevices(job.group))
      finishCommand(device, command);
  }
  // This worker takes one of them itself.
  wake(int64_t(ready.size() - wereReady) - 1);
}

void Executor::startJob(Job &job, int worker,
                        std::unique_lock<std::mutex> &lock) {
  job.next = 0;
  job.unfinished = job.count;
  if (job.count > 1) {
    if (job.device < 0)
      openJobs.push_front(&job);
    else
      openJobs.push_back(&job);
    wake(job.count - 1);
  }
  runPieces(job, worker, lock);
}

void Executor::advance(int64_t device, int worker,
                       std::unique_lock<std::mutex> &lock) {
  Place &place = places[device];
  while (place.next < current->commands.size()) {
    const size_t number = place.next;
    const PreparedCommand &command = current->commands[number];
    const bool isCollective = command.collective.has_value();
    const int64_t group =
        isCollective ? command.collective->getGroup(device) : -1;
    // A command that is empty on this device, too: others may wait for it in
    // place of what it waits for.
    if (isHeldUp(place)) {
      place.isParked = true;
      return;
    }
    ++place.next;
    const int64_t pieces = isCollective ? 0 : command.own->getNumPieces();
    if (isCollective ? group < 0 : pieces == 0)
      continue;
    if (observer)
      observer(device, number);

    if (isCollective) {
      place.running.push_back(&command);
      const size_t slot = command.firstGroup + size_t(group);
      if (trace)
        tracedGroups[slot].arrivals.push_back({device, Clock::now()});
      if (++arrivals[slot] <
          int64_t(command.collective->getDevices(group).size()))
        continue;
      arrivals[slot] = 0;
      if (!command.collective->isExchanged(group))
        makeGroupJob(slot, Collective::Stage::Combine);
      else if (!addPart(slot, Collective::Stage::Pack))
        continue;
      // Others may need it; this device may be one of them.
      release(device);
      startJob(groupJobs[slot], worker, lock);
      return;
    }
    if (pieces > 1 && numWorkers > 1) {
      place.running.push_back(&command);
      startJob(place.jobs.emplace_back(
                   Job{.command = &command, .device = device, .count = pieces}),
               worker, lock);
      return;
    }
    lock.unlock();
    const Clock::time_point start = Clock::now();
    const Job alone = {.command = &command, .device = device, .count = pieces};
    for (int64_t piece = 0; piece < pieces; ++piece)
      runPiece(alone, piece, worker);
    workers[worker].add(alone, start, Clock::now());
    lock.lock();
    if (endObserver)
      endObserver(device, number);
  }
  if (isHeldUp(place)) {
    place.isParked = true;
    return;
  }
  if (--unfinishedDevices == 0)
    changed.notify_all();
}

Status Executor::run(const exec::ProgramT &program) {
  size_t index = 0;
  while (index < lists.size() &&
         executable.data.programs[index].get() != &program)
    ++index;
  assert(index < lists.size() && "a program of another executable");
  const Clock::time_point start = Clock::now();
  fetched.buffer = -1;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (broken)
      return *broken;
    current = &lists[index];
    failure.reset();
    if (trace)
      beginTrace();
    // Before the first receive is posted: from there on, groups may complete.
    unfinishedDevices = division.getNumLocal();
  }
  if (transport)
    postReceives();
  {
    std::lock_guard<std::mutex> lock(mutex);
    for (int64_t device = division.getBegin(); device < division.getEnd();
         ++device) {
      places[device] = Place();
      ready.push_back(device);
    }
    wake(division.getNumLocal() - 1);
  }
  work(0, true);
  const Clock::time_point end = Clock::now();
  runSeconds += getSeconds(end - start);
  ++runs;
  std::lock_guard<std::mutex> lock(mutex);
  if (unfinishedDevices > 0 || unsentMessages > 0)
    return *broken;
  if (trace && !failure)
    collectTrace(start, end);
  return failure ? Status(*failure) : Status::success();
}

Status Executor::write(int64_t device, int buffer, uint64_t,
                       const std::function<void(std::byte *)> &fill) {
  fetched.buffer = -1;
  if (division.isLocal(device))
    fill(getBlock(device, buffer));
  return Status::success();
}

Status Executor::readLocal(int64_t device, int buffer, uint64_t offset,
                           uint64_t,
                           const std::function<void(const std::byte *)> &take) {
  assert(division.isLocal(device) && "a device of another process");
  take(getBlock(device, buffer) + offset);
  return Status::success();
}

Profile Executor::getProfile() {
  // The lock orders this after what the workers wrote.
  std::lock_guard<std::mutex> lock(mutex);
  Profile profile;
  profile.wallSeconds = runSeconds;
  profile.runs = runs;
  double idle = runSeconds * numWorkers;
  for (const Worker &worker : workers)
    for (size_t i = 0; i < profile.seconds.size(); ++i) {
      profile.seconds[i] += worker.times[i];
      idle -= worker.times[i];
    }
  profile.idleSeconds = std::max(0.0, idle);
  for (const CommandList &list : lists)
    for (const PreparedCommand &command : list.commands) {
      CommandTime time{command.source, 0};
      for (const Worker &worker : workers)
        time.seconds += worker.commandSeconds[command.number];
      if (time.seconds > 0)
        profile.commands.push_back(time);
    }
  std::sort(profile.commands.begin(), profile.commands.end(),
            [](const CommandTime &x, const CommandTime &y) {
              return x.seconds > y.seconds;
            });
  return profile;
}

void Executor::resetProfile(bool) {
  std::lock_guard<std::mutex> lock(mutex);
  for (Worker &worker : workers) {
    worker.times = {};
    std::fill(worker.commandSeconds.begin(), worker.commandSeconds.end(), 0.0);
  }
  runSeconds = 0;
  runs = 0;
}
