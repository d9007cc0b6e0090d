#ifndef MESHC_PASSES_CONTRACTIONORDER_H
#define MESHC_PASSES_CONTRACTIONORDER_H

#include "dialect/ND.h"
#include "layout/Machine.h"

namespace meshc {

/// One contraction of two tensors: numbers below the count of inputs are
/// inputs, the others results of earlier steps.
struct Contraction {
  unsigned lhs, rhs;
  nd::NamedTensorType result;
};

/// Splits a contraction of two or more `inputs` into contractions of two. The
/// last step has the type `result`; others keep the dimensions that something
/// later needs.
///
/// Up to eight inputs the order is the cheapest of all trees, by dynamic
/// programming over subsets; of more, the first eight are contracted first,
/// then their product with the next seven, and so on. The cost is the machine's
/// price of the whole tensors: two operations per point and one access per
/// element of operands and result.
llvm::SmallVector<Contraction>
orderContractions(llvm::ArrayRef<nd::NamedTensorType> inputs,
                  nd::NamedTensorType result, const layout::Machine &machine);

} // namespace meshc

#endif
