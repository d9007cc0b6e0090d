#include "layout/Layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace meshc::layout;
using Kind = LayoutError::Kind;

namespace {

const Mesh mesh({{"batch", 4}, {"model", 8}});
const std::vector<std::string> dims{"batch", "length", "d_ff", "heads"};

std::vector<LayoutError> getErrors(std::vector<LayoutRule> rules) {
  auto result = Layout::create(mesh, std::move(rules), dims);
  auto *errors = std::get_if<std::vector<LayoutError>>(&result);
  return errors ? *errors : std::vector<LayoutError>{};
}

Layout getTable(const Mesh &mesh, std::vector<LayoutRule> rules) {
  return std::get<Layout>(Layout::create(mesh, std::move(rules), dims));
}

using Answer = std::variant<TensorLayout, LayoutError>;

/// Sizes that every mesh here divides.
Answer ask(const Layout &layout, const std::vector<std::string> &tensor,
           Role role = Role::Value) {
  const std::vector<int64_t> sizes(tensor.size(), 64);
  return layout.getLayout({tensor, sizes}, role);
}

/// "<batch@data>", or "replicated".
std::string describe(const Layout &layout,
                     const std::vector<std::string> &tensor,
                     const std::vector<int64_t> &sizes, Role role) {
  const auto found =
      std::get<TensorLayout>(layout.getLayout({tensor, sizes}, role));
  return toString(layout.getMesh(), found.sharding, tensor);
}

/// Why rules lost, by number.
std::vector<std::pair<LostRule::Why, size_t>>
getLost(const Layout &layout, const std::vector<std::string> &tensor,
        const std::vector<int64_t> &sizes, Role role) {
  std::vector<std::pair<LostRule::Why, size_t>> lost;
  const auto found =
      std::get<TensorLayout>(layout.getLayout({tensor, sizes}, role));
  for (const LostRule &rule : found.lost)
    lost.emplace_back(rule.why, rule.rule);
  return lost;
}

} // namespace

TEST(Layout, GivesEachTensorItsSharding) {
  Layout rules = getTable(
      mesh,
      {{{"batch"}, {"batch"}}, {{"d_ff"}, {"model"}}, {{"heads"}, {"model"}}});
  const std::vector<std::string> tensor{"batch", "length", "d_ff"};
  const std::vector<int64_t> sizes{128, 500, 2048};
  auto sharding = std::get<TensorLayout>(ask(rules, tensor)).sharding;
  EXPECT_EQ(sharding,
            (Sharding{{{mesh.getWholeAxis(0)}, {}, {mesh.getWholeAxis(1)}},
                      ReduceKind::None,
                      {}}));
  EXPECT_THAT(getLocalShape(sizes, sharding),
              testing::ElementsAre(32, 500, 256));
  EXPECT_TRUE(rules.getSplit("length").empty());
  EXPECT_EQ(rules.getSplit("heads"), DimSplit{mesh.getWholeAxis(1)});
  EXPECT_EQ(rules.findRule("heads"), 2u);
  EXPECT_EQ(rules.findRule("length"), std::nullopt);
  EXPECT_EQ(rules.getRules().size(), 3u);
}

TEST(Layout, OneDimensionOverTwoAxes) {
  Layout rules = getTable(mesh, {{{"d_ff"}, {"model", "batch"}}});
  EXPECT_EQ(rules.getSplit("d_ff"),
            (DimSplit{mesh.getWholeAxis(1), mesh.getWholeAxis(0)}));
  EXPECT_EQ(getErrors({{{"d_ff"}, {"model", "batch"}}}).size(), 0u);
}

TEST(Layout, AxisOfSizeOneSplitsNothing) {
  Mesh small({{"batch", 1}, {"model", 2}});
  Layout rules = getTable(
      small, {{{"batch"}, {"batch"}}, {{"heads"}, {"batch", "model"}}});
  const std::vector<std::string> one{"batch"}, two{"heads"},
      both{"batch", "heads"};
  EXPECT_TRUE(std::get<TensorLayout>(ask(rules, one)).sharding.isReplicated());
  EXPECT_EQ(std::get<TensorLayout>(ask(rules, two)).sharding.dims[0],
            DimSplit{small.getWholeAxis(1)});
  // Legality does not depend on the mesh's size.
  EXPECT_EQ(std::get<LayoutError>(ask(rules, both)).kind, Kind::SharedAxis);
}

TEST(Layout, UnknownDim) {
  auto errors = getErrors({{{"d_fff"}, {"model"}}});
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].kind, Kind::UnknownDim);
  EXPECT_EQ(errors[0].dim, "d_fff");
  EXPECT_EQ(errors[0].suggestion, "d_ff");
  EXPECT_EQ(getErrors({{{"vocabulary"}, {"model"}}})[0].suggestion, "");
}

TEST(Layout, UnknownAxis) {
  auto errors = getErrors({{{"batch"}, {"batch"}}, {{"d_ff"}, {"modle"}}});
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].kind, Kind::UnknownAxis);
  EXPECT_EQ(errors[0].rule, 1u);
  EXPECT_EQ(errors[0].dim, "d_ff");
  EXPECT_EQ(errors[0].axis, "modle");
  EXPECT_EQ(errors[0].suggestion, "model");
}

TEST(Layout, DuplicateRule) {
  auto errors = getErrors(
      {{{"d_ff"}, {"model"}}, {{"heads"}, {}}, {{"d_ff"}, {"batch"}}});
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].kind, Kind::DuplicateRule);
  EXPECT_EQ(errors[0].rule, 2u);
  EXPECT_EQ(errors[0].otherRule, 0u);
  EXPECT_EQ(errors[0].dim, "d_ff");
}

TEST(Layout, RepeatedAxisIsToldOnce) {
  auto errors = getErrors({{{"d_ff"}, {"model", "model", "model"}}});
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].kind, Kind::RepeatedAxis);
  EXPECT_EQ(errors[0].axis, "model");
}

TEST(Layout, TwoDimensionsOfOneTensorOnOneAxis) {
  Layout rules = getTable(
      mesh,
      {{{"heads"}, {"model"}}, {{"batch"}, {"batch"}}, {{"d_ff"}, {"model"}}});
  const std::vector<std::string> legal{"batch", "heads"},
      illegal{"batch", "heads", "length", "d_ff"};
  EXPECT_TRUE(std::holds_alternative<TensorLayout>(ask(rules, legal)));
  auto error = std::get<LayoutError>(ask(rules, illegal));
  EXPECT_EQ(error.kind, Kind::SharedAxis);
  EXPECT_EQ(error.dim, "d_ff");
  EXPECT_EQ(error.rule, 2u);
  EXPECT_EQ(error.otherDim, "heads");
  EXPECT_EQ(error.otherRule, 0u);
  EXPECT_EQ(error.axis, "model");
}

TEST(Layout, TellsEveryError) {
  auto errors = getErrors({{{"bacth"}, {"btch", "model", "model"}},
                           {{"d_ff"}, {"model"}},
                           {{"d_ff"}, {"mdel"}}});
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

using Why = LostRule::Why;

TEST(Layout, ListsOfDims) {
  Layout rules = getTable(mesh, {{{"d_ff", "heads"}, {"model"}}});
  EXPECT_EQ(describe(rules, {"length", "heads"}, {8, 8}, Role::Value),
            "<heads@model>");
  EXPECT_EQ(describe(rules, {"d_ff"}, {8}, Role::Value), "<d_ff@model>");
  auto error = std::get<LayoutError>(ask(rules, {"heads", "d_ff"}));
  EXPECT_EQ(error.kind, Kind::SharedAxis);
  EXPECT_EQ(error.rule, error.otherRule);
}

TEST(Layout, UnlessSettlesAnAxis) {
  Layout rules =
      getTable(mesh, {{{"d_ff", "heads"}, {"model"}},
                      {{"length"}, {"model"}, Role::Value, {"d_ff", "heads"}}});
  const std::vector<std::string> both{"length", "heads"};
  EXPECT_EQ(describe(rules, {"batch", "length"}, {8, 8}, Role::Value),
            "<length@model>");
  EXPECT_EQ(describe(rules, both, {8, 8}, Role::Value), "<heads@model>");
  EXPECT_THAT(getLost(rules, both, {8, 8}, Role::Value),
              testing::ElementsAre(std::pair(Why::Unless, size_t(1))));
  EXPECT_TRUE(rules.isExempt("length", both));
  EXPECT_FALSE(rules.isExempt("heads", both));
  // What an operation may do is not less.
  EXPECT_EQ(rules.getSplit("length"), DimSplit{mesh.getWholeAxis(1)});
}

TEST(Layout, ARoleLiesAsTheOneBefore) {
  Layout rules = getTable(
      mesh, {{{"heads"}, {"model"}}, {{"length"}, {"batch"}, Role::Gradient}});
  for (auto [role, lies] :
       {std::pair(Role::Value, "<heads@model>"),
        std::pair(Role::Parameter, "<heads@model>"),
        std::pair(Role::Gradient, "<length@batch, heads@model>"),
        std::pair(Role::State, "<length@batch, heads@model>")})
    EXPECT_EQ(describe(rules, {"length", "heads"}, {64, 64}, role), lies);
  EXPECT_FALSE(rules.hasRulesFor(Role::Parameter));
  EXPECT_TRUE(rules.hasRulesFor(Role::State));
}

TEST(Layout, ARoleSaysOtherwiseOfADim) {
  Layout rules = getTable(mesh, {{{"heads"}, {"model"}},
                                 {{"heads"}, {}, Role::Parameter},
                                 {{"length"}, {"model"}, Role::Parameter}});
  EXPECT_EQ(describe(rules, {"length", "heads"}, {64, 64}, Role::Parameter),
            "<length@model>");
  EXPECT_THAT(getLost(rules, {"length", "heads"}, {64, 64}, Role::Parameter),
              testing::ElementsAre(std::pair(Why::Replaced, size_t(0))));
}

TEST(Layout, EveryTensorOnceMore) {
  Layout rules = getTable(
      mesh, {{{"heads"}, {"model"}}, {{}, {"batch"}, Role::Parameter}});
  auto lies = [&](const std::vector<std::string> &tensor,
                  const std::vector<int64_t> &sizes) {
    return describe(rules, tensor, sizes, Role::Parameter);
  };
  // Of 96 positions a device has 12 left, of 16 all.
  EXPECT_EQ(lies({"heads", "length"}, {96, 16}), "<heads@model, length@batch>");
  // The added axis is the minor one.
  EXPECT_EQ(lies({"heads", "length"}, {256, 16}), "<heads@(model, batch)>");
  // The most positions that it divides; of as many the first.
  EXPECT_EQ(lies({"length", "d_ff"}, {18, 8}), "<d_ff@batch>");
  EXPECT_EQ(lies({"length", "d_ff"}, {8, 8}), "<length@batch>");
  EXPECT_EQ(lies({"length"}, {6}), "replicated");
  EXPECT_EQ(lies({}, {}), "replicated");
  EXPECT_THAT(getLost(rules, {"length"}, {6}, Role::Parameter),
              testing::ElementsAre(std::pair(Why::Indivisible, size_t(1))));
  // Without a role nothing is added.
  EXPECT_EQ(describe(rules, {"length"}, {8}, Role::Value), "replicated");
}

TEST(Layout, EveryTensorThatLiesNotOnTheAxis) {
  Layout rules = getTable(
      mesh, {{{"heads"}, {"model"}}, {{}, {"model", "batch"}, Role::State}});
  EXPECT_EQ(describe(rules, {"heads", "length"}, {64, 64}, Role::State),
            "<heads@model>");
  EXPECT_THAT(getLost(rules, {"heads", "length"}, {64, 64}, Role::State),
              testing::ElementsAre(std::pair(Why::AlreadySplit, size_t(1))));
  EXPECT_EQ(describe(rules, {"d_ff"}, {64}, Role::State),
            "<d_ff@(model, batch)>");
}

TEST(Layout, SaysWhyARuleLost) {
  const Layout table =
      getTable(mesh, {{{"d_ff", "batch"}, {"model"}, Role::Value, {"heads"}},
                      {{"length"}, {}, Role::Parameter},
                      {{"length"}, {"batch"}},
                      {{}, {"model", "batch"}, Role::State},
                      {{"heads"}, {"batch"}, Role::Value, {}, "w"}});
  const auto explain = [&](std::vector<std::string> dims, int64_t size,
                           Role role, std::string_view name = "") {
    const std::vector<int64_t> sizes(dims.size(), size);
    auto asked =
        std::get<TensorLayout>(table.getLayout({dims, sizes, name}, role));
    std::vector<std::string> texts;
    for (const LostRule &lost : asked.lost)
      texts.push_back(table.explain(lost, asked, dims));
    return texts;
  };
  using testing::ElementsAre;
  EXPECT_THAT(explain({"d_ff", "heads"}, 64, Role::Value),
              ElementsAre("not beside \"heads\""));
  EXPECT_THAT(explain({"length"}, 64, Role::Parameter),
              ElementsAre("\"params: length -> ()\" says otherwise"));
  EXPECT_THAT(explain({"d_ff"}, 64, Role::State),
              ElementsAre("already split over model"));
  EXPECT_THAT(explain({"heads"}, 5, Role::State),
              ElementsAre("model and batch divide no dimension"));
  EXPECT_THAT(explain({"heads"}, 64, Role::State, "w"),
              ElementsAre("already split over batch"));
  // What `*` adds to a dim that the rule splits has replaced nothing.
  const Layout added = getTable(mesh, {{{"d_ff", "heads"}, {"model"}},
                                       {{}, {"batch"}, Role::Parameter},
                                       {{"heads"}, {}, Role::Parameter}});
  const std::vector<std::string> both{"d_ff", "heads"};
  const std::vector<int64_t> sizes{256, 2};
  auto asked =
      std::get<TensorLayout>(added.getLayout({both, sizes}, Role::Parameter));
  EXPECT_EQ(toString(mesh, asked.sharding, both), "<d_ff@(model, batch)>");
  ASSERT_EQ(asked.lost.size(), 1u);
  EXPECT_EQ(added.explain(asked.lost[0], asked, both),
            "\"params: heads -> ()\" says otherwise");
}

TEST(Layout, WhatKeepsADimWholeDoesNotSplitIt) {
  const Layout table = getTable(mesh, {{{"d_ff"}, {"model"}},
                                       {{"d_ff"}, {}, Role::Parameter},
                                       {{}, {"batch"}, Role::State}});
  const std::vector<std::string> dims{"d_ff"};
  const std::vector<int64_t> sizes{64};
  auto asked =
      std::get<TensorLayout>(table.getLayout({dims, sizes}, Role::State));
  EXPECT_EQ(toString(mesh, asked.sharding, dims), "<d_ff@batch>");
  EXPECT_EQ(asked.rules[0], std::vector<size_t>{2});
  EXPECT_THAT(getLost(table, {"d_ff"}, {64}, Role::State),
              testing::ElementsAre(std::pair(Why::Replaced, size_t(0)),
                                   std::pair(Why::Replaced, size_t(1))));
  EXPECT_EQ(table.explain(asked.lost[1], asked, dims),
            "\"state: * -> batch\" says otherwise");
}

TEST(Layout, OfEachRoleOneRuleForADim) {
  auto errors = getErrors({{{"heads"}, {"model"}},
                           {{"heads"}, {"batch"}, Role::Parameter},
                           {{}, {"batch"}, Role::State},
                           {{}, {"model"}, Role::State},
                           {{"heads", "d_ff"}, {"model"}, Role::Parameter}});
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0].kind, Kind::DuplicateRule);
  EXPECT_EQ(errors[0].rule, 3u);
  EXPECT_EQ(errors[0].otherRule, 2u);
  EXPECT_EQ(errors[0].dim, "");
  EXPECT_EQ(errors[1].rule, 4u);
  EXPECT_EQ(errors[1].otherRule, 1u);
  EXPECT_EQ(errors[1].dim, "heads");
}

TEST(Layout, AValueLiesAsItsNameSays) {
  const Layout table =
      getTable(mesh, {{{"batch"}, {"batch"}},
                      {{"length"}, {"model"}, Role::Value, {}, "layer/attn/*"},
                      {{"length"}, {"batch"}, Role::Value, {}, "*/scores"},
                      {{"batch"}, {}, Role::Value, {}, "*/scores"},
                      {{"d_ff"}, {"model"}, Role::Value, {"heads"}, "wide"}});
  auto getLying = [&](std::string_view name,
                      const std::vector<std::string> &tensor) {
    const std::vector<int64_t> sizes(tensor.size(), 64);
    auto found = std::get<TensorLayout>(
        table.getLayout({tensor, sizes, name}, Role::Value));
    return std::pair(toString(mesh, found.sharding, tensor), found.lost.size());
  };
  using Pair = std::pair<std::string, size_t>;
  EXPECT_EQ(getLying("", {"batch", "length"}), Pair("<batch@batch>", 0));
  EXPECT_EQ(getLying("h", {"batch", "length"}), Pair("<batch@batch>", 0));
  EXPECT_EQ(getLying("layer/attn/q", {"batch", "length"}),
            Pair("<batch@batch, length@model>", 0));
  // Of several the first; the one of the dim, and the second, have lost.
  EXPECT_EQ(getLying("layer/attn/scores", {"batch", "length"}),
            Pair("<length@model>", 2));
  EXPECT_EQ(getLying("wide", {"d_ff"}), Pair("<d_ff@model>", 0));
  EXPECT_EQ(getLying("wide", {"heads", "d_ff"}), Pair("replicated", 1));
  // A pattern may fit where the rule does not hold.
  for (auto [tensor, isByName] :
       {std::pair(std::vector<std::string>{"d_ff"}, true),
        {{"heads", "d_ff"}, false},
        {{"batch"}, false}}) {
    const std::vector<int64_t> sizes(tensor.size(), 64);
    auto found = table.getLayout({tensor, sizes, "wide"}, Role::Value);
    EXPECT_EQ(std::get<TensorLayout>(found).isByName, isByName);
  }
  EXPECT_TRUE(table.hasRulesFor(std::string_view("wide")));
  EXPECT_FALSE(table.hasRulesFor(std::string_view("width")));
  EXPECT_FALSE(table.hasRulesFor(Role::State));
  EXPECT_EQ(table.findRule("length"), std::nullopt);
  EXPECT_EQ(toString(table.getRules()[3]), "\"*/scores\": batch -> ()");
}

TEST(Layout, AParameterLiesAsItsNameSaysAndTheRestFollows) {
  const Layout table =
      getTable(mesh, {{{"d_ff"}, {"model"}},
                      {{}, {"batch"}, Role::Parameter},
                      {{"d_ff"}, {}, Role::Value, {}, "out/w"},
                      {{"length"}, {"model"}, Role::Value, {}, "out/w"},
                      {{"length", "heads"}, {}, Role::Value, {}, "whole"},
                      {{"heads"}, {"model"}, Role::State}});
  auto getLying = [&](std::string_view name,
                      const std::vector<std::string> &tensor, Role role) {
    const std::vector<int64_t> sizes(tensor.size(), 64);
    auto found =
        std::get<TensorLayout>(table.getLayout({tensor, sizes, name}, role));
    std::string text = toString(mesh, found.sharding, tensor);
    for (auto [why, rule] : found.lost)
      text += why == LostRule::Why::Replaced
                  ? ", not by " + toString(table.getRules()[rule])
                  : ", lost";
    return text;
  };
  EXPECT_EQ(getLying("in/w", {"heads", "d_ff"}, Role::Parameter),
            "<heads@batch, d_ff@model>");
  // In place of the rule for the dim; the role's `*` takes what is left.
  EXPECT_EQ(getLying("out/w", {"d_ff", "length", "heads"}, Role::Parameter),
            "<length@model, heads@batch>, not by d_ff -> model");
  EXPECT_EQ(getLying("out/w", {"d_ff", "length", "heads"}, Role::Gradient),
            "<length@model, heads@batch>, not by d_ff -> model");
  // Both dims of the name are settled, so that `*` has none.
  EXPECT_EQ(getLying("whole", {"length", "heads"}, Role::Parameter),
            "replicated, not by params: * -> batch");
  // The state follows the parameter but for what is said of state.
  EXPECT_EQ(getLying("whole", {"length", "heads"}, Role::State),
            "<heads@model>, not by params: * -> batch, not by \"whole\": "
            "(length, heads) -> ()");
  EXPECT_EQ(getLying("whole", {"length", "heads"}, Role::Value), "replicated");
}

TEST(Layout, OfEachNameOneRuleForADim) {
  auto errors = getErrors({{{"batch"}, {"batch"}},
                           {{"batch"}, {"model"}, Role::Value, {}, "h"},
                           {{"batch"}, {}, Role::Value, {}, "g"},
                           {{"batch"}, {}, Role::Value, {}, "h"}});
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].kind, Kind::DuplicateRule);
  EXPECT_EQ(errors[0].rule, 3u);
  EXPECT_EQ(errors[0].otherRule, 1u);
}

TEST(Layout, UnknownDimBehindUnless) {
  auto errors = getErrors({{{"heads"}, {"model"}, Role::Value, {"bath"}}});
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].kind, Kind::UnknownUnless);
  EXPECT_EQ(errors[0].dim, "bath");
  EXPECT_EQ(errors[0].suggestion, "batch");
}
