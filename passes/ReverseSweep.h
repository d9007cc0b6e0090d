#ifndef MESHC_PASSES_REVERSESWEEP_H
#define MESHC_PASSES_REVERSESWEEP_H

#include "passes/Objectives.h"

namespace meshc {

/// Appends to `program` the gradient of `output`, a float scalar of it, with
/// respect to each of `sources`, in reverse mode: one walk from the last
/// operation to the first in which each operation passes the gradient of its
/// result on to its operands (Griewank, Walther: Evaluating Derivatives, 2nd
/// ed., 3.2). Operations between no source and the output are skipped. A loop
/// gets a loop that runs backwards, with 0 where nothing arrives; what it reads
/// of the iterations is stacked in addition (passes/LoopResiduals.h).
///
/// A gradient has the dimensions of its source, in any order, and its element
/// type: where 16-bit copies of a source were used, what they bring is computed
/// as wide as the source and rounded nowhere on the way. It is null where
/// the source does not influence the output. Fails, with an error at the
/// operation, if one on the way has no gradient.
///
/// `scale`, a scalar value of `program` of the output's type, is the gradient
/// of the output itself; 1 if there is none.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
appendGradients(nd::ProgramOp program, mlir::Value output,
                llvm::ArrayRef<GradientSource> sources, mlir::Value scale = {});

/// The same with an output for each group of sources, all gradients at the
/// values that the sources have. An error if an output is no float scalar.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
appendGradients(nd::ProgramOp program, llvm::ArrayRef<ObjectiveGroup> groups,
                llvm::ArrayRef<GradientSource> sources, mlir::Value scale);

} // namespace meshc

#endif
