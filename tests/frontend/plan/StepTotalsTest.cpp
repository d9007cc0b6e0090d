#include "frontend/plan/StepTotals.h"

#include "tests/frontend/plan/ExampleExecutable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace meshc;
using namespace meshc::plan;
using testing::Each;
using testing::ElementsAre;
using testing::Ne;

namespace {

exec::ProgramT &getStep(exec::ExecutableT &executable) {
  for (const auto &program : executable.programs)
    if (program->name == "step")
      return *program;
  std::abort();
}

/// Gives the step an input x: [batch=6, in=5] of this type.
void addInput(exec::ExecutableT &executable, exec::ElementType element) {
  auto port = std::make_unique<exec::PortT>();
  port->name = "x";
  port->layout = std::make_unique<exec::TensorLayoutT>();
  port->layout->element = element;
  for (const auto &[name, size] : {std::pair("batch", 6), {"in", 5}}) {
    auto dim = std::make_unique<exec::DimShardingT>();
    dim->name = name;
    dim->size = size;
    port->layout->dims.push_back(std::move(dim));
  }
  getStep(executable).inputs.clear();
  getStep(executable).inputs.push_back(std::move(port));
}

/// Says that w: [in, hidden] is a variable, as tensor 1 is.
void addVariable(exec::ExecutableT &executable) {
  auto variable = std::make_unique<exec::VariableT>();
  variable->name = "w";
  variable->layout =
      std::make_unique<exec::TensorLayoutT>(*executable.tensors[1]->layout);
  executable.variables.clear();
  executable.variables.push_back(std::move(variable));
}

StepTotals getTotals(const exec::ExecutableT &executable) {
  const Plan plan(executable);
  return StepTotals(plan, findTransfers(plan));
}

/// Makes a step of three parts, each as the whole was.
void addParts(exec::ExecutableT &executable) {
  auto part = std::make_unique<exec::ProgramT>(getStep(executable));
  part->name = "accumulate";
  executable.programs.push_back(std::move(part));
  if (!executable.training)
    executable.training = std::make_unique<exec::TrainingT>();
  executable.training->parts = 3;
}

} // namespace

TEST(StepTotalsTest, what_a_step_comes_to) {
  exec::ExecutableT executable = makeExample();
  const RunSums one = getTotals(executable).sums;
  EXPECT_EQ(one.flops, 241);
  EXPECT_EQ(one.payloadBytes, 72);
  EXPECT_EQ(one.wireBytes, 76);
  EXPECT_EQ(one.transfers, 2);
  addParts(executable);
  const RunSums all = getTotals(executable).sums;
  EXPECT_EQ(all.flops, 3 * 241);
  EXPECT_EQ(all.wireBytes, 3 * 76);
  EXPECT_EQ(all.transfers, 6);
}

TEST(StepTotalsTest, samples_and_tokens) {
  exec::ExecutableT executable = makeExample();
  addVariable(executable);
  addInput(executable, exec::ElementType::f32);
  // No data says it: w has in, and not batch.
  EXPECT_EQ(getTotals(executable).samples, 6);
  EXPECT_EQ(getTotals(executable).tokens, 0);
  addInput(executable, exec::ElementType::u8); // pixels, say
  EXPECT_EQ(getTotals(executable).tokens, 0);
  addInput(executable, exec::ElementType::i32);
  EXPECT_EQ(getTotals(executable).tokens, 30);
  executable.sample_dim = "in";
  EXPECT_EQ(getTotals(executable).samples, 5);
  EXPECT_EQ(getTotals(executable).tokens, 30);
  addParts(executable);
  EXPECT_EQ(getTotals(executable).samples, 15);
  EXPECT_EQ(getTotals(executable).tokens, 90);
  executable.sample_dim = "";
  getStep(executable)
      .inputs[0]
      ->layout->dims.erase(getStep(executable).inputs[0]->layout->dims.begin());
  EXPECT_EQ(getTotals(executable).samples, 0); // in alone, which w has
}

TEST(StepTotalsTest, the_share_of_the_peak) {
  exec::ExecutableT executable = makeExample();
  const layout::Machine &machine = *layout::findMachine("h100");
  const double peakRate = machine.getGpuConstants()->matmul32.value;
  const Plan plan(executable);
  const StepTime time(plan, findTransfers(plan), machine);
  const double us = time.stepUs;
  const StepRate rate(plan, time);
  EXPECT_EQ(rate.stepUs, us);
  EXPECT_GT(rate.exposedUs, 0);
  ASSERT_TRUE(rate.peakShare);
  EXPECT_DOUBLE_EQ(*rate.peakShare, 198 / peakRate / us);
  EXPECT_DOUBLE_EQ(rate.getPerSecond(6), 6e6 / us);
  // Parts take longer all together, and come as near.
  exec::ExecutableT parts = makeExample();
  addParts(parts);
  const StepRate ofAll(Plan(parts), time);
  EXPECT_DOUBLE_EQ(ofAll.stepUs, 3 * us);
  EXPECT_DOUBLE_EQ(ofAll.exposedUs, 3 * time.exposedUs);
  EXPECT_DOUBLE_EQ(*ofAll.peakShare, *rate.peakShare);
  // A host has no peak.
  const StepTime ofHost(plan, findTransfers(plan), layout::getCpuMachine());
  EXPECT_FALSE(StepRate(plan, ofHost).peakShare);
}

TEST(StepTotalsTest, an_evaluation_has_no_gradients) {
  exec::ExecutableT executable = makeExample();
  exec::ProgramT &step = getStep(executable);
  auto eval = std::make_unique<exec::ProgramT>();
  eval->name = "eval";
  for (size_t command : {0, 1, 2, 3}) // forward
    eval->commands.push_back(
        std::make_unique<exec::CommandT>(*step.commands[command]));
  for (const auto &output : step.outputs)
    eval->outputs.push_back(std::make_unique<exec::PortT>(*output));
  executable.programs.push_back(std::move(eval));
  auto listNames = [&] {
    std::vector<std::vector<std::string>> names;
    for (const auto &command : executable.programs.back()->commands)
      for (const auto &operand : command->operands)
        if (operand->tensor >= 0)
          names.push_back({executable.tensors[size_t(operand->tensor)]->name});
    return names;
  };
  const auto before = listNames();
  keepEvaluation(executable);
  EXPECT_EQ(listNames(), before);
  EXPECT_FALSE(executable.training);
  const Plan plan(executable);
  EXPECT_EQ(plan.program->name, "eval");
  std::vector<exec::BufferRole> roles;
  for (const auto &tensor : executable.tensors)
    roles.push_back(tensor->role);
  EXPECT_THAT(roles, Each(Ne(exec::BufferRole::gradient)));
  EXPECT_EQ(getTotals(executable).sums.wireBytes, 16);
}
