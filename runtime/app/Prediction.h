#ifndef MESHC_RUNTIME_APP_PREDICTION_H
#define MESHC_RUNTIME_APP_PREDICTION_H

#include "runtime/app/Parameters.h"
#include "runtime/app/Session.h"
#include "runtime/app/TopTable.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace meshc::runtime {

struct PredictionRequest {
  std::vector<NamedFile> inputs;
  /// Of the test files that all inputs are read from instead.
  std::optional<std::string> dataFolder;
  std::optional<int64_t> maxSamples; ///< the first ones; none: all
  ParameterRequest parameters;
  std::vector<NamedFile> outputs;
  std::vector<NamedFile> gradients;
  /// The dim that counts samples, where the program does not say it; else
  /// empty.
  std::string batchDim;
  TopRequest top;
  /// Compute as the training step does, not as an evaluation.
  bool isTraining = false;
  int64_t firstRun = 1; ///< the number of the first batch, or step
};

/// Runs the model on whole arrays: reads every input from .npy files or all
/// from the test files, and the parameters, runs program "eval" (or "gradient",
/// if gradients are asked for; "training" and "training_gradient" for what a
/// training step computes, where that is another program) and writes what is
/// asked for as .npy, or prints a table of it (TopTable.h). If nothing is asked
/// for, the outputs of one element are printed.
///
/// Inputs have any number N of samples along the batch dim (Dataset.h); they
/// are run in batches (SampleLoop.h). An output
///   with the batch dim     has N positions along it, in the order of samples
///   of floats without dims is the mean over the samples
///   of another shape       is of a batch as a whole, as all gradients are:
///                          where it is asked for, N is the size of a batch
/// Nothing is asked of the last two where N is 0; the first has no elements.
Status predict(Session &session, const PredictionRequest &request);

} // namespace meshc::runtime

#endif
