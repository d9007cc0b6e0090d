#ifndef MESHC_PASSES_OBJECTIVES_H
#define MESHC_PASSES_OBJECTIVES_H

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

/// The outputs that gradients are of, in the order of the recipe: of each the
/// places in `sources` of those whose gradients are of it. Only nd.objective
/// tells them apart, all other sources are of `first`.
struct ObjectiveGroup {
  std::string minimize;
  mlir::Location loc;
  llvm::SmallVector<size_t> sources = {};
};
llvm::SmallVector<ObjectiveGroup>
groupByObjective(mlir::ModuleOp module, const Objective &first,
                 llvm::ArrayRef<GradientSource> sources);

/// The value that `program` gives out as `name`, if it is a float scalar. An
/// error at `loc` otherwise, with a suggestion for a name nobody knows.
mlir::FailureOr<mlir::Value>
findMinimized(nd::ProgramOp program, llvm::StringRef name, mlir::Location loc);

} // namespace meshc

#endif
