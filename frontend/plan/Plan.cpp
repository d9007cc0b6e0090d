#include "frontend/plan/Plan.h"

#include "layout/Sharding.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>

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

int64_t plan::getLocalSize(const exec::DimShardingT &dim) {
  return layout::getLocalSize(dim.size, getAxes(dim.axes));
}

static layout::ReduceKind getReduceKind(exec::ReduceKind kind) {
  switch (kind) {
  case exec::ReduceKind::none:
    return layout::ReduceKind::None;
  case exec::ReduceKind::sum:
    return layout::ReduceKind::Sum;
  case exec::ReduceKind::max:
    return layout::ReduceKind::Max;
  case exec::ReduceKind::min:
    return layout::ReduceKind::Min;
  }
  std::abort();
}

std::string plan::getSharding(const layout::Mesh &mesh,
                              const exec::TensorLayoutT &layout) {
  layout::Sharding sharding;
  std::vector<std::string> names;
  for (const auto &dim : layout.dims) {
    names.push_back(dim->name);
    sharding.dims.push_back(getAxes(dim->axes));
  }
  sharding.partialKind = getReduceKind(layout.partial);
  sharding.partialAxes = getAxes(layout.partial_axes);
  return layout::toString(mesh, sharding, names);
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

const exec::CollectiveT *PlannedCommand::getCollective() const {
  const exec::CollectiveT *collective = command->action.AsCollective();
  // A slice keeps a part of the own block: nothing is sent.
  if (!collective || collective->kind == exec::CollectiveKind::slice)
    return nullptr;
  return collective;
}

static const exec::ProgramT *findProgram(const exec::ExecutableT &executable,
                                         std::string_view name) {
  for (const auto &program : executable.programs)
    if (program->name == name)
      return program.get();
  return nullptr;
}

Plan::Plan(const exec::ExecutableT &executable)
    : executable(executable), program(findProgram(executable, "step")) {
  if (!program)
    program = findProgram(executable, "eval");
  std::vector<layout::MeshAxis> axes;
  if (executable.mesh)
    for (const auto &axis : executable.mesh->axes)
      axes.push_back({axis->name, axis->size});
  mesh = layout::Mesh(std::move(axes));
  if (!program)
    return;
  followValues();
  assignOwners();
}

std::string Plan::getTensorId(int tensor) {
  return "t" + std::to_string(tensor);
}

/// Values of one name differ in their role; the first of these that a phase
/// computes is meant.
static std::vector<exec::BufferRole> getRolesOf(exec::Phase phase) {
  using Role = exec::BufferRole;
  switch (phase) {
  case exec::Phase::forward:
    return {Role::activation, Role::output, Role::input, Role::parameter,
            Role::state};
  case exec::Phase::backward:
    return {Role::gradient, Role::output};
  case exec::Phase::update:
    return {Role::parameter, Role::state, Role::gradient, Role::output};
  }
  std::abort();
}

int Plan::findTensor(std::string_view name, exec::Phase phase) const {
  for (exec::BufferRole role : getRolesOf(phase))
    for (size_t tensor = 0; tensor < executable.tensors.size(); ++tensor)
      if (executable.tensors[tensor]->role == role &&
          executable.tensors[tensor]->name == name)
        return int(tensor);
  return -1;
}

void Plan::followValues() {
  std::vector<ValueSource> held(executable.buffers.size());
  std::vector<bool> isUsed(executable.buffers.size());
  auto start = [&](int buffer, int tensor) {
    held[size_t(buffer)] = {tensor, -1};
    isUsed[size_t(buffer)] = true;
  };
  std::vector<int> variableOf(executable.buffers.size(), -1);
  for (const auto &variable : executable.variables) {
    int tensor = findTensor(variable->name, exec::Phase::update);
    variableOf[size_t(variable->buffer)] = tensor;
    start(variable->buffer, tensor);
  }
  for (const auto &input : program->inputs)
    start(input->buffer, findTensor(input->name, exec::Phase::forward));

  for (const auto &source : program->commands) {
    PlannedCommand planned;
    planned.command = source.get();
    int index = int(commands.size());
    const exec::CollectiveT *collective = planned.getCollective();
    planned.id = collective ? collective->id : "o" + std::to_string(index);
    size_t firstResult = source->operands.size() - size_t(source->results);
    for (size_t operand = 0; operand < firstResult; ++operand)
      planned.inputs.push_back(held[size_t(source->operands[operand]->buffer)]);

    planned.tensor = findTensor(source->name, source->phase);
    // With several results the command is called by one of them. A result in a
    // buffer of its own has that buffer's name; the one that took over another
    // value's buffer is the one the command is called by.
    bool isNameTaken = false;
    for (size_t operand = firstResult; operand < source->operands.size();
         ++operand) {
      auto buffer = size_t(source->operands[operand]->buffer);
      int tensor = planned.tensor;
      if (variableOf[buffer] >= 0)
        tensor = variableOf[buffer];
      else if (source->results > 1 && !isUsed[buffer])
        tensor = findTensor(executable.buffers[buffer]->name, source->phase);
      else if (isNameTaken)
        tensor = -1;
      isNameTaken |= tensor == planned.tensor;
      held[buffer] = {tensor, index};
      isUsed[buffer] = true;
      planned.outputs.push_back(held[buffer]);
    }
    if (planned.tensor < 0 && !planned.outputs.empty())
      planned.tensor = planned.outputs.back().tensor;
    commands.push_back(std::move(planned));
  }
}

void Plan::assignOwners() {
  for (size_t index = commands.size(); index-- > 0;)
    for (const ValueSource &input : commands[index].inputs) {
      if (input.command < 0)
        continue;
      PlannedCommand &writer = commands[size_t(input.command)];
      assert(size_t(input.command) < index && "written after it is read");
      // Going backwards, the first reader in program order has the last word.
      bool isNamed = std::any_of(
          writer.outputs.begin(), writer.outputs.end(),
          [](const ValueSource &output) { return output.tensor >= 0; });
      if (!isNamed && commands[index].tensor >= 0)
        writer.tensor = commands[index].tensor;
    }
}
