#include "codegen/tiling/Passes.h"
#include "codegen/tiling/TileLoops.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

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
/// Fails with a diagnostic if something needs itself.
static LogicalResult moveInputsUp(Block &block) {
  std::vector<Operation *> order, open;
  llvm::DenseSet<Operation *> ordered, entered;
  for (Operation &op : block) {
    open.push_back(&op);
    while (!open.empty()) {
      Operation *next = open.back();
      if (ordered.contains(next)) {
        open.pop_back();
        continue;
      }
      const bool isFirst = entered.insert(next).second;
      const size_t before = open.size();
      for (Value input : getInputs(next))
        if (Operation *producer = input.getDefiningOp();
            !ordered.contains(producer))
          open.push_back(producer);
      if (open.size() == before) {
        open.pop_back();
        ordered.insert(next);
        order.push_back(next);
      } else if (!isFirst) {
        return next->emitError("in tiles, this would need its own result");
      }
    }
  }
  for (Operation *op : order)
    op->moveBefore(&block, block.end());
  return success();
}

static LogicalResult tileValues(Block &block, int64_t tileBytes) {
  std::vector<UntiledOp> untiled;
  const std::vector<TileGroup> groups =
      findTileGroups(block, tileBytes, untiled);
  for (const UntiledOp &each : untiled)
    each.op->setAttr(
        nd::NDDialect::getRemarkAttrName(),
        nd::RemarkKindAttr::get(each.op->getContext(), each.reason));
  if (groups.empty())
    return success();
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
  return moveInputsUp(block);
}

namespace {
struct TileValues : codegen::impl::TileValuesBase<TileValues> {
  using TileValuesBase::TileValuesBase;
  void runOnOperation() override {
    for (auto program : getOperation().getOps<spmd::ProgramOp>())
      if (failed(tileValues(program.getBody().front(), tileBytes)))
        return signalPassFailure();
  }
};
} // namespace
