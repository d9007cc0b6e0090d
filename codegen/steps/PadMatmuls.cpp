#include "codegen/ExecTypes.h"
#include "codegen/exec/Exec.h"
#include "codegen/kernels/StructuredOps.h"
#include "codegen/steps/MatmulForm.h"
#include "codegen/steps/Passes.h"
#include "dialect/Locations.h"
#include "dialect/SPMD.h"
#include "layout/Machine.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/Support/MathExtras.h"

#include <map>

using namespace mlir;
using namespace meshc;

namespace meshc::codegen {
#define GEN_PASS_DEF_PADMATMULS
#include "codegen/steps/Passes.h.inc"
} // namespace meshc::codegen

using namespace meshc::codegen;

/// How many times as long a matmul of 16-bit factors takes with a size that is
/// no multiple of 8. Source: bench/gpu.sh on an H200, GPT-2 with 50257 words:
/// 96, 135 and 143 Tflop/s, with 50264 words 687, 798 and 816. A row stride of
/// 50264 alone leaves two of the three as slow.
static constexpr double slowdown = 6;

static RankedTensorType getType(Value tensor) {
  return cast<RankedTensorType>(tensor.getType());
}

/// The generic that does nothing but convert an operand of the same shape
/// between float types; null if `value` is another one's.
static linalg::GenericOp findConversion(Value value) {
  auto generic = value.getDefiningOp<linalg::GenericOp>();
  if (!generic || generic.getNumDpsInputs() != 1 ||
      !llvm::all_of(generic.getIndexingMapsArray(),
                    [](AffineMap map) { return map.isIdentity(); }))
    return {};
  Operation *converted =
      generic.getBody()->getTerminator()->getOperand(0).getDefiningOp();
  const bool converts =
      isa_and_nonnull<arith::TruncFOp, arith::ExtFOp>(converted) &&
      converted->getOperand(0) == generic.getBody()->getArgument(0);
  return converts ? generic : linalg::GenericOp();
}

/// Sizes of the loops of a contraction, with those that are made longer.
using LoopSizes = SmallVector<int64_t>;

/// Sizes of the loops of `op` of which some are longer, if that saves time or
/// `always`; empty: none. `result` is what of it is kept.
static LoopSizes findLongerLoops(linalg::GenericOp op, RankedTensorType result,
                                 int64_t multiple, bool always) {
  const SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  const SmallVector<int64_t> sizes = op.getStaticLoopRanges();
  // By which of the tensors it indexes: m, n, k or batch.
  auto getClass = [&](size_t loop) {
    unsigned kind = 0;
    for (auto [position, map] : llvm::enumerate(maps))
      kind |= unsigned(map.isFunctionOfDim(unsigned(loop))) << position;
    return kind;
  };
  std::map<unsigned, SmallVector<size_t>> classes;
  int64_t flops = 2;
  for (auto [loop, size] : llvm::enumerate(sizes)) {
    flops *= size;
    if (size > 1)
      classes[getClass(loop)].push_back(loop);
  }
  constexpr unsigned batch = 7;
  LoopSizes longer(sizes);
  for (const auto &[kind, loops] : classes) {
    // Several loops may be one for the library, or not.
    if (kind == batch || loops.size() != 1)
      continue;
    int64_t &size = longer[loops.front()];
    size = int64_t(llvm::alignTo(uint64_t(size), uint64_t(multiple)));
  }
  if (ArrayRef(longer) == ArrayRef(sizes))
    return {};
  const layout::Machine &machine = nd::getMachine(op);
  double copyUs = 0;
  for (auto [position, map] : llvm::enumerate(maps)) {
    const bool isLonger = llvm::any_of(map.getResults(), [&](AffineExpr expr) {
      const unsigned loop = cast<AffineDimExpr>(expr).getPosition();
      return longer[loop] != sizes[loop];
    });
    const auto bytes = double(getBytes(
        position == 2 ? result : getType(op->getOperand(unsigned(position)))));
    if (isLonger)
      copyUs += machine.getKernelPrice(0, 2 * bytes).us; // read and written
  }
  const auto element =
      nd::findMatmulType(getElementTypeOrSelf(op->getOperand(0)));
  // Of arithmetic at the rate of a large matmul: launches, bytes and starting
  // stay. What the machine has no arithmetic for is not computed faster.
  constexpr double large = 1e12;
  const auto price = machine.findMatmulPrice(*element, large, 0);
  const double savedUs =
      price ? (slowdown - 1) * price->us * (double(flops) / large) : 0;
  if (!always && savedUs < copyUs)
    return {};
  return longer;
}

namespace {
class Padding {
public:
  Padding(int64_t multiple, bool always) : multiple(multiple), always(always) {}

  void pad(linalg::GenericOp op);
  /// Removes what padded operations stand for.
  void finish();

private:
  Value getPadded(Value value, ArrayRef<int64_t> shape, Operation *before);
  Value getPaddedCapture(BlockArgument capture, ArrayRef<int64_t> shape);

  const int64_t multiple;
  const bool always;
  /// Of each value, by block: both factors of a gradient are read twice.
  std::map<std::tuple<Block *, const void *, std::vector<int64_t>>, Value>
      known;
  /// Users first.
  SmallVector<Operation *> replaced;
};
} // namespace

/// The view of `value` with another shape: what lies outside of it is 0, what
/// lies outside of the shape is left out.
static Value createView(OpBuilder &builder, Location loc, Value value,
                        ArrayRef<int64_t> shape) {
  MLIRContext *context = builder.getContext();
  const RankedTensorType type = getType(value);
  SmallVector<nd::DimAttr> from, to;
  SmallVector<Attribute> accesses;
  for (auto [number, sizes] :
       llvm::enumerate(llvm::zip_equal(type.getShape(), shape))) {
    auto [size, wanted] = sizes;
    const auto name = StringAttr::get(context, "d" + std::to_string(number));
    from.push_back(nd::DimAttr::get(name, size));
    if (size == wanted) {
      to.push_back(from.back());
      continue;
    }
    const auto loop = StringAttr::get(context, name.getValue() + "'");
    to.push_back(nd::DimAttr::get(loop, wanted));
    accesses.push_back(nd::AccessAttr::get(
        name, nd::DimAccess(layout::Access::linear({{0, 1}}, 0), {loop})));
  }
  const auto whole = nd::ShardingAttr::get(context, {}, std::nullopt, {});
  auto getNamed = [&](ArrayRef<nd::DimAttr> dims) {
    return TypeAttr::get(
        nd::NamedTensorType::get(dims, type.getElementType(), whole));
  };
  return spmd::ViewOp::create(
      builder, loc, RankedTensorType::get(shape, type.getElementType()), value,
      builder.getArrayAttr(accesses), getNamed(from), getNamed(to));
}

/// A copy of `conversion` for an operand of another shape.
static Value convert(OpBuilder &builder, linalg::GenericOp conversion,
                     Value input) {
  const Type element = getElementTypeOrSelf(conversion.getResult(0).getType());
  Value init = tensor::EmptyOp::create(builder, conversion.getLoc(),
                                       getType(input).getShape(), element);
  Operation *copy = builder.clone(*conversion);
  copy->setLoc(asPart(conversion.getLoc(), nd::OriginPart::Padded));
  copy->setOperands({input, init});
  copy->getResult(0).setType(init.getType());
  return copy->getResult(0);
}

/// Outside of the loop: once for all iterations.
Value Padding::getPaddedCapture(BlockArgument capture,
                                ArrayRef<int64_t> shape) {
  Block *body = capture.getOwner();
  auto loop = dyn_cast<steps::LoopOp>(body->getParentOp());
  if (!loop)
    return {};
  const auto captured = loop.getCapturedArguments();
  const auto *found = llvm::find(captured, capture);
  if (found == captured.end())
    return {};
  const Value outside = loop.getCaptured()[size_t(found - captured.begin())];
  Value padded = getPadded(outside, shape, loop);
  loop.getCapturedMutable().append(padded);
  return body->addArgument(padded.getType(), capture.getLoc());
}

/// `value` with zeros up to this shape, in front of `before` or earlier.
Value Padding::getPadded(Value value, ArrayRef<int64_t> shape,
                         Operation *before) {
  if (getType(value).getShape() == shape)
    return value;
  Value &padded = known[{before->getBlock(), value.getAsOpaquePointer(),
                         std::vector<int64_t>(shape.begin(), shape.end())}];
  if (padded)
    return padded;
  OpBuilder builder(before);
  if (auto argument = dyn_cast<BlockArgument>(value))
    padded = getPaddedCapture(argument, shape);
  // What is converted from memory is read once, with zeros.
  linalg::GenericOp conversion = findConversion(value);
  auto isInMemory = [](Value source) {
    Operation *producer = source.getDefiningOp();
    return !producer || !isComputation(producer);
  };
  if (!padded && conversion && isInMemory(conversion.getDpsInputs().front()))
    padded =
        convert(builder, conversion,
                getPadded(conversion.getDpsInputs().front(), shape, before));
  if (!padded)
    padded = createView(builder, asPart(value.getLoc(), nd::OriginPart::Padded),
                        value, shape);
  return padded;
}

/// What reads the result of `op` if that is nothing but its rounding, which the
/// library does; null if not.
static linalg::GenericOp findRounding(linalg::GenericOp op) {
  Value result = op.getResult(0);
  auto user = result.hasOneUse()
                  ? dyn_cast<linalg::GenericOp>(*result.user_begin())
                  : linalg::GenericOp();
  return user && findConversion(user.getResult(0)) == user
             ? user
             : linalg::GenericOp();
}

/// Lets the library compute `op`, a contraction, with longer loops.
void Padding::pad(linalg::GenericOp op) {
  const bool isNarrow = llvm::all_of(op.getDpsInputs(), [](Value factor) {
    return getType(factor).getElementTypeBitWidth() == 16;
  });
  if (!isNarrow)
    return;
  linalg::GenericOp rounding = findRounding(op);
  Value result = rounding ? rounding.getResult(0) : op.getResult(0);
  const LoopSizes sizes =
      findLongerLoops(op, getType(result), multiple, always);
  if (sizes.empty())
    return;
  auto getShape = [&](unsigned operand) {
    return llvm::map_to_vector(
        op.getIndexingMapsArray()[operand].getResults(), [&](AffineExpr expr) {
          return sizes[cast<AffineDimExpr>(expr).getPosition()];
        });
  };
  SmallVector<Value> operands;
  for (unsigned factor : {0u, 1u})
    operands.push_back(
        getPadded(op.getDpsInputs()[factor], getShape(factor), op));
  OpBuilder builder(op);
  const OpFoldResult splat = getSplat(op.getDpsInits().front());
  auto start = dyn_cast<Value>(splat);
  if (!start)
    start = arith::ConstantOp::create(builder, op.getLoc(),
                                      cast<TypedAttr>(cast<Attribute>(splat)));
  const SmallVector<int64_t> shape = getShape(2);
  Value empty =
      tensor::EmptyOp::create(builder, op.getLoc(), shape,
                              getElementTypeOrSelf(op.getResult(0).getType()));
  operands.push_back(
      linalg::FillOp::create(builder, op.getLoc(), start, empty).getResult(0));
  Operation *longer = builder.clone(*op);
  longer->setLoc(asPart(op.getLoc(), nd::OriginPart::Padded));
  longer->setOperands(operands);
  longer->getResult(0).setType(empty.getType());
  Value padded = longer->getResult(0);
  if (rounding) {
    builder.setInsertionPoint(rounding);
    padded = convert(builder, rounding, padded);
  }
  // An element that is gathered lies at the same position of what is longer.
  result.replaceUsesWithIf(padded, [](OpOperand &use) {
    return isa<tensor::ExtractOp>(use.getOwner());
  });
  if (getType(result).getShape() != ArrayRef(shape))
    padded = createView(builder, result.getLoc(), padded,
                        getType(result).getShape());
  result.replaceAllUsesWith(padded);
  if (rounding)
    replaced.push_back(rounding);
  replaced.push_back(op);
}

void Padding::finish() {
  SetVector<steps::LoopOp> loops;
  for (Operation *op : replaced) {
    if (auto loop = dyn_cast<steps::LoopOp>(op->getParentOp()))
      loops.insert(loop);
    op->erase();
  }
  // What loops capture is computed for them.
  for (steps::LoopOp loop : loops)
    for (BlockArgument argument :
         llvm::reverse(llvm::to_vector(loop.getCapturedArguments()))) {
      if (!argument.use_empty())
        continue;
      loop.getCapturedMutable().erase(
          argument.getArgNumber() -
          loop.getCapturedArguments().front().getArgNumber());
      loop.getBody().front().eraseArgument(argument.getArgNumber());
    }
}

namespace {
struct PadMatmuls : codegen::impl::PadMatmulsBase<PadMatmuls> {
  using PadMatmulsBase::PadMatmulsBase;
  void runOnOperation() override {
    Padding padding(multiple, always);
    for (linalg::GenericOp op : findLibraryContractions(getOperation()))
      padding.pad(op);
    padding.finish();
  }
};
} // namespace
