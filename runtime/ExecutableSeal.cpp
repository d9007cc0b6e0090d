#include "runtime/ExecutableSeal.h"

#include <fmt/format.h>
#include <sodium/crypto_generichash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

namespace {

constexpr std::array<char, 8> sealMark = {'M', 'S', 'H', 'X',
                                          'S', 'E', 'A', 'L'};

struct Seal {
  std::array<char, 8> mark;
  uint64_t loadedBytes;
  std::array<unsigned char, 32> digest;
};
static_assert(sizeof(Seal) == 48);

class Descriptor {
public:
  explicit Descriptor(int number) : number(number) {}
  ~Descriptor() {
    if (number >= 0)
      close(number);
  }
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;

  int number;
};

} // namespace

static Error getReadError(const std::string &path) {
  return {ErrorCode::CannotRead,
          fmt::format("cannot read '{}': {}", path, std::strerror(errno)), ""};
}

static Error getDamage(const std::string &path, const std::string &what) {
  return {ErrorCode::DamagedProgram,
          fmt::format("damaged executable: {} {}", path, what),
          "compile the model again"};
}

/// Reads exactly these bytes; false where the file ends before or fails.
static bool readAt(const Descriptor &file, uint64_t offset, void *target,
                   size_t count) {
  errno = 0;
  for (auto *bytes = static_cast<char *>(target); count > 0;) {
    const ssize_t read = pread(file.number, bytes, count, off_t(offset));
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

/// The seal of the first `loadedBytes` of a file.
static Result<Seal> computeSeal(const Descriptor &file, const std::string &path,
                                uint64_t loadedBytes) {
  Seal seal{sealMark, loadedBytes, {}};
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, seal.digest.size());
  std::vector<unsigned char> chunk(size_t(1) << 18);
  for (uint64_t done = 0; done < loadedBytes;) {
    const size_t count =
        size_t(std::min<uint64_t>(chunk.size(), loadedBytes - done));
    if (!readAt(file, done, chunk.data(), count))
      return errno != 0 ? getReadError(path) : getDamage(path, "is cut off");
    crypto_generichash_update(&state, chunk.data(), count);
    done += count;
  }
  crypto_generichash_update(
      &state, reinterpret_cast<const unsigned char *>(&loadedBytes),
      sizeof(loadedBytes));
  crypto_generichash_final(&state, seal.digest.data(), seal.digest.size());
  return seal;
}

Status runtime::sealExecutable(const std::string &path, uint64_t loadedBytes) {
  const Descriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (file.number < 0)
    return getReadError(path);
  Result<Seal> seal = computeSeal(file, path, loadedBytes);
  if (!seal)
    return seal.getError();
  const off_t end = lseek(file.number, 0, SEEK_END);
  errno = 0;
  if (end < 0 ||
      pwrite(file.number, &*seal, sizeof(Seal), end) != ssize_t(sizeof(Seal)))
    return Error{ErrorCode::CannotWrite,
                 fmt::format("cannot write '{}': {}", path,
                             std::strerror(errno != 0 ? errno : ENOSPC)),
                 ""};
  return Status::success();
}

Status runtime::checkSeal(const std::string &path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status;
  if (file.number < 0 || fstat(file.number, &status) != 0)
    return getReadError(path);
  const auto size = uint64_t(status.st_size);
  Seal found;
  if (size < sizeof(Seal) ||
      !readAt(file, size - sizeof(Seal), &found, sizeof(Seal)) ||
      found.mark != sealMark)
    return getDamage(path, "does not end as meshc has ended it");
  if (found.loadedBytes > size - sizeof(Seal))
    return getDamage(path, "is cut off");
  Result<Seal> expected = computeSeal(file, path, found.loadedBytes);
  if (!expected)
    return expected.getError();
  if (expected->digest != found.digest)
    return getDamage(path, "has other bytes than meshc has written");
  return Status::success();
}
