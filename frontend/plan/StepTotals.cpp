#include "frontend/plan/StepTotals.h"

#include "frontend/plan/kinds/PlannedKind.h"

#include <algorithm>
#include <fmt/format.h>

using namespace meshc;
using namespace meshc::plan;

void RunSums::add(const RunSums &other, int64_t runs) {
  flops += other.flops * runs;
  payloadBytes += other.payloadBytes * runs;
  wireBytes += other.wireBytes * runs;
  transfers += other.transfers * runs;
}

RunSums plan::sumRun(const Plan &plan, const std::vector<Transfer> &transfers) {
  RunSums sums;
  for (const Transfer &transfer : transfers)
    sums.transfers += plan.commands[size_t(transfer.collectives[0])].repeats;
  for (const PlannedCommand &planned : plan.commands) {
    sums.flops += planned.command->flops * planned.repeats;
    if (const exec::CollectiveT *collective = planned.collective) {
      sums.payloadBytes += collective->payload_bytes * planned.repeats;
      sums.wireBytes += collective->wire_bytes * planned.repeats;
    }
  }
  return sums;
}

/// Null, too, of a value of which nothing is said, as in files by hand.
template <typename Value>
static const exec::DimShardingT *findShardingOf(const Value &value,
                                                std::string_view name) {
  if (!value->layout)
    return nullptr;
  for (const auto &dim : value->layout->dims)
    if (dim->name == name)
      return dim.get();
  return nullptr;
}

/// The dim that counts samples; empty: none is known.
static std::string findSampleDim(const Plan &plan) {
  if (!plan.executable.sample_dim.empty() || plan.program->inputs.empty() ||
      !plan.program->inputs.front()->layout)
    return plan.executable.sample_dim;
  for (const auto &dim : plan.program->inputs.front()->layout->dims) {
    auto has = [&](const auto &value) {
      return findShardingOf(value, dim->name) != nullptr;
    };
    if (std::ranges::all_of(plan.program->inputs, has) &&
        std::ranges::none_of(plan.executable.variables, has))
      return dim->name;
  }
  return "";
}

StepTotals::StepTotals(const Plan &plan, const std::vector<Transfer> &transfers)
    : sums(sumRun(plan, transfers)) {
  if (!plan.program)
    return;
  int64_t runs = 1;
  if (const exec::ProgramT *accumulate = findAccumulate(plan.executable)) {
    const Plan parts(plan.executable, *accumulate);
    sums.add(sumRun(parts, findTransfers(parts)), parts.getRuns());
    runs += parts.getRuns();
  }
  const std::string name = findSampleDim(plan);
  for (const auto &input : plan.program->inputs) {
    const exec::DimShardingT *dim = findShardingOf(input, name);
    if (!dim)
      continue;
    const exec::TensorLayoutT &layout = *input->layout;
    samples = runs * dim->size;
    const bool isToken = layout.element == exec::ElementType::i16 ||
                         layout.element == exec::ElementType::i32 ||
                         layout.element == exec::ElementType::i64;
    if (isToken && layout.dims.size() == 2) {
      tokens = runs * layout.dims[0]->size * layout.dims[1]->size;
      return;
    }
  }
}

/// Microseconds that the matmuls and convolutions of a run take at full rates.
static std::optional<double> findPeakUs(const Plan &plan,
                                        const layout::Machine &machine) {
  const std::vector<layout::MachineConstant> constants = machine.getConstants();
  double us = 0;
  for (const PlannedCommand &planned : plan.commands) {
    const exec::CommandT &command = *planned.command;
    if (planned.collective || !getPlannedKind(command).flopsName)
      continue;
    const std::optional<layout::MatmulType> type = findMatmulType(command);
    if (!type)
      continue;
    const auto rate = std::ranges::find(
        constants, fmt::format("matmul {}", layout::getName(*type)),
        &layout::MachineConstant::name);
    if (rate == constants.end())
      return std::nullopt;
    us += double(command.flops) * double(planned.repeats) / rate->value;
  }
  return us;
}

StepRate::StepRate(const Plan &plan, const StepTime &time)
    : stepUs(time.stepUs), exposedUs(time.exposedUs) {
  const layout::Machine &machine = time.machine;
  std::optional<double> peakUs;
  if (machine.getGpuConstants())
    peakUs = findPeakUs(plan, machine);
  if (const exec::ProgramT *accumulate = findAccumulate(plan.executable)) {
    const Plan parts(plan.executable, *accumulate);
    const auto runs = double(parts.getRuns());
    const StepTime ofPart(parts, findTransfers(parts), machine);
    stepUs += runs * ofPart.stepUs;
    exposedUs += runs * ofPart.exposedUs;
    const std::optional<double> partUs = findPeakUs(parts, machine);
    peakUs = peakUs && partUs ? std::optional(*peakUs + runs * *partUs)
                              : std::nullopt;
  }
  if (peakUs && stepUs > 0)
    peakShare = *peakUs / stepUs;
}

/// Whether an evaluation has a value, by its role alone: of the others nothing
/// is computed in it, or they are there all the time.
static bool isOfEvaluation(const exec::ExecutableT &executable,
                           const exec::TensorT &tensor) {
  if (tensor.role != exec::BufferRole::output)
    return tensor.role != exec::BufferRole::gradient;
  return std::ranges::any_of(executable.programs, [&](const auto &program) {
    return program->name == "eval" &&
           std::ranges::any_of(program->outputs, [&](const auto &output) {
             return output->name == tensor.name;
           });
  });
}

void plan::keepEvaluation(exec::ExecutableT &executable) {
  std::erase_if(executable.programs, [](const auto &program) {
    return program->name == "step" || program->name == "accumulate";
  });
  executable.training.reset();
  // Values have other numbers without those of the step.
  std::vector<int> numbers;
  int count = 0;
  for (const auto &tensor : executable.tensors)
    numbers.push_back(isOfEvaluation(executable, *tensor) ? count++ : -1);
  auto renumber = [&](int &tensor) {
    if (tensor >= 0)
      tensor = numbers[size_t(tensor)];
  };
  for (size_t i = 0; i < numbers.size(); ++i)
    if (numbers[i] >= 0) {
      renumber(executable.tensors[i]->of);
      executable.tensors[size_t(numbers[i])] = std::move(executable.tensors[i]);
    }
  executable.tensors.resize(size_t(count));
  for (const auto &buffer : executable.buffers)
    renumber(buffer->tensor);
  for (const auto &program : executable.programs)
    for (const auto &command : program->commands)
      for (const auto &operand : command->operands)
        renumber(operand->tensor);
}
