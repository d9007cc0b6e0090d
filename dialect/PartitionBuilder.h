#ifndef MESHC_DIALECT_PARTITIONBUILDER_H
#define MESHC_DIALECT_PARTITIONBUILDER_H

#include "dialect/SPMD.h"

#include "mlir/Dialect/Utils/StructuredOpsUtils.h"

namespace meshc::nd {

/// Builds local `linalg` operations from what an nd operation knows by name.
///
/// A value's dimensions are found by name in its sharded type; the builder
/// derives indexing maps, local shapes, the global position of a local element
/// and the mask that keeps padding out of reductions.
class PartitionBuilder {
public:
  /// A local value and the sharded tensor it is a block of.
  struct Operand {
    mlir::Value shard;
    NamedTensorType type;
    /// Iteration dimension of each dimension of `type`; empty: its own names.
    llvm::SmallVector<llvm::StringRef> dims;
  };

  /// Gives the global position along an iteration dimension, as index.
  using GlobalIndex = llvm::function_ref<mlir::Value(llvm::StringRef dim)>;
  /// Builds the body from one scalar per operand (and the accumulator last, for
  /// reductions); returns the scalar result.
  using Body = llvm::function_ref<mlir::Value(
      mlir::OpBuilder &, mlir::Location, mlir::ValueRange scalars,
      GlobalIndex globalIndex)>;

  PartitionBuilder(mlir::OpBuilder &builder, mlir::Location loc,
                   const layout::Mesh &mesh)
      : builder(builder), loc(loc), mesh(mesh) {}

  mlir::OpBuilder &getBuilder() { return builder; }
  mlir::Location getLoc() const { return loc; }
  const layout::Mesh &getMesh() const { return mesh; }

  /// One result element per element of the operands; broadcasts by name.
  mlir::Value buildPointwise(NamedTensorType result,
                             llvm::ArrayRef<Operand> operands, Body body);

  /// Combines, by `kind`, the scalars `body` makes over the dimensions of
  /// `operands` that `result` lacks. Padding of uneven reduced dimensions
  /// contributes the identity.
  mlir::Value buildReduction(NamedTensorType result,
                             llvm::ArrayRef<Operand> operands, ReduceKind kind,
                             Body body);

  /// Sum of the product of two operands, as the `linalg` form of a contraction
  /// (multiply and add, nothing else in the body). Padding of uneven contracted
  /// dimensions is cleared in the operands first.
  mlir::Value buildContraction(NamedTensorType result, const Operand &lhs,
                               const Operand &rhs);

  /// Identity of `kind` on `elementType`: 0, lowest, highest.
  static mlir::TypedAttr getIdentity(ReduceKind kind, mlir::Type elementType);
  /// Combines two scalars by `kind`.
  static mlir::Value combine(mlir::OpBuilder &builder, mlir::Location loc,
                             ReduceKind kind, mlir::Value lhs, mlir::Value rhs);

private:
  mlir::OpBuilder &builder;
  mlir::Location loc;
  const layout::Mesh &mesh;
};

} // namespace meshc::nd

#endif
