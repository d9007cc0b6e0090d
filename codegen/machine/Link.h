#ifndef MESHC_CODEGEN_MACHINE_LINK_H
#define MESHC_CODEGEN_MACHINE_LINK_H

#include "runtime/exec/exec_generated.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace meshc::codegen {

/// What the main function of an executable does.
enum class MainFunction : uint8_t {
  Commands, ///< those of a model: train, eval, ...
  Measure,  ///< measures the host; of target cpu
};

/// Links an object of kernels and program with the runtime into the executable
/// `output`, replacing it only when all went well; a device or pipe gets the
/// bytes. `libraryFolder` holds the runtime's libraries for `target`. The error
/// tells what failed, with the linker's own words.
llvm::Error linkExecutable(llvm::StringRef object, exec::Target target,
                           llvm::StringRef output,
                           llvm::StringRef libraryFolder,
                           MainFunction main = MainFunction::Commands);

/// The runtime's libraries for a target, "meshc_runtime", in the order in which
/// they are linked.
std::vector<std::string>
getRuntimeLibraries(exec::Target target,
                    MainFunction main = MainFunction::Commands);

/// Makes a shared object of an object; symbols it lacks are looked up when it
/// is loaded. The error has the linker's own words.
llvm::Expected<std::string> linkSharedObject(llvm::StringRef object);

} // namespace meshc::codegen

#endif
