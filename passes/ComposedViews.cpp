// Views of views as one: what is read is then a window of a tensor that lies as
// the layout says, and not of one that nobody named.

#include "passes/Simplifications.h"

#include "dialect/Locations.h"
#include "dialect/ND.h"

#include <limits>

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

/// Whether an attribute has room for its numbers, which further forms may then
/// multiply in 64 bits.
static bool fits(const layout::Access &form) {
  constexpr int64_t limit = std::numeric_limits<int32_t>::max();
  auto isBelow = [](int64_t number) { return std::abs(number) < limit; };
  return isBelow(form.getOffset()) && isBelow(form.getDivisor()) &&
         llvm::all_of(form.getTerms(), [&](const layout::AccessTerm &term) {
           return isBelow(term.factor);
         });
}

/// Where `outer` reads a dimension of what `inner` views; nothing where that is
/// no access of one form.
static std::optional<DimAccess> compose(ViewOp inner, ViewOp outer,
                                        StringAttr dim) {
  const DimAccess access = inner.getInputAccess(dim);
  // The loops of `inner` have the first numbers, those of `outer` the next.
  SmallVector<StringAttr> names(access.getLoops());
  auto addName = [&](StringAttr name) {
    const auto *known =
        std::find(names.begin() + access.getLoops().size(), names.end(), name);
    const auto number = int32_t(known - names.begin());
    if (known == names.end())
      names.push_back(name);
    return number;
  };
  layout::Access form = access.getForm();
  for (auto [number, loop] : llvm::enumerate(access.getLoops())) {
    const DimAccess read = outer.getInputAccess(loop);
    const layout::Access readForm = read.getForm();
    std::vector<layout::AccessTerm> terms;
    for (const layout::AccessTerm &term : readForm.getTerms())
      terms.push_back(
          {addName(read.getLoops()[size_t(term.loop)]), term.factor});
    const auto renumbered =
        readForm.getKind() == layout::Access::Kind::Modulo
            ? layout::Access::modulo(std::move(terms), readForm.getOffset(),
                                     readForm.getDivisor())
            : layout::Access::quotient(readForm.getKind(), std::move(terms),
                                       readForm.getOffset(),
                                       readForm.getDivisor());
    const auto composed = form.compose(int32_t(number), renumbered);
    if (!composed || !fits(*composed))
      return std::nullopt;
    form = *composed;
  }
  return DimAccess(form, names);
}

namespace {

/// Whether a value has a name by which plans and rules of the layout know it.
bool isNamed(Operation *op) {
  const OriginAttr origin = getOrigin(op->getLoc());
  return origin && origin.hasName() && origin.isItself();
}

/// view(view(x)) -> view(x), where all that the outer one reads is there.
struct ViewOfView : OpRewritePattern<ViewOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ViewOp op,
                                PatternRewriter &rewriter) const override {
    auto inner = op.getInput().getDefiningOp<ViewOp>();
    if (!inner || !inner->hasOneUse() || isNamed(inner) || op.mayReadOutside())
      return rewriter.notifyMatchFailure(op, "it is no view of a view alone");
    SmallVector<Attribute> accesses;
    llvm::SmallDenseSet<StringAttr> read;
    for (DimAttr dim : inner.getInput().getType().getDims()) {
      const auto access = compose(inner, op, dim.getName());
      if (!access)
        return rewriter.notifyMatchFailure(op, "a position is no access");
      // A dimension that stays is not said.
      const auto attr = AccessAttr::get(dim.getName(), *access);
      if (attr.getLoop() != dim.getName() ||
          !llvm::is_contained(op.getType().getDims(), dim))
        accesses.push_back(attr);
      const layout::Access form = access->getForm();
      for (const layout::AccessTerm &term : form.getTerms())
        read.insert(access->getLoops()[size_t(term.loop)]);
    }
    // A remainder of multiples does not follow from a loop.
    if (read.size() != size_t(op.getType().getRank()))
      return rewriter.notifyMatchFailure(op, "a loop is left");
    rewriter.replaceOpWithNewOp<ViewOp>(op, op.getType(), inner.getInput(),
                                        rewriter.getArrayAttr(accesses));
    return success();
  }
};

} // namespace

void meshc::addComposedViews(RewritePatternSet &patterns) {
  patterns.add<ViewOfView>(patterns.getContext());
}
