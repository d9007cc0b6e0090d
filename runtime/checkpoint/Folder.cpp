#include "runtime/checkpoint/Folder.h"

#include "runtime/checkpoint/Manifest.h"
#include "runtime/io/FileErrors.h"
#include "runtime/ranks/Ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

namespace fs = std::filesystem;

static constexpr std::string_view stepPrefix = "step-";

std::string runtime::getStepName(int64_t step) {
  return fmt::format("{}{:08}", stepPrefix, step);
}

/// The step of a name that getStepName() has given.
static std::optional<int64_t> parseStepName(std::string_view name) {
  if (!name.starts_with(stepPrefix))
    return std::nullopt;
  int64_t step = -1;
  std::from_chars(name.data() + stepPrefix.size(), name.data() + name.size(),
                  step);
  return step >= 0 && name == getStepName(step) ? std::optional(step)
                                                : std::nullopt;
}

std::string runtime::getPartPath(const std::string &folder, int64_t step) {
  return fmt::format("{}/.{}.part", folder, getStepName(step));
}

Result<OwnedFile> runtime::openStored(const std::string &path,
                                      uint64_t &bytes) {
  // Without O_NONBLOCK a pipe would wait for who writes to it.
  OwnedFile file(
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status {};
  if (file.get() < 0 && errno != ELOOP)
    return getReadError(path);
  if (file.get() < 0 || fstat(file.get(), &status) != 0 ||
      !S_ISREG(status.st_mode))
    return Error{ErrorCode::DamagedFile,
                 fmt::format("'{}' is no plain file", path), ""};
  bytes = uint64_t(status.st_size);
  return file;
}

Status runtime::readFully(const OwnedFile &file, uint64_t place,
                          std::span<std::byte> target,
                          const std::string &path) {
  while (!target.empty()) {
    const ssize_t count =
        pread(file.get(), target.data(), target.size(), off_t(place));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return getReadError(path);
    if (count == 0)
      return Error{
          ErrorCode::DamagedFile,
          fmt::format("'{}' is damaged: it ends at byte {}", path, place), ""};
    place += uint64_t(count);
    target = target.subspan(size_t(count));
  }
  return Status::success();
}

Result<std::vector<int64_t>> runtime::listSteps(const std::string &folder) {
  std::vector<int64_t> steps;
  std::error_code failed;
  fs::directory_iterator entries(folder, failed);
  for (; !failed && entries != fs::directory_iterator();
       entries.increment(failed))
    if (const std::optional<int64_t> step =
            parseStepName(entries->path().filename().string()))
      steps.push_back(*step);
  if (failed)
    return Error{ErrorCode::CannotRead,
                 fmt::format("cannot read '{}': {}", folder, failed.message()),
                 ""};
  std::sort(steps.begin(), steps.end());
  return steps;
}

Result<std::optional<int64_t>>
runtime::findLastStep(const std::string &folder) {
  std::error_code failed; // listSteps tells why
  if (!fs::exists(folder, failed) && !failed)
    return std::optional<int64_t>();
  Result<std::vector<int64_t>> steps = listSteps(folder);
  if (!steps)
    return steps.getError();
  return steps->empty() ? std::optional<int64_t>() : steps->back();
}

/// Has the names in a folder reach the disk.
static Status syncFolder(const std::string &path) {
  const OwnedFile folder(
      open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0 || fsync(folder.get()) != 0)
    return getWriteError(path);
  return Status::success();
}

/// Where a checkpoint is while it is removed.
static std::string getOldPath(const std::string &folder, int64_t step) {
  return fmt::format("{}/.{}.old", folder, getStepName(step));
}

/// Removes a folder with files of a checkpoint; what is not of a checkpoint
/// stays, and the folder with it.
static void removeFiles(const std::string &path) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (fs::directory_iterator entry(path, ignored), end; entry != end;
       entry.increment(ignored))
    names.push_back(entry->path().filename().string());
  for (const std::string &name : names)
    if (name == manifestName || isShardName(name))
      unlink((path + "/" + name).c_str());
  rmdir(path.c_str());
}

/// What is left of checkpoints that were being written or removed.
static void removeLeftovers(const std::string &folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (fs::directory_iterator entry(folder, ignored), end; entry != end;
       entry.increment(ignored))
    names.push_back(entry->path().filename().string());
  for (const std::string &name : names) {
    std::string_view rest = name;
    const bool isPart = rest.ends_with(".part"), isOld = rest.ends_with(".old");
    if (!rest.starts_with('.') || !(isPart || isOld))
      continue;
    rest.remove_prefix(1);
    rest.remove_suffix(isPart ? 5 : 4);
    if (parseStepName(rest))
      removeFiles(folder + "/" + name);
  }
}

Result<std::string> runtime::readOwner(const std::string &folder) {
  const std::string path = folder + "/lock";
  uint64_t bytes = 0;
  Result<OwnedFile> file = openStored(path, bytes);
  if (!file)
    return file.getError();
  // Longer than any name of a host.
  std::string owner(size_t(std::min<uint64_t>(bytes, 512)), '\0');
  Status read =
      readFully(*file, 0, std::as_writable_bytes(std::span(owner)), path);
  return read ? Result<std::string>(owner) : read.getError();
}

Result<SaveFolder> SaveFolder::lock(const std::string &path) {
  if (mkdir(path.c_str(), 0777) == 0) {
    if (Status synced = syncFolder(path + "/.."); !synced)
      return synced.getError();
  } else if (errno != EEXIST) {
    return getWriteError(path);
  }
  const std::string lockPath = path + "/lock";
  OwnedFile file(
      open(lockPath.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (file.get() < 0)
    return getWriteError(lockPath);
  // A process of another run that was killed notices within two seconds that it
  // is to end.
  constexpr std::chrono::seconds patience{5};
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      return getWriteError(lockPath);
    if (std::chrono::steady_clock::now() > deadline) {
      const Result<std::string> owner = readOwner(path);
      return Error{ErrorCode::FolderInUse,
                   fmt::format("another training saves into '{}'", path),
                   owner ? owner->substr(0, owner->find(',')) : ""};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  const std::string owner =
      fmt::format("process {} on {}, {}", getpid(), host.data(),
                  std::chrono::system_clock::now().time_since_epoch().count());
  if (ftruncate(file.get(), 0) != 0 ||
      pwrite(file.get(), owner.data(), owner.size(), 0) !=
          ssize_t(owner.size()))
    return getWriteError(lockPath);
  removeLeftovers(path);
  return SaveFolder(path, std::move(file));
}

Result<std::string> SaveFolder::begin(int64_t step) const {
  std::string part = getPartPath(path, step);
  if (mkdir(part.c_str(), 0777) != 0)
    return getWriteError(part);
  return part;
}

Status SaveFolder::commit(int64_t step, std::string_view manifest) const {
  const std::string part = getPartPath(path, step);
  const std::string file = part + "/" + manifestName;
  {
    const OwnedFile output(
        open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (output.get() < 0)
      return getWriteError(file);
    for (std::string_view rest = manifest; !rest.empty();) {
      const ssize_t count = write(output.get(), rest.data(), rest.size());
      if (count < 0 && errno != EINTR)
        return getWriteError(file);
      rest.remove_prefix(size_t(std::max<ssize_t>(count, 0)));
    }
    if (fsync(output.get()) != 0)
      return getWriteError(file);
  }
  Status synced = syncFolder(part);
  if (!synced)
    return synced;
  const std::string target = path + "/" + getStepName(step);
  if (rename(part.c_str(), target.c_str()) == 0)
    return syncFolder(path);
  // One of this step is there: they change places, so that there always is one.
  if (errno != ENOTEMPTY && errno != EEXIST)
    return getWriteError(target);
  std::string old = part;
  if (renameat2(AT_FDCWD, part.c_str(), AT_FDCWD, target.c_str(),
                RENAME_EXCHANGE) != 0) {
    // A file system that cannot do that.
    old = getOldPath(path, step);
    if (rename(target.c_str(), old.c_str()) != 0 ||
        rename(part.c_str(), target.c_str()) != 0)
      return getWriteError(target);
  }
  synced = syncFolder(path);
  if (synced)
    removeFiles(old);
  return synced;
}

void SaveFolder::abandon(int64_t step) const {
  removeFiles(getPartPath(path, step));
}

Status SaveFolder::keepLast(int64_t count) const {
  Result<std::vector<int64_t>> steps = listSteps(path);
  if (!steps)
    return steps.getError();
  const auto kept = std::min(size_t(count), steps->size());
  return remove(std::span(*steps).first(steps->size() - kept));
}

Status SaveFolder::keepOnly(int64_t step) const {
  Result<std::vector<int64_t>> steps = listSteps(path);
  if (!steps)
    return steps.getError();
  std::erase(*steps, step);
  return remove(*steps);
}

Status SaveFolder::remove(std::span<const int64_t> steps) const {
  std::vector<std::string> removed;
  for (int64_t step : steps) {
    const std::string name = path + "/" + getStepName(step);
    removed.push_back(getOldPath(path, step));
    if (rename(name.c_str(), removed.back().c_str()) != 0)
      return getWriteError(name);
  }
  // Else the disk may lose what is in a folder before it loses its name.
  if (!removed.empty())
    if (Status synced = syncFolder(path); !synced)
      return synced;
  for (const std::string &old : removed)
    removeFiles(old);
  return Status::success();
}
