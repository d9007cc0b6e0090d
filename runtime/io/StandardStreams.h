#ifndef MESHC_RUNTIME_IO_STANDARDSTREAMS_H
#define MESHC_RUNTIME_IO_STANDARDSTREAMS_H

/// Standard input, output and error of meshc and of executables.
///
///   standard error    progress, notes and error messages. Where it cannot be
///                     written they are lost, and nothing else is.
///   standard output   what a command was asked for. Where it cannot be written
///                     the command has failed, and says so in the end.

#include "runtime/exec/Error.h"

#include <string_view>

namespace meshc::runtime {

/// To be called before anything else. Streams that are closed are opened for
/// reading nothing, so that no file that is opened later gets their number, and
/// is written to for them; writing to them stays an error. SIGPIPE is ignored:
/// a reader that has gone is such an error too.
void openStandardStreams();

/// Whether messages on standard error are coloured: on a terminal that can,
/// unless the variable NO_COLOR is set to anything (no-color.org).
bool colorsMessages();

/// Writes to standard error, in one call, so that the lines of several
/// processes do not mix. Behind a line without an end, which a text that begins
/// with \r rewrites, any other text begins a new one.
void printMessage(std::string_view text);

/// Writes to standard output; flushOutput says whether it could.
void printOutput(std::string_view text);

/// Has everything written that printOutput was given. Errors: CannotWrite, with
/// the system's reason, where some of it could not be since the last call.
Status flushOutput();

} // namespace meshc::runtime

#endif
