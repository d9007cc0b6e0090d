#include "codegen/steps/MatmulOrder.h"

#include "codegen/kernels/StructuredOps.h"
#include "codegen/steps/MatmulForm.h"
#include "codegen/steps/StridedLoops.h"
#include "dialect/Locations.h"
#include "dialect/SPMD.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

namespace {

constexpr unsigned resultNumber = 2;

/// One contraction whose tensors are copied.
class Reordering {
public:
  Reordering(linalg::GenericOp contraction, MatmulLibrary library,
             OrderedCopies &copies)
      : contraction(contraction), library(library), builder(contraction),
        copies(copies), maps(contraction.getIndexingMapsArray()) {}

  linalg::GenericOp run();
  /// Of one operand, in the order of a row-major matrix.
  MatmulForm getMatrixForm(unsigned number) {
    return getOrderedForm(number, getMatrixOrder(number));
  }
  linalg::GenericOp copyToMatrix(unsigned number) {
    if (!takeCopy(number,
                  [](const MatmulForm &form) { return form.outerK.empty(); }))
      copyOperand(number, getMatrixOrder(number));
    return contraction;
  }

private:
  RankedTensorType getType(unsigned number) {
    return cast<RankedTensorType>(contraction->getOperand(number).getType());
  }
  StridedTensor getStored(unsigned number) {
    return getStridedTensor(contraction->getOperand(number));
  }
  bool isIn(unsigned number, unsigned loop) const {
    return maps[number].isFunctionOfDim(loop);
  }

  MatmulForm getFormWith(unsigned number, AffineMap map,
                         const StridedTensor &tensor);
  MatmulForm getOrderedForm(unsigned number, ArrayRef<unsigned> order);
  SmallVector<unsigned> getMatrixOrder(unsigned number);
  SmallVector<unsigned> chooseOrder(unsigned number);
  Value copy(Value tensor, AffineMap map, Location loc);
  Value copy(Value tensor, AffineMap map) {
    return copy(tensor, map, getCopyLoc(tensor));
  }
  Location getCopyLoc(Value tensor);
  Value fillLike(Value init, ArrayRef<int64_t> shape);
  bool takeCopy(unsigned number,
                llvm::function_ref<bool(const MatmulForm &)> wanted);
  void copyOperand(unsigned number, ArrayRef<unsigned> order);
  void copyResult();
  void replace(ValueRange operands, AffineMap map, unsigned number);

  linalg::GenericOp contraction;
  MatmulLibrary library;
  OpBuilder builder;
  OrderedCopies &copies;
  SmallVector<AffineMap> maps;
};

} // namespace

/// The loops of tensor `number` in the order of a row-major matrix behind its
/// batch dimensions: what it shares with both others, then rows, then columns;
/// within a class as another tensor has them, so that they are merged.
SmallVector<unsigned> Reordering::getMatrixOrder(unsigned number) {
  // The tensors that share rows, and columns, with a, b and c.
  constexpr unsigned withRows[] = {2, 0, 0}, withColumns[] = {1, 2, 1};
  std::array<SmallVector<int64_t>, 3> strides;
  for (unsigned tensor = 0; tensor < 3; ++tensor)
    strides[tensor] = getStrides(maps[tensor], getStored(tensor).strides);
  auto getKey = [&](unsigned loop) {
    const bool isRow = isIn(withRows[number], loop);
    const bool isColumn = isIn(withColumns[number], loop);
    if (isRow && isColumn) // a batch dimension
      return std::tuple(
          0, -strides[number == resultNumber ? 0 : resultNumber][loop], loop);
    if (isRow)
      return std::tuple(1, -strides[withRows[number]][loop], loop);
    return std::tuple(2, -strides[withColumns[number]][loop], loop);
  };
  SmallVector<unsigned> order;
  for (AffineExpr loop : maps[number].getResults())
    order.push_back(cast<AffineDimExpr>(loop).getPosition());
  llvm::sort(order,
             [&](unsigned x, unsigned y) { return getKey(x) < getKey(y); });
  return order;
}

/// The form of the contraction with `tensor`, indexed by `map`, in the place of
/// `number`.
MatmulForm Reordering::getFormWith(unsigned number, AffineMap map,
                                   const StridedTensor &tensor) {
  SmallVector<AffineMap> other = maps;
  other[number] = map;
  std::array<StridedTensor, 3> tensors = {getStored(0), getStored(1),
                                          getStored(2)};
  tensors[number] = tensor;
  return getMatmulForm(other, tensors);
}

/// The same with a copy whose dimensions are the loops of `order`.
MatmulForm Reordering::getOrderedForm(unsigned number,
                                      ArrayRef<unsigned> order) {
  const SmallVector<int64_t> sizes = contraction.getStaticLoopRanges();
  const auto shape =
      llvm::map_to_vector(order, [&](unsigned loop) { return sizes[loop]; });
  return getFormWith(
      number,
      AffineMap::getMultiDimMapWithTargets(maps[number].getNumDims(), order,
                                           builder.getContext()),
      {shape, computeStrides(shape)});
}

/// The order of a copy of tensor `number`: the tensor's own, which is copied in
/// a row, if the library takes that in no more calls.
SmallVector<unsigned> Reordering::chooseOrder(unsigned number) {
  auto count = [](const MatmulForm &form) {
    return std::pair(form.outerK.size(), form.batch.size());
  };
  SmallVector<unsigned> own;
  for (unsigned dim = 0; dim < maps[number].getNumResults(); ++dim)
    own.push_back(maps[number].getDimPosition(dim));
  SmallVector<unsigned> matrix = getMatrixOrder(number);
  const MatmulForm form = getOrderedForm(number, own);
  const bool isWorse = form.findRefused(library)[number] ||
                       count(form) > count(getOrderedForm(number, matrix));
  return isWorse ? matrix : own;
}

/// A copy for the library: `tensor`, whose dimension i is that of number
/// `map`(i) of the copy. Every copy that is made because no library takes
/// something as it lies is made here.
Value Reordering::copy(Value tensor, AffineMap map, Location loc) {
  const auto remark = nd::RemarkKindAttr::get(builder.getContext(),
                                              nd::RemarkKind::LibraryCopy);
  // A kernel reads no strided slice: it computes the view itself.
  if (isStridedSlice(tensor)) {
    tensor = tensor.getDefiningOp<spmd::ViewOp>().buildGeneric(builder);
    tensor.setLoc(asPart(tensor.getLoc(), nd::OriginPart::Copy));
    tensor.getDefiningOp()->setAttr(nd::NDDialect::getRemarkAttrName(), remark);
    if (map.isIdentity())
      return tensor;
  }
  auto type = cast<RankedTensorType>(tensor.getType());
  const unsigned rank = map.getNumDims();
  SmallVector<int64_t> shape(rank);
  for (auto [dim, size] : llvm::enumerate(type.getShape()))
    shape[map.getDimPosition(unsigned(dim))] = size;
  Value empty = tensor::EmptyOp::create(builder, contraction.getLoc(), shape,
                                        type.getElementType());
  SmallVector<utils::IteratorType> parallel(rank,
                                            utils::IteratorType::parallel);
  auto op = linalg::GenericOp::create(
      builder, loc, empty.getType(), tensor, empty,
      {map, builder.getMultiDimIdentityMap(rank)}, parallel,
      [](OpBuilder &body, Location loc, ValueRange scalars) {
        linalg::YieldOp::create(body, loc, scalars.front());
      });
  op->setAttr(nd::NDDialect::getRemarkAttrName(), remark);
  return op.getResult(0);
}

/// Where a copy of `tensor` stands, and what it is called after.
Location Reordering::getCopyLoc(Value tensor) {
  const nd::OriginAttr origin = getOrigin(tensor.getLoc());
  return origin && origin.hasName()
             ? asPart(contraction.getLoc(), origin, nd::OriginPart::Copy)
             : asInside(contraction.getLoc());
}

Value Reordering::fillLike(Value init, ArrayRef<int64_t> shape) {
  const Location loc = contraction.getLoc();
  auto type = cast<RankedTensorType>(init.getType());
  const OpFoldResult splat = getSplat(init);
  Value scalar = dyn_cast<Value>(splat);
  if (!scalar)
    scalar = arith::ConstantOp::create(builder, loc,
                                       cast<TypedAttr>(cast<Attribute>(splat)));
  Value empty =
      tensor::EmptyOp::create(builder, loc, shape, type.getElementType());
  return linalg::FillOp::create(builder, loc, scalar, empty).getResult(0);
}

/// Puts a contraction of `operands`, of which `number` is indexed by `map`, in
/// the place of the one there was. Users follow, unless the result is copied.
void Reordering::replace(ValueRange operands, AffineMap map, unsigned number) {
  maps[number] = map;
  auto replaced = cast<linalg::GenericOp>(
      clone(builder, contraction, operands.back().getType(), operands));
  replaced.setIndexingMapsAttr(builder.getAffineMapArrayAttr(maps));
  if (number != resultNumber)
    contraction->replaceAllUsesWith(replaced);
  contraction->erase();
  contraction = replaced;
  builder.setInsertionPoint(contraction);
}

/// The map from a dimension of a tensor with loops `map` to that of the same
/// loop in `order`.
static AffineMap getPermutation(AffineMap map, ArrayRef<unsigned> order) {
  SmallVector<unsigned> positions;
  for (AffineExpr loop : map.getResults())
    positions.push_back(
        unsigned(llvm::find(order, cast<AffineDimExpr>(loop).getPosition()) -
                 order.begin()));
  return AffineMap::getMultiDimMapWithTargets(unsigned(order.size()), positions,
                                              map.getContext());
}

/// Replaces operand `number` by a copy that there is, if that has a form that
/// is `wanted`.
bool Reordering::takeCopy(unsigned number,
                          llvm::function_ref<bool(const MatmulForm &)> wanted) {
  const Value operand = contraction->getOperand(number);
  for (const auto &[permutation, copied] : copies.lookup(operand)) {
    const AffineMap map = inversePermutation(permutation).compose(maps[number]);
    if (!wanted(getFormWith(number, map, getStridedTensor(copied))))
      continue;
    SmallVector<Value> operands(contraction->getOperands());
    operands[number] = copied;
    replace(operands, map, number);
    return true;
  }
  return false;
}

void Reordering::copyOperand(unsigned number, ArrayRef<unsigned> order) {
  SmallVector<Value> operands(contraction->getOperands());
  const AffineMap permutation = getPermutation(maps[number], order);
  const Value copied = copy(operands[number], permutation);
  copies[operands[number]].push_back({permutation, copied});
  operands[number] = copied;
  replace(operands,
          AffineMap::getMultiDimMapWithTargets(maps[number].getNumDims(), order,
                                               builder.getContext()),
          number);
}

void Reordering::copyResult() {
  const SmallVector<unsigned> order = getMatrixOrder(resultNumber);
  const AffineMap wanted = maps[resultNumber];
  const AffineMap inverse = inversePermutation(getPermutation(wanted, order));
  SmallVector<int64_t> shape;
  for (AffineExpr dim : inverse.getResults())
    shape.push_back(getType(resultNumber)
                        .getDimSize(cast<AffineDimExpr>(dim).getPosition()));
  SmallVector<Value> operands(contraction->getOperands());
  operands.back() = getSplat(operands.back())
                        ? fillLike(operands.back(), shape)
                        : copy(operands.back(), getPermutation(wanted, order));
  linalg::GenericOp old = contraction;
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : old->getUses())
    uses.push_back(&use);
  old->getResult(0).dropAllUses();
  replace(operands,
          AffineMap::getMultiDimMapWithTargets(wanted.getNumDims(), order,
                                               builder.getContext()),
          resultNumber);
  // What is restored is the value; the library's is a copy of it.
  const Location loc = contraction.getLoc();
  contraction->setLoc(asPart(loc, nd::OriginPart::Copy));
  builder.setInsertionPointAfter(contraction);
  Value restored = copy(contraction->getResult(0), inverse, loc);
  for (OpOperand *use : uses)
    use->set(restored);
  builder.setInsertionPoint(contraction);
}

linalg::GenericOp Reordering::run() {
  // What is copied may change which loops are the library's, so that it refuses
  // another tensor; once each was copied it takes all.
  for (unsigned round = 0; round < 3; ++round) {
    const std::array<bool, 3> refused =
        getMatmulForm(contraction).findRefused(library);
    if (llvm::none_of(refused, [](bool is) { return is; }))
      break;
    for (unsigned number = 0; number < resultNumber; ++number)
      if (refused[number] && !takeCopy(number, [&](const MatmulForm &form) {
            return !form.findRefused(library)[number];
          }))
        copyOperand(number, chooseOrder(number));
    if (refused[resultNumber])
      copyResult();
  }
  return contraction;
}

linalg::GenericOp
meshc::codegen::storeInLibraryOrder(linalg::GenericOp contraction,
                                    MatmulLibrary library,
                                    OrderedCopies &copies) {
  return Reordering(contraction, library, copies).run();
}

MatmulForm meshc::codegen::getMatrixOrderForm(linalg::GenericOp contraction,
                                              unsigned number) {
  OrderedCopies none;
  return Reordering(contraction, MatmulLibrary::CublasLt, none)
      .getMatrixForm(number);
}

linalg::GenericOp
meshc::codegen::storeInMatrixOrder(linalg::GenericOp contraction,
                                   unsigned number, OrderedCopies &copies) {
  return Reordering(contraction, MatmulLibrary::CublasLt, copies)
      .copyToMatrix(number);
}
