#include "runtime/app/StepTracer.h"

#include "runtime/io/File.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <type_traits>

using namespace meshc;
using namespace meshc::runtime;

using Clock = std::chrono::steady_clock;

/// Nanoseconds from CLOCK_MONOTONIC, which each machine has its own of, to
/// CLOCK_REALTIME, in which machines agree as far as they are set alike.
static int64_t getClockOffset() {
  auto getCount = [](auto time) {
    return int64_t(std::chrono::nanoseconds(time.time_since_epoch()).count());
  };
  int64_t offset = 0, best = INT64_MAX;
  // What interrupts one reading does not all of them.
  for (int i = 0; i < 16; ++i) {
    const int64_t before = getCount(Clock::now());
    const int64_t real = getCount(std::chrono::system_clock::now());
    const int64_t took = getCount(Clock::now()) - before;
    if (took >= best)
      continue;
    best = took;
    offset = real - (before + took / 2);
  }
  return offset;
}

//===----------------------------------------------------------------------===//
// Between processes
//===----------------------------------------------------------------------===//

static_assert(std::is_trivially_copyable_v<TraceEvent>);

template <typename T> static void append(std::string &bytes, const T &value) {
  bytes.append(reinterpret_cast<const char *>(&value), sizeof(value));
}

/// The traces of a process as bytes, in CLOCK_REALTIME.
static std::string pack(const std::vector<RunTrace> &runs) {
  const int64_t offset = getClockOffset();
  std::string bytes;
  for (const RunTrace &run : runs) {
    append(bytes, run.begin + offset);
    append(bytes, run.end + offset);
    append(bytes, uint64_t(run.events.size()));
    for (TraceEvent event : run.events) {
      event.begin += offset;
      event.end += offset;
      append(bytes, event);
    }
  }
  return bytes;
}

static std::vector<RunTrace> unpack(std::string_view bytes, size_t count) {
  auto take = [&](auto &value) {
    std::memcpy(&value, bytes.data(), sizeof(value));
    bytes.remove_prefix(sizeof(value));
  };
  std::vector<RunTrace> runs(count);
  for (RunTrace &run : runs) {
    uint64_t events = 0;
    take(run.begin);
    take(run.end);
    take(events);
    run.events.resize(events);
    for (TraceEvent &event : run.events)
      take(event);
  }
  return runs;
}

//===----------------------------------------------------------------------===//
// StepTracer
//===----------------------------------------------------------------------===//

Result<StepTracer> StepTracer::createAt(Session &session,
                                        const exec::ProgramT &program,
                                        const TraceRequest &request,
                                        int64_t first) {
  StepTracer tracer(session, program, request);
  tracer.first = first;
  if (!request.path.empty() && session.isFirst())
    if (Status writable = checkWritable(request.path); !writable)
      return writable.getError();
  return tracer;
}

Result<StepTracer> StepTracer::create(Session &session,
                                      const exec::ProgramT &program,
                                      const TraceRequest &request,
                                      int64_t begin, int64_t totalSteps) {
  const int64_t steps = std::max<int64_t>(totalSteps - begin, 0);
  if (!request.path.empty() && request.steps > steps)
    return Error{ErrorCode::TooManyTraceSteps,
                 fmt::format("--trace-steps {}, but the training has {} step{}",
                             request.steps, steps, steps == 1 ? "" : "s"),
                 steps > 0 ? "trace fewer, or train for more steps"
                           : "train for some steps"};
  Result<StepTracer> tracer = createAt(
      session, program, request,
      begin + std::min(warmUpSteps + timedSteps, steps - request.steps));
  if (tracer)
    tracer->begin = begin;
  return tracer;
}

Status StepTracer::run(int64_t step) {
  const bool isTraced =
      !request.path.empty() && step >= first && step < first + request.steps;
  if (isTraced)
    return runTraced(step);
  const Clock::time_point start = Clock::now();
  Status ran = session->run(*program, step + 1);
  if (step >= begin + warmUpSteps && step < first) {
    seconds += std::chrono::duration<double>(Clock::now() - start).count();
    ++numTimed;
  }
  return ran;
}

Status StepTracer::runTraced(int64_t step) {
  RunTrace &run = runs.emplace_back();
  session->getDevices().traceRuns(&run);
  Status ran = session->run(*program, step + 1);
  session->getDevices().traceRuns(nullptr);
  return ran && step + 1 == first + request.steps ? finish() : ran;
}

Status StepTracer::finish() {
  Result<std::vector<std::string>> packed =
      session->collect("trace", pack(runs));
  if (!packed)
    return packed.getError();
  runs.clear();
  if (!session->isFirst())
    return Status::success();
  std::vector<TracedStep> steps;
  for (int64_t i = 0; i < request.steps; ++i)
    steps.push_back({first + i + 1, {}});
  for (const std::string &bytes : *packed) {
    std::vector<RunTrace> ofRank = unpack(bytes, steps.size());
    for (size_t i = 0; i < steps.size(); ++i)
      steps[i].ranks.push_back(std::move(ofRank[i]));
  }
  std::optional<double> stepUs;
  if (numTimed > 0)
    stepUs = seconds / double(numTimed) * 1e6;
  return writeFile(request.path, renderTrace(session->getExecutable(), *program,
                                             steps, stepUs));
}
