#ifndef MESHC_RUNTIME_APP_EVALUATION_H
#define MESHC_RUNTIME_APP_EVALUATION_H

#include "runtime/app/Session.h"

#include <string>
#include <vector>

namespace meshc::runtime {

/// NAME=FILE, as given on the command line.
struct NamedFile {
  std::string name;
  std::string path;
};

/// Splits "NAME=FILE" at the first '='. Errors: Usage.
Result<std::vector<NamedFile>>
parseNamedFiles(const std::vector<std::string> &texts);

/// The parameters of an evaluation.
struct ParameterRequest {
  std::vector<NamedFile> files;
  bool drawsMissing = false; ///< those without a file start as in a training
  int64_t seed = 0;          ///< of these
};

/// Errors: RepeatedInput, UnknownName, and MissingInput where a parameter has
/// no file and is not to be drawn.
Status checkParameters(const Session &session, const ParameterRequest &request);

/// Sets the variables from the seed, and the parameters that are given from
/// their .npy files.
Status setParameters(Session &session, const ParameterRequest &request);

struct EvaluationRequest {
  std::vector<NamedFile> inputs;
  ParameterRequest parameters;
  std::vector<NamedFile> outputs;
  std::vector<NamedFile> gradients;
};

/// Runs the model once on whole arrays: reads every input and the parameters
/// from .npy files, runs program "eval" (or "gradient", if gradients are
/// asked for) and writes what is asked for as .npy. If nothing is, the scalar
/// outputs are printed. A program that computes in fp16 runs until its
/// gradients are finite numbers, or its loss scale is at its lowest.
Status evaluateOnce(Session &session, const EvaluationRequest &request);

} // namespace meshc::runtime

#endif
