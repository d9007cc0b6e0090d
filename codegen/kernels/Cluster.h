#ifndef MESHC_CODEGEN_KERNELS_CLUSTER_H
#define MESHC_CODEGEN_KERNELS_CLUSTER_H

#include "codegen/kernels/StructuredOps.h"

#include "llvm/ADT/BitVector.h"

#include <optional>
#include <vector>

namespace meshc::codegen {

/// Operations that share one space of loops.
///
/// Each operation has loops of its own; what one computes and another reads
/// tells which of them are the same. Layer normalisation's first half,
///
///   %m[b]    = sum over d of %x[b, d]       loops (b, d)
///   %y[b, d] = %x[b, d] - %m[b] / 512       loops (b', d')
///
/// has b' = b because both index %m, then d' = d because both index %x so: the
/// cluster has the two dimensions (b, d). Loops of size 1 are no dimensions.
/// Neighbouring dimensions that every operation steps through as one are one.
class Cluster {
public:
  /// In place of a dimension: the index is 0.
  static constexpr unsigned unit = ~0u;
  using Dims = llvm::SmallVector<unsigned, 4>;

  /// What an operation reads and asks for, by its own loops, through what it
  /// computes again.
  struct Uses {
    /// The element at these loops of each tensor; `unit`: at position 0.
    llvm::SmallVector<std::pair<mlir::Value, Dims>, 4> reads;
    Dims positions; ///< loops of which it asks for the position
    Dims reduced;   ///< loops that it reduces
  };

  struct Member {
    mlir::Operation *op;
    Dims loops; ///< dimension of the cluster, or `unit`, of each loop
    Uses uses;
  };

  /// One use of memory: element [dims] of `tensor`.
  struct Access {
    mlir::Value tensor;
    Dims dims;
    unsigned member; ///< which reads or writes it
    bool isStore;
  };

  /// The common space of `ops`, in program order, of which `outputs` are needed
  /// outside. Operations that consumers compute again are no members unless
  /// they are outputs. Nothing if the operations do not share a space: a member
  /// reads another's result by an index that is not its own.
  static std::optional<Cluster> build(llvm::ArrayRef<mlir::Operation *> ops,
                                      llvm::ArrayRef<mlir::Value> outputs);

  llvm::ArrayRef<int64_t> getSizes() const { return sizes; }
  unsigned getNumDims() const { return unsigned(sizes.size()); }
  llvm::ArrayRef<Member> getMembers() const { return members; }
  /// The member that computes `value`; null if it comes from outside or is
  /// computed again where it is read.
  const Member *getProducer(mlir::Value value) const;
  /// Reads of tensors from outside and writes of outputs, as far as they index
  /// by dimensions.
  llvm::ArrayRef<Access> getAccesses() const { return accesses; }
  llvm::ArrayRef<mlir::Value> getOutputs() const { return outputs; }
  /// Tensors that members pick elements of by computed indices.
  llvm::ArrayRef<mlir::Value> getGathered() const {
    return gathered.getArrayRef();
  }
  bool isOutput(mlir::Value value) const {
    return llvm::is_contained(outputs, value);
  }

  /// Dimensions of the elements of `member`'s result.
  Dims getResultDims(const Member &member) const;
  /// The same of the output `value`.
  Dims getOutputDims(mlir::Value value) const;
  /// Reduced dimensions, in the order of the member's loops.
  Dims getReducedDims(const Member &member) const;

  /// Calls `visit(tensor, dims)` for what `member` reads from memory or from
  /// members, through what it computes again.
  void
  visitReads(const Member &member,
             llvm::function_ref<void(mlir::Value, llvm::ArrayRef<unsigned>)>
                 visit) const;

private:
  bool unify();
  void collectAccesses();
  void collapse();
  /// By dimension, whether a member asks for its position along it.
  llvm::BitVector findPositions() const;
  bool canCollapse(unsigned outer, unsigned inner) const;

  llvm::SmallVector<int64_t> sizes;
  std::vector<Member> members;
  llvm::SmallVector<Uses> uses; ///< by member
  llvm::SmallVector<Access> accesses;
  llvm::SmallVector<mlir::Value> outputs;
  llvm::SmallSetVector<mlir::Value, 2> gathered;
  llvm::DenseMap<mlir::Operation *, unsigned> memberOf;
  /// Those of members that readers do not compute again.
  llvm::DenseMap<mlir::Operation *, unsigned> producers;
};

/// `loops` of the operation through the element of its result at `dims`.
Cluster::Dims getLoopsAt(mlir::Operation *op, llvm::ArrayRef<unsigned> dims);
/// The dimensions at which `read` happens when the loops are `loops`.
Cluster::Dims getDimsOf(const ReadOperand &read,
                        llvm::ArrayRef<unsigned> loops);

} // namespace meshc::codegen

#endif
