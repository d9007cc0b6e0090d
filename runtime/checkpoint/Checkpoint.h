#ifndef MESHC_RUNTIME_CHECKPOINT_CHECKPOINT_H
#define MESHC_RUNTIME_CHECKPOINT_CHECKPOINT_H

#include "runtime/checkpoint/Manifest.h"
#include "runtime/checkpoint/PieceReader.h"
#include "runtime/data/Values.h"
#include "runtime/devices/DeviceSet.h"
#include "runtime/io/ByteListener.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace meshc::runtime {

/// A checkpoint that is there, to be read by any executable whose variables it
/// has, on any mesh.
class Checkpoint {
public:
  /// `path`: a checkpoint, or a folder whose newest one is meant. Reads the
  /// manifest and the headers of its files, not the values.
  /// Errors: NoCheckpoint, CannotRead; DamagedFile, CheckpointVersion.
  static Result<Checkpoint> open(const std::string &path);

  const std::string &getPath() const { return path; }
  const Manifest &getManifest() const { return *manifest; }
  /// Of the text of the manifest: equal for equal checkpoints.
  const std::string &getDigest() const { return digest; }

  /// Reads every byte of its files and compares digests. Errors: CannotRead,
  /// DamagedFile.
  Status verify(const ByteListener &listener = {}) const;

  /// What a tensor is. Errors: as of verify(), of the pieces that it is in.
  Result<HostArray> read(const StoredTensor &tensor) const;

  /// Writes the part of a tensor that `placement` owns into a block at
  /// `target`; padding is left as it is. Errors: the same.
  Status readBlock(const StoredTensor &tensor, const Placement &placement,
                   std::byte *target) const;

  /// Sets the variables of an executable that the checkpoint has, on the
  /// devices of this process. Reads no more pieces than these need.
  /// Requires: compareWithModel() (OtherModel.h) finds no difference.
  /// Errors: as of verify(), of these pieces; those of the devices.
  Status load(DeviceSet &devices, const ByteListener &listener = {}) const;

private:
  struct PieceCopy;
  class PieceSequence;
  /// A part of a stored block and where it goes.
  struct Segment {
    int64_t file;
    uint64_t begin; ///< of the block in the file
    BoxRuns runs;
    std::vector<int64_t> pieces; ///< that have some of it
  };

  Checkpoint() = default;

  Status openFiles();
  Status readHeader(int64_t file);
  /// Where the parts of a tensor are that a block of a device holds.
  std::vector<Segment> find(const StoredTensor &tensor, const Box &box,
                            std::span<const int64_t> blockShape) const;
  /// What several blocks take of the pieces, in the order of the files.
  static std::vector<PieceCopy>
  listCopies(std::span<const std::vector<Segment> *const> targets);
  static Status copyPieces(PieceSequence &pieces,
                           std::span<const PieceCopy> copies,
                           std::span<std::byte *const> targets);

  std::string path;
  std::string digest;
  std::unique_ptr<Manifest> manifest;
  std::vector<OpenedFile> files;
  /// By tensor and block: the first byte in its file.
  std::vector<std::vector<uint64_t>> places;
};

} // namespace meshc::runtime

#endif
