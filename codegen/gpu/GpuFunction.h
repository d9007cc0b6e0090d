#ifndef MESHC_CODEGEN_GPU_GPUFUNCTION_H
#define MESHC_CODEGEN_GPU_GPUFUNCTION_H

#include "codegen/kernels/ElementBuilder.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace meshc::codegen {

/// How a GPU's kernels hold elements: nothing passes between stages in memory,
/// and a load of which lanes are masked is a branch for each.
inline ElementOptions getElementOptions(unsigned positionBits,
                                        int64_t vectorBytes) {
  return {positionBits, vectorBytes, /*hasRowBuffers=*/false,
          /*hasMaskedLoads=*/false};
}

/// The operands of a GPU kernel, in the order of its parameters.
struct GpuOperands {
  size_t numInputs;  ///< the first ones are only read
  size_t numOutputs; ///< the next ones are only written
  /// Whether another operand may lie in the same memory, by input and output.
  llvm::ArrayRef<bool> isShared;
  bool hasWorkspace = false; ///< as one more operand

  size_t size() const { return numInputs + numOutputs + hasWorkspace; }
};

/// A GPU kernel while it is built: parameters as runtime/exec/GpuKernels.h
/// describes them, and a body that returns.
class GpuFunction : public KernelFrame {
public:
  /// Adds the function `symbol` for blocks of `threads` threads to `kernels`.
  static GpuFunction create(mlir::gpu::GPUModuleOp kernels, mlir::Location loc,
                            llvm::StringRef symbol, int64_t threads,
                            const GpuOperands &operands, size_t numAxes);

  mlir::Value getOperand(mlir::OpBuilder &, unsigned index) override {
    return function.getArgument(index);
  }
  mlir::Value getCoordinate(mlir::OpBuilder &, unsigned axis) override {
    return function.getArgument(numOperands + axis);
  }

  /// What the entry needs again and again goes before this operation.
  mlir::Operation *getAnchor() const { return anchor; }
  /// At the end of the body, before the return.
  mlir::OpBuilder atEnd();

  /// Gives threads the registers that they have where a multiprocessor runs so
  /// many blocks at a time; else the assembler chooses, and may spill.
  void setBlocksAtOnce(int64_t count);

  /// Number of the block or of the thread in it, in `type`.
  mlir::Value getId(mlir::OpBuilder &builder, mlir::Type type, bool isBlock);

private:
  GpuFunction(mlir::gpu::GPUFuncOp function, unsigned numOperands,
              mlir::Operation *anchor)
      : function(function), numOperands(numOperands), anchor(anchor) {}

  mlir::gpu::GPUFuncOp function;
  unsigned numOperands; ///< with the workspace
  mlir::Operation *anchor;
};

/// Fails with a diagnostic at `op` if a launch cannot have `grid` blocks.
mlir::LogicalResult checkGrid(mlir::Operation *op, int64_t grid);

/// The start of a block's shared memory: as much as a launch asks for, aligned
/// to the widest access.
mlir::Value getSharedMemory(mlir::OpBuilder &builder, mlir::Location loc,
                            mlir::gpu::GPUModuleOp kernels);

} // namespace meshc::codegen

#endif
