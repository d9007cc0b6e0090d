#include "runtime/cuda/LocalCommunicator.h"

using namespace meshc::runtime;
using namespace meshc::runtime::cuda;

Result<std::unique_ptr<LocalCommunicator>>
LocalCommunicator::create(Gpu &gpu, int64_t numDevices) {
  std::unique_ptr<LocalCommunicator> communicator(new LocalCommunicator(gpu));
  for (int64_t device = 0; device < numDevices; ++device)
    for (std::vector<OwnedEvent> *events :
         {&communicator->arrivals, &communicator->ends}) {
      Result<OwnedEvent> event = makeEvent(gpu.getDriver());
      if (!event)
        return event.getError();
      events->push_back(std::move(*event));
    }
  return communicator;
}

Result<size_t> LocalCommunicator::add(Collective collective) {
  entries.push_back({std::move(collective), {}});
  return entries.size() - 1;
}

Status LocalCommunicator::build(MoveTable &table,
                                std::span<const DevicePointer> arenas,
                                DevicePointer) {
  moves = &table;
  for (Entry &entry : entries) {
    const Collective &collective = entry.collective;
    entry.launches.clear();
    for (int64_t group = 0; group < collective.getNumGroups(); ++group) {
      Result<std::vector<MoveLaunch>> launches = table.add(
          collective.getElement(), getBatches(collective, group, arenas));
      if (!launches)
        return launches.getError();
      entry.launches.push_back(std::move(*launches));
    }
  }
  return Status::success();
}

Status LocalCommunicator::issue(size_t number,
                                std::span<const Stream> streams) {
  const Driver &driver = gpu.getDriver();
  const Entry &entry = entries[number];
  for (int64_t group = 0; group < entry.collective.getNumGroups(); ++group) {
    const std::span<const int64_t> devices = entry.collective.getDevices(group);
    const size_t last = size_t(devices.back());
    for (int64_t device : devices.first(devices.size() - 1)) {
      const Event arrival = arrivals[size_t(device)].get();
      MESHC_RETURN_IF_ERROR(
          driver.eventRecord(arrival, streams[size_t(device)]));
      MESHC_RETURN_IF_ERROR(driver.streamWaitEvent(streams[last], arrival, 0));
    }
    MESHC_RETURN_IF_ERROR(
        moves->launch(entry.launches[size_t(group)], streams[last]));
    if (devices.size() == 1)
      continue;
    const Event end = ends[last].get();
    MESHC_RETURN_IF_ERROR(driver.eventRecord(end, streams[last]));
    for (int64_t device : devices.first(devices.size() - 1))
      MESHC_RETURN_IF_ERROR(
          driver.streamWaitEvent(streams[size_t(device)], end, 0));
  }
  return Status::success();
}

Status LocalCommunicator::broadcast(int64_t, DevicePointer, DevicePointer,
                                    uint64_t, Stream) {
  return Status::success(); // there is no other process
}

Status LocalCommunicator::wait(Stream stream) {
  return gpu.getDriver().streamSynchronize(stream);
}
