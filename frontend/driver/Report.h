#ifndef MESHC_FRONTEND_DRIVER_REPORT_H
#define MESHC_FRONTEND_DRIVER_REPORT_H

/// What the commands print, and the exit codes that it means. Of the commands
/// alone.

#include "frontend/driver/Commands.h"
#include "frontend/syntax/Diagnostics.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace meshc::driver {

/// Reports an error that has no place in a spec.
int fail(const SpecArguments &spec, frontend::Code code, std::string message,
         std::vector<std::string> notes = {});
int failToWrite(const SpecArguments &spec, llvm::StringRef path,
                std::error_code error);
/// Says what was not done although the command succeeded.
void warn(const SpecArguments &spec, const std::string &message);
/// Says for which machine is planned if nobody named it.
void noteAssumedMachine(const SpecArguments &spec);
/// Writes `text` to the file at `path`, or reports why it cannot be.
int write(const SpecArguments &spec, llvm::StringRef path,
          llvm::StringRef text);
std::string toText(llvm::Error error);

} // namespace meshc::driver

#endif
