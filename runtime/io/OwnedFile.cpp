#include "runtime/io/OwnedFile.h"

#include "runtime/io/FileErrors.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

OwnedFile::~OwnedFile() {
  if (descriptor >= 0)
    close(descriptor);
}

std::optional<FileState> runtime::getFileState(int descriptor) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode))
    return std::nullopt;
  return FileState{uint64_t(status.st_size), uint64_t(status.st_ino),
                   status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

/// What it is that is no plain file.
static const char *describe(mode_t mode) {
  switch (mode & S_IFMT) {
  case S_IFDIR:
    return "a folder";
  case S_IFIFO:
    return "a pipe";
  case S_IFSOCK:
    return "a socket";
  default:
    return "a device";
  }
}

static Error refuse(const std::string &path, mode_t mode) {
  return {ErrorCode::CannotRead,
          fmt::format("cannot read '{}': it is {}, expected a file", path,
                      describe(mode)),
          ""};
}

/// Whether a pipe has no name: those that have one lie in a file system.
static bool isNameless(int descriptor) {
  struct statfs system {};
  return fstatfs(descriptor, &system) == 0 && system.f_type == PIPEFS_MAGIC;
}

Result<OwnedFile> runtime::openToRead(const std::string &path,
                                      bool takesStreams) {
  auto mayBeOpened = [&](mode_t mode) {
    return S_ISREG(mode) || (takesStreams && S_ISFIFO(mode));
  };
  // Before it is opened: that is an event to some devices.
  struct stat status {};
  if (stat(path.c_str(), &status) == 0 && !mayBeOpened(status.st_mode))
    return refuse(path, status.st_mode);
  // Without O_NONBLOCK a pipe would be waited for, until somebody writes to it.
  OwnedFile file(
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (file.get() < 0 || fstat(file.get(), &status) != 0)
    return getReadError(path);
  if (!mayBeOpened(status.st_mode) ||
      (S_ISFIFO(status.st_mode) && !isNameless(file.get())))
    return refuse(path, status.st_mode);
  if (S_ISFIFO(status.st_mode) && fcntl(file.get(), F_SETFL, 0) != 0)
    return getReadError(path);
  return file;
}
