#ifndef MESHC_CODEGEN_STEPS_VIEWFORM_H
#define MESHC_CODEGEN_STEPS_VIEWFORM_H

#include "codegen/steps/ConvForm.h"
#include "dialect/SPMD.h"

namespace meshc::codegen {

/// Convolutions by contraction.
using Convs = llvm::DenseMap<mlir::Operation *, ConvMatch>;
/// Views that are read where they lie in their operand.
using Slices = llvm::DenseMap<mlir::Operation *, spmd::Slice>;

/// Whether the memory of what `op` gives is not the program's to overwrite: an
/// input's, a variable's, or a part of another value.
bool isBorrowed(mlir::Operation *op);

/// Builds the views of `block` that convolutions do not read through as
/// operations of `linalg`, but for slices: what lies in one piece in memory is
/// read there by everything, what does not by library matmuls. Matmuls of less
/// than half of a value read a copy: the rest would stay in memory for them.
Slices formViews(mlir::Block &block, const Convs &convs);

} // namespace meshc::codegen

#endif
