#ifndef MESHC_CODEGEN_STEPS_PASSES_H
#define MESHC_CODEGEN_STEPS_PASSES_H

#include "codegen/exec/Exec.h"
#include "codegen/steps/MatmulLibrary.h"
#include "codegen/steps/MergeTransfers.h"
#include "codegen/steps/PrefetchGathers.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/Pass.h"

namespace meshc::codegen {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "codegen/steps/Passes.h.inc"

} // namespace meshc::codegen

#endif
