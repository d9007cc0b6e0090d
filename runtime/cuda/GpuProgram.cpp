#include "runtime/cuda/GpuProgram.h"

#include <fmt/format.h>

#include <algorithm>

using namespace meshc::runtime;
using namespace meshc::runtime::cuda;
namespace exec = meshc::exec;

Status GpuProgram::locateGraph(Status status) const {
  if (status)
    return status;
  Error error = status.getError();
  error.message += fmt::format(", in the graph of program '{}'", source.name);
  if (error.note.empty())
    error.note = "with --no-graphs a launch that fails names its command";
  return error;
}

//===----------------------------------------------------------------------===//
// Preparing
//===----------------------------------------------------------------------===//

void GpuProgram::findWaits() {
  // What the last commands of each queue have waited for in the other one.
  int64_t seen[2] = {-1, -1};
  std::vector<bool> isAwaited(commands.size(), false);
  for (size_t i = 0; i < commands.size(); ++i) {
    Command &command = commands[i];
    int64_t last = -1;
    for (int wait : command.source->waits)
      if (commands[size_t(wait)].queue != command.queue)
        last = std::max<int64_t>(last, wait);
    int64_t &known = seen[size_t(command.queue)];
    if (last <= known)
      continue;
    known = last;
    command.waitsFor = last;
    isAwaited[size_t(last)] = true;
  }
  for (size_t i = 0; i < commands.size(); ++i)
    commands[i].ends.resize(isAwaited[i] ? session.devices.size() : 0);
}

Result<std::unique_ptr<GpuProgram>>
GpuProgram::create(GpuSession &session, const exec::ProgramT &program) {
  const Driver &driver = session.gpu->getDriver();
  std::unique_ptr<GpuProgram> result(new GpuProgram(session, program));
  const exec::ExecutableT &data = session.executable->data;
  for (const auto &source : program.commands) {
    Command command;
    command.source = source.get();
    command.queue = source->queue;
    PreparedGpuCommand own = prepareGpuCommand({session, program, *source});
    if (!own)
      return own.getError();
    command.own = std::move(*own);
    if (command.own)
      command.queue = command.own->getQueue().value_or(source->queue);
    if (source->action.AsCollective()) {
      Result<size_t> number = session.communicator->add(Collective::create(
          session.executable->mesh, Collective::getMembers(data, *source)));
      if (!number)
        return result->locate(number.getError(), *source);
      command.collective = *number;
    }
    result->commands.push_back(std::move(command));
  }
  result->findWaits();
  auto make = [&](OwnedEvent &event) {
    Result<OwnedEvent> made = makeEvent(driver);
    if (!made)
      return Status(made.getError());
    event = std::move(*made);
    return Status::success();
  };
  for (Command &command : result->commands)
    for (OwnedEvent &end : command.ends)
      MESHC_RETURN_IF_ERROR(make(end));
  MESHC_RETURN_IF_ERROR(make(result->begin));
  result->queueEnds.resize(session.devices.size() * 2 - 1);
  for (OwnedEvent &end : result->queueEnds)
    MESHC_RETURN_IF_ERROR(make(end));
  return result;
}

Status GpuProgram::build() {
  for (Command &command : commands) {
    if (!command.own)
      continue;
    if (Status built = command.own->build(session); !built)
      return locate(built.getError(), *command.source);
  }
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

Status GpuProgram::issue(std::vector<OwnedEvent> *times) {
  const Driver &driver = session.gpu->getDriver();
  const std::vector<LogicalDevice> &devices = session.devices;
  const Stream first = devices[0].compute.get();
  std::vector<Stream> others;
  for (const LogicalDevice &device : devices)
    for (Stream stream : {device.compute.get(), device.communication.get()})
      if (stream != first)
        others.push_back(stream);
  MESHC_RETURN_IF_ERROR(driver.eventRecord(begin.get(), first));
  for (Stream stream : others)
    MESHC_RETURN_IF_ERROR(driver.streamWaitEvent(stream, begin.get(), 0));

  std::vector<Stream> streams(devices.size());
  auto issueCommand = [&](size_t index) -> Status {
    const Command &command = commands[index];
    auto recordTimes = [&](size_t side) -> Status {
      for (size_t i = 0; times && i < devices.size(); ++i)
        MESHC_RETURN_IF_ERROR(driver.eventRecord(
            (*times)[(index * devices.size() + i) * 2 + side].get(),
            streams[i]));
      return Status::success();
    };
    for (size_t i = 0; i < devices.size(); ++i) {
      streams[i] = devices[i].getStream(command.queue);
      if (command.waitsFor >= 0)
        MESHC_RETURN_IF_ERROR(driver.streamWaitEvent(
            streams[i], commands[size_t(command.waitsFor)].ends[i].get(), 0));
    }
    MESHC_RETURN_IF_ERROR(recordTimes(0));
    if (command.own) {
      for (size_t i = 0; i < devices.size(); ++i)
        MESHC_RETURN_IF_ERROR(command.own->issue(session, i, streams[i]));
    } else {
      MESHC_RETURN_IF_ERROR(
          session.communicator->issue(command.collective, streams));
      if (runs == 0 && session.communicator->waitsOnGpu())
        MESHC_RETURN_IF_ERROR(session.communicator->wait(streams[0]));
    }
    MESHC_RETURN_IF_ERROR(recordTimes(1));
    for (size_t i = 0; i < command.ends.size(); ++i)
      MESHC_RETURN_IF_ERROR(
          driver.eventRecord(command.ends[i].get(), streams[i]));
    const bool isWaitedFor = session.checksCommands || session.endObserver;
    for (size_t i = 0; isWaitedFor && i < devices.size(); ++i)
      MESHC_RETURN_IF_ERROR(session.communicator->wait(streams[i]));
    for (size_t i = 0; session.endObserver && i < devices.size(); ++i)
      session.endObserver(devices[i].number, index);
    return Status::success();
  };
  for (size_t index = 0; index < commands.size(); ++index)
    if (Status issued = issueCommand(index); !issued)
      return locate(issued.getError(), *commands[index].source);

  for (size_t i = 0; i < others.size(); ++i) {
    MESHC_RETURN_IF_ERROR(driver.eventRecord(queueEnds[i].get(), others[i]));
    MESHC_RETURN_IF_ERROR(driver.streamWaitEvent(first, queueEnds[i].get(), 0));
  }
  return Status::success();
}

Status GpuProgram::record() {
  // What fails in a command names it.
  Status issued = Status::success();
  Result<OwnedGraphExecutable> recorded =
      recordGraph(session.gpu->getDriver(), session.devices[0].compute.get(),
                  [&] { return issued = issue(nullptr); });
  if (!issued)
    return issued;
  if (!recorded)
    return locateGraph(recorded.getError());
  graph = std::move(*recorded);
  return Status::success();
}

Status GpuProgram::start(bool useGraph) {
  if (!useGraph || runs == 0) {
    MESHC_RETURN_IF_ERROR(issue(nullptr));
    ++runs;
    return Status::success();
  }
  if (!graph)
    MESHC_RETURN_IF_ERROR(record());
  return locateGraph(session.gpu->getDriver().graphLaunch(
      graph.get(), session.devices[0].compute.get()));
}

Result<std::vector<GpuProgram::Span>> GpuProgram::runTimed() {
  const Driver &driver = session.gpu->getDriver();
  const size_t numSpans = commands.size() * session.devices.size();
  std::vector<OwnedEvent> times(numSpans * 2);
  OwnedEvent origin;
  for (size_t i = 0; i <= times.size(); ++i) {
    Result<OwnedEvent> made = makeEvent(driver, /*hasTime=*/true);
    if (!made)
      return made.getError();
    (i < times.size() ? times[i] : origin) = std::move(*made);
  }
  const Stream first = session.devices[0].compute.get();
  Status ran = driver.eventRecord(origin.get(), first);
  if (ran)
    ran = issue(&times);
  if (ran) {
    ++runs;
    ran = session.communicator->wait(first);
  }
  std::vector<Span> spans(numSpans);
  // All from one event: rounding keeps the order of times.
  auto getSeconds = [&](const OwnedEvent &time) {
    float milliseconds = 0;
    if (ran)
      ran = driver.eventElapsedTime(&milliseconds, origin.get(), time.get());
    return double(milliseconds) * 1e-3;
  };
  for (size_t i = 0; i < numSpans && ran; ++i)
    spans[i] = {getSeconds(times[i * 2]), getSeconds(times[i * 2 + 1])};
  if (!ran)
    return ran.getError();
  return spans;
}

void GpuProgram::addEvents(const std::vector<Span> &spans,
                           RunTrace &trace) const {
  const size_t numDevices = session.devices.size();
  auto getTime = [&](double seconds) {
    return trace.begin + int64_t(seconds * 1e9);
  };
  for (size_t index = 0; index < commands.size(); ++index) {
    const Command &command = commands[index];
    const Span *own = &spans[index * numDevices];
    auto add = [&](TraceEvent::Part part, size_t i, double begin, double end) {
      trace.events.push_back({getTime(begin), getTime(end),
                              int32_t(session.devices[i].number),
                              int32_t(index), part});
    };
    if (command.own) {
      for (size_t i = 0; i < numDevices && command.own->isIssued(); ++i)
        add(TraceEvent::Part::Command, i, own[i].begin, own[i].end);
      continue;
    }
    const Collective collective = Collective::create(
        session.executable->mesh,
        Collective::getMembers(session.executable->data, *command.source));
    std::vector<double> lastArrivals(size_t(collective.getNumGroups()), 0);
    auto getGroup = [&](size_t i) {
      return collective.getGroup(session.devices[i].number);
    };
    for (size_t i = 0; i < numDevices; ++i)
      if (const int64_t group = getGroup(i); group >= 0) {
        double &last = lastArrivals[size_t(group)];
        last = std::max(last, own[i].begin);
      }
    for (size_t i = 0; i < numDevices; ++i) {
      const int64_t group = getGroup(i);
      if (group < 0)
        continue;
      add(TraceEvent::Part::Command, i, own[i].begin, own[i].end);
      const double last = std::min(lastArrivals[size_t(group)], own[i].end);
      if (getTime(last) > getTime(own[i].begin))
        add(TraceEvent::Part::Devices, i, own[i].begin, last);
    }
  }
}
