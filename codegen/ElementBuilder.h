#ifndef MESHC_CODEGEN_ELEMENTBUILDER_H
#define MESHC_CODEGEN_ELEMENTBUILDER_H

#include "codegen/Schedule.h"
#include "codegen/Steps.h"

#include "mlir/IR/Builders.h"

#include <map>

namespace meshc::codegen {

/// Builds the values of a kernel's tensors at one position of its loops.
///
/// Three scopes nest: the kernel's entry, a row, a chunk of consecutive
/// columns. A value that does not depend on the columns is a scalar in the
/// row's scope, before the loop over columns; any other is a vector with one
/// lane per column of the chunk. What has been built in a scope is not built
/// again.
///
/// Memory is dense row-major; booleans take a byte each.
class ElementBuilder {
public:
  ElementBuilder(const Step &step, const Cluster &cluster,
                 const Schedule &schedule, mlir::Location loc,
                 mlir::OpBuilder entry, mlir::Value operands,
                 mlir::Value coordinates);

  mlir::Location getLoc() const { return loc; }
  /// An i64 constant, in the entry.
  mlir::Value getConstant(int64_t value);
  /// A constant of any scalar type, in the entry.
  mlir::Value getConstant(mlir::TypedAttr value);

  /// Sets the position (i64) along a dimension.
  void setPosition(unsigned dim, mlir::Value position) {
    positions[dim] = position;
  }
  /// Where the entry's code goes from now on.
  void setEntryPoint(mlir::Operation *before) {
    entry.setInsertionPoint(before);
  }
  /// Begins a row whose code goes to `builder`.
  void beginRow(mlir::OpBuilder builder);
  /// Where the row's scalars go from now on.
  void setRowPoint(mlir::Operation *before) {
    row.builder.setInsertionPoint(before);
  }
  mlir::OpBuilder &getRowBuilder() { return row.builder; }
  /// Begins a chunk of `lanes` columns at the current positions.
  void beginChunk(mlir::OpBuilder builder, int64_t lanes, unsigned stage);
  mlir::OpBuilder &getChunkBuilder() { return chunk.builder; }

  /// Element of `tensor` at `dims`.
  mlir::Value getElement(mlir::Value tensor, llvm::ArrayRef<unsigned> dims);
  /// What the reduction `member` combines with its accumulator.
  mlir::Value getTerm(const Cluster::Member &member);
  /// Element of the tensor that `member` reduces into.
  mlir::Value getInit(const Cluster::Member &member);
  /// The row's result of a reduction, for everything after it.
  void setReduced(const Cluster::Member &member, mlir::Value result);

  /// Memory of `tensor` at `dims`.
  mlir::Value load(mlir::Value tensor, llvm::ArrayRef<unsigned> dims);
  void store(mlir::Value value, mlir::Value tensor,
             llvm::ArrayRef<unsigned> dims);
  /// `value` as a vector of the chunk's lanes.
  mlir::Value broadcast(mlir::Value value);

private:
  using Key = std::pair<void *, Cluster::Dims>;
  struct Scope {
    mlir::OpBuilder builder;
    std::map<Key, mlir::Value> elements;
    std::map<Key, mlir::Value> pointers;
  };
  using Values = llvm::DenseMap<mlir::Value, mlir::Value>;

  bool hasColumns(llvm::ArrayRef<unsigned> dims) const;
  mlir::Value compute(mlir::Operation *op, llvm::ArrayRef<unsigned> loops,
                      Scope &scope);
  Values computeBody(mlir::linalg::GenericOp op, llvm::ArrayRef<unsigned> loops,
                     Scope &scope, mlir::Operation *end);
  void computeScalar(mlir::Operation &op, llvm::ArrayRef<unsigned> loops,
                     Scope &scope, Values &values);
  mlir::Value getCaptured(mlir::Value value);
  mlir::Value getCoordinate(mlir::Operation *axisIndex);
  mlir::Value getPosition(unsigned dim, Scope &scope);
  mlir::Value gather(mlir::Value tensor, llvm::ArrayRef<mlir::Value> indices,
                     Scope &scope);
  mlir::Value getScalar(mlir::OpFoldResult splat);

  struct Place {
    mlir::Value pointer;
    int64_t stride = 0; ///< along the lanes, in elements; 0: one scalar
  };
  Place getPlace(mlir::Value tensor, llvm::ArrayRef<unsigned> dims);
  Place getBufferPlace(mlir::Value tensor, int64_t offset);
  mlir::Value loadFrom(mlir::OpBuilder &builder, Place place,
                       mlir::Type element);
  void storeTo(mlir::OpBuilder &builder, mlir::Value value, Place place);
  mlir::Value offsetPointer(mlir::OpBuilder &builder, mlir::Value pointer,
                            mlir::Type element, mlir::Value offset);

  const Step &step;
  const Cluster &cluster;
  const Schedule &schedule;
  mlir::Location loc;
  mlir::OpBuilder entry;
  mlir::Value operands, coordinates, scratch;
  llvm::DenseMap<mlir::Value, mlir::Value> bases;
  llvm::DenseMap<mlir::Value, mlir::Value> captured;
  llvm::DenseMap<mlir::Attribute, mlir::Value> constants;
  llvm::DenseMap<unsigned, mlir::Value> positions;
  llvm::DenseMap<mlir::Operation *, mlir::Value> reduced;
  Scope row, chunk;
  int64_t lanes = 0;
  unsigned stage = 0;
};

} // namespace meshc::codegen

#endif
