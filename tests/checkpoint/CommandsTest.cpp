/// What `ckpt` prints and exits with, and the flags of a training that saves.

#include "runtime/app/CommandLine.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "tests/runtime/LinearModel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include <sys/resource.h>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::ContainsRegex;
using testing::HasSubstr;

namespace fs = std::filesystem;

namespace {

struct Outcome {
  int code;
  std::string output;
  std::string messages;
};

class CommandsTest : public testing::Test {
protected:
  void SetUp() override { writeLinearData(folder); }

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
  Outcome train(std::vector<std::string> more, int64_t devices = 2) {
    std::vector<std::string> arguments = {"train", "--data-dir",
                                          folder.path.string(), "--no-eval"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments, devices);
  }
  void trainEightSteps() {
    Outcome outcome =
        train({"--steps", "8", "--save", saved, "--save-every", "4"});
    ASSERT_EQ(outcome.code, 0) << outcome.messages;
    EXPECT_THAT(outcome.messages,
                HasSubstr("saved " + saved + "/step-00000008\n"));
  }

  TemporaryFolder folder;
  const std::string saved = folder / "saved";
};

TEST_F(CommandsTest, ls_and_verify_tell_of_each_checkpoint) {
  trainEightSteps();
  Outcome ls = run({"ckpt", "ls", saved});
  EXPECT_EQ(ls.code, 0);
  EXPECT_THAT(ls.output, ContainsRegex("step-00000004  step 4  20.*  2 values "
                                       "in 1 file  linear on data = 2, f32, "
                                       "seed 0\n.*step-00000008  step 8"));
  Outcome verify = run({"ckpt", "verify", saved});
  EXPECT_EQ(verify.code, 0);
  EXPECT_THAT(verify.output,
              ContainsRegex("step-00000004  sound: 2 values, .*\n.*"
                            "step-00000008  sound: 2 values, "));
  EXPECT_EQ(run({"ckpt", "verify", saved + "/step-00000004"}).code, 0);
}

TEST_F(CommandsTest, verify_goes_on_behind_a_damaged_one) {
  trainEightSteps();
  const std::string shard =
      saved + "/step-00000004/shard-00000-of-00001.safetensors";
  std::string bytes = readBytes(shard);
  bytes.back() = char(bytes.back() ^ 1);
  writeBytes(shard, bytes);
  Outcome verify = run({"ckpt", "verify", saved});
  EXPECT_EQ(verify.code, 4);
  EXPECT_THAT(verify.output, HasSubstr("step-00000008  sound"));
  EXPECT_THAT(verify.messages, HasSubstr("error[MR0203]: '" + shard +
                                         "' is damaged: bytes 0 to"));
}

TEST_F(CommandsTest, diff_finds_what_is_not_equal) {
  trainEightSteps();
  const std::string first = saved + "/step-00000004";
  Outcome same = run({"ckpt", "diff", first, first});
  EXPECT_EQ(same.code, 0);
  EXPECT_EQ(same.output, "2 values, equal bit for bit\n");
  Outcome other = run({"ckpt", "diff", first, saved});
  EXPECT_EQ(other.code, 3);
  EXPECT_THAT(other.output,
              ContainsRegex("^w  3 of 3 elements differ, by 0.* at most, the "
                            "first at \\[0\\]: .* and .*\nresidual  12 of 12 "
                            "elements differ, by"));
  EXPECT_THAT(other.messages, HasSubstr("error[MR0607]: 2 of 2 values"));
  // On another mesh it would be saved as the same.
  Outcome program = run({"ckpt", "diff", saved}, /*devices=*/3);
  EXPECT_EQ(program.code, 0);
  EXPECT_EQ(program.output, "2 values, as this program has them\n");
}

TEST_F(CommandsTest, what_is_no_checkpoint) {
  auto expect = [&](const std::vector<std::string> &arguments, int code,
                    const std::string &words) {
    Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, code) << outcome.messages;
    EXPECT_THAT(outcome.messages, HasSubstr(words));
    EXPECT_EQ(outcome.output, "");
  };
  expect({"ckpt"}, 2, "error[MR0101]");
  expect({"ckpt", "ls"}, 2, "folder is required");
  expect({"ckpt", "rm", saved}, 2, "error[MR0101]");
  expect({"ckpt", "ls", saved}, 1, "cannot read '" + saved);
  fs::create_directory(saved);
  for (const char *command : {"ls", "verify", "diff"})
    expect({"ckpt", command, saved}, 1, "error[MR0601]: '" + saved);
}

TEST_F(CommandsTest, flags_that_make_no_sense) {
  auto expect = [&](const std::vector<std::string> &arguments,
                    const std::string &words) {
    Outcome outcome = train(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.messages;
    EXPECT_THAT(outcome.messages, HasSubstr(words));
  };
  for (const char *text : {"", "0", "-1", "x", "5x", "1.5h", "10 m", "m"})
    expect({"--save", saved, "--save-every", text}, "--save-every");
  expect({"--save-every", "5"}, "--save-every requires --save");
  expect({"--keep", "5"}, "--keep requires --save");
  expect({"--save", saved, "--keep", "0"}, "--keep");
  expect({"--save", ""}, "--save");
  EXPECT_FALSE(fs::exists(saved));
}

TEST_F(CommandsTest, the_lock_ends_with_the_training) {
  trainEightSteps();
  for (const char *steps : {"9", "10"})
    EXPECT_EQ(train({"--steps", steps, "--save", saved, "--resume", saved,
                     "--save-memory", "8MiB"})
                  .code,
              0);
  EXPECT_EQ(listSteps(saved)->back(), 10);
}

TEST_F(CommandsTest, a_signal_saves_the_step_it_ends_with) {
  stepsToInterrupt = 6;
  Outcome stopped = train({"--steps", "20", "--save", saved, "--threads", "1"},
                          /*devices=*/1);
  EXPECT_EQ(stopped.code, 130);
  EXPECT_THAT(stopped.messages, HasSubstr("saved " + saved));
  EXPECT_THAT(stopped.messages, HasSubstr("stopped by SIGINT after"));
  EXPECT_THAT(*listSteps(saved), testing::ElementsAre(6));
}

} // namespace
