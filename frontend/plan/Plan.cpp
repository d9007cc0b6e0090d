#include "frontend/plan/Plan.h"

#include "frontend/plan/Quantities.h"
#include "layout/Sharding.h"
#include "layout/Spelling.h"
#include "runtime/exec/Executable.h"
#include "runtime/exec/Loops.h"
#include "runtime/exec/PlanIds.h"

#include <fmt/format.h>
#include <limits>

using namespace meshc;
using namespace meshc::plan;

//===-- Spelling ----------------------------------------------------------===//

layout::AxisRef plan::getAxis(const exec::AxisRef &axis) {
  return {axis.axis(), axis.pre(), axis.size()};
}

std::vector<layout::AxisRef>
plan::getAxes(const std::vector<exec::AxisRef> &axes) {
  std::vector<layout::AxisRef> result;
  for (const exec::AxisRef &axis : axes)
    result.push_back(getAxis(axis));
  return result;
}

int64_t plan::getLocalSize(const exec::TensorLayoutT &layout, size_t dim) {
  return layout::getLocalSize(layout.dims[dim]->size,
                              runtime::getSharding(layout), dim);
}

std::string plan::getSharding(const layout::Mesh &mesh,
                              const exec::TensorLayoutT &layout) {
  std::vector<std::string> names;
  for (const auto &dim : layout.dims)
    names.push_back(dim->name);
  return layout::toString(mesh, runtime::getSharding(layout), names);
}

const char *plan::getName(exec::Phase phase) {
  return exec::EnumNamePhase(phase);
}

const char *plan::getName(exec::CollectiveKind kind) {
  return exec::EnumNameCollectiveKind(kind);
}

const char *plan::getName(exec::ReduceKind kind) {
  return exec::EnumNameReduceKind(kind);
}

const char *plan::getName(exec::ElementType element) {
  return exec::EnumNameElementType(element);
}

//===-- Plan --------------------------------------------------------------===//

static const exec::ProgramT *findProgram(const exec::ExecutableT &executable,
                                         std::string_view name) {
  for (const auto &program : executable.programs)
    if (program->name == name)
      return program.get();
  return nullptr;
}

/// The program that is planned; null: there is none.
static const exec::ProgramT *findProgram(const exec::ExecutableT &executable) {
  const exec::ProgramT *step = findProgram(executable, "step");
  return step ? step : findProgram(executable, "eval");
}

const exec::ProgramT *
plan::findAccumulate(const exec::ExecutableT &executable) {
  return findProgram(executable, "accumulate");
}

Plan::Plan(const exec::ExecutableT &executable)
    : Plan(executable, findProgram(executable)) {}

Plan::Plan(const exec::ExecutableT &executable, const exec::ProgramT &program)
    : Plan(executable, &program) {}

Plan::Plan(const exec::ExecutableT &executable, const exec::ProgramT *program)
    : executable(executable), program(program) {
  std::vector<layout::MeshAxis> axes;
  if (executable.mesh)
    for (const auto &axis : executable.mesh->axes)
      axes.push_back({axis->name, axis->size});
  mesh = layout::Mesh(std::move(axes));
  readLayout();
  for (size_t tensor = 0; tensor < executable.tensors.size(); ++tensor)
    tensorsNamed[executable.tensors[tensor]->name].push_back(int(tensor));
  isWritten.resize(executable.tensors.size());
  wholes.resize(executable.tensors.size(), -1);
  tileBytes.resize(executable.tensors.size());
  if (!program)
    return;
  followValues();
}

void Plan::readLayout() {
  std::vector<layout::LayoutRule> rules;
  for (const auto &rule : executable.rules)
    rules.push_back(
        std::get<layout::LayoutRule>(layout::parseRule(rule->text)));
  // What is wrong with a table is told when an executable is made or read.
  layout =
      std::get<layout::Layout>(layout::Layout::create(mesh, std::move(rules)));
}

static layout::Role getRole(exec::BufferRole role) {
  switch (role) {
  case exec::BufferRole::parameter:
    return layout::Role::Parameter;
  case exec::BufferRole::state:
    return layout::Role::State;
  case exec::BufferRole::model_state:
  case exec::BufferRole::input:
  case exec::BufferRole::output:
  case exec::BufferRole::activation:
  case exec::BufferRole::gradient:
  case exec::BufferRole::communication:
  case exec::BufferRole::workspace:
    return layout::Role::Value;
  }
  std::abort();
}

/// What a rule of the layout calls a tensor: its name without the iterations of
/// loops, of gradients and state that of what they are of. Empty of what is on
/// the way to one.
static std::string getPath(const exec::ExecutableT &executable,
                           const exec::OriginT *origin) {
  if (!origin || origin->kind == exec::OriginKind::update ||
      origin->part != exec::OriginPart::itself || !origin->element.empty())
    return "";
  std::string path = origin->name;
  for (int scope = origin->scope; scope >= 0;
       scope = executable.scopes[size_t(scope)]->parent)
    path = executable.scopes[size_t(scope)]->name + "/" + path;
  return path;
}

const exec::NamedDimT *plan::findDim(const Plan &plan, std::string_view name) {
  for (const auto &dim : plan.executable.dims)
    if (dim->name == name)
      return dim.get();
  return nullptr;
}

/// Whether a gradient is one of a parameter of this name, and not that of an
/// iteration, which has fewer dims, or of another value.
static bool isOfParameter(const Plan &plan, const exec::TensorT &gradient,
                          std::string_view path) {
  const int parameter = plan.findTensor(path, {exec::BufferRole::parameter});
  const auto areEqual = [](const auto &a, const auto &b) {
    return a->name == b->name && a->size == b->size;
  };
  return parameter >= 0 &&
         std::ranges::is_permutation(gradient.layout->dims,
                                     plan.getTensor(parameter).layout->dims,
                                     areEqual);
}

layout::TensorLayout plan::askLayout(const Plan &plan, int tensor) {
  const exec::TensorT &value = plan.getTensor(tensor);
  std::vector<std::string> names;
  std::vector<int64_t> sizes;
  for (const auto &dim : value.layout->dims) {
    names.push_back(dim->name);
    sizes.push_back(dim->size);
  }
  std::string name = getPath(plan.executable, value.origin.get());
  layout::Role role = getRole(value.role);
  if (value.role == exec::BufferRole::gradient) {
    if (isOfParameter(plan, value, name))
      role = layout::Role::Gradient;
    else
      name.clear();
  }
  auto found = plan.layout.getLayout({names, sizes, name}, role);
  if (auto *asked = std::get_if<layout::TensorLayout>(&found))
    return std::move(*asked);
  // What is no tensor of the user may have two dims on one axis.
  layout::TensorLayout asked;
  asked.sharding = plan.layout.getLegalSharding({names, sizes});
  for (const std::string &name : names)
    if (std::optional<size_t> rule = plan.layout.findRule(name))
      asked.rules.push_back({*rule});
    else
      asked.rules.emplace_back();
  return asked;
}

std::string plan::explainLost(const Plan &plan, int tensor,
                              const layout::TensorLayout &asked,
                              const layout::LostRule &lost) {
  std::vector<std::string> names;
  for (const auto &dim : plan.getTensor(tensor).layout->dims)
    names.push_back(dim->name);
  return plan.layout.explain(lost, asked, names);
}

/// How many parts a step has.
static int64_t getNumParts(const exec::ExecutableT &executable) {
  return executable.training ? executable.training->parts : 1;
}

int64_t Plan::getRuns() const {
  return program->name == "accumulate" ? getNumParts(executable) - 1 : 1;
}

std::string Plan::describeProgram() const {
  const int64_t parts = getNumParts(executable);
  if (program->name == "accumulate")
    return parts == 2 ? "the first of the 2 parts of each training step"
                      : fmt::format("each of the first {} parts of each "
                                    "training step",
                                    parts - 1);
  if (program->name != "step")
    return "each evaluation";
  return parts == 1
             ? "each training step"
             : fmt::format("the last of the {} parts of each training step",
                           parts);
}

std::string Plan::getTensorId(int tensor) {
  return "t" + std::to_string(tensor);
}

std::string Plan::describeMesh() const {
  std::vector<std::string> axes;
  for (const layout::MeshAxis &axis : mesh.getAxes())
    axes.push_back(fmt::format("{}={}", axis.name, axis.size));
  std::string devices = formatCount(mesh.getNumDevices(), "device");
  if (axes.empty())
    return devices;
  return fmt::format("{}: {}", fmt::join(axes, " x "), devices);
}

std::string Plan::describeLayout() const {
  return runtime::describeLayout(executable);
}

std::string Plan::getName(int tensor) const {
  const exec::TensorT &value = getTensor(tensor);
  return value.inside ? "inside " + value.name : value.name;
}

bool Plan::isStored(int tensor) const {
  switch (getTensor(tensor).role) {
  case exec::BufferRole::parameter:
  case exec::BufferRole::model_state:
  case exec::BufferRole::state:
  case exec::BufferRole::input:
  case exec::BufferRole::output:
    return true;
  case exec::BufferRole::activation:
  case exec::BufferRole::gradient:
  case exec::BufferRole::communication:
  case exec::BufferRole::workspace:
    break;
  }
  return isWritten[size_t(tensor)];
}

int Plan::findTensor(std::string_view name,
                     std::initializer_list<exec::BufferRole> roles) const {
  auto named = tensorsNamed.find(name);
  if (named == tensorsNamed.end())
    return -1;
  for (exec::BufferRole role : roles)
    for (int tensor : named->second)
      if (getTensor(tensor).role == role)
        return tensor;
  return -1;
}

/// Whether `name` is `id` behind some scopes: "b1/attn/scores" for "scores",
/// "gradient of b1/attn/scores" for "gradient of scores".
static bool isInScope(std::string_view name, std::string_view id) {
  size_t inName = name.rfind(' ') + 1, inId = id.rfind(' ') + 1;
  return name.substr(0, inName) == id.substr(0, inId) &&
         name.ends_with("/" + std::string(id.substr(inId)));
}

std::vector<int> Plan::findTensors(std::string_view id) const {
  std::vector<int> found, ending;
  for (int tensor = 0; tensor < int(executable.tensors.size()); ++tensor) {
    if (getTensorId(tensor) == id)
      return {tensor};
    std::string name = getName(tensor);
    // An output of this name is that value, seen from outside.
    bool isKnown =
        !found.empty() && getTensor(tensor).role == exec::BufferRole::output;
    if (name == id && !isKnown)
      found.push_back(tensor);
    else if (isInScope(name, id))
      ending.push_back(tensor);
  }
  if (!found.empty())
    return found;
  // As rules call what a loop computes: of all iterations the first.
  if (ending.empty())
    for (int tensor = 0; tensor < int(executable.tensors.size()); ++tensor)
      if (getTensor(tensor).role != exec::BufferRole::gradient &&
          getPath(executable, getTensor(tensor).origin.get()) == id)
        return {tensor};
  if (ending.size() < 2)
    return ending;
  // "attn/wq" is the parameter, not what the optimizer keeps of it.
  std::erase_if(ending, [&](int tensor) {
    return getTensor(tensor).role != exec::BufferRole::parameter;
  });
  return ending.size() == 1 ? ending : std::vector<int>();
}

std::string Plan::getUnknownMessage(std::string_view id, bool isOfValue) const {
  std::vector<std::string> known;
  for (const PlannedCommand &planned : commands)
    if (planned.collective && !isOfValue)
      known.push_back(planned.id);
  size_t collectives = known.size();
  for (const auto &tensor : executable.tensors)
    if (!tensor->inside)
      known.push_back(tensor->name);
  std::string message =
      fmt::format("the plan has no {} '{}'",
                  isOfValue ? "value" : "collective, value or operation", id);
  // Each name once, those of parameters first.
  std::vector<std::string> ending;
  for (bool ofParameters : {true, false})
    for (const auto &tensor : executable.tensors)
      if (std::string name = "'" + tensor->name + "'";
          (tensor->role == exec::BufferRole::parameter) == ofParameters &&
          isInScope(tensor->name, id) &&
          std::ranges::find(ending, name) == ending.end())
        ending.push_back(std::move(name));
  constexpr size_t mostListed = 8;
  if (const size_t count = ending.size(); count > 0) {
    ending.resize(std::min(count, mostListed));
    return fmt::format(
        "{}; several end so: {}{}", message, fmt::join(ending, ", "),
        count > mostListed ? fmt::format(" and {} more", count - mostListed)
                           : "");
  }
  std::string nearest = layout::findNearest(id, known);
  if (!nearest.empty())
    return fmt::format("{}; did you mean '{}'?", message, nearest);
  if (isOfValue)
    return message + "; 'meshc plan --sort name' lists them";
  if (collectives > 0)
    return fmt::format("{}; its collectives are {} to {}", message,
                       known.front(), known[collectives - 1]);
  return message + "; it has no collectives";
}

//===-- Collectives -------------------------------------------------------===//

/// "c3: all_reduce over model in groups of 2 devices, forward pass".
namespace {
/// What lies in a buffer: by place, what was written there last.
class HeldValues {
public:
  /// Bytes [begin, end) of the buffer.
  struct Place {
    uint64_t begin = 0, end = 0;
  };

  static Place getPlace(const exec::OperandT &operand) {
    if (!operand.steps.empty()) // it moves: anywhere
      return {0, std::numeric_limits<uint64_t>::max()};
    int64_t last = 0;
    for (size_t dim = 0; dim < operand.shape.size(); ++dim)
      last += (operand.shape[dim] - 1) * operand.strides[dim];
    const auto element = uint64_t(runtime::getElementBytes(operand.element));
    return {operand.offset, operand.offset + uint64_t(last + 1) * element};
  }

  void write(Place place, const ValueSource &source) {
    std::erase_if(parts, [&](const Part &part) {
      return place.begin <= part.place.begin && part.place.end <= place.end;
    });
    parts.push_back({place, source});
  }

  ValueSource read(Place place) const {
    const Part *part = find(place);
    return part ? part->source : ValueSource{};
  }

  /// Whether what lies at `place` was written there piece by piece, as a stack
  /// is.
  bool isMadeOfParts(Place place) const {
    const Part *part = find(place);
    return part &&
           (place.begin < part->place.begin || part->place.end < place.end);
  }

private:
  struct Part {
    Place place;
    ValueSource source;
  };

  /// What was written last into some of `place`.
  const Part *find(Place place) const {
    for (size_t index = parts.size(); index-- > 0;)
      if (const Part &part = parts[index];
          part.place.begin < place.end && place.begin < part.place.end)
        return &part;
    return nullptr;
  }

  std::vector<Part> parts; ///< the last one written last
};
} // namespace

void Plan::followValues() {
  using Role = exec::BufferRole;
  std::vector<HeldValues> held(executable.buffers.size());
  auto hold = [&](int buffer, int tensor) {
    held[size_t(buffer)].write({0, executable.buffers[size_t(buffer)]->bytes},
                               {tensor, -1});
  };
  for (const auto &variable : executable.variables)
    hold(variable->buffer,
         findTensor(variable->name, {Role::parameter, Role::state}));
  for (const auto &input : program->inputs)
    hold(input->buffer, findTensor(input->name, {Role::input}));

  auto read = [&](const exec::OperandT &operand) {
    const HeldValues &values = held[size_t(operand.buffer)];
    const HeldValues::Place place = HeldValues::getPlace(operand);
    const ValueSource source = values.read(place);
    if (operand.tensor >= 0 && !operand.inside && operand.steps.empty() &&
        values.isMadeOfParts(place))
      isWritten[size_t(operand.tensor)] = true;
    if (operand.tensor >= 0 && !operand.inside && source.tensor >= 0 &&
        source.tensor != operand.tensor && !isStored(operand.tensor))
      wholes[size_t(operand.tensor)] = source.tensor;
    return source;
  };

  const auto ids = runtime::getPlanIds(*program);
  const std::vector<int64_t> repeats = runtime::countRepeats(*program);
  for (size_t position = 0; position < program->commands.size(); ++position) {
    const exec::CommandT &command = *program->commands[position];
    const size_t first = commands.size();
    addCommands(command, int(position), ids[position], repeats[position]);
    // Each planned command has inputs and outputs in the order of the operands;
    // all are read before any is written.
    const size_t numInputs = command.operands.size() - size_t(command.results);
    const size_t inputsOfEach = numInputs / (commands.size() - first);
    const size_t outputsOfEach =
        size_t(command.results) / (commands.size() - first);
    for (size_t index = first; index < commands.size(); ++index)
      for (size_t i = 0; i < inputsOfEach; ++i)
        commands[index].inputs.push_back(
            read(*command.operands[(index - first) * inputsOfEach + i]));
    for (size_t index = first; index < commands.size(); ++index)
      for (size_t i = 0; i < outputsOfEach; ++i) {
        PlannedCommand &planned = commands[index];
        const exec::OperandT &operand =
            *command.operands[numInputs + (index - first) * outputsOfEach + i];
        // What a variable or an input becomes is no value of its own.
        planned.tensor = operand.tensor < 0 && planned.collective
                             ? planned.inputs[i].tensor
                             : operand.tensor;
        planned.isInside = operand.inside;
        planned.outputs.push_back(
            {operand.inside ? -1 : operand.tensor, int(index)});
        if (!operand.inside && operand.tensor >= 0)
          noteWritten(operand, int(position));
        held[size_t(operand.buffer)].write(HeldValues::getPlace(operand),
                                           planned.outputs.back());
      }
  }
}

/// Notes that the command at `position` writes a named value, or in a loop a
/// tile of it that takes the place of the one before.
void Plan::noteWritten(const exec::OperandT &operand, int position) {
  const auto tensor = size_t(operand.tensor);
  int64_t elements = 1, whole = 1;
  for (int64_t size : operand.shape)
    elements *= size;
  const int64_t tile = elements * runtime::getElementBytes(operand.element);
  size_t depth = 0;
  for (const auto &loop : program->loops) {
    if (position < loop->first || position >= loop->first + loop->commands)
      continue;
    if (depth < operand.steps.size() && operand.steps[depth] != 0)
      elements *= loop->iterations;
    ++depth;
  }
  const exec::TensorLayoutT &layout = *executable.tensors[tensor]->layout;
  for (size_t dim = 0; dim < layout.dims.size(); ++dim)
    whole *= getLocalSize(layout, dim);
  if (depth == 0 || elements >= whole)
    isWritten[tensor] = true;
  else
    tileBytes[tensor] = std::max(tileBytes[tensor], tile);
}

/// Adds a command, once for each of its members, which have these ids.
void Plan::addCommands(const exec::CommandT &command, int position,
                       const std::vector<std::string> &ids, int64_t repeats) {
  std::vector<const exec::CollectiveT *> members = {nullptr};
  if (runtime::isMessage(command))
    members = runtime::getMembers(*command.action.AsCollective());
  for (size_t i = 0; i < members.size(); ++i) {
    PlannedCommand &planned = commands.emplace_back();
    planned.command = &command;
    planned.position = position;
    planned.repeats = repeats;
    planned.collective = members[i];
    planned.id = ids[i];
  }
}
