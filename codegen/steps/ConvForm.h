#ifndef MESHC_CODEGEN_STEPS_CONVFORM_H
#define MESHC_CODEGEN_STEPS_CONVFORM_H

#include "dialect/SPMD.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"

#include <array>
#include <optional>
#include <vector>

namespace meshc::codegen {

/// The tensors of a convolution (codegen/exec/Exec.td),
///
///   destination[n, o, out] = sum over i, w of source[n, i, in] weights[o, i,
///   w] where in = stride out + dilation w - pad for each dimension of space.
///
/// Each of them may be what is computed from the other two: the terms are the
/// same products, of which each result takes those that its element is in.
enum class ConvTensor : uint32_t;

/// A convolution as one library call on the operands in place.
///
/// The loops of a convolution are batch (in source and destination), inputs
/// (source and weights), outputs (weights and destination), groups (all three)
/// or of space. Loops of one class that step through memory as one are merged.
/// What remains of the batch beyond one loop is a dimension of space with a
/// window of one position.
struct ConvForm {
  /// One merged loop: its size and its stride, in elements, in each tensor.
  struct Loop {
    int64_t size = 1;
    int64_t source = 0, weights = 0, destination = 0;

    std::array<int64_t, 3> getStrides() const {
      return {source, weights, destination};
    }
  };
  /// A dimension of space: sizes and strides of its three dimensions.
  struct Space {
    int64_t sourceSize = 1, weightsSize = 1, destinationSize = 1;
    int64_t source = 0, weights = 0, destination = 0;
    int64_t stride = 1, dilation = 1, pad = 0;
  };
  Loop batch, groups, inputs, outputs;
  std::vector<Space> space; ///< one to three, the outermost first

  /// Terms in all, those outside the source included.
  double countTerms() const;
};

/// The form of the convolution that computes `result`. `maps` say by which
/// loops source, weights and destination, of these shapes, are indexed. Nothing
/// where no call of the library is that convolution.
std::optional<ConvForm>
getConvForm(llvm::ArrayRef<mlir::AffineMap> maps,
            std::array<llvm::ArrayRef<int64_t>, 3> shapes, ConvTensor result);

/// A contraction that is a convolution. It names operands by their numbers:
/// what they are may be rewritten between match and use.
struct ConvMatch {
  mlir::linalg::GenericOp contraction;
  unsigned viewed = 0; ///< the operand of the contraction that is the view
  ConvTensor result;
  /// Whether what the view reads comes before the other factor in the order
  /// source, weights, destination.
  bool isViewedFirst = true;
  llvm::SmallVector<mlir::AffineMap> maps;

  /// The view whose operand the call reads in its place.
  spmd::ViewOp getView() const;
  /// Whether the call reads through this use of a view.
  bool readsThrough(mlir::OpOperand &use) const;
  /// Source, weights, destination but the one that is computed.
  std::array<mlir::Value, 2> getOperands() const;
};

/// The convolution that a contraction of f32 or bf16 is, one operand of which
/// is a view. Nothing where it is none that the library computes, or its sums
/// are longer than those of one product.
std::optional<ConvMatch> matchConv(mlir::linalg::GenericOp contraction);

} // namespace meshc::codegen

#endif
