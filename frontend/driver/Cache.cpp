#include "frontend/driver/Cache.h"

#include "codegen/machine/Link.h"
#include "frontend/driver/Compiler.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"

#include <cerrno>

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace llvm;
using namespace meshc;

std::string meshc::driver::getSha256(StringRef text) {
  auto hash = SHA256::hash(arrayRefFromStringRef(text));
  return toHex(hash, /*LowerCase=*/true);
}

/// A variable of the environment; one that is set to nothing is not set.
static StringRef getVariable(const char *name) {
  const char *value = getenv(name);
  return value ? value : "";
}

/// The home folder, empty if there is none.
static StringRef getHome() {
  if (StringRef home = getVariable("HOME"); !home.empty())
    return home;
  const passwd *user = getpwuid(getuid());
  return user && user->pw_dir ? user->pw_dir : "";
}

Expected<std::string> meshc::driver::getCacheFolder() {
  SmallString<128> folder(getVariable("MESHC_CACHE_DIR"));
  // The XDG base directory specification has relative paths ignored.
  if (StringRef xdg = getVariable("XDG_CACHE_HOME");
      folder.empty() && sys::path::is_absolute(xdg)) {
    folder = xdg;
    sys::path::append(folder, "meshc");
  }
  if (folder.empty()) {
    folder = getHome();
    if (folder.empty())
      return createStringError(
          "no cache folder: set MESHC_CACHE_DIR, XDG_CACHE_HOME or HOME");
    sys::path::append(folder, ".cache", "meshc");
  }
  if (std::error_code error = sys::fs::create_directories(
          folder, /*IgnoreExisting=*/true, sys::fs::owner_all))
    return createStringError(error,
                             "cannot make the cache folder '%s': %s; set "
                             "MESHC_CACHE_DIR to a folder that can be written",
                             folder.c_str(), error.message().c_str());
  return std::string(folder);
}

meshc::driver::Descriptor::~Descriptor() {
  if (number >= 0)
    close(number);
}

Expected<driver::Descriptor> meshc::driver::openOwnFile(const std::string &path,
                                                        int folder) {
  Descriptor file(openat(folder, path.c_str(),
                         O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status;
  if (!file || fstat(file.get(), &status) != 0)
    return errorCodeToError(std::error_code(errno, std::generic_category()));
  if (!S_ISREG(status.st_mode) || status.st_uid != geteuid())
    return createStringError("it is no file of this user");
  return file;
}

Expected<std::string> meshc::driver::readOwnFile(const std::string &path) {
  Expected<Descriptor> file = openOwnFile(path, AT_FDCWD);
  if (!file)
    return file.takeError();
  SmallString<0> text;
  if (Error error = sys::fs::readNativeFileToEOF(file->get(), text))
    return error;
  return std::string(text);
}

std::string meshc::driver::getBuildIdentity() {
  std::string identity;
  raw_string_ostream os(identity);
  auto addFile = [&](StringRef path) {
    sys::fs::file_status status;
    if (!sys::fs::status(path, status))
      os << path << " " << status.getSize() << " "
         << status.getLastModificationTime().time_since_epoch().count() << "\n";
  };
  addFile(sys::fs::getMainExecutable(
      nullptr, reinterpret_cast<void *>(&getBuildIdentity)));
  for (exec::Target target : exec::EnumValuesTarget())
    for (const std::string &name : codegen::getRuntimeLibraries(target))
      addFile(getLibraryFolder() + "/lib" + name + ".a");
  return identity;
}
