#include "runtime/app/Training.h"

#include "runtime/app/NanTrap.h"
#include "runtime/app/Progress.h"
#include "runtime/app/TestSplit.h"
#include "runtime/data/SampleOrder.h"
#include "runtime/io/StandardStreams.h"
#include "runtime/metrics/StepLog.h"
#include "runtime/ranks/Ranks.h"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

using namespace meshc;
using namespace meshc::runtime;

using Clock = std::chrono::steady_clock;

namespace {

/// The steps of a training, as its signals know them.
class SignalsInSteps {
public:
  explicit SignalsInSteps(StopSignals *signals) : signals(signals) {
    if (signals)
      signals->beginSteps();
  }
  ~SignalsInSteps() {
    if (signals)
      signals->endSteps("during the evaluation");
  }
  SignalsInSteps(const SignalsInSteps &) = delete;
  SignalsInSteps &operator=(const SignalsInSteps &) = delete;

  uint8_t getRequested() {
    return signals ? uint8_t(signals->getRequested()) : 0;
  }
  Error stop(int signal, const std::string &when) {
    return signals ? signals->stop(signal, when)
                   : Error{ErrorCode::Internal,
                           "a process without signals was stopped by one", ""};
  }

private:
  StopSignals *signals;
};

} // namespace

/// The value of this name; none where it is no scalar.
static std::optional<double> findValue(const std::vector<NamedValue> &values,
                                       const std::string &name) {
  for (const NamedValue &value : values)
    if (value.name == name)
      return value.value;
  return std::nullopt;
}

static double getSeconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

/// The steps of a training that is measured in steps, not in epochs.
static std::optional<int64_t> getSteps(const TrainingRequest &request,
                                       const exec::TrainingT &recipe) {
  if (request.steps)
    return request.steps;
  return !request.epochs && recipe.steps > 0 ? std::optional(recipe.steps)
                                             : std::nullopt;
}

static int64_t getTotalSteps(const TrainingRequest &request,
                             const exec::TrainingT &recipe,
                             const Dataset &dataset) {
  const std::optional<int64_t> steps = getSteps(request, recipe);
  return steps
             ? *steps
             : request.epochs.value_or(recipe.epochs) * dataset.getNumBatches();
}

/// Runs the steps; the variables are set, the files open.
static Status runSteps(Session &session, const exec::ProgramT &program,
                       const exec::TrainingT &recipe, const Dataset &dataset,
                       const TrainingRequest &request, StepLog &log,
                       StepTracer &tracer, NanTrap *trap) {
  const int64_t batchSize = dataset.getBatchSize();
  const int64_t stepsPerEpoch = dataset.getNumBatches();
  const bool isInSteps = getSteps(request, recipe).has_value();
  const int64_t totalSteps = getTotalSteps(request, recipe, dataset);
  const int64_t totalEpochs = (totalSteps + stepsPerEpoch - 1) / stepsPerEpoch;
  std::vector<int64_t> samples(batchSize);
  Progress progress;
  bool isFinite = true; // as far as was seen
  SignalsInSteps signals(request.signals);
  const Clock::time_point start = Clock::now();
  for (int64_t step = 0; step < totalSteps; ++step) {
    const Clock::time_point stepStart = Clock::now();
    const int64_t epoch = step / stepsPerEpoch;
    const int64_t stepInEpoch = step % stepsPerEpoch;
    const SampleOrder order(request.seed, epoch, dataset.getNumSamples());
    for (int64_t i = 0; i < batchSize; ++i)
      samples[i] = order.getSample(stepInEpoch * batchSize + i);
    Status ran = dataset.feed(session.getDevices(), samples);
    if (ran)
      ran = trap ? trap->run(step + 1) : tracer.run(step);
    if (!ran)
      return ran;

    const Result<std::vector<NamedValue>> values = session.readScalars(program);
    if (!values)
      return values.getError();
    const Clock::time_point now = Clock::now();
    Status logged = log.add({step + 1, epoch + 1, *values,
                             double(batchSize) / getSeconds(now - stepStart)});
    if (!logged)
      return logged;

    const std::optional<double> loss = findValue(*values, recipe.minimize);
    if (loss && !std::isfinite(*loss) && isFinite) {
      isFinite = false;
      const std::string what = fmt::format(
          "loss '{}' is {} in epoch {}, step {} of {} (step {} of {} in all)",
          recipe.minimize, *loss, epoch + 1, stepInEpoch + 1, stepsPerEpoch,
          step + 1, totalSteps);
      progress.finish();
      if (request.failsOnNan)
        return Error{ErrorCode::LossNotFinite, what, ""};
      if (session.isFirst())
        printWarning(what + "; --fail-on-nan ends training there");
    }
    const bool endsEpoch =
        stepInEpoch + 1 == stepsPerEpoch || step + 1 == totalSteps;
    if (session.isFirst() && (progress.isDue(now) || endsEpoch)) {
      const double rate = double(step + 1) / getSeconds(now - start);
      progress.show(
          {fmt::format("epoch {}/{}", epoch + 1, totalEpochs),
           isInSteps
               ? fmt::format("step {}/{}", step + 1, totalSteps)
               : fmt::format("step {}/{}", stepInEpoch + 1, stepsPerEpoch),
           fmt::format("loss {}", loss ? formatNumber(*loss) : "no number"),
           fmt::format("{} samples/s", formatRate(rate * double(batchSize))),
           fmt::format("{} left",
                       formatDuration(double(totalSteps - step - 1) / rate))},
          now, endsEpoch);
    }
    // Ranks get the signal at different steps; rank 0 hears of all.
    Result<uint8_t> stops = session.getDevices().decide(signals.getRequested());
    if (!stops)
      return stops.getError();
    if (*stops != 0) {
      progress.finish();
      return signals.stop(
          *stops, fmt::format("after epoch {}, step {} of {} (step {} of {} in "
                              "all)",
                              epoch + 1, stepInEpoch + 1, stepsPerEpoch,
                              step + 1, totalSteps));
    }
  }
  progress.finish();
  return Status::success();
}

/// An error if one file is to be written for two purposes.
static Status checkFiles(const TrainingRequest &request) {
  namespace fs = std::filesystem;
  std::map<fs::path, const char *> taken;
  for (auto [flag, path] : {std::pair{"--metrics", &request.metrics.linesPath},
                            std::pair{"--plot", &request.metrics.plotPath},
                            std::pair{"--trace", &request.trace.path}}) {
    std::error_code failed; // opening it tells why
    const fs::path place = fs::weakly_canonical(*path, failed);
    // Devices and pipes take all.
    if (path->empty() ||
        (fs::exists(place, failed) && !fs::is_regular_file(place, failed)))
      continue;
    const auto [other, isFirst] = taken.emplace(place, flag);
    if (!isFirst)
      return Error{ErrorCode::RepeatedInput,
                   fmt::format("'{}' is the file for {} and for {}", *path,
                               other->second, flag),
                   "what is there would be written over"};
  }
  return Status::success();
}

/// An error if ranks have read different files.
static Status agreeOnData(Session &session, const Dataset &dataset,
                          const std::optional<TestSplit> &split) {
  if (!session.hasOtherRanks())
    return Status::success();
  Agreements items = {{"the training data", dataset.getDigest()}};
  if (split)
    items.push_back({"the test data", split->getDataset().getDigest()});
  return session.agree(items);
}

Status runtime::train(Session &session, const TrainingRequest &request) {
  Result<const exec::ProgramT *> program = session.getStep();
  if (!program)
    return program.getError();
  const exec::TrainingT *recipe = session.getExecutable().data.training.get();
  if (!recipe)
    return Error{ErrorCode::NothingToDo, "the model has no train block", ""};
  if (Status apart = checkFiles(request); !apart)
    return apart;
  Result<Dataset> dataset =
      Dataset::load(session.getExecutable(), **program, Dataset::Split::Train,
                    request.dataFolder);
  if (!dataset)
    return dataset.getError();
  // Opened first: what is wrong with it should not cost a training.
  std::optional<TestSplit> split;
  if (request.evaluates) {
    Result<TestSplit> loaded = TestSplit::load(session, request.dataFolder);
    if (!loaded)
      return loaded.getError();
    split = std::move(*loaded);
  }
  Status same = agreeOnData(session, *dataset, split);
  if (!same)
    return same;
  Result<StepLog> log = StepLog::open(
      session.isFirst() ? request.metrics : MetricsRequest(), /*firstStep=*/1,
      session.getExecutable().data.model, recipe->minimize);
  if (!log)
    return log.getError();
  Result<StepTracer> tracer =
      StepTracer::create(session, **program, request.trace,
                         getTotalSteps(request, *recipe, *dataset));
  if (!tracer)
    return tracer.getError();
  Status initialised = session.initialise(request.seed);
  if (!initialised)
    return initialised;
  std::optional<NanTrap> trap;
  if (request.trapsNan)
    trap.emplace(session, **program);
  Status trained = runSteps(session, **program, *recipe, *dataset, request,
                            *log, *tracer, trap ? &*trap : nullptr);
  // What there is of a training that ends early is worth a look, too.
  const Status logged = log->finish();
  if (trained)
    trained = logged;
  if (!trained || !split)
    return trained;
  Result<std::vector<NamedValue>> means =
      split->evaluate(session, request.evalBatches);
  if (!means)
    return means.getError();
  const std::optional<double> loss = findValue(*means, recipe->minimize);
  if (request.failsOnNan && loss && !std::isfinite(*loss))
    return Error{ErrorCode::LossNotFinite,
                 fmt::format("loss '{}' is {} on the test split",
                             recipe->minimize, *loss),
                 ""};
  return Status::success();
}
