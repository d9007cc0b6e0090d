#include "runtime/app/TrainingSteps.h"

#include "runtime/io/StandardStreams.h"
#include "runtime/io/StopSignals.h"
#include "runtime/samples/SampleOrder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

using namespace meshc;
using namespace meshc::runtime;

using Clock = std::chrono::steady_clock;

namespace meshc::runtime {

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

} // namespace meshc::runtime

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

int64_t runtime::getTotalSteps(const TrainingRequest &request,
                               const exec::TrainingT &recipe,
                               const Dataset &dataset) {
  const std::optional<int64_t> steps = getSteps(request, recipe);
  return steps
             ? *steps
             : request.epochs.value_or(recipe.epochs) * dataset.getNumBatches();
}

/// Under which name the mean of an output over the test samples is among the
/// metrics: no output is called so.
static std::string getTestName(const std::string &output) {
  return "test/" + output;
}

Status runtime::checkTestLoss(const TrainingRequest &request,
                              const exec::TrainingT &recipe,
                              const std::vector<NamedValue> &means) {
  const std::optional<double> loss = findValue(means, recipe.minimize);
  if (!request.failsOnNan || !loss || std::isfinite(*loss))
    return Status::success();
  return Error{
      ErrorCode::LossNotFinite,
      fmt::format("loss '{}' is {} on the test split", recipe.minimize, *loss),
      ""};
}

/// What decide() tells of a step besides the number of a signal.
static constexpr uint8_t savesBit = 0x80;

void TrainingSteps::fillOrder(int64_t step, int64_t part,
                              std::span<int64_t> samples) const {
  const int64_t first = step % stepsPerEpoch * dataset.getBatchSize();
  const SampleOrder order(position.seed, step / stepsPerEpoch,
                          dataset.getNumSamples());
  for (size_t i = 0; i < samples.size(); ++i)
    samples[i] =
        order.getSample(first + int64_t(i) * dataset.getNumParts() + part);
}

Status TrainingSteps::evaluate(int64_t step, std::vector<NamedValue> &values) {
  const Clock::time_point begin = Clock::now();
  Result<std::vector<NamedValue>> means =
      split->evaluate(session, request.evalBatches, &progress);
  if (!means)
    return means.getError();
  lastMeans = std::move(*means);
  for (const NamedValue &mean : lastMeans)
    values.push_back({getTestName(mean.name), mean.value});
  evaluated += Clock::now() - begin;
  return Status::success();
}

Result<double> TrainingSteps::runParts(int64_t step) {
  double waited = 0;
  const int64_t last = dataset.getNumParts() - 1;
  for (int64_t part = 0; part <= last; ++part) {
    Status ran = prefetch.feed();
    waited += prefetch.getSecondsWaited();
    if (!ran)
      return ran.getError();
    if (!traps.empty())
      ran = traps[part < last ? 0 : traps.size() - 1].run(step + 1, part);
    else
      ran = part < last ? session.runPart(step + 1, part) : tracer.run(step);
    if (!ran)
      return ran.getError();
  }
  return waited;
}

Result<std::optional<double>> TrainingSteps::runStep(int64_t step) {
  const Clock::time_point stepStart = Clock::now();
  const Result<double> waited = runParts(step);
  if (!waited)
    return waited.getError();
  Result<std::vector<NamedValue>> values = session.readScalars(program);
  if (!values)
    return values.getError();
  const double rate =
      double(dataset.getBatchSize()) / getSeconds(Clock::now() - stepStart);
  const std::optional<double> loss = findValue(*values, recipe.minimize);
  if (isEvaluated(step))
    if (Status tested = evaluate(step, *values); !tested)
      return tested.getError();
  Status logged =
      log.add({step + 1, step / stepsPerEpoch + 1, *values, rate, *waited});
  if (logged && isEvaluated(step))
    logged = checkTestLoss(request, recipe, lastMeans);
  if (!logged)
    return logged.getError();
  return loss;
}

Status TrainingSteps::tell(int64_t step, std::optional<double> loss) {
  const int64_t epoch = step / stepsPerEpoch;
  const int64_t stepInEpoch = step % stepsPerEpoch;
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
  const Clock::time_point now = Clock::now();
  if (!session.isFirst() || !(progress.isDue(now) || endsEpoch))
    return Status::success();
  const auto numSteps = double(step + 1 - position.step);
  const double rate = numSteps / getSeconds(now - start - evaluated);
  const int64_t totalEpochs = (totalSteps + stepsPerEpoch - 1) / stepsPerEpoch;
  std::vector<std::string> fields = {
      fmt::format("epoch {}/{}", epoch + 1, totalEpochs),
      getSteps(request, recipe)
          ? fmt::format("step {}/{}", step + 1, totalSteps)
          : fmt::format("step {}/{}", stepInEpoch + 1, stepsPerEpoch),
      fmt::format("loss {}", loss ? formatNumber(*loss) : "no number")};
  if (const auto tested = findValue(lastMeans, recipe.minimize))
    fields.push_back(fmt::format("test loss {}", formatNumber(*tested)));
  fields.push_back(fmt::format(
      "{} samples/s", formatRate(rate * double(dataset.getBatchSize()))));
  fields.push_back(fmt::format(
      "{} left", formatDuration(double(totalSteps - step - 1) *
                                getSeconds(now - start) / numSteps)));
  progress.show(fields, now, endsEpoch);
  return Status::success();
}

Status TrainingSteps::saveLast(int64_t steps) {
  if (!saver)
    return Status::success();
  ByteProgress progress("checkpoint written");
  saver->listen(progress.listen(session.isFirst()));
  Status saved = saver->save(steps);
  if (saved)
    saved = saver->finish();
  saver->listen({});
  if (saved && session.isFirst() && steps > position.step)
    printMessage(
        fmt::format("saved {}/{}\n", request.save.folder, getStepName(steps)));
  if (const BestFolder *best = saver->getBest(); saved && best)
    printMessage(fmt::format(
        "{} of the test samples: {} in {}/{}\n",
        toString(*saver->getCriterion()), formatNumber(best->getValue()),
        best->getFolder().getPath(), getStepName(*best->getStep())));
  return saved;
}

Status TrainingSteps::saveBest(int64_t step) {
  if (!saver || !saver->getCriterion() || !isEvaluated(step))
    return Status::success();
  const std::optional<double> value =
      findValue(lastMeans, saver->getCriterion()->output);
  Result<uint8_t> decided =
      session.getDevices().decide(uint8_t(value && saver->isBest(*value)));
  if (!decided)
    return decided.getError();
  // In front of the checkpoint of this step: a training that goes on from there
  // evaluates it no more.
  return *decided ? saver->saveBest(step + 1, *value) : Status::success();
}

Status TrainingSteps::endStep(int64_t step, SignalsInSteps &signals) {
  if (saver)
    if (Status saved = saver->check(); !saved)
      return saved;
  // Ranks get the signal at different steps, and have other clocks; rank 0
  // hears of all.
  const bool isDue = saver && step + 1 < totalSteps && saver->isDue(step + 1);
  Result<uint8_t> decided = session.getDevices().decide(
      uint8_t(signals.getRequested() | (isDue ? savesBit : 0)));
  if (!decided)
    return decided.getError();
  const int signal = *decided & ~savesBit;
  if (signal == 0)
    return *decided & savesBit ? saver->save(step + 1) : Status::success();
  progress.finish();
  Status saved = saveLast(step + 1);
  if (!saved)
    return saved;
  return signals.stop(
      signal,
      fmt::format("after epoch {}, step {} of {} (step {} of {} in all)",
                  step / stepsPerEpoch + 1, step % stepsPerEpoch + 1,
                  stepsPerEpoch, step + 1, totalSteps));
}

Status TrainingSteps::run() {
  SignalsInSteps signals(request.signals);
  for (int64_t step = position.step; step < totalSteps; ++step) {
    Result<std::optional<double>> loss = runStep(step);
    if (!loss)
      return loss.getError();
    Status ended = tell(step, *loss);
    if (ended)
      ended = saveBest(step);
    if (ended)
      ended = endStep(step, signals);
    if (!ended)
      return ended;
  }
  progress.finish();
  return saveLast(std::max(totalSteps, position.step));
}
