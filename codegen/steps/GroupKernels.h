#ifndef MESHC_CODEGEN_STEPS_GROUPKERNELS_H
#define MESHC_CODEGEN_STEPS_GROUPKERNELS_H

#include "codegen/exec/Exec.h"

namespace meshc::codegen {

/// Bytes of a launch's parameters that every driver takes. Source: CUDA C++
/// Programming Guide, "Function parameters": 4 KB, 32,764 B since CUDA 12.1 on
/// sm_70 and later.
inline constexpr int64_t maxParameterBytes = 4096;

/// Puts flat kernels with the same body into an exec.group each: one launch
/// instead of many for the updates of a model's parameters.
///
/// No member may depend on another, and none may wait for what others need
/// later. That is so for kernels whose results no step reads: they run at the
/// end of the program, which is where the group runs, in the place of its last
/// member. And for those that read nothing but inputs and variables, casts of
/// parameters: they run at its start, the group in the place of its first
/// member. More operands than `maxParameterBytes` has addresses make several
/// groups; the coordinates of the mesh are parameters too. Fails with a
/// diagnostic where a kernel's operations do not fit one loop nest.
mlir::LogicalResult groupKernels(steps::ProgramOp program);

} // namespace meshc::codegen

#endif
