#ifndef MESHC_RUNTIME_CHECKPOINT_CHECKPOINTPARAMETERS_H
#define MESHC_RUNTIME_CHECKPOINT_CHECKPOINTPARAMETERS_H

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/data/ParameterSource.h"

#include <map>
#include <span>

namespace meshc::runtime {

/// Whether a path is a checkpoint, or a folder that has some.
bool isCheckpoint(const std::string &path);

/// The parameters of a checkpoint; its state is not among them. Of `parameters`
/// that have a running mean it is that, as evaluations read it, where the
/// checkpoint has one.
class CheckpointParameters : public ParameterSource {
public:
  /// Errors: as of Checkpoint::open.
  static Result<std::unique_ptr<ParameterSource>>
  open(const std::string &path,
       std::span<const exec::VariableT *const> parameters);

  std::string getUnit() const override { return "value"; }
  std::vector<std::string> getFiles() const override;
  Status readBlock(const Entry &entry, const Placement &placement,
                   std::byte *target) const override;
  /// That of the checkpoint: no value is read for it.
  Result<std::string> getDigest(const Entry &entry) const override;

private:
  CheckpointParameters(Checkpoint checkpoint,
                       std::span<const exec::VariableT *const> parameters);

  Checkpoint checkpoint;
  /// Of parameters of which it is another one: the tensor that is read.
  std::map<std::string, const StoredTensor *, std::less<>> means;
};

} // namespace meshc::runtime

#endif
