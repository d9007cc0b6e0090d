#include "runtime/checkpoint/PieceReader.h"

#include "runtime/checkpoint/Digest.h"

#include <fmt/format.h>

#include <algorithm>

#include <fcntl.h>

using namespace meshc;
using namespace meshc::runtime;

/// Read and not taken yet, together 24 MiB: so few that the processor's cache
/// has them still when they are taken.
static constexpr size_t numSlots = 6;

PieceReader::PieceReader(std::span<const OpenedFile> files,
                         std::vector<PiecePlace> order)
    : files(files), order(std::move(order)),
      slots(std::clamp<size_t>(this->order.size(), 2, numSlots)) {
  for (const OpenedFile &file : files)
    verified.emplace_back(file.stored->pieces.size());
  // One reads while the other one digests; more wait for the disk together.
  constexpr size_t maxThreads = 2;
  const size_t count = std::min(maxThreads, this->order.size());
  for (size_t i = 0; i < slots.size(); ++i)
    prefetch(i);
  for (size_t i = 0; i < count; ++i)
    threads.emplace_back([this] { work(); });
}

PieceReader::~PieceReader() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    isStopping = true;
  }
  changed.notify_all();
  for (std::thread &thread : threads)
    thread.join();
}

void PieceReader::prefetch(size_t number) const {
  if (number >= order.size())
    return;
  const auto [file, piece] = order[number];
  // A hint: what does not heed it is only slower.
  posix_fadvise(files[size_t(file)].file.get(),
                off_t(uint64_t(piece) * pieceBytes), off_t(pieceBytes),
                POSIX_FADV_WILLNEED);
}

Status PieceReader::read(const PiecePlace &place,
                         std::vector<std::byte> &bytes) {
  const OpenedFile &file = files[size_t(place.file)];
  const uint64_t begin = uint64_t(place.piece) * pieceBytes;
  bytes.resize(size_t(std::min(pieceBytes, file.stored->bytes - begin)));
  Status got = readFully(file.file, begin, bytes, file.path);
  if (!got)
    return got;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (verified[size_t(place.file)][size_t(place.piece)])
      return got;
  }
  if (digest(bytes) != file.stored->pieces[size_t(place.piece)])
    return Error{
        ErrorCode::DamagedFile,
        fmt::format("'{}' is damaged: bytes {} to {} have another digest than "
                    "'{}' says",
                    file.path, begin, begin + bytes.size() - 1, manifestName),
        ""};
  std::lock_guard<std::mutex> lock(mutex);
  verified[size_t(place.file)][size_t(place.piece)] = true;
  return got;
}

void PieceReader::work() {
  std::unique_lock<std::mutex> lock(mutex);
  for (;;) {
    // The piece that was taken last is still looked at.
    changed.wait(lock, [&] {
      return isStopping || (numStarted < order.size() &&
                            numStarted + 1 < numTaken + slots.size());
    });
    if (isStopping)
      return;
    const size_t number = numStarted++;
    Slot &slot = slots[number % slots.size()];
    slot.isReady = false;
    lock.unlock();
    prefetch(number + slots.size());
    Status status = read(order[number], slot.bytes);
    lock.lock();
    slot.status = std::move(status);
    slot.isReady = true;
    changed.notify_all();
  }
}

Result<std::span<const std::byte>> PieceReader::next() {
  std::unique_lock<std::mutex> lock(mutex);
  Slot &slot = slots[numTaken++ % slots.size()];
  changed.notify_all();
  changed.wait(lock, [&] { return numStarted >= numTaken && slot.isReady; });
  if (!slot.status)
    return slot.status.getError();
  return std::span<const std::byte>(slot.bytes);
}
