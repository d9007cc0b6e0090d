#include "runtime/exec/ExecutableSeal.h"

#include <fmt/format.h>
#include <sodium/crypto_generichash.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

namespace {

/// "MSHXSEAL" in a file. A number, since texts are in another section.
constexpr uint64_t sealMark = 0x4c4145535848534d;

struct Seal {
  uint64_t mark;
  uint64_t loadedBytes;
  unsigned char digest[32];
};
static_assert(sizeof(Seal) == 48);

} // namespace

/// Reads exactly these bytes; false where the file ends before, with an errno
/// of 0, or cannot be read.
MESHC_BEFORE_SEAL static bool readAt(int file, uint64_t offset, void *target,
                                     size_t count) {
  errno = 0;
  for (auto *bytes = static_cast<char *>(target); count > 0;) {
    const ssize_t read = pread(file, bytes, count, off_t(offset));
    if (read < 0 && errno == EINTR)
      continue;
    if (read <= 0)
      return false;
    bytes += read;
    offset += uint64_t(read);
    count -= size_t(read);
  }
  return true;
}

/// The seal of the first `loadedBytes` of a file; Sound where it was computed.
MESHC_BEFORE_SEAL static SealState computeSeal(int file, uint64_t loadedBytes,
                                               Seal &seal) {
  seal.mark = sealMark;
  seal.loadedBytes = loadedBytes;
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, sizeof(seal.digest));
  unsigned char chunk[1 << 16];
  for (uint64_t done = 0; done < loadedBytes;) {
    const uint64_t left = loadedBytes - done;
    const size_t count = left < sizeof(chunk) ? size_t(left) : sizeof(chunk);
    if (!readAt(file, done, chunk, count))
      return errno != 0 ? SealState::Unreadable : SealState::CutOff;
    crypto_generichash_update(&state, chunk, count);
    done += count;
  }
  crypto_generichash_update(
      &state, reinterpret_cast<const unsigned char *>(&loadedBytes),
      sizeof(loadedBytes));
  crypto_generichash_final(&state, seal.digest, sizeof(seal.digest));
  return SealState::Sound;
}

/// checkSeal of an open file.
MESHC_BEFORE_SEAL static SealState checkOpened(int file) {
  struct stat status;
  if (fstat(file, &status) != 0)
    return SealState::Unreadable;
  const auto size = uint64_t(status.st_size);
  Seal found, expected;
  if (size < sizeof(Seal))
    return SealState::Missing;
  if (!readAt(file, size - sizeof(Seal), &found, sizeof(Seal)))
    return errno != 0 ? SealState::Unreadable : SealState::CutOff;
  if (found.mark != sealMark)
    return SealState::Missing;
  if (found.loadedBytes > size - sizeof(Seal))
    return SealState::CutOff;
  const SealState computed = computeSeal(file, found.loadedBytes, expected);
  if (computed != SealState::Sound)
    return computed;
  return std::memcmp(found.digest, expected.digest, sizeof(found.digest)) == 0
             ? SealState::Sound
             : SealState::OtherBytes;
}

MESHC_BEFORE_SEAL SealState runtime::checkSeal(const char *path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return SealState::Unreadable;
  const SealState state = checkOpened(file);
  const int reason = errno;
  close(file);
  errno = reason;
  return state;
}

/// Appends a seal to an open file; false: errno says why.
static bool appendSeal(int file, uint64_t loadedBytes) {
  Seal seal;
  const off_t end = lseek(file, 0, SEEK_END);
  errno = 0;
  if (end < 0 || computeSeal(file, loadedBytes, seal) != SealState::Sound)
    return false;
  return pwrite(file, &seal, sizeof(seal), end) == ssize_t(sizeof(seal));
}

Status runtime::sealExecutable(const std::string &path, uint64_t loadedBytes) {
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  const bool isSealed = file >= 0 && appendSeal(file, loadedBytes);
  const int reason = errno;
  if (file >= 0)
    close(file);
  if (isSealed)
    return Status::success();
  return Error{ErrorCode::CannotWrite,
               fmt::format("cannot write '{}': {}", path,
                           std::strerror(reason != 0 ? reason : ENOSPC)),
               ""};
}
