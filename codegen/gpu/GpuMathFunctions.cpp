// f32 quotients, roots and functions by the approximate instructions of GPUs.

#include "codegen/kernels/Formula.h"
#include "codegen/kernels/MathFunctions.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace meshc::codegen;

//===-- Instructions ------------------------------------------------------===//

namespace {
/// An instruction: LLVM's name of it, and the function that stands for it on
/// the host (HostImage.h), which errs by as much as the instruction may.
struct Instruction {
  StringLiteral intrinsic, hostFunction;
  unsigned numOperands;
};
} // namespace

static constexpr Instruction divFull{"llvm.nvvm.div.full",
                                     "meshc_fiber_div_full", 2};
static constexpr Instruction sqrtApprox{"llvm.nvvm.sqrt.approx.f",
                                        "meshc_fiber_sqrt_approx", 1};
static constexpr Instruction rsqrtApprox{"llvm.nvvm.rsqrt.approx.f",
                                         "meshc_fiber_rsqrt_approx", 1};
static constexpr Instruction rcpApproxFtz{"llvm.nvvm.rcp.approx.ftz.f",
                                          "meshc_fiber_rcp_approx_ftz", 1};
static constexpr Instruction ex2ApproxFtz{"llvm.nvvm.ex2.approx.ftz",
                                          "meshc_fiber_ex2_approx_ftz", 1};

void meshc::codegen::declareHostMath(ModuleOp module) {
  module.getContext()->loadDialect<LLVM::LLVMDialect>();
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  Type number = builder.getF32Type();
  for (const Instruction &instruction :
       {divFull, sqrtApprox, rsqrtApprox, rcpApproxFtz, ex2ApproxFtz})
    LLVM::LLVMFuncOp::create(
        builder, module.getLoc(), instruction.hostFunction,
        LLVM::LLVMFunctionType::get(
            number, SmallVector<Type>(instruction.numOperands, number)));
}

namespace {
/// Formulas on f32 with these instructions, which are scalar.
class GpuFormula : public Formula {
public:
  GpuFormula(OpBuilder &builder, Location loc, Type type, bool isEmulated)
      : Formula(builder, loc, type), builder(builder), loc(loc), type(type),
        isEmulated(isEmulated) {}

  Value run(const Instruction &instruction, ValueRange operands) {
    return mapLanes(operands, [&](ValueRange numbers) -> Value {
      if (isEmulated)
        return LLVM::CallOp::create(builder, loc, builder.getF32Type(),
                                    instruction.hostFunction, numbers)
            .getResult();
      return callIntrinsic(instruction.intrinsic, numbers);
    });
  }
  /// a * b + c, at least 0 and at most 1; 0 for NaN.
  Value fmaSaturated(Value a, Value b, Value c) {
    if (!isEmulated)
      return mapLanes({a, b, c}, [&](ValueRange numbers) {
        return callIntrinsic("llvm.nvvm.fma.rn.sat.f", numbers);
      });
    Value sum = fma(a, b, c);
    sum = select(isAbove(sum, 0.0), sum, constant(0.0));
    return atMost(sum, 1.0);
  }

private:
  Value callIntrinsic(StringRef name, ValueRange numbers) {
    return LLVM::CallIntrinsicOp::create(builder, loc, builder.getF32Type(),
                                         builder.getStringAttr(name), numbers)
        ->getResult(0);
  }
  template <class Map> Value mapLanes(ValueRange operands, Map map) {
    auto vector = dyn_cast<VectorType>(type);
    if (!vector)
      return map(operands);
    SmallVector<Value> lanes;
    for (int64_t lane = 0; lane < vector.getNumElements(); ++lane) {
      SmallVector<Value> numbers;
      for (Value operand : operands)
        numbers.push_back(
            vector::ExtractOp::create(builder, loc, operand, lane));
      lanes.push_back(map(numbers));
    }
    return vector::FromElementsOp::create(builder, loc, vector, lanes);
  }

  OpBuilder &builder;
  Location loc;
  Type type;
  bool isEmulated;
};
} // namespace

//===-- Functions ---------------------------------------------------------===//

/// log2(e), also in two parts, of which the first is an f32.
static constexpr double log2E = 1.44269504088896340736;
static constexpr double log2EHigh = 0x1.715476p+0;
static constexpr double log2ELow = log2E - log2EHigh;

/// exp x = 2^n 2^r with x log2(e) = n + r: ex2 for |r| up to about 1/2, and
/// beyond exponents of normal numbers for what is left, from which results
/// below the normal range are rounded and not flushed. n is found by scaling to
/// [0, 1], where an instruction clamps for nothing, so that only n is clamped.
static std::pair<Value, Value> buildExpFactors(GpuFormula &f, Value x) {
  Value place =
      f.fmaSaturated(x, f.constant(log2E / 253), f.constant(126.0 / 253));
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits, here
  // with the exponent's bias: 1 to 254.
  Value shifted = f.fma(place, f.constant(253.0), f.constant(0x1.8p23 + 1));
  Value negated = f.sub(f.constant(0x1.8p23 + 127), shifted);
  Value r = f.fma(x, f.constant(log2EHigh), negated);
  r = f.fma(x, f.constant(log2ELow), r);
  Value power = f.fromBits(f.shiftLeft(f.toBits(shifted), 23));
  return {f.run(ex2ApproxFtz, r), power};
}

static Value buildExp(GpuFormula &f, Value x) {
  auto [fraction, power] = buildExpFactors(f, x);
  return f.mul(fraction, power);
}

/// 2 / (exp 2|x| + 1), which 2^(2 log2(e) |x|) gives without a reduction: what
/// is lost in large arguments is lost in small results.
static Value buildTanhComplement(GpuFormula &f, Value magnitude) {
  Value power = f.run(ex2ApproxFtz, f.mul(magnitude, f.constant(2 * log2E)));
  Value half = f.run(rcpApproxFtz, f.add(power, f.constant(1.0)));
  return f.add(half, half);
}

/// Near 0 an odd polynomial, elsewhere 1 - 2 / (exp 2|x| + 1).
static Value buildTanh(GpuFormula &f, Value x) {
  Value magnitude = f.abs(x);
  Value far = f.sub(f.constant(1.0), buildTanhComplement(f, magnitude));
  Value near = buildTanhNearZero(f, magnitude);
  return f.copySign(f.select(f.isBelow(magnitude, tanhNearZero), near, far), x);
}

/// 1 + tanh x = 2 / (1 + exp -2x), exact where the sum is.
static Value buildOnePlusTanh(GpuFormula &f, Value x) {
  return buildTanhComplement(f, f.negate(x));
}

/// 1 - erf |x| as 2 to the power of a polynomial without a constant term, so
/// that it is 1 at 0, and that falls for ever. Coefficients: minimax fit of the
/// result's absolute error on [0, 4.2] (iterated weighted least squares), which
/// is 2^-24 with f32 arithmetic.
static Value buildErfComplement(GpuFormula &f, Value magnitude) {
  Value p =
      f.polynomial(magnitude, {-4.535860352916643e-05, 4.455077287275344e-04,
                               -1.4894419582560658e-03, -7.746291230432689e-04,
                               2.825368009507656e-02, -1.484816074371338e-01,
                               -9.184163808822632e-01, -1.6279085874557495});
  return f.run(ex2ApproxFtz, f.mul(p, magnitude));
}

/// Near 0 an odd polynomial, elsewhere 1 without its complement.
static Value buildErf(GpuFormula &f, Value x) {
  Value magnitude = f.abs(x);
  Value far = f.sub(f.constant(1.0), buildErfComplement(f, magnitude));
  Value near = buildErfNearZero(f, x);
  return f.select(f.isAbove(magnitude, erfNearZero), f.copySign(far, x), near);
}

/// 1 + erf x: of negative x what is left of 1, with no loss.
static Value buildOnePlusErf(GpuFormula &f, Value x) {
  Value rest = buildErfComplement(f, f.abs(x));
  return f.select(f.isBelow(x, 0.0), rest, f.sub(f.constant(2.0), rest));
}

/// The instruction alone.
template <const Instruction &instruction>
static Value runInstruction(GpuFormula &f, Value x) {
  return f.run(instruction, x);
}

//===-- Patterns ----------------------------------------------------------===//

static bool isF32(Value value) {
  return getElementTypeOrSelf(value.getType()).isF32();
}

/// The number that `value` is in every lane, if it is a constant.
static std::optional<APFloat> getConstantNumber(Value value) {
  if (auto broadcast = value.getDefiningOp<vector::BroadcastOp>())
    value = broadcast.getSource();
  APFloat number(0.0f);
  if (matchPattern(value, m_ConstantFloat(&number)))
    return number;
  return std::nullopt;
}

static bool isOne(Value value) {
  std::optional<APFloat> number = getConstantNumber(value);
  return number && number->isExactlyValue(1.0);
}

/// The term of a sum with 1.
static Value getTermBesideOne(arith::AddFOp sum) {
  if (isOne(sum.getLhs()))
    return sum.getRhs();
  return isOne(sum.getRhs()) ? sum.getLhs() : Value();
}

/// The x of 1 + exp x, which is from 1 to infinity; null if `value` is none.
static Value getExponent(Value value) {
  auto sum = value.getDefiningOp<arith::AddFOp>();
  Value term = sum ? getTermBesideOne(sum) : Value();
  auto power = term ? term.getDefiningOp<math::ExpOp>() : math::ExpOp();
  return power ? power.getOperand() : Value();
}

namespace {
/// A pattern that knows for which machine it writes, and comes before those of
/// MathFunctions.cpp.
template <class Op> struct GpuPattern : OpRewritePattern<Op> {
  GpuPattern(MLIRContext *context, bool isEmulated)
      : OpRewritePattern<Op>(context, /*benefit=*/2), isEmulated(isEmulated) {}

  GpuFormula getFormula(PatternRewriter &rewriter, Op op) const {
    return GpuFormula(rewriter, op.getLoc(), op.getType(), isEmulated);
  }

  bool isEmulated;
};

template <class Op, Value (*build)(GpuFormula &, Value)>
struct ExpandGpuFunction : GpuPattern<Op> {
  using GpuPattern<Op>::GpuPattern;

  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    if (!isF32(op.getOperand()))
      return rewriter.notifyMatchFailure(op, "not of f32");
    GpuFormula formula = this->getFormula(rewriter, op);
    rewriter.replaceOp(op, build(formula, op.getOperand()));
    return success();
  }
};

/// Whether the program says that `op` is computed together with what it reads
/// (passes/FuseArithmetic.cpp), which nothing else does then. Whether something
/// else in this kernel, or in this stage of it, reads that says nothing: where
/// `op` is computed again there may be other readers.
static bool isTogether(arith::ArithFastMathInterface op) {
  return bitEnumContainsAll(op.getFastMathFlagsAttr().getValue(),
                            arith::FastMathFlags::contract);
}

/// The sum of 1 and a function.
template <class Op, Value (*build)(GpuFormula &, Value)>
struct AddOne : GpuPattern<arith::AddFOp> {
  using GpuPattern<arith::AddFOp>::GpuPattern;

  LogicalResult matchAndRewrite(arith::AddFOp op,
                                PatternRewriter &rewriter) const override {
    Value term = getTermBesideOne(op);
    auto function = term ? term.getDefiningOp<Op>() : Op();
    if (!function || !isF32(term) || !isTogether(op))
      return rewriter.notifyMatchFailure(op, "not 1 and a function");
    GpuFormula formula = getFormula(rewriter, op);
    rewriter.replaceOp(op, build(formula, function.getOperand()));
    return success();
  }
};

struct ExpandQuotient : GpuPattern<arith::DivFOp> {
  using GpuPattern<arith::DivFOp>::GpuPattern;

  LogicalResult matchAndRewrite(arith::DivFOp op,
                                PatternRewriter &rewriter) const override {
    if (!isF32(op.getLhs()))
      return rewriter.notifyMatchFailure(op, "not of f32");
    // An integer is another one where a quotient is an ulp too small.
    if (llvm::any_of(op->getUsers(), [](Operation *user) {
          return isa<arith::FPToSIOp, arith::FPToUIOp>(user);
        }))
      return rewriter.notifyMatchFailure(op, "becomes an integer");
    GpuFormula formula = getFormula(rewriter, op);
    Value lhs = op.getLhs(), rhs = op.getRhs();
    if (auto root = rhs.getDefiningOp<math::SqrtOp>();
        root && isOne(lhs) && isTogether(op)) {
      rewriter.replaceOp(op, formula.run(rsqrtApprox, root.getOperand()));
      return success();
    }
    // What a divisor above 2^126 gives is 0, and may be below the normal range.
    if (Value x = getExponent(rhs); x && isOne(lhs) && isTogether(op)) {
      auto [fraction, power] = buildExpFactors(formula, x);
      Value sum = formula.fma(fraction, power, formula.constant(1.0));
      rewriter.replaceOp(op, formula.run(rcpApproxFtz, sum));
      return success();
    }
    // The product with a reciprocal that is normal: at most 1.5 ulps beside the
    // quotient, and none if the reciprocal is exact.
    if (std::optional<APFloat> number = getConstantNumber(rhs)) {
      APFloat reciprocal(1.0f);
      reciprocal.divide(*number, APFloat::rmNearestTiesToEven);
      if (number->isNormal() && reciprocal.isNormal()) {
        rewriter.replaceOp(
            op,
            formula.mul(lhs, formula.constant(reciprocal.convertToFloat())));
        return success();
      }
    }
    rewriter.replaceOp(op, formula.run(divFull, {lhs, rhs}));
    return success();
  }
};
} // namespace

void meshc::codegen::populateGpuCombinationPatterns(RewritePatternSet &patterns,
                                                    bool isEmulated) {
  patterns.add<AddOne<math::TanhOp, buildOnePlusTanh>,
               AddOne<math::ErfOp, buildOnePlusErf>, ExpandQuotient>(
      patterns.getContext(), isEmulated);
}

void meshc::codegen::populateGpuMathFunctionPatterns(
    RewritePatternSet &patterns, bool isEmulated) {
  patterns.add<ExpandGpuFunction<math::ExpOp, buildExp>,
               ExpandGpuFunction<math::TanhOp, buildTanh>,
               ExpandGpuFunction<math::ErfOp, buildErf>,
               ExpandGpuFunction<math::SqrtOp, runInstruction<sqrtApprox>>,
               ExpandGpuFunction<math::RsqrtOp, runInstruction<rsqrtApprox>>>(
      patterns.getContext(), isEmulated);
}
