#ifndef MESHC_CODEGEN_STEPS_MATMULEPILOGUE_H
#define MESHC_CODEGEN_STEPS_MATMULEPILOGUE_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"

/// Operations on a matmul's result that its library call can do on the way.
namespace meshc::codegen {

/// The number that fills `tensor`, if it is known.
std::optional<llvm::APFloat> getFill(mlir::Value tensor);
/// Whether `tensor` is filled with zeros.
bool isZeroFilled(mlir::Value tensor);

/// The other operand of `op`, if it adds one value to `value` and does nothing
/// else; null if not. `isBias`: the other one has the last dimensions of the
/// result, not all of them.
mlir::Value getAddend(mlir::linalg::GenericOp op, mlir::Value value,
                      bool isBias);

/// `op` if it rounds `value` to a narrower float and does nothing else; null if
/// not.
mlir::linalg::GenericOp getRounding(mlir::Operation *op, mlir::Value value);

/// `op` if it applies one `Scalar` to elements of its inputs and does nothing
/// else, to `value` at the result's own position.
template <typename Scalar>
mlir::linalg::GenericOp getElementwise(mlir::Operation *op, mlir::Value value) {
  using namespace mlir;
  auto generic = dyn_cast_if_present<linalg::GenericOp>(op);
  if (!generic || generic.getNumReductionLoops() != 0 ||
      generic.getBody()->getOperations().size() != 2)
    return {};
  Operation &scalar = generic.getBody()->front();
  if (!isa<Scalar>(scalar) ||
      generic.getBody()->getTerminator()->getOperand(0) !=
          scalar.getResult(0) ||
      !llvm::equal(scalar.getOperands(), generic.getRegionInputArgs()))
    return {};
  for (OpOperand *input : generic.getDpsInputOperands())
    if (input->get() == value &&
        !generic.getMatchingIndexingMap(input).isIdentity())
      return {};
  OpOperand *result = generic.getDpsInitOperand(0);
  return generic.getMatchingIndexingMap(result).isIdentity()
             ? generic
             : linalg::GenericOp();
}

/// The operations, in order, that compute the exact gelu of `x`,
/// 0.5 x (1 + erf(x / sqrt(2))), from `x`, if they are all that uses it; empty
/// if not. Of x with 16 bits the last one rounds gelu to them.
///
/// There is none for relu on CPUs: oneDNN's forward relu makes 0 of NaN, which
/// would hide that a training diverged. GPUs: MatmulActivation.h.
llvm::SmallVector<mlir::linalg::GenericOp> matchGelu(mlir::Value x);

} // namespace meshc::codegen

#endif
