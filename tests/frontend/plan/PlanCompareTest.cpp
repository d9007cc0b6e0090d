#include "ExampleExecutable.h"
#include "JsonSchema.h"

#include "frontend/plan/json/PlanCompare.h"
#include "frontend/plan/json/PlanJson.h"
#include "frontend/plan/text/ComparisonText.h"

#include <algorithm>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace meshc;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

namespace {

const std::string example = plan::renderPlanJson(
    plan::makeExample(), [](std::string_view) { return std::nullopt; });

std::string change(const std::function<void(json &)> &edit) {
  json plan = json::parse(example);
  edit(plan);
  return plan.dump();
}

plan::PlanComparison compare(const std::vector<plan::PlanToCompare> &plans) {
  plan::UnreadablePlan unreadable;
  auto comparison = plan::PlanComparison::make(plans, unreadable);
  EXPECT_TRUE(comparison) << unreadable.index << ": " << unreadable.reason;
  return comparison ? *comparison : plan::PlanComparison();
}

std::string compareText(const std::vector<plan::PlanToCompare> &plans,
                        size_t width = 100) {
  return renderComparisonText(compare(plans), width);
}

/// The text from `heading` to before the next empty line.
std::string getSection(const std::string &text, const std::string &heading) {
  const size_t begin = text.find("\n" + heading + "\n");
  if (begin == std::string::npos)
    return "no section '" + heading + "' in\n" + text;
  const size_t rows = begin + heading.size() + 2;
  const size_t end = text.find("\n\n", rows);
  return text.substr(rows, end == std::string::npos ? end : end + 1 - rows);
}

/// A value `name` in a scope, as of a loop or call; `axes` split its one dim.
void addValue(json &plan, const std::string &scope, const std::string &name,
              const json &axes) {
  json tensor = plan["tensors"][0];
  tensor["id"] = scope + name;
  tensor["fold"] = scope + name;
  tensor["role"] = "activation";
  tensor["name"] = scope + "/" + name;
  tensor["scope"] = scope;
  tensor["dims"] = json({{{"name", "wide"},
                          {"size", 12},
                          {"axes", axes},
                          {"local_size", axes.empty() ? 12 : 4}}});
  plan["tensors"].push_back(tensor);
}

/// Four scopes, each like the first, with a value `up` that is split in the
/// first `numSplit` of them.
std::string makeCalls(size_t numSplit) {
  return change([&](json &plan) {
    for (size_t call = 1; call <= 4; ++call) {
      const std::string scope = "b" + std::to_string(call);
      plan["scopes"].push_back({{"id", scope},
                                {"name", scope},
                                {"parent", nullptr},
                                {"iteration", nullptr},
                                {"like", "b1"}});
      addValue(plan, scope, "up",
               call <= numSplit ? json({"model"}) : json::array());
    }
  });
}

TEST(PlanCompare, a_plan_differs_from_itself_in_nothing) {
  const std::string text =
      compareText({{"one", example, ""}, {"other", example, ""}});
  EXPECT_THAT(text, HasSubstr("tiny on data=2 model=3, cpu\n"
                              "  A  one\n"
                              "     layout: batch -> data, hidden -> model\n"
                              "  B  other\n"));
  EXPECT_THAT(text, HasSubstr("\nthe same in all: peak memory 512 B, computed "
                              "by each device 241 flop, "));
  EXPECT_THAT(text, HasSubstr("\nthe plans do not differ\n"));
  EXPECT_THAT(text, Not(HasSubstr("verdict")));
}

TEST(PlanCompare, a_table_has_what_differs) {
  const std::string other = change([](json &plan) {
    plan["memory"]["peak_bytes_per_device"] = 1336;
    plan["memory"]["activations"] =
        plan["memory"]["activations"].get<int64_t>() + 824;
    plan["totals"]["flops_per_device"] = 482;
  });
  const std::string text =
      compareText({{"one", example, ""}, {"other", other, ""}});
  // 1336 / 512; twice as many flops are not above doubling.
  EXPECT_THAT(text, HasSubstr("  peak memory                 512 B   1.3 KiB "
                              "2.61 ×\n"));
  EXPECT_THAT(text, HasSubstr("  computed by each device  241 flop  482 flop"
                              "\n"));
  EXPECT_THAT(text, HasSubstr("\n    activations  "));
  EXPECT_THAT(text, Not(HasSubstr("do not differ")));
  EXPECT_THAT(text, HasSubstr("the same in all: params 60 B, "));
}

TEST(PlanCompare, numbers_that_look_alike_have_all_digits) {
  const auto make = [](int64_t bytes) {
    return change(
        [&](json &plan) { plan["memory"]["peak_bytes_per_device"] = bytes; });
  };
  EXPECT_THAT(compareText({{"one", make((1 << 30) + 1), ""},
                           {"other", make(1 << 30), ""}}),
              HasSubstr("  peak memory  1073741825 B  1073741824 B\n"));
}

TEST(PlanCompare, says_what_fits_and_what_takes_how_long) {
  const auto make = [](int64_t limit, double exposed) {
    return change([&](json &plan) {
      plan["target"] = "cuda";
      plan["machine"] = {{"label", "one H100"}};
      plan["memory"]["limit_bytes"] = limit;
      plan["totals"]["step_us"] = 7.5 + exposed;
      plan["totals"]["compute_us"] = 7.5;
      plan["totals"]["exposed_us"] = exposed;
    });
  };
  const std::string text = compareText(
      {{"one", make(500, 2.5), ""}, {"other", make(1000, 7.5), ""}});
  EXPECT_THAT(text,
              HasSubstr("  verdict             12 B too much  fits, 488 B "
                        "left\n"));
  EXPECT_THAT(text, HasSubstr("  step, predicted             10 us"
                              "             15 us\n"));
  EXPECT_THAT(text, HasSubstr("    waiting                  2.5 us"
                              "            7.5 us 3 ×\n"));
  EXPECT_THAT(text, HasSubstr("the same in all: peak memory 512 B, computing "
                              "7.5 us, "));
  EXPECT_THAT(text, Not(HasSubstr("no times")));
  EXPECT_THAT(compareText({{"one", make(500, 2), ""}, {"other", example, ""}}),
              testing::AllOf(HasSubstr("note: B has no times: planned without "
                                       "--machine\n"),
                             HasSubstr("note: targets differ: A cuda; B cpu\n"),
                             HasSubstr("  step, predicted            9.5 us"
                                       "  -\n")));
}

TEST(PlanCompare, a_machine_that_cannot_run_all_has_no_times) {
  const std::string unpriced = change([](json &plan) {
    plan["machine"] = {{"label", "one T4"}, {"cannot_run", {"o0"}}};
  });
  EXPECT_THAT(compareText({{"one", unpriced, ""}, {"other", unpriced, ""}}),
              HasSubstr("note: A has no times: one T4 has no units for some of "
                        "its matmuls\n"));
}

TEST(PlanCompare, names_what_other_plans_are_of) {
  const std::string other = change([](json &plan) {
    plan["model"] = "large";
    plan["mesh"]["axes"][0]["size"] = 4;
    plan["dims"][0]["size"] = 12;
  });
  const std::string text = compareText(
      {{"one", example, ""}, {"two", other, ""}, {"three", example, ""}});
  EXPECT_THAT(text, HasSubstr("  B  two\n     large on data=4 model=3, cpu\n"));
  EXPECT_THAT(text, HasSubstr("note: models differ: A, C tiny; B large\n"));
  EXPECT_THAT(text, HasSubstr("note: meshes differ: A, C data=2 x model=3; B "
                              "data=4 x model=3\n"));
  EXPECT_THAT(text, HasSubstr("note: sizes of batch differ: A, C 6; B 12\n"));
}

TEST(PlanCompare, splits_that_differ_alike_are_folded) {
  const plan::PlanComparison comparison =
      compare({{"one", makeCalls(4), ""}, {"other", makeCalls(1), ""}});
  ASSERT_EQ(comparison.values.size(), 1u);
  EXPECT_EQ(comparison.values[0].name, "b2/up");
  EXPECT_EQ(comparison.values[0].times, 3);
  EXPECT_EQ(getSection(renderComparisonText(comparison, 100),
                       "values that are split otherwise"),
            "  b2/up × 3\n"
            "    A  wide 4@model\n"
            "    B  wide 12\n");
}

TEST(PlanCompare, plans_that_split_alike_share_a_line) {
  EXPECT_EQ(getSection(compareText({{"one", makeCalls(4), ""},
                                    {"two", makeCalls(0), ""},
                                    {"three", makeCalls(4), ""}}),
                       "values that are split otherwise"),
            "  b1/up × 4\n"
            "    A, C  wide 4@model\n"
            "    B     wide 12\n");
}

TEST(PlanCompare, values_that_some_do_not_have) {
  const std::string text = compareText({{"one", example, ""},
                                        {"two", makeCalls(4), ""},
                                        {"three", makeCalls(4), ""}});
  EXPECT_EQ(getSection(text, "values only in B, C"),
            "  b1/up × 4: wide 4@model\n");
}

// The sizes of blocks follow from those of the mesh; a note says that.
TEST(PlanCompare, blocks_on_other_meshes_are_split_alike) {
  const std::string other = change([](json &plan) {
    plan["mesh"]["axes"][1]["size"] = 7;
    for (json &tensor : plan["tensors"])
      for (json &dim : tensor["dims"])
        if (dim["name"] == "hidden")
          dim["local_size"] = 1;
  });
  EXPECT_THAT(compareText({{"one", example, ""}, {"other", other, ""}}),
              Not(HasSubstr("values")));
}

TEST(PlanCompare, collectives_of_one_or_of_another_size) {
  const std::string other = change([](json &plan) {
    plan["collectives"][0]["payload_bytes"] = 24;
    plan["collectives"].push_back(plan["collectives"][0]);
    plan["collectives"][1]["kind"] = "reduce_scatter";
    plan["collectives"][1]["wire_bytes_per_device"] = 30;
  });
  const std::string text =
      compareText({{"one", example, ""}, {"other", other, ""}});
  EXPECT_EQ(getSection(text, "collectives of another count or size"),
            "  all_reduce over model of loss\n"
            "    A  12 B\n"
            "    B  2 times 24 B\n");
  EXPECT_EQ(getSection(text, "collectives only in A"),
            "  all_reduce over data, 60 B of gradient of w\n");
  EXPECT_EQ(getSection(text, "collectives only in B"),
            "  reduce_scatter over data, 60 B of gradient of w\n");
  EXPECT_THAT(text, HasSubstr("\n  collectives             2     3\n"));
  EXPECT_THAT(text, HasSubstr("\n    reduce_scatter        0     1\n"));
}

TEST(PlanCompare, what_does_not_compile_is_a_column) {
  const std::vector<plan::PlanToCompare> plans = {
      {"the spec's", example, ""},
      {"batch=nowhere", "", "error[MC0401]: no axis\n  help: there is data\n"}};
  const std::string text = compareText(plans);
  EXPECT_THAT(text, HasSubstr("  verdict                         -  does not "
                              "compile\n"));
  EXPECT_THAT(text, HasSubstr("  peak memory                 512 B"
                              "                 -\n"));
  EXPECT_THAT(text, HasSubstr("\nB does not compile\n"
                              "  error[MC0401]: no axis\n"
                              "    help: there is data\n"));
  EXPECT_THAT(text, Not(HasSubstr("the same")));
  const json written = json::parse(renderComparisonJson(compare(plans)));
  EXPECT_EQ(written["plans"][1]["error"], plans[1].error);
  EXPECT_EQ(written["quantities"][0]["numbers"], json({512, nullptr}));
}

TEST(PlanCompare, an_unreadable_plan_is_named) {
  plan::UnreadablePlan unreadable;
  const std::vector<plan::PlanToCompare> plans = {
      {"one", example, ""}, {"other", example.substr(0, 300), ""}};
  EXPECT_FALSE(plan::PlanComparison::make(plans, unreadable));
  EXPECT_EQ(unreadable.index, 1u);
  EXPECT_EQ(unreadable.reason, "it is no JSON object, or only a part of one");
}

TEST(PlanCompare, lines_are_no_longer_than_the_width) {
  std::vector<plan::PlanToCompare> plans;
  for (int count = 0; count < 7; ++count)
    plans.push_back({"a label of many words that takes more than a line has",
                     makeCalls(size_t(count % 5)), ""});
  plans.push_back({"batch=nowhere", "", "error\n"});
  for (size_t width : {40, 100}) {
    std::istringstream text(compareText(plans, width));
    size_t heads = 0;
    for (std::string line; std::getline(text, line);) {
      const auto length = std::count_if(line.begin(), line.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
      });
      EXPECT_LE(size_t(length), width) << line;
      heads += line.starts_with("  verdict") ? 1 : 0;
    }
    EXPECT_EQ(heads > 1, width == 40) << heads;
  }
}

TEST(PlanCompare, letters_go_on_behind_z) {
  EXPECT_EQ(plan::PlanComparison::getLetter(0), "A");
  EXPECT_EQ(plan::PlanComparison::getLetter(25), "Z");
  EXPECT_EQ(plan::PlanComparison::getLetter(26), "AA");
  EXPECT_EQ(plan::PlanComparison::getLetter(27 * 26), "AAA");
}

// Written from the README, not from the printer.
TEST(PlanCompare, the_json_has_the_fields_of_the_contract) {
  const json names = {{"list", "string"}};
  const json optional = {{"nullable", "string"}};
  const json dim = {{"name", "string"}, {"size", "integer"}, {"axes", names}};
  json blockDim = dim;
  blockDim["local_size"] = "integer";
  const json schema = {
      {"schema", {{"one of", {"meshc.comparison/1"}}}},
      {"plans",
       {{"list",
         {{"letter", "string"},
          {"label", "string"},
          {"model", "string"},
          {"program", optional},
          {"target", "string"},
          {"machine", optional},
          {"mesh",
           {{"axes", {{"list", {{"name", "string"}, {"size", "integer"}}}}}}},
          {"dims", {{"list", dim}}},
          {"sha256", "string"},
          {"fits?", "boolean"}}}}},
      {"notes", names},
      {"quantities",
       {{"list",
         {{"name", "string"},
          {"part", optional},
          {"unit", {{"one of", {"bytes", "flops", "us", "count"}}}},
          {"equal", "boolean"},
          {"numbers", {{"list", {{"nullable", "number"}}}}}}}}},
      {"values",
       {{"list",
         {{"name", "string"},
          {"times", "integer"},
          {"splits",
           {{"list",
             {{"nullable",
               {{"dims", {{"list", blockDim}}},
                {"partial?", {{"kind", "string"}, {"axes", names}}}}}}}}}}}}},
      {"collectives",
       {{"list",
         {{"kind", "string"},
          {"axes", names},
          {"value", optional},
          {"times", "integer"},
          {"plans",
           {{"list",
             {{"list",
               {{"payload_bytes", "integer"}, {"count", "integer"}}}}}}}}}}}};
  const std::string other = change([](json &plan) {
    plan["memory"]["limit_bytes"] = 500;
    plan["tensors"][1]["dims"] = json::array();
    plan["collectives"].erase(0);
  });
  const json written =
      json::parse(renderComparisonJson(compare({{"one", example, ""},
                                                {"two", makeCalls(3), ""},
                                                {"three", other, ""}})));
  EXPECT_THAT(plan::findViolations(written, schema), testing::IsEmpty());
  EXPECT_EQ(written["plans"][2]["fits"], false);
  EXPECT_FALSE(written["plans"][0].contains("fits"));
  const json failed = json::parse(renderComparisonJson(compare(
      {{"one", example, ""}, {"two", "", "error"}, {"three", other, ""}})));
  EXPECT_EQ(failed["collectives"][0]["plans"][1], json());
  EXPECT_EQ(failed["values"][0]["splits"][1], json());
  EXPECT_EQ(written["values"].size(), 3u);
  EXPECT_EQ(written["collectives"][0]["plans"],
            json({{{{"payload_bytes", 12}, {"count", 1}}},
                  {{{"payload_bytes", 12}, {"count", 1}}},
                  json::array()}));
}

} // namespace
