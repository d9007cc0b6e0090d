// Predicted times: the command list played on a machine.

#include "ExampleExecutable.h"

#include "frontend/plan/StepTime.h"
#include "frontend/plan/json/PlanJson.h"
#include "frontend/plan/text/PlanText.h"
#include "layout/MeasuredMachine.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace meshc;
using testing::HasSubstr;

namespace {

/// A machine on which a command takes a millisecond, whatever it does, and a
/// message its bytes.
layout::Machine makeMachine(double memoryBytes, double bytesPerUs) {
  constexpr auto made = layout::Made::Measured;
  constexpr const char *source = "made up";
  auto constant = [&](const char *name, double value) {
    return layout::MachineConstant{name, "", value, made, source};
  };
  return {"slow", "slow machine",
          layout::Machine::Constants{
              constant("memory", memoryBytes), constant("devices", 8),
              constant("f32", 1e12), constant("16", 1e12),
              constant("other", 1e12), constant("rate", 1e12),
              constant("launch", 1000), constant("multiprocessors", 1),
              constant("inside", bytesPerUs), constant("network", 1)}};
}

void expectConsistent(const exec::ExecutableT &executable,
                      const layout::Machine &machine) {
  const plan::Plan plan(executable);
  const std::vector<plan::Transfer> transfers = plan::findTransfers(plan);
  const plan::StepTime time(plan, transfers, machine);
  EXPECT_NEAR(time.stepUs, time.computeUs + time.exposedUs, 1e-6 * time.stepUs);
  double ends[2] = {0, 0};
  for (size_t index = 0; index < plan.commands.size(); ++index) {
    const plan::PlannedCommand &planned = plan.commands[index];
    const plan::StepTime::Span &span = time.commands[index];
    EXPECT_LT(span.start, span.end);
    for (size_t other = 0; other < index; ++other)
      if (std::ranges::count(planned.command->waits,
                             plan.commands[other].position))
        EXPECT_GE(span.start, time.commands[other].end) << planned.id;
    if (index > 0 && plan.commands[index - 1].position == planned.position)
      continue; // of the same transfer
    double &end =
        ends[planned.command->queue == exec::Queue::communication ? 1 : 0];
    EXPECT_GE(span.start, end) << planned.id;
    end = span.end;
  }
  double exposed = 0;
  for (size_t transfer = 0; transfer < transfers.size(); ++transfer) {
    const auto first = size_t(transfers[transfer].collectives[0]);
    EXPECT_LE(time.exposed[transfer], time.commands[first].getUs() + 1e-9);
    exposed += time.exposed[transfer];
  }
  EXPECT_NEAR(exposed, time.exposedUs, 1e-9 * time.stepUs);
}

TEST(StepTime, queues_and_waits_are_kept) {
  for (const char *name : {"v100", "a100", "h100", "h200"}) {
    expectConsistent(plan::makeExample(), *layout::findMachine(name));
    expectConsistent(plan::makeGpuExample(), *layout::findMachine(name));
    expectConsistent(plan::makeExampleWithOverlap(),
                     *layout::findMachine(name));
  }
  expectConsistent(plan::makeExampleWithOverlap(), makeMachine(1e9, 1e-3));
}

TEST(StepTime, a_transfer_is_exposed_beyond_what_is_computed_meanwhile) {
  const exec::ExecutableT executable = plan::makeExampleWithOverlap();
  const plan::Plan plan(executable);
  const std::vector<plan::Transfer> transfers = plan::findTransfers(plan);
  ASSERT_EQ(transfers[0].beside.size(), 3u);
  const double first = double(transfers[0].payloadBytes);
  for (double rate : {1e3, 1e-2, 1e-3}) {
    const layout::Machine machine = makeMachine(1e9, rate);
    const plan::StepTime time(plan, transfers, machine);
    const auto &span = time.commands[size_t(transfers[0].collectives[0])];
    EXPECT_GT(span.getUs(), first / rate);
    // Three commands of a millisecond run beside it; o8 waits for the second
    // transfer, which begins when the first one ends.
    const double beside = 3 * 1000;
    const auto &second = time.commands[size_t(transfers[1].collectives[0])];
    const double expected = std::max(0.0, second.end - (span.start + beside));
    EXPECT_NEAR(time.exposed[0] + time.exposed[1], expected, 1e-6 * expected)
        << rate;
  }
}

/// A host of which a command takes a millisecond on one thread, whatever it
/// does, and a collective a millisecond of each device.
layout::MeasuredHost makeHost(int64_t workers) {
  layout::MeasuredHost host;
  for (const layout::MeasuredField &field : layout::getFields(host))
    *field.value = 1e12;
  for (double *us : {&host.matmul32.callUs, &host.matmul16.callUs,
                     &host.matmulBf16.callUs, &host.convolution.callUs})
    *us = 0;
  host.workers = workers;
  host.commandUs = host.collectiveUs = 1000;
  return host;
}

TEST(StepTime, workers_compute_nothing_beside_a_transfer) {
  const exec::ExecutableT executable = plan::makeExampleWithOverlap();
  const plan::Plan plan(executable);
  const std::vector<plan::Transfer> transfers = plan::findTransfers(plan);
  const auto devices = double(plan.mesh.getNumDevices());
  for (int64_t workers : {1, 3, 7}) {
    const layout::MeasuredMachine host(makeHost(workers));
    expectConsistent(executable, host.get());
    const plan::StepTime time(plan, transfers, host.get());
    size_t computing = 0;
    for (const plan::PlannedCommand &command : plan.commands)
      computing += command.collective == nullptr;
    EXPECT_NEAR(time.exposedUs,
                1000 * double(transfers.size()) * devices / double(workers),
                1e-3);
    EXPECT_NEAR(time.computeUs,
                1000 * double(computing) * std::ceil(devices / double(workers)),
                1e-3);
  }
}

TEST(StepTime, workers_share_no_command_that_cannot_be_cut) {
  exec::ExecutableT executable = plan::makeExample();
  for (const auto &command : executable.programs.front()->commands)
    if (exec::KernelT *kernel = command->action.AsKernel()) {
      kernel->extent = 1;
      command->flops = int64_t(1) << 40;
    }
  const plan::Plan plan(executable);
  const std::vector<plan::Transfer> transfers = plan::findTransfers(plan);
  const int64_t devices = plan.mesh.getNumDevices();
  const layout::MeasuredMachine few(makeHost(devices));
  const layout::MeasuredMachine many(makeHost(3 * devices));
  const plan::StepTime fewTime(plan, transfers, few.get());
  const plan::StepTime manyTime(plan, transfers, many.get());
  EXPECT_NEAR(manyTime.computeUs, fewTime.computeUs, 1e-3);
}

TEST(StepTime, what_is_empty_takes_no_time_of_workers) {
  exec::ExecutableT executable = plan::makeExample();
  const plan::Plan whole(executable);
  const layout::MeasuredMachine host(makeHost(2));
  const double before =
      plan::StepTime(whole, plan::findTransfers(whole), host.get()).computeUs;
  for (const auto &command : executable.programs.front()->commands)
    if (exec::KernelT *kernel = command->action.AsKernel())
      kernel->extent = 0;
  const plan::StepTime time(whole, plan::findTransfers(whole), host.get());
  EXPECT_LT(time.computeUs, before);
  EXPECT_GT(time.computeUs, 0);
}

TEST(StepTime, of_a_host_nothing_is_said_of_its_memory) {
  const layout::MeasuredMachine host(makeHost(3));
  const std::string text =
      plan::renderPlanText(plan::makeExample(), {.machine = &host.get()});
  EXPECT_THAT(text, HasSubstr("from measurements, not checked\n  a training "));
  const auto json = nlohmann::json::parse(plan::renderPlanJson(
      plan::makeExample(), [](std::string_view) { return std::nullopt; },
      {.machine = &host.get()}));
  EXPECT_FALSE(json["machine"].contains("memory_bytes"));
  EXPECT_FALSE(json["memory"].contains("limit_bytes"));
  EXPECT_GT(json["totals"]["step_us"].get<double>(), 0);
}

TEST(StepTime, costs_add_up_to_the_step) {
  const exec::ExecutableT executable = plan::makeExampleWithOverlap();
  const plan::Plan plan(executable);
  const std::vector<plan::Transfer> transfers = plan::findTransfers(plan);
  const layout::Machine machine = makeMachine(1e9, 1e-3);
  const plan::StepTime time(plan, transfers, machine);
  const std::vector<plan::StepCost> costs =
      plan::findCosts(plan, transfers, plan::EqualScopes(plan), time);
  double sum = 0;
  for (size_t index = 0; index < costs.size(); ++index) {
    sum += costs[index].us;
    if (index > 0)
      EXPECT_LE(costs[index].us, costs[index - 1].us);
  }
  EXPECT_NEAR(sum, time.stepUs, 1e-6 * sum);
  EXPECT_TRUE(costs[0].isWait);
}

TEST(Verdict, says_whether_it_fits_and_what_takes_longest) {
  const exec::ExecutableT executable = plan::makeGpuExample();
  const layout::Machine small = makeMachine(1 << 20, 1e-3);
  const std::string text =
      plan::renderPlanText(executable, {.machine = &small});
  EXPECT_THAT(text,
              HasSubstr("\npredicted for slow machine, from measurements, "
                        "not checked\n  does not fit: "));
  EXPECT_THAT(text, HasSubstr(" where each device has 1 MiB, "));
  EXPECT_THAT(text, HasSubstr("  a training step takes "));
  EXPECT_THAT(text,
              HasSubstr("  waiting for c2, all_reduce over data (tiny.mesh:"));
  const layout::Machine large = makeMachine(1e9, 1e-3);
  EXPECT_THAT(plan::renderPlanText(executable, {.machine = &large}),
              HasSubstr("  fits: "));
  EXPECT_THAT(plan::renderPlanText(executable, {}),
              testing::Not(HasSubstr("predicted")));
}

TEST(StepTime, what_a_machine_cannot_run_has_no_time) {
  using nlohmann::json;
  exec::ExecutableT executable = plan::makeGpuExample();
  const layout::Machine &v100 = *layout::findMachine("v100");
  EXPECT_THAT(plan::findUnpriced(plan::Plan(executable), v100),
              testing::IsEmpty());
  auto &product = *executable.programs[0]->commands[0];
  for (auto &operand : product.operands)
    operand->element = exec::ElementType::bf16;
  const plan::Plan plan(executable);
  EXPECT_THAT(plan::findUnpriced(plan, *layout::findMachine("a100")),
              testing::IsEmpty());
  const std::vector<int> unpriced = plan::findUnpriced(plan, v100);
  ASSERT_EQ(unpriced.size(), 1u);
  const plan::PlannedCommand &first = plan.commands[size_t(unpriced[0])];
  EXPECT_EQ(first.command, &product);

  const std::string text = plan::renderPlanText(executable, {.machine = &v100});
  EXPECT_THAT(text, HasSubstr("  no time: the machine has no matmuls of bf16, "
                              "which forward of " +
                              product.name + " is (tiny.mesh:"));
  EXPECT_THAT(text, testing::Not(HasSubstr("step takes")));
  const json written = json::parse(plan::renderPlanJson(
      executable, [](std::string_view) { return std::nullopt; },
      {.machine = &v100}));
  EXPECT_EQ(written["machine"]["cannot_run"], json::array({first.id}));
  EXPECT_FALSE(written["totals"].contains("step_us"));
}

TEST(PlanJson, times_are_there_with_a_machine) {
  using nlohmann::json;
  auto noSource = [](std::string_view) { return std::nullopt; };
  const layout::Machine machine = makeMachine(1e9, 1e-3);
  const json plan = json::parse(plan::renderPlanJson(
      plan::makeGpuExample(), noSource, {.machine = &machine}));
  EXPECT_EQ(plan["machine"]["name"], "slow");
  EXPECT_EQ(plan["machine"]["memory_bytes"], 1000000000);
  EXPECT_EQ(plan["machine"]["constants"][0]["made"], "measured");
  double compute = 0, exposed = 0;
  for (const json &op : plan["ops"]) {
    compute += op["time_us"].get<double>();
    EXPECT_EQ(op["bound"], "launch");
  }
  for (const json &transfer : plan["transfers"])
    exposed += transfer["exposed_us"].get<double>();
  const json &totals = plan["totals"];
  EXPECT_NEAR(totals["compute_us"].get<double>(), compute, 1e-6);
  EXPECT_NEAR(totals["exposed_us"].get<double>(), exposed, 1e-6);
  EXPECT_NEAR(totals["step_us"].get<double>(), compute + exposed, 1e-3);
}

} // namespace
