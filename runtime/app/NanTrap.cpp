#include "runtime/app/NanTrap.h"

#include "runtime/exec/CommandWaits.h"
#include "runtime/exec/HalfFloats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace meshc;
using namespace meshc::runtime;

//===-- Looking at elements -----------------------------------------------===//

template <class T> static double load(const std::byte *at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  if constexpr (std::is_floating_point_v<T>)
    return double(value);
  else
    return double(value.toFloat());
}

/// Counts along one row of elements that are `stride` bytes apart.
template <class T>
static void countRow(const std::byte *at, int64_t count, int64_t stride,
                     int64_t &nans, int64_t &infinities) {
  for (int64_t i = 0; i < count; ++i) {
    const double value = load<T>(at + i * stride);
    nans += std::isnan(value);
    infinities += std::isinf(value);
  }
}

static void count(const std::byte *first, exec::ElementType element,
                  std::span<const int64_t> shape,
                  std::span<const int64_t> strides, int64_t &nans,
                  int64_t &infinities) {
  const int64_t bytes = getElementBytes(element);
  if (shape.size() > 1) {
    for (int64_t i = 0; i < shape[0]; ++i)
      count(first + i * strides[0] * bytes, element, shape.subspan(1),
            strides.subspan(1), nans, infinities);
    return;
  }
  const int64_t size = shape.empty() ? 1 : shape[0];
  const int64_t stride = shape.empty() ? bytes : strides[0] * bytes;
  switch (element) {
  case exec::ElementType::f32:
    return countRow<float>(first, size, stride, nans, infinities);
  case exec::ElementType::f64:
    return countRow<double>(first, size, stride, nans, infinities);
  case exec::ElementType::f16:
    return countRow<Float16>(first, size, stride, nans, infinities);
  case exec::ElementType::bf16:
    return countRow<BFloat16>(first, size, stride, nans, infinities);
  case exec::ElementType::i32:
  case exec::ElementType::i64:
  case exec::ElementType::boolean:
  case exec::ElementType::u8:
  case exec::ElementType::i8:
  case exec::ElementType::i16:
    return;
  }
}

/// Of a block of `shape` the positions that a device owns, which come first;
/// all where the value has another shape, or windows.
static std::vector<int64_t> getOwned(const layout::Mesh &mesh,
                                     const exec::TensorLayoutT &layout,
                                     std::vector<int64_t> shape,
                                     int64_t device) {
  const layout::Sharding sharding = getSharding(layout);
  if (sharding.hasWindow())
    return shape;
  std::vector<int64_t> sizes;
  for (const auto &dim : layout.dims)
    sizes.push_back(dim->size);
  const Placement placement = getPlacement(mesh, sizes, sharding, device);
  if (placement.block != shape)
    return shape;
  for (size_t i = 0; i < shape.size(); ++i)
    shape[i] = placement.owned[i].count;
  return shape;
}

/// A device's block of a value as one operand.
static exec::OperandT makeBlock(const exec::TensorLayoutT &layout, int buffer) {
  exec::OperandT block;
  block.buffer = buffer;
  block.element = layout.element;
  block.shape = getLocalShape(layout);
  block.strides.assign(block.shape.size(), 1);
  for (size_t i = block.shape.size(); i-- > 1;)
    block.strides[i - 1] = block.strides[i] * block.shape[i];
  return block;
}

void NanTrap::Found::add(const Found &other) {
  nans += other.nans;
  infinities += other.infinities;
  if (other.firstDevice >= 0 &&
      (firstDevice < 0 || other.firstDevice < firstDevice))
    firstDevice = other.firstDevice;
}

Status NanTrap::look(const exec::OperandT &operand, int64_t device,
                     Found &found) {
  if (!isFloat(operand.element))
    return Status::success();
  const exec::ExecutableT &data = session.getExecutable().data;
  std::vector<int64_t> shape = operand.shape;
  if (operand.tensor >= 0)
    shape = getOwned(session.getExecutable().mesh,
                     *data.tensors[size_t(operand.tensor)]->layout,
                     std::move(shape), device);
  int64_t elements = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0)
      return Status::success();
    elements += (shape[i] - 1) * operand.strides[i];
  }
  Found here;
  Status read = session.getDevices().readLocal(
      device, operand.buffer, operand.offset,
      uint64_t(elements * getElementBytes(operand.element)),
      [&](const std::byte *first) {
        count(first, operand.element, shape, operand.strides, here.nans,
              here.infinities);
      });
  if (here.nans + here.infinities > 0)
    here.firstDevice = device;
  found.add(here);
  return read;
}

Status NanTrap::look(const Value &value, Found &found) {
  const exec::OperandT whole = makeBlock(*value.layout, value.buffer);
  const Executable &executable = session.getExecutable();
  for (int64_t device = 0; device < executable.getNumDevices(); ++device) {
    if (!session.getDevices().isLocal(device))
      continue;
    exec::OperandT block = whole;
    block.shape = getOwned(executable.mesh, *value.layout, whole.shape, device);
    if (Status looked = look(block, device, found); !looked)
      return looked;
  }
  return Status::success();
}

//===-- A run -------------------------------------------------------------===//

NanTrap::NanTrap(Session &session, const exec::ProgramT &program)
    : session(session), program(program) {
  size_t operands = 0;
  for (const auto &command : program.commands) {
    firstResult.push_back(operands);
    operands += command->operands.size();
  }
  results.resize(operands);
  auto addPort = [&](const char *kind, const exec::PortT &port) {
    if (isFloat(port.layout->element))
      values.push_back(
          {kind, port.name, port.layout.get(), port.buffer, nullptr, {}, {}});
  };
  // Of what is not finite in the end the first is the end of the way back.
  for (const auto &port : program.outputs)
    addPort("output", *port);
  for (const auto &variable : session.getExecutable().data.variables)
    if (isFloat(variable->layout->element))
      values.push_back({getKind(*variable),
                        variable->name,
                        variable->layout.get(),
                        variable->buffer,
                        variable->span.get(),
                        {},
                        {}});
  for (const auto &port : program.inputs)
    addPort("input", *port);
}

/// That a step is made of.
static int64_t getNumParts(const Session &session) {
  const exec::TrainingT *training = session.getExecutable().data.training.get();
  return training ? training->parts : 1;
}

/// A value as it is before the program, and not only after it.
static bool hasStart(std::string_view kind) { return kind != "output"; }

Status NanTrap::run(int64_t step, int64_t part) {
  std::fill(results.begin(), results.end(), Found());
  for (Value &value : values) {
    value.before = value.after = Found();
    if (hasStart(value.kind))
      if (Status looked = look(value, value.before); !looked)
        return looked;
  }
  Status looked = Status::success();
  DeviceSet &devices = session.getDevices();
  devices.observeEnds([&](int64_t device, size_t number) {
    const exec::CommandT &command = *program.commands[number];
    const size_t first = command.operands.size() - size_t(command.results);
    for (size_t i = first; i < command.operands.size() && looked; ++i)
      looked = look(*command.operands[i], device, getResult(int(number), i));
  });
  Status ran = part < getNumParts(session) - 1 ? session.runPart(step, part)
                                               : session.run(program, step);
  devices.observeEnds(nullptr);
  if (ran)
    ran = looked;
  if (!ran)
    return ran;
  for (Value &value : values)
    // A run may put other values where an input was.
    if (std::string_view(value.kind) != "input")
      if (looked = look(value, value.after); !looked)
        return looked;
  if (Status merged = merge(step, part); !merged)
    return merged;
  // The first process knows what all have found.
  std::string message, note;
  if (const Value *end = session.isFirst() ? findEnd() : nullptr) {
    Error error = describe(*end, step, part);
    message = std::move(error.message);
    note = std::move(error.note);
  }
  const Result<std::string> told = session.broadcast(
      fmt::format("nan-trap/{}/{}/error", step, part), message + '\n' + note);
  if (!told)
    return told.getError();
  const size_t split = told->find('\n');
  return split == 0 ? Status::success()
                    : Error{ErrorCode::ValueNotFinite, told->substr(0, split),
                            told->substr(split + 1)};
}

const NanTrap::Value *NanTrap::findEnd() const {
  for (bool ofNans : {true, false})
    for (const Value &value : values)
      if (value.after.getCount(ofNans) > 0)
        return &value;
  return nullptr;
}

Status NanTrap::merge(int64_t step, int64_t part) {
  if (!session.hasOtherRanks())
    return Status::success();
  std::vector<Found *> all;
  for (Found &found : results)
    all.push_back(&found);
  for (Value &value : values) {
    all.push_back(&value.before);
    all.push_back(&value.after);
  }
  std::string bytes;
  for (Found *found : all)
    bytes.append(reinterpret_cast<const char *>(found), sizeof *found);
  Result<std::vector<std::string>> packed = session.collect(
      fmt::format("nan-trap/{}/{}", step, part), std::move(bytes));
  if (!packed)
    return packed.getError();
  for (size_t rank = 1; rank < packed->size(); ++rank)
    for (size_t i = 0; i < all.size(); ++i) {
      Found found;
      std::memcpy(&found, (*packed)[rank].data() + i * sizeof found,
                  sizeof found);
      all[i]->add(found);
    }
  return Status::success();
}

//===-- The way back ------------------------------------------------------===//

std::optional<NanTrap::Place>
NanTrap::findWriter(int command, const exec::OperandT &operand, bool ofNans) {
  const exec::ExecutableT &data = session.getExecutable().data;
  const MemoryAccess wanted = getAccess(data, operand);
  auto overlap = [&](const MemoryAccess &other) {
    return wanted.begin < other.end && other.begin < wanted.end;
  };
  auto covers = [&](const MemoryAccess &other) {
    return other.begin <= wanted.begin && wanted.end <= other.end;
  };
  for (int earlier = command; earlier-- > 0;) {
    const exec::CommandT &writer = *program.commands[size_t(earlier)];
    for (size_t i = writer.operands.size() - size_t(writer.results);
         i < writer.operands.size(); ++i) {
      const MemoryAccess access = getAccess(data, *writer.operands[i]);
      if (!overlap(access))
        continue;
      if (getResult(earlier, i).getCount(ofNans) > 0)
        return Place{earlier, i};
      // Strides may leave some of these bytes to an earlier command.
      if (covers(access) && writer.operands[i]->shape == operand.shape)
        return std::nullopt;
    }
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const exec::BufferT &buffer = *data.buffers[size_t(values[i].buffer)];
    if (values[i].before.getCount(ofNans) > 0 &&
        overlap({buffer.offset, buffer.offset + buffer.bytes, false}))
      return Place{-1, i};
  }
  return std::nullopt;
}

/// "samples/mlp.mesh:23:16"; empty where there is no such place.
static std::string getLine(const exec::ExecutableT &data,
                           const exec::Span *span) {
  if (!span || span->file() < 0)
    return "";
  return fmt::format("{}:{}:{}", data.files[size_t(span->file())], span->line(),
                     span->column());
}

/// "'scores'", or what the command is called where the operand has no name.
static std::string getResultName(const exec::ExecutableT &data,
                                 const exec::CommandT &command,
                                 const exec::OperandT &operand) {
  if (operand.tensor < 0)
    return fmt::format("'{}'", command.name);
  const std::string &name = data.tensors[size_t(operand.tensor)]->name;
  return operand.inside ? fmt::format("a part of '{}'", name)
                        : fmt::format("'{}'", name);
}

Error NanTrap::describe(const Value &end, int64_t step, int64_t part) {
  const exec::ExecutableT &data = session.getExecutable().data;
  const bool ofNans = end.after.nans > 0;
  const char *what = ofNans ? "NaN" : "infinite";
  const std::string ofPart =
      getNumParts(session) > 1 ? fmt::format("part {} of ", part + 1) : "";
  auto report = [&](const std::string &name, const Found &found,
                    const std::string &line, const std::string &from) {
    const int64_t number = found.getCount(ofNans);
    std::string note = line.empty() ? "" : "it is computed at " + line;
    if (!from.empty())
      note += (note.empty() ? "from " : ", from ") + from;
    return Error{ErrorCode::ValueNotFinite,
                 fmt::format("{} is {} in {}step {}: {} element{}, the first "
                             "on device {}",
                             name, what, ofPart, step, number,
                             number == 1 ? "" : "s", found.firstDevice),
                 std::move(note)};
  };
  std::optional<Place> place = findWriter(
      int(program.commands.size()), makeBlock(*end.layout, end.buffer), ofNans);
  while (place && place->command >= 0) {
    const exec::CommandT &command = *program.commands[size_t(place->command)];
    const size_t read = command.operands.size() - size_t(command.results);
    std::optional<Place> origin;
    for (size_t i = 0; i < read && !origin; ++i)
      origin = findWriter(place->command, *command.operands[i], ofNans);
    if (origin) {
      place = origin;
      continue;
    }
    // What makes a NaN is mostly an infinity.
    std::string from = "finite numbers";
    if (const exec::KernelT *kernel = command.action.AsKernel();
        kernel && kernel->fused > 1)
      from += fmt::format(", in a kernel that computes {} values: compile with "
                          "--no-fusion to have each named",
                          kernel->fused);
    for (size_t i = 0; i < read && ofNans; ++i)
      if (auto infinite =
              findWriter(place->command, *command.operands[i], false)) {
        const exec::CommandT *writer =
            infinite->command < 0
                ? nullptr
                : program.commands[size_t(infinite->command)].get();
        const std::string name =
            writer ? getResultName(data, *writer,
                                   *writer->operands[infinite->number])
                   : fmt::format("'{}'", values[infinite->number].name);
        from = name + ", which has infinities";
        if (const std::string line =
                getLine(data, writer ? writer->span.get()
                                     : values[infinite->number].span);
            !line.empty())
          from += ", " + line;
        break;
      }
    return report(
        getResultName(data, command, *command.operands[place->number]),
        getResult(place->command, place->number),
        getLine(data, command.span.get()), from);
  }
  const Value &start = place ? values[place->number] : end;
  Error error = report(fmt::format("{} '{}'", start.kind, start.name),
                       place ? start.before : start.after, "", "");
  if (place)
    error.note = fmt::format(
        "it was so before the {}{}", ofPart.empty() ? "step" : "part",
        std::string_view(start.kind) == "input" ? ", in the data" : "");
  return error;
}
