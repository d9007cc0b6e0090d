#ifndef MESHC_RUNTIME_APP_RESUME_H
#define MESHC_RUNTIME_APP_RESUME_H

#include "runtime/app/Session.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/Manifest.h"

#include <optional>
#include <string>

namespace meshc::runtime {

/// The checkpoint at `path`, or the newest of a folder, which has to be of the
/// session's model. On all ranks, which have to see the same.
/// Errors: as of Checkpoint::open and checkModel; RanksDiffer.
Result<Checkpoint> openCheckpoint(Session &session, const std::string &path);

/// Where a training goes on that has the data of `begin`, and the seed, if one
/// was given: behind the last step of the checkpoint.
/// Errors: OtherTraining.
Result<TrainingPosition> checkTraining(const Checkpoint &checkpoint,
                                       const TrainingPosition &begin,
                                       std::optional<int64_t> seed);

/// Sets the variables of the session. State that the checkpoint does not have
/// stays as it is. Errors: as of Checkpoint::load.
Status loadCheckpoint(Session &session, const Checkpoint &checkpoint);

} // namespace meshc::runtime

#endif
