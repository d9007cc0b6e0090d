#ifndef MESHC_CODEGEN_KERNELS_BLOCKEDSUMS_H
#define MESHC_CODEGEN_KERNELS_BLOCKEDSUMS_H

#include "runtime/exec/SumBlock.h"

#include "mlir/IR/Builders.h"

#include "llvm/ADT/SmallVector.h"

#include <functional>
#include <vector>

namespace meshc::codegen {

/// Terms of a block: SumBlock.h. Rows of up to 1024 columns, and parts of 64
/// rows, are one.
using runtime::sumBlock;

/// One of several loops, one inside the other, that go through positions whose
/// terms are summed.
struct SumLoop {
  unsigned dim;     ///< which of the dimensions it goes along
  int64_t step;     ///< positions that the body goes through
  bool startsFresh; ///< the body's sum is one of its own, added when it is over
};

/// Loops over dimensions of these sizes, outermost first, such that no
/// accumulator takes more than `sumBlock` terms.
struct SumLoops {
  llvm::SmallVector<SumLoop> loops; ///< outermost first
  int64_t terms; ///< that the outermost accumulator takes, at most

  /// `terms`: that the innermost body adds. One loop for each dimension of more
  /// than one position where all terms fit a block.
  static SumLoops get(llvm::ArrayRef<int64_t> sizes, int64_t terms = 1);
  /// Loops that sum nothing, or nothing that needs blocks.
  static SumLoops getPlain(llvm::ArrayRef<int64_t> sizes);

  /// Cuts the loops such that the innermost ones run over at most `most`
  /// positions of the dimensions, which have these sizes, and start nothing
  /// fresh; how many these are. Loops of one dimension are cut where its blocks
  /// are whole pieces.
  size_t cutInnermost(llvm::ArrayRef<int64_t> sizes, int64_t most);

  /// How many loops start fresh: accumulators at once beside the outermost one.
  int64_t countLevels() const;
  /// The loops from the first of `rest` on that go along the same dimension.
  static llvm::ArrayRef<SumLoop> getFirstDim(llvm::ArrayRef<SumLoop> rest);
};

/// What happens around the body of a loop that starts fresh.
class SumBlocks {
public:
  virtual ~SumBlocks();
  /// What the body carries in instead of `outer`.
  virtual llvm::SmallVector<mlir::Value>
  begin(mlir::OpBuilder &builder, llvm::ArrayRef<mlir::Value> outer) = 0;
  /// What the loop carries on: `own`, which the body carries out, added to
  /// `outer`.
  virtual llvm::SmallVector<mlir::Value>
  end(mlir::OpBuilder &builder, llvm::ArrayRef<mlir::Value> outer,
      llvm::ArrayRef<mlir::Value> own) = 0;
};

/// Sums that loops carry.
class CarriedSums final : public SumBlocks {
public:
  /// A fresh accumulator for the value at a place; null if it is carried on.
  using GetNeutral =
      std::function<mlir::Value(mlir::OpBuilder &, size_t place)>;
  using Combine = std::function<mlir::Value(mlir::OpBuilder &, size_t place,
                                            mlir::Value lhs, mlir::Value rhs)>;
  CarriedSums(GetNeutral getNeutral, Combine combine)
      : getNeutral(std::move(getNeutral)), combine(std::move(combine)) {}

  llvm::SmallVector<mlir::Value>
  begin(mlir::OpBuilder &builder, llvm::ArrayRef<mlir::Value> outer) override;
  llvm::SmallVector<mlir::Value> end(mlir::OpBuilder &builder,
                                     llvm::ArrayRef<mlir::Value> outer,
                                     llvm::ArrayRef<mlir::Value> own) override;

private:
  GetNeutral getNeutral;
  Combine combine;
  /// Which values are fresh, by place, in every loop that has begun and not
  /// ended, of which inner ones may carry fewer.
  std::vector<llvm::SmallVector<bool>> open;
};

/// The positions [first, last), `unit` apart, of one dimension.
struct SumRange {
  mlir::Value first, last;
  int64_t unit;
  int64_t size; ///< how many there are; 0: unknown
};

using SumBody = llvm::function_ref<llvm::SmallVector<mlir::Value>(
    mlir::OpBuilder &, mlir::Value position,
    llvm::ArrayRef<mlir::Value> carried)>;

/// Emits `loops`, all along one dimension, over `range`. Returns what is
/// carried out.
llvm::SmallVector<mlir::Value> emitSumLoops(mlir::OpBuilder &builder,
                                            mlir::Location loc,
                                            llvm::ArrayRef<SumLoop> loops,
                                            const SumRange &range,
                                            llvm::ArrayRef<mlir::Value> carried,
                                            SumBlocks &sums, SumBody body);

} // namespace meshc::codegen

#endif
