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

/// Sets parameters from .npy files.
Status readParameters(Session &session, const std::vector<NamedFile> &files);

struct EvaluationRequest {
  std::vector<NamedFile> inputs;
  std::vector<NamedFile> parameters;
  int64_t seed = 0; ///< of the parameters that are not given
  std::vector<NamedFile> outputs;
  std::vector<NamedFile> gradients;
};

/// Runs the model once on whole arrays: reads every input and the parameters
/// given from .npy files, runs program "eval" (or "gradient", if gradients are
/// asked for) and writes what is asked for as .npy. If nothing is, the scalar
/// outputs are printed. A program that computes in fp16 runs until its
/// gradients are finite numbers, or its loss scale is at its lowest.
Status evaluateOnce(Session &session, const EvaluationRequest &request);

} // namespace meshc::runtime

#endif
