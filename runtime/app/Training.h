#ifndef MESHC_RUNTIME_APP_TRAINING_H
#define MESHC_RUNTIME_APP_TRAINING_H

#include "runtime/app/Parameters.h"
#include "runtime/app/Session.h"
#include "runtime/app/StepTracer.h"
#include "runtime/checkpoint/Saver.h"
#include "runtime/io/StopSignals.h"
#include "runtime/metrics/StepLog.h"

#include <optional>
#include <string>

namespace meshc::runtime {

struct TrainingRequest {
  std::string dataFolder;
  std::optional<int64_t> seed;       ///< none given: 0, or the checkpoint's
  std::optional<int64_t> epochs;     ///< instead of the model's
  std::optional<int64_t> steps;      ///< instead of the epochs
  std::vector<NamedNumber> settings; ///< instead of the spec's numbers
  MetricsRequest metrics;
  bool checksData = false; ///< reads all samples before the first step
  bool trapsNan = false;   ///< see NanTrap
  bool failsOnNan = false; ///< ends where the loss is not finite
  bool evaluates = true;   ///< on the test split, in the end
  std::optional<int64_t> evalBatches; ///< instead of all of the test split
  std::optional<int64_t> evalEvery;   ///< steps; none: in the end alone
  /// That training starts from; none given: those of the seed.
  ParameterRequest parameters;
  TraceRequest trace;
  SaveRequest save;
  /// A checkpoint, or a folder with some, to go on from; empty: none.
  std::string resumePath;
  /// Goes on from the last checkpoint in the folder of `save`, where it has
  /// one, instead of `resumePath` and `parameters`.
  bool continues = false;
  /// That end the training; null: signals have their usual effect.
  StopSignals *signals = nullptr;
};

/// Sets the variables from the seed, trains, and evaluates on the test split
/// (TestSplit.h), which is not read where there is no evaluation.
/// Progress goes to standard error, the evaluation to standard output.
///
/// A loss that is NaN or infinite for the first time is told on standard error,
/// with the step. With `failsOnNan` it ends training there, on every rank, and
/// is an error of code LossNotFinite, and so is that of the evaluation. (Steps
/// that fp16's loss scale leaves out have gradients that are not finite, not
/// losses.)
///
/// With `evalEvery` the test split is evaluated behind every so many steps and
/// the last one, too, which changes no number of the training; the means are
/// among the metrics of the step, as "test/loss".
///
/// With `save` the state is saved as often as that says, and behind the last
/// step. With `resumePath`, or `continues`, training goes on behind the last
/// step of a checkpoint, on the samples that would have come, and to the step
/// that `steps` or `epochs` say; metrics of that step and those before stay in
/// their file.
///
/// SIGINT, SIGTERM and SIGHUP of any rank end training after the step in
/// progress on all of them, which is saved if anything is, and are reported as
/// an error of code Interrupted, Terminated or HungUp.
///
/// With `checksData` each sample of the training files, and of the test files
/// that are evaluated, is read once before anything else, by the processes of
/// the run together; what is wrong with one ends the training there.
///
/// `parameters` that are given replace those of the seed before the first
/// step; state of the optimizer starts as ever.
///
/// Errors: also those of Parameters::open, openCheckpoint, checkTraining and
/// Saver.
Status train(Session &session, const TrainingRequest &request);

} // namespace meshc::runtime

#endif
