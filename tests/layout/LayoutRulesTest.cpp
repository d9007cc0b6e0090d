#include "layout/LayoutRules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace meshc::layout;
using Kind = LayoutError::Kind;

namespace {

const Mesh mesh({{"batch", 4}, {"model", 8}});
const std::vector<std::string> dims{"batch", "length", "d_ff", "heads"};

std::vector<LayoutError> getErrors(std::vector<LayoutRule> rules) {
  auto result = LayoutRules::create(mesh, std::move(rules), dims);
  auto *errors = std::get_if<std::vector<LayoutError>>(&result);
  return errors ? *errors : std::vector<LayoutError>{};
}

LayoutRules getRules(const Mesh &mesh, std::vector<LayoutRule> rules) {
  return std::get<LayoutRules>(
      LayoutRules::create(mesh, std::move(rules), dims));
}

} // namespace

TEST(LayoutRules, GivesEachTensorItsSharding) {
  LayoutRules rules = getRules(
      mesh, {{"batch", {"batch"}}, {"d_ff", {"model"}}, {"heads", {"model"}}});
  const std::vector<std::string> tensor{"batch", "length", "d_ff"};
  const std::vector<int64_t> sizes{128, 500, 2048};
  auto sharding = std::get<Sharding>(rules.getSharding(tensor));
  EXPECT_EQ(sharding,
            (Sharding{{{mesh.getWholeAxis(0)}, {}, {mesh.getWholeAxis(1)}},
                      ReduceKind::None,
                      {}}));
  EXPECT_THAT(getLocalShape(sizes, sharding),
              testing::ElementsAre(32, 500, 256));
  EXPECT_TRUE(rules.getSplit("length").empty());
  EXPECT_EQ(rules.getSplit("heads"), DimSplit{mesh.getWholeAxis(1)});
  ASSERT_NE(rules.findRule("heads"), nullptr);
  EXPECT_EQ(rules.findRule("heads")->dim, "heads");
  EXPECT_EQ(rules.findRule("length"), nullptr);
  EXPECT_EQ(rules.getRules().size(), 3u);
}

TEST(LayoutRules, OneDimensionOverTwoAxes) {
  LayoutRules rules = getRules(mesh, {{"d_ff", {"model", "batch"}}});
  EXPECT_EQ(rules.getSplit("d_ff"),
            (DimSplit{mesh.getWholeAxis(1), mesh.getWholeAxis(0)}));
  EXPECT_EQ(getErrors({{"d_ff", {"model", "batch"}}}).size(), 0u);
}

TEST(LayoutRules, AxisOfSizeOneSplitsNothing) {
  Mesh small({{"batch", 1}, {"model", 2}});
  LayoutRules rules =
      getRules(small, {{"batch", {"batch"}}, {"heads", {"batch", "model"}}});
  const std::vector<std::string> one{"batch"}, two{"heads"},
      both{"batch", "heads"};
  EXPECT_TRUE(std::get<Sharding>(rules.getSharding(one)).isReplicated());
  EXPECT_EQ(std::get<Sharding>(rules.getSharding(two)).dims[0],
            DimSplit{small.getWholeAxis(1)});
  // Legality does not depend on the mesh's size.
  EXPECT_EQ(std::get<LayoutError>(rules.getSharding(both)).kind,
            Kind::SharedAxis);
}

TEST(LayoutRules, UnknownDim) {
  auto errors = getErrors({{"d_fff", {"model"}}});
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].kind, Kind::UnknownDim);
  EXPECT_EQ(errors[0].dim, "d_fff");
  EXPECT_EQ(errors[0].suggestion, "d_ff");
  EXPECT_EQ(getErrors({{"vocabulary", {"model"}}})[0].suggestion, "");
}

TEST(LayoutRules, UnknownAxis) {
  auto errors = getErrors({{"batch", {"batch"}}, {"d_ff", {"modle"}}});
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].kind, Kind::UnknownAxis);
  EXPECT_EQ(errors[0].rule, 1u);
  EXPECT_EQ(errors[0].dim, "d_ff");
  EXPECT_EQ(errors[0].axis, "modle");
  EXPECT_EQ(errors[0].suggestion, "model");
}

TEST(LayoutRules, DuplicateRule) {
  auto errors =
      getErrors({{"d_ff", {"model"}}, {"heads", {}}, {"d_ff", {"batch"}}});
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].kind, Kind::DuplicateRule);
  EXPECT_EQ(errors[0].rule, 2u);
  EXPECT_EQ(errors[0].otherRule, 0u);
  EXPECT_EQ(errors[0].dim, "d_ff");
}

TEST(LayoutRules, RepeatedAxisIsToldOnce) {
  auto errors = getErrors({{"d_ff", {"model", "model", "model"}}});
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].kind, Kind::RepeatedAxis);
  EXPECT_EQ(errors[0].axis, "model");
}

TEST(LayoutRules, TwoDimensionsOfOneTensorOnOneAxis) {
  LayoutRules rules = getRules(
      mesh, {{"heads", {"model"}}, {"batch", {"batch"}}, {"d_ff", {"model"}}});
  const std::vector<std::string> legal{"batch", "heads"},
      illegal{"batch", "heads", "length", "d_ff"};
  EXPECT_TRUE(std::holds_alternative<Sharding>(rules.getSharding(legal)));
  auto error = std::get<LayoutError>(rules.getSharding(illegal));
  EXPECT_EQ(error.kind, Kind::SharedAxis);
  EXPECT_EQ(error.dim, "d_ff");
  EXPECT_EQ(error.rule, 2u);
  EXPECT_EQ(error.otherDim, "heads");
  EXPECT_EQ(error.otherRule, 0u);
  EXPECT_EQ(error.axis, "model");
}

TEST(LayoutRules, TellsEveryError) {
  auto errors = getErrors({{"bacth", {"btch", "model", "model"}},
                           {"d_ff", {"model"}},
                           {"d_ff", {"mdel"}}});
  std::vector<Kind> kinds;
  for (const LayoutError &error : errors)
    kinds.push_back(error.kind);
  EXPECT_THAT(kinds,
              testing::ElementsAre(Kind::UnknownDim, Kind::UnknownAxis,
                                   Kind::RepeatedAxis, Kind::DuplicateRule,
                                   Kind::UnknownAxis));
  EXPECT_EQ(errors[0].suggestion, "batch");
  EXPECT_EQ(errors[1].suggestion, "batch");
  EXPECT_EQ(errors[4].suggestion, "model");
}
