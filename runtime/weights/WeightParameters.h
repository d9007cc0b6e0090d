#ifndef MESHC_RUNTIME_WEIGHTS_WEIGHTPARAMETERS_H
#define MESHC_RUNTIME_WEIGHTS_WEIGHTPARAMETERS_H

#include "runtime/data/ParameterSource.h"
#include "runtime/weights/StoredPart.h"
#include "runtime/weights/TensorFiles.h"

#include <map>
#include <set>

namespace meshc::runtime {

/// Parameters in safetensors files of any program, under names and in shapes
/// that a map translates.
class WeightParameters : public ParameterSource {
public:
  /// `path`: a file, or a folder of them. `map`: null where tensors have the
  /// names of parameters, also with '.' for '/'.
  /// Errors: as of TensorFiles::open; WrongParameters where some tensors of a
  /// parameter are missing, WrongArray where one has another shape or elements
  /// than the rule gives it. Those that belong to no parameter are entries of
  /// their own.
  static Result<std::unique_ptr<ParameterSource>>
  open(const std::string &path, const NameMap *map,
       std::span<const exec::VariableT *const> parameters);

  std::string getUnit() const override { return "tensor"; }
  std::vector<std::string> getFiles() const override;
  Status readBlock(const Entry &entry, const Placement &placement,
                   std::byte *target) const override;
  Result<std::string> getDigest(const Entry &entry) const override;

private:
  struct Part {
    StoredPart stored;
    const FileTensor *tensor;
  };

  explicit WeightParameters(TensorFiles files) : files(std::move(files)) {}

  /// The tensor that has a part; null: there is none.
  Result<const FileTensor *> findTensor(const StoredPart &part,
                                        const NameMap *map) const;
  Status add(StoredParameter &stored, const NameMap *map);

  TensorFiles files;
  std::map<std::string, std::vector<Part>, std::less<>> parts; ///< by parameter
  std::set<const FileTensor *> taken; ///< by some parameter
};

} // namespace meshc::runtime

#endif
