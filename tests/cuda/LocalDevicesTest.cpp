/// Several logical devices on one emulated GPU against the CPU executor: the
/// same bits, whatever order the driver chooses.

#include "runtime/cpu/Executor.h"
#include "runtime/cuda/CudaDevices.h"
#include "tests/cuda/CudaTesting.h"
#include "tests/cuda/ImageKernels.h"
#include "tests/cuda/RandomProgram.h"
#include "tests/runtime/LinearModel.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::AllOf;
using testing::HasSubstr;

namespace {

cuda::CudaOptions getOptions(int64_t devices, bool usesGraphs = true) {
  cuda::CudaOptions options;
  options.devicesPerGpu = devices;
  options.usesGraphs = usesGraphs;
  return options;
}

/// Compares runs of an executable on the CPU and on one GPU.
std::string compareWithCpu(const Executable &executable, bool usesGraphs,
                           int runs = 4) {
  Result<std::unique_ptr<Executor>> cpu =
      Executor::create(executable, getRandomKernels(), 1);
  if (!cpu)
    return cpu.getError().message;
  Result<std::unique_ptr<cuda::CudaDevices>> gpu = cuda::CudaDevices::create(
      executable, getOptions(executable.getNumDevices(), usesGraphs));
  if (!gpu)
    return gpu.getError().message;
  return compareRuns(**cpu, **gpu, runs);
}

using Axes = std::vector<std::pair<std::string, int64_t>>;

const Axes meshes[] = {{{"x", 1}},           {{"x", 2}},
                       {{"x", 3}},           {{"x", 2}, {"y", 2}},
                       {{"x", 2}, {"y", 3}}, {{"x", 4}, {"y", 2}}};

class LocalDevicesTest : public testing::TestWithParam<int> {};

TEST_P(LocalDevicesTest, computes_what_the_cpu_computes) {
  const int seed = GetParam();
  for (const Axes &axes : meshes) {
    RandomOptions options;
    options.axes = axes;
    const Executable executable = makeRandomProgram(uint64_t(seed), options);
    for (bool usesGraphs : {false, true})
      EXPECT_EQ(
          runEmulated({{"SEED", std::to_string(seed)}},
                      [&] { return compareWithCpu(executable, usesGraphs); }),
          "")
          << "mesh of " << executable.getNumDevices() << " devices, graphs "
          << usesGraphs;
  }
}

/// Extremes over devices and zeros outside of a dimension in one collective.
TEST_P(LocalDevicesTest, computes_windows_that_the_cpu_computes) {
  RandomOptions options;
  options.axes = meshes[3 + GetParam() % 3];
  options.commands = 12;
  options.hasWindows = true;
  const Executable executable =
      makeRandomProgram(uint64_t(GetParam()), options);
  EXPECT_EQ(runEmulated({}, [&] { return compareWithCpu(executable, true); }),
            "");
}

INSTANTIATE_TEST_SUITE_P(Seeds, LocalDevicesTest, testing::Range(0, 6));

TEST(LocalDevicesFaultTest, a_wait_that_is_left_out_is_found) {
  // Of all waits, some are needed: without them values are wrong under some
  // order of execution.
  RandomOptions options;
  options.axes = {{"x", 2}, {"y", 2}};
  options.commands = 16;
  options.hasProducts = false;
  const Executable executable = makeRandomProgram(5, options);
  int found = 0;
  for (int wait = 1; wait <= 40; ++wait)
    found += runEmulated({{"SEED", std::to_string(wait)},
                          {"DROP_WAIT", std::to_string(wait)}},
                         [&] { return compareWithCpu(executable, false, 1); })
                 .find("expected") != std::string::npos;
  EXPECT_GT(found, 3);
}

TEST(LocalDevicesFaultTest, an_offset_that_is_wrong_is_found) {
  RandomOptions options;
  options.axes = {{"x", 2}};
  options.commands = 16;
  options.hasCollectives = options.hasProducts = false;
  const Executable executable = makeRandomProgram(3, options);
  int found = 0;
  for (int launch = 1; launch <= 6; ++launch)
    found += runEmulated({{"SHIFT_OFFSET", std::to_string(launch)}}, [&] {
               return compareWithCpu(executable, false, 1);
             }) != "";
  EXPECT_GE(found, 2);
}

TEST(LocalDevicesFaultTest, reports_a_kernel_that_strays) {
  ProgramBuilder builder({{"x", 1}});
  const int buffer = builder.addBuffer("b", mixElements * 4);
  builder.beginProgram("p");
  builder.addKernel("stray", 1,
                    list(builder.view(buffer, exec::ElementType::f32, {4})), 1);
  addHostImage(builder.get());
  const Executable executable = builder.finish();
  EXPECT_THAT(
      runEmulated({}, [&] { return compareWithCpu(executable, true, 1); }),
      HasSubstr("in program 'p'"));
}

TEST(LocalDevicesFaultTest, names_a_kernel_that_strays_where_it_is_waited_for) {
  ProgramBuilder builder({{"x", 2}});
  const int buffer = builder.addBuffer("b", mixElements * 4);
  auto view = [&](int64_t size) {
    return builder.view(buffer, exec::ElementType::f32, {size});
  };
  builder.beginProgram("p");
  builder.addKernel("reverse", 832, list(view(mixElements), view(mixElements)),
                    1);
  builder.addKernel("stray", 1, list(view(4)), 1).name = "h = stray(x)";
  builder.addKernel("reverse", 832, list(view(mixElements), view(mixElements)),
                    1);
  addHostImage(builder.get());
  const Executable executable = builder.finish();
  cuda::CudaOptions options = getOptions(2);
  options.checksCommands = true;
  const std::string text = runEmulated({}, [&]() -> std::string {
    Result<std::unique_ptr<cuda::CudaDevices>> gpu =
        cuda::CudaDevices::create(executable, options);
    if (!gpu)
      return gpu.getError().message;
    Status ran = (*gpu)->run(*executable.data.programs[0]);
    return ran ? "it ran" : ran.getError().message;
  });
  EXPECT_THAT(text, HasSubstr("in command 'h = stray(x)' of program 'p'"));
}

TEST(LocalDevicesFaultTest, names_the_command_whose_call_fails) {
  ProgramBuilder builder({{"x", 1}});
  const int buffer = builder.addBuffer("b", mixElements * 4);
  builder.get().files = {"model.mesh"};
  builder.beginProgram("p");
  exec::CommandT &command = builder.addKernel(
      "reverse", 832,
      list(builder.view(buffer, exec::ElementType::f32, {mixElements}),
           builder.view(buffer, exec::ElementType::f32, {mixElements})),
      1);
  command.name = "h = relu(x)";
  command.span = std::make_unique<exec::Span>(0, 7, 3, 7, 10);
  addHostImage(builder.get());
  const Executable executable = builder.finish();
  // 701: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES.
  const std::string text =
      runEmulated({{"FAIL", "cuLaunchKernel:1:701"}}, [&]() -> std::string {
        Result<std::unique_ptr<cuda::CudaDevices>> gpu =
            cuda::CudaDevices::create(executable, getOptions(1));
        if (!gpu)
          return gpu.getError().message;
        Status ran = (*gpu)->run(*executable.data.programs[0]);
        if (ran)
          return "it ran";
        EXPECT_EQ(ran.getError().code, ErrorCode::GpuCallFailed);
        return ran.getError().message + "; " + ran.getError().note;
      });
  EXPECT_THAT(text, HasSubstr("cuLaunchKernel failed: "));
  EXPECT_THAT(text, HasSubstr("(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)"));
  EXPECT_THAT(text,
              HasSubstr("in command 'h = relu(x)' of program 'p'; it computes "
                        "model.mesh:7:3"));
}

TEST(LocalDevicesFaultTest, reports_a_graph_that_fails) {
  const Executable executable = makeRandomProgram(2, RandomOptions());
  for (const char *function : {"cuStreamBeginCapture", "cuStreamEndCapture",
                               "cuGraphInstantiateWithFlags", "cuGraphLaunch"})
    // 719: CUDA_ERROR_LAUNCH_FAILED.
    EXPECT_THAT(
        runEmulated({{"FAIL", std::string(function) + ":1:719"}},
                    [&] { return compareWithCpu(executable, true, 2); }),
        AllOf(HasSubstr(std::string("406: ") + function),
              HasSubstr("(CUDA_ERROR_LAUNCH_FAILED), in the graph of program "
                        "'p'")));
}

TEST(LocalDevicesProfileTest, times_commands) {
  RandomOptions options;
  options.axes = {{"x", 2}};
  options.hasProducts = false;
  const Executable executable = makeRandomProgram(1, options);
  EXPECT_EQ(runEmulated(
                {},
                [&]() -> std::string {
                  Result<std::unique_ptr<cuda::CudaDevices>> gpu =
                      cuda::CudaDevices::create(executable, getOptions(2));
                  if (!gpu)
                    return gpu.getError().message;
                  (*gpu)->resetProfile(true);
                  for (int run = 0; run < 2; ++run)
                    if (Status ran = (*gpu)->run(*executable.data.programs[0]);
                        !ran)
                      return ran.getError().message;
                  const Profile profile = (*gpu)->getProfile();
                  return fmt::format("{} runs, time {}", profile.runs,
                                     profile.wallSeconds > 0);
                }),
            "2 runs, time true");
}

/// The priorities of the streams that a graph was recorded in are those of its
/// nodes: what others wait for goes first in it too.
TEST(LocalDevicesGraphTest, graphs_keep_the_priorities_of_both_queues) {
  RandomOptions options;
  options.axes = {{"x", 2}};
  const Executable executable = makeRandomProgram(3, options);
  const TemporaryFolder folder;
  EXPECT_EQ(runEmulated({{"LOG", folder / "calls"}},
                        [&] { return compareWithCpu(executable, true); }),
            "");
  EXPECT_THAT(readBytes(folder / "calls"),
              testing::ContainsRegex(
                  "\"call\": \"cuGraphLaunch\".*\"priorities\": 2,"));
}

} // namespace
