#include "codegen/tiling/Passes.h"
#include "codegen/tiling/TileLoops.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace meshc;

namespace meshc::codegen {
#define GEN_PASS_DEF_TILEVALUES
#include "codegen/tiling/Passes.h.inc"
} // namespace meshc::codegen

using namespace meshc::codegen;

/// Moves what an operation reads in front of it where it is not there: a loop
/// stands behind the last of its operations, and what read the first of them
/// may stand before. The program's order says when values are computed and how
/// long they are kept, so nothing else moves.
static void moveInputsUp(Block &block) {
  std::vector<Operation *> order, open;
  llvm::DenseSet<Operation *> ordered;
  for (Operation &op : block) {
    open.push_back(&op);
    while (!open.empty()) {
      Operation *next = open.back();
      const size_t before = open.size();
      SetVector<Value> inputs(next->operand_begin(), next->operand_end());
      getUsedValuesDefinedAbove(next->getRegions(), inputs);
      for (Value input : inputs)
        if (Operation *producer = input.getDefiningOp();
            !ordered.contains(next) && !ordered.contains(producer))
          open.push_back(producer);
      if (open.size() > before)
        continue;
      open.pop_back();
      if (ordered.insert(next).second)
        order.push_back(next);
    }
  }
  for (Operation *op : order)
    op->moveBefore(&block, block.end());
}

static void tileValues(Block &block, int64_t tileBytes) {
  const std::vector<TileGroup> groups = findTileGroups(block, tileBytes);
  if (groups.empty())
    return;
  // Each group is written from the operations of the program: a later one
  // computes again what an earlier one has.
  std::vector<SmallVector<Value>> results;
  OrderedValues ordered;
  for (const TileGroup &group : groups)
    results.push_back(writeTileLoops(group, ordered));
  for (auto [group, values] : llvm::zip_equal(groups, results))
    for (auto [output, value] : llvm::zip_equal(group.outputs, values))
      Value(output).replaceAllUsesWith(value);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
  moveInputsUp(block);
}

namespace {
struct TileValues : codegen::impl::TileValuesBase<TileValues> {
  using TileValuesBase::TileValuesBase;
  void runOnOperation() override {
    for (auto program : getOperation().getOps<spmd::ProgramOp>())
      tileValues(program.getBody().front(), tileBytes);
  }
};
} // namespace
