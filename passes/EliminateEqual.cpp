#include "passes/Passes.h"

#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"

#include "llvm/ADT/Hashing.h"

using namespace mlir;

namespace meshc {
#define GEN_PASS_DEF_ELIMINATEEQUAL
#include "passes/Passes.h.inc"
} // namespace meshc

/// On an operation: the hash of what is in its regions.
static constexpr llvm::StringLiteral bodyAttr = "spmd.body";

/// The same for operations whose regions are equal, wherever they are; operands
/// do not count.
static int64_t hashBody(Operation *op) {
  llvm::hash_code hash = 0;
  for (Region &region : op->getRegions())
    region.walk<WalkOrder::PreOrder>([&](Operation *inner) {
      hash = llvm::hash_combine(
          hash, inner->getName(), inner->getDiscardableAttrDictionary(),
          inner->hashProperties(),
          llvm::hash_combine_range(inner->result_type_begin(),
                                   inner->result_type_end()));
    });
  return int64_t(size_t(hash));
}

namespace {
struct EliminateEqual : meshc::impl::EliminateEqualBase<EliminateEqual> {
  void runOnOperation() override {
    // MLIR looks for equal operations among those with the same hash, which
    // does not see regions: each of many initial values, made of the same empty
    // tensor, would be compared with all others.
    SmallVector<Operation *> bodies;
    getOperation()->walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (op->getNumRegions() == 0 || op->getNumResults() == 0)
        return WalkResult::advance();
      bodies.push_back(op);
      return WalkResult::skip();
    });
    Builder builder(&getContext());
    for (Operation *op : bodies)
      op->setDiscardableAttr(bodyAttr, builder.getI64IntegerAttr(hashBody(op)));

    IRRewriter rewriter(&getContext());
    DominanceInfo dominance(getOperation());
    eliminateCommonSubExpressions(rewriter, dominance, getOperation());

    getOperation()->walk([](Operation *op) {
      if (op->getDiscardableAttr(bodyAttr))
        op->removeDiscardableAttr(bodyAttr);
    });
  }
};
} // namespace
