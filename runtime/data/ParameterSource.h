#ifndef MESHC_RUNTIME_DATA_PARAMETERSOURCE_H
#define MESHC_RUNTIME_DATA_PARAMETERSOURCE_H

/// Where parameters come from.
///
/// A source knows the name, type and shape of what it has without reading it,
/// and gives any block of it: a device gets its part, and no more is in memory.

#include "runtime/data/NpyFile.h"
#include "runtime/data/Values.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace meshc::runtime {

class ParameterSource {
public:
  struct Entry {
    std::string name; ///< of the parameter
    exec::ElementType element = exec::ElementType::f32;
    std::vector<int64_t> shape;
    std::string place; ///< the file that has it, for messages
  };

  virtual ~ParameterSource() = default;

  /// What it has, by name.
  const std::vector<Entry> &getEntries() const { return entries; }
  /// The entry of a parameter; null if there is none.
  const Entry *find(std::string_view name) const;

  /// What has an entry, for messages: "file".
  virtual std::string getUnit() const { return "file"; }
  /// Every file that it reads.
  virtual std::vector<std::string> getFiles() const;
  /// Writes the part that `placement` owns into a block at `target`; padding is
  /// left as it is. Errors: CannotRead, DamagedFile.
  virtual Status readBlock(const Entry &entry, const Placement &placement,
                           std::byte *target) const = 0;
  /// Equal for equal arrays: those of several processes are compared. Errors:
  /// as readBlock.
  virtual Result<std::string> getDigest(const Entry &entry) const = 0;

protected:
  std::vector<Entry> entries; ///< in the order of names, each once
};

/// What --from names: a folder of .npy files that are called like parameters,
/// with '.' for '/': layer.attn.wq.npy. Errors: CannotRead, and as of readNpy.
Result<std::unique_ptr<ParameterSource>>
openParameterSource(const std::string &path);

/// Files that are given by name. Errors: as of readNpy.
Result<std::unique_ptr<ParameterSource>>
openParameterFiles(const std::vector<NamedFile> &files);

/// An error that names all that the source lacks of `parameters`, has beside
/// them, or has with another type or shape, the first ten of each.
/// `mayLack`: of these something missing or wrong is none. `path` is what the
/// source was opened with. Errors: WrongParameters.
Status
compareParameters(const ParameterSource &source, const std::string &path,
                  const std::vector<const exec::VariableT *> &parameters,
                  const std::function<bool(const exec::VariableT &)> &mayLack);

} // namespace meshc::runtime

#endif
