#ifndef MESHC_DIALECT_PARTITIONBUILDER_H
#define MESHC_DIALECT_PARTITIONBUILDER_H

#include "dialect/SPMD.h"

#include "mlir/Dialect/Utils/StructuredOpsUtils.h"

namespace meshc::nd {

/// Builds local `linalg` operations from what an nd operation knows by name.
///
/// A value's dimensions are found by name in its sharded type, or by their
/// accesses; the builder derives indexing maps, local shapes, the global
/// position of a local element and the mask that keeps padding out of
/// reductions.
///
/// With "batch"=5 split over an axis of 2, a device holds a block of 3. Its
/// element i is element `axis_index * 3 + i` of the dimension, and means
/// something only if that is below 5: the second device has two elements and
/// one of padding. Pointwise operations compute on padding like on anything
/// else; reductions see the identity there.
class PartitionBuilder {
public:
  /// A local value and the sharded tensor it is a block of.
  struct Operand {
    mlir::Value shard;
    NamedTensorType type;
    /// One for each dimension of `type`; empty: each is the loop of its name.
    /// What is no loop is a linear form, rounded or not, or a remainder, of
    /// loops that are not split: the operand is whole there.
    llvm::SmallVector<DimAccess> accesses = {};

    /// The loop that dimension `index` is; null if it is none.
    mlir::StringAttr getLoop(size_t index) const {
      return accesses.empty() ? type.getDims()[index].getName()
                              : accesses[index].getLoop();
    }
  };
  /// The operands of `op` with their accesses.
  llvm::SmallVector<Operand> getOperands(PartitionOpInterface op,
                                         mlir::ValueRange shards);

  /// Gives the global position along an iteration dimension, as index.
  using GlobalIndex = llvm::function_ref<mlir::Value(llvm::StringRef loop)>;
  /// Builds the body from one scalar per operand; returns the scalar result.
  using Body = llvm::function_ref<mlir::Value(mlir::OpBuilder &, mlir::Location,
                                              mlir::ValueRange scalars,
                                              GlobalIndex globalIndex)>;

  PartitionBuilder(mlir::OpBuilder &builder, mlir::Location loc,
                   const layout::Mesh &mesh)
      : builder(builder), loc(loc), mesh(mesh) {}

  mlir::OpBuilder &getBuilder() { return builder; }
  mlir::Location getLoc() const { return loc; }
  const layout::Mesh &getMesh() const { return mesh; }

  /// What this device owns of one dimension, as index values. Whatever is known
  /// at compile time is constant; nothing is computed for a dimension that is
  /// not split.
  struct OwnedRange {
    /// Where the block begins in the dimension; null: at 0.
    mlir::Value offset;
    /// One past the last position owned; null where no block has padding.
    mlir::Value end;
    /// Elements of the block, padding included.
    int64_t blockSize = 0;
  };
  /// The range of dimension `dim` of `type` that this device owns.
  OwnedRange buildOwnedRange(NamedTensorType type, llvm::StringRef dim);

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

  /// Identity of `kind` on `elementType`: 0, lowest, highest. Booleans are
  /// ordered false, true.
  static mlir::TypedAttr getIdentity(ReduceKind kind, mlir::Type elementType);
  /// Combines two scalars by `kind`. The maximum or minimum of a NaN is NaN.
  static mlir::Value combine(mlir::OpBuilder &builder, mlir::Location loc,
                             ReduceKind kind, mlir::Value lhs, mlir::Value rhs);

private:
  /// A reduction if there is a `kind`, else pointwise.
  mlir::Value buildGeneric(NamedTensorType result,
                           llvm::ArrayRef<Operand> operands,
                           std::optional<ReduceKind> kind, mlir::Value init,
                           Body body);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  const layout::Mesh &mesh;
};

} // namespace meshc::nd

#endif
