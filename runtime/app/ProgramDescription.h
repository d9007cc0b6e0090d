#ifndef MESHC_RUNTIME_APP_PROGRAMDESCRIPTION_H
#define MESHC_RUNTIME_APP_PROGRAMDESCRIPTION_H

#include "runtime/exec/Executable.h"

#include <string>

namespace meshc::runtime {

/// What `info` says: what is inside, for which machine and, of a program for
/// GPUs, what this machine has to run it on.
std::string describeProgram(const Executable &executable);

} // namespace meshc::runtime

#endif
