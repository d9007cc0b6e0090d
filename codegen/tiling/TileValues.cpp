#include "codegen/tiling/Passes.h"
#include "codegen/tiling/TileLoops.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace meshc;

namespace meshc::codegen {
#define GEN_PASS_DEF_TILEVALUES
#include "codegen/tiling/Passes.h.inc"
} // namespace meshc::codegen

using namespace meshc::codegen;

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
  // A loop stands behind the last of its operations.
  sortTopologically(&block);
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
