#ifndef MESHC_CODEGEN_STEPS_MATMULORDER_H
#define MESHC_CODEGEN_STEPS_MATMULORDER_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace meshc::codegen {

/// Copies of tensors in other orders of storage, by tensor: dimension i of it
/// is that of number map(i) of the copy.
using OrderedCopies = llvm::DenseMap<
    mlir::Value, llvm::SmallVector<std::pair<mlir::AffineMap, mlir::Value>, 1>>;

/// Copies tensors of `contraction` in which no loop of a library call steps
/// from one element to the next (MatmulForm::findStrided), such as one with a
/// batch dimension last, to and from an order in which one does. Libraries for
/// GPUs refuse such a matrix; oneDNN computes with it by a plain loop nest, at
/// 0.8 Gflop/s where it reaches 100 (ensemble of 8, 512 x 256 x 384, one thread
/// of a Zen 4). Takes a copy that there is of
/// `copies`, to which it adds those that it makes: contractions come in program
/// order. Returns what computes the matmul now.
mlir::linalg::GenericOp storeInLibraryOrder(mlir::linalg::GenericOp contraction,
                                            OrderedCopies &copies);

} // namespace meshc::codegen

#endif
