#include "ExampleExecutable.h"

#include "frontend/plan/json/PlanDiff.h"
#include "frontend/plan/json/PlanJson.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace meshc;
using nlohmann::json;
using testing::HasSubstr;

namespace {

std::string render(const exec::ExecutableT &executable) {
  return plan::renderPlanJson(executable,
                              [](std::string_view) { return std::nullopt; });
}

std::string diff(const std::string &stored, const std::string &fresh) {
  std::string error;
  auto difference = plan::diffPlans(stored, fresh, error);
  EXPECT_EQ(difference.has_value(), error.empty());
  return difference ? *difference : "error: " + error;
}

std::string change(void (*edit)(json &)) {
  json plan = json::parse(render(plan::makeExample()));
  edit(plan);
  return plan.dump();
}

const std::string example = render(plan::makeExample());

TEST(PlanDiff, a_plan_is_its_own) {
  EXPECT_EQ(diff(example, example), "");
  // Lines move when a comment is added; the hash changes.
  EXPECT_EQ(diff(change([](json &plan) {
                   plan["sha256"] = "0";
                   for (json &tensor : plan["tensors"])
                     tensor["span"] = nullptr;
                   std::swap(plan["ops"][0], plan["ops"][1]);
                 }),
                 example),
            "");
}

TEST(PlanDiff, says_what_was_and_what_is) {
  const std::string stored = change([](json &plan) {
    plan["mesh"]["axes"][0]["size"] = 4;
    plan["rules"].erase(0);
    plan["memory"]["peak_bytes_per_device"] = 1 << 20;
    plan["totals"]["flops_per_device"] =
        plan["totals"]["flops_per_device"].get<int64_t>() + 1000000;
    for (json &tensor : plan["tensors"])
      if (tensor["name"] == "w")
        tensor["dims"][1]["axes"] = json::array();
      else if (tensor["name"] == "y")
        tensor["name"] = "z";
    plan["collectives"][0]["payload_bytes"] = 24;
  });
  const std::string text = diff(stored, example);
  EXPECT_THAT(text, HasSubstr("  model: tiny on data=2 model=3, cpu instead of "
                              "tiny on data=4 model=3, cpu\n"));
  EXPECT_THAT(text,
              HasSubstr("  layout: batch -> data, hidden -> model instead "
                        "of hidden -> model\n"));
  EXPECT_THAT(text,
              HasSubstr("  memory on each device: 512 B instead of 1 MiB\n"));
  EXPECT_THAT(text, HasSubstr("  computed by each device: 241 flop instead of "
                              "1 Mflop\n"));
  EXPECT_THAT(text, HasSubstr("  values\n"));
  EXPECT_THAT(
      text,
      HasSubstr("    w\n      is   in 5, hidden 3@model\n      was  in 5, "
                "hidden 3\n"));
  EXPECT_THAT(text, HasSubstr("    + y: batch 3@data, hidden 3@model\n"));
  EXPECT_THAT(text, HasSubstr("    - z: batch 3@data, hidden 3@model\n"));
  EXPECT_THAT(text, HasSubstr("  messages\n"));
  EXPECT_THAT(text, HasSubstr("    + all_reduce over model, 12 B of loss\n"));
  EXPECT_THAT(text, HasSubstr("    - all_reduce over model, 24 B of loss\n"));
}

TEST(PlanDiff, numbers_that_look_alike_are_told_apart) {
  const std::string stored = change([](json &plan) {
    plan["memory"]["peak_bytes_per_device"] = (1 << 30) + 1;
  });
  json fresh = json::parse(example);
  fresh["memory"]["peak_bytes_per_device"] = 1 << 30;
  EXPECT_EQ(diff(stored, fresh.dump()),
            "  memory on each device: 1073741824 instead of 1073741825\n");
}

TEST(PlanDiff, what_is_no_plan_is_refused) {
  EXPECT_THAT(diff("", example), HasSubstr("error: it is no JSON object"));
  EXPECT_THAT(diff("[]", example), HasSubstr("error: it is no JSON object"));
  EXPECT_THAT(diff(example.substr(0, example.size() / 2), example),
              HasSubstr("error: it is no JSON object, or only a part of one"));
  EXPECT_THAT(diff("{}", example), HasSubstr("error: it is no plan of meshc"));
  EXPECT_EQ(diff(change([](json &plan) { plan["schema"] = "meshc.plan/3"; }),
                 example),
            "error: it has the schema \"meshc.plan/3\", expected "
            "\"meshc.plan/2\"");
}

/// Calls `check` with a copy of `whole` for each value in it that is gone, and
/// for each that is of another type.
template <class Check>
void damage(json &whole, json &value, const Check &check) {
  const json kept = value;
  for (const json &other : {json(), json("text"), json(-7), json::array(),
                            json::object(), json(true)}) {
    value = other;
    check(whole.dump());
    value = kept;
  }
  if (value.is_array() || value.is_object())
    for (json &inner : value)
      damage(whole, inner, check);
  if (value.is_object())
    for (const auto &[name, inner] : kept.items()) {
      value.erase(name);
      check(whole.dump());
      value = kept;
    }
}

TEST(PlanDiff, damage_is_refused_or_found_where_it_counts) {
  json whole = json::parse(example);
  int refused = 0, differing = 0;
  damage(whole, whole, [&](const std::string &damaged) {
    const std::string text = diff(damaged, example);
    refused += text.starts_with("error: ") ? 1 : 0;
    differing += text.starts_with("  ") ? 1 : 0;
    EXPECT_TRUE(text.empty() || text.starts_with("error: ") ||
                text.starts_with("  "))
        << text;
  });
  EXPECT_GT(refused, 500);
  EXPECT_GT(differing, 50);
}

} // namespace
