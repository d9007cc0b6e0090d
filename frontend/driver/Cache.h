#ifndef MESHC_FRONTEND_DRIVER_CACHE_H
#define MESHC_FRONTEND_DRIVER_CACHE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <utility>

namespace meshc::driver {

/// Hexadecimal SHA-256 of `text`.
std::string getSha256(llvm::StringRef text);

/// The folder for compiled programs and the last plan: $MESHC_CACHE_DIR, else
/// $XDG_CACHE_HOME/meshc if that is absolute, else ~/.cache/meshc. Variables
/// that are empty are not set. Made for this user alone if it does not exist.
llvm::Expected<std::string> getCacheFolder();

/// A descriptor that is closed with the object, and not open in programs that
/// this one becomes or starts.
class Descriptor {
public:
  explicit Descriptor(int number = -1) : number(number) {}
  Descriptor(Descriptor &&other) noexcept
      : number(std::exchange(other.number, -1)) {}
  Descriptor &operator=(Descriptor &&other) noexcept {
    std::swap(number, other.number);
    return *this;
  }
  ~Descriptor();

  int get() const { return number; }
  explicit operator bool() const { return number >= 0; }

private:
  int number;
};

/// Opens a regular file that belongs to this user for reading; `path` starts at
/// the folder with the descriptor `folder`. Never waits, and follows no link at
/// the end of `path`. Errors: the system's, or "it is no file of this user".
llvm::Expected<Descriptor> openOwnFile(const std::string &path, int folder);

/// The whole of such a file.
llvm::Expected<std::string> readOwnFile(const std::string &path);

/// Identifies this build of meshc and the libraries it links into programs, so
/// that a new build does not find an old build's programs.
std::string getBuildIdentity();

} // namespace meshc::driver

#endif
