#include "runtime/checkpoint/BestFolder.h"

#include "runtime/checkpoint/Checkpoint.h"

#include <fmt/format.h>

#include <cmath>

using namespace meshc;
using namespace meshc::runtime;

std::string runtime::getBestPath(const std::string &folder) {
  return folder + "/best";
}

Result<BestFolder> BestFolder::open(const std::string &folder,
                                    const Criterion &criterion,
                                    const TrainingPosition &position,
                                    bool goesOn) {
  Result<SaveFolder> locked = SaveFolder::lock(getBestPath(folder));
  if (!locked)
    return locked.getError();
  BestFolder best(std::move(*locked), criterion);
  const std::string &path = best.folder.getPath();
  Result<std::vector<int64_t>> steps = listSteps(path);
  if (!steps)
    return steps.getError();
  if (!steps->empty() && !goesOn)
    return Error{ErrorCode::HasCheckpoints,
                 fmt::format("'{}' has the best checkpoint of a training, that "
                             "of step {}",
                             path, steps->back()),
                 fmt::format("go on with it by --resume {} or --continue, or "
                             "save into another folder",
                             folder)};
  for (int64_t step : *steps)
    if (Status read = best.read(step, position); !read)
      return read.getError();
  if (best.step)
    if (Status kept = best.folder.keepOnly(*best.step); !kept)
      return kept.getError();
  return best;
}

Status BestFolder::read(int64_t found, const TrainingPosition &position) {
  const std::string path = folder.getPath() + "/" + getStepName(found);
  Result<Checkpoint> checkpoint = Checkpoint::open(path);
  if (!checkpoint)
    return checkpoint.getError();
  const Manifest &manifest = checkpoint->getManifest();
  auto getError = [&](const std::string &what) {
    return Error{ErrorCode::OtherTraining, fmt::format("'{}' {}", path, what),
                 "move it away to look for the best one anew"};
  };
  if (!manifest.evaluation)
    return getError("does not say what its evaluation has given");
  const Criterion &stored = manifest.evaluation->criterion;
  if (stored.output != criterion.output ||
      stored.isHighest != criterion.isHighest)
    return getError(fmt::format("has the {}, not the {}", toString(stored),
                                toString(criterion)));
  if (stored.samples != criterion.samples || stored.data != criterion.data)
    return getError("was the best one on other test samples");
  if (manifest.position.seed != position.seed ||
      manifest.position.batch != position.batch ||
      manifest.position.data != position.data)
    return getError("is of a training with another seed, batch or data");
  if (isBetter(manifest.evaluation->value))
    setBest(found, manifest.evaluation->value);
  return Status::success();
}

bool BestFolder::isBetter(double other) const {
  if (std::isnan(other))
    return false;
  return !step || (criterion.isHighest ? other > value : other < value);
}
