/// Layouts of programs that are damaged, or mean nothing.

#include "runtime/exec/Executable.h"
#include "tests/runtime/LinearModel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using testing::HasSubstr;

/// What is wrong with a program that has this rule besides.
static std::string check(const char *role, std::vector<std::string> dims,
                         std::vector<std::string> axes, int file = -1,
                         const char *values = "") {
  exec::ExecutableT data;
  std::vector<uint8_t> bytes = LinearModel::makeProgram(2);
  exec::GetExecutable(bytes.data())->UnPackTo(&data);
  auto rule = std::make_unique<exec::LayoutRuleT>();
  rule->role = role;
  rule->values = values;
  rule->dims = std::move(dims);
  rule->axes = std::move(axes);
  rule->span = std::make_unique<exec::Span>(file, 1, 1, 1, 2);
  data.rules.push_back(std::move(rule));
  return checkExecutable(data);
}

TEST(ExecutableRulesTest, every_defect_is_named) {
  EXPECT_EQ(check("params", {}, {}), "");
  EXPECT_EQ(check("state", {"d"}, {}), "");
  EXPECT_THAT(check("", {}, {}),
              HasSubstr("impossible rule of the layout: * -> ()"));
  EXPECT_THAT(check("", {"d", "d"}, {}),
              HasSubstr("impossible rule of the layout: (d, d) -> ()"));
  EXPECT_THAT(check("params", {}, {"nowhere"}),
              HasSubstr("impossible rule of the layout: params: * -> nowhere"));
  EXPECT_THAT(check("weights", {}, {}), HasSubstr("is for 'weights'"));
  EXPECT_EQ(check("", {"d"}, {}, -1, "h"), "");
  EXPECT_THAT(check("", {}, {}, -1, "h"),
              HasSubstr("impossible rule of the layout: \"h\": * -> ()"));
  EXPECT_THAT(check("state", {"d"}, {}, -1, "h"),
              HasSubstr("is for 'state' and for values called 'h'"));
  EXPECT_THAT(check("", {"d"}, {}, 9),
              HasSubstr("a source span names file 9 of"));
}
