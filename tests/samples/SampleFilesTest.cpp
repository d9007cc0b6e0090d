/// Several files of an input, which a pattern names.

#include "runtime/samples/SampleFiles.h"
#include "runtime/app/Session.h"
#include "runtime/io/FilePattern.h"
#include "runtime/samples/Dataset.h"
#include "tests/runtime/LinearModel.h"
#include "tests/runtime/ProgramBuilder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <numeric>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

TEST(FilePatternTest, names_in_the_order_of_their_bytes) {
  TemporaryFolder folder;
  // Characters that patterns of a shell have, and this one does not.
  const std::string below = folder / "a[b]*\\c";
  std::filesystem::create_directories(below + "/sub");
  for (const char *name :
       {"t_10.bin", "t_2.bin", "t_B.bin", "t_a.bin", ".t_0.bin", "t_1.bin.part",
        "t[1].bin", "sub/t_3.bin"})
    writeBytes(below + "/" + name, "");
  auto find = [&](const std::string &pattern) {
    Result<std::vector<std::string>> found = findFiles(below, pattern);
    EXPECT_TRUE(found) << found.getError().message;
    std::vector<std::string> names;
    for (const std::string &path : *found) {
      EXPECT_EQ(path.substr(0, below.size() + 1), below + "/");
      names.push_back(path.substr(below.size() + 1));
    }
    return names;
  };
  EXPECT_THAT(find("t_*.bin"),
              ElementsAre("t_10.bin", "t_2.bin", "t_B.bin", "t_a.bin"));
  EXPECT_THAT(find("t_?.bin"), ElementsAre("t_2.bin", "t_B.bin", "t_a.bin"));
  EXPECT_THAT(find("t[1].*"), ElementsAre("t[1].bin"));
  EXPECT_THAT(find("s?b/*"), ElementsAre("sub/t_3.bin"));
  // No pattern: whether it exists or not.
  EXPECT_THAT(find("none"), ElementsAre("none"));
  EXPECT_THAT(find(".t_*"), ElementsAre(".t_0.bin"));
  EXPECT_EQ(findFiles("", below + "/sub/*")->front(), below + "/sub/t_3.bin");
  auto expectError = [&](const std::string &pattern, const std::string &words) {
    Result<std::vector<std::string>> found = findFiles(below, pattern);
    ASSERT_FALSE(found) << pattern;
    EXPECT_EQ(found.getError().code, ErrorCode::CannotRead);
    EXPECT_THAT(found.getError().message, HasSubstr(words));
  };
  expectError("u_*.bin",
              fmt::format("no file in '{}' matches 'u_*.bin'", below));
  expectError("none/t_*", below + "/none/': No such file or directory");
  expectError("t_2.bin/*", "t_2.bin/': Not a directory");
}

/// A model that reads windows or rows of three from files of one pattern.
class SampleFilesTest : public testing::Test {
protected:
  SampleFilesTest() {
    source.input = "x";
    source.train = "p_*";
    source.stride = 3;
  }

  Result<Dataset> load(int64_t batch = 1) {
    ProgramBuilder builder({});
    const exec::TensorLayoutT layout =
        makeLayout(element, {{"batch", batch}, {"place", 3}});
    builder.beginProgram("step");
    builder.addInput("x", layout, builder.addBuffer("x", layout));
    builder.get().data.push_back(std::make_unique<exec::DataSourceT>(source));
    builder.get().sample_dim = "batch";
    executable = builder.finish();
    return Dataset::load(*executable, *executable->findProgram("step"),
                         Dataset::Split::Train, folder.path.string());
  }
  /// All samples, one behind the other.
  std::vector<int64_t> readAll() {
    Result<Dataset> dataset = load();
    EXPECT_TRUE(dataset) << dataset.getError().message;
    std::vector<int64_t> values;
    for (int64_t i = 0; dataset && i < dataset->getNumSamples(); ++i) {
      int64_t sample[3];
      Status filled =
          dataset->fill(0, executable->mesh, 0, std::vector<int64_t>{i},
                        reinterpret_cast<std::byte *>(sample));
      EXPECT_TRUE(filled) << filled.getError().message;
      values.insert(values.end(), sample, sample + 3);
    }
    return values;
  }
  void write(const std::string &name, const std::string &bytes) {
    writeBytes(folder / name, bytes);
  }
  void expectError(ErrorCode code, const std::vector<std::string> &words) {
    Result<Dataset> dataset = load();
    ASSERT_FALSE(dataset) << words[0];
    EXPECT_EQ(dataset.getError().code, code) << dataset.getError().message;
    for (const std::string &word : words)
      EXPECT_THAT(dataset.getError().message, HasSubstr(word));
  }

  template <typename T> static std::string toBytes(const std::vector<T> &all) {
    return {reinterpret_cast<const char *>(all.data()), all.size() * sizeof(T)};
  }
  static std::string makeTokens(const std::vector<uint16_t> &ids) {
    std::string header(1024, '\0');
    const int32_t head[] = {20240520, 1, int32_t(ids.size())};
    std::memcpy(header.data(), head, sizeof(head));
    return header + toBytes(ids);
  }
  /// An array of rows of three numbers.
  static std::string makeNpy(const std::vector<int16_t> &all,
                             const std::string &type = "<i2",
                             size_t width = 2) {
    std::string header = fmt::format(
        "{{'descr': '{}', 'fortran_order': False, 'shape': ({}, 3), }}", type,
        all.size() * 2 / (3 * width));
    header.resize(118, ' ');
    return "\x93NUMPY\x01" + std::string(1, '\0') + "\x76" +
           std::string(1, '\0') + header + toBytes(all);
  }
  static std::string makeRows(const std::vector<int16_t> &all,
                              const std::string &names = "a,b,c\n") {
    std::string text = names;
    for (size_t i = 0; i < all.size(); ++i)
      text += fmt::format("{}{}", all[i], i % 3 == 2 ? '\n' : ',');
    return text;
  }

  TemporaryFolder folder;
  exec::DataSourceT source;
  exec::ElementType element = exec::ElementType::i64;
  std::optional<Executable> executable;
};

/// Where no window crosses the end of a file, the samples are those of one file
/// with everything.
TEST_F(SampleFilesTest, samples_are_those_of_the_concatenation) {
  struct Format {
    exec::DataReader reader;
    const char *units;
    std::string (*make)(const std::vector<int16_t> &all);
  };
  const Format formats[] = {
      {exec::DataReader::tokens, "",
       [](const std::vector<int16_t> &all) {
         return makeTokens({all.begin(), all.end()});
       }},
      {exec::DataReader::tokens, "u16",
       [](const std::vector<int16_t> &all) { return toBytes(all); }},
      {exec::DataReader::text, "bytes",
       [](const std::vector<int16_t> &all) {
         return compress({all.begin(), all.end()});
       }},
      {exec::DataReader::text, "chars",
       [](const std::vector<int16_t> &all) {
         return std::string(all.begin(), all.end());
       }},
      {exec::DataReader::npy, "",
       [](const std::vector<int16_t> &all) { return makeNpy(all); }},
      {exec::DataReader::idx, "",
       [](const std::vector<int16_t> &all) {
         return makeIdx({int64_t(all.size()) / 3, 3}, {all.begin(), all.end()});
       }},
      {exec::DataReader::rows, "",
       [](const std::vector<int16_t> &all) { return makeRows(all); }},
  };
  std::vector<int16_t> all(3 * 10);
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = int16_t(i * i % 97);
  source.columns = {"a", "b", "c"};
  for (const Format &format : formats) {
    source.reader = format.reader;
    source.units = format.units;
    std::filesystem::remove(folder / "p_1");
    std::filesystem::remove(folder / "p_10");
    write("p_0", format.make(all));
    const std::vector<int64_t> expected = readAll();
    ASSERT_EQ(expected.size(), all.size());
    write("p_0", format.make({all.begin(), all.begin() + 6}));
    write("p_1", format.make({all.begin() + 6, all.begin() + 9}));
    write("p_10", format.make({all.begin() + 9, all.end()}));
    write("q_0", format.make(all));
    EXPECT_EQ(readAll(), expected)
        << exec::EnumNameDataReader(format.reader) << " " << format.units;
  }
}

TEST_F(SampleFilesTest, no_window_crosses_the_end_of_a_file) {
  source.reader = exec::DataReader::tokens;
  source.units = "u16";
  source.stride = 2;
  write("p_a", toBytes<uint16_t>({0, 1, 2, 3, 4, 5}));
  write("p_b", toBytes<uint16_t>({10, 11, 12}));
  write("p_c", toBytes<uint16_t>({20, 21, 22, 23, 24}));
  EXPECT_THAT(readAll(), ElementsAre(0, 1, 2, 2, 3, 4, 10, 11, 12, 20, 21, 22,
                                     22, 23, 24));
}

/// Characters are numbered among those of all files.
TEST_F(SampleFilesTest, characters_of_all_files) {
  source.reader = exec::DataReader::text;
  source.units = "chars";
  write("p_0", "zza");
  write("p_1", "xay");
  EXPECT_THAT(readAll(), ElementsAre(3, 3, 0, 1, 0, 2));
}

TEST_F(SampleFilesTest, digests_know_samples_and_not_names) {
  source.reader = exec::DataReader::tokens;
  source.units = "u16";
  auto getDigest = [&] { return *load()->getDigest(); };
  write("p_0", toBytes<uint16_t>({1, 2, 3}));
  const std::string alone = getDigest();
  write("p_1", toBytes<uint16_t>({4, 5, 6}));
  const std::string both = getDigest();
  EXPECT_NE(alone, both);
  std::filesystem::rename(folder / "p_1", folder / "p_2");
  EXPECT_EQ(getDigest(), both);
  std::filesystem::rename(folder / "p_2", folder / "p_");
  EXPECT_NE(getDigest(), both); // it comes first now
}

TEST_F(SampleFilesTest, files_that_disagree) {
  source.reader = exec::DataReader::tokens;
  source.units = "u16";
  const std::string ids = toBytes<uint16_t>({1, 2, 3});
  write("p_0", makeTokens({1, 2, 3}));
  write("p_1", ids);
  expectError(ErrorCode::WrongData, {"p_1' has ids of u16 without a header",
                                     "p_0' has ids of u16 behind a header"});
  source.units = "";
  std::string wide = makeTokens({1, 0, 2, 0, 3, 0});
  const int32_t head[] = {20240801, 7, 3};
  std::memcpy(wide.data(), head, sizeof(head));
  write("p_1", wide);
  expectError(ErrorCode::WrongData,
              {"p_1' has ids of i32", "p_0' has ids of u16"});
  source.reader = exec::DataReader::npy;
  write("p_0", makeNpy({1, 2, 3}));
  write("p_1", makeNpy({1, 0, 2, 0, 3, 0}, "<i4", 4));
  expectError(ErrorCode::WrongData, {"p_1' has samples of i32, 3 each",
                                     "p_0' has samples of i16, 3 each"});
  source.reader = exec::DataReader::idx;
  write("p_0", makeIdx({2, 3}, "abcdef"));
  write("p_1", makeIdx({2, 3}, "abcdef", 0x09));
  expectError(ErrorCode::WrongData, {"p_1' has samples of i8, 3 each",
                                     "p_0' has samples of u8, 3 each"});
  write("p_1", makeIdx({2, 1, 3}, "abcdef"));
  expectError(ErrorCode::WrongData, {"p_1' has samples of u8, 1 x 3 each",
                                     "p_0' has samples of u8, 3 each"});
  source.reader = exec::DataReader::rows;
  source.columns = {"a", "b", "c"};
  write("p_0", makeRows({1, 2, 3}));
  write("p_1", makeRows({1, 2, 3}, "a,b,d\n"));
  expectError(ErrorCode::WrongData,
              {"p_1' has the columns a, b, d", "p_0' has the columns a, b, c"});
}

TEST_F(SampleFilesTest, a_second_file_that_is_damaged) {
  source.reader = exec::DataReader::tokens;
  write("p_0", makeTokens({1, 2, 3}));
  write("p_1", makeTokens({1, 2, 3}) + "\1");
  expectError(ErrorCode::DamagedFile, {"p_1' is damaged"});
  write("p_1", makeTokens({1, 2}));
  expectError(ErrorCode::WrongData, {"p_1' has 2 ids"});
  std::filesystem::remove(folder / "p_1");
  std::filesystem::create_symlink("none", folder / "p_1");
  expectError(ErrorCode::CannotRead, {"p_1': No such file or directory"});
  std::filesystem::remove(folder / "p_1");
  std::filesystem::create_directory(folder / "p_1");
  expectError(ErrorCode::CannotRead, {"p_1'", "is a folder"});
  std::filesystem::remove(folder / "p_1");
  std::filesystem::remove(folder / "p_0");
  expectError(
      ErrorCode::CannotRead,
      {fmt::format("no file in '{}' matches 'p_*'", folder.path.string())});
  // One that is cut off while a training reads it.
  write("p_0", makeTokens({1, 2, 3}));
  write("p_1", makeTokens({4, 5, 6}));
  Result<Dataset> dataset = load();
  ASSERT_TRUE(dataset);
  ASSERT_EQ(truncate((folder / "p_1").c_str(), 1026), 0);
  int64_t sample[3];
  auto fill = [&](int64_t number) {
    return dataset->fill(0, executable->mesh, 0, std::vector{number},
                         reinterpret_cast<std::byte *>(sample));
  };
  EXPECT_TRUE(fill(0));
  Status second = fill(1);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.getError().message, HasSubstr("p_1'"));
}

/// An element that is out of range is named by its file.
TEST_F(SampleFilesTest, an_element_out_of_range) {
  source.reader = exec::DataReader::npy;
  element = exec::ElementType::u8;
  write("p_0", makeNpy({1, 2, 3}));
  write("p_1", makeNpy({1, 2, 3, 4, -5, 6}));
  expectError(ErrorCode::ValueOutOfRange, {"p_1': sample 1 is -5"});
}

/// Samples of one input are those of the other, file by file.
TEST(SampleFilesOfInputsTest, have_the_same_samples) {
  TemporaryFolder folder;
  writeLinearData(folder);
  std::vector<uint8_t> program = LinearModel::makeProgram(3, "*");
  std::unique_ptr<Session> session = std::move(
      *Session::create(program, LinearModel::getKernels(), openCpuDevices, 1));
  const Executable &executable = session->getExecutable();
  const exec::ProgramT &step = *executable.findProgram("step");
  auto load = [&] {
    return Dataset::load(executable, step, Dataset::Split::Train,
                         folder.path.string());
  };
  std::vector<int64_t> samples(LinearModel::batch);
  for (size_t i = 0; i < samples.size(); ++i)
    samples[i] = int64_t(i) * 37 % 100;
  auto read = [&](const char *input) {
    Result<Dataset> dataset = load();
    EXPECT_TRUE(dataset) << dataset.getError().message;
    EXPECT_EQ(dataset->getNumSamples(), 100);
    EXPECT_TRUE(dataset->feed(session->getDevices(), samples));
    return session->read(*findPort(step.inputs, input))->data;
  };
  const auto x = read("x"), y = read("y");
  splitLinearData(folder, {40, 1, 59});
  EXPECT_EQ(load()->getPaths().size(), 6u);
  EXPECT_EQ(read("x"), x);
  EXPECT_EQ(read("y"), y);
  // As many in all, but not in the first file.
  std::filesystem::rename(folder / "train-y0", folder / "train-y3");
  Result<Dataset> dataset = load();
  ASSERT_FALSE(dataset);
  EXPECT_EQ(dataset.getError().code, ErrorCode::WrongData);
  EXPECT_THAT(dataset.getError().message, HasSubstr("train-y1' has 1 samples"));
  EXPECT_THAT(dataset.getError().message, HasSubstr("train-x0' has 40"));
  // And not as many in all: the patterns are named.
  std::filesystem::remove(folder / "train-y3");
  EXPECT_THAT(load().getError().message, HasSubstr("train-y*' has 60 samples"));
}

} // namespace
