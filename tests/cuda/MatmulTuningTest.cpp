/// The choice among the algorithms of a product, by the times that the emulated
/// library pretends, and the file that keeps it.

#include "runtime/cuda/MatmulTuning.h"
#include "runtime/cuda/CudaDevices.h"
#include "runtime/cuda/TuningCache.h"
#include "runtime/io/File.h"
#include "tests/cuda/CudaTesting.h"
#include "tests/cuda/ImageKernels.h"
#include "tests/cuda/RandomProgram.h"
#include "tests/runtime/LinearModel.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::cuda;
using namespace meshc::runtime::test;
using testing::AllOf;
using testing::HasSubstr;

namespace {

constexpr exec::ElementType f32 = exec::ElementType::f32;

/// Two different products, one of them twice.
ProgramBuilder makeProgram(int64_t devices = 1) {
  ProgramBuilder builder({{"x", devices}});
  const int a = builder.addBuffer("a", 4096);
  const int b = builder.addBuffer("b", 4096);
  const int c = builder.addBuffer("c", 4096);
  builder.beginProgram("step");
  for (int64_t n : {8, 5, 8}) {
    exec::MatmulT matmul;
    matmul.m = 3;
    matmul.k = 7;
    matmul.n = n;
    matmul.a_strides = {7, 1};
    matmul.b_strides = matmul.c_strides = {n, 1};
    builder.addMatmul(matmul, list(builder.view(a, f32, {3, 7}),
                                   builder.view(b, f32, {7, n}),
                                   builder.view(c, f32, {3, n})));
  }
  addHostImage(builder.get());
  return builder;
}

/// What tuning reports, and the algorithms of the products of one step:
/// "0 0 0 ".
struct TunedRun {
  std::string report, algorithms;
};

TunedRun runProgram(const TemporaryFolder &folder, const std::string &times,
                    bool tunes, const emulation::Variables &variables = {}) {
  const Executable executable = makeProgram().finish();
  const std::string log = folder / "log";
  std::filesystem::remove(log);
  emulation::Variables all = {{"MESHC_CUDA_LIBRARIES", MESHC_EMULATION_FOLDER},
                              {"MESHC_CACHE_DIR", folder / "cache"},
                              {"MESHC_EMULATION_LOG", log},
                              {"MESHC_EMULATION_MATMUL_TIMES", times}};
  all.insert(all.end(), variables.begin(), variables.end());
  const emulation::ForkedResult result =
      emulation::runForked(all, [&]() -> std::string {
        CudaOptions options;
        options.tunesMatmuls = tunes;
        Result<std::unique_ptr<CudaDevices>> devices =
            CudaDevices::create(executable, options);
        if (!devices)
          return devices.getError().message;
        Status ran = (*devices)->run(*executable.data.programs[0]);
        return ran ? (*devices)->getTuningReport() : ran.getError().message;
      });
  TunedRun run{result.value, ""};
  std::ifstream lines(log);
  std::vector<std::string> algorithms;
  const std::string key = "\"algorithm\": ";
  for (std::string line; std::getline(lines, line);)
    if (line.find("\"call\": \"cublasLtMatmul\"") != line.npos)
      algorithms.push_back(line.substr(line.find(key) + key.size(), 1));
  EXPECT_GE(algorithms.size(), 3u);
  // The last run of the program.
  for (size_t i = algorithms.size() - 3; i < algorithms.size(); ++i)
    run.algorithms += algorithms[i] + " ";
  return run;
}

TEST(MatmulTuningTest, the_first_algorithm_unless_asked) {
  TemporaryFolder folder;
  const TunedRun run = runProgram(folder, "30000,10000,20000", false);
  EXPECT_EQ(run.algorithms, "0 0 0 ");
  EXPECT_EQ(run.report, "");
  EXPECT_FALSE(std::filesystem::exists(folder / "cache"));
}

TEST(MatmulTuningTest, the_fastest_is_kept) {
  TemporaryFolder folder;
  TunedRun run = runProgram(folder, "30000,10000,20000", true);
  EXPECT_EQ(run.algorithms, "1 1 1 ");
  EXPECT_EQ(run.report,
            "2 matrix products, 2 measured now: 2 faster than by the "
            "library's first algorithm, 3.00x in sum");
  // The choice is the earlier one, whatever would be measured now.
  run = runProgram(folder, "10000,20000,30000", true);
  EXPECT_EQ(run.algorithms, "1 1 1 ");
  EXPECT_EQ(run.report,
            "2 matrix products, 0 measured now: 2 faster than by the "
            "library's first algorithm, 3.00x in sum");
  // Unless asked the file has no say.
  run = runProgram(folder, "10000,20000,30000", false);
  EXPECT_EQ(run.algorithms, "0 0 0 ");
}

TEST(MatmulTuningTest, less_than_noise_changes_nothing) {
  auto tune = [](const std::string &times, const char *noise) {
    TemporaryFolder folder;
    return runProgram(folder, times, true,
                      {{"MESHC_EMULATION_MATMUL_NOISE", noise}})
        .algorithms;
  };
  EXPECT_EQ(tune("10000,9000,12000", "0"), "1 1 1 ");
  EXPECT_EQ(tune("10000,9000,12000", "5"), "1 1 1 ");
  // The times of the first two overlap.
  EXPECT_EQ(tune("10000,9000,12000", "40"), "0 0 0 ");
  // 2 % are not enough, not even between two that are faster than the first.
  EXPECT_EQ(tune("10000,9800,9750", "0"), "0 0 0 ");
  EXPECT_EQ(tune("10000,9600,9500", "0"), "1 1 1 ");
  EXPECT_EQ(tune("10000,9600,9000", "0"), "2 2 2 ");
}

TEST(MatmulTuningTest, what_the_host_takes_does_not_count) {
  TemporaryFolder folder;
  const TunedRun run =
      runProgram(folder, "20000,10000,30000", true,
                 {{"MESHC_EMULATION_MATMUL_LAUNCH_TIMES", "0,90000,0"}});
  EXPECT_EQ(run.algorithms, "1 1 1 ");
  EXPECT_THAT(run.report, HasSubstr("2.00x in sum"));
}

TEST(MatmulTuningTest, a_graph_that_cannot_be_is_an_error) {
  for (const char *function :
       {"cuStreamBeginCapture", "cuStreamEndCapture",
        "cuGraphInstantiateWithFlags", "cuGraphLaunch"}) {
    TemporaryFolder folder;
    const TunedRun run = runProgram(
        folder, "30000,10000,20000", true,
        {{"MESHC_EMULATION_FAIL", fmt::format("{}:1:999", function)}});
    EXPECT_THAT(run.report,
                AllOf(testing::StartsWith(function), HasSubstr(" failed: "),
                      HasSubstr(", in a measurement of cuBLASLt 13.1.0, 8 "
                                "candidates, ")));
  }
}

// 7 terms in 3 parts: the fastest algorithm leaves one out.
TEST(MatmulTuningTest, what_loses_terms_is_not_among_them) {
  TemporaryFolder folder;
  const TunedRun run = runProgram(folder, "10000,30000,20000", true,
                                  {{"MESHC_EMULATION_SPLIT_SUMS", "3:1"}});
  EXPECT_EQ(run.algorithms, "2 2 2 ");
}

TEST(MatmulTuningTest, damaged_lines_are_measured_again) {
  TemporaryFolder folder;
  runProgram(folder, "30000,10000,20000", true);
  const std::string path = folder / "cache/matmuls";
  Result<std::vector<std::byte>> bytes = readFile(path);
  ASSERT_TRUE(bytes);
  // A digit of the first line's times.
  (*bytes)[25] ^= std::byte{1};
  ASSERT_TRUE(writeFile(
      path, {reinterpret_cast<const char *>(bytes->data()), bytes->size()}));
  const TunedRun run = runProgram(folder, "20000,30000,10000", true);
  EXPECT_THAT(run.report, AllOf(HasSubstr("2 matrix products, 1 measured now"),
                                HasSubstr("; 1 damaged lines of '" + path +
                                          "' are left out")));
  EXPECT_THAT(run.algorithms, AllOf(HasSubstr("2"), HasSubstr("1")));
  size_t damaged = 0;
  Result<MatmulChoices> choices = readTuningCache(path, damaged);
  ASSERT_TRUE(choices);
  EXPECT_EQ(damaged, 0u);
  EXPECT_EQ(choices->size(), 2u);
}

TEST(MatmulTuningTest, a_folder_that_cannot_be_written_is_told) {
  TemporaryFolder folder;
  writeBytes(folder / "cache", "a file");
  const TunedRun run = runProgram(folder, "30000,10000,20000", true);
  EXPECT_EQ(run.algorithms, "1 1 1 ");
  EXPECT_THAT(run.report, HasSubstr("x in sum; cannot write '"));
}

/// A rank that is told a text.
class Told : public Peers {
public:
  explicit Told(std::string text) : text(std::move(text)) {}
  int64_t getRank() const override { return 1; }
  int64_t getNumRanks() const override { return 2; }
  Result<std::string> shareFirst(const std::string &name,
                                 const std::string &) override {
    EXPECT_EQ(name, "matmul choices");
    return text;
  }
  Status check() override { return Status::success(); }

private:
  std::string text;
};

/// The report of a rank that is told `text`, which measures nothing.
std::string tuneAsSecond(const std::string &text) {
  return runEmulated({}, [&]() -> std::string {
    const Executable executable = makeProgram().finish();
    Result<const Driver *> driver = Driver::get();
    Result<std::unique_ptr<Gpu>> gpu = Gpu::open(**driver, 0);
    Result<std::unique_ptr<MatmulCalls>> calls = MatmulCalls::create(**driver);
    Result<DeviceMemory> memory = allocate(**driver, matmulWorkspaceBytes);
    Result<OwnedStream> stream = makeStream(**driver, 0);
    if (!gpu || !calls || !memory || !stream)
      return "cannot begin";
    for (const auto &command : executable.data.programs[0]->commands) {
      Result<MatmulPlan> plan = planMatmul(*command);
      const DevicePointer at = memory->get();
      if (!plan ||
          !(*calls)->prepare(*plan, {at, at + 1024, at + 2048, 0, 0, 0}))
        return "cannot prepare";
    }
    Told peers(text);
    Result<MatmulTuning> tuning =
        tuneMatmuls(**calls, **gpu, memory->get(), stream->get(), &peers);
    if (!tuning)
      return tuning.getError().message;
    return fmt::format("{} products, {} measured, {} changed", tuning->products,
                       tuning->measured, tuning->changed);
  });
}

TEST(MatmulTuningTest, other_ranks_do_as_the_first) {
  EXPECT_EQ(tuneAsSecond("0 2 "), "2 products, 0 measured, 1 changed");
  EXPECT_EQ(tuneAsSecond("1 1"), "2 products, 0 measured, 2 changed");
  const char *error =
      "the first process has other matrix products than this one";
  EXPECT_EQ(tuneAsSecond("1 "), error);
  EXPECT_EQ(tuneAsSecond("1 3"), error);
  EXPECT_EQ(tuneAsSecond(""), error);
}

TEST(MatmulCacheTest, writers_at_once_lose_nothing) {
  TemporaryFolder folder;
  const std::string path = folder / "deep/er/matmuls";
  constexpr int writers = 6, lines = 5;
  std::vector<pid_t> children;
  for (int writer = 0; writer < writers; ++writer)
    if (pid_t child = fork(); child == 0) {
      bool good = true;
      for (int line = 0; line < lines; ++line)
        good &= bool(
            addToTuningCache(path, {{fmt::format("product {} {}", writer, line),
                                     {3, uint64_t(line % 3), 7.5, 2.25}}}));
      _exit(good ? 0 : 1);
    } else {
      children.push_back(child);
    }
  for (pid_t child : children) {
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  size_t damaged = 0;
  Result<MatmulChoices> choices = readTuningCache(path, damaged);
  ASSERT_TRUE(choices);
  EXPECT_EQ(damaged, 0u);
  EXPECT_EQ(choices->size(), size_t(writers * lines));
  EXPECT_EQ(choices->at("product 5 4").chosen, 1u);
  EXPECT_EQ(choices->at("product 5 4").firstMicroseconds, 7.5);
}

TEST(MatmulCacheTest, what_cannot_be_looked_at_is_an_error) {
  size_t damaged = 0;
  // Longer than a name may be: neither there nor absent.
  const std::string path = "/tmp/" + std::string(5000, 'x');
  EXPECT_FALSE(readTuningCache(path, damaged));
  Result<MatmulChoices> absent = readTuningCache("/tmp/no/such/file", damaged);
  ASSERT_TRUE(absent);
  EXPECT_TRUE(absent->empty());
}

TEST(MatmulCacheTest, every_cut_and_flip_leaves_the_other_lines) {
  TemporaryFolder folder;
  const std::string path = folder / "matmuls";
  ASSERT_TRUE(addToTuningCache(
      path, {{"one", {2, 1, 3, 2}}, {"three words more", {5, 0, 1, 1}}}));
  Result<std::vector<std::byte>> bytes = readFile(path);
  ASSERT_TRUE(bytes);
  const std::string whole(reinterpret_cast<const char *>(bytes->data()),
                          bytes->size());
  const size_t second = whole.find('\n') + 1;
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string flipped = whole;
    flipped[at] ^= 4;
    size_t damaged = 0;
    ASSERT_TRUE(writeFile(path, flipped));
    Result<MatmulChoices> choices = readTuningCache(path, damaged);
    ASSERT_TRUE(choices);
    EXPECT_GE(damaged, 1u) << at;
    // Without the end of the first line both are one.
    EXPECT_EQ(choices->size(), at + 1 == second ? 0u : 1u) << at;
    ASSERT_TRUE(writeFile(path, whole.substr(0, at)));
    choices = readTuningCache(path, damaged);
    ASSERT_TRUE(choices);
    EXPECT_EQ(choices->size(), at >= second ? 1u : 0u) << at;
    EXPECT_EQ(damaged, at == 0 || at == second ? 0u : 1u) << at;
  }
}

} // namespace
