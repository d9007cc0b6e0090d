#include "runtime/cuda/MatmulTuning.h"

#include "runtime/cuda/GraphTimer.h"
#include "runtime/cuda/TuningCache.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <vector>

using namespace meshc::runtime;
using namespace meshc::runtime::cuda;

/// Measurements of each algorithm, taken in turns, so that a clock that changes
/// changes for all.
static constexpr int rounds = 7;
/// The part of a product's time that another algorithm must save: for less,
/// other last bits than without tuning are a bad bargain.
static constexpr double minGain = 0.03;

std::string MatmulTuning::toString() const {
  return fmt::format(
      "{} matrix products, {} measured now: {} faster than by the library's "
      "first algorithm, {:.2f}x in sum",
      products, measured, changed,
      chosenMicroseconds > 0 ? firstMicroseconds / chosenMicroseconds : 1.0);
}

/// Sorted times of an algorithm, of which the median counts.
using Times = std::array<double, rounds>;

static double getMedian(const Times &times) { return times[rounds / 2]; }

/// Whether `times` are less than `others` by more than noise: all of them are,
/// which 7 and 7 of one algorithm are once in 3,432 times, and by minGain.
/// Source: Mann and Whitney, Annals of Mathematical Statistics 18, 1947.
static bool isFaster(const Times &times, const Times &others) {
  return times.back() < others.front() &&
         getMedian(times) <= (1 - minGain) * getMedian(others);
}

/// Times of all candidates of a product.
static Result<std::vector<Times>>
measure(const MatmulCalls &calls, const Driver &driver, const MatmulCall &call,
        DevicePointer workspace, Stream stream) {
  std::vector<GraphTimer> timers;
  for (size_t i = 0; i < calls.getNumCandidates(call); ++i) {
    Result<GraphTimer> timer = GraphTimer::create(driver, stream, [&] {
      return calls.runCandidate(call, i, workspace, stream);
    });
    if (!timer)
      return timer.getError();
    timers.push_back(std::move(*timer));
  }
  std::vector<Times> times(timers.size());
  for (int round = 0; round < rounds; ++round)
    for (size_t i = 0; i < timers.size(); ++i) {
      Result<double> time = timers[i].measure();
      if (!time)
        return time.getError();
      times[i][size_t(round)] = *time;
    }
  for (Times &sorted : times)
    std::sort(sorted.begin(), sorted.end());
  return times;
}

/// The first candidate of a product that none behind it is faster than.
static Result<MatmulChoice> choose(const MatmulCalls &calls,
                                   const Driver &driver, const MatmulCall &call,
                                   DevicePointer workspace, Stream stream) {
  Result<std::vector<Times>> times =
      measure(calls, driver, call, workspace, stream);
  if (!times) {
    Error error = times.getError();
    error.message += ", in a measurement of " + calls.describe(call);
    if (error.note.empty())
      error.note =
          "products are measured in graphs, as steps have them; without "
          "--tune-matmuls they are not measured";
    return error;
  }
  MatmulChoice choice;
  choice.candidates = times->size();
  for (size_t i = 1; i < times->size(); ++i)
    if (isFaster((*times)[i], (*times)[choice.chosen]))
      choice.chosen = i;
  choice.firstMicroseconds = getMedian(times->front());
  choice.chosenMicroseconds = getMedian((*times)[choice.chosen]);
  return choice;
}

/// The choices of the first process, by the order of the products.
static Result<std::string> chooseAll(MatmulCalls &calls, const Gpu &gpu,
                                     DevicePointer workspace, Stream stream,
                                     MatmulTuning &tuning) {
  MatmulChoices known;
  size_t damaged = 0;
  const Result<std::string> path = getTuningCachePath();
  if (!path) {
    tuning.complaint = path.getError().message;
  } else {
    Result<MatmulChoices> read = readTuningCache(*path, damaged);
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
    const std::string product = fmt::format(
        "{} | in graphs | {}", gpu.getProperties().name, calls.describe(*call));
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
    if (Status added = addToTuningCache(*path, fresh); !added)
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
