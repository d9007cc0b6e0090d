#include "runtime/cuda/GpuProgram.h"

#include "runtime/exec/MatmulOperands.h"

#include <fmt/format.h>

#include <algorithm>

using namespace meshc::runtime;
using namespace meshc::runtime::cuda;
namespace exec = meshc::exec;

Error GpuProgram::locate(Error error, const exec::CommandT &command) const {
  error.message += fmt::format(", in command '{}' of program '{}'",
                               command.name, source.name);
  const exec::Span *span = command.span.get();
  if (error.note.empty() && span && span->file() >= 0)
    error.note =
        fmt::format("it computes {}:{}:{}",
                    session.executable->data.files[size_t(span->file())],
                    span->line(), span->column());
  return error;
}

Status GpuProgram::locateGraph(Status status) const {
  if (status)
    return status;
  Error error = status.getError();
  error.message += fmt::format(", in the graph of program '{}'", source.name);
  if (error.note.empty())
    error.note = "with --no-graphs a launch that fails names its command";
  return error;
}

DevicePointer GpuProgram::getAddress(const LogicalDevice &device,
                                     const exec::OperandT &operand) const {
  return device.arena +
         session.executable->data.buffers[size_t(operand.buffer)]->offset +
         operand.offset;
}

//===----------------------------------------------------------------------===//
// Preparing
//===----------------------------------------------------------------------===//

Status GpuProgram::prepareKernel(const exec::KernelT &kernel,
                                 Command &command) {
  command.timeClass = TimeClass::Kernel;
  if (kernel.extent == 0)
    return Status::success();
  for (const auto &launch : kernel.launches) {
    Result<KernelHandle> handle =
        session.gpu->getKernel(launch->symbol, launch->shared_bytes);
    if (!handle)
      return handle.getError();
    command.launches.push_back({*handle, unsigned(launch->grid),
                                unsigned(launch->block),
                                unsigned(launch->shared_bytes)});
  }
  return Status::success();
}

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
    Status prepared = Status::success();
    switch (source->action.type) {
    case exec::Action::Kernel:
      if (session.use)
        if (auto entry = session.use->find(data, program, *source); !entry)
          return entry.getError();
      prepared = result->prepareKernel(*source->action.AsKernel(), command);
      break;
    case exec::Action::Matmul: {
      command.timeClass = TimeClass::Matmul;
      // All products of a device share a workspace, so they are in one queue.
      command.queue = exec::Queue::compute;
      Result<MatmulPlan> plan = planMatmul(*source);
      if (plan)
        command.plan = std::move(*plan);
      else
        session.unsupported.add(plan.getError().message,
                                result->locate(plan.getError(), *source));
      if (session.products)
        break;
      Result<std::unique_ptr<MatmulCalls>> products =
          MatmulCalls::create(driver);
      if (products)
        session.products = std::move(*products);
      else
        return products.getError();
      break;
    }
    case exec::Action::Collective: {
      command.timeClass = TimeClass::Collective;
      Result<size_t> number = session.communicator->add(Collective::create(
          session.executable->mesh, Collective::getMembers(data, *source)));
      if (number)
        command.collective = *number;
      else
        prepared = number.getError();
      break;
    }
    case exec::Action::Copy:
      command.timeClass = TimeClass::Copy;
      command.copy = planCopy(*source);
      break;
    case exec::Action::Convolution:
    case exec::Action::NONE:
      __builtin_unreachable(); // checkExecutable refuses it
    }
    if (!prepared)
      return result->locate(prepared.getError(), *source);
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

MatmulPointers
GpuProgram::getMatmulPointers(const Command &command,
                              const LogicalDevice &device) const {
  const auto &operands = command.source->operands;
  const MatmulOperandOrder order =
      getOperandOrder(*command.source->action.AsMatmul());
  auto get = [&](int position) {
    return position < 0 ? 0 : getAddress(device, *operands[size_t(position)]);
  };
  return {get(0),         get(1),
          get(order.c),   get(std::max(order.bias, order.sums)),
          get(order.aux), get(order.addend)};
}

Status GpuProgram::buildMatmul(Command &command) {
  if (command.plan.calls.empty())
    return Status::success();
  // Arenas are aligned alike, so the first device stands for all.
  Result<MatmulCall *> product = session.products->prepare(
      command.plan, getMatmulPointers(command, session.devices[0]));
  if (!product && product.getError().code == ErrorCode::UnsupportedOnGpu) {
    session.unsupported.add(product.getError().message,
                            locate(product.getError(), *command.source));
    return Status::success();
  }
  if (!product)
    return product.getError();
  command.product = *product;
  return Status::success();
}

Status GpuProgram::addBoxes(Command &command) {
  const exec::OperandT &from = *command.source->operands[0];
  const exec::OperandT &to = *command.source->operands[1];
  for (const LogicalDevice &device : session.devices) {
    const MoveList::Box box = getCopyBox(
        *command.source, getAddress(device, from), getAddress(device, to));
    Result<MoveLaunch> launch =
        session.moves->add(exec::ReduceKind::none, from.element, {&box, 1});
    if (!launch)
      return launch.getError();
    command.boxes.push_back(*launch);
  }
  return Status::success();
}

Status GpuProgram::build() {
  for (Command &command : commands) {
    Status built = Status::success();
    switch (command.timeClass) {
    case TimeClass::Kernel:
      for (const LogicalDevice &device : session.devices) {
        for (const auto &operand : command.source->operands)
          command.parameters.push_back(getAddress(device, *operand));
        for (int64_t coordinate :
             session.executable->mesh.getCoordinates(device.number))
          command.parameters.push_back(uint64_t(coordinate));
      }
      for (uint64_t &parameter : command.parameters)
        command.parameterPointers.push_back(&parameter);
      command.numParameters =
          command.parameters.size() / session.devices.size();
      break;
    case TimeClass::Matmul:
      built = buildMatmul(command);
      break;
    case TimeClass::Copy:
      if (command.copy.form == CopyForm::Boxes)
        built = addBoxes(command);
      break;
    case TimeClass::Collective:
    case TimeClass::Convolution:
    case TimeClass::Idle:
      break;
    }
    if (!built)
      return locate(built.getError(), *command.source);
  }
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

Status GpuProgram::issueCopy(const Command &command, size_t number) {
  const Driver &driver = session.gpu->getDriver();
  const LogicalDevice &device = session.devices[number];
  const Stream stream = device.getStream(command.queue);
  const DevicePointer from = getAddress(device, *command.source->operands[0]);
  const DevicePointer to = getAddress(device, *command.source->operands[1]);
  switch (command.copy.form) {
  case CopyForm::Nothing:
    return Status::success();
  case CopyForm::Linear:
    return driver.memcpyDtoDAsync(to, from, command.copy.widthBytes, stream);
  case CopyForm::Rows: {
    Copy2D copy{};
    copy.fromMemoryType = copy.toMemoryType = memoryTypeDevice;
    copy.fromDevice = from;
    copy.fromPitch = command.copy.fromPitch;
    copy.toDevice = to;
    copy.toPitch = command.copy.toPitch;
    copy.widthBytes = command.copy.widthBytes;
    copy.height = command.copy.height;
    return driver.memcpy2DAsync(&copy, stream);
  }
  case CopyForm::Boxes:
    return session.moves->launch(command.boxes[number], stream);
  }
  __builtin_unreachable();
}

Status GpuProgram::issueOn(const Command &command, size_t number) {
  const LogicalDevice &device = session.devices[number];
  switch (command.timeClass) {
  case TimeClass::Kernel: {
    void *const *parameters =
        command.parameterPointers.data() + number * command.numParameters;
    for (const Launch &launch : command.launches)
      MESHC_RETURN_IF_ERROR(session.gpu->getDriver().launchKernel(
          launch.kernel, launch.grid, 1, 1, launch.block, 1, 1,
          launch.sharedBytes, device.getStream(command.queue),
          const_cast<void **>(parameters), nullptr));
    return Status::success();
  }
  case TimeClass::Matmul:
    if (!command.product)
      return Status::success();
    return session.products->run(
        command.plan, *command.product, getMatmulPointers(command, device),
        device.matmulWorkspace, device.getStream(command.queue));
  case TimeClass::Copy:
    return issueCopy(command, number);
  case TimeClass::Collective:
  case TimeClass::Convolution:
  case TimeClass::Idle:
    break;
  }
  // Collectives are of all devices together, convolutions of CPUs.
  __builtin_unreachable();
}

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
    if (command.timeClass == TimeClass::Collective) {
      MESHC_RETURN_IF_ERROR(
          session.communicator->issue(command.collective, streams));
      if (runs == 0 && session.communicator->waitsOnGpu())
        MESHC_RETURN_IF_ERROR(session.communicator->wait(streams[0]));
    } else {
      for (size_t i = 0; i < devices.size(); ++i)
        MESHC_RETURN_IF_ERROR(issueOn(command, i));
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

bool GpuProgram::isIssued(const Command &command) {
  switch (command.timeClass) {
  case TimeClass::Kernel:
    return !command.launches.empty();
  case TimeClass::Matmul:
    return command.product != nullptr;
  case TimeClass::Copy:
    return command.copy.form != CopyForm::Nothing;
  case TimeClass::Collective:
  case TimeClass::Convolution:
  case TimeClass::Idle:
    break;
  }
  __builtin_unreachable();
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
    if (command.timeClass != TimeClass::Collective) {
      for (size_t i = 0; i < numDevices && isIssued(command); ++i)
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
