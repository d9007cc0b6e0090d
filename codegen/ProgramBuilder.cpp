#include "codegen/ProgramBuilder.h"

#include "codegen/exec/CommandBuilder.h"
#include "runtime/exec/CommandWaits.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

/// Copies new values of variables that could not be computed in place.
void ProgramBuilder::addCopies(CommandBuilder &commands) {
  auto lieIn = [](exec::OperandT &operand, int buffer) {
    operand.buffer = buffer;
    operand.offset = 0;
    operand.steps.clear();
  };
  auto add = [&](const SlotPlan::Copy &copy) -> exec::CommandT & {
    exec::CommandT &command = commands.addCommand(
        steps::getValueLoc(copy.value), {copy.value, copy.value}, 1);
    command.name = copy.variable.str();
    command.phase = exec::Phase::update;
    command.action.Set(exec::CopyT());
    return command;
  };
  for (const SlotPlan::Copy &copy : slots.getCopies())
    if (copy.through)
      lieIn(*add(copy).operands[1], slots.getBuffer(*copy.through));
  for (const SlotPlan::Copy &copy : slots.getCopies()) {
    exec::CommandT &command = add(copy);
    if (copy.through)
      lieIn(*command.operands[0], slots.getBuffer(*copy.through));
    lieIn(*command.operands[1], lasting.variables.lookup(copy.variable));
  }
}

//===-- Ports -------------------------------------------------------------===//

void ProgramBuilder::addPorts() {
  auto makePort = [&](StringRef name, Type global, Value value) {
    auto port = std::make_unique<exec::PortT>();
    port->name = name.str();
    port->layout = types.getLayout(cast<nd::NamedTensorType>(global));
    port->buffer = slots.getBuffer(slots.getSlot(value));
    return port;
  };
  for (auto input : source.getBody().getOps<spmd::InputOp>()) {
    auto port = makePort(input.getName(), input.getGlobal(), input);
    if (input.isSetting()) {
      program->settings.push_back(makePort(
          input.getName().drop_front(nd::InputOp::settingPrefix.size()),
          input.getGlobal(), input));
      continue;
    }
    if (input.isOfRun()) {
      (input.isSeed()   ? program->seed
       : input.isStep() ? program->step
                        : program->part) = std::move(port);
      continue;
    }
    port->index_bound = input.getIndexBound();
    program->inputs.push_back(std::move(port));
  }
  for (auto output : source.getBody().getOps<spmd::OutputOp>())
    program->outputs.push_back(
        makePort(output.getName(), output.getGlobal(), output.getValue()));
}

LogicalResult ProgramBuilder::build(uint64_t arenaStart) {
  program = std::make_unique<exec::ProgramT>();
  program->name = source.getSymName().str();
  const std::vector<steps::StepOpInterface> all = steps::getSteps(source);
  CommandBuilder commands(source, target, types, executable, emitted, bodies,
                          slots, *program);
  slots.assign();
  if (failed(commands.prepare(all)))
    return failure();
  program->arena_bytes = slots.place(arenaStart, types, executable);
  if (failed(commands.addSteps(all)))
    return failure();
  addCopies(commands);
  runtime::addWaits(executable, *program);
  addPorts();
  executable.arena_bytes =
      std::max(executable.arena_bytes, program->arena_bytes);
  executable.programs.push_back(std::move(program));
  return success();
}
