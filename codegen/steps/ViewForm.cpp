#include "codegen/steps/ViewForm.h"

#include "codegen/kernels/StructuredOps.h"
#include "dialect/Locations.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

namespace {

/// How the views of one block are read.
class ViewReads {
public:
  explicit ViewReads(const Convs &convs) : convs(convs) {}

  /// Whether a convolution reads through this use.
  bool isWindow(OpOperand &use) const {
    auto conv = convs.find(use.getOwner());
    return conv != convs.end() && conv->second.readsThrough(use);
  }
  /// Whether this use is a factor of a library matmul.
  bool isFactor(OpOperand &use) const {
    Operation *user = use.getOwner();
    return isLibraryMatmul(user) && !convs.contains(user) &&
           cast<linalg::GenericOp>(user).isDpsInput(&use);
  }
  bool hasFactor(spmd::ViewOp view) const {
    return llvm::any_of(view->getUses(),
                        [&](OpOperand &use) { return isFactor(use); });
  }
  std::optional<spmd::Slice> findSlice(spmd::ViewOp view) const;

private:
  bool isMostlyFactors(Value whole) const;

  const Convs &convs;
};

} // namespace

/// Whether the matmuls that read views of `whole` read half of it or more.
bool ViewReads::isMostlyFactors(Value whole) const {
  int64_t elements = 0;
  for (Operation *user : whole.getUsers())
    if (auto view = dyn_cast<spmd::ViewOp>(user); view && hasFactor(view))
      elements += view.getType().getNumElements();
  return 2 * elements >=
         cast<RankedTensorType>(whole.getType()).getNumElements();
}

/// Where `view` lies in memory, if it is read there.
std::optional<spmd::Slice> ViewReads::findSlice(spmd::ViewOp view) const {
  Operation *source = view.getInput().getDefiningOp();
  std::optional<spmd::Slice> slice = view.findSlice();
  if (!slice || isRecomputed(source))
    return std::nullopt;
  if (slice->isDense(view.getType().getShape()))
    return slice;
  if (hasFactor(view) &&
      (isBorrowed(source) || isMostlyFactors(view.getInput())))
    return slice;
  return std::nullopt;
}

bool meshc::codegen::isBorrowed(Operation *op) {
  return isa<spmd::InputOp, spmd::ReadOp, spmd::ViewOp>(op);
}

Slices meshc::codegen::formViews(Block &block, const Convs &convs) {
  const ViewReads reads(convs);
  Slices slices;
  for (auto view : llvm::make_early_inc_range(block.getOps<spmd::ViewOp>())) {
    std::optional<spmd::Slice> slice = reads.findSlice(view);
    const bool isDense = slice && slice->isDense(view.getType().getShape());
    auto isBuilt = [&](OpOperand &use) {
      return !reads.isWindow(use) && !isDense &&
             !(slice && reads.isFactor(use));
    };
    if (llvm::any_of(view->getUses(), isBuilt)) {
      IRRewriter rewriter(view);
      Value built = view.buildGeneric(rewriter);
      // A padded form is a library's.
      const nd::OriginAttr origin = getOrigin(view.getLoc());
      const bool isPadded =
          origin && origin.getPart() == nd::OriginPart::Padded;
      built.getDefiningOp()->setAttr(
          nd::NDDialect::getRemarkAttrName(),
          nd::RemarkKindAttr::get(view.getContext(),
                                  isPadded ? nd::RemarkKind::LibraryCopy
                                           : nd::RemarkKind::StoredView));
      // Kernels are compared by their bodies.
      DominanceInfo dominance;
      eliminateCommonSubExpressions(rewriter, dominance, built.getDefiningOp());
      view.getResult().replaceUsesWithIf(built, isBuilt);
    }
    const bool isRead = llvm::any_of(
        view->getUses(), [&](OpOperand &use) { return !reads.isWindow(use); });
    if (view->use_empty())
      view->erase();
    else if (slice && isRead)
      slices[view] = std::move(*slice);
  }
  return slices;
}
