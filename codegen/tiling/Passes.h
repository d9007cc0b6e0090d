#ifndef MESHC_CODEGEN_TILING_PASSES_H
#define MESHC_CODEGEN_TILING_PASSES_H

#include "codegen/exec/Exec.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/Pass.h"

namespace meshc::codegen {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "codegen/tiling/Passes.h.inc"

} // namespace meshc::codegen

#endif
