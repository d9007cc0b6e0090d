#ifndef MESHC_PASSES_CONSTRAINTFLOW_H
#define MESHC_PASSES_CONSTRAINTFLOW_H

#include "passes/ModuleLayout.h"

#include "llvm/ADT/DenseMap.h"

namespace meshc {

/// Whether it is the user who says how a value lies, by its name.
bool isConstraint(mlir::Operation *op);

/// The constraint that alone reads `value`; null: others read it, too, or none.
/// Whatever is added and reads the value is to read what the constraint gives:
/// the value would have to lie elsewhere as well otherwise.
nd::ReshardOp findOnlyConstraint(mlir::Value value);

/// The constraint that an operation has to do with.
struct Followed {
  nd::ReshardOp constraint;
  /// Whether it computes in that sharding; else it is what nothing else reads
  /// the result of, and may.
  bool isElementwise = false;
};

/// The operations that compute in the sharding of a constraint: elementwise
/// ones on the way to it whose results nothing else reads, and elementwise ones
/// from it, up to the next contraction, reduction or constraint. So nothing is
/// resharded between two values that lie alike. On the way from one to another
/// they are the other's. Also the operations of other kinds where the way to a
/// constraint begins, or to the gradient of a parameter for which a rule is by
/// its name.
llvm::DenseMap<mlir::Operation *, Followed>
findFollowers(nd::ProgramOp program, const ModuleLayout &layout);

} // namespace meshc

#endif
