#ifndef MESHC_RUNTIME_APP_CHECKPOINTCOMMANDS_H
#define MESHC_RUNTIME_APP_CHECKPOINTCOMMANDS_H

#include "runtime/exec/Error.h"
#include "runtime/exec/Executable.h"

#include <string>

/// What `FILE ckpt` does; none of it needs devices.
namespace meshc::runtime {

/// Prints a line for each checkpoint of a folder, or for one. Those that cannot
/// be read have a line, too, and the first of these is the error.
/// Errors: as of Checkpoint::open.
Status listCheckpoints(const std::string &path);

/// Reads every byte of each checkpoint of a folder, or of one, and prints which
/// are sound. Errors: the first one found.
Status verifyCheckpoints(const std::string &path);

/// Prints how the values of a checkpoint differ in name and type from those of
/// the program. Errors: OtherModel; as of Checkpoint::open.
Status compareWithProgram(const std::string &path,
                          const Executable &executable);

/// Prints of each value of two checkpoints that is not the same, bit for bit,
/// how many elements differ, where the first one is, and by how much they
/// differ at most. Errors: CheckpointsDiffer; as of Checkpoint::open.
Status compareCheckpoints(const std::string &before, const std::string &after);

} // namespace meshc::runtime

#endif
