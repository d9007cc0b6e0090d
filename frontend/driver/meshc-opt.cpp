// mlir-opt for the passes of meshc.

#include "codegen/steps/Passes.h"
#include "codegen/tiling/Passes.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<meshc::nd::NDDialect, meshc::spmd::SPMDDialect,
                  meshc::steps::ExecDialect, mlir::arith::ArithDialect,
                  mlir::linalg::LinalgDialect, mlir::math::MathDialect,
                  mlir::tensor::TensorDialect>();
  meshc::registerMeshcPasses();
  meshc::codegen::registerMeshcExecPasses();
  meshc::codegen::registerMeshcTilingPasses();
  meshc::registerPipelines();
  mlir::registerCanonicalizer();
  mlir::registerCSE();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "meshc optimizer driver\n", registry));
}
