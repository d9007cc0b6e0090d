#ifndef MESHC_RUNTIME_APP_CONTINUATION_H
#define MESHC_RUNTIME_APP_CONTINUATION_H

#include "runtime/app/Parameters.h"
#include "runtime/app/Session.h"

#include <cstdint>
#include <string>

namespace meshc::runtime {

struct ContinuationRequest {
  std::string prompt;
  int64_t count = 0;      ///< of units (TextUnits.h) behind it
  std::string output;     ///< with a value for each; empty: the only that fits
  std::string dataFolder; ///< where the text for training is
  ParameterRequest parameters;
};

/// Prints a prompt and how the model goes on, greedily: program "eval" is run
/// on what there is so far, and the unit with the largest value at its last
/// position is next, the first one of several. The only input of the model is
/// one that a text feeds; the output has, beside the samples, the positions and
/// then the units. Of a text with more positions than the output has, the last
/// ones are taken; behind a shorter one there is the unit 0, which a model
/// whose positions see those before them alone does not notice. Errors:
/// NothingToDo where the model does not do so; UnknownName; Usage where several
/// outputs fit; ValueNotFinite where the output is NaN; those of TextUnits and
/// Parameters.
Status continueText(Session &session, const ContinuationRequest &request);

} // namespace meshc::runtime

#endif
