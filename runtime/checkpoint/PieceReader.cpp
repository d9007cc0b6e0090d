#include "runtime/checkpoint/PieceReader.h"

#include "runtime/checkpoint/Digest.h"
#include "runtime/io/FileErrors.h"

#include <fmt/format.h>

#include <algorithm>

#include <fcntl.h>

using namespace meshc;
using namespace meshc::runtime;

/// One that is taken, one that is read, and one between them: so few that the
/// processor's cache has them still when they are taken.
static constexpr size_t maxSlots = 3;

PieceReader::PieceReader(std::span<const OpenedFile> files,
                         std::vector<PiecePlace> order)
    : files(files), order(std::move(order)),
      slots(std::clamp<size_t>(this->order.size(), 2, maxSlots)) {
  for (const OpenedFile &file : files)
    verified.emplace_back(file.stored->pieces.size());
  for (size_t i = 0; i < slots.size(); ++i)
    prefetch(i);
  thread = std::thread([this] { work(); });
}

PieceReader::~PieceReader() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    isStopping = true;
  }
  changed.notify_all();
  thread.join();
}

void PieceReader::prefetch(size_t number) const {
  if (number == 0 || number >= order.size())
    return;
  const auto [file, piece] = order[number];
  if (order[number - 1] == PiecePlace{file, piece - 1})
    return;
  // A hint: what does not heed it is only slower.
  posix_fadvise(files[size_t(file)].file.get(),
                off_t(uint64_t(piece) * pieceBytes), off_t(pieceBytes),
                POSIX_FADV_WILLNEED);
}

Status PieceReader::read(const PiecePlace &place,
                         std::vector<std::byte> &bytes) const {
  const OpenedFile &file = files[size_t(place.file)];
  const uint64_t begin = uint64_t(place.piece) * pieceBytes;
  bytes.resize(size_t(std::min(pieceBytes, file.stored->bytes - begin)));
  return readFully(file.file, begin, bytes, file.path);
}

Status PieceReader::verify(const PiecePlace &place,
                           std::span<const std::byte> bytes) {
  const OpenedFile &file = files[size_t(place.file)];
  if (verified[size_t(place.file)][size_t(place.piece)])
    return Status::success();
  const uint64_t begin = uint64_t(place.piece) * pieceBytes;
  if (digest(bytes) != file.stored->pieces[size_t(place.piece)])
    return Error{
        ErrorCode::DamagedFile,
        fmt::format("'{}' is damaged: bytes {} to {} have another digest than "
                    "'{}' says",
                    file.path, begin, begin + bytes.size() - 1, manifestName),
        ""};
  verified[size_t(place.file)][size_t(place.piece)] = true;
  return Status::success();
}

void PieceReader::work() {
  for (size_t number = 0; number < order.size(); ++number) {
    {
      // The piece that was taken last is still looked at.
      std::unique_lock<std::mutex> lock(mutex);
      changed.wait(lock, [&] {
        return isStopping || number + 1 < numTaken + slots.size();
      });
      if (isStopping)
        return;
    }
    prefetch(number + slots.size());
    Slot &slot = slots[number % slots.size()];
    slot.status = takeMemory(files[size_t(order[number].file)].path,
                             [&] { return read(order[number], slot.bytes); });
    std::lock_guard<std::mutex> lock(mutex);
    numRead = number + 1;
    changed.notify_all();
  }
}

Result<std::span<const std::byte>> PieceReader::next() {
  std::unique_lock<std::mutex> lock(mutex);
  const size_t number = numTaken++;
  changed.notify_all();
  changed.wait(lock, [&] { return numRead > number; });
  lock.unlock();
  const Slot &slot = slots[number % slots.size()];
  if (!slot.status)
    return slot.status.getError();
  Status right = verify(order[number], slot.bytes);
  if (!right)
    return right.getError();
  return std::span<const std::byte>(slot.bytes);
}
