#include "runtime/app/Training.h"

#include "runtime/app/Progress.h"
#include "runtime/app/Resume.h"
#include "runtime/app/TestSplit.h"
#include "runtime/app/TrainingSteps.h"
#include "runtime/io/StandardStreams.h"
#include "runtime/metrics/StepLog.h"
#include "runtime/ranks/Ranks.h"
#include "runtime/samples/DataCheck.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>

using namespace meshc;
using namespace meshc::runtime;

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
  const exec::TrainingT &recipe = *session.getExecutable().data.training;
  if (criterion.output.empty() && !recipe.others.empty())
    return Error{ErrorCode::Usage,
                 "--keep-best: the training minimizes several outputs",
                 fmt::format("say which: --keep-best {}, or --keep-best {}",
                             recipe.minimize,
                             fmt::join(recipe.others, ", or --keep-best "))};
  if (criterion.output.empty())
    criterion.output = recipe.minimize;
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

/// Reads this process's share of the samples.
static Status checkData(Session &session, const Dataset &dataset,
                        const std::optional<TestSplit> &split) {
  const Ranks *ranks = session.getRanks();
  const int64_t rank = ranks ? ranks->getRank() : 0;
  const int64_t numRanks = ranks ? ranks->getNumRanks() : 1;
  const auto threads = int(std::max<int64_t>(
      1, int64_t(std::thread::hardware_concurrency()) / numRanks));
  ByteProgress progress("data checked");
  std::vector<const Dataset *> all = {&dataset};
  if (split)
    all.push_back(&split->getDataset());
  for (const Dataset *each : all) {
    const int64_t samples = each->getNumSamples();
    Status checked = checkSamples(*each, samples * rank / numRanks,
                                  samples * (rank + 1) / numRanks, threads,
                                  progress.listen(session.isFirst()));
    if (!checked)
      return checked;
  }
  if (session.isFirst())
    printMessage(
        fmt::format("checked {} samples{}\n", dataset.getNumSamples(),
                    split ? fmt::format(" and {} of the test files",
                                        split->getDataset().getNumSamples())
                          : ""));
  return Status::success();
}

/// Of the parts of a step in front of its last one, where it has such, and of
/// the last; none where nobody asks for them.
static Result<std::vector<NanTrap>> makeTraps(Session &session,
                                              const exec::ProgramT &step,
                                              const TrainingRequest &request) {
  std::vector<NanTrap> traps;
  if (!request.trapsNan)
    return traps;
  if (session.getExecutable().data.training->parts > 1) {
    Result<const exec::ProgramT *> part = session.getProgram("accumulate");
    if (!part)
      return part.getError();
    traps.emplace_back(session, **part);
  }
  traps.emplace_back(session, step);
  return traps;
}

static void tellWhereItGoesOn(const Checkpoint &checkpoint,
                              const TrainingPosition &position,
                              int64_t totalSteps) {
  printMessage(fmt::format("goes on from {}, behind step {}\n",
                           checkpoint.getPath(), position.step));
  if (position.step >= totalSteps)
    printNote(fmt::format("nothing is left to train: it ends with step {}; "
                          "--steps and --epochs count from the beginning",
                          totalSteps));
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
    tellWhereItGoesOn(*checkpoint, position,
                      getTotalSteps(request, recipe, dataset));
  Result<std::vector<NanTrap>> traps = makeTraps(session, program, request);
  if (!traps)
    return traps.getError();
  if (ready) {
    TrainingSteps steps(session, program, recipe, dataset, split, request,
                        position, *log, *tracer, *traps, saver.get());
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

/// Sets the numbers that the training of the checkpoint had set, if there is
/// one, and those that are given. Errors: as Session::set.
static Status setNumbers(Session &session,
                         const std::vector<NamedNumber> &given,
                         const Checkpoint *checkpoint) {
  std::map<std::string, Number> stored, numbers;
  if (checkpoint)
    stored = checkpoint->getManifest().position.settings;
  for (const auto &[name, value] : given)
    numbers.insert_or_assign(name, value);
  std::set<std::string> settable;
  for (const NamedNumber &number : session.getSettings().list(false))
    settable.insert(number.name);
  // What the checkpoint had of numbers that are other ones from now on.
  std::map<std::string, Number> changed;
  for (const auto &[name, value] : numbers) {
    Result<Number> before = session.getSettings().get(name);
    if (const auto found = stored.find(name); found != stored.end())
      before = found->second;
    if (checkpoint && before && toExpression(*before) != toExpression(value))
      changed.emplace(name, *before);
  }
  // Another program may have none of the name, or be made of it.
  for (const auto &[name, value] : stored)
    if (!settable.contains(name))
      changed.emplace(name, value);
    else
      numbers.emplace(name, value);
  // All at once: what is required may be of several of them.
  std::vector<NamedNumber> list;
  for (const auto &[name, value] : numbers)
    list.push_back({name, value});
  if (Status set = session.set(list); !set)
    return set;
  for (const auto &[name, value] : changed) {
    const Result<Number> now = session.getSettings().get(name);
    if (session.isFirst())
      printNote(fmt::format(
          "'{}' was trained with {} = {}, and {} from here on",
          checkpoint->getPath(), name, toString(value),
          now ? "it is " + toString(*now) : "the program has no such number"));
  }
  return Status::success();
}

/// A training that knows which checkpoint it goes on from.
static Status trainFrom(Session &session, const TrainingRequest &request) {
  Result<const exec::ProgramT *> program = session.getStep();
  if (!program)
    return program.getError();
  const exec::TrainingT *recipe = session.getExecutable().data.training.get();
  if (!recipe)
    return Error{ErrorCode::NothingToDo, "the model has no train block", ""};
  if (!request.steps && !request.epochs && recipe->steps == 0 &&
      recipe->epochs == 0)
    return Error{ErrorCode::Usage,
                 "the train block does not say for how long to train",
                 "give --steps N, or --epochs N"};
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
  if (Status set = setNumbers(session, request.settings,
                              checkpoint ? &*checkpoint : nullptr);
      !set)
    return set;
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
  if (request.checksData)
    if (Status sound = checkData(session, *dataset, split); !sound)
      return sound;
  Result<TrainingPosition> position =
      getPosition(*dataset, request, checkpoint ? &*checkpoint : nullptr);
  if (!position)
    return position.getError();
  position->settings = session.getSettings().getChanged();
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
