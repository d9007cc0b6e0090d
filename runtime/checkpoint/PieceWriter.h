#ifndef MESHC_RUNTIME_CHECKPOINT_PIECEWRITER_H
#define MESHC_RUNTIME_CHECKPOINT_PIECEWRITER_H

#include "runtime/checkpoint/Digest.h"
#include "runtime/checkpoint/Folder.h"
#include "runtime/exec/Error.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace meshc::runtime {

/// Writes files, one after the other, beside whoever fills their pieces: a
/// thread digests and writes what was filled. Pieces that are on their way take
/// a bounded part of the memory; who fills more has to wait for the disk.
class PieceWriter {
public:
  /// `bufferBytes`: of the pieces on their way, at least two of them.
  explicit PieceWriter(uint64_t bufferBytes);
  ~PieceWriter();
  PieceWriter(const PieceWriter &) = delete;
  PieceWriter &operator=(const PieceWriter &) = delete;

  /// Begins a new file of so many bytes; the one before has ended, or failed.
  void begin(uint64_t bytes);
  /// Memory for the next piece of the file; the piece before it is filled.
  std::span<std::byte> getPiece();
  /// The last piece is filled.
  void endPieces();

  /// Makes the file, which the disk has to have room for; pieces wait for it.
  /// From any thread. Errors: CannotWrite.
  Status open(const std::string &path);
  /// Nothing is to be written: pieces are filled for nothing.
  void fail(const Error &error);
  /// Of this file.
  uint64_t getFileBytes() const { return fileBytes; }
  /// Of these, from any thread.
  uint64_t getWrittenBytes();
  /// Waits until all is written and has reached the disk, from any thread.
  /// Errors: CannotWrite; that of fail().
  Result<std::vector<Digest>> end();

private:
  using Memory = std::unique_ptr<std::byte[]>;
  struct Piece {
    int64_t number;
    size_t bytes;
    Memory memory;
  };

  void work();
  void submitFilled();

  const size_t numBuffers;
  std::string path;
  OwnedFile file;
  uint64_t fileBytes = 0;

  std::mutex mutex; ///< of what follows
  std::condition_variable changed;
  std::vector<Memory> unused;
  size_t numAllocated = 0;
  std::optional<Piece> filling;
  std::deque<Piece> filled;
  int64_t nextPiece = 0, numPieces = 0, numWritten = 0;
  std::vector<Digest> digests;
  bool isOpen = false;
  std::optional<Error> failure;
  bool isStopping = false;
  std::thread thread;
};

} // namespace meshc::runtime

#endif
