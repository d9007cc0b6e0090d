// nd.view: what it must fulfil, its partitioning, its form on one device.

#include "dialect/ND.h"
#include "dialect/PartitionBuilder.h"

#include "layout/AccessBounds.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

//===-- What it is --------------------------------------------------------===//

static int64_t getSize(NamedTensorType type, StringRef dim) {
  return type.getDims()[type.findDim(dim)].getSize();
}

static AccessAttr findAccess(ArrayAttr accesses, StringAttr dim) {
  for (auto access : accesses.getAsRange<AccessAttr>())
    if (access.getDim() == dim)
      return access;
  return {};
}

/// The loop that dimension `dim` of `input` takes the positions of, all of
/// them; null if there is none.
static StringAttr getWholeLoop(ArrayAttr accesses, NamedTensorType input,
                               NamedTensorType result, StringAttr dim) {
  AccessAttr access = findAccess(accesses, dim);
  if (!access)
    return dim;
  StringAttr loop = access.getLoop();
  return loop && getSize(result, loop) == getSize(input, dim) ? loop
                                                              : StringAttr();
}

/// How dimension `dim` of `input` is read where the result is `result`. Of the
/// dimensions that take the positions of one loop, a diagonal, one is the loop:
/// the one of its name, or the first. No axis splits two dimensions.
static DimAccess getAccess(ArrayAttr accesses, NamedTensorType input,
                           NamedTensorType result, StringAttr dim) {
  StringAttr loop = getWholeLoop(accesses, input, result, dim);
  if (!loop)
    return findAccess(accesses, dim).getAccess();
  StringAttr first;
  for (DimAttr other : input.getDims())
    if (getWholeLoop(accesses, input, result, other.getName()) == loop)
      if (!first || other.getName() == loop)
        first = other.getName();
  return first == dim ? DimAccess::itself(loop)
                      : DimAccess(layout::Access::itself(0), {loop});
}

DimAccess ViewOp::getInputAccess(StringAttr dim) {
  return getAccess(getAccesses(), getInput().getType(), getType(), dim);
}

/// (C1) to (C4)
static LogicalResult verifyView(Operation *op, ArrayAttr accesses,
                                NamedTensorType input, NamedTensorType result) {
  llvm::SmallSet<StringRef, 4> accessed;
  SmallVector<StringAttr> used;
  for (auto access : accesses.getAsRange<AccessAttr>()) {
    if (!input.hasDim(access.getDim()))
      return op->emitOpError("(C1) the input has no dimension ")
             << access.getDim();
    if (!accessed.insert(access.getDim().getValue()).second)
      return op->emitOpError("(C1) dimension ")
             << access.getDim() << " is accessed twice";
    for (StringAttr loop : access.getLoops())
      if (!result.hasDim(loop))
        return op->emitOpError("(C1) dimension ")
               << access.getDim() << " is read along " << loop
               << ", which is no dimension of the result";
    llvm::append_range(used, access.getLoops());
  }
  for (DimAttr dim : input.getDims()) {
    int64_t position = result.findDim(dim.getName());
    if (position >= 0 && result.getDims()[position] != dim)
      return op->emitOpError("(C2) dimension ")
             << dim.getName() << " has two sizes";
    if (accessed.contains(dim.getName()))
      continue;
    if (position < 0)
      return op->emitOpError("(C2) the result lacks dimension ")
             << dim.getName();
    used.push_back(dim.getName());
  }
  for (DimAttr dim : result.getDims())
    if (!llvm::is_contained(used, dim.getName()))
      return op->emitOpError("(C3) no position follows from dimension ")
             << dim.getName();
  if (input.getElementType() != result.getElementType())
    return op->emitOpError("(C4) the element type stays ")
           << input.getElementType() << ", found " << result.getElementType();
  return success();
}

LogicalResult ViewOp::verify() {
  return verifyView(*this, getAccesses(), getInput().getType(), getType());
}

OpFoldResult ViewOp::fold(FoldAdaptor) {
  bool isWhole = llvm::all_of(
      getAccesses().getAsRange<AccessAttr>(),
      [](AccessAttr access) { return access.getLoop() == access.getDim(); });
  return isWhole && getInput().getType() == getType() ? OpFoldResult(getInput())
                                                      : OpFoldResult();
}

/// The positions that `form` takes while its loops run over `loops`: before
/// division, rounding and remainder.
static layout::Range getSums(const layout::Access &form,
                             ArrayRef<layout::Range> loops) {
  return layout::Access::linear(form.getTerms(), form.getOffset())
      .getImage(loops);
}

static SmallVector<layout::Range>
getRanges(const DimAccess &access,
          llvm::function_ref<int64_t(StringAttr)> getCount) {
  SmallVector<layout::Range> ranges;
  for (StringAttr loop : access.getLoops())
    ranges.push_back({0, getCount(loop)});
  return ranges;
}

bool ViewOp::mayReadOutside() {
  NamedTensorType result = getType();
  return llvm::any_of(getInput().getType().getDims(), [&](DimAttr dim) {
    DimAccess access = getInputAccess(dim.getName());
    auto getCount = [&](StringAttr loop) { return getSize(result, loop); };
    return layout::mayMiss(access.getForm(), getRanges(access, getCount),
                           dim.getSize());
  });
}

PrecisionUse ViewOp::getPrecisionUse() { return PrecisionUse::Move; }

llvm::FPClassTest ViewOp::getResultClasses(ArrayRef<llvm::FPClassTest> x) {
  return mayReadOutside() ? x[0] | llvm::fcZero : x[0];
}

//===-- Partitioning ------------------------------------------------------===//

SmallVector<DimAttr> ViewOp::getIterationDims() {
  return SmallVector<DimAttr>(getType().getDims());
}

DimUse ViewOp::getDimUse(StringRef) { return DimUse::parallel(); }

DimAccess ViewOp::getOperandAccess(unsigned, StringAttr dim) {
  return getInputAccess(dim);
}

PartialUse ViewOp::getPartialUse(unsigned, ReduceKind kind) {
  // 0, what is read outside, is the identity of a sum.
  return kind == ReduceKind::Sum || !mayReadOutside() ? PartialUse::Joint
                                                      : PartialUse::Complete;
}

namespace {
/// Builds, in the body of a local view, where an element is read.
class PositionBuilder {
public:
  using Index = llvm::function_ref<Value(StringRef)>;

  PositionBuilder(OpBuilder &builder, Location loc)
      : builder(builder), loc(loc) {}

  /// The position that `access` takes in a dimension of `size`, as index; 0
  /// where there is none. `getIndex` gives the position of a loop, one of its
  /// range in `loops`.
  Value build(const DimAccess &access, ArrayRef<layout::Range> loops,
              Index getIndex, int64_t size) {
    const layout::Access form = access.getForm();
    layout::Range sums = getSums(form, loops);
    // Divisions are of numbers that are not negative: a remainder is taken of
    // the sum and a multiple of the modulus, a quotient where there is one.
    int64_t shift = 0;
    if (form.getKind() == layout::Access::Kind::Modulo && sums.offset < 0)
      shift =
          llvm::divideCeil(-sums.offset, form.getDivisor()) * form.getDivisor();
    Value sum = constant(form.getOffset() + shift);
    for (const layout::AccessTerm &term : form.getTerms())
      sum =
          add(sum, scale(getIndex(access.getLoops()[term.loop]), term.factor));
    switch (form.getKind()) {
    case layout::Access::Kind::Modulo:
      sum = arith::RemUIOp::create(builder, loc, sum,
                                   constant(form.getDivisor()));
      return layout::mayMiss(form, loops, size)
                 ? require(isBelow(sum, size), sum)
                 : sum;
    case layout::Access::Kind::Exact:
    case layout::Access::Kind::Floor: {
      int64_t end = size * form.getDivisor();
      if (sums.offset < 0 || sums.offset + sums.count > end)
        sum = require(isBelow(sum, end), sum);
      if (form.getDivisor() == 1)
        return sum;
      Value divisor = constant(form.getDivisor());
      if (form.getKind() == layout::Access::Kind::Exact)
        require(arith::CmpIOp::create(
                    builder, loc, arith::CmpIPredicate::eq,
                    arith::RemUIOp::create(builder, loc, sum, divisor),
                    constant(0)),
                sum);
      return arith::DivUIOp::create(builder, loc, sum, divisor);
    }
    case layout::Access::Kind::Indexed:
      break;
    }
    llvm_unreachable("a view is read by no tensor");
  }

  /// Whether all positions built are there; null if they always are.
  Value getFound() const { return found; }

private:
  Value constant(int64_t value) {
    return arith::ConstantIndexOp::create(builder, loc, value);
  }
  Value scale(Value value, int64_t factor) {
    return factor == 1
               ? value
               : arith::MulIOp::create(builder, loc, value, constant(factor));
  }
  Value add(Value lhs, Value rhs) {
    return matchPattern(lhs, m_Zero())
               ? rhs
               : arith::AddIOp::create(builder, loc, lhs, rhs);
  }
  /// An unsigned comparison also refuses what is negative.
  Value isBelow(Value value, int64_t bound) {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, value,
                                 constant(bound));
  }
  /// `value` where `condition` holds, else 0, which is none.
  Value require(Value condition, Value value) {
    found = found ? arith::AndIOp::create(builder, loc, found, condition)
                  : condition;
    return arith::SelectOp::create(builder, loc, condition, value, constant(0));
  }

  OpBuilder &builder;
  Location loc;
  Value found;
};
} // namespace

LocalResults ViewOp::buildLocal(PartitionBuilder &builder, ValueRange shards) {
  RankedTensorType local = getLocalType(getType(), builder.getMesh());
  Value seen = spmd::ViewOp::create(builder.getBuilder(), builder.getLoc(),
                                    local, shards[0], getAccesses(),
                                    getInput().getType(), getType());
  return SmallVector{seen};
}

//===-- On one device -----------------------------------------------------===//

/// The blocks of dimension `dim` of what `view` reads, which is split and no
/// loop.
static std::optional<DigitBlocks> findDigitBlocksOf(spmd::ViewOp view,
                                                    StringAttr dim) {
  const NamedTensorType source = view.getSourceType();
  const NamedTensorType target = view.getTargetType();
  const layout::Mesh mesh = nd::getMesh(view);
  auto getSplit = [&](StringAttr loop) {
    layout::DimSplit split;
    for (AxisRefAttr axis : target.getSharding().getAxes(loop))
      split.push_back(getAxisRef(axis, mesh));
    return split;
  };
  return findDigitBlocks(getAccess(view.getAccesses(), source, target, dim),
                         getSize(source, dim), target.getDims(), getSplit);
}

LogicalResult spmd::ViewOp::verify() {
  NamedTensorType source = getSourceType(), target = getTargetType();
  if (failed(verifyView(*this, getAccesses(), source, target)))
    return failure();
  layout::Mesh mesh = nd::getMesh(*this);
  for (NamedTensorType type : {source, target}) {
    if (!type.getSharding())
      return emitOpError("(C5) needs sharded tensor types, found ") << type;
    if (failed(verifySharding(*this, type, mesh, "(C5) ")))
      return failure();
  }
  if (getLocalType(source, mesh) != getInput().getType() ||
      getLocalType(target, mesh) != getType())
    return emitOpError("(C5) expected local shapes ")
           << getLocalType(source, mesh) << " and "
           << getLocalType(target, mesh);
  const layout::Sharding had = getSharding(source, mesh);
  for (DimSplitAttr split : source.getSharding().getSplits()) {
    WindowAttr window = split.getWindow();
    DimAccess access = getAccess(getAccesses(), source, target, split.getDim());
    if (!window) {
      const auto blocks = access.getLoop()
                              ? std::nullopt
                              : findDigitBlocksOf(*this, split.getDim());
      if (!access.getLoop() &&
          (!blocks ||
           blocks->split != had.dims[size_t(source.findDim(split.getDim()))]))
        return emitOpError("(C7) dimension ")
               << split.getDim() << " is read at " << toString(access)
               << ", of which a device has no such block";
      continue;
    }
    const StringAttr loop =
        window.getLoop() ? window.getLoop().getName() : StringAttr();
    const bool isOfBlocks =
        loop ? target.getSharding().getAxes(loop) == split.getAxes()
             : llvm::all_of(access.getLoops(), [&](StringAttr other) {
                 return target.getSharding().getAxes(other).empty();
               });
    if (access.getLoop() || !isOfBlocks ||
        getWindow(access, loop, target.getDims()) != toLayout(window))
      return emitOpError("(C6) dimension ")
             << split.getDim() << " is read at " << toString(access)
             << ", which is not its window of "
             << (loop ? "\"" + loop.str() + "\"" : "no loop");
  }
  return success();
}

std::optional<DimAccess> spmd::ViewOp::getLocalAccess(StringAttr dim) {
  DimAccess access =
      getAccess(getAccesses(), getSourceType(), getTargetType(), dim);
  // A dimension that is a loop is split as the loop is.
  if (access.getLoop())
    return access;
  // The block begins with the first position that is read.
  if (WindowAttr attr = getSourceType().getSharding().getWindow(dim)) {
    const layout::Access form = access.getForm();
    const layout::Window window = toLayout(attr);
    const int64_t block =
        attr.getLoop() ? getType().getDimSize(
                             getTargetType().findDim(attr.getLoop().getName()))
                       : 1;
    const int64_t begin = window.getImage({0, block}).offset;
    // Around a ring it is there without a remainder, at a position that is as
    // many turns away as the window says.
    if (form.getKind() == layout::Access::Kind::Modulo) {
      const layout::Range sums =
          getSums(form, getRanges(access, [&](StringAttr loop) {
                    return loop == attr.getLoop().getName()
                               ? 1
                               : getSize(getTargetType(), loop);
                  }));
      return DimAccess(layout::Access::linear(form.getTerms(),
                                              form.getOffset() + window.low -
                                                  sums.offset - begin),
                       access.getLoops());
    }
    return DimAccess(
        layout::Access::quotient(form.getKind(), form.getTerms(),
                                 form.getOffset() - begin * form.getDivisor(),
                                 form.getDivisor()),
        access.getLoops());
  }
  if (!getSourceType().getSharding().getAxes(dim).empty())
    return findDigitBlocksOf(*this, dim)->local;
  ShardingAttr sharding = getTargetType().getSharding();
  bool isSplit = llvm::any_of(access.getLoops(), [&](StringAttr loop) {
    return !sharding.getAxes(loop).empty();
  });
  return isSplit ? std::nullopt : std::optional(access);
}

bool spmd::Slice::isDense(ArrayRef<int64_t> shape) const {
  for (auto [size, stride, dense] :
       llvm::zip_equal(shape, strides, computeStrides(shape)))
    if (size > 1 && stride != dense)
      return false;
  return true;
}

/// Adds to `slice` the loops whose two digits are dimensions that lie as one:
/// `head = floor(wide / 64)` and `d = wide mod 64`. Which dimensions these are.
static SmallVector<bool> findDigits(spmd::ViewOp view, spmd::Slice &slice) {
  ArrayRef<DimAttr> dims = view.getSourceType().getDims();
  ArrayRef<int64_t> shape = view.getInput().getType().getShape();
  const SmallVector<int64_t> strides = computeStrides(shape);
  SmallVector<bool> isDigit(dims.size(), false);
  for (size_t high = 0; high < dims.size(); ++high)
    for (size_t low = 0; low < dims.size(); ++low) {
      const auto quotient = view.getLocalAccess(dims[high].getName());
      const auto remainder = view.getLocalAccess(dims[low].getName());
      if (!quotient || !remainder)
        continue;
      const layout::Access form = quotient->getForm();
      const layout::Access digit = remainder->getForm();
      const int64_t base = form.getDivisor();
      if (form.getKind() != layout::Access::Kind::Floor ||
          digit.getKind() != layout::Access::Kind::Modulo ||
          digit.getDivisor() != base || form.getTerms().size() != 1 ||
          form.getTerms() != digit.getTerms() ||
          quotient->getLoops() != remainder->getLoops() ||
          form.getTerms()[0].factor != 1 || shape[low] != base ||
          strides[high] != base * strides[low])
        continue;
      const auto loop = size_t(view.getTargetType().findDim(
          quotient->getLoops()[size_t(form.getTerms()[0].loop)]));
      const int64_t first = form.getOffset();
      const int64_t last = first + view.getType().getDimSize(loop) - 1;
      if (first < 0 || last >= base * shape[high] ||
          (first - digit.getOffset()) % base != 0)
        continue;
      slice.strides[loop] += strides[low];
      slice.offset += first * strides[low];
      isDigit[high] = isDigit[low] = true;
    }
  return isDigit;
}

std::optional<spmd::Slice> spmd::ViewOp::findSlice() {
  ArrayRef<int64_t> shape = getInput().getType().getShape();
  ArrayRef<int64_t> seen = getType().getShape();
  Slice slice{0, SmallVector<int64_t>(seen.size(), 0)};
  const SmallVector<int64_t> strides = computeStrides(shape);
  SmallVector<bool> isDigit = findDigits(*this, slice);
  for (auto [dim, size, stride, isDone] :
       llvm::zip_equal(getSourceType().getDims(), shape, strides, isDigit)) {
    if (isDone)
      continue;
    std::optional<DimAccess> access = getLocalAccess(dim.getName());
    if (!access)
      return std::nullopt;
    const layout::Access form = access->getForm();
    if (form.getKind() != layout::Access::Kind::Exact || form.getDivisor() != 1)
      return std::nullopt;
    const int64_t first = form.getOffset();
    int64_t last = first;
    std::vector<layout::AccessTerm> terms = form.getTerms();
    llvm::sort(terms, [](const auto &a, const auto &b) {
      return a.factor < b.factor;
    });
    for (const layout::AccessTerm &term : terms) {
      const auto loop = size_t(
          getTargetType().findDim(access->getLoops()[size_t(term.loop)]));
      // Loops of which positions fall on one are a window.
      if (term.factor <= last - first)
        return std::nullopt;
      last += term.factor * (seen[loop] - 1);
      slice.strides[loop] += term.factor * stride;
    }
    if (first < 0 || last >= size)
      return std::nullopt;
    slice.offset += first * stride;
  }
  for (auto [size, stride] : llvm::zip_equal(seen, slice.strides))
    if (size > 1 && stride == 0)
      return std::nullopt;
  return slice;
}

Value spmd::ViewOp::buildGeneric(OpBuilder &inner) {
  const layout::Mesh mesh = nd::getMesh(*this);
  PartitionBuilder builder(inner, getLoc(), mesh);
  NamedTensorType inputType = getSourceType(), result = getTargetType();
  ArrayRef<int64_t> localShape =
      cast<RankedTensorType>(getInput().getType()).getShape();
  auto getLocalCount = [&](StringAttr loop) {
    return getType().getDimSize(result.findDim(loop));
  };
  // Positions of a loop on all devices, padding included.
  auto getCount = [&](StringAttr loop) {
    int64_t count = getLocalCount(loop);
    for (AxisRefAttr axis : result.getSharding().getAxes(loop))
      count *= getAxisRef(axis, builder.getMesh()).size;
    return count;
  };
  Value input = getInput();
  return builder.buildPointwise(
      result, {},
      [&](OpBuilder &b, Location loc, ValueRange,
          PartitionBuilder::GlobalIndex globalIndex) -> Value {
        PositionBuilder positions(b, loc);
        auto localIndex = [&](StringRef loop) -> Value {
          return linalg::IndexOp::create(b, loc, result.findDim(loop));
        };
        SmallVector<Value> indices;
        for (auto [number, dim] : llvm::enumerate(inputType.getDims())) {
          DimAccess access =
              getAccess(getAccesses(), inputType, result, dim.getName());
          // A dimension that is a loop is split as the loop is.
          if (StringAttr loop = access.getLoop()) {
            indices.push_back(localIndex(loop));
          } else if (inputType.getSharding().getWindow(dim.getName()) ||
                     !inputType.getSharding().getAxes(dim.getName()).empty()) {
            DimAccess local = *getLocalAccess(dim.getName());
            indices.push_back(
                positions.build(local, getRanges(local, getLocalCount),
                                localIndex, localShape[int64_t(number)]));
          } else {
            indices.push_back(positions.build(access,
                                              getRanges(access, getCount),
                                              globalIndex, dim.getSize()));
          }
        }
        Value element = tensor::ExtractOp::create(b, loc, input, indices);
        if (!positions.getFound())
          return element;
        TypedAttr zero = b.getZeroAttr(getSignless(result.getElementType()));
        return arith::SelectOp::create(b, loc, positions.getFound(), element,
                                       arith::ConstantOp::create(b, loc, zero));
      });
}
