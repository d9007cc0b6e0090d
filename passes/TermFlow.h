#ifndef MESHC_PASSES_TERMFLOW_H
#define MESHC_PASSES_TERMFLOW_H

#include "passes/IterationSplit.h"

#include "llvm/ADT/DenseSet.h"

namespace meshc {

/// The floats that a sum was made of: T where `value` is a sum or a difference,
/// also under other names of dimensions, of values of T that were all widened;
/// nothing where it is none.
mlir::FloatType getAddendType(mlir::Value value);

/// Whether a gradient goes into the update of a variable.
bool entersUpdate(mlir::OpOperand &use);

/// Where pending terms move and where they are completed.
///
/// With dp = einsum(dq, wq) partial over "model" and dk likewise, dp + dk is
/// the sum of all terms: completing it once serves both. Terms therefore move
/// on through an operation that is linear in them (getPartialUse), unless
///
/// - the operation splits one of its dimensions over one of their axes,
/// - its result has more elements than the operand (of an addition or a stack:
///   than all of them together), so that completing it later would cost more,
/// - the value is a gradient and the operation belongs to the update of a
///   variable: gradients are what is summed over data, whatever the optimizer
///   does with them,
/// - the operation widens floats, unless all of its terms go into sums with
///   others partial over the same axes: what travels is narrow,
/// - the operation narrows floats that are no sum of widened gradients: they
///   are rounded once, when they are complete,
/// - the value has several readers: it is completed once for all of them. The
///   exception is a value all of whose readers add it to others partial over
///   the same axes.
///
/// So the gradient of a parameter that is stacked over iterations is completed
/// once, as a stack of terms, if latency is most of what a part would take. The
/// transfer of more would begin when the gradient of the last iteration is
/// there, and nothing is left to compute: on GPUs each gradient is then
/// completed for itself, while the next are computed.
///
/// Operands of an addition that are partial over different axes keep those they
/// share; the rest is completed first.
class TermFlow {
public:
  TermFlow(nd::ProgramOp program, const SplitMap &splits);

  /// The terms with which `value` leaves its producer.
  Terms getTerms(mlir::Value value) const;
  /// Those of them that the operand `use` still has when it is read.
  Terms getKept(mlir::OpOperand &use) const;
  /// Whether the readers of `value` may take it with its terms.
  bool isMoving(mlir::Value value) const;

private:
  void visit(nd::PartitionOpInterface op);
  void keepJointly(nd::PartitionOpInterface op,
                   llvm::ArrayRef<mlir::OpOperand *> operands);
  void keepAlone(nd::PartitionOpInterface op,
                 llvm::ArrayRef<mlir::OpOperand *> operands, const Terms &own);
  bool isCompletedInParts(nd::StackOp stack, const Terms &shared) const;
  int64_t getLocalElements(mlir::Value value) const;
  int64_t getLargestResult(mlir::Operation *op) const;

  const SplitMap &splits;
  const layout::Mesh mesh;
  const layout::Machine &machine;
  llvm::DenseMap<mlir::Value, Terms> terms;
  llvm::DenseMap<mlir::OpOperand *, Terms> kept;
  llvm::DenseSet<mlir::Value> stopped; ///< completed for all their readers
};

} // namespace meshc

#endif
