#include "runtime/app/Resume.h"

#include "runtime/app/Progress.h"
#include "runtime/checkpoint/OtherModel.h"

#include <fmt/format.h>

#include <filesystem>

using namespace meshc;
using namespace meshc::runtime;

namespace fs = std::filesystem;

/// An error about a checkpoint, with the one that was saved before it.
static Error nameBefore(Error error, const std::string &path) {
  if (error.code != ErrorCode::DamagedFile || !error.note.empty())
    return error;
  // What is damaged may be the newest of a folder, or named itself.
  Result<std::vector<int64_t>> steps = listSteps(path);
  std::string folder = path;
  size_t numBefore = 0;
  if (steps && !steps->empty()) {
    numBefore = steps->size() - 1;
  } else {
    const fs::path self =
        fs::path(path + "/.").lexically_normal().parent_path();
    folder = self.has_parent_path() ? self.parent_path().string() : ".";
    steps = listSteps(folder);
    while (steps && numBefore < steps->size() &&
           getStepName((*steps)[numBefore]) != self.filename())
      ++numBefore;
    if (!steps || numBefore == steps->size())
      return error;
  }
  error.note = numBefore == 0
                   ? "there is no checkpoint before it"
                   : fmt::format("the checkpoint before it is '{}/{}'", folder,
                                 getStepName((*steps)[numBefore - 1]));
  return error;
}

Result<Checkpoint> runtime::openCheckpoint(Session &session,
                                           const std::string &path) {
  Result<Checkpoint> checkpoint = Checkpoint::open(path);
  if (!checkpoint)
    return nameBefore(checkpoint.getError(), path);
  Status same = session.agree(
      {{fmt::format("the checkpoint that is read from '{}'", path),
        fmt::format("step {}, {}", checkpoint->getManifest().position.step,
                    checkpoint->getDigest())}});
  if (same)
    same = checkModel(checkpoint->getManifest(), session.getExecutable().data,
                      checkpoint->getPath());
  if (!same)
    return same.getError();
  const Manifest &manifest = checkpoint->getManifest();
  if (session.isFirst() &&
      manifest.specSha256 != session.getExecutable().data.spec_sha256)
    printNote(fmt::format("'{}' was saved by another text of the spec, whose "
                          "values have the same names and sizes",
                          checkpoint->getPath()));
  if (session.isFirst() &&
      isPassedOver(checkpoint->getManifest(), session.getExecutable().data))
    printNote("'adam/step' of the checkpoint is passed over: adam goes by the "
              "number of the training's step");
  return checkpoint;
}

Result<TrainingPosition> runtime::checkTraining(const Checkpoint &checkpoint,
                                                const TrainingPosition &begin,
                                                std::optional<int64_t> seed) {
  const TrainingPosition &stored = checkpoint.getManifest().position;
  auto getError = [&](const std::string &what, std::string note) {
    return Error{ErrorCode::OtherTraining,
                 fmt::format("'{}' {}", checkpoint.getPath(), what),
                 std::move(note)};
  };
  if (seed && *seed != stored.seed)
    return getError(
        fmt::format("was trained with --seed {}, not {}", stored.seed, *seed),
        "leave --seed out to go on with that of the checkpoint");
  if (begin.batch != stored.batch)
    return getError(
        fmt::format("was trained with batches of {}, this model has {}",
                    stored.batch, begin.batch),
        "its place in the data would be another one");
  for (const auto &[input, digest] : begin.data) {
    const auto found =
        std::find_if(stored.data.begin(), stored.data.end(),
                     [&](const auto &each) { return each.first == input; });
    if (found == stored.data.end())
      return getError(
          fmt::format("was trained without data for input '{}'", input), "");
    if (found->second != digest)
      return getError(
          fmt::format("was trained on other data for input '{}'", input),
          stored.samples != begin.samples
              ? fmt::format("it had {} samples, there are {} now",
                            stored.samples, begin.samples)
              : fmt::format("{} samples, but with other bytes", begin.samples));
  }
  TrainingPosition position = begin;
  position.step = stored.step;
  position.seed = stored.seed;
  return position;
}

Status runtime::loadCheckpoint(Session &session, const Checkpoint &checkpoint) {
  ByteProgress progress("checkpoint read");
  Status loaded =
      checkpoint.load(session.getDevices(), progress.listen(session.isFirst()));
  return loaded ? loaded : nameBefore(loaded.getError(), checkpoint.getPath());
}
