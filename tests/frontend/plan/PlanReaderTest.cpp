#include "ExampleExecutable.h"

#include "frontend/plan/json/PlanJson.h"
#include "frontend/plan/json/PlanReader.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <thread>
#include <unistd.h>

#include <sys/stat.h>

using namespace meshc;
using nlohmann::json;
using testing::HasSubstr;

namespace {

const std::string example =
    plan::renderPlanJson(plan::makeExample(), [](std::string_view) {
      return std::optional<std::string>("model tiny\n");
    });

/// Why `text` is refused; empty if it is read.
std::string refuse(const std::string &text) {
  std::string error;
  EXPECT_EQ(plan::readPlan(text, error).has_value(), error.empty());
  return error;
}

std::string change(const std::function<void(json &)> &edit) {
  json plan = json::parse(example);
  edit(plan);
  return plan.dump();
}

class PlanReaderFiles : public testing::Test {
protected:
  PlanReaderFiles()
      : folder(std::filesystem::temp_directory_path() /
               ("meshc-plans-" + std::to_string(getpid()))) {
    std::filesystem::create_directory(folder);
  }
  ~PlanReaderFiles() override { std::filesystem::remove_all(folder); }

  std::string refuseFile(const std::string &name) {
    std::string error;
    EXPECT_FALSE(plan::readPlanText(folder / name, error));
    return error;
  }

  std::filesystem::path folder;
};

TEST(PlanReader, reads_what_plans_are_compared_by) {
  std::string error;
  const auto read = plan::readPlan(example, error);
  ASSERT_TRUE(read) << error;
  EXPECT_EQ(read->describeSubject(), "tiny on data=2 model=3, cpu");
  EXPECT_EQ(read->describeLayout(), "batch -> data, hidden -> model");
  EXPECT_EQ(read->memory, 512);
  EXPECT_EQ(read->flops, 241);
  EXPECT_FALSE(read->stepUs);
  ASSERT_EQ(read->messages.size(), 2u);
  EXPECT_EQ(read->messages[0].value, "loss");
  EXPECT_EQ(read->messages[1].axes, std::vector<std::string>{"data"});
  for (const plan::ReadValue &value : read->values)
    if (value.name == "output loss") {
      EXPECT_EQ(describe(value.split), "one number, partial sum over data");
    } else if (value.name == "w") {
      EXPECT_EQ(describe(value.split), "in 5, hidden 3@model");
    }
}

TEST(PlanReader, every_part_of_a_plan_is_refused) {
  // The last newline and brace are not part of a part.
  for (size_t length = 0; length + 3 < example.size(); ++length)
    ASSERT_EQ(refuse(example.substr(0, length)),
              "it is no JSON object, or only a part of one")
        << length;
}

TEST(PlanReader, other_schemas_are_refused) {
  EXPECT_EQ(refuse(change([](json &plan) { plan["schema"] = "meshc.plan/3"; })),
            "it has the schema \"meshc.plan/3\", expected \"meshc.plan/2\"");
  EXPECT_EQ(refuse(change([](json &plan) { plan["schema"] = 2; })),
            "it is no plan of meshc: it has no \"schema\"");
}

TEST(PlanReader, numbers_that_no_plan_has_are_refused) {
  for (const json &number :
       {json(-1), json(1.5), json(std::numeric_limits<uint64_t>::max())})
    EXPECT_EQ(refuse(change([&](json &plan) {
                plan["collectives"][0]["payload_bytes"] = number;
              })),
              "it is damaged: 'payload_bytes' is no count")
        << number;
  for (const json &number : {json(-1), json(1e300)})
    EXPECT_EQ(
        refuse(change([&](json &plan) { plan["totals"]["step_us"] = number; })),
        "it is damaged: 'step_us' is no time")
        << number;
  EXPECT_EQ(refuse(change([](json &plan) { plan["totals"]["step_us"] = "1"; })),
            "it is damaged: type must be number, but is string");
}

TEST(PlanReader, says_what_is_missing) {
  EXPECT_EQ(refuse(change([](json &plan) { plan.erase("collectives"); })),
            "it is damaged: key 'collectives' not found");
  EXPECT_EQ(
      refuse(change([](json &plan) { plan["tensors"][0]["scope"] = "s99"; })),
      "it is damaged: an id in it stands for nothing");
}

// A terminal obeys them, wherever a name is printed.
TEST(PlanReader, names_with_control_characters_are_refused) {
  const std::string reason = "a name in it has a control character";
  for (const char *name : {"a\x1b[2J", "a\nb", "a\x7f", "a\u009b2J"})
    EXPECT_EQ(refuse(change([&](json &plan) { plan["model"] = name; })), reason)
        << name;
  EXPECT_EQ(refuse(change([&](json &plan) { plan["model"] = "mod\u00e8le"; })),
            "");
  // What is not read may have them, as the text of a spec has newlines.
  EXPECT_EQ(refuse(change([&](json &plan) {
              plan["spec"]["path"] = "a\nb";
              plan["ops"][0]["name"] = "a\nb";
            })),
            "");
}

// Of a file of brackets each would be an object in memory.
TEST(PlanReader, deep_nesting_is_refused) {
  const std::string brackets(1 << 20, '[');
  EXPECT_EQ(refuse(brackets), "it is nested deeper than a plan is");
  EXPECT_EQ(refuse("{\"ops\":" + brackets),
            "it is nested deeper than a plan is");
}

TEST_F(PlanReaderFiles, reads_files_and_pipes) {
  std::ofstream(folder / "plan.json") << example;
  std::string error;
  EXPECT_EQ(plan::readPlanText(folder / "plan.json", error), example);
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(pipe) << example; });
  EXPECT_EQ(plan::readPlanText(pipe, error), example);
  writer.join();
  EXPECT_EQ(error, "");
}

TEST_F(PlanReaderFiles, refuses_what_is_no_file_of_a_plan) {
  EXPECT_EQ(refuseFile("none"), "No such file or directory");
  EXPECT_EQ(refuseFile(""), "it is a directory");
  // Without blocks on the disk.
  std::ofstream(folder / "large").close();
  std::filesystem::resize_file(folder / "large", (uint64_t(1) << 30) + 1);
  EXPECT_EQ(refuseFile("large"), "it has more than 1 GiB");
}

} // namespace
