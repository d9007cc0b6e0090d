#ifndef MESHC_PASSES_REVERSESWEEP_H
#define MESHC_PASSES_REVERSESWEEP_H

#include "dialect/ND.h"

namespace meshc {

/// Something a program can be differentiated by: a parameter or a float input.
struct GradientSource {
  llvm::StringRef name;
  bool isParameter;
  /// Every value that reads it: gradients of all of them add up.
  llvm::SmallVector<mlir::Value> reads;
  nd::NamedTensorType type;
  mlir::Location loc;
};

/// The parameters of the module, in its order, then the float inputs of
/// `program` in the order of first use. A parameter that the program never
/// reads has no reads.
llvm::SmallVector<GradientSource> findGradientSources(nd::ProgramOp program);

/// The output that gradients of a module are of, and where that is said: what
/// the training recipe or nd.objective minimizes, else the one output of
/// @forward that is a float scalar. Without either, `minimize` is empty and
/// `candidates` are all such outputs.
struct Objective {
  std::string minimize;
  mlir::Location loc;
  llvm::SmallVector<llvm::StringRef> candidates = {};
};
Objective findObjective(mlir::ModuleOp module);

/// The value that `program` gives out as `name`, if it is a float scalar. An
/// error at `loc` otherwise, with a suggestion for a name nobody knows.
mlir::FailureOr<mlir::Value>
findMinimized(nd::ProgramOp program, llvm::StringRef name, mlir::Location loc);

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

} // namespace meshc

#endif
