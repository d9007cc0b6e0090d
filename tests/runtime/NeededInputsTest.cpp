/// Inputs that outputs need, against the way from the inputs on.

#include "runtime/exec/NeededInputs.h"

#include "runtime/exec/CommandWaits.h"
#include "tests/runtime/ProgramBuilder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::ElementsAre;
using testing::IsEmpty;

namespace {

std::vector<std::string> getNames(const ProgramBuilder &builder,
                                  const std::vector<std::string> &outputs) {
  const exec::ExecutableT &data = const_cast<ProgramBuilder &>(builder).get();
  const exec::ProgramT &program = *data.programs.front();
  std::vector<const exec::PortT *> ports;
  for (const std::string &name : outputs)
    ports.push_back(findPort(program.outputs, name));
  std::vector<std::string> names;
  for (const exec::PortT *input : findNeededInputs(data, program, ports))
    names.push_back(input->name);
  return names;
}

constexpr exec::ElementType f32 = exec::ElementType::f32;

class NeededInputs : public testing::Test {
protected:
  NeededInputs() : builder({{"d", 1}}) { builder.beginProgram("eval"); }

  int addBuffer(const std::string &name, int64_t size = 4) {
    return builder.addBuffer(name, size * int64_t(sizeof(float)));
  }
  int addInput(const std::string &name) {
    const int buffer = addBuffer(name);
    builder.addInput(name, makeLayout(f32, {{"x", 4}}), buffer);
    return buffer;
  }
  void addOutput(const std::string &name, int buffer) {
    builder.addOutput(name, makeLayout(f32, {{"x", 4}}), buffer);
  }
  std::unique_ptr<exec::OperandT> view(int buffer) {
    return builder.view(buffer, f32, {4});
  }

  ProgramBuilder builder;
};

TEST_F(NeededInputs, of_a_chain_and_of_what_stands_beside_it) {
  const int image = addInput("image"), label = addInput("label");
  const int logits = addBuffer("logits"), loss = addBuffer("loss");
  builder.addKernel("a", 4, list(view(image), view(logits)), 1);
  builder.addKernel("b", 4, list(view(logits), view(label), view(loss)), 1);
  addOutput("logits", logits);
  addOutput("loss", loss);
  EXPECT_THAT(getNames(builder, {"logits"}), ElementsAre("image"));
  EXPECT_THAT(getNames(builder, {"loss"}), ElementsAre("image", "label"));
  EXPECT_THAT(getNames(builder, {}), IsEmpty());
}

TEST_F(NeededInputs, memory_that_is_used_again_is_another_value) {
  const int image = addInput("image"), label = addInput("label");
  const int logits = addBuffer("logits"), weighed = addBuffer("weighed");
  builder.addKernel("a", 4, list(view(label), view(logits)), 1);
  builder.addKernel("b", 4, list(view(logits), view(weighed)), 1);
  builder.addCopy(view(image), view(logits));
  addOutput("logits", logits);
  addOutput("weighed", weighed);
  EXPECT_THAT(getNames(builder, {"logits"}), ElementsAre("image"));
  EXPECT_THAT(getNames(builder, {"weighed"}), ElementsAre("label"));
}

TEST_F(NeededInputs, what_is_added_to_counts) {
  const int a = addInput("a"), b = addInput("b"), c = addInput("c");
  const int sum = addBuffer("sum");
  builder.addCopy(view(c), view(sum));
  exec::MatmulT matmul;
  matmul.m = matmul.n = 2;
  matmul.k = 2;
  matmul.accumulate = true;
  builder.addMatmul(matmul, list(view(a), view(b), view(sum)));
  addOutput("sum", sum);
  EXPECT_THAT(getNames(builder, {"sum"}), ElementsAre("a", "b", "c"));
}

TEST_F(NeededInputs, gaps_of_a_result_stay) {
  const int a = addInput("a"), b = addInput("b");
  const int both = addBuffer("both");
  builder.addCopy(view(b), view(both));
  builder.addCopy(builder.view(a, f32, {2}), builder.view(both, f32, {2}, {2}));
  addOutput("both", both);
  EXPECT_THAT(getNames(builder, {"both"}), ElementsAre("a", "b"));
}

/// Which bytes of the arena depend on an input, from the first command to the
/// last.
bool depends(const exec::ExecutableT &data, const exec::ProgramT &program,
             const exec::PortT &input, const exec::PortT &output) {
  std::vector<bool> isReached(1 << 12);
  auto visit = [&](const MemoryAccess &range, auto what) {
    for (uint64_t i = range.begin; i < range.end; ++i)
      what(i);
  };
  auto getBytes = [&](int buffer) {
    const exec::BufferT &found = *data.buffers[size_t(buffer)];
    return MemoryAccess{found.offset, found.offset + found.bytes, false};
  };
  auto isAnyReached = [&](const MemoryAccess &range) {
    bool any = false;
    visit(range, [&](uint64_t i) { any |= isReached[i]; });
    return any;
  };
  visit(getBytes(input.buffer), [&](uint64_t i) { isReached[i] = true; });
  for (const auto &command : program.commands) {
    const size_t reads = command->operands.size() - size_t(command->results);
    bool any = false;
    for (size_t i = 0; i < reads; ++i)
      any |= isAnyReached(getAccess(data, *command->operands[i]));
    for (size_t i = reads; i < command->operands.size(); ++i)
      visit(getAccess(data, *command->operands[i]),
            [&](uint64_t byte) { isReached[byte] = any; });
  }
  return isAnyReached(getBytes(output.buffer));
}

TEST(NeededInputsOfRandomPrograms, are_those_that_reach_an_output) {
  std::mt19937 random(1);
  auto draw = [&](int64_t count) {
    return int64_t(random() % uint64_t(count));
  };
  int64_t numNeeded = 0, numOthers = 0;
  for (int round = 0; round < 300; ++round) {
    ProgramBuilder builder({{"d", 1}});
    builder.beginProgram("eval");
    std::vector<int> buffers;
    const int64_t count = 3 + draw(8);
    for (int64_t i = 0; i < count; ++i)
      buffers.push_back(builder.addBuffer("b" + std::to_string(i), 6 * 4));
    const exec::TensorLayoutT layout = makeLayout(f32, {{"x", 6}});
    const int64_t inputs = 1 + draw(count - 1);
    for (int64_t i = 0; i < inputs; ++i)
      builder.addInput("i" + std::to_string(i), layout, buffers[size_t(i)]);
    auto view = [&] {
      const int64_t first = draw(6);
      return builder.view(buffers[size_t(draw(count))], f32,
                          {1 + draw(6 - first)}, {}, uint64_t(first * 4));
    };
    for (int64_t i = draw(20); i-- > 0;)
      builder.addKernel("k", 1, list(view(), view(), view(), view()),
                        int(1 + draw(2)));
    for (int64_t i = 0; i < count; ++i)
      builder.addOutput("o" + std::to_string(i), layout, buffers[size_t(i)]);
    const exec::ExecutableT &data = builder.get();
    const exec::ProgramT &program = *data.programs.front();
    for (const auto &output : program.outputs) {
      const exec::PortT *asked[] = {output.get()};
      const auto found = findNeededInputs(data, program, asked);
      for (const auto &input : program.inputs) {
        const bool isNeeded = depends(data, program, *input, *output);
        (isNeeded ? numNeeded : numOthers) += 1;
        ASSERT_EQ(std::find(found.begin(), found.end(), input.get()) !=
                      found.end(),
                  isNeeded)
            << "round " << round << ": " << input->name << " of "
            << output->name;
      }
    }
  }
  // Both happen.
  EXPECT_GT(numNeeded, 1000);
  EXPECT_GT(numOthers, 1000);
}

} // namespace
