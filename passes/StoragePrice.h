#ifndef MESHC_PASSES_STORAGEPRICE_H
#define MESHC_PASSES_STORAGEPRICE_H

#include "dialect/ND.h"
#include "layout/Machine.h"

namespace meshc {

/// The dimensions of a value as they are stored, the outermost first.
using Order = llvm::SmallVector<nd::DimAttr>;

/// Names that a value's dimensions have further on.
using DimNames = llvm::SmallDenseMap<mlir::StringAttr, mlir::StringAttr>;

/// A contraction that reads a value, perhaps through operations that keep its
/// order, and the names the value's dimensions have there.
struct StorageReader {
  nd::EinsumOp einsum;
  unsigned operand;
  DimNames names; ///< the value's to the reader's

  nd::NamedTensorType getRead() const;
  nd::NamedTensorType getOther() const; ///< the other operand
  nd::NamedTensorType getResult() const;
  /// `order` by the names that its dimensions have here.
  Order rename(llvm::ArrayRef<nd::DimAttr> order) const;
};

/// What a machine takes for a contraction of two tensors beyond the one call
/// that it is at best, by the order in which a value is stored: in picoseconds,
/// whole ones, so that orders that cost the same are equal whatever is added
/// first. Tensors count as if they were on one device.
///
/// A call takes each tensor if its dimensions of one class (batch, rows m,
/// columns n, contracted k) lie next to each other, as in the other tensor that
/// has them. Otherwise
///   - a tensor with another dimension innermost than the library steps along
///     is copied: read and written once more;
///   - rows in p pieces are p matmuls that read the other operand again, or no
///     dearer than a copy;
///   - a class k in pieces is a call for each position of all but the largest.
///     Each adds to the result in memory. GPUs copy an operand where that takes
///     less (codegen/steps/BatchSums.cpp); on CPUs calls take no less than it.
class StoragePrice {
public:
  explicit StoragePrice(const layout::Machine &machine) : machine(machine) {}

  /// Of the contraction whose result is stored in `order`.
  int64_t getWriterPs(nd::EinsumOp einsum,
                      llvm::ArrayRef<nd::DimAttr> order) const;
  /// Of one that reads a value that is stored in `order`. How its result is
  /// stored is not known.
  int64_t getReaderPs(const StorageReader &reader,
                      llvm::ArrayRef<nd::DimAttr> order) const;
  /// Of a tensor that is read and written once more.
  int64_t getCopyPs(nd::NamedTensorType type) const;

private:
  int64_t getAgainPs(nd::NamedTensorType read, int64_t times) const;

  const layout::Machine &machine;
};

} // namespace meshc

#endif
