#ifndef MESHC_RUNTIME_EXEC_EXECUTABLESEAL_H
#define MESHC_RUNTIME_EXEC_EXECUTABLESEAL_H

/// The last bytes of an executable, by which it finds out at its start whether
/// the program and the kernels are those that meshc wrote:
///
///   "MSHXSEAL", how many bytes of the file are loaded, their digest
///
/// All of a file that is loaded lies before what only debuggers and linkers
/// read, so it is one range from the beginning. The digest is BLAKE2b with 256
/// bits of it and of its length (libsodium's crypto_generichash). It finds
/// damage; who changes an executable on purpose can make another one.
///
/// It is verified before the first constructor of the executable or of a
/// library. What is read or run before that cannot be covered:
///
///   headers, .interp, .dynamic, .preinit_array   of the system's loader
///   .dynsym, .dynstr, .gnu.hash, .gnu.version*   the names it binds
///   .rela.dyn, .relr.dyn, .rela.plt              where it writes addresses
///   .plt, .iplt, .got, .got.plt                  calls of the check
///   resolvers of `target_clones` and libgcc's code for them
///   the sections meshc_seal, meshc_seal_data     the check itself, its text
///
/// Damage of these may end by a signal, or with the loader's words and exit
/// code 127 (126 from a shell that cannot start the file), and a check that is
/// damaged may not find its file, or take itself as sound. That is 59 KB of
/// 3.9 MB. Any other loaded byte that changes ends with exit code 4.
/// tests/mutants/files.py changes and counts both.

#include "runtime/exec/Error.h"

#include <cstdint>
#include <string>

/// Puts a function that runs before the seal has been verified into the section
/// for these. They must not call others of the executable, nor templates, nor
/// need tables of the compiler's, nor read texts: all of that may be damaged.
#define MESHC_BEFORE_SEAL [[gnu::section("meshc_seal"), gnu::noinline]]

/// For a text that decides something before the seal has been verified.
#define MESHC_BEFORE_SEAL_DATA [[gnu::section("meshc_seal_data")]]

namespace meshc::runtime {

/// Appends the seal to an executable of which `loadedBytes` are loaded.
/// Errors: CannotWrite.
Status sealExecutable(const std::string &path, uint64_t loadedBytes);

enum class SealState : uint8_t {
  Sound,
  Unreadable, ///< errno says why
  Missing,    ///< or not at the end
  CutOff,     ///< the file is shorter than what is sealed
  OtherBytes, ///< than those that were sealed
};

/// Compares a file with its seal. This and what it calls is in the section
/// meshc_seal, or libc's or libsodium's.
SealState checkSeal(const char *path);

} // namespace meshc::runtime

#endif
