#ifndef MESHC_RUNTIME_CHECKPOINT_OTHERMODEL_H
#define MESHC_RUNTIME_CHECKPOINT_OTHERMODEL_H

/// Whether a checkpoint is of the model, and of the recipe, that goes on with
/// it.

#include "runtime/checkpoint/Manifest.h"

namespace meshc::runtime {

/// How the variables of an executable differ from those of a checkpoint, each
/// "'w1' is f32[pixel=784] in the checkpoint, f32[pixel=785] in the model".
/// State of a precision of computation, which is called fp16/..., may be
/// missing on either side; "adam/step", which checkpoints had before optimizers
/// were functions of the training's step, may be more than there is.
std::vector<std::string> compareWithModel(const Manifest &manifest,
                                          const exec::ExecutableT &model);

/// Whether a checkpoint has "adam/step", and the model nothing of the kind.
bool isPassedOver(const Manifest &manifest, const exec::ExecutableT &model);

/// compareWithModel() as an error of code OtherModel, which says it of recipes
/// where all values of the model are the same. `path`: the checkpoint.
Status checkModel(const Manifest &manifest, const exec::ExecutableT &model,
                  const std::string &path);

} // namespace meshc::runtime

#endif
