// nd.view: what it must fulfil, its gradient, its form on one device.

#include "dialect/GradientBuilder.h"
#include "dialect/Locations.h"
#include "dialect/ND.h"
#include "dialect/PartitionBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

//===-- What it is --------------------------------------------------------===//

static int64_t getSize(NamedTensorType type, StringRef dim) {
  return type.getDims()[type.findDim(dim)].getSize();
}

/// How dimension `dim` of `input` is read where the result is `result`.
static DimAccess getAccess(ArrayAttr accesses, NamedTensorType input,
                           NamedTensorType result, StringAttr dim) {
  for (auto access : accesses.getAsRange<AccessAttr>())
    if (access.getDim() == dim) {
      StringAttr loop = access.getLoop();
      return loop && getSize(result, loop) == getSize(input, dim)
                 ? DimAccess::itself(loop)
                 : access.getAccess();
    }
  return DimAccess::itself(dim);
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

/// Whether `form` takes a position outside a dimension of `size`, or none, for
/// some position of its loops.
static bool mayMiss(const layout::Access &form, ArrayRef<layout::Range> loops,
                    int64_t size) {
  if (form.getKind() == layout::Access::Kind::Modulo)
    return form.getDivisor() > size;
  if (form.getKind() == layout::Access::Kind::Exact && form.getDivisor() > 1)
    return true;
  layout::Range image = form.getImage(loops);
  return image.offset < 0 || image.offset + image.count > size;
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
    return mayMiss(access.getForm(), getRanges(access, getCount),
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
  PositionBuilder(OpBuilder &builder, Location loc,
                  PartitionBuilder::GlobalIndex globalIndex)
      : builder(builder), loc(loc), globalIndex(globalIndex) {}

  /// The position that `access` takes in a dimension of `size`, as index; 0
  /// where there is none. `loops` are the ranges of its loops on all devices,
  /// padding included.
  Value build(const DimAccess &access, ArrayRef<layout::Range> loops,
              int64_t size) {
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
      sum = add(sum,
                scale(globalIndex(access.getLoops()[term.loop]), term.factor));
    switch (form.getKind()) {
    case layout::Access::Kind::Modulo:
      sum = arith::RemUIOp::create(builder, loc, sum,
                                   constant(form.getDivisor()));
      return form.getDivisor() > size ? require(isBelow(sum, size), sum) : sum;
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
  PartitionBuilder::GlobalIndex globalIndex;
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
  return success();
}

std::optional<DimAccess> spmd::ViewOp::getLocalAccess(StringAttr dim) {
  DimAccess access =
      getAccess(getAccesses(), getSourceType(), getTargetType(), dim);
  // A dimension that is a loop is split as the loop is.
  if (access.getLoop())
    return access;
  ShardingAttr sharding = getTargetType().getSharding();
  bool isSplit = llvm::any_of(access.getLoops(), [&](StringAttr loop) {
    return !sharding.getAxes(loop).empty();
  });
  return isSplit ? std::nullopt : std::optional(access);
}

Value spmd::ViewOp::buildGeneric(OpBuilder &inner) {
  const layout::Mesh mesh = nd::getMesh(*this);
  PartitionBuilder builder(inner, getLoc(), mesh);
  NamedTensorType inputType = getSourceType(), result = getTargetType();
  // Positions of a loop on all devices, padding included.
  auto getCount = [&](StringAttr loop) {
    int64_t count = getLocalType(result, builder.getMesh())
                        .getDimSize(result.findDim(loop));
    for (AxisRefAttr axis : result.getSharding().getAxes(loop))
      count *= getAxisRef(axis, builder.getMesh()).size;
    return count;
  };
  Value input = getInput();
  return builder.buildPointwise(
      result, {},
      [&](OpBuilder &b, Location loc, ValueRange,
          PartitionBuilder::GlobalIndex globalIndex) -> Value {
        PositionBuilder positions(b, loc, globalIndex);
        SmallVector<Value> indices;
        for (DimAttr dim : inputType.getDims()) {
          DimAccess access =
              getAccess(getAccesses(), inputType, result, dim.getName());
          // A dimension that is a loop is split as the loop is.
          if (StringAttr loop = access.getLoop())
            indices.push_back(
                linalg::IndexOp::create(b, loc, result.findDim(loop)));
          else
            indices.push_back(positions.build(
                access, getRanges(access, getCount), dim.getSize()));
        }
        Value element = tensor::ExtractOp::create(b, loc, input, indices);
        if (!positions.getFound())
          return element;
        TypedAttr zero = b.getZeroAttr(result.getElementType());
        return arith::SelectOp::create(b, loc, positions.getFound(), element,
                                       arith::ConstantOp::create(b, loc, zero));
      });
}

//===-- Gradient ----------------------------------------------------------===//

namespace {
/// The view of the gradient g of a view s of x that has, at each position of x
/// and of loops that are left, the element of g that read it: summed over what
/// is left it is the gradient of x.
///
/// `s[row, dy] = x[2 row + dy - 1]` is solved for row, the larger one:
/// `v[y, dy] = g[row = (y - dy + 1) / 2, dy]`. An equation of which no loop is
/// left to solve for, as y = 0 of `x[y = 0]`, becomes an access too: of one
/// more dimension of g, which has one position, as often as a rounded quotient
/// may be one position: `v[y] = g[one = y]`.
class ViewGradient {
public:
  ViewGradient(ViewOp op, GradientBuilder &builder, Value gradient)
      : op(op), builder(builder), loc(getGradientLoc(op, op.getInput())),
        gradient(gradient) {
    // The loops of the view, by number, then the dimensions of the input.
    for (DimAttr dim : op.getType().getDims())
      loops.push_back({dim, std::nullopt, std::nullopt});
  }

  Value build() {
    ArrayRef<DimAttr> inputDims = op.getInput().getType().getDims();
    dims.append(inputDims.begin(), inputDims.end());
    // What is a loop as it stands is solved first: it needs no composing.
    for (bool asLoop : {true, false})
      for (auto [number, dim] : llvm::enumerate(inputDims))
        if (isLoop(dim) == asLoop)
          solve(number, toForm(op.getInputAccess(dim.getName())));
    // What cannot be substituted becomes an equation itself: until none does.
    for (size_t i = 0; i < equations.size(); ++i)
      (void)substitute(equations[i].form);
    return buildView();
  }

private:
  /// Which dimension of the input is at which form of loops and of dimensions
  /// of the input.
  struct Equation {
    size_t number;
    layout::Access form;
  };
  struct Loop {
    DimAttr dim;
    /// Where it is, by loops that are left and dimensions of the new view.
    std::optional<layout::Access> solved;
    std::optional<Equation> from; ///< what it was solved from
  };

  bool isLoop(DimAttr dim) {
    return bool(op.getInputAccess(dim.getName()).getLoop());
  }

  /// `access`, its loops numbered as in `loops`.
  layout::Access toForm(const DimAccess &access) {
    const layout::Access form = access.getForm();
    std::vector<layout::AccessTerm> terms;
    for (const layout::AccessTerm &term : form.getTerms())
      terms.push_back(
          {int32_t(op.getType().findDim(access.getLoops()[term.loop])),
           term.factor});
    if (form.getKind() == layout::Access::Kind::Modulo)
      return layout::Access::modulo(std::move(terms), form.getOffset(),
                                    form.getDivisor());
    return layout::Access::quotient(form.getKind(), std::move(terms),
                                    form.getOffset(), form.getDivisor());
  }

  /// Number of dimension `number` of the new view among the loops of forms.
  int32_t getPosition(size_t number) const {
    return int32_t(loops.size() + number);
  }
  Loop *findSolved(const layout::AccessTerm &term) {
    bool isSolved = size_t(term.loop) < loops.size() && loops[term.loop].solved;
    return isSolved ? &loops[term.loop] : nullptr;
  }

  /// Uses that dimension `number` of the input is at `form`.
  void solve(size_t number, const layout::Access &given) {
    layout::Access form = substitute(given);
    // The loop of the largest size leaves the least to be summed.
    std::optional<int32_t> best;
    for (const layout::AccessTerm &term : form.getTerms())
      if (mayBeSolved(form, term.loop) &&
          (!best ||
           loops[term.loop].dim.getSize() > loops[*best].dim.getSize()))
        best = term.loop;
    if (!best) {
      equations.push_back({number, given});
      return;
    }
    loops[*best].solved =
        form.solve(*best, getPosition(number), getPosition(dims.size()));
    loops[*best].from = {number, given};
    if (form.getKind() == layout::Access::Kind::Floor)
      dims.push_back(makeDim("remainder", form.getDivisor()));
  }

  /// `form` without the loops that are solved. A loop whose form cannot stand
  /// in it is left after all: what it was solved from stays an equation.
  layout::Access substitute(layout::Access form) {
    while (true) {
      Loop *solved = nullptr;
      for (const layout::AccessTerm &term : form.getTerms())
        if (!solved)
          solved = findSolved(term);
      if (!solved)
        return form;
      int32_t number = int32_t(solved - loops.data());
      if (std::optional<layout::Access> composed =
              form.compose(number, *solved->solved)) {
        form = *composed;
        continue;
      }
      equations.push_back(*solved->from);
      solved->solved.reset();
      solved->from.reset();
    }
  }

  /// Whether `form` can be solved for `loop`, and no loop that is solved
  /// depends on that.
  bool mayBeSolved(const layout::Access &form, int32_t loop) {
    if (size_t(loop) >= loops.size())
      return false;
    for (const Loop &other : loops)
      if (other.solved && other.solved->getFactor(loop) != 0)
        return false;
    // A remainder stays a dimension, so what it comes from must stay solved.
    if (form.getKind() == layout::Access::Kind::Floor &&
        countAccesses(loop) > 1)
      return false;
    // A loop that runs over more than the modulus takes a position often.
    if (form.getKind() == layout::Access::Kind::Modulo &&
        loops[loop].dim.getSize() > form.getDivisor())
      return false;
    return form.solve(loop, 0, 0).has_value();
  }

  /// In how many accesses of the view the loop is.
  size_t countAccesses(int32_t loop) {
    return llvm::count_if(op.getInput().getType().getDims(), [&](DimAttr dim) {
      return llvm::is_contained(op.getInputAccess(dim.getName()).getLoops(),
                                loops[loop].dim.getName());
    });
  }

  /// A dimension under a name that nothing else here has.
  DimAttr makeDim(StringRef role, int64_t size) {
    std::string name = role.str();
    for (int suffix = 2; isTaken(name); ++suffix)
      name = (role + "_" + Twine(suffix)).str();
    return DimAttr::get(builder.getStringAttr(name), size);
  }
  bool isTaken(StringRef name) {
    auto has = [&](DimAttr dim) { return dim.getName() == name; };
    return llvm::any_of(dims, has) || llvm::any_of(fresh, has) ||
           llvm::any_of(op.getType().getDims(), has) ||
           llvm::any_of(op.getInput().getType().getDims(), has);
  }

  Value buildView() {
    // Loops that are left stay dimensions; under another name where the input
    // has a dimension of theirs.
    Value source = gradient;
    SmallVector<StringAttr> names; // of all numbers of forms
    SmallVector<StringAttr> accessed(loops.size());
    SmallVector<DimAttr> left;
    for (auto [number, loop] : llvm::enumerate(loops)) {
      StringAttr name = loop.dim.getName();
      bool isHidden = llvm::any_of(
          dims, [&](DimAttr dim) { return dim.getName() == name; });
      if (!loop.solved && isHidden) {
        DimAttr renamed = makeDim(name.getValue(), loop.dim.getSize());
        fresh.push_back(renamed);
        source =
            RenameOp::create(builder, loc, source, name, renamed.getName());
        name = renamed.getName();
      }
      if (!loop.solved)
        left.push_back(DimAttr::get(name, loop.dim.getSize()));
      names.push_back(name);
      accessed[number] = name;
    }
    for (DimAttr dim : dims)
      names.push_back(dim.getName());

    SmallVector<Attribute> accesses;
    for (auto [number, loop] : llvm::enumerate(loops))
      if (loop.solved && !isSame(loop, names))
        accesses.push_back(
            AccessAttr::get(accessed[number], DimAccess(*loop.solved, names)));
    for (const Equation &equation : equations) {
      auto [size, access] =
          getCondition(equation.number, substitute(equation.form));
      DimAttr one = makeDim("one", size);
      fresh.push_back(one);
      auto type = cast<NamedTensorType>(source.getType()).withoutSharding();
      SmallVector<DimAttr> extended(type.getDims());
      extended.push_back(one);
      source = BroadcastOp::create(
          builder, loc, NamedTensorType::get(extended, type.getElementType()),
          source);
      accesses.push_back(
          AccessAttr::get(one.getName(), DimAccess(access, names)));
    }
    SmallVector<DimAttr> resultDims(dims);
    llvm::append_range(resultDims, left);
    auto type = NamedTensorType::get(resultDims, op.getType().getElementType());
    return ViewOp::create(builder, loc, type, source,
                          builder.getArrayAttr(accesses));
  }

  /// Whether the new view reads `loop` at a dimension of its own name.
  static bool isSame(const Loop &loop, ArrayRef<StringAttr> names) {
    std::optional<int32_t> same = loop.solved->getLoop();
    return same && names[*same] == loop.dim.getName();
  }

  /// The size of a dimension, and the position in it that is inside exactly
  /// where dimension `number` of the input is at `form`.
  std::pair<int64_t, layout::Access> getCondition(size_t number,
                                                  const layout::Access &form) {
    // terms + offset - divisor * position is 0, or a remainder.
    std::vector<layout::AccessTerm> terms = form.getTerms();
    bool isModulo = form.getKind() == layout::Access::Kind::Modulo;
    terms.push_back({getPosition(number), isModulo ? -1 : -form.getDivisor()});
    if (isModulo)
      return {1, layout::Access::modulo(std::move(terms), form.getOffset(),
                                        form.getDivisor())};
    bool isFloor = form.getKind() == layout::Access::Kind::Floor;
    return {isFloor ? form.getDivisor() : 1,
            layout::Access::linear(std::move(terms), form.getOffset())};
  }

  ViewOp op;
  GradientBuilder &builder;
  Location loc;
  Value gradient;
  SmallVector<Loop> loops;
  /// The input's dimensions, then remainders of rounded quotients.
  SmallVector<DimAttr> dims;
  SmallVector<DimAttr> fresh; ///< names made for dimensions of the gradient
  SmallVector<Equation> equations;
};
} // namespace

SmallVector<Value> ViewOp::buildGradients(GradientBuilder &builder,
                                          ValueRange arrived) {
  if (!isa<FloatType>(getType().getElementType()))
    return {Value()};
  return {ViewGradient(*this, builder, arrived.front()).build()};
}
