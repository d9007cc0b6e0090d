/// The command line of an executable: what it computes, prints and exits with.

#include "runtime/app/CommandLine.h"

#include "runtime/data/Npy.h"
#include "tests/runtime/LinearModel.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

namespace {

struct Outcome {
  int code;
  std::string output;
  std::string messages;
};

TEST(ErrorCodeTest, exit_codes_are_those_of_the_contract) {
  EXPECT_EQ(int(getExitCode(ErrorCode::Usage)), 2);
  EXPECT_EQ(int(getExitCode(ErrorCode::WrongArray)), 1);
  EXPECT_EQ(int(getExitCode(ErrorCode::DamagedFile)), 4);
  EXPECT_EQ(int(getExitCode(ErrorCode::OtherProcessor)), 4);
  EXPECT_EQ(int(getExitCode(ErrorCode::DoesNotFit)), 5);
  EXPECT_EQ(int(getExitCode(ErrorCode::Internal)), 70);
  EXPECT_EQ(int(getExitCode(ErrorCode::Interrupted)), 130);
}

class CommandLineTest : public testing::Test {
protected:
  Outcome run(std::vector<std::string> arguments, int64_t devices = 2) {
    arguments.insert(arguments.begin(), "linear");
    std::vector<const char *> argv;
    for (const std::string &argument : arguments)
      argv.push_back(argument.c_str());
    std::vector<uint8_t> program = LinearModel::makeProgram(devices);
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    Outcome outcome;
    outcome.code = runCommandLine(int(argv.size()), argv.data(), program,
                                  LinearModel::getKernels(), openCpuDevices);
    outcome.output = testing::internal::GetCapturedStdout();
    outcome.messages = testing::internal::GetCapturedStderr();
    return outcome;
  }

  void expectFailure(const std::vector<std::string> &arguments, int code,
                     const std::string &message) {
    Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, code) << outcome.messages;
    EXPECT_THAT(outcome.messages, StartsWith("meshc: error[MR0"));
    EXPECT_THAT(outcome.messages, HasSubstr(message));
    EXPECT_EQ(outcome.output, "");
  }

  template <typename T>
  std::string write(const std::string &name, exec::ElementType element,
                    const std::vector<int64_t> &shape,
                    const std::vector<T> &values) {
    HostArray array{element, shape, {}};
    array.data.resize(values.size() * sizeof(T));
    std::memcpy(array.data.data(), values.data(), array.data.size());
    EXPECT_TRUE(writeNpy(folder / name, array));
    return folder / name;
  }

  /// x, y and w with values that are exact in f32, as arguments.
  std::vector<std::string> writeInputs() {
    for (int64_t i = 0; i < LinearModel::batch; ++i) {
      for (int64_t j = 0; j < 3; ++j)
        x.push_back(float((i * 5 + j * 3) % 7) / 4);
      y.push_back(int32_t(i % 9));
    }
    return {"predict",
            "--in",
            "x=" + write("x.npy", exec::ElementType::f32, {12, 3}, x),
            "--in",
            "y=" + write("y.npy", exec::ElementType::i32, {12}, y),
            "--param",
            "w=" + write("w.npy", exec::ElementType::f32, {3}, w)};
  }
  double getExpectedLoss() const {
    double loss = 0;
    for (int64_t i = 0; i < 12; ++i)
      loss += getResidual(i) * getResidual(i) / 12;
    return loss;
  }
  double getResidual(int64_t i) const {
    double residual = -y[i];
    for (int64_t j = 0; j < 3; ++j)
      residual += double(x[i * 3 + j]) * double(w[j]);
    return residual;
  }

  TemporaryFolder folder;
  std::vector<float> x;
  std::vector<int32_t> y;
  std::vector<float> w = {0.5f, -1.25f, 2};
};

TEST_F(CommandLineTest, predict_writes_outputs_and_gradients) {
  std::vector<std::string> arguments = writeInputs();
  arguments.insert(arguments.end(), {"--out", "loss=" + (folder / "loss.npy"),
                                     "--grad", "w=" + (folder / "g.npy")});
  for (int64_t devices : {1, 2, 3, 4}) {
    Outcome outcome = run(arguments, devices);
    ASSERT_EQ(outcome.code, 0) << outcome.messages;
    EXPECT_EQ(outcome.output, "");
    Result<HostArray> loss = readNpy(folder / "loss.npy");
    ASSERT_TRUE(loss);
    EXPECT_TRUE(loss->shape.empty());
    EXPECT_NEAR(getScalar(*loss), getExpectedLoss(), 1e-4);
    Result<HostArray> gradient = readNpy(folder / "g.npy");
    ASSERT_TRUE(gradient);
    ASSERT_EQ(gradient->shape, (std::vector<int64_t>{3}));
    for (int64_t j = 0; j < 3; ++j) {
      double expected = 0;
      for (int64_t i = 0; i < 12; ++i)
        expected += 2 * getResidual(i) * double(x[i * 3 + j]) / 12;
      EXPECT_NEAR(reinterpret_cast<const float *>(gradient->data.data())[j],
                  expected, 1e-4);
    }
  }
}

TEST_F(CommandLineTest, predict_prints_scalars_if_nothing_is_asked_for) {
  Outcome outcome = run(writeInputs());
  EXPECT_EQ(outcome.code, 0) << outcome.messages;
  EXPECT_THAT(outcome.output, StartsWith("loss "));
  EXPECT_NEAR(std::stod(outcome.output.substr(5)), getExpectedLoss(), 1e-4);
  EXPECT_THAT(outcome.output, HasSubstr("\naccuracy "));
}

TEST_F(CommandLineTest, predict_refuses_wrong_arrays) {
  const std::vector<std::string> sound = writeInputs();
  auto with = [&](std::initializer_list<std::string> more) {
    std::vector<std::string> arguments = sound;
    arguments.insert(arguments.end(), more);
    return arguments;
  };
  auto replaced = [&](size_t index, const std::string &argument) {
    std::vector<std::string> arguments = sound;
    arguments[index] = argument;
    return arguments;
  };
  EXPECT_EQ(run(with({"--data-dir", "."})).code, 2); // beside --in
  EXPECT_EQ(run(with({"--truth", "y"})).code, 2);    // without --topk
  std::vector<std::string> missing(sound.begin(), sound.begin() + 3);
  expectFailure(missing, 1, "input 'y' is missing: expected i32[batch=12]");
  std::vector<std::string> untrained(sound.begin(), sound.end() - 2);
  expectFailure(untrained, 1,
                "parameter 'w' is missing: expected f32[feature=3]");
  untrained.insert(untrained.end(), {"--init", "random"});
  EXPECT_EQ(run(untrained).code, 0);
  expectFailure(with({"--in", "z=x.npy"}), 1, "there is no input 'z'");
  expectFailure(with({"--in", sound[2]}), 1, "input 'x' is given twice");
  // A file that is read or written already, by whatever name.
  const std::string path = sound[2].substr(sound[2].find('=') + 1);
  expectFailure(with({"--out", "loss=" + path}), 1, "is given twice");
  expectFailure(with({"--out", "loss=" + (folder / "a.npy"), "--out",
                      "accuracy=" + (folder / "b/../a.npy")}),
                1, "a.npy', the file for 'accuracy', is given twice");
  EXPECT_FALSE(std::filesystem::exists(folder / "a.npy"));
  EXPECT_EQ(
      run(with({"--out", "loss=/dev/null", "--out", "accuracy=/dev/null"}))
          .code,
      0);
  expectFailure(with({"--param", "v=" + (folder / "w.npy")}), 1,
                "there is no parameter 'v'\nmeshc: note: expected 'w'");
  expectFailure(with({"--out", "losss=a.npy"}), 1,
                "there is no output 'losss'\nmeshc: note: expected one of "
                "'loss', 'accuracy', 'residual'");
  expectFailure(with({"--grad", "x=a.npy"}), 1,
                "there is no gradient of 'x'\nmeshc: note: expected 'w'");
  write("wrong.npy", exec::ElementType::f32, {3, 12}, x);
  expectFailure(replaced(2, "x=" + (folder / "wrong.npy")), 1,
                "input 'x': expected f32[batch=12, feature=3], found "
                "f32[3, 12]");
  write("wrong.npy", exec::ElementType::f64, {12, 3},
        std::vector<double>(36, 1.0));
  expectFailure(replaced(2, "x=" + (folder / "wrong.npy")), 1,
                "expected f32[batch=12, feature=3], found f64[12, 3]");
  y[4] = 9;
  write("wrong.npy", exec::ElementType::i32, {12}, y);
  expectFailure(replaced(4, "y=" + (folder / "wrong.npy")), 1,
                "input 'y': element 4 is 9 in ");
  write("wrong.npy", exec::ElementType::f32, {4}, std::vector<float>(4, 1.0f));
  expectFailure(replaced(6, "w=" + (folder / "wrong.npy")), 1,
                "parameter 'w': expected f32[feature=3], found f32[4]");
  writeBytes(folder / "wrong.npy", "\x93NUMPY garbage");
  expectFailure(replaced(2, "x=" + (folder / "wrong.npy")), 4, "is damaged");
  expectFailure(replaced(2, "x=" + (folder / "nowhere.npy")), 1,
                "No such file or directory");
  expectFailure(with({"--out", "loss=" + (folder / "no/loss.npy")}), 1,
                "cannot write");
  expectFailure(replaced(2, "x"), 2, "expected NAME=FILE, found 'x'");
}

TEST_F(CommandLineTest, bench_prints_the_contract) {
  Outcome outcome = run(
      {"bench", "--steps", "5", "--threads", "2", "--compile-seconds", "1.25"});
  EXPECT_EQ(outcome.code, 0) << outcome.messages;
  EXPECT_THAT(
      outcome.output,
      testing::MatchesRegex(
          "\\{\"step_ms_median\": [0-9.]+, \"step_ms_min\": [0-9.]+, "
          "\"compile_s\": 1.250, \"peak_bytes_per_device\": 640, \"threads\": "
          "2, \"devices\": 2, \"loss\": [0-9.e+-]+\\}\n"));
  Outcome profiled = run({"bench", "--steps", "3", "--profile"});
  EXPECT_THAT(profiled.output, HasSubstr("\"worker_ms\": {\"kernel\": "));
  EXPECT_THAT(profiled.output, HasSubstr("\"idle\": "));
  EXPECT_THAT(profiled.output, HasSubstr("\"costliest\": [{\"name\": \""));
}

TEST_F(CommandLineTest, bench_is_repeatable) {
  auto getLoss = [&](const std::string &seed, const std::string &threads) {
    std::string output =
        run({"bench", "--steps", "5", "--seed", seed, "--threads", threads})
            .output;
    return output.substr(output.find("\"loss\""));
  };
  EXPECT_EQ(getLoss("1", "1"), getLoss("1", "3"));
  EXPECT_NE(getLoss("1", "1"), getLoss("2", "1"));
}

TEST_F(CommandLineTest, train_and_eval) {
  writeLinearData(folder);
  Outcome trained =
      run({"train", "--data-dir", folder.path.string(), "--epochs", "2"});
  EXPECT_EQ(trained.code, 0) << trained.messages;
  EXPECT_THAT(trained.output, HasSubstr("test accuracy "));
  // The best parameters, as the data was made.
  write("best.npy", exec::ElementType::f32, {3}, std::vector<float>{2, 4, 2});
  Outcome evaluated = run({"eval", "--data-dir", folder.path.string(),
                           "--param", "w=" + (folder / "best.npy")});
  EXPECT_EQ(evaluated.code, 0) << evaluated.messages;
  EXPECT_THAT(evaluated.output, HasSubstr("test accuracy 100.0 %\n"));
  Outcome some = run({"eval", "--data-dir", folder.path.string(), "--param",
                      "w=" + (folder / "best.npy"), "--eval-steps", "2"});
  EXPECT_THAT(some.output, HasSubstr("evaluated 24 of 31 test samples"));
  Outcome few = run({"train", "--data-dir", folder.path.string(), "--steps",
                     "1", "--eval-steps", "1"});
  EXPECT_THAT(few.output, HasSubstr("evaluated 12 of 31 test samples"));
  Outcome none = run({"train", "--data-dir", folder.path.string(), "--steps",
                      "1", "--no-eval"});
  EXPECT_EQ(none.code, 0) << none.messages;
  EXPECT_EQ(none.output, "");
  expectFailure({"train", "--data-dir", folder.path.string(), "--no-eval",
                 "--eval-steps", "1"},
                2, "--eval-steps excludes --no-eval");
  expectFailure({"train", "--data-dir", folder.path.string(), "--no-eval",
                 "--eval-every", "1"},
                2, "--eval-every excludes --no-eval");
  expectFailure(
      {"train", "--data-dir", folder.path.string(), "--eval-every", "0"}, 2,
      "--eval-every");
  expectFailure({"train", "--data-dir", folder.path.string(), "--save",
                 folder / "saved", "--keep-best"},
                2, "--keep-best requires --eval-every");
  expectFailure({"train", "--data-dir", folder.path.string(), "--eval-every",
                 "2", "--keep-best", "loss"},
                2, "--keep-best requires --save");
  EXPECT_EQ(run({"eval", "--data-dir", folder.path.string(), "--init", "random",
                 "--seed", "1"})
                .code,
            0);
  expectFailure({"eval", "--data-dir", folder.path.string()}, 1,
                "error[MR0104]: parameter 'w' is missing: expected "
                "f32[feature=3]\nmeshc: note: give it as --param w=FILE.npy, "
                "or --init random");
  expectFailure({"eval", "--data-dir", folder.path.string(), "--seed", "1"}, 2,
                "--seed, but the model draws no random numbers");
}

TEST_F(CommandLineTest, an_interrupt_exits_with_130) {
  writeLinearData(folder);
  stepsToInterrupt = 3;
  Outcome outcome = run({"train", "--data-dir", folder.path.string()});
  EXPECT_EQ(outcome.code, 130);
  EXPECT_THAT(outcome.messages, HasSubstr("stopped by SIGINT after epoch 1, "
                                          "step 3 of 8"));
}

TEST_F(CommandLineTest, a_loss_that_is_none_exits_with_3_where_asked) {
  writeLinearData(folder);
  const std::vector<std::string> train = {"train", "--data-dir",
                                          folder.path.string()};
  stepsToNan = 3;
  EXPECT_EQ(run(train).code, 0);
  std::vector<std::string> strict = train;
  strict.push_back("--fail-on-nan");
  stepsToNan = 3;
  expectFailure(strict, 3, "error[MR0305]: loss 'loss' is nan in epoch 1");
  EXPECT_EQ(run(strict).code, 0);
}

TEST_F(CommandLineTest, damaged_data_exits_with_4) {
  writeLinearData(folder);
  writeBytes(folder / "train-x", "nothing of the kind");
  expectFailure({"train", "--data-dir", folder.path.string()}, 4,
                "train-x' is damaged");
  expectFailure({"train", "--data-dir", folder / "missing"}, 1,
                "No such file or directory");
}

TEST_F(CommandLineTest, wrong_usage_exits_with_2) {
  expectFailure({}, 2, "subcommand is required");
  expectFailure({"trian"}, 2,
                "unknown argument 'trian'\nmeshc: note: did you mean 'train'?");
  expectFailure({"train", "--data-dir", ".", "--step", "3"}, 2,
                "unknown argument '--step'\nmeshc: note: did you mean "
                "'--steps'?");
  expectFailure({"train"}, 2,
                "--data-dir is required\nmeshc: note: give the folder of the "
                "data files: --data-dir DIR");
  expectFailure({"bench", "5"}, 2, "unknown argument '5'");
  expectFailure({"bench", "--steps", "0"}, 2, "0");
  expectFailure({"bench", "--steps", "many"}, 2, "many");
  expectFailure({"bench", "--steps", "3", "--threads", "0"}, 2, "--threads");
  expectFailure({"train", "--data-dir", ".", "--steps", "1", "--epochs", "1"},
                2, "--epochs");
  const std::string meant = "there is no command 'infer'\nmeshc: note: to run "
                            "the model on arrays: predict --from DIR --in "
                            "NAME=FILE.npy --out NAME=FILE.npy";
  expectFailure({"infer"}, 2, meant);
  expectFailure({"infer", "--in", "x=x.npy", "more"}, 2, meant);
  expectFailure({"train", "--data-dir", ".", "--transport", "udp"}, 2,
                "--transport: udp not in {auto,tcp,mpi}");
  for (const std::string flag : {"--seed", "--rank", "--ranks"})
    for (const std::string value : {"abc", "1x", "9223372036854775808"})
      expectFailure({"train", "--data-dir", ".", flag + "=" + value}, 2,
                    flag + ": expected an integer of 64 bits, found '" + value +
                        "'");
}

TEST_F(CommandLineTest, help_and_info) {
  Outcome help = run({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.output, HasSubstr("predict"));
  EXPECT_THAT(help.output, Not(HasSubstr("infer")));
  // Only the list of commands has those that are used most.
  EXPECT_THAT(help.output, HasSubstr("\n  train    --data-dir DIR "));
  EXPECT_THAT(run({"train", "--help"}).output, Not(HasSubstr("predict")));
  // Data and parameters come first, and what is for programs of the other
  // target is not listed.
  const std::string train = run({"train", "--help"}).output;
  EXPECT_THAT(train, ContainsRegex("--data-dir DIR \\(required\\)"));
  EXPECT_LT(train.find("--threads"), train.find("\nSeveral processes:\n"));
  EXPECT_LT(train.find("--seed"), train.find("\nSeveral processes:\n"));
  EXPECT_GT(train.find("--rank "), train.find("\nSeveral processes:\n"));
  EXPECT_THAT(train, Not(HasSubstr("GPUs:")));
  // What CLI11 shows of values that are bytes of the program's own.
  for (const char *command : {"train", "eval", "predict", "bench"})
    for (char c : run({command, "--help"}).output)
      ASSERT_TRUE(c == '\n' || (c >= ' ' && c <= '~')) << command << int(c);
  // Whatever an error ends with is listed.
  const std::string codes = help.output.substr(help.output.find("Exit codes"));
#define MESHC_ERROR(NAME, NUMBER, EXIT, EXPLANATION)                           \
  EXPECT_THAT(codes, ContainsRegex(fmt::format(                                \
                         "[:,][ \n]{} ", int(getExitCode(ErrorCode::NAME)))))  \
      << #NAME;
#include "runtime/exec/ErrorCodes.def"
  Outcome info = run({"info"});
  EXPECT_EQ(info.code, 0) << info.messages;
  EXPECT_THAT(info.output, HasSubstr("mesh      data = 2"));
  EXPECT_THAT(info.output, HasSubstr("w: f32[feature=3], replicated"));
  EXPECT_THAT(info.output,
              HasSubstr("in x: f32[batch=12, feature=3], <batch@data>"));
}

TEST(ExitCodeTest, lost_processes_have_their_own) {
  for (ErrorCode code : {ErrorCode::MissingRank, ErrorCode::RankLost,
                         ErrorCode::CommunicationFailed})
    EXPECT_EQ(int(getExitCode(code)), 6);
  for (ErrorCode code :
       {ErrorCode::WrongRanks, ErrorCode::CannotConnect, ErrorCode::RanksDiffer,
        ErrorCode::NoMpi, ErrorCode::GpuCallFailed})
    EXPECT_NE(int(getExitCode(code)), 6);
}

TEST(CommandLineProgramTest, a_damaged_program_exits_with_4) {
  std::vector<uint8_t> program = LinearModel::makeProgram(2);
  program.resize(program.size() / 2);
  const char *argv[] = {"linear", "bench", "--steps", "1"};
  testing::internal::CaptureStderr();
  EXPECT_EQ(runCommandLine(4, argv, program, LinearModel::getKernels(),
                           openCpuDevices),
            4);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              StartsWith("meshc: error[MR0301]: damaged program: "));
}

} // namespace
