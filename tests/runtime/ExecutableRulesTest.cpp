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
static std::string check(const char *text, int file = -1) {
  exec::ExecutableT data;
  std::vector<uint8_t> bytes = LinearModel::makeProgram(2);
  exec::GetExecutable(bytes.data())->UnPackTo(&data);
  auto rule = std::make_unique<exec::LayoutRuleT>();
  rule->text = text;
  rule->span = std::make_unique<exec::Span>(file, 1, 1, 1, 2);
  data.rules.push_back(std::move(rule));
  return checkExecutable(data);
}

TEST(ExecutableRulesTest, every_defect_is_named) {
  EXPECT_EQ(check("params: d -> ()"), "");
  EXPECT_THAT(check("params: * -> ()"),
              HasSubstr("\"*\" is split over an axis"));
  EXPECT_EQ(check("state: d -> ()"), "");
  EXPECT_EQ(check("\"h\": d -> ()"), "");
  EXPECT_THAT(check("* -> ()"), HasSubstr("\"*\" stands behind a role"));
  EXPECT_THAT(check("\"h\": * -> ()"), HasSubstr("\"*\" stands behind a role"));
  EXPECT_THAT(check("weights: * -> ()"),
              HasSubstr("a layout has no rules for \"weights\""));
  EXPECT_THAT(check(""), HasSubstr("'': expected a dimension"));
  EXPECT_THAT(check("(d, d) -> ()"),
              HasSubstr("impossible rule of the layout: (d, d) -> ()"));
  EXPECT_THAT(check("params: * -> nowhere"),
              HasSubstr("impossible rule of the layout: params: * -> nowhere"));
  EXPECT_THAT(check("d -> ()", 9), HasSubstr("a source span names file 9 of"));
}
