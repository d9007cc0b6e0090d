#include "dialect/Locations.h"
#include "dialect/ProgramWalk.h"
#include "passes/ConstraintFlow.h"
#include "passes/Passes.h"

#include "mlir/Interfaces/ControlFlowInterfaces.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

namespace meshc {
#define GEN_PASS_DEF_LOWERPRECISION
#include "passes/Passes.h.inc"
} // namespace meshc

/// `value` as `type` rounds it; nothing if a finite number becomes infinite or
/// one that is not 0 becomes 0.
static std::optional<APFloat> roundTo(APFloat value, FloatType type) {
  bool wasFinite = value.isFinite(), wasZero = value.isZero();
  bool losesInfo;
  value.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                &losesInfo);
  if (value.isFinite() != wasFinite || value.isZero() != wasZero)
    return std::nullopt;
  return value;
}

/// What `op` says of its precision; nothing at the border of the program.
static std::optional<PrecisionUse> getUse(Operation *op) {
  auto told = dyn_cast<PrecisionOpInterface>(op);
  return told ? std::optional(told.getPrecisionUse()) : std::nullopt;
}

namespace {
/// Decides for every operation of a program and then rewrites it.
class Lowering {
public:
  Lowering(ProgramOp program, FloatType narrow)
      : program(program), narrow(narrow),
        wide(Float32Type::get(program.getContext())) {}

  /// Returns whether anything computes in 16 bits afterwards.
  bool run() {
    findFlexible();
    findWide();
    llvm::for_each(getOperations(program), [&](Operation *op) { rewrite(op); });
    return llvm::any_of(getOperations(program), [&](Operation *op) {
      return getUse(op) && llvm::any_of(op->getResults(), [&](Value result) {
               return getTensorType(result).getElementType() == narrow;
             });
    });
  }

private:
  void findFlexible();
  void findWide();
  bool isWideByOperands(Operation *op) const;
  bool isReadNarrow(Value value) const;
  void rewrite(Operation *op);
  void setWidth(Operation *op, FloatType type);
  bool isRoundedBefore(Operation *move) const;
  /// `value` as `type`, for `user`.
  Value convert(Value value, FloatType type, Operation *user);

  /// What the program declares as f32.
  bool isFloat(Value value) const { return floats.contains(value); }

  ProgramOp program;
  FloatType narrow, wide;
  llvm::DenseSet<Value> floats;
  /// Floats that are f32 in memory and fit either width.
  llvm::DenseSet<Value> flexible;
  /// Operations that compute in f32.
  llvm::DenseSet<Operation *> wideOps;
};
} // namespace

/// What hands values on as wide as the program declares them: to the outside,
/// into regions and out of them.
static bool handsOn(Operation *op) {
  return isa<BorderOpInterface, RegionBranchOpInterface>(op) || isRegionEnd(op);
}

void Lowering::findFlexible() {
  auto isWide = [&](Value value) {
    auto type = dyn_cast<NamedTensorType>(value.getType());
    return type && type.getElementType() == wide;
  };
  for (Block *block : getBlocks(program))
    for (Value argument : block->getArguments())
      if (isWide(argument)) {
        floats.insert(argument);
        flexible.insert(argument);
      }
  for (Operation *op : getOperations(program))
    for (Value result : op->getResults()) {
      if (!isWide(result))
        continue;
      floats.insert(result);
      std::optional<PrecisionUse> use = getUse(op);
      bool isMoved = use == PrecisionUse::Move;
      if (!use || use == PrecisionUse::Keep ||
          (isMoved && flexible.contains(op->getOperand(0))))
        flexible.insert(result);
    }
}

bool Lowering::isWideByOperands(Operation *op) const {
  return llvm::any_of(op->getOperands(), [&](Value operand) {
    if (!isFloat(operand))
      return false;
    auto constant = operand.getDefiningOp<ConstantOp>();
    if (constant)
      return !roundTo(cast<FloatAttr>(constant.getValue()).getValue(), narrow);
    return wideOps.contains(operand.getDefiningOp());
  });
}

/// Whether all that read the results of `op` satisfy `holds`, those behind a
/// constraint too: how a value lies changes no width.
static bool allReaders(Operation *op,
                       llvm::function_ref<bool(Operation *)> holds) {
  return llvm::all_of(op->getUsers(), [&](Operation *user) {
    return isConstraint(user) ? allReaders(user, holds) : holds(user);
  });
}

void Lowering::findWide() {
  SmallVector<Operation *> operations = getOperations(program);
  for (Operation *op : operations) {
    std::optional<PrecisionUse> use = getUse(op);
    bool isWide = use == PrecisionUse::Wide;
    if (use == PrecisionUse::Follow || use == PrecisionUse::Move)
      isWide = isWideByOperands(op);
    if (isWide)
      wideOps.insert(op);
  }
  // One operation deep: otherwise a sum that only f32 operations read at its
  // very end would be f32 all along.
  SmallVector<Operation *> wanted;
  for (Operation *op : operations)
    if (getUse(op) == PrecisionUse::Follow && !wideOps.contains(op) &&
        !op->use_empty() && allReaders(op, [&](Operation *user) {
          return handsOn(user) ||
                 (wideOps.contains(user) && getUse(user) != PrecisionUse::Move);
        }))
      wanted.push_back(op);
  wideOps.insert_range(wanted);
}

/// Whether one operation alone reads `value`, in 16 bits.
bool Lowering::isReadNarrow(Value value) const {
  if (!value.hasOneUse())
    return false;
  Operation *user = *value.user_begin();
  std::optional<PrecisionUse> use = getUse(user);
  if (use == PrecisionUse::Move)
    return llvm::all_of(user->getResults(),
                        [&](Value result) { return isReadNarrow(result); });
  return use == PrecisionUse::Product ||
         (use == PrecisionUse::Follow && !wideOps.contains(user));
}

/// Whether what `move` reads, which is f32 in memory, is rounded before it is
/// moved: that is no more to round, and what travels between devices because of
/// the move is narrow. What leaves elements out is moved first.
bool Lowering::isRoundedBefore(Operation *move) const {
  if (!move || getUse(move) != PrecisionUse::Move ||
      move->getNumOperands() != 1 || move->getNumResults() != 1)
    return false;
  auto countElements = [](Value value) {
    return llvm::product_of(getTensorType(value).getSizes());
  };
  return flexible.contains(move->getOperand(0)) &&
         countElements(move->getOperand(0)) <=
             countElements(move->getResult(0));
}

Value Lowering::convert(Value value, FloatType type, Operation *user) {
  if (getTensorType(value).getElementType() == type)
    return value;
  OpBuilder builder(user);
  NamedTensorType converted = getTensorType(value).withElementType(type);
  if (auto constant = value.getDefiningOp<ConstantOp>()) {
    APFloat number = cast<FloatAttr>(constant.getValue()).getValue();
    return ConstantOp::create(builder, constant.getLoc(), converted,
                              FloatAttr::get(type, *roundTo(number, type)));
  }
  // One move for each use, as with conversions below.
  if (Operation *move = value.getDefiningOp();
      type == narrow && isRoundedBefore(move)) {
    Value rounded = convert(move->getOperand(0), type, user);
    Operation *moved = builder.clone(*move);
    moved->setOperand(0, rounded);
    moved->getResult(0).setType(converted);
    return moved->getResult(0);
  }
  // A variable or input in 16 bits is a value of its own in the plan.
  OriginAttr origin = getOrigin(value.getLoc());
  Location loc = asInside(user->getLoc());
  if (value.getDefiningOp<BorderOpInterface>() && origin && origin.hasName())
    loc = withOrigin(value.getLoc(),
                     origin.withPart(OriginPart::Itself)
                         .asElement(type.isBF16() ? "bf16" : "f16"));
  // One conversion for each use, so that what gradients bring through them is
  // added in the wider type; equal ones become one after differentiation.
  return CastOp::create(builder, loc, converted, value);
}

void Lowering::setWidth(Operation *op, FloatType type) {
  for (OpOperand &operand : op->getOpOperands())
    if (isFloat(operand.get()))
      operand.set(convert(operand.get(), type, op));
  for (Value result : op->getResults())
    if (isFloat(result))
      result.setType(getTensorType(result).withElementType(type));
}

void Lowering::rewrite(Operation *op) {
  if (handsOn(op))
    return setWidth(op, wide);
  std::optional<PrecisionUse> use = getUse(op);
  if (!use)
    return;
  switch (*use) {
  case PrecisionUse::Product:
    return setWidth(op, narrow);
  case PrecisionUse::Wide:
  case PrecisionUse::Follow:
    return setWidth(op, wideOps.contains(op) ? wide : narrow);
  case PrecisionUse::Move:
    // The parameters of all iterations are rounded at once, where each has one
    // reader: what gradients bring of several is added in f32.
    if (isa<UnstackOp>(op) && llvm::all_of(op->getResults(), [&](Value part) {
          return isReadNarrow(part);
        }))
      return setWidth(op, narrow);
    for (Value result : op->getResults())
      if (isFloat(result))
        result.setType(getTensorType(result).withElementType(
            getTensorType(op->getOperand(0)).getElementType()));
    return;
  case PrecisionUse::Keep:
    return;
  }
  llvm_unreachable("not a use of precision");
}

namespace {
struct LowerPrecision : meshc::impl::LowerPrecisionBase<LowerPrecision> {
  using LowerPrecisionBase::LowerPrecisionBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto precisions = module.getOps<PrecisionOp>();
    if (precisions.empty() ||
        (*precisions.begin()).getPrecision() == Precision::F32)
      return markAllAnalysesPreserved();
    auto forward = module.lookupSymbol<ProgramOp>("forward");
    if (!forward) {
      module.emitError()
          << "there is no program @forward to compute in 16 bits";
      return signalPassFailure();
    }
    FloatType narrow = BFloat16Type::get(&getContext());
    if ((*precisions.begin()).getPrecision() == Precision::FP16)
      narrow = Float16Type::get(&getContext());
    bool isNarrower = Lowering(forward, narrow).run();
    if (auto training = module.lookupSymbol<ProgramOp>("training"))
      isNarrower |= Lowering(training, narrow).run();
    if (!isNarrower) {
      PrecisionOp precision = *precisions.begin();
      precision.emitRemark()
          << "precision \"" << stringifyPrecision(precision.getPrecision())
          << "\" changes nothing: the program computes nothing in f32 that "
             "could be narrower";
      // Nor is there a loss to scale.
      precision.erase();
    }
  }
};
} // namespace
