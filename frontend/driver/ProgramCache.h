#ifndef MESHC_FRONTEND_DRIVER_PROGRAMCACHE_H
#define MESHC_FRONTEND_DRIVER_PROGRAMCACHE_H

#include "frontend/driver/Cache.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace meshc::driver {

/// The programs that `meshc run` has compiled.
///
/// They are executed when they are found, so nothing counts as found but what
/// this user put there and nobody changed: the folder belongs to the user with
/// mode 700; a program is a regular file of the user with mode 700, and its
/// name says what it was made for and what it holds:
///
///   programs-1000/KEY-DIGEST
///
/// where DIGEST is the BLAKE3 of key and content, so that one program does not
/// pass for another either. All of this is asked of an open descriptor, and
/// that descriptor is run. Whatever else is found in the place of a program is
/// removed, and the program compiled again.
class ProgramCache {
public:
  struct Usage {
    uint64_t programs = 0;
    uint64_t bytes = 0;
  };

  /// Makes the folder if there is none, takes its rights from others, and moves
  /// a folder of another user out of the way.
  static llvm::Expected<ProgramCache> open();

  const std::string &getFolder() const { return path; }

  /// The program made for `key`, to be run by `execute`; none if it is not
  /// there, or no longer what was put there.
  std::optional<Descriptor> find(const std::string &key);
  /// Where to link a program for `key`, for `add`.
  std::string getFreshPath(const std::string &key) const;
  /// Takes over what was linked there.
  llvm::Expected<Descriptor> add(const std::string &key);
  /// Removes the programs that were not used for the longest time until the
  /// others have at most `bytes` bytes, and what compilers that were killed
  /// have left. The program for `kept` stays, whatever its size.
  void trim(uint64_t bytes, const std::string &kept = "");
  Usage getUsage() const;

private:
  struct Entry {
    std::string name;
    uint64_t bytes;
    int64_t nanoseconds; ///< since 1970, when it was used or written last
    bool isProgram;      ///< by its name
  };

  ProgramCache(std::string path, Descriptor folder)
      : path(std::move(path)), folder(std::move(folder)) {}

  /// Whatever is in the folder.
  std::vector<Entry> list() const;
  /// The entry, if it is a program as it was added.
  std::optional<Descriptor> check(const std::string &name) const;
  void remove(const std::string &name) const;

  std::string path;
  Descriptor folder;
};

/// Replaces the process by the program; returns the error number if it cannot.
int execute(const Descriptor &program, std::vector<std::string> arguments);

} // namespace meshc::driver

#endif
