#ifndef MESHC_RUNTIME_APP_COMMANDLINE_H
#define MESHC_RUNTIME_APP_COMMANDLINE_H

#include "runtime/devices/OpenDevices.h"
#include "runtime/exec/KernelTable.h"

#include <cstdint>
#include <span>

namespace meshc::runtime {

/// What the main function of an executable does: verifies the file that it is
/// in (ExecutableSeal.h), and runs the command line of its program.
int runExecutable(int argc, const char *const *argv, OpenDevices &open);

/// The command line of a program; returns its exit code.
/// `program` is the serialised program, `kernels` what it calls, `open` for the
/// devices of its target.
int runCommandLine(int argc, const char *const *argv,
                   std::span<const uint8_t> program,
                   std::span<const meshcKernelEntry> kernels,
                   OpenDevices &open);

} // namespace meshc::runtime

#endif
