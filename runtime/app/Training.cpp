#include "runtime/app/Training.h"

#include "runtime/app/NanTrap.h"
#include "runtime/app/Progress.h"
#include "runtime/app/Resume.h"
#include "runtime/app/TestSplit.h"
#include "runtime/io/StandardStreams.h"
#include "runtime/metrics/StepLog.h"
#include "runtime/ranks/Ranks.h"
#include "runtime/samples/Prefetch.h"
#include "runtime/samples/SampleOrder.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
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

/// Under which name the mean of an output over the test samples is among the
/// metrics: no output is called so.
static std::string getTestName(const std::string &output) {
  return "test/" + output;
}

/// An error where the loss of the test samples is not finite, but has to be.
static Status checkTestLoss(const TrainingRequest &request,
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

namespace {

/// The steps of a training whose variables are set and whose files are open.
class Steps {
public:
  Steps(Session &session, const exec::ProgramT &program,
        const exec::TrainingT &recipe, const Dataset &dataset,
        const TestSplit *split, const TrainingRequest &request,
        const TrainingPosition &position, StepLog &log, StepTracer &tracer,
        NanTrap *trap, Saver *saver)
      : session(session), program(program), recipe(recipe), dataset(dataset),
        split(split), request(request), position(position), log(log),
        tracer(tracer), trap(trap), saver(saver),
        stepsPerEpoch(dataset.getNumBatches()),
        totalSteps(getTotalSteps(request, recipe, dataset)),
        prefetch(dataset, session.getDevices(), position.step, totalSteps,
                 [this](int64_t step, std::span<int64_t> samples) {
                   fillOrder(step, samples);
                 }) {}

  Status run();
  /// What the test split gave behind the last step; empty: it was not asked.
  const std::vector<NamedValue> &getLastMeans() const { return lastMeans; }

private:
  /// The samples of a step, counted from 0.
  void fillOrder(int64_t step, std::span<int64_t> samples) const;
  /// Whether the test split is to be evaluated behind a step.
  bool isEvaluated(int64_t step) const {
    return split && request.evalEvery &&
           ((step + 1) % *request.evalEvery == 0 || step + 1 == totalSteps);
  }
  /// Evaluates behind a step, and adds what that gives to its metrics.
  Status evaluate(int64_t step, std::vector<NamedValue> &values);
  /// Runs a step, and writes its metrics; its loss, if it has one.
  Result<std::optional<double>> runStep(int64_t step);
  /// Tells of a loss that is the first one not to be finite, and of how far
  /// the training is.
  Status tell(int64_t step, std::optional<double> loss);
  /// Saves behind a step that is the best one so far.
  Status saveBest(int64_t step);
  /// Saves, where it is time for it, and ends where a signal asks for it.
  Status endStep(int64_t step, SignalsInSteps &signals);
  /// Saves behind a step, and waits until it is there.
  Status saveLast(int64_t steps);

  Session &session;
  const exec::ProgramT &program;
  const exec::TrainingT &recipe;
  const Dataset &dataset;
  const TestSplit *split; ///< null: there is none
  const TrainingRequest &request;
  const TrainingPosition &position;
  StepLog &log;
  StepTracer &tracer;
  NanTrap *trap; ///< null: none
  Saver *saver;
  const int64_t stepsPerEpoch, totalSteps;
  Prefetch prefetch;
  Progress progress;
  bool isFinite = true;              ///< the loss, as far as was seen
  std::vector<NamedValue> lastMeans; ///< over the test samples
  Clock::duration evaluated{};       ///< time that this took
  const Clock::time_point start = Clock::now();
};

} // namespace

void Steps::fillOrder(int64_t step, std::span<int64_t> samples) const {
  const int64_t first = step % stepsPerEpoch * dataset.getBatchSize();
  const SampleOrder order(position.seed, step / stepsPerEpoch,
                          dataset.getNumSamples());
  for (size_t i = 0; i < samples.size(); ++i)
    samples[i] = order.getSample(first + int64_t(i));
}

Status Steps::evaluate(int64_t step, std::vector<NamedValue> &values) {
  const Clock::time_point begin = Clock::now();
  progress.finish();
  Result<std::vector<NamedValue>> means =
      split->evaluate(session, request.evalBatches);
  if (!means)
    return means.getError();
  lastMeans = std::move(*means);
  for (const NamedValue &mean : lastMeans)
    values.push_back({getTestName(mean.name), mean.value});
  evaluated += Clock::now() - begin;
  return Status::success();
}

Result<std::optional<double>> Steps::runStep(int64_t step) {
  const Clock::time_point stepStart = Clock::now();
  Status ran = prefetch.feed();
  if (ran)
    ran = trap ? trap->run(step + 1) : tracer.run(step);
  if (!ran)
    return ran.getError();
  Result<std::vector<NamedValue>> values = session.readScalars(program);
  if (!values)
    return values.getError();
  const double rate =
      double(dataset.getBatchSize()) / getSeconds(Clock::now() - stepStart);
  const double waited = prefetch.getSecondsWaited();
  const std::optional<double> loss = findValue(*values, recipe.minimize);
  if (isEvaluated(step))
    if (Status tested = evaluate(step, *values); !tested)
      return tested.getError();
  Status logged =
      log.add({step + 1, step / stepsPerEpoch + 1, *values, rate, waited});
  if (logged && isEvaluated(step))
    logged = checkTestLoss(request, recipe, lastMeans);
  if (!logged)
    return logged.getError();
  return loss;
}

Status Steps::tell(int64_t step, std::optional<double> loss) {
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

Status Steps::saveLast(int64_t steps) {
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

Status Steps::saveBest(int64_t step) {
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

Status Steps::endStep(int64_t step, SignalsInSteps &signals) {
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

Status Steps::run() {
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

/// Where training begins.
static Result<TrainingPosition> getPosition(const Dataset &dataset,
                                            const TrainingRequest &request,
                                            const Checkpoint *checkpoint) {
  TrainingPosition position;
  position.seed = request.seed.value_or(0);
  position.batch = dataset.getBatchSize();
  position.samples = dataset.getNumSamples();
  // Digests take a while.
  if (checkpoint || !request.save.folder.empty()) {
    auto digests = dataset.getDigests();
    if (!digests)
      return digests.getError();
    position.data = std::move(*digests);
  }
  return checkpoint ? checkTraining(*checkpoint, position, request.seed)
                    : position;
}

/// Whether a checkpoint is one of those in a folder.
static bool isInFolder(const std::string &checkpoint,
                       const std::string &folder) {
  namespace fs = std::filesystem;
  std::error_code failed;
  return fs::equivalent(fs::path(checkpoint) / "..", folder, failed);
}

/// Says what the best checkpoint is to be by, in full. Errors: UnknownName
/// where the output is none of the evaluation's numbers; those of reading.
static Status complete(const Session &session, const TestSplit &split,
                       const TrainingRequest &request, Criterion &criterion) {
  if (criterion.output.empty())
    criterion.output = session.getExecutable().data.training->minimize;
  Result<const exec::ProgramT *> program = session.getProgram("eval");
  if (!program)
    return program.getError();
  std::vector<std::string> names;
  for (const auto &port : (*program)->outputs)
    if (port->layout->dims.empty())
      names.push_back(port->name);
  if (std::find(names.begin(), names.end(), criterion.output) == names.end())
    return Error{ErrorCode::UnknownName,
                 fmt::format("--keep-best: '{}' is no output without dims",
                             criterion.output),
                 listNames(names)};
  Result<std::string> digest = split.getDataset().getDigest();
  if (!digest)
    return digest.getError();
  criterion.data = std::move(*digest);
  criterion.samples = split.getNumEvaluated(request.evalBatches);
  return Status::success();
}

/// An error if ranks have read different files.
static Status agreeOnData(Session &session, const Dataset &dataset,
                          const std::optional<TestSplit> &split) {
  if (!session.hasOtherRanks())
    return Status::success();
  Result<std::string> digest = dataset.getDigest();
  if (!digest)
    return digest.getError();
  Agreements items = {{"the training data", *digest}};
  if (split) {
    digest = split->getDataset().getDigest();
    if (!digest)
      return digest.getError();
    items.push_back({"the test data", *digest});
  }
  return session.agree(items);
}

/// Runs the steps behind `position`, with the variables of the checkpoint, if
/// there is one, else with these parameters. `lastMeans` are those of the test
/// split behind the last step, where the steps have asked for them.
static Status runSteps(Session &session, const exec::ProgramT &program,
                       const Dataset &dataset, const TestSplit *split,
                       const TrainingRequest &request,
                       const TrainingPosition &position,
                       const Parameters &parameters,
                       const Checkpoint *checkpoint,
                       std::vector<NamedValue> &lastMeans) {
  const exec::TrainingT &recipe = *session.getExecutable().data.training;
  std::unique_ptr<Saver> saver;
  if (!request.save.folder.empty()) {
    SaveRequest save = request.save;
    save.continues = request.continues;
    if (save.best)
      if (Status known = complete(session, *split, request, *save.best); !known)
        return known;
    Result<std::unique_ptr<Saver>> created = Saver::create(
        session.getDevices(), session.getRanks(), save, position,
        checkpoint && isInFolder(checkpoint->getPath(), request.save.folder));
    if (!created)
      return created.getError();
    saver = std::move(*created);
  }
  Result<StepLog> log = StepLog::open(
      session.isFirst() ? request.metrics : MetricsRequest(), position.step + 1,
      session.getExecutable().data.model, recipe.minimize);
  if (!log)
    return log.getError();
  Result<StepTracer> tracer =
      StepTracer::create(session, program, request.trace, position.step,
                         getTotalSteps(request, recipe, dataset));
  if (!tracer)
    return tracer.getError();
  Status ready =
      checkpoint ? session.initialise(position.seed) : parameters.set(session);
  if (ready && checkpoint)
    ready = loadCheckpoint(session, *checkpoint);
  if (ready && checkpoint && session.isFirst())
    printMessage(fmt::format("goes on from {}, behind step {}\n",
                             checkpoint->getPath(), position.step));
  std::optional<NanTrap> trap;
  if (request.trapsNan)
    trap.emplace(session, program);
  if (ready) {
    Steps steps(session, program, recipe, dataset, split, request, position,
                *log, *tracer, trap ? &*trap : nullptr, saver.get());
    ready = steps.run();
    lastMeans = steps.getLastMeans();
  }
  // What there is of a training that ends early is worth a look, too.
  const Status logged = log->finish();
  if (ready)
    ready = logged;
  // Its thread may wait for ranks that wait for what this one has to tell.
  if (!ready && session.hasOtherRanks())
    static_cast<void>(saver.release());
  return ready;
}

/// The evaluation behind the last step; `means` are what it has given already,
/// or empty.
static Status evaluateInTheEnd(Session &session, const TestSplit &split,
                               const TrainingRequest &request,
                               std::vector<NamedValue> means) {
  if (means.empty()) {
    Result<std::vector<NamedValue>> evaluated =
        split.evaluate(session, request.evalBatches);
    if (!evaluated)
      return evaluated.getError();
    means = std::move(*evaluated);
  }
  if (session.isFirst())
    split.print(means, request.evalBatches);
  return checkTestLoss(request, *session.getExecutable().data.training, means);
}

/// A training that knows which checkpoint it goes on from.
static Status trainFrom(Session &session, const TrainingRequest &request) {
  Result<const exec::ProgramT *> program = session.getStep();
  if (!program)
    return program.getError();
  const exec::TrainingT *recipe = session.getExecutable().data.training.get();
  if (!recipe)
    return Error{ErrorCode::NothingToDo, "the model has no train block", ""};
  if (Status apart = checkFiles(request); !apart)
    return apart;
  // Opened first: what is wrong with it should not cost a training.
  ParameterRequest start = request.parameters;
  start.seed = request.seed.value_or(0);
  start.drawsMissing |= start.from.empty();
  Result<Parameters> parameters = Parameters::open(session, start);
  if (!parameters)
    return parameters.getError();
  std::optional<Checkpoint> checkpoint;
  if (!request.resumePath.empty()) {
    Result<Checkpoint> opened = openCheckpoint(session, request.resumePath);
    if (!opened)
      return opened.getError();
    checkpoint = std::move(*opened);
  }
  std::optional<ByteProgress> progress("data read");
  Result<Dataset> dataset =
      Dataset::load(session.getExecutable(), **program, Dataset::Split::Train,
                    request.dataFolder, progress->listen(session.isFirst()));
  progress.reset();
  if (!dataset)
    return dataset.getError();
  std::optional<TestSplit> split;
  const bool hasTest = hasTestFiles(session.getExecutable().data);
  if (request.evalEvery && !hasTest)
    return Error{
        ErrorCode::Usage,
        fmt::format("{} needs test files, of which the data block "
                    "names none",
                    request.save.best ? "--keep-best" : "--eval-every"),
        "name one for each input: test = \"FILE\""};
  if (request.evaluates && !hasTest && session.isFirst())
    printNote("the data block names no test files to evaluate on");
  if (request.evaluates && hasTest) {
    Result<TestSplit> loaded = TestSplit::load(session, request.dataFolder);
    if (!loaded)
      return loaded.getError();
    split = std::move(*loaded);
  }
  Status same = agreeOnData(session, *dataset, split);
  if (!same)
    return same;
  Result<TrainingPosition> position =
      getPosition(*dataset, request, checkpoint ? &*checkpoint : nullptr);
  if (!position)
    return position.getError();
  std::vector<NamedValue> means;
  Status trained = runSteps(
      session, **program, *dataset, split ? &*split : nullptr, request,
      *position, *parameters, checkpoint ? &*checkpoint : nullptr, means);
  return trained && split ? evaluateInTheEnd(session, *split, request, means)
                          : trained;
}

Status runtime::train(Session &session, const TrainingRequest &request) {
  if (!request.continues)
    return trainFrom(session, request);
  const std::string &folder = request.save.folder;
  Result<std::optional<int64_t>> last = findLastStep(folder);
  if (!last)
    return last.getError();
  Status same =
      session.agree({{fmt::format("the last checkpoint in '{}'", folder),
                      *last ? std::to_string(**last) : "none"}});
  if (!same)
    return same;
  TrainingRequest next = request;
  next.metrics.continues = true;
  if (*last) {
    next.resumePath = folder;
    next.parameters = {};
  }
  return trainFrom(session, next);
}
