#ifndef MESHC_CODEGEN_STEPS_MATMULORDER_H
#define MESHC_CODEGEN_STEPS_MATMULORDER_H

#include "codegen/steps/MatmulForm.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace meshc::codegen {

/// Copies of tensors in other orders of storage, by tensor: dimension i of it
/// is that of number map(i) of the copy.
using OrderedCopies = llvm::DenseMap<
    mlir::Value, llvm::SmallVector<std::pair<mlir::AffineMap, mlir::Value>, 1>>;

/// Copies tensors of `contraction` that `library` does not take as they lie
/// (MatmulForm::findRefused): such as one with a batch dimension last, to and
/// from an order in which a loop of the library steps from one element to the
/// next, or every second of seven rows, which are then as close as they can be.
/// Takes a copy that there is of `copies`, to which it adds those that it
/// makes: contractions come in program order. Returns what computes the matmul
/// now.
mlir::linalg::GenericOp storeInLibraryOrder(mlir::linalg::GenericOp contraction,
                                            MatmulLibrary library,
                                            OrderedCopies &copies);

/// The form of `contraction` with a copy of operand `number` in the order of a
/// row-major matrix, in which loops lie together as another tensor has them.
MatmulForm getMatrixOrderForm(mlir::linalg::GenericOp contraction,
                              unsigned number);

/// Copies operand `number` of `contraction` to that order, or takes a copy of
/// `copies` with which it is one call. Returns what computes the matmul now.
mlir::linalg::GenericOp storeInMatrixOrder(mlir::linalg::GenericOp contraction,
                                           unsigned number,
                                           OrderedCopies &copies);

} // namespace meshc::codegen

#endif
