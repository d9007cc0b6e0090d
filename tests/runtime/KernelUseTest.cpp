/// Commands that give kernels other than what these were generated for.

#include "runtime/exec/KernelUse.h"

#include "runtime/cpu/Executor.h"
#include "tests/runtime/LinearModel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::HasSubstr;

namespace {

exec::ExecutableT makeSound() {
  exec::ExecutableT data;
  std::vector<uint8_t> bytes = LinearModel::makeProgram(2);
  exec::GetExecutable(bytes.data())->UnPackTo(&data);
  return data;
}

/// What a kernel was generated for, which only the table of kernels knows.
TEST(KernelUseTest, commands_are_what_their_kernels_were_made_for) {
  const meshcOperandUse uses[] = {{24, 64}, {24, 64}, {24, 64}};
  std::vector<meshcKernelEntry> kernels(LinearModel::getKernels().begin(),
                                        LinearModel::getKernels().end());
  for (meshcKernelEntry &kernel : kernels)
    if (std::string(kernel.name) == "subtract")
      kernel = {kernel.name, kernel.function, 6, 3, uses};
  auto expect = [&](const std::string &message, auto &&inflict) {
    exec::ExecutableT data = makeSound();
    inflict(data, *data.programs[1]->commands[1]);
    Result<Executable> executable = Executable::create(std::move(data));
    ASSERT_TRUE(executable) << executable.getError().message;
    auto executor = Executor::create(*executable, kernels, 1);
    if (message.empty()) {
      EXPECT_TRUE(executor) << executor.getError().message;
      return;
    }
    ASSERT_FALSE(executor) << message;
    EXPECT_EQ(executor.getError().code, ErrorCode::DamagedProgram);
    EXPECT_THAT(executor.getError().message,
                HasSubstr("gives kernel 'subtract' " + message));
  };
  expect("", [](auto &, auto &) {});
  expect("extent 7, expected 6", [](auto &, exec::CommandT &command) {
    command.action.AsKernel()->extent = 7;
  });
  expect("2 operands, expected 3",
         [](auto &, exec::CommandT &command) { command.operands.pop_back(); });
  // Of a kernel for GPUs, or for other ones.
  expect("0 launches, expected 1", [&](auto &, auto &) {
    for (meshcKernelEntry &kernel : kernels)
      if (kernel.operands)
        kernel.numLaunches = 1;
  });
  for (meshcKernelEntry &kernel : kernels)
    kernel.numLaunches = 0;
  // Another operand, in shape and place, that the program is sound with.
  expect("4 bytes for operand 1, expected 24",
         [](auto &, exec::CommandT &command) {
           exec::OperandT &operand = *command.operands[1];
           operand.shape = {1};
           operand.offset = 20;
         });
  expect("operand 0 at byte", [](auto &data, exec::CommandT &command) {
    exec::OperandT &operand = *command.operands[0];
    operand.offset = 4;
    data.buffers[size_t(operand.buffer)]->bytes += 4;
  });
}

TEST(KernelUseTest, launches_are_those_of_the_kernel) {
  const meshcOperandUse uses[] = {{24, 64}, {24, 64}, {24, 64}};
  const meshcLaunchUse launches[] = {{"rows", 5, 64, 32}};
  const meshcKernelEntry entry = {"subtract", nullptr, 6, 3, uses, 1, launches};
  const KernelUse use({&entry, 1});
  auto find = [&](auto &&inflict) {
    exec::ExecutableT data = makeSound();
    data.target = exec::Target::cuda;
    exec::CommandT &command = *data.programs[1]->commands[1];
    auto launch = std::make_unique<exec::LaunchT>();
    launch->symbol = "rows";
    launch->grid = 5;
    launch->block = 64;
    launch->shared_bytes = 32;
    command.action.AsKernel()->launches.push_back(std::move(launch));
    inflict(data, *command.action.AsKernel());
    auto found = use.find(data, *data.programs[1], command);
    return found ? std::string() : found.getError().message;
  };
  EXPECT_EQ(find([](auto &, auto &) {}), "");
  EXPECT_THAT(find([](auto &, auto &kernel) { kernel.launches.clear(); }),
              HasSubstr("gives kernel 'subtract' 0 launches, expected 1"));
  EXPECT_THAT(find([](auto &, auto &kernel) { kernel.extent = 5; }),
              HasSubstr("extent 5, expected 6"));
  EXPECT_THAT(find([](auto &, auto &kernel) { kernel.symbol = "other"; }),
              HasSubstr("it has no kernel 'other'"));
  EXPECT_THAT(
      find([](auto &, auto &kernel) { kernel.launches[0]->grid = 6; }),
      HasSubstr("a launch of 'rows', 6 blocks of 64 threads and 32 bytes of "
                "shared memory, expected 'rows', 5, 64, 32"));
  EXPECT_THAT(
      find([](auto &, auto &kernel) { kernel.launches[0]->block = 65; }),
      HasSubstr("5 blocks of 65 threads"));
  EXPECT_THAT(
      find([](auto &, auto &kernel) { kernel.launches[0]->shared_bytes = 8; }),
      HasSubstr("64 threads and 8 bytes"));
  EXPECT_THAT(
      find([](auto &, auto &kernel) { kernel.launches[0]->symbol = "sums"; }),
      HasSubstr("a launch of 'sums'"));
  // One without code cannot run on CPUs.
  EXPECT_THAT(find([](auto &data, auto &kernel) {
                data.target = exec::Target::cpu;
                kernel.launches.clear();
              }),
              HasSubstr("it has no kernel 'subtract'"));
}

/// How many values a kernel has only says something, but is a number.
TEST(KernelUseTest, a_kernel_does_not_compute_fewer_values_than_none) {
  exec::ExecutableT data = makeSound();
  exec::KernelT &kernel = *data.programs[1]->commands[1]->action.AsKernel();
  kernel.fused = 3;
  EXPECT_EQ(checkExecutable(data), "");
  kernel.fused = -1;
  EXPECT_THAT(checkExecutable(data),
              HasSubstr("its kernel computes -1 values"));
}

} // namespace
