#include "runtime/cuda/GraphTimer.h"

#include <algorithm>
#include <cmath>

using namespace meshc::runtime;
using namespace meshc::runtime::cuda;

/// Of a graph, at least: some ten times what the host takes to launch it, 2 to
/// 3 us and up to 0.2 us for each of its nodes. Source: NVIDIA's blog,
/// "Constant time launch for straight-line CUDA graphs", 2024.
static constexpr double graphMicroseconds = 500;
static constexpr double maxRepeats = 1000;
/// Calls that are timed one by one, to choose how many a graph needs; with what
/// the host takes that is too few rather than too many.
static constexpr int trials = 4;

Result<GraphTimer> GraphTimer::create(const Driver &driver, Stream stream,
                                      const std::function<Status()> &issue,
                                      int repeats) {
  GraphTimer timer(driver, stream);
  for (OwnedEvent *event : {&timer.begin, &timer.end}) {
    Result<OwnedEvent> made = makeEvent(driver, /*hasTime=*/true);
    if (!made)
      return made.getError();
    *event = std::move(*made);
  }
  auto issueTimes = [&](int count) -> Status {
    for (int i = 0; i < count; ++i)
      MESHC_RETURN_IF_ERROR(issue());
    return Status::success();
  };
  // Libraries load in the first call what they need, which no capture allows.
  MESHC_RETURN_IF_ERROR(issue());
  if (repeats == 0) {
    MESHC_RETURN_IF_ERROR(driver.eventRecord(timer.begin.get(), stream));
    MESHC_RETURN_IF_ERROR(issueTimes(trials));
    MESHC_RETURN_IF_ERROR(driver.eventRecord(timer.end.get(), stream));
    MESHC_RETURN_IF_ERROR(driver.eventSynchronize(timer.end.get()));
    float milliseconds = 0;
    MESHC_RETURN_IF_ERROR(driver.eventElapsedTime(
        &milliseconds, timer.begin.get(), timer.end.get()));
    const double once = std::max(milliseconds * 1e3 / trials, 1e-3);
    repeats =
        int(std::clamp(std::ceil(graphMicroseconds / once), 1.0, maxRepeats));
  }
  timer.repeats = repeats;
  Result<OwnedGraphExecutable> graph =
      recordGraph(driver, stream, [&] { return issueTimes(repeats); });
  if (!graph)
    return graph.getError();
  timer.graph = std::move(*graph);
  return timer;
}

Result<double> GraphTimer::measure() const {
  MESHC_RETURN_IF_ERROR(driver->graphLaunch(graph.get(), stream));
  MESHC_RETURN_IF_ERROR(driver->eventRecord(begin.get(), stream));
  MESHC_RETURN_IF_ERROR(driver->graphLaunch(graph.get(), stream));
  MESHC_RETURN_IF_ERROR(driver->eventRecord(end.get(), stream));
  MESHC_RETURN_IF_ERROR(driver->eventSynchronize(end.get()));
  float milliseconds = 0;
  MESHC_RETURN_IF_ERROR(
      driver->eventElapsedTime(&milliseconds, begin.get(), end.get()));
  return milliseconds * 1e3 / repeats;
}
