#include "frontend/driver/Cache.h"

#include "frontend/driver/Compiler.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace meshc;

std::string meshc::driver::getSha256(StringRef text) {
  auto hash = SHA256::hash(arrayRefFromStringRef(text));
  return toHex(hash, /*LowerCase=*/true);
}

Expected<std::string> meshc::driver::getCacheFolder() {
  SmallString<128> folder;
  if (const char *own = getenv("MESHC_CACHE_DIR")) {
    folder = own;
  } else if (const char *xdg = getenv("XDG_CACHE_HOME")) {
    folder = xdg;
    sys::path::append(folder, "meshc");
  } else {
    if (!sys::path::home_directory(folder))
      return createStringError(
          "no cache folder: set MESHC_CACHE_DIR, XDG_CACHE_HOME or HOME");
    sys::path::append(folder, ".cache", "meshc");
  }
  if (std::error_code error = sys::fs::create_directories(folder))
    return createStringError(error, "cannot make the cache folder '%s': %s",
                             folder.c_str(), error.message().c_str());
  return std::string(folder);
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
  for (StringRef name : {"meshc_runtime_main", "meshc_runtime", "meshc_layout"})
    addFile((getLibraryFolder() + "/lib" + name + ".a").str());
  return identity;
}
