#ifndef MESHC_RUNTIME_APP_TRAININGSTEPS_H
#define MESHC_RUNTIME_APP_TRAININGSTEPS_H

#include "runtime/app/NanTrap.h"
#include "runtime/app/Progress.h"
#include "runtime/app/Session.h"
#include "runtime/app/StepTracer.h"
#include "runtime/app/TestSplit.h"
#include "runtime/app/Training.h"
#include "runtime/checkpoint/Saver.h"
#include "runtime/metrics/StepLog.h"
#include "runtime/samples/Prefetch.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace meshc::runtime {

/// How many steps a training has in all.
int64_t getTotalSteps(const TrainingRequest &request,
                      const exec::TrainingT &recipe, const Dataset &dataset);

/// An error where the loss of the test samples is not finite, but has to be.
Status checkTestLoss(const TrainingRequest &request,
                     const exec::TrainingT &recipe,
                     const std::vector<NamedValue> &means);

class SignalsInSteps;

/// The steps of a training whose variables are set and whose files are open.
class TrainingSteps {
public:
  TrainingSteps(Session &session, const exec::ProgramT &program,
                const exec::TrainingT &recipe, const Dataset &dataset,
                const TestSplit *split, const TrainingRequest &request,
                const TrainingPosition &position, StepLog &log,
                StepTracer &tracer, std::span<NanTrap> traps, Saver *saver)
      : session(session), program(program), recipe(recipe), dataset(dataset),
        split(split), request(request), position(position), log(log),
        tracer(tracer), traps(traps), saver(saver),
        stepsPerEpoch(dataset.getNumBatches()),
        totalSteps(getTotalSteps(request, recipe, dataset)),
        prefetch(dataset, session.getDevices(),
                 position.step * dataset.getNumParts(),
                 totalSteps * dataset.getNumParts(),
                 [this](int64_t run, std::span<int64_t> samples) {
                   fillOrder(run / this->dataset.getNumParts(),
                             run % this->dataset.getNumParts(), samples);
                 }) {}

  /// Runs the steps behind `position`. Errors: as of train().
  Status run();
  /// What the test split gave behind the last step; empty: it was not asked.
  const std::vector<NamedValue> &getLastMeans() const { return lastMeans; }

private:
  /// The samples of a part of a step, both counted from 0: of m parts part i
  /// has each m-th one from i on.
  void fillOrder(int64_t step, int64_t part, std::span<int64_t> samples) const;
  /// Whether the test split is to be evaluated behind a step.
  bool isEvaluated(int64_t step) const {
    return split && request.evalEvery &&
           ((step + 1) % *request.evalEvery == 0 || step + 1 == totalSteps);
  }
  /// Evaluates behind a step, and adds what that gives to its metrics.
  Status evaluate(int64_t step, std::vector<NamedValue> &values);
  /// Runs the parts of a step; for how many seconds it has waited for samples.
  Result<double> runParts(int64_t step);
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
  std::span<NanTrap> traps; ///< of parts and of the last one; none: no trap
  Saver *saver;
  const int64_t stepsPerEpoch, totalSteps;
  Prefetch prefetch;
  Progress progress;
  bool isFinite = true;              ///< the loss, as far as was seen
  std::vector<NamedValue> lastMeans; ///< over the test samples
  std::chrono::steady_clock::duration evaluated{}; ///< time that this took
  const std::chrono::steady_clock::time_point start =
      std::chrono::steady_clock::now();
};

} // namespace meshc::runtime

#endif
