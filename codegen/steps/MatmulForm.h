#ifndef MESHC_CODEGEN_STEPS_MATMULFORM_H
#define MESHC_CODEGEN_STEPS_MATMULFORM_H

#include "codegen/steps/MatmulLibrary.h"
#include "codegen/steps/StridedLoops.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/BuiltinOps.h"

#include <array>
#include <cstdint>
#include <vector>

namespace meshc::codegen {

/// A contraction as library calls on the operands in place.
///
/// The loops of a contraction are batch (in both operands and the result), m
/// (first operand and result), n (second and result) or k (both operands).
/// Loops of one class that step through memory as one are merged. What remains
/// of m and n beyond one loop each becomes batch, with stride 0 in the operand
/// that lacks it; what remains of k becomes a sequence of calls that
/// accumulate.
struct MatmulForm {
  /// One merged loop: its size and its stride, in elements, in each tensor.
  struct Loop {
    int64_t size = 1;
    int64_t a = 0, b = 0, c = 0;

    std::array<int64_t, 3> getStrides() const { return {a, b, c}; }
  };
  std::vector<Loop> batch;
  Loop m, n, k;
  /// Loops of the calls that accumulate; empty: one call.
  std::vector<Loop> outerK;
  /// Whether m and n changed places (with the operands) so that the result is
  /// contiguous along n.
  bool swapped = false;

  /// Which of the first operand, the second one and the result `library` does
  /// not take as they lie in memory.
  std::array<bool, 3> findRefused(MatmulLibrary library) const;
};

/// The form of a contraction of two tensors to a third, which are indexed by
/// `maps`.
MatmulForm getMatmulForm(llvm::ArrayRef<mlir::AffineMap> maps,
                         const std::array<StridedTensor, 3> &tensors);
/// The form of `contraction`, whose operands lie as getStridedTensor() says.
MatmulForm getMatmulForm(mlir::linalg::GenericOp contraction);

/// The contractions of two tensors, from equal numbers on, that a library
/// computes in the programs of `module`, those in loops too.
llvm::SmallVector<mlir::linalg::GenericOp>
findLibraryContractions(mlir::ModuleOp module);

} // namespace meshc::codegen

#endif
