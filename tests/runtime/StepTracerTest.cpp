/// The trace of a training as a file, of one process and of several.

#include "runtime/app/StepTracer.h"
#include "runtime/app/Training.h"
#include "tests/runtime/LinearModel.h"
#include "tests/runtime/RankThreads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <set>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::test;
using nlohmann::json;
using testing::HasSubstr;

namespace {

Result<std::unique_ptr<Session>> makeSession(int64_t devices,
                                             Ranks *ranks = nullptr) {
  return Session::create(LinearModel::makeProgram(devices),
                         LinearModel::getKernels(), openCpuDevices, 2, {},
                         ranks);
}

TrainingRequest makeRequest(const TemporaryFolder &folder, int64_t steps) {
  TrainingRequest request;
  request.dataFolder = folder.path.string();
  request.steps = steps;
  request.evaluates = false;
  request.trace.path = folder / "trace.json";
  return request;
}

/// Trains without a word.
Status trainQuietly(Session &session, const TrainingRequest &request) {
  testing::internal::CaptureStderr();
  Status trained = train(session, request);
  testing::internal::GetCapturedStderr();
  return trained;
}

/// Every command once per device and step; nothing overlaps on a track, but
/// parts with the command that they are of.
void checkEvents(const json &trace, int64_t devices, int64_t ranks,
                 const std::set<int64_t> &steps) {
  Result<Executable> executable =
      Executable::load(LinearModel::makeProgram(devices));
  ASSERT_TRUE(executable);
  const size_t numCommands = executable->findProgram("step")->commands.size();
  std::map<int64_t, std::string> tracks;
  std::map<int64_t, std::vector<json>> events;
  for (const json &event : trace.at("traceEvents"))
    if (event.at("ph") == "X")
      events[event.at("tid").get<int64_t>() +
             (event.at("tid") == 0 ? -1 - event.at("pid").get<int64_t>() : 0)]
          .push_back(event);
    else if (event.at("name") == "thread_name")
      tracks[event.at("tid")] = event.at("args").at("name");
  std::map<std::tuple<std::string, std::string, int64_t>, int> counts;
  std::set<int64_t> found;
  for (auto &[track, onTrack] : events) {
    auto getOrder = [](const json &event) {
      return std::tuple(event.at("ts").get<double>(),
                        event.at("args").contains("of"));
    };
    std::sort(onTrack.begin(), onTrack.end(),
              [&](const json &x, const json &y) {
                return getOrder(x) < getOrder(y);
              });
    double last = 0, partEnd = 0;
    for (const json &event : onTrack) {
      const auto begin = event.at("ts").get<double>();
      const double end = begin + event.at("dur").get<double>();
      const json &args = event.at("args");
      found.insert(args.at("step").get<int64_t>());
      // Nanoseconds have three digits.
      if (args.contains("of")) {
        EXPECT_LE(end, last + 1e-3) << event;
        EXPECT_GE(begin, partEnd - 1e-3) << event;
        partEnd = end;
        continue;
      }
      EXPECT_GE(begin, last - 1e-3) << event;
      last = end;
      if (args.contains("id"))
        ++counts[{args.at("id"), tracks.at(track), args.at("step")}];
    }
  }
  EXPECT_EQ(found, steps);
  EXPECT_EQ(int64_t(counts.size()),
            int64_t(numCommands) * devices * int64_t(steps.size()));
  for (const auto &[place, count] : counts)
    EXPECT_EQ(count, 1) << std::get<0>(place) << " on " << std::get<1>(place);
  EXPECT_EQ(trace.at("meta").at("schema"), "meshc.trace/1");
  EXPECT_EQ(trace.at("meta").at("processes"), ranks);
  EXPECT_EQ(trace.at("meta").at("steps"), json(steps));
}

TEST(StepTracerTest, traces_the_steps_behind_those_that_are_timed) {
  for (int64_t devices : {2, 3, 4}) {
    TemporaryFolder folder;
    writeLinearData(folder);
    const TrainingRequest request = makeRequest(folder, 20);
    auto session = makeSession(devices);
    ASSERT_TRUE(session);
    ASSERT_TRUE(trainQuietly(**session, request));
    const json trace = json::parse(readBytes(request.trace.path));
    checkEvents(trace, devices, 1, {8, 9});
    EXPECT_GT(trace["meta"]["step_us"], 0);
  }
}

TEST(StepTracerTest, traces_the_last_steps_of_a_short_training) {
  TemporaryFolder folder;
  writeLinearData(folder);
  for (auto [steps, traced, isTimed] :
       {std::tuple<int64_t, std::set<int64_t>, bool>{2, {1, 2}, false},
        {4, {3, 4}, false},
        {5, {4, 5}, true},
        {9, {8, 9}, true}}) {
    TrainingRequest request = makeRequest(folder, steps);
    auto session = makeSession(2);
    ASSERT_TRUE(session);
    ASSERT_TRUE(trainQuietly(**session, request));
    const json trace = json::parse(readBytes(request.trace.path));
    checkEvents(trace, 2, 1, traced);
    EXPECT_EQ(trace["meta"]["step_us"].is_number(), isTimed) << steps;
  }
}

TEST(StepTracerTest, several_processes_write_one_file) {
  for (auto [devices, ranks] : {std::pair<int64_t, int64_t>{3, 2}, {3, 3}}) {
    TemporaryFolder folder;
    writeLinearData(folder);
    TrainingRequest request = makeRequest(folder, 10);
    request.trace.steps = 3;
    testing::internal::CaptureStderr();
    runRanks(ranks, [&, devices = devices](Ranks &group) {
      auto session = makeSession(devices, &group);
      ASSERT_TRUE(session) << session.getError().message;
      const Status trained = train(**session, request);
      EXPECT_TRUE(trained) << trained.getError().message;
      EXPECT_TRUE(group.getStore().barrier("done", 60));
    });
    testing::internal::GetCapturedStderr();
    const json trace = json::parse(readBytes(request.trace.path));
    checkEvents(trace, devices, ranks, {8, 9, 10});
    std::set<int64_t> processes;
    std::set<std::string> waits;
    for (const json &event : trace["traceEvents"]) {
      processes.insert(event["pid"].get<int64_t>());
      if (event.value("cat", "") == "wait")
        waits.insert(event["name"].get<std::string>());
    }
    EXPECT_EQ(int64_t(processes.size()), ranks);
    EXPECT_TRUE(waits.contains("wait for messages"));
  }
}

TEST(StepTracerTest, wrong_requests_are_told_before_the_training) {
  TemporaryFolder folder;
  writeLinearData(folder);
  auto session = makeSession(2);
  ASSERT_TRUE(session);
  TrainingRequest request = makeRequest(folder, 3);
  request.trace.steps = 4;
  Status trained = train(**session, request);
  ASSERT_FALSE(trained);
  EXPECT_EQ(trained.getError().code, ErrorCode::TooManyTraceSteps);
  EXPECT_EQ(trained.getError().message,
            "--trace-steps 4, but the training has 3 steps");
  request = makeRequest(folder, 3);
  request.metrics.linesPath = folder / "metrics";
  for (const std::string &path : {folder / "missing/trace", folder / ""}) {
    request.trace.path = path;
    trained = train(**session, request);
    ASSERT_FALSE(trained);
    EXPECT_EQ(trained.getError().code, ErrorCode::CannotWrite);
    EXPECT_THAT(trained.getError().message, HasSubstr("cannot write '" + path));
    EXPECT_EQ(readBytes(request.metrics.linesPath), "");
  }
  request.trace.path = folder.path.string() + "/./metrics";
  trained = train(**session, request);
  ASSERT_FALSE(trained);
  EXPECT_EQ(trained.getError().code, ErrorCode::RepeatedInput);
  EXPECT_THAT(trained.getError().message,
              HasSubstr("is the file for --metrics and for --trace"));
  // A file that is there stays until there is another.
  request.trace.path = folder / "trace";
  writeBytes(request.trace.path, "before");
  stepsToInterrupt = 1;
  StopSignals signals("", {[](const Error &) {}, nullptr});
  request.signals = &signals;
  EXPECT_FALSE(trainQuietly(**session, request));
  EXPECT_EQ(readBytes(request.trace.path), "before");
  for (const auto &entry : std::filesystem::directory_iterator(folder.path))
    EXPECT_NE(entry.path().extension(), ".part");
}

TEST(StepTracerTest, a_full_disk_leaves_nothing) {
  TemporaryFolder folder;
  writeLinearData(folder);
  auto session = makeSession(2);
  ASSERT_TRUE(session);
  TrainingRequest request = makeRequest(folder, 3);
  request.trace.path = "/dev/full";
  const Status trained = trainQuietly(**session, request);
  ASSERT_FALSE(trained);
  EXPECT_EQ(trained.getError().code, ErrorCode::CannotWrite);
  EXPECT_EQ(trained.getError().message,
            "cannot write '/dev/full': No space left on device");
}

} // namespace
