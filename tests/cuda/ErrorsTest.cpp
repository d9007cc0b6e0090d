/// What can be wrong with a machine, its libraries or an executable: each with
/// one message and its exit code.

#include "runtime/app/CommandLine.h"
#include "runtime/cuda/CudaDevices.h"
#include "runtime/cuda/library/CublasLt.h"
#include "runtime/cuda/library/SystemReport.h"
#include "tests/cuda/CudaTesting.h"
#include "tests/cuda/ImageKernels.h"
#include "tests/cuda/RandomProgram.h"
#include "tests/runtime/LinearModel.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::AllOf;
using testing::HasSubstr;

namespace {

constexpr exec::ElementType f32 = exec::ElementType::f32;

/// A program of one product and one kernel on `devices` devices.
ProgramBuilder makeProgram(int64_t devices, const std::string &symbol = "mix",
                           int64_t bytes = mixElements * 4) {
  ProgramBuilder builder({{"x", devices}});
  const int a = builder.addBuffer("a", bytes);
  const int b = builder.addBuffer("b", mixElements * 4);
  builder.get().buffers[0]->role = exec::BufferRole::parameter;
  builder.beginProgram("step");
  builder.addKernel(symbol, 1,
                    list(builder.view(a, f32, {mixElements}),
                         builder.view(a, f32, {mixElements}),
                         builder.view(b, f32, {mixElements})),
                    1);
  exec::MatmulT matmul;
  matmul.m = matmul.n = matmul.k = 2;
  matmul.a_strides = matmul.b_strides = matmul.c_strides = {2, 1};
  builder.addMatmul(matmul, list(builder.view(a, f32, {2, 2}),
                                 builder.view(a, f32, {2, 2}),
                                 builder.view(b, f32, {2, 2})));
  addHostImage(builder.get());
  return builder;
}

/// Exit code and messages of `app bench --steps 1 ...` on emulated GPUs.
std::string runBench(const ProgramBuilder &builder,
                     const emulation::Variables &variables,
                     const std::vector<std::string> &flags = {}) {
  const std::vector<uint8_t> program = builder.serialize();
  emulation::Variables all = {{"MESHC_CUDA_LIBRARIES", MESHC_EMULATION_FOLDER}};
  all.insert(all.end(), variables.begin(), variables.end());
  const emulation::ForkedResult result = emulation::runForked(all, [&] {
    std::vector<const char *> arguments = {"app", "bench", "--steps", "1"};
    for (const std::string &flag : flags)
      arguments.push_back(flag.c_str());
    return fmt::format("exit {}",
                       runCommandLine(int(arguments.size()), arguments.data(),
                                      program, {}, openGpuDevices));
  });
  return result.value + ": " + result.errors;
}

/// A folder with only those emulated libraries whose names begin with one of
/// these.
void linkLibraries(const TemporaryFolder &folder,
                   const std::vector<std::string> &names) {
  for (const auto &file :
       std::filesystem::directory_iterator(MESHC_EMULATION_FOLDER))
    for (const std::string &name : names)
      if (file.path().filename().string().starts_with(name))
        std::filesystem::create_symlink(file.path(),
                                        folder.path / file.path().filename());
}

TEST(ErrorsTest, no_driver) {
  EXPECT_THAT(
      runBench(makeProgram(1), {{"MESHC_CUDA_LIBRARIES", "/nowhere"}}),
      AllOf(HasSubstr("exit 1: meshc: error[MR0401]: cannot find libcuda.so.1"),
            HasSubstr("note: it comes with NVIDIA's driver")));
}

TEST(ErrorsTest, too_old_a_driver) {
  EXPECT_EQ(runBench(makeProgram(1), {{"MESHC_EMULATION_DRIVER", "11080"}}),
            "exit 1: meshc: error[MR0402]: the driver '" MESHC_EMULATION_FOLDER
            "/libcuda.so.1' is of CUDA 11.8, expected at least 12.0\n"
            "meshc: note: install a later driver\n");
}

/// A folder with all emulated libraries, cuBLASLt under these names.
void linkLibrariesOf(const TemporaryFolder &folder,
                     const std::vector<std::string> &cublas) {
  linkLibraries(folder, {"libcuda", "libnccl", "libmeshc_"});
  for (const std::string &name : cublas)
    std::filesystem::create_symlink(MESHC_EMULATION_FOLDER "/libcublasLt.so.13",
                                    folder / name);
}

/// How a program ends that has cuBLASLt under these names, and which of them it
/// loaded: "libcublasLt.so.13".
std::string loadCublas(const std::vector<std::string> &names,
                       const char *driver) {
  TemporaryFolder folder;
  linkLibrariesOf(folder, names);
  return emulation::runForked(
             {{"MESHC_CUDA_LIBRARIES", folder.path},
              {"MESHC_EMULATION_DRIVER", driver}},
             []() -> std::string {
               Result<const cuda::Driver *> driver = cuda::Driver::get();
               if (!driver)
                 return driver.getError().message;
               Result<const cuda::CublasLt *> library =
                   cuda::CublasLt::get(*driver);
               return library ? std::filesystem::path((*library)->path)
                                    .filename()
                                    .string()
                              : library.getError().message;
             })
      .value;
}

TEST(ErrorsTest, the_latest_library_of_products_that_the_driver_runs) {
  const std::string thirteen = "libcublasLt.so.13";
  const std::string twelve = "libcublasLt.so.12";
  EXPECT_EQ(loadCublas({thirteen, twelve}, "13000"), thirteen);
  EXPECT_EQ(loadCublas({thirteen}, "13000"), thirteen);
  EXPECT_EQ(loadCublas({twelve}, "13000"), twelve);
  EXPECT_EQ(loadCublas({thirteen, twelve}, "14010"), thirteen);
  EXPECT_EQ(loadCublas({thirteen, twelve}, "12040"), twelve);
  EXPECT_EQ(loadCublas({twelve}, "12040"), twelve);
}

TEST(ErrorsTest, a_driver_too_old_for_the_library) {
  EXPECT_EQ(runBench(makeProgram(1), {{"MESHC_EMULATION_DRIVER", "12040"}}),
            "exit 1: meshc: error[MR0402]: cannot find libcublasLt.so.12 in "
            "'" MESHC_EMULATION_FOLDER
            "', which MESHC_CUDA_LIBRARIES names; '" MESHC_EMULATION_FOLDER
            "/libcublasLt.so.13' needs a driver of CUDA 13.0 or later, found "
            "12.4\nmeshc: note: install a later driver, or the library of an "
            "earlier CUDA\n");
}

TEST(ErrorsTest, no_library_of_products) {
  TemporaryFolder folder;
  linkLibrariesOf(folder, {});
  EXPECT_THAT(
      runBench(makeProgram(1), {{"MESHC_CUDA_LIBRARIES", folder.path}}),
      HasSubstr("exit 1: meshc: error[MR0401]: cannot find libcublasLt.so.13 "
                "or libcublasLt.so.12 in '"));
  EXPECT_THAT(runBench(makeProgram(1), {{"MESHC_CUDA_LIBRARIES", folder.path},
                                        {"MESHC_EMULATION_DRIVER", "12040"}}),
              HasSubstr("exit 1: meshc: error[MR0401]: cannot find "
                        "libcublasLt.so.12 in '"));
}

TEST(ErrorsTest, a_file_that_is_no_library) {
  TemporaryFolder folder;
  writeBytes(folder / "libcuda.so.1", "not a library");
  EXPECT_THAT(runBench(makeProgram(1), {{"MESHC_CUDA_LIBRARIES", folder.path}}),
              HasSubstr("exit 1: meshc: error[MR0401]: cannot load "
                        "libcuda.so.1: "));
}

/// How an executable of two processes ends, in the first of them.
std::string openFirstOfTwo(const emulation::Variables &variables,
                           int64_t devices = 2, int64_t devicesPerGpu = 1) {
  class OfTwo : public cuda::Peers {
    int64_t getRank() const override { return 0; }
    int64_t getNumRanks() const override { return 2; }
    Result<std::string> shareFirst(const std::string &,
                                   const std::string &value) override {
      return value;
    }
    Status check() override { return Status::success(); }
  };
  const Executable executable = makeProgram(devices).finish();
  emulation::Variables all = {{"MESHC_CUDA_LIBRARIES", MESHC_EMULATION_FOLDER},
                              {"MESHC_EMULATION_DEVICES", "2"}};
  all.insert(all.end(), variables.begin(), variables.end());
  return emulation::runForked(
             all,
             [&]() -> std::string {
               OfTwo peers;
               cuda::CudaOptions options;
               options.peers = &peers;
               options.devicesPerGpu = devicesPerGpu;
               Result<std::unique_ptr<cuda::CudaDevices>> opened =
                   cuda::CudaDevices::create(executable, options);
               if (opened)
                 return "it works";
               const Error &error = opened.getError();
               return fmt::format("exit {}: {}; {}",
                                  int(getExitCode(error.code)), error.message,
                                  error.note);
             })
      .value;
}

TEST(ErrorsTest, no_nccl_where_processes_communicate) {
  TemporaryFolder folder;
  linkLibraries(folder, {"libcuda", "libcublasLt", "libmeshc_"});
  EXPECT_THAT(openFirstOfTwo({{"MESHC_CUDA_LIBRARIES", folder.path}}),
              HasSubstr("exit 1: cannot find libnccl.so.2 in '"));
}

TEST(ErrorsTest, too_old_an_nccl) {
  EXPECT_EQ(openFirstOfTwo({{"MESHC_EMULATION_NCCL", "21705"}}),
            "exit 1: '" MESHC_EMULATION_FOLDER
            "/libnccl.so.2' is NCCL 2.17.5, expected at least 2.18.0; install "
            "a later package libnccl2");
}

TEST(ErrorsTest, too_old_a_library_of_products) {
  EXPECT_EQ(runBench(makeProgram(1), {{"MESHC_EMULATION_CUBLASLT", "111103"}}),
            "exit 1: meshc: error[MR0402]: '" MESHC_EMULATION_FOLDER
            "/libcublasLt.so.13' is cuBLASLt 11.11.3, expected at least "
            "12.0.0\nmeshc: note: install the library of CUDA 12 or later\n");
}

TEST(ErrorsTest, several_devices_in_each_of_several_processes) {
  EXPECT_THAT(openFirstOfTwo({}, 4, 2),
              AllOf(HasSubstr("exit 2: --devices-per-gpu 2 needs one process, "
                              "found 2; NCCL counts one device per GPU, and "),
                    HasSubstr("kernels that do not reach other processes; "
                              "collectives of both kinds at once are not "
                              "built")));
  EXPECT_THAT(openFirstOfTwo({}, 4),
              HasSubstr("exit 1: the mesh has 4 devices, the run 2 processes "
                        "with a GPU each; start 4 processes, or one with "
                        "--devices-per-gpu 4"));
}

TEST(ErrorsTest, no_gpu) {
  EXPECT_THAT(runBench(makeProgram(2), {{"MESHC_EMULATION_DEVICES", "0"}}),
              HasSubstr("exit 1: meshc: error[MR0403]: the mesh has 2 devices, "
                        "this machine no GPU"));
}

TEST(ErrorsTest, fewer_gpus_than_devices) {
  EXPECT_THAT(
      runBench(makeProgram(4), {{"MESHC_EMULATION_DEVICES", "3"}}),
      AllOf(HasSubstr("exit 1: meshc: error[MR0403]: the mesh has 4 devices, "
                      "this machine 3 GPUs"),
            HasSubstr("--devices-per-gpu 4, or start 4 processes")));
}

TEST(ErrorsTest, more_devices_than_a_gpu_was_asked_to_take) {
  EXPECT_THAT(
      runBench(makeProgram(4), {}, {"--devices-per-gpu", "3"}),
      AllOf(HasSubstr("exit 1: meshc: error[MR0403]: the mesh has 4 devices, "
                      "--devices-per-gpu allows 3"),
            HasSubstr("--devices-per-gpu 4, or start")));
}

TEST(ErrorsTest, not_enough_memory) {
  EXPECT_THAT(
      runBench(makeProgram(2, "mix", 64 << 20),
               {{"MESHC_EMULATION_MEMORY", "100000000"}},
               {"--devices-per-gpu", "2"}),
      AllOf(
          HasSubstr("exit 5: meshc: error[MR0303]: 2 devices need 192.01 "
                    "MiB on GPU 0 (meshc emulated GPU"),
          HasSubstr("which has 95.37 MiB free"),
          HasSubstr("needed for parameters 128.00 MiB, activations 6.56 KiB, "),
          HasSubstr("cuBLASLt 64.00 MiB")));
}

TEST(ErrorsTest, no_code_for_the_gpu) {
  EXPECT_THAT(runBench(makeProgram(1), {{"MESHC_EMULATION_NAME", "NVIDIA X"},
                                        {"MESHC_EMULATION_ARCH", "7.5"}}),
              AllOf(HasSubstr("exit 4: meshc: error[MR0404]: GPU 0 (NVIDIA X, "
                              "sm_75) cannot run this executable, which has "
                              "code for host (host)"),
                    HasSubstr("note: compile the model with --gpu sm_75")));
}

TEST(ErrorsTest, an_image_without_a_kernel) {
  EXPECT_THAT(runBench(makeProgram(1, "nowhere"), {}),
              HasSubstr("exit 4: meshc: error[MR0301]: damaged program: its "
                        "code for the GPU has no kernel 'nowhere', in command "
                        "'nowhere' of program 'step'"));
}

TEST(ErrorsTest, a_product_that_the_library_does_not_have) {
  ProgramBuilder builder = makeProgram(1);
  exec::CommandT &command = *builder.get().programs[0]->commands[1];
  command.action.AsMatmul()->activation = exec::Activation::gelu_erf;
  EXPECT_THAT(runBench(builder, {}),
              HasSubstr("exit 4: meshc: error[MR0405]: cuBLASLt cannot compute "
                        "this product: it ends with gelu in the form with erf, "
                        "in command 'matmul' of program 'step'"));
}

/// What bench says of a program without a loss, when the devices are ready.
const char *const readyWithoutLoss =
    "error[MR0106]: this executable minimises no output, so it has no loss to "
    "report";

/// One program with a product of 2 terms for each of `widths`, with gelu in the
/// form with erf where that is odd.
ProgramBuilder makeProducts(const std::vector<int64_t> &widths) {
  ProgramBuilder builder({{"x", 1}});
  const int a = builder.addBuffer("a", 4096);
  const int b = builder.addBuffer("b", 4096);
  builder.beginProgram("step");
  for (int64_t n : widths) {
    exec::MatmulT matmul;
    matmul.m = 3;
    matmul.n = n;
    matmul.k = 2;
    matmul.a_strides = {2, 1};
    matmul.b_strides = matmul.c_strides = {n, 1};
    if (n % 2 == 1)
      matmul.activation = exec::Activation::gelu_erf;
    builder
        .addMatmul(matmul, list(builder.view(a, f32, {3, 2}),
                                builder.view(a, f32, {2, n}),
                                builder.view(b, f32, {3, n})))
        .name = fmt::format("times {}", n);
  }
  addHostImage(builder.get());
  return builder;
}

TEST(ErrorsTest, all_products_that_the_library_does_not_have) {
  // What cuBLASLt cannot be asked for comes first.
  EXPECT_EQ(
      runBench(makeProducts({4, 4, 6, 5, 4}),
               {{"MESHC_EMULATION_MISSING_EPILOGUES", "1"}}),
      "exit 4: meshc: error[MR0405]: cuBLASLt cannot compute this product: it "
      "ends with gelu in the form with erf, in command 'times 5' of program "
      "'step'; cuBLASLt has no algorithm for a product of f32 with 3 rows, 4 "
      "columns and 2 terms, in command 'times 4' of program 'step' and 2 other "
      "commands; cuBLASLt has no algorithm for a product of f32 with 3 rows, 6 "
      "columns and 2 terms, in command 'times 6' of program 'step'\n");
  std::vector<int64_t> widths;
  for (int64_t n = 2; n <= 22; n += 2)
    widths.push_back(n);
  EXPECT_THAT(runBench(makeProducts(widths),
                       {{"MESHC_EMULATION_MISSING_EPILOGUES", "1"}}),
              AllOf(HasSubstr("in command 'times 16' of program 'step'; and 3 "
                              "more products\n"),
                    testing::Not(HasSubstr("'times 18'"))));
  EXPECT_THAT(runBench(makeProducts(widths), {}), HasSubstr(readyWithoutLoss));
}

TEST(ErrorsTest, batches_that_become_single_calls_are_told) {
  ProgramBuilder builder({{"x", 1}});
  const int a = builder.addBuffer("a", 4096);
  const int b = builder.addBuffer("b", 4096);
  builder.beginProgram("step");
  exec::MatmulT matmul;
  matmul.batch = {2};
  matmul.m = matmul.n = matmul.k = 4;
  matmul.a_strides = matmul.b_strides = matmul.c_strides = {16, 4, 1};
  matmul.has_bias = true;
  builder.addMatmul(matmul, list(builder.view(a, f32, {2, 4, 4}),
                                 builder.view(a, f32, {2, 4, 4}),
                                 builder.view(a, f32, {4}),
                                 builder.view(b, f32, {2, 4, 4})));
  addHostImage(builder.get());
  const std::string report =
      "meshc: the products of 1 batch are computed one by one: cuBLASLt 13.1.0 "
      "has no algorithm for batches with these ends; compiled with "
      "--matmul-epilogues none they are computed together\n";
  EXPECT_THAT(runBench(builder, {{"MESHC_EMULATION_MISSING_BATCHES", "4"}}),
              AllOf(HasSubstr(report), HasSubstr(readyWithoutLoss)));
  EXPECT_THAT(runBench(builder, {}),
              AllOf(HasSubstr(readyWithoutLoss),
                    testing::Not(HasSubstr("one by one"))));
}

TEST(ErrorsTest, batches_that_the_library_does_not_take_by_address_are_told) {
  ProgramBuilder builder({{"x", 1}});
  const int a = builder.addBuffer("a", 4096);
  const int b = builder.addBuffer("b", 4096);
  builder.beginProgram("step");
  exec::MatmulT matmul;
  matmul.batch = {3, 2};
  matmul.m = matmul.n = matmul.k = 4;
  matmul.a_strides = matmul.b_strides = matmul.c_strides = {32, 4, 8, 1};
  builder.addMatmul(matmul, list(builder.view(a, f32, {3, 2, 4, 4}),
                                 builder.view(a, f32, {3, 2, 4, 4}),
                                 builder.view(b, f32, {3, 2, 4, 4})));
  addHostImage(builder.get());
  EXPECT_THAT(
      runBench(builder, {{"MESHC_EMULATION_CUBLASLT", "120803"}}),
      AllOf(
          HasSubstr("meshc: 1 product of several batch dimensions takes a call "
                    "for each position of all but one: cuBLASLt 12.8.3 has no "
                    "algorithm that reads where each matrix is\n"),
          HasSubstr(readyWithoutLoss)));
  EXPECT_THAT(runBench(builder, {}),
              AllOf(HasSubstr(readyWithoutLoss),
                    testing::Not(HasSubstr("for each position"))));
}

TEST(ErrorsTest, damaged_ends_of_products) {
  struct Damage {
    const char *text;
    std::function<void(exec::CommandT &, exec::MatmulT &)> apply;
  };
  // A product that leaves the bits of its relu behind.
  auto getDefect = [](const Damage &damage) {
    ProgramBuilder builder({{"x", 1}});
    const int a = builder.addBuffer("a", 64);
    const int aux = builder.addBuffer("aux", 3 * 16);
    const int b = builder.addBuffer("b", 64);
    const int sums = builder.addBuffer("sums", 16);
    builder.beginProgram("step");
    exec::MatmulT matmul;
    matmul.m = 3;
    matmul.n = matmul.k = 4;
    matmul.a_strides = matmul.b_strides = matmul.c_strides = {4, 1};
    matmul.activation = exec::Activation::relu;
    matmul.has_aux = true;
    exec::CommandT &command = builder.addMatmul(
        matmul, list(builder.view(a, f32, {3, 4}), builder.view(a, f32, {4, 4}),
                     builder.view(aux, exec::ElementType::i32, {3, 4}),
                     builder.view(b, f32, {3, 4})));
    exec::MatmulT &end = *command.action.AsMatmul();
    damage.apply(command, end);
    if (end.column_sum != exec::ColumnSum::none) {
      command.operands.insert(command.operands.begin() + 2,
                              builder.view(sums, f32, {4}));
      ++command.results;
    }
    addHostImage(builder.get());
    return checkExecutable(builder.get());
  };
  EXPECT_EQ(getDefect({"", [](auto &, auto &) {}}), "");
  for (const Damage &damage : std::vector<Damage>{
           {"operand 2 reaches byte 52 of buffer 'aux', which has 48",
            [](auto &command, auto &) { command.operands[2]->offset = 4; }},
           {"a matmul has 1 results, expected 2",
            [](auto &command, auto &) { command.results = 1; }},
           {"a matmul has an activation without gradient, 2",
            [](auto &, auto &end) {
              end.activation = exec::Activation::gelu_erf;
            }},
           {"a matmul's activation leaves behind has element type f32",
            [](auto &command, auto &) {
              command.operands[2]->element = exec::ElementType::f32;
            }},
           {"a matmul's activation leaves behind has element type i32",
            [](auto &, auto &end) {
              end.activation = exec::Activation::gelu_tanh;
            }},
           {"a matmul with such an end has batch dimensions, or a result that "
            "is not dense",
            [](auto &, auto &end) {
              end.m = 2;
              end.c_strides = {5, 1};
            }},
           {"a matmul with the gradient of an activation has a bias, or "
            "nothing "
            "to take it at",
            [](auto &command, auto &end) {
              end.is_gradient = true;
              end.has_aux = false;
              command.results = 1;
              command.operands.erase(command.operands.begin() + 2);
            }},
           {"a matmul sums columns beside a bias or another end",
            [](auto &, auto &end) { end.column_sum = exec::ColumnSum::a; }},
           {"a matmul sums columns beside a bias or another end",
            [](auto &, auto &end) { end.column_sum = exec::ColumnSum::c; }}})
    EXPECT_THAT(getDefect(damage), HasSubstr(damage.text));
}

TEST(ErrorsTest, a_call_that_fails) {
  EXPECT_THAT(
      runBench(makeProgram(1), {{"MESHC_EMULATION_FAIL", "cuMemAlloc:1:999"}}),
      HasSubstr("exit 70: meshc: error[MR0406]: cuMemAlloc_v2 failed: "));
  // Memory that another process took after it was asked for.
  EXPECT_THAT(
      runBench(makeProgram(1), {{"MESHC_EMULATION_FAIL", "cuMemAlloc:1:2"}}),
      HasSubstr("exit 5: meshc: error[MR0303]: cuMemAlloc_v2 failed: out of "
                "memory (CUDA_ERROR_OUT_OF_MEMORY)"));
}

/// What an executable says of itself and the machine.
std::string printInfo() {
  const std::vector<uint8_t> program = makeProgram(2).serialize();
  const char *arguments[] = {"app", "info"};
  testing::internal::CaptureStdout();
  EXPECT_EQ(runCommandLine(2, arguments, program, {}, openGpuDevices), 0);
  return testing::internal::GetCapturedStdout();
}

TEST(ErrorsTest, info_needs_no_gpu) {
  const std::string text =
      emulation::runForked({{"MESHC_CUDA_LIBRARIES", "/nowhere"}}, printInfo)
          .value;
  EXPECT_THAT(text, testing::ContainsRegex(
                        "target    cuda\nkernels   host, host, [0-9.]+ KiB\n"));
  EXPECT_THAT(text,
              HasSubstr("machine\n  driver    cannot find libcuda.so.1 in "
                        "'/nowhere'"));
}

TEST(ErrorsTest, info_shows_the_machine) {
  const std::string text = runEmulated({{"DEVICES", "2"}}, printInfo);
  EXPECT_THAT(text, testing::ContainsRegex("machine\n  driver    CUDA 13.0, "));
  EXPECT_THAT(text, testing::ContainsRegex("\n  GPU 1     meshc emulated GPU, "
                                           "sm_90, .*; runs host .host.\n"));
  EXPECT_THAT(text, HasSubstr("\n  peers     GPU 1 reaches GPU 0\n"));
}

TEST(ErrorsTest, flags_of_other_devices) {
  EXPECT_THAT(runBench(makeProgram(1), {}, {"--threads", "2"}),
              HasSubstr("exit 2: meshc: error[MR0101]: --threads is for CPUs"));
  ProgramBuilder forCpu = makeProgram(1);
  forCpu.get().target = exec::Target::cpu;
  forCpu.get().images.clear();
  forCpu.get().programs[0]->commands[0]->action.AsKernel()->launches.clear();
  EXPECT_THAT(runBench(forCpu, {}, {"--no-graphs"}),
              HasSubstr("exit 2: meshc: error[MR0101]: --no-graphs is for "
                        "GPUs, this executable is for CPUs"));
  EXPECT_THAT(runBench(forCpu, {}, {"--devices-per-gpu", "2"}),
              HasSubstr("error[MR0101]: --devices-per-gpu is for GPUs"));
  EXPECT_THAT(runBench(forCpu, {}, {"--check-commands"}),
              HasSubstr("error[MR0101]: --check-commands is for GPUs"));
  EXPECT_THAT(runBench(forCpu, {}, {"--stall-timeout", "1"}),
              HasSubstr("error[MR0101]: --stall-timeout is for GPUs"));
  EXPECT_THAT(runBench(forCpu, {}, {"--tune-matmuls"}),
              HasSubstr("error[MR0101]: --tune-matmuls is for GPUs"));
}

} // namespace
