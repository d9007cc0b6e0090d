#include "dialect/interpreter/ScalarProgram.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace meshc::interpreter;

/// The function of Scalars.h that an operation stands for; empty if none.
static StringRef getFunctionName(Operation *op) {
  return llvm::StringSwitch<StringRef>(op->getName().getStringRef())
      .Case("arith.negf", "neg")
      .Cases({"arith.addf", "arith.addi"}, "add")
      .Cases({"arith.subf", "arith.subi"}, "sub")
      .Cases({"arith.mulf", "arith.muli"}, "mul")
      .Case("arith.divf", "div")
      .Case("arith.divsi", "sdiv")
      .Case("arith.remsi", "rem")
      .Case("arith.divui", "udiv")
      .Case("arith.remui", "urem")
      .Cases({"arith.minimumf", "arith.minsi"}, "minimum")
      .Cases({"arith.maximumf", "arith.maxsi"}, "maximum")
      .Case("arith.andi", "and")
      .Case("arith.ori", "or")
      .Case("arith.xori", "xor")
      .Case("arith.shli", "shl")
      .Case("arith.shrsi", "shr")
      .Case("arith.shrui", "ushr")
      .Case("math.exp", "exp")
      .Case("math.log", "log")
      .Case("math.tanh", "tanh")
      .Case("math.erf", "erf")
      .Case("math.sqrt", "sqrt")
      .Case("math.rsqrt", "rsqrt")
      .Case("math.sin", "sin")
      .Case("math.cos", "cos")
      .Case("spmd.erf_inv", "erf_inv")
      .Case("spmd.random_bits", "random_bits")
      .Case("spmd.fold_in", "fold_in")
      .Cases({"math.absf", "math.absi"}, "abs")
      .Case("math.powf", "pow")
      .Default("");
}

static ElementKind getKind(Value value) {
  return getElementKind(value.getType());
}

template <class Domain>
static ScalarFunction<Domain> getFloatComparison(arith::CmpFOp op) {
  using S = Scalar<Domain>;
  ElementKind kind = getKind(op.getLhs());
  auto differs = findComparison<Domain>("ne", kind);
  StringRef predicate = arith::stringifyCmpFPredicate(op.getPredicate());
  if (predicate == "true" || predicate == "false")
    return {};
  if (predicate == "ord" || predicate == "uno")
    return makeStrict<Domain>([=](ArrayRef<S> x) -> S {
      bool isUnordered = asInteger<Domain>(differs({x[0], x[0]})) ||
                         asInteger<Domain>(differs({x[1], x[1]}));
      return int64_t(isUnordered == (predicate == "uno"));
    });
  // "olt": lt and no NaN; "ult": lt or NaN.
  bool whenUnordered = predicate.front() == 'u';
  auto relation = findComparison<Domain>(predicate.drop_front(), kind);
  return makeStrict<Domain>([=](ArrayRef<S> x) -> S {
    bool isUnordered = asInteger<Domain>(differs({x[0], x[0]})) ||
                       asInteger<Domain>(differs({x[1], x[1]}));
    return isUnordered ? S(int64_t(whenUnordered)) : relation(x);
  });
}

template <class Domain>
static ScalarFunction<Domain> getIntegerComparison(arith::CmpIOp op) {
  ElementKind kind = getKind(op.getLhs());
  StringRef predicate = arith::stringifyCmpIPredicate(op.getPredicate());
  if (predicate.front() == 's') {
    if (kind.width == 1) // a boolean's sign is its value: no order of ours
      return {};
    predicate = predicate.drop_front();
  }
  return findComparison<Domain>(predicate, kind);
}

/// Conversions from an integer; booleans are kept as 0 and 1, so a signed
/// reading has to negate them.
template <class Domain>
static ScalarFunction<Domain> getIntegerConversion(Operation *op,
                                                   bool isSigned) {
  ElementKind from = getKind(op->getOperand(0));
  ElementKind to = getKind(op->getResult(0));
  if (!isSigned && to.isFloat && from.width == 64)
    return {}; // above 2^63 no domain has a constant for it
  return makeStrict<Domain>([=](ArrayRef<Scalar<Domain>> x) -> Scalar<Domain> {
    int64_t value = asInteger<Domain>(x[0]);
    if (!isSigned)
      value = int64_t(getBits(value, from.width));
    else if (from.width == 1)
      value = -value;
    if (to.isFloat)
      return roundTo<Domain>(Domain::fromInteger(value), to);
    return wrapInteger(value, to.width);
  });
}

template <class Domain>
static ScalarFunction<Domain> getScalarFunction(Operation *op) {
  using S = Scalar<Domain>;
  using F = ScalarFunction<Domain>;
  return llvm::TypeSwitch<Operation *, F>(op)
      .Case([](arith::ConstantOp op) -> F {
        S value;
        if (auto number = dyn_cast<FloatAttr>(op.getValue()))
          value = Domain::getConstant(number.getValueAsDouble());
        else if (auto integer = dyn_cast<IntegerAttr>(op.getValue()))
          value = wrapInteger(integer.getValue().getSExtValue(),
                              integer.getValue().getBitWidth());
        else
          return {};
        return [=](ArrayRef<S>) { return value; };
      })
      .template Case<arith::SelectOp>([](auto) {
        return [](ArrayRef<S> x) -> S {
          if (isPoison<Domain>(x[0]))
            return Poison();
          return asInteger<Domain>(x[0]) ? x[1] : x[2];
        };
      })
      .Case([](arith::CmpFOp op) { return getFloatComparison<Domain>(op); })
      .Case([](arith::CmpIOp op) { return getIntegerComparison<Domain>(op); })
      .template Case<arith::ExtFOp, arith::TruncFOp, arith::FPToSIOp>(
          [](auto op) {
            return getConversion<Domain>(getKind(op.getIn()),
                                         getKind(op.getOut()));
          })
      .template Case<arith::FPToUIOp>([](auto op) -> F {
        ElementKind bits = getKind(op.getOut()), number = bits;
        number.isUnsigned = true;
        auto convert = getConversion<Domain>(getKind(op.getIn()), number);
        return [=](ArrayRef<S> x) -> S {
          S value = convert(x);
          if (isPoison<Domain>(value))
            return value;
          return wrapInteger(asInteger<Domain>(value), bits);
        };
      })
      .template Case<arith::SIToFPOp, arith::ExtSIOp, arith::TruncIOp,
                     arith::IndexCastOp>([](auto op) {
        return getIntegerConversion<Domain>(op, /*isSigned=*/true);
      })
      .template Case<arith::UIToFPOp, arith::ExtUIOp, arith::IndexCastUIOp>(
          [](auto op) {
            return getIntegerConversion<Domain>(op, /*isSigned=*/false);
          })
      .Case([](math::FmaOp op) -> F {
        auto mul = findFunction<Domain>("mul", getKind(op.getA()), 2);
        auto add = findFunction<Domain>("add", getKind(op.getA()), 2);
        return [=](ArrayRef<S> x) { return add({mul({x[0], x[1]}), x[2]}); };
      })
      .Default([](Operation *op) -> F {
        StringRef name = getFunctionName(op);
        if (name.empty())
          return {};
        return findFunction<Domain>(name, getKind(op->getOperand(0)),
                                    op->getNumOperands());
      });
}

template <class Domain> unsigned ScalarProgram<Domain>::getSlot(Value scalar) {
  auto [slot, isFirst] = slots.try_emplace(scalar, scalars.size());
  if (isFirst)
    scalars.push_back(scalar);
  return slot->second;
}

template <class Domain>
SmallVector<std::pair<Value, unsigned>>
ScalarProgram<Domain>::getCapturedScalars() const {
  SmallVector<std::pair<Value, unsigned>> captured;
  for (auto [slot, value] : llvm::enumerate(scalars))
    if (!defined.contains(value))
      captured.emplace_back(value, slot);
  return captured;
}

template <class Domain>
typename ScalarProgram<Domain>::Frame ScalarProgram<Domain>::makeFrame() const {
  Frame frame;
  frame.slots.resize(scalars.size());
  frame.tensors.resize(tensors.size());
  return frame;
}

template <class Domain> void ScalarProgram<Domain>::run(Frame &frame) const {
  for (const Step &step : steps)
    step(frame);
}

template <class Domain>
LogicalResult ScalarProgram<Domain>::appendBody(Block &body) {
  for (Operation &op : body.without_terminator())
    if (failed(append(&op)))
      return failure();
  return success();
}

template <class Domain>
LogicalResult ScalarProgram<Domain>::append(Operation *op) {
  for (Value result : op->getResults())
    defined.insert(result);
  if (auto index = dyn_cast<linalg::IndexOp>(op)) {
    steps.push_back([=, dim = index.getDim(), to = getSlot(index)](Frame &f) {
      f.slots[to] = f.point[dim];
    });
    return success();
  }
  if (isa<tensor::ExtractOp>(op))
    return appendExtract(op);
  if (isa<arith::MulUIExtendedOp>(op))
    return appendWideProduct(op, /*isSigned=*/false);
  if (isa<arith::MulSIExtendedOp>(op))
    return appendWideProduct(op, /*isSigned=*/true);
  return appendFunction(op, getScalarFunction<Domain>(op));
}

template <class Domain>
LogicalResult
ScalarProgram<Domain>::appendFunction(Operation *op,
                                      ScalarFunction<Domain> function) {
  if (!function)
    return op->emitOpError("is unknown to the interpreter");
  SmallVector<unsigned> from;
  for (Value operand : op->getOperands())
    from.push_back(getSlot(operand));
  steps.push_back([=, to = getSlot(op->getResult(0))](Frame &f) {
    SmallVector<Scalar<Domain>, 3> operands;
    for (unsigned slot : from)
      operands.push_back(f.slots[slot]);
    f.slots[to] = function(operands);
  });
  return success();
}

template <class Domain>
LogicalResult ScalarProgram<Domain>::appendExtract(Operation *op) {
  auto extract = cast<tensor::ExtractOp>(op);
  SmallVector<unsigned> from;
  for (Value index : extract.getIndices())
    from.push_back(getSlot(index));
  unsigned tensor = tensors.size();
  tensors.push_back(extract.getTensor());
  steps.push_back([=, to = getSlot(extract)](Frame &f) {
    const Tensor<Domain> &source = *f.tensors[tensor];
    Sizes strides = getStrides(source.sizes);
    int64_t offset = 0;
    for (auto [d, slot] : llvm::enumerate(from)) {
      if (isPoison<Domain>(f.slots[slot])) {
        f.slots[to] = Poison(); // computed from padding, for padding
        return;
      }
      int64_t index = asInteger<Domain>(f.slots[slot]);
      if (index < 0 || index >= source.sizes[d]) {
        f.error = "reads out of bounds";
        return;
      }
      offset += index * strides[d];
    }
    f.slots[to] = source.elements[offset];
  });
  return success();
}

template <class Domain>
LogicalResult ScalarProgram<Domain>::appendWideProduct(Operation *op,
                                                       bool isSigned) {
  unsigned width = getKind(op->getOperand(0)).width;
  unsigned lhs = getSlot(op->getOperand(0)), rhs = getSlot(op->getOperand(1));
  unsigned low = getSlot(op->getResult(0)), high = getSlot(op->getResult(1));
  steps.push_back([=](Frame &f) {
    if (isPoison<Domain>(f.slots[lhs]) || isPoison<Domain>(f.slots[rhs])) {
      f.slots[low] = f.slots[high] = Poison();
      return;
    }
    int64_t x = asInteger<Domain>(f.slots[lhs]);
    int64_t y = asInteger<Domain>(f.slots[rhs]);
    unsigned __int128 product =
        isSigned ? static_cast<unsigned __int128>(__int128(x) * y)
                 : static_cast<unsigned __int128>(getBits(x, width)) *
                       getBits(y, width);
    f.slots[low] = wrapInteger(int64_t(product), width);
    f.slots[high] = wrapInteger(int64_t(product >> width), width);
  });
  return success();
}

template class meshc::interpreter::ScalarProgram<F64>;
