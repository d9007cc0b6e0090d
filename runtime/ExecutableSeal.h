#ifndef MESHC_RUNTIME_EXECUTABLESEAL_H
#define MESHC_RUNTIME_EXECUTABLESEAL_H

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
/// library. What the system reads before that, it judges: damage in headers,
/// names of libraries, symbols and relocations, some 30 KB of 1.5 MB, ends with
/// the system's words and exit code 126 or 127, or by a signal.

#include "runtime/Error.h"

#include <cstdint>
#include <string>

namespace meshc::runtime {

/// Appends the seal to an executable of which `loadedBytes` are loaded.
/// Errors: CannotRead, CannotWrite.
Status sealExecutable(const std::string &path, uint64_t loadedBytes);

/// Errors: CannotRead; DamagedProgram where there is no seal, or that of other
/// bytes.
Status checkSeal(const std::string &path);

} // namespace meshc::runtime

#endif
