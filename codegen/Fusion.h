#ifndef MESHC_CODEGEN_FUSION_H
#define MESHC_CODEGEN_FUSION_H

#include "codegen/Steps.h"

#include <vector>

namespace meshc::codegen {

/// A program as nodes that pass tensors, each of which becomes (a part of) a
/// step. Kernels are merged where that is legal and saves memory traffic.
class FusionGraph {
public:
  struct Node {
    Step::Kind kind;
    /// In program order. Matmul: the contraction, then what it absorbs.
    std::vector<mlir::Operation *> ops;
    /// Tensors in memory that the node reads, each once: results of other
    /// nodes, inputs, variables.
    llvm::SmallVector<mlir::Value> reads;
    /// Of these, tensors whose elements the node picks by computed indices: all
    /// of such a tensor has to be there before.
    llvm::SmallVector<mlir::Value> gathered;
    /// Results.
    llvm::SmallVector<mlir::Value> results;
    mlir::Value addend, bias;
    MatmulActivation activation = MatmulActivation::None;
    mlir::Value aux = {};
    bool isGradient = false;
    mlir::Value columnSum = {};
    ColumnSum columnSumOf = ColumnSum::None;
    unsigned position = 0; ///< of its last operation in the program
    unsigned level = 0;    ///< matmuls and collectives it has to wait for
    /// Whether it belongs to the backward phase, for kernels alone, but needs
    /// nothing of it: it could run in the forward phase, whose results are at
    /// hand then, and keep its own, which are not smaller, until they are
    /// needed. Its level is that of the first reader, so that it runs there.
    bool isEarly = false;
    bool isMerged = false; ///< into another one
  };

  void addNode(Node node);
  /// Notes that `value` leaves the program.
  void addEscape(mlir::Value value) { escapes.insert(value); }

  /// Merges kernels, the largest saving first, until nothing is left to save.
  void fuse();

  /// The nodes that are left, in an order that respects every dependency and
  /// is otherwise that of the program, but that sums over devices come as soon
  /// as their terms are there.
  std::vector<unsigned> getOrder() const;
  const Node &getNode(unsigned node) const { return nodes[node]; }
  /// Results of the node that others read or that leave the program.
  llvm::SmallVector<mlir::Value> getOutputs(const Node &node) const;

private:
  struct Candidate {
    int64_t savedBytes;
    unsigned first, second;
  };

  unsigned getRoot(unsigned node) const;
  std::optional<unsigned> getProducer(mlir::Value value) const;
  void setLevels();
  std::vector<Candidate> getCandidates() const;
  int64_t getSavedBytes(const Node &first, const Node &second) const;
  bool isReadOutside(mlir::Value value, unsigned first, unsigned second) const;
  bool passesThroughOthers(unsigned first, unsigned second) const;
  bool tryMerge(unsigned first, unsigned second);

  std::vector<Node> nodes;
  std::vector<unsigned> mergedInto;
  llvm::DenseMap<mlir::Value, unsigned> producers;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<unsigned, 4>> readers;
  llvm::DenseSet<mlir::Value> escapes;
  llvm::DenseSet<std::pair<unsigned, unsigned>> rejected;
};

} // namespace meshc::codegen

#endif
