// Which values and commands of calls and iterations stand for one another, and
// what lies in other values.

#include "frontend/plan/EqualScopes.h"
#include "Origins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace meshc;
using testing::ElementsAre;

namespace {

/// An executable of one program, "step", without a mesh.
class ProgramText {
public:
  ProgramText() {
    executable.mesh = std::make_unique<exec::MeshT>();
    auto program = std::make_unique<exec::ProgramT>();
    program->name = "step";
    executable.programs.push_back(std::move(program));
  }

  int addTensor(const std::string &name, int64_t size = 4,
                exec::BufferRole role = exec::BufferRole::activation) {
    auto tensor = std::make_unique<exec::TensorT>();
    tensor->name = name;
    tensor->origin = plan::makeOrigin(executable, name);
    tensor->role = role;
    tensor->layout = std::make_unique<exec::TensorLayoutT>();
    auto dim = std::make_unique<exec::DimShardingT>();
    dim->name = "n";
    dim->size = size;
    tensor->layout->dims.push_back(std::move(dim));
    tensor->bytes_global = tensor->bytes_per_device = 4 * size;
    executable.tensors.push_back(std::move(tensor));
    return int(executable.tensors.size()) - 1;
  }

  int addBuffer(uint64_t bytes) {
    auto buffer = std::make_unique<exec::BufferT>();
    buffer->bytes = bytes;
    executable.buffers.push_back(std::move(buffer));
    return int(executable.buffers.size()) - 1;
  }

  static std::unique_ptr<exec::OperandT> at(int buffer, uint64_t offset,
                                            int64_t size, int tensor) {
    auto operand = std::make_unique<exec::OperandT>();
    operand->buffer = buffer;
    operand->offset = offset;
    operand->element = exec::ElementType::f32;
    operand->shape = {size};
    operand->strides = {1};
    operand->tensor = tensor;
    return operand;
  }

  /// A kernel whose last operand is written.
  template <class... Operands>
  void addKernel(const std::string &name, Operands... operands) {
    auto command = std::make_unique<exec::CommandT>();
    command->name = name;
    command->origin = plan::makeOrigin(executable, name);
    command->action.Set(exec::KernelT());
    (command->operands.push_back(std::move(operands)), ...);
    command->results = command->operands.empty() ? 0 : 1;
    executable.programs[0]->commands.push_back(std::move(command));
  }

  exec::ExecutableT executable;
};

TEST(EqualScopes, iterations_stand_for_one_another) {
  ProgramText text;
  for (const char *name :
       {"x", "layer/0/h", "layer/0/y", "layer/1/h", "layer/1/y", "layer/2/h",
        "layer/2/y", "gradient of layer/2/h", "gradient of layer/1/h"})
    text.addTensor(name);
  for (const char *name : {"layer/0/h", "layer/1/h", "layer/1/h", "layer/2/h",
                           "layer/2/h", "loss"})
    text.addKernel(name);
  const plan::Plan plan(text.executable);
  const plan::EqualScopes equal(plan);
  ASSERT_EQ(equal.scopes.size(), 3u);
  EXPECT_EQ(equal.scopes[1].name, "layer/1");
  EXPECT_THAT(equal.tensorScopes, ElementsAre(-1, 0, 0, 1, 1, 2, 2, 2, 1));
  // The first iteration has no gradient of h, which is a third less than the
  // others have, so these are alike among themselves.
  EXPECT_EQ(equal.scopes[0].model, 0);
  EXPECT_EQ(equal.scopes[1].model, 1);
  EXPECT_EQ(equal.scopes[2].model, 1);
  EXPECT_THAT(equal.tensorFolds, ElementsAre(0, 1, 2, 3, 4, 3, 4, 7, 7));
  // The second of a scope is the second of the other.
  EXPECT_THAT(equal.commandFolds, ElementsAre(0, 1, 2, 1, 2, 5));
}

TEST(EqualScopes, what_is_fused_with_a_command_is_not_compared) {
  ProgramText text;
  int64_t flops = 7;
  for (const char *name : {"b1/h", "b2/h", "b3/h"}) {
    text.addTensor(name);
    text.addKernel(name);
    text.executable.programs[0]->commands.back()->flops = flops++;
  }
  // A product is no kernel.
  text.executable.programs[0]->commands[1]->action.Set(exec::MatmulT());
  const plan::Plan plan(text.executable);
  EXPECT_THAT(plan::EqualScopes(plan).commandFolds, ElementsAre(0, 1, 0));
}

TEST(EqualScopes, what_is_sent_with_a_collective_is_not_compared) {
  ProgramText text;
  for (const char *name : {"b1/h", "b2/h", "b3/h"}) {
    const int tensor = text.addTensor(name);
    text.addKernel(name, ProgramText::at(text.addBuffer(16), 0, 4, tensor));
    exec::CommandT &command = *text.executable.programs[0]->commands.back();
    command.action.Set(exec::CollectiveT());
    exec::CollectiveT &collective = *command.action.AsCollective();
    collective.id = "c" + std::to_string(tensor);
    collective.payload_bytes = 16;
    command.bytes = 100 * tensor;
  }
  const plan::Plan plan(text.executable);
  EXPECT_THAT(plan::EqualScopes(plan).commandFolds, ElementsAre(0, 0, 0));
  text.executable.programs[0]
      ->commands[1]
      ->action.AsCollective()
      ->payload_bytes = 20;
  EXPECT_THAT(plan::EqualScopes(plan).commandFolds, ElementsAre(0, 1, 0));
}

TEST(EqualScopes, what_one_call_has_more_is_its_own) {
  ProgramText text;
  for (const char *scope : {"b1", "b2"})
    for (const char *name : {"/g", "/h", "/i", "/j"})
      text.addTensor(scope + std::string(name));
  text.addTensor("b2/more");
  const plan::Plan plan(text.executable);
  const plan::EqualScopes equal(plan);
  EXPECT_EQ(equal.scopes[1].model, 0);
  EXPECT_THAT(equal.tensorFolds, ElementsAre(0, 1, 2, 3, 0, 1, 2, 3, 8));
}

TEST(EqualScopes, other_sizes_are_not_equal) {
  ProgramText text;
  text.addTensor("b1/g");
  text.addTensor("b1/h");
  text.addTensor("b2/g", 5);
  text.addTensor("b2/h", 5);
  const plan::Plan plan(text.executable);
  const plan::EqualScopes equal(plan);
  EXPECT_EQ(equal.scopes[1].model, 1);
  EXPECT_THAT(equal.tensorFolds, ElementsAre(0, 1, 2, 3));
}

TEST(EqualScopes, loops_in_calls_are_alike_iteration_by_iteration) {
  ProgramText text;
  // rnn1 and rnn2 are alike, and so are the steps of each; what is called like
  // a number is no iteration, nor are calls in calls compared.
  for (const char *name :
       {"rnn1/u", "rnn1/v", "rnn1/w", "rnn1/time/0/g", "rnn1/time/0/h",
        "rnn1/time/1/g", "rnn1/time/1/h", "rnn2/u", "rnn2/v", "rnn2/w",
        "rnn2/time/0/g", "rnn2/time/0/h", "rnn2/time/1/g", "rnn2/time/1/h",
        "b/norm1/h", "b/norm2/h", "gradient of rnn2/time/1/h",
        "gradient of rnn1/time/0/h"})
    text.addTensor(name);
  const plan::Plan plan(text.executable);
  const plan::EqualScopes equal(plan);
  std::vector<std::string> names;
  std::vector<int> models, parents;
  std::vector<int64_t> iterations;
  for (const plan::EqualScopes::Scope &scope : equal.scopes) {
    names.push_back(scope.name);
    models.push_back(scope.model);
    parents.push_back(scope.parent);
    iterations.push_back(scope.iteration);
  }
  EXPECT_THAT(names, ElementsAre("rnn1", "rnn1/time/0", "rnn1/time/1", "rnn2",
                                 "rnn2/time/0", "rnn2/time/1", "b"));
  EXPECT_THAT(parents, ElementsAre(-1, 0, 0, -1, 3, 3, -1));
  EXPECT_THAT(iterations, ElementsAre(-1, 0, 1, -1, 0, 1, -1));
  EXPECT_THAT(equal.tensorScopes, ElementsAre(0, 0, 0, 1, 1, 2, 2, 3, 3, 3, 4,
                                              4, 5, 5, 6, 6, 5, 1));
  // Each call has a gradient that the other one has not, of eight values; of
  // two, those of a step, that is too much.
  EXPECT_THAT(models, ElementsAre(0, 1, 2, 0, 1, 2, 6));
  EXPECT_THAT(equal.tensorFolds, ElementsAre(0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4,
                                             5, 6, 14, 15, 16, 17));
}

TEST(EqualScopes, a_loop_in_a_call_is_one_iteration) {
  ProgramText text;
  for (const char *name :
       {"rnn/w", "rnn/time/0/h", "rnn/time/1/h", "rnn/time/2/h",
        "gradient of rnn/time/2/h", "gradient of rnn/time/1/h",
        "gradient of rnn/time/0/h"})
    text.addTensor(name);
  const plan::Plan plan(text.executable);
  EXPECT_THAT(plan::EqualScopes(plan).tensorFolds,
              ElementsAre(0, 1, 1, 1, 4, 4, 4));
}

TEST(Plan, parts_of_a_buffer_are_followed_by_their_place) {
  ProgramText text;
  const int buffer = text.addBuffer(32), other = text.addBuffer(16);
  const int first = text.addTensor("first"), second = text.addTensor("second"),
            whole = text.addTensor("whole", 8), part = text.addTensor("part");
  using T = ProgramText;
  text.addKernel("first", T::at(buffer, 0, 4, first));
  text.addKernel("second", T::at(buffer, 16, 4, second));
  text.addKernel("sum", T::at(buffer, 0, 4, first),
                 T::at(buffer, 16, 4, second), T::at(other, 0, 4, -1));
  text.addKernel("whole", T::at(other, 0, 4, -1), T::at(buffer, 0, 8, whole));
  text.addKernel("read", T::at(buffer, 16, 4, part), T::at(other, 0, 4, -1));
  const plan::Plan plan(text.executable);
  EXPECT_EQ(plan.commands[2].inputs[0].tensor, first);
  EXPECT_EQ(plan.commands[2].inputs[1].tensor, second);
  EXPECT_EQ(plan.commands[4].inputs[0].tensor, whole);
  EXPECT_FALSE(plan.isStored(part));
  EXPECT_EQ(plan.getWhole(part), whole);
  EXPECT_EQ(plan.getWhole(first), -1);
}

} // namespace
