#ifndef MESHC_DIALECT_PROGRAMWALK_H
#define MESHC_DIALECT_PROGRAMWALK_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/SmallVector.h"

namespace meshc {

/// The blocks of a program, each before those inside it: its own, and those of
/// operations that run their regions (RegionBranchOpInterface). The body of a
/// `linalg` operation is none of them: it is an expression of its elements.
llvm::SmallVector<mlir::Block *> getBlocks(mlir::Operation *program);

/// The operations in these blocks in the order in which they stand: one with
/// regions, then what is in them, then the next. An operation comes behind
/// those that define its operands.
llvm::SmallVector<mlir::Operation *> getOperations(mlir::Operation *program);

/// Whether `op` ends a block and passes its operands on to the operation around
/// it.
bool isRegionEnd(mlir::Operation *op);

} // namespace meshc

#endif
