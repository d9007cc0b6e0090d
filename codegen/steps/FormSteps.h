#ifndef MESHC_CODEGEN_STEPS_FORMSTEPS_H
#define MESHC_CODEGEN_STEPS_FORMSTEPS_H

#include "codegen/exec/Exec.h"
#include "codegen/steps/MatmulLibrary.h"

namespace meshc::codegen {

/// Puts an exec.program in the place of `program`: fused kernels, matmuls with
/// what their library call absorbs, and a transfer for each collective, in an
/// order that respects every dependency. Without `fuses` each operation is a
/// step of its own, whose result is in memory. Fails with a diagnostic at an
/// operation no step can hold; `program` stays then.
mlir::FailureOr<steps::ProgramOp>
formSteps(spmd::ProgramOp program, MatmulLibrary library,
          MatmulEpilogues epilogues = MatmulEpilogues::All, bool fuses = true);

} // namespace meshc::codegen

#endif
