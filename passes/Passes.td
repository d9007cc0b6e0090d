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

def ChooseOrders : Pass<"nd-choose-orders", "::mlir::ModuleOp"> {
  let summary = "Chooses in which order the dimensions of values are stored";
  let description = [{
    Contractions run in place, without copies, when the dimensions of each class
    (batch, rows, columns, contracted) lie together in every tensor. This pass
    permutes the dimensions of intermediate values to that end. It runs before
    shardings are assigned because local shapes follow the order.

    Needs: binary contractions (nd-decompose).
    Leaves: variables, inputs and outputs in the order they were written in; a
    permuting `nd.reduce sum` where a value has to return to it.

    Before:
    ```mlir
    module {
      nd.program @eval {
        %x = nd.input "x" : !nd.tensor<["b"=2, "p"=3, "d"=5], f32>
        %w = nd.input "w" : !nd.tensor<["d"=5, "h"=7, "e"=11], f32>
        %o = nd.input "o" : !nd.tensor<["h"=7, "e"=11, "d"=5], f32>
        %q = nd.einsum %x, %w
            : (!nd.tensor<["b"=2, "p"=3, "d"=5], f32>,
               !nd.tensor<["d"=5, "h"=7, "e"=11], f32>)
            -> !nd.tensor<["b"=2, "h"=7, "p"=3, "e"=11], f32>
        %y = nd.einsum %q, %o
            : (!nd.tensor<["b"=2, "h"=7, "p"=3, "e"=11], f32>,
               !nd.tensor<["h"=7, "e"=11, "d"=5], f32>)
            -> !nd.tensor<["b"=2, "p"=3, "d"=5], f32>
        nd.output "y", %y : !nd.tensor<["b"=2, "p"=3, "d"=5], f32>
      }
    }
    ```
    After, `%q` is stored as `["b"=2, "p"=3, "h"=7, "e"=11]`.
  }];
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
