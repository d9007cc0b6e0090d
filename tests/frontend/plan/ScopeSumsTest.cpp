// What calls and loops take of a step, added up.

#include "ExampleExecutable.h"
#include "Origins.h"

#include "frontend/plan/ScopeSums.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <optional>

using namespace meshc;
using plan::MemoryCategory;
using Part = plan::ScopeSums::Part;

namespace {

/// Names the values of the example: its tensors and commands, gradients too.
void rename(exec::ExecutableT &executable, const std::string &from,
            const std::string &to) {
  for (const std::string lead : {"", "gradient of "}) {
    for (const auto &tensor : executable.tensors)
      if (tensor->name == lead + from)
        plan::setName(executable, *tensor, lead + to);
    for (const auto &command : executable.programs[0]->commands)
      if (command->name == lead + from)
        command->origin = plan::makeOrigin(executable, lead + to);
  }
}

/// y is what the call attn gives, and w a parameter in it.
exec::ExecutableT makeCall(exec::ExecutableT executable,
                           const std::string &call) {
  rename(executable, "w", call + "/w");
  rename(executable, "y", call);
  return executable;
}

struct Sums {
  explicit Sums(const exec::ExecutableT &executable,
                const layout::Machine *machine = nullptr)
      : plan(executable), transfers(plan::findTransfers(plan)), gpu(plan),
        scopes(plan) {
    if (machine)
      time.emplace(plan, transfers, *machine);
    sums.emplace(plan, scopes, transfers, plan::MemoryUse(plan, gpu),
                 time ? &*time : nullptr);
  }

  const Part *find(const std::string &name) const {
    for (const Part &part : sums->parts)
      if (part.name == name)
        return &part;
    return nullptr;
  }

  plan::Plan plan;
  std::vector<plan::Transfer> transfers;
  plan::GpuUse gpu;
  plan::EqualScopes scopes;
  std::optional<plan::StepTime> time;
  std::optional<plan::ScopeSums> sums;
};

int64_t getBytes(const plan::ScopeSums::Amounts &amounts,
                 MemoryCategory category) {
  return amounts.bytes[size_t(category)];
}

void expectExact(const Sums &all) {
  std::vector<plan::ScopeSums::Amounts> within;
  for (const Part &part : all.sums->parts)
    within.push_back(part.own);
  for (size_t index = within.size(); index-- > 1;)
    within[size_t(all.sums->parts[index].parent)] += within[index];
  for (size_t index = 0; index < within.size(); ++index) {
    const plan::ScopeSums::Amounts &whole = all.sums->parts[index].whole;
    EXPECT_EQ(within[index].flops, whole.flops);
    EXPECT_EQ(within[index].wireBytes, whole.wireBytes);
    EXPECT_EQ(within[index].computeNs, whole.computeNs);
    EXPECT_EQ(within[index].exposedNs, whole.exposedNs);
    EXPECT_EQ(within[index].bytes, whole.bytes);
  }
}

} // namespace

TEST(ScopeSums, a_call_has_its_result_its_parameters_and_their_gradients) {
  const exec::ExecutableT executable = makeCall(plan::makeExample(), "attn");
  const Sums all(executable);
  expectExact(all);
  const Part &model = all.sums->parts[0], *attn = all.find("attn");
  ASSERT_NE(attn, nullptr);
  EXPECT_EQ(attn->parent, 0);
  EXPECT_EQ(attn->count, 1);
  // y, the gradient of w and the update; the product and the loss are of none,
  // and so is the gradient of y, their backward pass.
  EXPECT_EQ(attn->whole.flops, 90 + 90 + 31);
  EXPECT_EQ(model.own.flops, 18 + 3 + 9);
  EXPECT_EQ(attn->whole.wireBytes, 60);
  EXPECT_EQ(model.whole.wireBytes, 76);
  // At the peak w and both gradients are alive.
  EXPECT_EQ(getBytes(attn->whole, MemoryCategory::Params), 60);
  EXPECT_EQ(getBytes(attn->whole, MemoryCategory::Gradients), 96);
  EXPECT_EQ(attn->whole.getBytes(), 156);
  EXPECT_EQ(model.whole.getBytes(), 512);
  EXPECT_EQ(getBytes(model.own, MemoryCategory::Workspace), 512 - 232);
}

TEST(ScopeSums, iterations_are_one_part) {
  exec::ExecutableT executable = plan::makeExample();
  rename(executable, "w", "layer/block/w");
  rename(executable, "y", "layer/0/block/y");
  rename(executable, "loss", "layer/1/block/h");
  const Sums all(executable);
  expectExact(all);
  const Part *layer = all.find("layer"), *block = all.find("layer/block");
  ASSERT_TRUE(layer && block);
  // What all iterations share is in none of them.
  EXPECT_EQ(layer->count, 2);
  EXPECT_EQ(block->count, 2);
  EXPECT_EQ(&all.sums->parts[size_t(block->parent)], layer);
  EXPECT_EQ(block->whole.flops, all.sums->parts[0].whole.flops);
  EXPECT_EQ(layer->own.flops, 0);
}

TEST(ScopeSums, times_add_up_to_whole_nanoseconds) {
  const layout::Machine *machine = layout::findMachine("h100");
  ASSERT_NE(machine, nullptr);
  const exec::ExecutableT executable =
      makeCall(plan::makeExampleWithOverlap(), "attn");
  const Sums all(executable, machine);
  expectExact(all);
  const Part &model = all.sums->parts[0], *attn = all.find("attn");
  ASSERT_NE(attn, nullptr);
  EXPECT_EQ(model.whole.computeNs, std::llround(1e3 * all.time->computeUs));
  EXPECT_EQ(model.whole.exposedNs, std::llround(1e3 * all.time->exposedUs));
  double attention = 0;
  for (size_t command : {0, 5, 8})
    attention += all.time->commands[command].getUs();
  EXPECT_NEAR(double(attn->whole.computeNs), 1e3 * attention, 1);
  // c2 and c3 go together, and have parts of the time by what they send.
  EXPECT_GT(attn->whole.exposedNs, 0);
  EXPECT_LT(attn->whole.exposedNs, model.whole.exposedNs);
}
