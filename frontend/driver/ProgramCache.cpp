#include "frontend/driver/ProgramCache.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/FileSystem.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace llvm;
using namespace meshc;
using namespace meshc::driver;

/// Compiling takes seconds, minutes at most: what is older was left.
static constexpr std::chrono::hours freshFor(24);
static constexpr mode_t ownerOnly = S_IRWXU;
static constexpr mode_t allRights = 07777;

static Error makeError(const std::string &path, int number) {
  return createStringError(
      fmt::format("cannot use the cache folder '{}': {}; set MESHC_CACHE_DIR "
                  "to a folder that can be written",
                  path, std::strerror(number)));
}

/// Makes room for a folder at `path`, where something else is.
static bool moveAway(const std::string &path) {
  if (unlink(path.c_str()) == 0)
    return true;
  std::string place = path + ".XXXXXX";
  if (!mkdtemp(place.data()))
    return false;
  // An empty folder gives way to another one.
  if (rename(path.c_str(), place.c_str()) == 0)
    return true;
  rmdir(place.c_str());
  return false;
}

Expected<ProgramCache> ProgramCache::open() {
  Expected<std::string> cache = getCacheFolder();
  if (!cache)
    return cache.takeError();
  std::string path = fmt::format("{}/programs-{}", *cache, geteuid());
  // Twice, where what is there is in the way.
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (mkdir(path.c_str(), ownerOnly) != 0 && errno != EEXIST)
      return makeError(path, errno);
    Descriptor folder(
        ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat status;
    if (folder && fstat(folder.get(), &status) == 0 &&
        status.st_uid == geteuid()) {
      if ((status.st_mode & allRights) != ownerOnly &&
          fchmod(folder.get(), ownerOnly) != 0)
        return makeError(path, errno);
      return ProgramCache(std::move(path), std::move(folder));
    }
    if (!moveAway(path))
      break;
  }
  return createStringError(
      fmt::format("cannot use the cache folder '{}': it is no folder of this "
                  "user; remove it or set MESHC_CACHE_DIR to another",
                  path));
}

//===-- Entries -----------------------------------------------------------===//

/// Hexadecimal BLAKE3 of the key and what is left to read; none if it cannot be
/// read.
static std::optional<std::string> getDigest(const std::string &key,
                                            const Descriptor &file) {
  BLAKE3 digest;
  digest.update(key);
  std::vector<uint8_t> chunk(size_t(1) << 20);
  for (;;) {
    ssize_t count = read(file.get(), chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return std::nullopt;
    if (count == 0)
      return toHex(digest.final(), /*LowerCase=*/true);
    digest.update(ArrayRef(chunk).take_front(size_t(count)));
  }
}

static std::string getKey(const std::string &name) {
  return name.substr(0, name.find('-'));
}

std::vector<ProgramCache::Entry> ProgramCache::list() const {
  std::vector<Entry> entries;
  // A descriptor of its own, which reads from the start.
  int reader = openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  std::unique_ptr<DIR, int (*)(DIR *)> stream(
      reader < 0 ? nullptr : fdopendir(reader), closedir);
  while (const dirent *entry = stream ? readdir(stream.get()) : nullptr) {
    std::string name = entry->d_name;
    struct stat status;
    if (name == "." || name == ".." ||
        fstatat(folder.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    entries.push_back({name, uint64_t(status.st_size),
                       int64_t(status.st_mtim.tv_sec) * 1'000'000'000 +
                           status.st_mtim.tv_nsec,
                       StringRef(name).contains('-')});
  }
  return entries;
}

void ProgramCache::remove(const std::string &name) const {
  // What cannot be removed stays, and is tried again another time.
  if (unlinkat(folder.get(), name.c_str(), 0) != 0)
    (void)sys::fs::remove_directories(path + "/" + name);
}

std::optional<Descriptor> ProgramCache::check(const std::string &name) const {
  Expected<Descriptor> file = openOwnFile(name, folder.get());
  if (!file) {
    consumeError(file.takeError());
    return std::nullopt;
  }
  struct stat status;
  if (fstat(file->get(), &status) != 0 ||
      (status.st_mode & allRights) != ownerOnly)
    return std::nullopt;
  const std::string key = getKey(name);
  std::optional<std::string> digest = getDigest(key, *file);
  if (!digest || name != key + "-" + *digest)
    return std::nullopt;
  return std::move(*file);
}

std::optional<Descriptor> ProgramCache::find(const std::string &key) {
  for (const Entry &entry : list()) {
    if (!entry.isProgram || getKey(entry.name) != key)
      continue;
    if (std::optional<Descriptor> file = check(entry.name)) {
      // Used now; if that cannot be noted it goes a little earlier.
      (void)futimens(file->get(), nullptr);
      return file;
    }
    remove(entry.name);
  }
  return std::nullopt;
}

std::string ProgramCache::getFreshPath(const std::string &key) const {
  return fmt::format("{}/{}.{}", path, key, getpid());
}

Expected<Descriptor> ProgramCache::add(const std::string &key) {
  const std::string fresh = fmt::format("{}.{}", key, getpid());
  Expected<Descriptor> file = openOwnFile(fresh, folder.get());
  if (!file)
    return file.takeError();
  std::optional<std::string> digest = getDigest(key, *file);
  if (!digest || fchmod(file->get(), ownerOnly) != 0)
    return makeError(path, errno);
  for (const Entry &entry : list())
    if (entry.isProgram && getKey(entry.name) == key)
      remove(entry.name);
  const std::string name = key + "-" + *digest;
  if (renameat(folder.get(), fresh.c_str(), folder.get(), name.c_str()) != 0)
    return makeError(path, errno);
  return file;
}

//===-- Size --------------------------------------------------------------===//

void ProgramCache::trim(uint64_t bytes, const std::string &kept) {
  const int64_t now = std::chrono::nanoseconds(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  const int64_t fresh = now - std::chrono::nanoseconds(freshFor).count();
  std::vector<Entry> entries = list();
  auto isKept = [&](const Entry &entry) { return getKey(entry.name) == kept; };
  std::sort(entries.begin(), entries.end(),
            [&](const Entry &a, const Entry &b) {
              return std::pair(isKept(a), a.nanoseconds) >
                     std::pair(isKept(b), b.nanoseconds);
            });
  uint64_t total = 0;
  for (const Entry &entry : entries) {
    if (!entry.isProgram) {
      if (entry.nanoseconds < fresh)
        remove(entry.name);
      continue;
    }
    total += entry.bytes;
    if (total > bytes && !isKept(entry))
      remove(entry.name);
  }
}

ProgramCache::Usage ProgramCache::getUsage() const {
  Usage usage;
  for (const Entry &entry : list())
    if (entry.isProgram) {
      ++usage.programs;
      usage.bytes += entry.bytes;
    }
  return usage;
}

int meshc::driver::execute(const Descriptor &program,
                           std::vector<std::string> arguments) {
  std::vector<char *> argv;
  for (std::string &argument : arguments)
    argv.push_back(argument.data());
  argv.push_back(nullptr);
  fexecve(program.get(), argv.data(), environ);
  return errno;
}
