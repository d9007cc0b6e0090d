#include "codegen/kernels/StructuredOps.h"

#include "dialect/SPMD.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace meshc;

bool codegen::isComputation(Operation *op) {
  return isa<linalg::GenericOp, linalg::FillOp>(op) ||
         (isa<arith::ConstantOp>(op) &&
          isa<RankedTensorType>(op->getResult(0).getType()));
}

OpFoldResult codegen::getSplat(Value tensor) {
  Operation *op = tensor.getDefiningOp();
  if (auto fill = dyn_cast_if_present<linalg::FillOp>(op))
    return fill.value();
  if (auto constant = dyn_cast_if_present<arith::ConstantOp>(op))
    if (auto splat = dyn_cast<SplatElementsAttr>(constant.getValue()))
      return splat.getSplatValue<Attribute>();
  return {};
}

// Of a generic operation these ask for attributes and operands as they are
// stored: LinalgOp's own questions make an attribute of operand segments, or a
// list, for each answer.

/// The map of each operand, in order.
static auto getMaps(linalg::GenericOp op) {
  return op.getIndexingMaps().getAsValueRange<AffineMapAttr>();
}

static AffineMap getMap(linalg::GenericOp op, unsigned operand) {
  return cast<AffineMapAttr>(op.getIndexingMaps()[operand]).getValue();
}

/// The accumulator in the body.
static BlockArgument getAccumulator(linalg::GenericOp op) {
  return op.getBody()->getArgument(unsigned(op.getInputs().size()));
}

static bool isReduction(Attribute kind) {
  return cast<linalg::IteratorTypeAttr>(kind).getValue() ==
         utils::IteratorType::reduction;
}

static bool hasReduction(linalg::GenericOp op) {
  return llvm::any_of(op.getIteratorTypes(), isReduction);
}

SmallVector<int64_t> codegen::getLoopSizes(Operation *op) {
  // LinalgOp::getStaticLoopRanges inverts the maps of all operands together,
  // which was a sixth of all fusion: each loop is a dimension of some operand.
  if (auto generic = dyn_cast<linalg::GenericOp>(op)) {
    SmallVector<int64_t> sizes(generic.getIteratorTypes().size(),
                               ShapedType::kDynamic);
    for (auto [map, type] :
         llvm::zip_equal(getMaps(generic), op->getOperandTypes())) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      if (!tensor)
        continue; // a number
      for (auto [expr, size] :
           llvm::zip_equal(map.getResults(), tensor.getShape()))
        if (auto dim = dyn_cast<AffineDimExpr>(expr))
          sizes[dim.getPosition()] = size;
    }
    return sizes;
  }
  return llvm::to_vector(
      cast<RankedTensorType>(op->getResult(0).getType()).getShape());
}

static SmallVector<unsigned> getLoops(AffineMap map) {
  return llvm::map_to_vector(llvm::seq(map.getNumResults()),
                             [&](unsigned i) { return map.getDimPosition(i); });
}

SmallVector<unsigned> codegen::getResultLoops(Operation *op) {
  if (auto generic = dyn_cast<linalg::GenericOp>(op))
    return getLoops(getMap(generic, unsigned(generic.getInputs().size())));
  auto rank = cast<RankedTensorType>(op->getResult(0).getType()).getRank();
  return llvm::to_vector(llvm::seq<unsigned>(0, rank));
}

SmallVector<codegen::ReadOperand> codegen::getReads(Operation *op) {
  SmallVector<ReadOperand> reads;
  auto generic = dyn_cast<linalg::GenericOp>(op);
  if (!generic)
    return reads;
  for (OpOperand &operand : generic->getOpOperands())
    if (isa<RankedTensorType>(operand.get().getType()) &&
        !generic.getBody()->getArgument(operand.getOperandNumber()).use_empty())
      reads.push_back({operand.get(),
                       getLoops(getMap(generic, operand.getOperandNumber()))});
  return reads;
}

SmallVector<Value> codegen::getGatheredTensors(Operation *op) {
  llvm::SmallSetVector<Value, 2> tensors;
  if (auto generic = dyn_cast<linalg::GenericOp>(op))
    for (auto extract : generic.getBody()->getOps<tensor::ExtractOp>())
      tensors.insert(extract.getTensor());
  return tensors.takeVector();
}

std::optional<codegen::IndexForm> codegen::getIndexForm(Value index) {
  llvm::APInt number;
  if (matchPattern(index, m_ConstantInt(&number)))
    return IndexForm{
        getAffineConstantExpr(number.getSExtValue(), index.getContext())};
  Operation *op = index.getDefiningOp();
  if (auto position = dyn_cast_if_present<linalg::IndexOp>(op))
    return IndexForm{
        getAffineDimExpr(unsigned(position.getDim()), index.getContext())};
  if (isa_and_present<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op)) {
    const auto lhs = getIndexForm(op->getOperand(0));
    const auto rhs = getIndexForm(op->getOperand(1));
    // Where one is a constant instead, the other is what it always is.
    if (!lhs || !rhs ||
        (lhs->isChosen && !isa<AffineConstantExpr>(rhs->expr)) ||
        (rhs->isChosen && !isa<AffineConstantExpr>(lhs->expr)))
      return std::nullopt;
    const bool isChosen = lhs->isChosen || rhs->isChosen;
    if (isa<arith::AddIOp>(op))
      return IndexForm{lhs->expr + rhs->expr, isChosen};
    if (isa<arith::SubIOp>(op))
      return IndexForm{lhs->expr - rhs->expr, isChosen};
    if (!lhs->expr.isSymbolicOrConstant() && !rhs->expr.isSymbolicOrConstant())
      return std::nullopt;
    return IndexForm{lhs->expr * rhs->expr, isChosen};
  }
  if (auto choice = dyn_cast_if_present<arith::SelectOp>(op)) {
    const auto lhs = getIndexForm(choice.getTrueValue());
    const auto rhs = getIndexForm(choice.getFalseValue());
    if (!lhs || !rhs)
      return std::nullopt;
    const bool isChosen = lhs->isChosen || rhs->isChosen;
    if (lhs->expr == rhs->expr)
      return IndexForm{lhs->expr, isChosen};
    if (isa<AffineConstantExpr>(rhs->expr))
      return IndexForm{lhs->expr, true};
    if (isa<AffineConstantExpr>(lhs->expr))
      return IndexForm{rhs->expr, true};
  }
  return std::nullopt;
}

bool codegen::usesIndex(Operation *op, unsigned loop) {
  auto generic = dyn_cast<linalg::GenericOp>(op);
  return generic && llvm::any_of(generic.getBody()->getOps<linalg::IndexOp>(),
                                 [&](linalg::IndexOp index) {
                                   return index.getDim() == loop;
                                 });
}

SmallVector<unsigned> codegen::getReducedLoops(Operation *op) {
  SmallVector<unsigned> reduced;
  auto generic = dyn_cast<linalg::GenericOp>(op);
  if (!generic || !hasReduction(generic))
    return reduced;
  SmallVector<int64_t> sizes = getLoopSizes(op);
  for (auto [loop, kind] : llvm::enumerate(generic.getIteratorTypes()))
    if (isReduction(kind) && sizes[loop] != 1)
      reduced.push_back(loop);
  return reduced;
}

Operation *codegen::getCombiner(linalg::GenericOp op) {
  Value accumulator = getAccumulator(op);
  Operation *combiner =
      op.getBody()->getTerminator()->getOperand(0).getDefiningOp();
  if (!combiner || combiner->getBlock() != op.getBody() ||
      combiner->getNumOperands() != 2 || !accumulator.hasOneUse() ||
      *accumulator.user_begin() != combiner ||
      !linalg::getCombinerOpKind(combiner))
    return nullptr;
  return combiner;
}

Value codegen::getTerm(linalg::GenericOp op, Operation *combiner) {
  Value accumulator = getAccumulator(op);
  return combiner->getOperand(combiner->getOperand(0) == accumulator);
}

arith::MulFOp codegen::getSummedProduct(linalg::GenericOp op) {
  Operation *combiner = getCombiner(op);
  if (!isa_and_present<arith::AddFOp>(combiner))
    return {};
  auto product = getTerm(op, combiner).getDefiningOp<arith::MulFOp>();
  bool isWide = product && product->getBlock() == op.getBody() &&
                product.getType().getIntOrFloatBitWidth() >= 32;
  return isWide ? product : arith::MulFOp();
}

bool codegen::addsFloats(Operation *op) {
  auto generic = dyn_cast<linalg::GenericOp>(op);
  return generic && !getReducedLoops(op).empty() &&
         isa_and_present<arith::AddFOp>(getCombiner(generic));
}

Value meshc::codegen::createCombination(OpBuilder &builder, Location loc,
                                        linalg::GenericOp op, Value lhs,
                                        Value rhs) {
  Operation *combiner = getCombiner(op);
  IRMapping mapping;
  mapping.map(combiner->getOperand(0), lhs);
  mapping.map(combiner->getOperand(1), rhs);
  Operation *copy = builder.clone(*combiner, mapping);
  copy->setLoc(loc);
  copy->getResult(0).setType(lhs.getType());
  return copy->getResult(0);
}

bool codegen::isContraction(Operation *op) {
  auto generic = dyn_cast<linalg::GenericOp>(op);
  if (!generic || generic.getInputs().size() != 2 ||
      generic.getOutputs().size() != 1 || !hasReduction(generic))
    return false;
  auto widenings = generic.getBody()->getOps<arith::ExtFOp>();
  if (generic.getBody()->getOperations().size() !=
      3 + size_t(llvm::range_size(widenings)))
    return false;
  Operation *combiner = getCombiner(generic);
  if (!isa_and_present<arith::AddFOp>(combiner))
    return false;
  auto product = getTerm(generic, combiner).getDefiningOp<arith::MulFOp>();
  auto inputs = generic.getBody()->getArguments().take_front(2);
  auto getFactor = [](Value value) {
    auto widening = value.getDefiningOp<arith::ExtFOp>();
    return widening ? widening.getIn() : value;
  };
  if (!product || inputs[0].getType() != inputs[1].getType())
    return false;
  Value lhs = getFactor(product.getLhs()), rhs = getFactor(product.getRhs());
  return llvm::is_contained(inputs, lhs) && llvm::is_contained(inputs, rhs) &&
         lhs != rhs;
}

bool codegen::isLibraryMatmul(Operation *op) {
  if (!isContraction(op))
    return false;
  auto generic = cast<linalg::GenericOp>(op);
  if (!cast<RankedTensorType>(generic->getResult(0).getType())
           .getElementType()
           .isF32())
    return false;
  const AffineMap lhs = getMap(generic, 0), rhs = getMap(generic, 1);
  const AffineMap result = getMap(generic, 2);
  int64_t rows = 1, columns = 1;
  for (auto [loop, size] : llvm::enumerate(getLoopSizes(op))) {
    bool inLhs = lhs.isFunctionOfDim(loop);
    bool inRhs = rhs.isFunctionOfDim(loop);
    bool inResult = result.isFunctionOfDim(loop);
    if (!inResult && inLhs != inRhs && size > 1)
      return false; // a sum over one operand alone
    if (inResult && inLhs != inRhs)
      (inLhs ? rows : columns) *= size;
  }
  return rows > 1 && columns > 1;
}

/// Work of one scalar operation; what is fused counts as what it consists of.
static unsigned getScalarWork(Operation &op) {
  if (isa<math::FmaOp>(op))
    return 2;
  if (codegen::isSignOfFma(&op))
    return 0;
  if (isa<math::MathDialect, meshc::spmd::SPMDDialect>(op.getDialect()) &&
      !isa<math::AbsFOp, math::AbsIOp, math::CopySignOp>(op))
    return codegen::costlyWork;
  if (isa<arith::DivFOp, arith::DivSIOp, arith::RemSIOp, arith::DivUIOp,
          arith::RemUIOp, tensor::ExtractOp>(op))
    return codegen::costlyWork;
  if (isa<arith::ConstantOp, linalg::YieldOp, linalg::IndexOp,
          arith::IndexCastOp>(op))
    return 0;
  return 1;
}

bool codegen::isSignOfFma(Operation *op) {
  return isa<arith::NegFOp>(op) && op->hasOneUse() &&
         isa<math::FmaOp>(*op->user_begin());
}

unsigned codegen::getWork(Operation *op) {
  unsigned work = 0;
  if (auto generic = dyn_cast<linalg::GenericOp>(op))
    for (Operation &inner : *generic.getBody())
      work += getScalarWork(inner);
  return work;
}

/// Whether `op` reads floats from memory as wider ones and does nothing else.
static bool isWidening(linalg::GenericOp op) {
  return !hasReduction(op) && op.getBody()->getOperations().size() == 2 &&
         isa<arith::ExtFOp>(op.getBody()->front());
}

/// Whether all of `reads` have fewer than `rank` dimensions but one, which is
/// narrower in memory: x - mean, for 16-bit x.
static bool readsOneWidened(ArrayRef<codegen::ReadOperand> reads, size_t rank) {
  const codegen::ReadOperand *whole = nullptr;
  for (const codegen::ReadOperand &read : reads) {
    if (read.loops.size() < rank)
      continue;
    if (whole)
      return false;
    whole = &read;
  }
  auto widening =
      whole ? whole->tensor.getDefiningOp<linalg::GenericOp>() : nullptr;
  return widening && isWidening(widening);
}

bool codegen::isRecomputed(Operation *op) {
  if (!isComputation(op))
    return false;
  auto generic = dyn_cast<linalg::GenericOp>(op);
  if (!generic)
    return true;
  if (hasReduction(generic))
    return false;
  const int64_t work = getWork(op);
  if (work >= costlyWork)
    return false;
  SmallVector<ReadOperand> reads = getReads(op);
  if (reads.empty())
    return true;
  if (isWidening(generic))
    return true;
  size_t rank =
      size_t(cast<RankedTensorType>(op->getResult(0).getType()).getRank());
  if (readsOneWidened(reads, rank))
    return true;
  return work == 0 && reads.size() == 1 && reads.front().loops.size() < rank;
}

static LogicalResult checkBody(linalg::GenericOp op) {
  for (Operation &inner : op.getBody()->without_terminator()) {
    if (inner.getNumRegions() != 0 || inner.getNumResults() == 0)
      return inner.emitError("kernels do not compute '")
             << inner.getName() << "'";
    if (isa<linalg::IndexOp, arith::ConstantOp, tensor::ExtractOp>(inner))
      continue;
    if (!OpTrait::hasElementwiseMappableTraits(&inner))
      return inner.emitError("kernels do not compute '")
             << inner.getName() << "'";
  }
  for (Value tensor : codegen::getGatheredTensors(op))
    if (tensor.getParentRegion() == &op.getRegion())
      return op.emitError("a kernel gathers only from tensors in memory");
  return success();
}

LogicalResult codegen::checkComputation(Operation *op) {
  if (!isComputation(op))
    return op->emitError("no kernel, matmul or collective computes '")
           << op->getName() << "'";
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    if (!isa<SplatElementsAttr>(constant.getValue()))
      return op->emitError("kernels have no tensor constants with several "
                           "values");
    return success();
  }
  auto structured = cast<linalg::LinalgOp>(op);
  if (structured.hasDynamicShape() || !structured.hasPureTensorSemantics() ||
      structured->getNumResults() != 1)
    return op->emitError("kernels compute one tensor of static shape");
  for (AffineMap map : structured.getIndexingMapsArray())
    if (!map.isProjectedPermutation())
      return op->emitError("kernels index by projected permutations, found ")
             << AffineMapAttr::get(map);
  auto generic = dyn_cast<linalg::GenericOp>(op);
  if (!generic)
    return success();
  if (generic.getNumReductionLoops() != 0 && !getCombiner(generic))
    return op->emitError("a reduction must combine its accumulator with a "
                         "term in its last operation");
  return checkBody(generic);
}
