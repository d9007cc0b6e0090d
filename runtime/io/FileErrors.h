#ifndef MESHC_RUNTIME_IO_FILE_ERRORS_H
#define MESHC_RUNTIME_IO_FILE_ERRORS_H

#include "runtime/exec/Error.h"

#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

namespace meshc::runtime {

/// "cannot read 'PATH': " and the system's reason, errno; of code CannotRead.
Error getReadError(const std::string &path);
/// The same of writing, of code CannotWrite.
Error getWriteError(const std::string &path);
/// "'PATH' is damaged: WHAT", of code DamagedFile.
Error getDamage(const std::string &path, std::string_view what);
/// That a file was changed while it was read; of code CannotRead.
Error getChanged(const std::string &path);
/// "'PATH' does not fit into memory", of code DoesNotFit.
Error getTooLarge(const std::string &path, std::string note = "");
/// An error where so many bytes of a file are more than this machine has.
Status checkMemory(uint64_t bytes, const std::string &path);

/// What `read` returns, which takes memory for what is in a file; an error with
/// the name of the file where there is none.
template <typename Read>
auto takeMemory(const std::string &path, Read &&read) -> decltype(read()) {
  try {
    return read();
  } catch (const std::bad_alloc &) {
    return getTooLarge(path);
  } catch (const std::length_error &) {
    return getTooLarge(path);
  }
}

/// That of the exception that is being handled: DoesNotFit where there is no
/// memory, else Internal.
Error getCaughtError();

} // namespace meshc::runtime

#endif
