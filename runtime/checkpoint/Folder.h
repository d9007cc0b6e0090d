#ifndef MESHC_RUNTIME_CHECKPOINT_FOLDER_H
#define MESHC_RUNTIME_CHECKPOINT_FOLDER_H

/// The folder that a training saves into.
///
///   DIR/lock                    held by the training that saves
///   DIR/step-00000120/          a checkpoint: all of it is there
///     manifest.json
///     shard-00000-of-00002.safetensors ...
///   DIR/.step-00000180.part/    one that is being written, or was when its
///                               training ended; nobody reads it
///
/// A checkpoint appears by the renaming of its folder, when everything in it
/// has reached the disk, and goes by the renaming of its folder, before
/// anything in it is removed. So whatever ends a process, or the machine, what
/// is called step-N is whole.

#include "runtime/exec/Error.h"
#include "runtime/io/OwnedFile.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meshc::runtime {

inline constexpr const char *manifestName = "manifest.json";

/// "step-00000120".
std::string getStepName(int64_t step);

/// A plain file of a checkpoint, to read; links are none.
/// Errors: CannotRead; DamagedFile where it is no plain file.
Result<OwnedFile> openStored(const std::string &path, uint64_t &bytes);
/// Fills `target` from a place of a file. Errors: CannotRead; DamagedFile where
/// the file ends before.
Status readFully(const OwnedFile &file, uint64_t place,
                 std::span<std::byte> target, const std::string &path);

/// The steps of the checkpoints in a folder, ascending. Errors: CannotRead.
Result<std::vector<int64_t>> listSteps(const std::string &folder);

/// The last of them; none where there are none, or no folder.
/// Errors: CannotRead.
Result<std::optional<int64_t>> findLastStep(const std::string &folder);

/// A folder that this process alone saves into, as long as the object lives.
class SaveFolder {
public:
  /// Makes the folder where there is none, takes the lock, and removes what a
  /// training that was killed has left half written. One that is about to end
  /// is given some seconds.
  /// Errors: CannotWrite; FolderInUse, with who saves into it.
  static Result<SaveFolder> lock(const std::string &path);

  const std::string &getPath() const { return path; }

  /// Makes the folder of a checkpoint that is to be written; its path.
  Result<std::string> begin(int64_t step) const;
  /// Writes the last file, and makes the checkpoint appear, in the place of
  /// one of this step that is there. What is in the folder has been synced.
  /// Errors: CannotWrite.
  Status commit(int64_t step, std::string_view manifest) const;
  /// Removes what begin() has made.
  void abandon(int64_t step) const;
  /// Removes all checkpoints but the last `count`. Errors: CannotWrite.
  Status keepLast(int64_t count) const;
  /// Removes all checkpoints but that of a step. Errors: CannotWrite.
  Status keepOnly(int64_t step) const;

private:
  SaveFolder(std::string path, OwnedFile file)
      : path(std::move(path)), file(std::move(file)) {}
  Status remove(std::span<const int64_t> steps) const;

  std::string path;
  OwnedFile file;
};

/// Who has locked a folder last, "process 12 on HOST". Errors: CannotRead.
Result<std::string> readOwner(const std::string &folder);

/// Where SaveFolder::begin makes the folder of a step.
std::string getPartPath(const std::string &folder, int64_t step);

} // namespace meshc::runtime

#endif
