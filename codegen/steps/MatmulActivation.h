#ifndef MESHC_CODEGEN_STEPS_MATMULACTIVATION_H
#define MESHC_CODEGEN_STEPS_MATMULACTIVATION_H

#include "codegen/exec/Exec.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"

/// Activations that cuBLASLt applies to a product and to gradients.
///
///   h = relu(x)             where x = a b + bias: the library writes h
///   g = h > 0 ? u : 0       where u = c d, in the backward pass: it writes g,
///                           if it left a bit for each x >= 0 behind before
///
/// and the same with gelu in the form with tanh, for which it leaves x behind.
/// The bit of x = 0 and relu of NaN are not those of kernels: README.md.
namespace meshc::codegen {

/// The operations around an activation that two library calls do on the way.
struct ActivationMatch {
  MatmulActivation activation = MatmulActivation::None;
  mlir::Value result;
  /// What the first call leaves behind: the comparison h > 0 for relu, x for
  /// gelu. Null: nothing.
  mlir::Value aux;
  /// The gradient: `gradient` = `upstream` times the activation's slope.
  /// `upstream` is the result, rounded where that happens, of the product
  /// `gradientProduct`. Null: no gradient is formed.
  mlir::linalg::GenericOp gradientProduct;
  mlir::Value upstream, gradient;
  /// What no kernel computes any more, beside the products.
  llvm::SmallVector<mlir::Operation *> absorbed;
};

/// The activation of `x`, the result of `product` with what it absorbed. Empty
/// if there is none, or if kernels would have to compute as much without it as
/// with it. A gradient is part of it only if both results are laid out as
/// isPlainResult() says, and its product sumsTerms().
///
/// relu is max(x, 0) and its gradient the choice that differentiation makes. It
/// is left alone in f16: training in f16 finds its loss scale by NaN, of which
/// the library may make 0.
/// gelu has many forms after simplification: its operations, sums, products and
/// tanh of x and constants, are evaluated at sample points and compared with
/// the definition.
std::optional<ActivationMatch> matchActivation(mlir::linalg::GenericOp product,
                                               mlir::Value x);

/// Whether the library leaves something behind of this product, or reads it
/// from there: its result is one dense matrix whose rows have a multiple of 8
/// elements. Source: cublasLt.h, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, for
/// gelu; kept for relu too, whose rows of bits have any length.
bool isPlainResult(mlir::linalg::GenericOp product);

/// Whether the library takes the gradient of an activation, or sums of a
/// factor's columns, beside this product: it adds up more than one term. With
/// one, gradients are not supported, and their sums write beyond the workspace;
/// sums of a factor are supported since 12.3.4. Source: release notes of
/// cuBLAS, CUDA 12.4, known issues; nvmath-python,
/// linalg/_internal/epilog_protocol.py.
bool sumsTerms(mlir::linalg::GenericOp product);

/// The operation that sums `matrix` over all but its last dimensions, which
/// have `size` elements together, and does nothing else; null if there is none.
mlir::linalg::GenericOp findColumnSum(mlir::Value matrix, int64_t size);

} // namespace meshc::codegen

#endif
