#ifndef MESHC_CODEGEN_STEPS_STEPGRAPH_H
#define MESHC_CODEGEN_STEPS_STEPGRAPH_H

#include "codegen/exec/Exec.h"
#include "codegen/steps/Fusion.h"
#include "codegen/steps/MatmulLibrary.h"
#include "codegen/steps/ViewForm.h"

namespace meshc::codegen {

/// A matmul and its epilogue, in terms of the spmd program; see exec.matmul.
struct MatmulNode : FusionGraph::Node {
  mlir::Value addend, bias;
  MatmulActivation activation = MatmulActivation::None;
  /// What an activation leaves behind; with `isGradient` what it reads of it.
  mlir::Value aux;
  bool isGradient = false;
  mlir::Value columnSum;
  ColumnSum columnSumOf = ColumnSum::None;
};

/// What becomes steps: kernels, matmuls with their epilogues, collectives, and
/// what is but a place in memory.
struct StepGraph {
  FusionGraph fusion;
  llvm::DenseMap<mlir::Operation *, MatmulNode> matmuls; ///< by contraction
  Convs convs;
  Slices slices;
};

/// The graph of `block`, the body of a program or of a loop in it, before
/// kernels are fused; views that are no slices and that no convolution reads
/// through become operations of `linalg` first. A loop is one node, whatever is
/// inside. Fails with a diagnostic at an operation no step can hold.
mlir::FailureOr<StepGraph> buildStepGraph(mlir::Block &block,
                                          MatmulLibrary library,
                                          MatmulEpilogues epilogues);

} // namespace meshc::codegen

#endif
