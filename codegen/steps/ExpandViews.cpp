// Views between kernels, by MLIR's patterns that fuse linalg operations with
// reshapes: each takes one reshape from between two operations and puts
// reshapes around the one that it expands.

#include "codegen/steps/ExpandViews.h"

#include "codegen/kernels/StructuredOps.h"
#include "dialect/Locations.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Affine/Utils.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <unordered_map>

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

/// Of each operation, and folds of what is around it: each splits some
/// dimension, of which a tensor has a few. A bound for mistakes, not a
/// measurement.
static constexpr int64_t mostRewrites = 64;

namespace {

/// The dimensions that two shapes of one tensor both split: which neighbours of
/// either shape each of them is.
struct MergedShape {
  SmallVector<int64_t> sizes;
  SmallVector<ReassociationIndices> source, target;
};

class ViewExpander : public RewriterBase::Listener {
public:
  ViewExpander(Block &block, const StepGraph &graph);

  FailureOr<bool> run();

private:
  bool isBetween(spmd::ViewOp view) const;
  bool isBetween(OpOperand &reshaped) const;
  void separateReaders();
  LogicalResult expand();
  void lowerPositions();
  void mergeEqual();
  // What patterns make of what kernels compute is theirs, too.
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
    if (isa<linalg::GenericOp>(op))
      computed.insert(op);
  }
  void notifyOperationErased(Operation *op) override { computed.erase(op); }

  Block &block;
  const StepGraph &graph;
  /// What kernels compute, or compute again.
  llvm::DenseSet<Operation *> computed;
};

} // namespace

/// Nothing if one of the shapes lies across the other.
static std::optional<MergedShape> findMergedShape(ArrayRef<int64_t> source,
                                                  ArrayRef<int64_t> target) {
  MergedShape merged;
  size_t i = 0, j = 0;
  while (i < source.size() && j < target.size()) {
    int64_t left = source[i], right = target[j];
    merged.source.push_back({int64_t(i++)});
    merged.target.push_back({int64_t(j++)});
    while (left != right)
      if (left < right && i < source.size()) {
        left *= source[i];
        merged.source.back().push_back(int64_t(i++));
      } else if (right < left && j < target.size()) {
        right *= target[j];
        merged.target.back().push_back(int64_t(j++));
      } else {
        return std::nullopt;
      }
    merged.sizes.push_back(left);
  }
  if (merged.sizes.empty())
    return std::nullopt;
  if (i < source.size() || j < target.size())
    return std::nullopt;
  for (auto [from, to] : llvm::zip_equal(merged.source, merged.target))
    if (from.size() > 1 && to.size() > 1)
      return std::nullopt;
  return merged;
}

/// Whether `merged` neighbours in `shape` are one dimension, or several that
/// each have several positions. Splitting off one position might go on for
/// ever: an operation of two that have it in different places would get more of
/// them.
static bool splitsPositions(ArrayRef<ReassociationIndices> merged,
                            ArrayRef<int64_t> shape) {
  return llvm::all_of(merged, [&](const ReassociationIndices &dims) {
    return dims.size() == 1 || llvm::none_of(dims, [&](int64_t dim) {
             return shape[size_t(dim)] == 1;
           });
  });
}

/// How `view` splits and merges the dimensions of all of its operand, if it
/// does nothing else.
static std::optional<MergedShape> findReshape(spmd::ViewOp view,
                                              const Slices &slices) {
  auto slice = slices.find(view);
  const ArrayRef<int64_t> source = view.getInput().getType().getShape();
  const ArrayRef<int64_t> target = view.getType().getShape();
  if (slice == slices.end() || !slice->second.isDense(target) ||
      llvm::product_of(source) != llvm::product_of(target))
    return std::nullopt;
  // As factors of an access (nd.view).
  if (llvm::any_of(source, [](int64_t size) {
        return size > std::numeric_limits<int32_t>::max();
      }))
    return std::nullopt;
  std::optional<MergedShape> merged = findMergedShape(source, target);
  if (!merged || !splitsPositions(merged->source, source) ||
      !splitsPositions(merged->target, target))
    return std::nullopt;
  return merged;
}

//===-- Reshapes as views -------------------------------------------------===//

static nd::NamedTensorType nameDims(RankedTensorType type,
                                    ArrayRef<std::string> names) {
  MLIRContext *context = type.getContext();
  SmallVector<nd::DimAttr> dims;
  for (auto [name, size] : llvm::zip_equal(names, type.getShape()))
    dims.push_back(nd::DimAttr::get(StringAttr::get(context, name), size));
  return nd::NamedTensorType::get(
      dims, type.getElementType(),
      nd::ShardingAttr::get(context, {}, std::nullopt, {}));
}

/// A view that reads the dimensions of `input` where `accesses` say, the others
/// as those of the same name.
static Value
createView(OpBuilder &builder, Location loc, Value input,
           ArrayRef<std::string> source, RankedTensorType type,
           ArrayRef<std::string> target,
           ArrayRef<std::pair<std::string, nd::DimAccess>> accesses) {
  auto attributes = llvm::map_to_vector(accesses, [&](const auto &access) {
    return Attribute(nd::AccessAttr::get(builder.getStringAttr(access.first),
                                         access.second));
  });
  return spmd::ViewOp::create(
      builder, loc, type, input, builder.getArrayAttr(attributes),
      nameDims(cast<RankedTensorType>(input.getType()), source),
      nameDims(type, target));
}

static std::string makeName(StringRef letter, size_t number) {
  return (letter + Twine(number)).str();
}

/// "a1" = 64 "b1" + "b2": the digits of a position.
static Value buildSplit(tensor::ExpandShapeOp op) {
  OpBuilder builder(op);
  const RankedTensorType type = op.getResultType();
  if (op.getSrc().getDefiningOp<tensor::EmptyOp>())
    return tensor::EmptyOp::create(builder, op.getLoc(), type, ValueRange());
  SmallVector<std::string> source, target(size_t(type.getRank()));
  SmallVector<std::pair<std::string, nd::DimAccess>> accesses;
  for (auto [dim, digits] : llvm::enumerate(op.getReassociationIndices())) {
    if (digits.size() == 1) {
      target[size_t(digits.front())] = makeName("d", dim);
      source.push_back(makeName("d", dim));
      continue;
    }
    source.push_back(makeName("a", dim));
    std::vector<layout::AccessTerm> terms;
    SmallVector<StringAttr> loops;
    int64_t factor = 1;
    for (int64_t digit : llvm::reverse(digits)) {
      target[size_t(digit)] = makeName("b", size_t(digit));
      terms.push_back({int32_t(loops.size()), factor});
      loops.push_back(builder.getStringAttr(target[size_t(digit)]));
      factor *= type.getDimSize(digit);
    }
    accesses.push_back(
        {source.back(),
         nd::DimAccess(layout::Access::linear(std::move(terms), 0), loops)});
  }
  return createView(builder, op.getLoc(), op.getSrc(), source, type, target,
                    accesses);
}

/// "a1" = floor("b" / 64), "a2" = "b" mod 64: two neighbours as one.
static Value buildMerge(OpBuilder &builder, Location loc, Value input,
                        size_t first) {
  auto type = cast<RankedTensorType>(input.getType());
  SmallVector<int64_t> shape(type.getShape());
  SmallVector<std::string> source, target;
  for (size_t dim = 0; dim < shape.size(); ++dim)
    source.push_back(makeName("d", dim));
  target = source;
  target[first] = "merged";
  target.erase(target.begin() + ptrdiff_t(first) + 1);
  const int64_t low = shape[first + 1];
  shape[first] *= low;
  shape.erase(shape.begin() + ptrdiff_t(first) + 1);
  const StringAttr loop = builder.getStringAttr("merged");
  const nd::DimAccess high(
      layout::Access::quotient(layout::Access::Kind::Floor, {{0, 1}}, 0, low),
      {loop});
  const nd::DimAccess rest(layout::Access::modulo({{0, 1}}, 0, low), {loop});
  return createView(builder, loc, input, source, type.clone(shape), target,
                    {{source[first], high}, {source[first + 1], rest}});
}

static Value buildMerges(tensor::CollapseShapeOp op) {
  OpBuilder builder(op);
  Value merged = op.getSrc();
  for (auto [dim, neighbours] : llvm::enumerate(op.getReassociationIndices()))
    for (size_t step = 1; step < neighbours.size(); ++step)
      merged = buildMerge(builder, op.getLoc(), merged, dim);
  return merged;
}

//===-- Kernels -----------------------------------------------------------===//

/// Whether the result of `op` has a place of its own, in a variable, an output
/// or among other values: a view of what is elsewhere would be copied there.
/// What an update computes on the way to it goes along the dimensions of its
/// variable.
static bool isStored(Operation *op) {
  return getPhase(op->getLoc()) == nd::Phase::Update ||
         llvm::any_of(op->getUsers(),
                      llvm::IsaPred<spmd::WriteOp, spmd::OutputOp,
                                    spmd::StackOp, steps::YieldOp>);
}

ViewExpander::ViewExpander(Block &block, const StepGraph &graph)
    : block(block), graph(graph) {
  // What a library call adds its product to is stored in the place of that.
  llvm::DenseSet<Value> added;
  for (const auto &[contraction, matmul] : graph.matmuls)
    added.insert_range(ValueRange{matmul.addend, matmul.bias});
  for (const FusionGraph::Node &node : graph.fusion.getNodes()) {
    if (!node.isKernel || added.contains(node.results.front()))
      continue;
    for (Operation *op : node.ops)
      if (isa<linalg::GenericOp>(op))
        computed.insert(op);
  }
  for (auto op : block.getOps<linalg::GenericOp>())
    if (isRecomputed(op))
      computed.insert(op);
}

/// Whether kernels compute what `view` reads and read what it gives.
bool ViewExpander::isBetween(spmd::ViewOp view) const {
  return computed.contains(view.getInput().getDefiningOp()) &&
         llvm::any_of(view->getUsers(),
                      [&](Operation *user) { return computed.contains(user); });
}

/// Whether `op` would leave its result along other dimensions if it read
/// `merged`, which it reads at `operand`, before the merge.
static bool splitsResult(linalg::GenericOp op, OpOperand &operand,
                         tensor::CollapseShapeOp merged) {
  const AffineMap read = op.getMatchingIndexingMap(&operand);
  const AffineMap result = op.getMatchingIndexingMap(op.getDpsInitOperand(0));
  for (auto [dim, neighbours] :
       llvm::enumerate(merged.getReassociationIndices()))
    if (neighbours.size() > 1 &&
        result.isFunctionOfDim(read.getDimPosition(unsigned(dim))))
      return true;
  return false;
}

/// The same of a reshape, by what reads the dimensions that are merged: the
/// operation of a kernel, or the reshape that splits them. Not where something
/// that is stored would no longer be what is.
bool ViewExpander::isBetween(OpOperand &reshaped) const {
  Operation *reader = reshaped.getOwner();
  if (isa<tensor::ExpandShapeOp>(reader)) {
    Operation *producer = reshaped.get().getDefiningOp();
    return computed.contains(producer) && !isStored(producer) &&
           llvm::any_of(reader->getUsers(), [&](Operation *user) {
             return computed.contains(user);
           });
  }
  auto merge = reshaped.get().getDefiningOp<tensor::CollapseShapeOp>();
  return merge && computed.contains(reader) &&
         computed.contains(merge.getSrc().getDefiningOp()) &&
         !(isStored(reader) &&
           splitsResult(cast<linalg::GenericOp>(reader), reshaped, merge));
}

/// Gives each reader of what is computed again an operation of its own, which
/// is expanded with it: a view of it would be a tensor in memory.
void ViewExpander::separateReaders() {
  // From the last on: a copy reads what is computed again as well.
  SmallVector<linalg::GenericOp> ops(block.getOps<linalg::GenericOp>());
  for (linalg::GenericOp op : llvm::reverse(ops)) {
    if (!isRecomputed(op))
      continue;
    for (OpOperand &use : llvm::make_early_inc_range(op->getUses())) {
      if (op->hasOneUse() || !computed.contains(use.getOwner()))
        continue;
      Operation *copy = OpBuilder(op).clone(*op);
      computed.insert(copy);
      use.set(copy->getResult(0));
    }
  }
}

LogicalResult ViewExpander::expand() {
  MLIRContext *context = block.getParentOp()->getContext();
  RewritePatternSet patterns(context);
  linalg::populateFoldReshapeOpsByExpansionPatterns(
      patterns, [&](OpOperand *reshaped) { return isBetween(*reshaped); });
  // Reshapes of one number, and of one another.
  linalg::FillOp::getCanonicalizationPatterns(patterns, context);
  tensor::ExpandShapeOp::getCanonicalizationPatterns(patterns, context);
  tensor::CollapseShapeOp::getCanonicalizationPatterns(patterns, context);
  SmallVector<Operation *> ops;
  for (Operation &op : block)
    if (isa<linalg::GenericOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp>(
            op))
      ops.push_back(&op);
  GreedyRewriteConfig config;
  config.setListener(this)
      .setStrictness(GreedyRewriteStrictness::ExistingAndNewOps)
      .setMaxIterations(GreedyRewriteConfig::kNoLimit)
      .setMaxNumRewrites(mostRewrites * int64_t(ops.size()));
  if (failed(applyOpPatternsGreedily(ops, std::move(patterns), config)))
    return block.getParentOp()->emitError(
               "expanding the kernels around views does not end after ")
           << mostRewrites << " rewrites for each of " << ops.size()
           << " operations; the mistake is meshc's, not the program's";
  lowerPositions();
  return success();
}

/// Writes positions along merged dimensions, of those along split ones, as
/// kernels compute them.
void ViewExpander::lowerPositions() {
  block.walk([](affine::AffineApplyOp op) {
    OpBuilder builder(op);
    const AffineMap map = op.getAffineMap();
    const Value position =
        affine::expandAffineExpr(builder, op.getLoc(), map.getResult(0),
                                 op.getDimOperands(), op.getSymbolOperands());
    op.getResult().replaceAllUsesWith(position);
    op.erase();
  });
}

/// Views of one tensor, and what is computed again, once each: kernels share
/// what they read if it is one value. Nothing else that is equal is merged: the
/// backward phase computes again what it would have to keep
/// (passes/RecomputeResiduals.cpp).
void ViewExpander::mergeEqual() {
  std::unordered_map<size_t, SmallVector<Operation *>> known;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (!isa<spmd::ViewOp, tensor::EmptyOp>(op) && !isRecomputed(&op))
      continue;
    const size_t hash = OperationEquivalence::computeHash(
        &op, OperationEquivalence::directHashValue,
        OperationEquivalence::ignoreHashValue,
        OperationEquivalence::IgnoreLocations);
    SmallVector<Operation *> &alike = known[hash];
    auto equal = llvm::find_if(alike, [&](Operation *other) {
      return OperationEquivalence::isEquivalentTo(
          other, &op, OperationEquivalence::IgnoreLocations);
    });
    if (equal == alike.end()) {
      alike.push_back(&op);
      continue;
    }
    op.replaceAllUsesWith(*equal);
    op.erase();
  }
}

FailureOr<bool> ViewExpander::run() {
  SmallVector<std::pair<spmd::ViewOp, MergedShape>> views;
  bool anyBetween = false;
  for (auto view : block.getOps<spmd::ViewOp>())
    if (auto merged = findReshape(view, graph.slices)) {
      anyBetween |= isBetween(view);
      views.push_back({view, std::move(*merged)});
    }
  if (!anyBetween)
    return false;
  for (auto &[view, merged] : views) {
    OpBuilder builder(view);
    Value value = view.getInput();
    const auto type =
        RankedTensorType::get(merged.sizes, view.getType().getElementType());
    if (value.getType() != type)
      value = tensor::CollapseShapeOp::create(builder, view.getLoc(), type,
                                              value, merged.source);
    if (value.getType() != view.getType())
      value = tensor::ExpandShapeOp::create(
          builder, view.getLoc(), view.getType(), value, merged.target);
    view.getResult().replaceAllUsesWith(value);
    view->erase();
  }
  separateReaders();
  if (failed(expand()))
    return failure();
  for (Operation &op : llvm::make_early_inc_range(block)) {
    Value view;
    if (auto split = dyn_cast<tensor::ExpandShapeOp>(op))
      view = buildSplit(split);
    else if (auto merge = dyn_cast<tensor::CollapseShapeOp>(op))
      view = buildMerges(merge);
    else
      continue;
    op.getResult(0).replaceAllUsesWith(view);
    op.erase();
  }
  mergeEqual();
  return true;
}

FailureOr<bool> meshc::codegen::expandViews(Block &block,
                                            const StepGraph &graph) {
  return ViewExpander(block, graph).run();
}
