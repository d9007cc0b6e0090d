#ifndef MESHC_CODEGEN_KERNELS_SCHEDULE_H
#define MESHC_CODEGEN_KERNELS_SCHEDULE_H

#include "codegen/kernels/Cluster.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/MapVector.h"

namespace meshc::codegen {

/// Where sums across rows are while they are made.
enum class SumPlace : uint8_t {
  Registers, ///< of a thread, each of its own: one is made after the other
  Memory,    ///< near the processor: many are made at once
};

/// The order in which one kernel runs the space of a cluster.
///
///   for each parallel position               (iterations of the kernel)
///     set the accumulators                   (if there are summed dimensions)
///     for each summed position               a *row* is one position of both
///       for each stage
///         for each column                    vectorised along the last
///           evaluate, store, reduce
///       store what has no columns
///
/// Softmax over d of x[b, d]: parallel {b}, columns {d}; stage 0 finds the
/// row's maximum, stage 1 sums exp(x - maximum), stage 2 stores the quotients.
/// The exponentials are kept in a row buffer between stages 1 and 2, the
/// differences are computed twice.
///
/// The bias gradient, the sum over b of g[b, n]: summed {b}, columns {n}: each
/// row is added to the accumulators, which are the output itself, or a part's
/// place in a workspace if rows are cut into parts (RowParts.h, LaunchShape.h).
/// Of many rows, blocks are added up apart first (BlockedSums.h).
/// Where sums are in memory, as many positions of the result as stay near are
/// columns: the gradient of a depthwise convolution's weight, [dy, dx,
/// channel], is made in one pass over the images rather than one for each (dy,
/// dx). A fixed order: the result does not depend on the number of threads.
class Schedule {
public:
  /// How a member's result comes about.
  enum class Role : uint8_t {
    Column,      ///< per column, where it is needed
    Row,         ///< per row, where it is needed
    Reduction,   ///< per row, reduced over the columns
    Accumulator, ///< across rows, in the output's memory
  };

  /// Columns of a row that pass between two stages, kept on the stack.
  struct Buffer {
    unsigned stage; ///< which fills it
    int64_t offset; ///< in the scratch memory, in bytes
  };

  /// What one pass over the columns does, by member.
  struct Stage {
    llvm::SmallVector<unsigned> reductions; ///< of either kind over columns
    llvm::SmallVector<unsigned> updates;    ///< accumulators with columns
    llvm::SmallVector<unsigned> stores;     ///< outputs with columns
  };

  /// The schedule of `cluster`; nothing if its members do not fit one, which
  /// never happens to a single operation.
  static std::optional<Schedule> build(const Cluster &cluster,
                                       SumPlace place = SumPlace::Registers);

  llvm::ArrayRef<unsigned> getParallel() const { return parallel; }
  llvm::ArrayRef<unsigned> getSummed() const { return summed; }
  llvm::ArrayRef<unsigned> getColumns() const { return columns; }
  /// Whether columns are independent of one another and of what is stored once
  /// per row.
  bool canCutRows() const;
  /// Columns per iteration of the kernel; 0: all of them.
  int64_t getColumnBlock() const { return columnBlock; }
  /// Whether all rows do one block of columns before any does the next.
  bool areBlocksOutermost() const { return blocksAreOutermost; }
  /// Independent iterations.
  int64_t getExtent(const Cluster &cluster) const;

  Role getRole(unsigned member) const { return roles[member]; }
  llvm::ArrayRef<Stage> getStages() const { return stages; }
  /// Outputs without columns, stored when the row is done.
  llvm::ArrayRef<unsigned> getRowStores() const { return rowStores; }
  /// Accumulators without columns that no reduction feeds.
  llvm::ArrayRef<unsigned> getRowUpdates() const { return rowUpdates; }
  /// The buffer of `value`; null if it has none.
  const Buffer *getBuffer(mlir::Value value) const;
  /// The stage that stores the output `value`, if later ones read it from
  /// there.
  std::optional<unsigned> getReloadStage(mlir::Value value) const;
  int64_t getScratchBytes() const { return scratchBytes; }

  /// Whether output `member` may lie where the tensor `input` lies.
  bool mayShare(const Cluster &cluster, unsigned member,
                mlir::Value input) const;

private:
  bool divide(const Cluster &cluster, llvm::ArrayRef<unsigned> columns);
  bool assignRoles(const Cluster &cluster);
  bool isSound(const Cluster &cluster, unsigned member) const;
  bool areColumnsIndependent() const;
  bool cutAcross(const Cluster &cluster);
  Cluster::Dims findSumsAtOnce(const Cluster &cluster) const;
  void assignStages(const Cluster &cluster);
  void visitReads(const Cluster &cluster, unsigned member, unsigned stage);
  void evaluate(const Cluster &cluster, unsigned member, unsigned stage);
  bool isComputedIn(const Cluster &cluster, unsigned member, unsigned stage);
  void noteReadsAgain(const Cluster &cluster, unsigned member, unsigned stage);
  unsigned getWorkAgain(const Cluster &cluster, unsigned member) const;

  llvm::BitVector isReadInside; ///< of each member, whether another reads it
  Cluster::Dims parallel, summed, columns;
  int64_t columnBlock = 0;
  bool blocksAreOutermost = false;
  llvm::SmallVector<Role> roles;
  llvm::SmallVector<unsigned> depths; ///< stages that must be over before
  llvm::SmallVector<Stage> stages;
  llvm::SmallVector<unsigned> rowStores, rowUpdates;
  llvm::DenseMap<mlir::Value, Buffer> buffers;
  llvm::DenseMap<mlir::Value, unsigned> reloads;
  int64_t scratchBytes = 0;
  llvm::DenseMap<unsigned, unsigned> firstEvaluation;
  llvm::DenseSet<std::pair<unsigned, unsigned>> notedAgain; ///< member, stage
  llvm::DenseMap<mlir::Value, unsigned> lastRead; ///< stage, by tensor
};

} // namespace meshc::codegen

#endif
