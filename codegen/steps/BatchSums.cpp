#include "codegen/ExecTypes.h"
#include "codegen/exec/Exec.h"
#include "codegen/kernels/StructuredOps.h"
#include "codegen/steps/MatmulForm.h"
#include "codegen/steps/MatmulOrder.h"
#include "codegen/steps/Passes.h"
#include "dialect/Locations.h"
#include "dialect/SPMD.h"
#include "layout/Machine.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace meshc;

namespace meshc::codegen {
#define GEN_PASS_DEF_BATCHSUMS
#include "codegen/steps/Passes.h.inc"
} // namespace meshc::codegen

using namespace meshc::codegen;

/// How often the library is called for a contraction of this form.
static int64_t countCalls(const MatmulForm &form) {
  int64_t calls = 1;
  for (const MatmulForm::Loop &loop : form.outerK)
    calls *= loop.size;
  return calls;
}

/// The form of `op` with its terms along `loops` in front of its result.
static MatmulForm getBatchForm(linalg::GenericOp op, ArrayRef<unsigned> loops) {
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  StridedTensor result = getStridedTensor(op.getResult(0));
  SmallVector<AffineExpr> exprs(maps[2].getResults());
  for (unsigned loop : loops) {
    const int64_t elements = llvm::product_of(result.shape);
    result.shape.insert(result.shape.begin(), op.getStaticLoopRanges()[loop]);
    result.strides.insert(result.strides.begin(), elements);
    exprs.insert(exprs.begin(), getAffineDimExpr(loop, op.getContext()));
  }
  maps[2] = AffineMap::get(maps[2].getNumDims(), 0, exprs, op.getContext());
  return getMatmulForm(maps, {getStridedTensor(op->getOperand(0)),
                              getStridedTensor(op->getOperand(1)), result});
}

/// Loops of a contraction of which all choices are tried; there are few.
static constexpr size_t maxLoops = 6;

/// The contracted loops of `op` along which its terms become a batch, so that
/// one call has all of them, with the fewest terms; empty if one has them
/// already, or none can.
static SmallVector<unsigned> findBatchLoops(linalg::GenericOp op) {
  const SmallVector<unsigned> contracted = getReducedLoops(op);
  if (contracted.size() > maxLoops || countCalls(getBatchForm(op, {})) == 1)
    return {};
  SmallVector<unsigned> best;
  int64_t fewest = std::numeric_limits<int64_t>::max();
  const unsigned all = (1u << contracted.size()) - 1;
  for (unsigned choice = 1; choice < all; ++choice) {
    SmallVector<unsigned> loops;
    int64_t terms = 1;
    for (auto [position, loop] : llvm::enumerate(contracted))
      if (choice >> position & 1) {
        loops.push_back(loop);
        terms *= op.getStaticLoopRanges()[loop];
      }
    if (terms < fewest && countCalls(getBatchForm(op, loops)) == 1) {
      fewest = terms;
      best = loops;
    }
  }
  return best;
}

namespace {
/// What takes the place of several calls, and how long it takes beside the
/// product itself. Calls take longer, having less than a GPU can compute at
/// once: the 32 of a gradient by a convolution's weight in bench/residual.mesh
/// 43 us each on an H200.
struct OneCall {
  double us = std::numeric_limits<double>::infinity();
  SmallVector<unsigned> batch;    ///< loops whose terms become one
  std::optional<unsigned> copied; ///< the operand that is stored otherwise
};
} // namespace

/// A kernel for `op` that reads and writes `bytes`.
static double getKernelUs(Operation *op, double bytes) {
  return nd::getMachine(op).getKernelPrice(0, 2 * bytes).us;
}

/// A copy of an operand in which what is summed over is one loop: the smaller
/// one for which that does.
static OneCall findCopy(linalg::GenericOp op) {
  OneCall best;
  for (unsigned number : {0u, 1u}) {
    const MatmulForm form = getMatrixOrderForm(op, number);
    const double us = getKernelUs(op, double(getBytes(cast<RankedTensorType>(
                                          op->getOperand(number).getType()))));
    if (countCalls(form) == 1 && us < best.us)
      best = {us, {}, number};
  }
  return best;
}

/// A batch of products that are written and added up.
static OneCall findBatch(linalg::GenericOp op, int64_t maxBytes) {
  const SmallVector<unsigned> loops = findBatchLoops(op);
  if (loops.empty())
    return {};
  auto bytes =
      double(getBytes(cast<RankedTensorType>(op.getResult(0).getType())));
  for (unsigned loop : loops)
    bytes *= double(op.getStaticLoopRanges()[loop]);
  if (bytes > double(maxBytes))
    return {};
  return {getKernelUs(op, bytes), loops, std::nullopt};
}

/// Lets the library compute the terms of `op` along `loops`, and adds them up.
static void batchSum(linalg::GenericOp op, ArrayRef<unsigned> loops) {
  OpBuilder builder(op);
  MLIRContext *context = op.getContext();
  const Location loc = op.getLoc();
  auto type = cast<RankedTensorType>(op.getResult(0).getType());
  const SmallVector<int64_t> sizes = op.getStaticLoopRanges();
  // The terms, in front of the dimensions of the result.
  SmallVector<int64_t> shape;
  SmallVector<AffineExpr> exprs;
  for (unsigned loop : llvm::reverse(loops)) {
    shape.push_back(sizes[loop]);
    exprs.push_back(getAffineDimExpr(loop, context));
  }
  llvm::append_range(shape, type.getShape());
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  llvm::append_range(exprs, maps[2].getResults());
  maps[2] = AffineMap::get(maps[2].getNumDims(), 0, exprs, context);
  SmallVector<utils::IteratorType> iterators = op.getIteratorTypesArray();
  for (unsigned loop : loops)
    iterators[loop] = utils::IteratorType::parallel;
  auto zero = arith::ConstantOp::create(
      builder, loc, builder.getZeroAttr(type.getElementType()));
  Value empty =
      tensor::EmptyOp::create(builder, loc, shape, type.getElementType());
  Value init = linalg::FillOp::create(builder, loc, zero.getResult(), empty)
                   .getResult(0);
  auto terms = linalg::GenericOp::create(
      builder, asPart(loc, nd::OriginPart::Sums), init.getType(),
      op.getDpsInputs(), init, maps, iterators);
  IRMapping mapping;
  op.getRegion().cloneInto(&terms.getRegion(), mapping);

  const unsigned added = unsigned(loops.size());
  const unsigned rank = unsigned(shape.size());
  SmallVector<AffineMap> sumMaps = {
      AffineMap::getMultiDimIdentityMap(rank, context),
      AffineMap::getMultiDimIdentityMap(rank, context)
          .getMinorSubMap(rank - added)};
  SmallVector<utils::IteratorType> sumIterators(rank,
                                                utils::IteratorType::parallel);
  std::fill_n(sumIterators.begin(), added, utils::IteratorType::reduction);
  auto sum = linalg::GenericOp::create(
      builder, loc, type, terms.getResult(0), op.getDpsInits().front(), sumMaps,
      sumIterators, [](OpBuilder &inside, Location at, ValueRange arguments) {
        Value added =
            arith::AddFOp::create(inside, at, arguments[1], arguments[0]);
        linalg::YieldOp::create(inside, at, added);
      });
  op.replaceAllUsesWith(sum);
  op.erase();
}

namespace {
struct BatchSums : codegen::impl::BatchSumsBase<BatchSums> {
  using BatchSumsBase::BatchSumsBase;
  void runOnOperation() override {
    OrderedCopies copies;
    for (linalg::GenericOp op : findLibraryContractions(getOperation())) {
      const double callUs =
          double(countCalls(getMatmulForm(op)) - 1) * getKernelUs(op, 0);
      const OneCall copy = findCopy(op), batch = findBatch(op, maxBytes);
      if (copy.us < callUs && copy.us <= batch.us)
        storeInMatrixOrder(op, *copy.copied, copies);
      else if (batch.us < callUs)
        batchSum(op, batch.batch);
    }
  }
};
} // namespace
