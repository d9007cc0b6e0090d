/// The table of the best positions of an output.

#include "runtime/app/TopTable.h"

#include "tests/runtime/LinearModel.h"
#include "tests/runtime/ProgramBuilder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::HasSubstr;

namespace {

exec::PortT makePort(const std::string &name, exec::ElementType element,
                     std::vector<Dim> dims) {
  exec::PortT port;
  port.name = name;
  port.layout = std::make_unique<exec::TensorLayoutT>(
      makeLayout(element, std::move(dims)));
  return port;
}

template <typename T>
HostArray makeArray(const exec::PortT &port, const std::vector<T> &values) {
  HostArray array{port.layout->element, getSizes(*port.layout), {}};
  array.data.resize(values.size() * sizeof(T));
  std::memcpy(array.data.data(), values.data(), array.data.size());
  return array;
}

template <typename T>
std::string print(const exec::PortT &port, const Samples &samples,
                  const TopRequest &request, const std::vector<T> &values,
                  int64_t first, int64_t count,
                  const std::vector<int64_t> &truth = {}) {
  Result<TopTable> table = TopTable::create(port, samples, request);
  if (!table)
    return table.getError().message;
  testing::internal::CaptureStdout();
  table->add(makeArray(port, values), first, count, truth);
  return testing::internal::GetCapturedStdout();
}

TEST(TopTableTest, the_largest_values_of_each_sample) {
  const exec::PortT port =
      makePort("logits", exec::ElementType::f32, {{"batch", 3}, {"class", 4}});
  // The last place of the batch has no sample.
  EXPECT_EQ(
      print<float>(port, {"batch", 12, 3}, {2, "", "", ""},
                   {1.5, -2, 7.25, 0, -1e-9f, -3e8f, -5, -1e10f, 9, 9, 9, 9}, 9,
                   2),
      "sample  rank  class       logits\n"
      "     9     1      2         7.25\n"
      "     9     2      0          1.5\n"
      "    10     1      0       -1e-09\n"
      "    10     2      2           -5\n");
}

TEST(TopTableTest, labels_and_equal_values) {
  TemporaryFolder folder;
  writeBytes(folder / "labels", "T-shirt/top\r\nrobe d\xc3\xa9t\xc3\xa9\nbad "
                                "\x1b[31m");
  const exec::PortT port =
      makePort("p", exec::ElementType::f64, {{"batch", 1}, {"class", 3}});
  EXPECT_EQ(print<double>(port, {"batch", 1, 1}, {3, "", folder / "labels", ""},
                          {0.25, 0.5, 0.25}, 0, 1),
            "sample  rank  class                   p\n"
            "     0     1  robe d\xc3\xa9t\xc3\xa9             0.5\n"
            "     0     2  T-shirt/top          0.25\n"
            "     0     3  bad \\x1b[31m         0.25\n");
}

/// Also where it is no position of the output.
TEST(TopTableTest, the_right_position_is_beside_the_sample) {
  TemporaryFolder folder;
  writeBytes(folder / "labels", "shirt\ntrouser\nbag\n");
  const exec::PortT port =
      makePort("y", exec::ElementType::f32, {{"batch", 3}, {"class", 3}});
  const std::vector<float> values = {1, 6, 5, 2, 3, 4, 7, 2, 1};
  EXPECT_EQ(print<float>(port, {"batch", 3, 3},
                         {1, "", folder / "labels", "label"}, values, 0, 3,
                         {2, 1, 12}),
            "sample  label    rank  class              y\n"
            "     0  bag         1  trouser            6\n"
            "     1  trouser     1  bag                4\n"
            "     2       12     1  shirt              7\n");
  EXPECT_EQ(print<float>(port, {"batch", 3, 3}, {1, "", "", "is"}, values, 0, 2,
                         {2, 1}),
            "sample  is  rank  class            y\n"
            "     0   2     1      1            6\n"
            "     1   1     1      2            4\n");
}

TEST(TopTableTest, the_right_position_is_an_integer_of_each_sample) {
  exec::ProgramT program;
  auto add = [&](const std::string &name, exec::ElementType element,
                 std::vector<Dim> dims) {
    program.inputs.push_back(std::make_unique<exec::PortT>(
        makePort(name, element, std::move(dims))));
  };
  add("weight", exec::ElementType::f32, {{"batch", 2}});
  add("pair", exec::ElementType::i32, {{"batch", 2}, {"side", 2}});
  add("shared", exec::ElementType::i32, {{"side", 2}});
  const Samples samples{"batch", 2, 2};
  Result<const exec::PortT *> none =
      findTruth(program, samples, {1, "", "", "pair"});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.getError().code, ErrorCode::UnknownName);
  EXPECT_EQ(none.getError().note, "");
  add("label", exec::ElementType::i64, {{"batch", 2}});
  for (const char *name : {"weight", "pair", "shared", "labels"}) {
    Result<const exec::PortT *> found =
        findTruth(program, samples, {1, "", "", name});
    ASSERT_FALSE(found) << name;
    EXPECT_EQ(found.getError().note, "expected 'label'");
  }
  EXPECT_EQ(*findTruth(program, samples, {1, "", "", "label"}),
            program.inputs.back().get());
  EXPECT_EQ(*findTruth(program, samples, {1, "", "", ""}), nullptr);
}

TEST(TopTableTest, nan_is_no_small_number) {
  const exec::PortT port =
      makePort("y", exec::ElementType::f32, {{"batch", 1}, {"class", 4}});
  EXPECT_EQ(print<float>(port, {"batch", 1, 1}, {3, "", "", ""},
                         {1, NAN, INFINITY, -INFINITY}, 0, 1),
            "sample  rank  class            y\n"
            "     0     1      1          nan\n"
            "     0     2      2          inf\n"
            "     0     3      0            1\n");
}

/// Dims in front of the batch and between it and the last one.
TEST(TopTableTest, positions_along_other_dims_have_lines_of_their_own) {
  const exec::PortT port =
      makePort("y", exec::ElementType::f32,
               {{"head", 2}, {"batch", 2}, {"pos", 2}, {"token", 3}});
  std::vector<float> values(24);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = float(i * 7 % 24);
  std::string expected = "sample  head  pos  rank  token            y\n";
  for (size_t sample = 0; sample < 2; ++sample)
    for (size_t head = 0; head < 2; ++head)
      for (size_t pos = 0; pos < 2; ++pos) {
        const size_t row = ((head * 2 + sample) * 2 + pos) * 3;
        size_t best = 0;
        for (size_t i = 1; i < 3; ++i)
          if (values[row + i] > values[row + best])
            best = i;
        expected += fmt::format("{:>6}  {:>4}  {:>3}     1  {:>5}  {:>11}\n",
                                sample, head, pos, best, values[row + best]);
      }
  EXPECT_EQ(print<float>(port, {"batch", 2, 2}, {1, "", "", ""}, values, 0, 2),
            expected);
}

TEST(TopTableTest, the_batch_may_be_last_or_absent) {
  const exec::PortT turned =
      makePort("y", exec::ElementType::f32, {{"class", 3}, {"batch", 2}});
  EXPECT_EQ(print<float>(turned, {"batch", 2, 2}, {1, "", "", ""},
                         {1, 6, 5, 2, 3, 4}, 0, 2),
            "sample  rank  class            y\n"
            "     0     1      1            5\n"
            "     1     1      0            6\n");
  const exec::PortT whole =
      makePort("y", exec::ElementType::f32, {{"row", 2}, {"class", 2}});
  EXPECT_EQ(
      print<float>(whole, {"", 1, 1}, {1, "", "", ""}, {1, 6, 5, 2}, 0, 1),
      "row  rank  class            y\n"
      "  0     1      1            6\n"
      "  1     1      0            5\n");
}

TEST(TopTableTest, labels_are_as_many_as_positions) {
  TemporaryFolder folder;
  const exec::PortT port =
      makePort("y", exec::ElementType::f32, {{"batch", 1}, {"class", 3}});
  for (const std::string text : {"", "a\nb\n", "a\nb\nc\nd", "a\nb\nc\n\n"}) {
    writeBytes(folder / "labels", text);
    Result<TopTable> table =
        TopTable::create(port, {"batch", 1, 1}, {3, "", folder / "labels", ""});
    ASSERT_FALSE(table) << text;
    EXPECT_EQ(table.getError().code, ErrorCode::WrongData);
    EXPECT_THAT(table.getError().message,
                HasSubstr("labels, one in each line: dim 'class' of output 'y' "
                          "has 3 positions"));
  }
  writeBytes(folder / "labels", "a\n\nc\n");
  EXPECT_TRUE(
      TopTable::create(port, {"batch", 1, 1}, {3, "", folder / "labels", ""}));
  EXPECT_EQ(TopTable::create(port, {"batch", 1, 1}, {3, "", folder / "no", ""})
                .getError()
                .code,
            ErrorCode::CannotRead);
}

TEST(TopTableTest, the_output_that_fits) {
  exec::ProgramT program;
  auto add = [&](const std::string &name, exec::ElementType element,
                 std::vector<Dim> dims) {
    program.outputs.push_back(std::make_unique<exec::PortT>(
        makePort(name, element, std::move(dims))));
  };
  const Samples samples{"batch", 2, 2};
  auto find = [&](int64_t count, const std::string &name) {
    return findTopOutput(program, samples, {count, name, "", ""});
  };
  add("loss", exec::ElementType::f32, {});
  add("each", exec::ElementType::f32, {{"batch", 2}});
  add("chosen", exec::ElementType::i32, {{"batch", 2}, {"class", 3}});
  add("grad:w", exec::ElementType::f32, {{"in", 2}, {"class", 3}});
  EXPECT_EQ(find(1, "").getError().code, ErrorCode::NothingToDo);
  EXPECT_EQ(find(1, "loss").getError().code, ErrorCode::UnknownName);
  add("logits", exec::ElementType::f32, {{"batch", 2}, {"class", 3}});
  EXPECT_EQ((*find(3, ""))->name, "logits");
  EXPECT_EQ(find(4, "").getError().code, ErrorCode::Usage);
  EXPECT_EQ(find(4, "").getError().message,
            "--topk 4: dim 'class' of output 'logits' has 3 positions");
  add("odds", exec::ElementType::f64, {{"batch", 2}, {"class", 3}});
  EXPECT_EQ((*find(1, "odds"))->name, "odds");
  EXPECT_EQ(find(1, "").getError().code, ErrorCode::Usage);
  EXPECT_EQ(find(1, "").getError().note, "expected one of 'logits', 'odds'");
  EXPECT_EQ(find(1, "each").getError().message,
            "there is no output 'each' of floats with a dim beside 'batch'");
}

} // namespace
