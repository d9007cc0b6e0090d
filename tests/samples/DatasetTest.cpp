/// Samples on their way from files into blocks.

#include "runtime/samples/Dataset.h"
#include "runtime/app/Session.h"
#include "runtime/samples/Idx.h"
#include "runtime/samples/Prefetch.h"
#include "tests/runtime/LinearModel.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::HasSubstr;

namespace {

class DatasetTest : public testing::Test {
protected:
  DatasetTest() {
    writeLinearData(folder);
    Result<std::unique_ptr<Session>> created =
        Session::create(LinearModel::makeProgram(3), LinearModel::getKernels(),
                        openCpuDevices, 1);
    EXPECT_TRUE(created);
    session = std::move(*created);
  }
  Result<Dataset> load(Dataset::Split split = Dataset::Split::Train) {
    return Dataset::load(session->getExecutable(),
                         *session->getExecutable().findProgram("step"), split,
                         folder.path.string());
  }
  void expectWrong(const std::string &message) {
    Result<Dataset> dataset = load();
    ASSERT_FALSE(dataset) << message;
    EXPECT_EQ(getExitCode(dataset.getError().code), ExitCode::WrongInput);
    EXPECT_THAT(dataset.getError().message, HasSubstr(message));
  }

  TemporaryFolder folder;
  std::unique_ptr<Session> session;
};

TEST_F(DatasetTest, feeds_the_samples_that_were_asked_for) {
  Result<Dataset> dataset = load();
  ASSERT_TRUE(dataset) << dataset.getError().message;
  EXPECT_EQ(dataset->getNumSamples(), 100);
  EXPECT_EQ(dataset->getNumBatches(), 8);
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < LinearModel::batch; ++i)
    samples.push_back((i * 37 + 5) % 100);
  ASSERT_TRUE(dataset->feed(session->getDevices(), samples));
  const exec::ProgramT &step = *session->getExecutable().findProgram("step");
  HostArray x = *session->read(*findPort(step.inputs, "x"));
  HostArray y = *session->read(*findPort(step.inputs, "y"));
  Result<IdxFile> xFile = readIdx(folder / "train-x");
  Result<IdxFile> yFile = readIdx(folder / "train-y");
  ASSERT_TRUE(xFile);
  ASSERT_TRUE(yFile);
  for (int64_t i = 0; i < LinearModel::batch; ++i) {
    for (int64_t j = 0; j < 3; ++j)
      EXPECT_EQ(reinterpret_cast<const float *>(x.data.data())[i * 3 + j],
                float(xFile->getElement(samples[i] * 3 + j)));
    EXPECT_EQ(reinterpret_cast<const int32_t *>(y.data.data())[i],
              yFile->getElement(samples[i]));
  }
}

TEST_F(DatasetTest, files_that_do_not_fit) {
  writeBytes(folder / "train-x", makeIdx({100, 4}, std::string(400, 'a')));
  expectWrong("has 4 elements per sample (sizes 100 x 4), input 'x' expects 3: "
              "f32[batch=12, feature=3]");
  writeBytes(folder / "train-x", makeIdx({99, 3}, std::string(297, 'a')));
  expectWrong("has 100 samples");
  writeLinearData(folder);
  std::string labels(100, '\1');
  labels[42] = 9;
  writeBytes(folder / "train-y", makeIdx({100}, labels));
  expectWrong("sample 42 is 9, input 'y' expects at least 0 and less than 9");
  std::string floats = makeIdx({100}, std::string(400, '\0'));
  floats[2] = 0x0d;
  writeBytes(folder / "train-y", floats);
  expectWrong("floating-point elements, input 'y' expects i32[batch=12]");
  std::filesystem::remove(folder / "train-y");
  expectWrong("train-y': No such file or directory");
}

/// Programs are not trusted: what they say of readers is checked with them.
TEST_F(DatasetTest, programs_that_name_no_units_of_a_reader) {
  Executable program = *Executable::load(LinearModel::makeProgram(3));
  exec::DataSourceT &source = *program.data.data[0];
  source.stride = 1;
  auto check = [&](exec::DataReader reader, const std::string &units) {
    source.reader = reader;
    source.units = units;
    return checkExpanded(program.data);
  };
  EXPECT_EQ(check(exec::DataReader::tokens, ""), "");
  EXPECT_EQ(check(exec::DataReader::tokens, "u16"), "");
  EXPECT_EQ(check(exec::DataReader::text, "chars"), "");
  EXPECT_THAT(check(exec::DataReader::text, ""), HasSubstr("unknown units ''"));
  EXPECT_THAT(check(exec::DataReader::tokens, "u8"),
              HasSubstr("data for 'x': unknown units 'u8'"));
  EXPECT_THAT(check(exec::DataReader::idx, "chars"),
              HasSubstr("unknown units 'chars'"));
}

TEST_F(DatasetTest, a_negative_label) {
  std::string labels = makeIdx({100}, std::string(100, '\xff'));
  labels[2] = 0x09;
  writeBytes(folder / "train-y", labels);
  expectWrong("sample 0 is -1, input 'y' expects at least 0");
}

} // namespace
