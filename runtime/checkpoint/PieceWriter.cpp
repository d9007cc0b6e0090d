#include "runtime/checkpoint/PieceWriter.h"

#include "runtime/io/FileErrors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

PieceWriter::PieceWriter(uint64_t bufferBytes)
    : numBuffers(size_t(std::max<uint64_t>(bufferBytes / pieceBytes, 2))) {
  // A single one: writers of one file wait for each other in the system.
  thread = std::thread([this] { work(); });
}

PieceWriter::~PieceWriter() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    isStopping = true;
  }
  changed.notify_all();
  thread.join();
}

void PieceWriter::begin(uint64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex);
  fileBytes = bytes;
  numPieces = getNumPieces(bytes);
  nextPiece = numWritten = 0;
  digests.assign(size_t(numPieces), Digest());
  isOpen = false;
  failure.reset();
}

Status PieceWriter::open(const std::string &newPath) {
  path = newPath;
  file = OwnedFile(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.get() < 0)
    return getWriteError(path);
  // A disk that is full says so now, not in the middle. Not every file system
  // can tell.
  if (fileBytes > 0 && fallocate(file.get(), 0, 0, off_t(fileBytes)) != 0 &&
      errno != EOPNOTSUPP && errno != ENOSYS && errno != EINTR)
    return getWriteError(path);
  std::lock_guard<std::mutex> lock(mutex);
  isOpen = true;
  changed.notify_all();
  return Status::success();
}

void PieceWriter::fail(const Error &error) {
  std::lock_guard<std::mutex> lock(mutex);
  failure = error;
  changed.notify_all();
}

void PieceWriter::submitFilled() {
  if (!filling)
    return;
  filled.push_back(std::move(*filling));
  filling.reset();
  changed.notify_all();
}

void PieceWriter::endPieces() {
  std::lock_guard<std::mutex> lock(mutex);
  submitFilled();
}

std::span<std::byte> PieceWriter::getPiece() {
  std::unique_lock<std::mutex> lock(mutex);
  submitFilled();
  changed.wait(lock,
               [&] { return !unused.empty() || numAllocated < numBuffers; });
  if (unused.empty()) {
    // Not zeroed: all of it is filled.
    unused.emplace_back(new std::byte[pieceBytes]);
    ++numAllocated;
  }
  const int64_t number = nextPiece++;
  filling = {
      number,
      size_t(std::min(pieceBytes, fileBytes - uint64_t(number) * pieceBytes)),
      std::move(unused.back())};
  unused.pop_back();
  return {filling->memory.get(), filling->bytes};
}

uint64_t PieceWriter::getWrittenBytes() {
  std::lock_guard<std::mutex> lock(mutex);
  return std::min(uint64_t(numWritten) * pieceBytes, fileBytes);
}

Result<std::vector<Digest>> PieceWriter::end() {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return numWritten == numPieces; });
  if (failure)
    return *failure;
  lock.unlock();
  if (fsync(file.get()) != 0)
    return getWriteError(path);
  file = OwnedFile();
  return digests;
}

void PieceWriter::work() {
  std::unique_lock<std::mutex> lock(mutex);
  for (;;) {
    changed.wait(lock, [&] {
      return isStopping || (!filled.empty() && (isOpen || failure));
    });
    if (isStopping)
      return;
    Piece piece = std::move(filled.front());
    filled.pop_front();
    const bool hasFailed = failure.has_value();
    lock.unlock();
    std::span<const std::byte> bytes(piece.memory.get(), piece.bytes);
    const Digest sum = digest(bytes);
    const auto place = off_t(uint64_t(piece.number) * pieceBytes);
    std::optional<Error> error;
    for (off_t at = place; !bytes.empty() && !hasFailed && !error;) {
      const ssize_t count = pwrite(file.get(), bytes.data(), bytes.size(), at);
      if (count < 0 && errno != EINTR)
        error = getWriteError(path);
      bytes = bytes.subspan(size_t(std::max<ssize_t>(count, 0)));
      at += std::max<ssize_t>(count, 0);
    }
    // The disk begins now, not when all is there.
    if (!hasFailed && !error)
      sync_file_range(file.get(), place, off_t(piece.bytes),
                      SYNC_FILE_RANGE_WRITE);
    lock.lock();
    if (error && !failure)
      failure = std::move(error);
    digests[size_t(piece.number)] = sum;
    unused.push_back(std::move(piece.memory));
    ++numWritten;
    changed.notify_all();
  }
}
