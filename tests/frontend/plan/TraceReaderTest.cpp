#include "frontend/plan/json/TraceReader.h"

#include "ExampleExecutable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace meshc;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

namespace {

/// SHA-256 of the lines of runtime/exec/PlanIds.h for the example with
/// overlap, by hashlib of Python.
const char *const digest =
    "177d5e184b34a47de042fbfca4dcfeba8bdf57ee2c493f4b988fd01d540f0a9e";

json makeEvent(const std::string &category, const std::string &name, double us,
               json arguments) {
  return {{"ph", "X"},       {"pid", 0},
          {"tid", 1},        {"ts", 5},
          {"dur", us},       {"name", name},
          {"cat", category}, {"args", std::move(arguments)}};
}

/// Two steps on two devices: o0, and c2 with c3 in one transfer.
json makeTrace() {
  json events = json::array({{{"ph", "M"},
                              {"pid", 0},
                              {"tid", 0},
                              {"name", "thread_name"},
                              {"args", {{"name", "steps"}}}}});
  for (int step : {8, 9}) {
    events.push_back(makeEvent("step", "step", 100 + step, {{"step", step}}));
    for (int device : {0, 1}) {
      events.push_back(makeEvent("matmul", "y", step + device,
                                 {{"id", "o0"}, {"step", step}}));
      events.push_back(
          makeEvent("all_reduce", "c2, c3 all_reduce over data", 20 + device,
                    {{"id", "c2"}, {"ids", {"c2", "c3"}}, {"step", step}}));
    }
    events.push_back(makeEvent("wait", "wait for devices", 6,
                               {{"of", "c2"}, {"step", step}}));
    events.push_back(makeEvent("part", "combine", 9, {{"of", "c2"}}));
    events.push_back(makeEvent("wait", "wait for c2", 11, {{"for", "c2"}}));
  }
  return {{"meta",
           {{"schema", "meshc.trace/1"},
            {"model", "tiny"},
            {"mesh",
             {{"axes",
               {{{"name", "data"}, {"size", 2}},
                {{"name", "model"}, {"size", 3}}}}}},
            {"layout", "batch -> data, hidden -> model"},
            {"plan", digest},
            {"processes", 2},
            {"steps", {8, 9}},
            {"step_us", 98.5}}},
          {"traceEvents", std::move(events)}};
}

std::string getError(const json &trace) {
  std::string error;
  EXPECT_FALSE(
      plan::readTrace(trace.dump(), plan::makeExampleWithOverlap(), error));
  return error;
}

TEST(TraceReader, gives_the_mean_of_devices_and_steps) {
  std::string error;
  const std::optional<plan::MeasuredPlan> measured = plan::readTrace(
      makeTrace().dump(), plan::makeExampleWithOverlap(), error);
  ASSERT_TRUE(measured) << error;
  EXPECT_EQ(measured->commands.size(), 3u);
  EXPECT_DOUBLE_EQ(measured->commands.at("o0").us, 9);
  EXPECT_DOUBLE_EQ(measured->commands.at("o0").waitUs, 0);
  for (const char *id : {"c2", "c3"}) {
    EXPECT_DOUBLE_EQ(measured->commands.at(id).us, 17.5);
    EXPECT_DOUBLE_EQ(measured->commands.at(id).waitUs, 3);
  }
  EXPECT_EQ(measured->steps, 2);
  EXPECT_EQ(measured->processes, 2);
  EXPECT_DOUBLE_EQ(measured->tracedStepUs, 108.5);
  EXPECT_EQ(measured->stepUs, 98.5);
  json trace = makeTrace();
  trace["meta"]["step_us"] = nullptr;
  EXPECT_FALSE(
      plan::readTrace(trace.dump(), plan::makeExampleWithOverlap(), error)
          ->stepUs);
}

TEST(TraceReader, refuses_the_trace_of_another_program) {
  json trace = makeTrace();
  trace["meta"]["plan"] = "0";
  EXPECT_THAT(getError(trace),
              HasSubstr("it is of the same model and layout (tiny on data=2 "
                        "x model=3; layout: batch -> data, hidden -> model), "
                        "but of other commands"));
  trace["meta"]["layout"] = "batch -> data";
  EXPECT_EQ(getError(trace),
            "it is of tiny on data=2 x model=3; layout: batch -> data; this "
            "plan is of tiny on data=2 x model=3; layout: batch -> data, "
            "hidden -> model");
  trace["meta"]["mesh"]["axes"] = json::array();
  trace["meta"]["model"] = "other";
  EXPECT_THAT(getError(trace), HasSubstr("it is of other on 1 device; layout"));
}

TEST(TraceReader, another_number_is_another_plan) {
  for (int change = 0; change < 3; ++change) {
    exec::ExecutableT executable = plan::makeExampleWithOverlap();
    auto &commands = executable.programs[0]->commands;
    if (change == 0)
      ++commands[0]->flops;
    else if (change == 1)
      ++commands[3]->bytes;
    else
      commands[0]->phase = exec::Phase::update;
    std::string error;
    EXPECT_FALSE(plan::readTrace(makeTrace().dump(), executable, error));
    EXPECT_THAT(error, HasSubstr("of other commands"));
  }
}

TEST(TraceReader, says_what_is_no_trace) {
  std::string error;
  const exec::ExecutableT example = plan::makeExampleWithOverlap();
  const std::string text = makeTrace().dump();
  for (const std::string &part :
       {std::string(), std::string("[]"), text.substr(0, text.size() / 2)}) {
    EXPECT_FALSE(plan::readTrace(part, example, error));
    EXPECT_EQ(error, "it is no JSON object, or only a part of one");
  }
  for (const char *other :
       {"{}", R"({"meta": {}})", R"({"meta": 3})", R"({"traceEvents": []})"}) {
    EXPECT_FALSE(plan::readTrace(other, example, error));
    EXPECT_EQ(error,
              "it is no trace of meshc: it has no \"schema\" in \"meta\"");
  }
  json trace = makeTrace();
  trace["meta"]["schema"] = "meshc.trace/9";
  EXPECT_EQ(getError(trace), "it has the schema \"meshc.trace/9\", expected "
                             "\"meshc.trace/1\"");
  const auto damaged = testing::StartsWith("it is damaged: ");
  for (const char *member :
       {"schema", "plan", "steps", "processes", "step_us"}) {
    trace = makeTrace();
    trace["meta"][member] = json::object({{"no", "value"}});
    if (member != std::string("steps"))
      EXPECT_THAT(getError(trace), damaged) << member;
    trace["meta"].erase(member);
    EXPECT_THAT(getError(trace), Not(testing::IsEmpty())) << member;
  }
  for (const char *member : {"ph", "dur", "args", "cat"}) {
    trace = makeTrace();
    trace["traceEvents"][2].erase(member);
    EXPECT_THAT(getError(trace), damaged) << member;
  }
  trace = makeTrace();
  trace["traceEvents"][2]["dur"] = -1;
  EXPECT_THAT(getError(trace), damaged);
}

} // namespace
