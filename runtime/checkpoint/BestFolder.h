#ifndef MESHC_RUNTIME_CHECKPOINT_BESTFOLDER_H
#define MESHC_RUNTIME_CHECKPOINT_BESTFOLDER_H

#include "runtime/checkpoint/Folder.h"
#include "runtime/checkpoint/Manifest.h"

#include <cstdint>
#include <optional>
#include <string>

namespace meshc::runtime {

/// The folder `best` in the one that a training saves into. It has one
/// checkpoint, that of the step whose evaluation was the best so far: another
/// one appears as whole as any (Folder.h), and then the one before goes. What
/// the evaluation has given is in its manifest, so that a training that goes on
/// knows what it has to be better than.
class BestFolder {
public:
  /// Takes the folder below `folder`, and reads what is in it. That has to be
  /// of the training of `position`, and the best one by `criterion`. Of two,
  /// which a training leaves that was killed between them, the worse one goes.
  /// There is none where the training does not go on.
  /// Errors: HasCheckpoints, OtherTraining; those of SaveFolder::lock and
  /// Checkpoint::open.
  static Result<BestFolder> open(const std::string &folder,
                                 const Criterion &criterion,
                                 const TrainingPosition &position, bool goesOn);

  const SaveFolder &getFolder() const { return folder; }
  /// The best step so far; none: there is none.
  std::optional<int64_t> getStep() const { return step; }
  double getValue() const { return value; }
  /// Whether a value is better than the best so far; NaN is not.
  bool isBetter(double other) const;
  /// That the checkpoint of a step is to be the best one; who writes it has
  /// the folder keep it alone.
  void setBest(int64_t best, double bestValue) {
    step = best;
    value = bestValue;
  }

private:
  BestFolder(SaveFolder folder, const Criterion &criterion)
      : folder(std::move(folder)), criterion(criterion) {}
  Status read(int64_t found, const TrainingPosition &position);

  SaveFolder folder;
  Criterion criterion;
  std::optional<int64_t> step;
  double value = 0;
};

/// "SAVED/best".
std::string getBestPath(const std::string &folder);

} // namespace meshc::runtime

#endif
