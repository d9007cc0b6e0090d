#include "runtime/cpu/Executor.h"
#include "runtime/cpu/Processor.h"
#include "runtime/devices/OpenDevices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <thread>

#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

/// An error if some processes would have no device.
static Status checkDivision(const Executable &executable, int64_t ranks) {
  const int64_t devices = executable.getNumDevices();
  if (ranks <= devices)
    return Status::success();
  return Error{ErrorCode::WrongRanks,
               fmt::format("{} processes for a mesh of {} device{}", ranks,
                           devices, devices == 1 ? "" : "s"),
               "start at most as many as the mesh has devices"};
}

/// Worker threads for one of several processes on this machine.
static int getNumThreads(int64_t processes) {
  const unsigned usable = std::max(1u, std::thread::hardware_concurrency());
  // Where the launcher has bound processes to processors, those are its own.
  const bool isBound = long(usable) < sysconf(_SC_NPROCESSORS_ONLN);
  return isBound ? int(usable)
                 : int(std::max<int64_t>(1, int64_t(usable) / processes));
}

Result<std::unique_ptr<DeviceSet>>
runtime::openCpuDevices(const DeviceRequest &request) {
  const Executable &executable = request.executable;
  assert(executable.data.target == exec::Target::cpu);
  Status fits = checkProcessor(executable.data);
  if (!fits)
    return fits.getError();
  int threads = request.threads;
  ExecutorGroup group;
  if (request.ranks) {
    Ranks &ranks = *request.ranks;
    group.ranks = ranks.getNumRanks();
    group.rank = ranks.getRank();
    group.localRanks = ranks.getNumLocalRanks();
    Status divided = checkDivision(executable, group.ranks);
    if (!divided)
      return divided.getError();
    Result<std::unique_ptr<Transport>> created =
        createTransport(ranks, request.transport);
    if (!created)
      return created.getError();
    group.transport = std::move(*created);
    if (threads == 0)
      threads = getNumThreads(ranks.getNumLocalRanks());
  }
  Result<std::unique_ptr<Executor>> executor =
      Executor::create(executable, request.kernels, threads, std::move(group));
  if (!executor)
    return executor.getError();
  return std::unique_ptr<DeviceSet>(std::move(*executor));
}
