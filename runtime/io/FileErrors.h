#ifndef MESHC_RUNTIME_IO_FILE_ERRORS_H
#define MESHC_RUNTIME_IO_FILE_ERRORS_H

#include "runtime/exec/Error.h"

#include <string>
#include <string_view>

namespace meshc::runtime {

/// "cannot read 'PATH': " and the system's reason, errno; of code CannotRead.
Error getReadError(const std::string &path);
/// The same of writing, of code CannotWrite.
Error getWriteError(const std::string &path);
/// "'PATH' is damaged: WHAT", of code DamagedFile.
Error getDamage(const std::string &path, std::string_view what);

} // namespace meshc::runtime

#endif
