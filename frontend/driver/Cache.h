#ifndef MESHC_FRONTEND_DRIVER_CACHE_H
#define MESHC_FRONTEND_DRIVER_CACHE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace meshc::driver {

/// Hexadecimal SHA-256 of `text`.
std::string getSha256(llvm::StringRef text);

/// The folder for compiled programs and the last plan: $MESHC_CACHE_DIR, else
/// $XDG_CACHE_HOME/meshc if that is absolute, else ~/.cache/meshc. Variables
/// that are empty are not set. Made if it does not exist.
llvm::Expected<std::string> getCacheFolder();

/// Identifies this build of meshc and the libraries it links into programs, so
/// that a new build does not find an old build's programs.
std::string getBuildIdentity();

} // namespace meshc::driver

#endif
