#ifndef MESHC_CODEGEN_LINK_H
#define MESHC_CODEGEN_LINK_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace meshc::codegen {

/// Links an object of kernels and program with the runtime into the executable
/// `output`, replacing it only when all went well. `libraryFolder` holds
/// libmeshc_runtime.a and what it needs. The error tells what failed, with the
/// linker's own words.
llvm::Error linkExecutable(llvm::StringRef object, llvm::StringRef output,
                           llvm::StringRef libraryFolder);

} // namespace meshc::codegen

#endif
