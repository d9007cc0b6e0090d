#ifndef MESHC_CODEGEN_STEPS_FUSION_H
#define MESHC_CODEGEN_STEPS_FUSION_H

#include "codegen/kernels/ClusterForms.h"
#include "codegen/steps/MergeOrder.h"

#include "dialect/SPMD.h"

#include <optional>
#include <tuple>
#include <vector>

namespace meshc::codegen {

/// A program as nodes that pass tensors, each of which becomes (a part of) a
/// step. Kernels are merged where that is legal and saves memory traffic.
class FusionGraph {
public:
  struct Node {
    bool isKernel = true; ///< no library call, no collective, no part
    /// A slice or a stack: a matter of places in memory, nothing to wait for.
    bool isPart = false;
    /// In program order. Matmul: the contraction.
    std::vector<mlir::Operation *> ops;
    /// Tensors in memory that the node reads, each once: results of other
    /// nodes, inputs, variables.
    llvm::SmallVector<mlir::Value> reads;
    /// Of these, tensors whose elements the node picks by computed indices: all
    /// of such a tensor has to be there before.
    llvm::SmallVector<mlir::Value> gathered;
    /// Results; of merged kernels those that others read or that leave the
    /// program.
    llvm::SmallVector<mlir::Value> results;
    unsigned position = 0; ///< of its last operation in the program
    unsigned level = 0;    ///< matmuls and collectives it has to wait for
    /// Whether it belongs to the backward phase, for kernels alone, but needs
    /// nothing of it: it could run in the forward phase, whose results are at
    /// hand then, and keep its own, which are not smaller, until they are
    /// needed. Its level is that of the first reader, so that it runs there.
    bool isEarly = false;
    bool isMerged = false; ///< into another one
    /// Of all results, those of merged kernels that nothing else reads too.
    int64_t resultBytes = 0;
    int64_t readBytes = 0;
    bool hasScalarResults = true;
    bool isScalar = false; ///< computes numbers from numbers and nothing else
  };

  void addNode(Node node);
  /// Notes that `value` leaves the program.
  void addEscape(mlir::Value value) { escapes.insert(value); }

  /// By which of the nodes that may come next one does: whether it is of a
  /// later phase than the forward one, whether it is no sum over devices, and
  /// where it stands.
  using OrderKey = std::tuple<bool, bool, unsigned>;

  /// All nodes are added.
  void finish();
  /// Merges kernels, the largest saving first, until nothing is left to save.
  void fuse();

  /// The nodes that are left, in an order that respects every dependency and
  /// is otherwise that of the program, but that sums over devices come as soon
  /// as their terms are there. What is of the forward phase comes before
  /// everything else, so that the backward phase begins behind the loss even
  /// where it needs nothing of it; and no node waits because it has taken along
  /// what stood later.
  std::vector<unsigned> getOrder() const;
  const Node &getNode(unsigned node) const { return nodes[node]; }
  /// All nodes that were added.
  llvm::ArrayRef<Node> getNodes() const { return nodes; }
  /// Results of the node that others read or that leave the program.
  llvm::SmallVector<mlir::Value> getOutputs(const Node &node) const;
  /// Pairs of nodes that were compared and nodes that searches for paths looked
  /// at: what fuse() costs beside building clusters.
  int64_t getNumVisits() const { return numPairs + order.getNumVisits(); }

private:
  struct Candidate {
    int64_t savedBytes; ///< of memory traffic
    unsigned first, second;
    bool onlyShares; ///< tensors that both read, no result of one of them
  };

  /// A tensor, and the nodes that read it: a list in which those merged are
  /// one.
  struct Tensor {
    std::optional<unsigned> producer; ///< as it was added
    bool escapes = false;
    unsigned numReaders = 0; ///< without the node that makes it
    unsigned firstReader = none;
  };
  struct Reader {
    unsigned tensor, node;
    unsigned previous = none, next = none;
  };
  static constexpr unsigned none = ~0u;

  unsigned getRoot(unsigned node) const { return order.getRoot(node); }
  std::optional<unsigned> getProducer(mlir::Value value) const;
  const Tensor *findTensor(mlir::Value value) const;
  bool isResult(mlir::Value value, unsigned node) const;
  bool haveOneProducer(const Node &one, const Node &other) const;
  static void setReads(Node &node);
  void setLevels();
  void linkReaders();
  void dropReader(unsigned reader);
  std::vector<Candidate> getCandidates(llvm::ArrayRef<unsigned> added);
  /// Of a pair of which it may be known that one node makes what both read.
  Candidate getCandidate(unsigned first, unsigned second,
                         bool haveProducer) const;
  bool isReadOutside(mlir::Value value, unsigned first, unsigned second) const;
  bool tryMerge(unsigned first, unsigned second);
  void mergeReaders(unsigned first, unsigned second);

  std::vector<Node> nodes;
  MergeOrder order;
  ClusterForms forms;
  llvm::DenseMap<mlir::Value, unsigned> producers;
  llvm::DenseSet<mlir::Value> escapes;
  llvm::DenseMap<mlir::Value, unsigned> tensorOf;
  std::vector<Tensor> tensors;
  std::vector<Reader> readers;
  /// By node: where it stands among the readers of each tensor that it reads.
  std::vector<llvm::SmallVector<unsigned>> readersOf;
  /// Whether kernels that compute numbers from numbers are merged, too.
  bool mergesScalars = false;
  bool computesAgain =
      false; ///< something of the forward phase, as it is asked to
  int64_t numPairs = 0;
};

} // namespace meshc::codegen

#endif
