// Passes in pipeline order. Each describes what it needs and leaves, with the
// program before and after.

#ifndef MESHC_PASSES
#define MESHC_PASSES

include "mlir/Pass/PassBase.td"

def BuildInit : Pass<"nd-build-init", "::mlir::ModuleOp"> {
  let summary = "Makes the program that sets every variable";
  let dependentDialects = ["::meshc::nd::NDDialect"];
}

def Differentiate : Pass<"nd-differentiate", "::mlir::ModuleOp"> {
  let summary = "Makes the program that computes outputs and gradients";
  let dependentDialects = ["::meshc::nd::NDDialect"];
}

def BuildStep : Pass<"nd-build-step", "::mlir::ModuleOp"> {
  let summary = "Makes the program of one training step";
  let dependentDialects = ["::meshc::nd::NDDialect"];
}

def Decompose : Pass<"nd-decompose", "::mlir::ModuleOp"> {
  let summary = "Rewrites operations into those that partition";
  let dependentDialects = ["::meshc::nd::NDDialect"];
}

def AssignShardings : Pass<"nd-assign-shardings", "::mlir::ModuleOp"> {
  let summary = "Decides how every value lies on the mesh";
  let dependentDialects = ["::meshc::nd::NDDialect"];
}

def Partition : Pass<"nd-partition", "::mlir::ModuleOp"> {
  let summary = "Turns the whole program into the program of one device";
  let dependentDialects = [
    "::meshc::nd::NDDialect", "::meshc::spmd::SPMDDialect",
    "::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::math::MathDialect", "::mlir::tensor::TensorDialect"];
}

def OptimizeCollectives : Pass<"spmd-optimize-collectives", "::mlir::ModuleOp"> {
  let summary = "Makes fewer and cheaper collectives of the same meaning";
  let dependentDialects = ["::meshc::spmd::SPMDDialect"];
}

#endif
