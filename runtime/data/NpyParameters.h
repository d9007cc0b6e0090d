#ifndef MESHC_RUNTIME_DATA_NPYPARAMETERS_H
#define MESHC_RUNTIME_DATA_NPYPARAMETERS_H

#include "runtime/data/ParameterSource.h"

#include <map>
#include <optional>

namespace meshc::runtime {

/// Parameters in .npy files, one in each.
class NpyParameters : public ParameterSource {
public:
  /// Reads the headers. Errors: as of readNpy.
  static Result<std::unique_ptr<ParameterSource>>
  open(std::vector<NamedFile> files);
  /// Those of a folder that end in .npy; what else is there is left alone.
  /// Errors: the same, and CannotRead.
  static Result<std::unique_ptr<ParameterSource>>
  openFolder(const std::string &path);

  Status readBlock(const Entry &entry, const Placement &placement,
                   std::byte *target) const override;
  Result<std::string> getDigest(const Entry &entry) const override;

private:
  void add(std::string name, NpyFile file);
  /// The file of an entry, which is what it was. Errors: as of readNpy.
  Result<const NpyFile *> getFile(const Entry &entry) const;

  /// What cannot be opened again, such as pipes, by path.
  std::map<std::string, NpyFile> kept;
  /// Of the others, when their headers were read.
  std::map<std::string, FileState> states;
  /// The one that was read last: there may be more than a process can have
  /// open.
  mutable std::optional<NpyFile> last;
};

} // namespace meshc::runtime

#endif
