#ifndef MESHC_RUNTIME_APP_PARAMETERS_H
#define MESHC_RUNTIME_APP_PARAMETERS_H

#include "runtime/app/Session.h"
#include "runtime/data/NpyFile.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace meshc::runtime {

/// Where the parameters of an evaluation come from.
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

/// An error if two of `files` are for one thing, which is a `kind`.
Status checkUnique(std::string_view kind, const std::vector<NamedFile> &files);

} // namespace meshc::runtime

#endif
