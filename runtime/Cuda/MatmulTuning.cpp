#include "runtime/Cuda/MatmulTuning.h"

#include "runtime/Cuda/MatmulCache.h"
#include "runtime/Cuda/Resources.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sstream>

using namespace meshc::runtime;
using namespace meshc::runtime::cuda;

/// Runs before the first that counts, of one measurement, and measurements, of
/// which the median counts.
static constexpr int warmUps = 2, runsPerMeasurement = 4, measurements = 3;

std::string MatmulTuning::toString() const {
  return fmt::format(
      "{} matrix products, {} measured now: {} faster than by the library's "
      "first algorithm, {:.2f}x in sum",
      products, measured, changed,
      chosenMicroseconds > 0 ? firstMicroseconds / chosenMicroseconds : 1.0);
}

/// How long one run of a candidate takes.
static Result<double> measure(const MatmulCalls &calls, const Driver &driver,
                              const MatmulCall &call, size_t candidate,
                              DevicePointer workspace, Stream stream) {
  Result<OwnedEvent> begin = makeEvent(driver, /*hasTime=*/true);
  Result<OwnedEvent> end = makeEvent(driver, /*hasTime=*/true);
  if (!begin || !end)
    return begin ? end.getError() : begin.getError();
  auto run = [&](int count) -> Status {
    for (int i = 0; i < count; ++i)
      MESHC_RETURN_IF_ERROR(
          calls.runCandidate(call, candidate, workspace, stream));
    return Status::success();
  };
  MESHC_RETURN_IF_ERROR(run(warmUps));
  std::array<double, measurements> times{};
  for (double &time : times) {
    MESHC_RETURN_IF_ERROR(driver.eventRecord(begin->get(), stream));
    MESHC_RETURN_IF_ERROR(run(runsPerMeasurement));
    MESHC_RETURN_IF_ERROR(driver.eventRecord(end->get(), stream));
    MESHC_RETURN_IF_ERROR(driver.eventSynchronize(end->get()));
    float milliseconds = 0;
    MESHC_RETURN_IF_ERROR(
        driver.eventElapsedTime(&milliseconds, begin->get(), end->get()));
    time = milliseconds * 1e3 / runsPerMeasurement;
  }
  std::sort(times.begin(), times.end());
  return times[measurements / 2];
}

/// The fastest candidate of a product; the library's first among equals.
static Result<MatmulChoice> choose(const MatmulCalls &calls,
                                   const Driver &driver, const MatmulCall &call,
                                   DevicePointer workspace, Stream stream) {
  MatmulChoice choice;
  choice.candidates = calls.getNumCandidates(call);
  for (size_t i = 0; i < choice.candidates; ++i) {
    Result<double> time = measure(calls, driver, call, i, workspace, stream);
    if (!time)
      return time.getError();
    if (i == 0)
      choice.firstMicroseconds = choice.chosenMicroseconds = *time;
    if (*time < choice.chosenMicroseconds) {
      choice.chosen = i;
      choice.chosenMicroseconds = *time;
    }
  }
  return choice;
}

/// The choices of the first process, by the order of the products.
static Result<std::string> chooseAll(MatmulCalls &calls, const Gpu &gpu,
                                     DevicePointer workspace, Stream stream,
                                     MatmulTuning &tuning) {
  MatmulChoices known;
  size_t damaged = 0;
  const Result<std::string> path = getMatmulCachePath();
  if (!path) {
    tuning.complaint = path.getError().message;
  } else {
    Result<MatmulChoices> read = readMatmulCache(*path, damaged);
    if (!read)
      tuning.complaint = read.getError().message;
    else
      known = std::move(*read);
  }
  if (damaged > 0)
    tuning.complaint =
        fmt::format("{} damaged lines of '{}' are left out", damaged, *path);
  MatmulChoices fresh;
  std::string text;
  for (const MatmulCall *call : calls.getCalls()) {
    const std::string product =
        fmt::format("{} | {}", gpu.getProperties().name, calls.describe(*call));
    auto found = known.find(product);
    MatmulChoice choice;
    if (found != known.end() &&
        found->second.candidates == calls.getNumCandidates(*call)) {
      choice = found->second;
    } else {
      Result<MatmulChoice> chosen =
          choose(calls, gpu.getDriver(), *call, workspace, stream);
      if (!chosen)
        return chosen.getError();
      choice = fresh[product] = *chosen;
    }
    tuning.firstMicroseconds += choice.firstMicroseconds;
    tuning.chosenMicroseconds += choice.chosenMicroseconds;
    text += fmt::format("{} ", choice.chosen);
  }
  tuning.measured = fresh.size();
  if (path && !fresh.empty())
    if (Status added = addToMatmulCache(*path, fresh); !added)
      tuning.complaint = added.getError().message;
  return text;
}

Result<MatmulTuning> cuda::tuneMatmuls(MatmulCalls &calls, const Gpu &gpu,
                                       DevicePointer workspace, Stream stream,
                                       Peers *peers) {
  MatmulTuning tuning;
  std::string text;
  if (!peers || peers->getRank() == 0) {
    Result<std::string> chosen =
        chooseAll(calls, gpu, workspace, stream, tuning);
    if (!chosen)
      return chosen.getError();
    text = std::move(*chosen);
  }
  if (peers) {
    Result<std::string> shared = peers->shareFirst("matmul choices", text);
    if (!shared)
      return shared.getError();
    text = std::move(*shared);
  }
  std::istringstream choices(text);
  size_t chosen = 0;
  for (MatmulCall *call : calls.getCalls()) {
    if (!(choices >> chosen) || chosen >= calls.getNumCandidates(*call))
      return Error{ErrorCode::RanksDiffer,
                   "the first process has other matrix products than this one",
                   "all processes need the same GPUs and libraries"};
    calls.choose(*call, chosen);
    tuning.products += calls.getNumCandidates(*call) > 1;
    tuning.changed += chosen != 0;
  }
  return tuning;
}
