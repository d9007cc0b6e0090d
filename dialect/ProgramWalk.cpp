#include "dialect/ProgramWalk.h"

#include "mlir/Interfaces/ControlFlowInterfaces.h"

using namespace mlir;

/// Calls `enter` on each block of `op` and `visit` on each operation in it.
template <class Enter, class Visit>
static void walk(Operation *op, Enter enter, Visit visit) {
  for (Region &region : op->getRegions())
    for (Block &block : region) {
      enter(&block);
      for (Operation &inner : block) {
        visit(&inner);
        if (isa<RegionBranchOpInterface>(inner))
          walk(&inner, enter, visit);
      }
    }
}

SmallVector<Block *> meshc::getBlocks(Operation *program) {
  SmallVector<Block *> blocks;
  walk(
      program, [&](Block *block) { blocks.push_back(block); },
      [](Operation *) {});
  return blocks;
}

SmallVector<Operation *> meshc::getOperations(Operation *program) {
  SmallVector<Operation *> operations;
  walk(
      program, [](Block *) {},
      [&](Operation *op) { operations.push_back(op); });
  return operations;
}

bool meshc::isRegionEnd(Operation *op) {
  return isa<RegionBranchTerminatorOpInterface>(op) &&
         isa_and_present<RegionBranchOpInterface>(op->getParentOp());
}
