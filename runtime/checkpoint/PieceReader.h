#ifndef MESHC_RUNTIME_CHECKPOINT_PIECEREADER_H
#define MESHC_RUNTIME_CHECKPOINT_PIECEREADER_H

#include "runtime/checkpoint/Folder.h"
#include "runtime/checkpoint/Manifest.h"
#include "runtime/exec/Error.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace meshc::runtime {

/// A file of a checkpoint that is open for reading.
struct OpenedFile {
  std::string path;
  OwnedFile file;
  const StoredFile *stored;
};

/// A piece of one of the files of a checkpoint.
struct PiecePlace {
  int64_t file = 0;
  int64_t piece = 0;
  bool operator==(const PiecePlace &) const = default;
};

/// Reads pieces of files in a given order, and compares each with its digest. A
/// thread reads ahead of who takes the pieces, by 8 MiB at most.
class PieceReader {
public:
  /// `files` must outlive the reader.
  PieceReader(std::span<const OpenedFile> files, std::vector<PiecePlace> order);
  ~PieceReader();
  PieceReader(const PieceReader &) = delete;
  PieceReader &operator=(const PieceReader &) = delete;

  /// The next piece in the order, of which one is left; it stays until the
  /// following call.
  /// Errors: CannotRead; DamagedFile, with the file and the place in it.
  Result<std::span<const std::byte>> next();

private:
  struct Slot {
    std::vector<std::byte> bytes;
    Status status = Status::success();
  };

  void work();
  /// Has the system read a piece ahead that does not follow the one before it:
  /// it does so by itself for those that do, and hints make it slower then.
  void prefetch(size_t number) const;
  Status read(const PiecePlace &place, std::vector<std::byte> &bytes) const;
  Status verify(const PiecePlace &place, std::span<const std::byte> bytes);

  std::span<const OpenedFile> files;
  std::vector<PiecePlace> order;
  std::vector<std::vector<bool>> verified; ///< by file and piece
  /// Piece i of the order is in slot i mod their number. The thread fills a
  /// slot when the piece after the one in it has been taken.
  std::vector<Slot> slots;

  std::mutex mutex; ///< of what follows
  std::condition_variable changed;
  size_t numRead = 0, numTaken = 0;
  bool isStopping = false;
  /// A single one: two of one file, or of two, are slower together.
  std::thread thread;
};

} // namespace meshc::runtime

#endif
