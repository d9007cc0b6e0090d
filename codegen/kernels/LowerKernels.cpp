#include "codegen/kernels/LowerKernels.h"

#include "codegen/kernels/MathFunctions.h"
#include "codegen/kernels/NarrowFloats.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MathToLibm/MathToLibm.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/DialectConversion.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"

using namespace mlir;

namespace {
/// f32 to 16-bit floats by the GPU's instructions, two at a time if it has them
/// (`hasPairs`), and bf16 back by its bits. LLVM may not see that these are
/// conversions of floats: it would compute in 16 bits what lies between them,
/// and what it computes so the assembler may fuse, to round a product and a sum
/// once instead of twice.
struct RoundToHalf : OpRewritePattern<arith::TruncFOp> {
  RoundToHalf(MLIRContext *context, bool hasPairs)
      : OpRewritePattern(context), hasPairs(hasPairs) {}

  LogicalResult matchAndRewrite(arith::TruncFOp op,
                                PatternRewriter &rewriter) const override {
    Type element = getElementTypeOrSelf(op.getType());
    if (element.getIntOrFloatBitWidth() != 16)
      return rewriter.notifyMatchFailure(op, "not to 16 bits");
    // What has been rounded already is stored as it is.
    if (auto widening = op.getIn().getDefiningOp<arith::ExtFOp>();
        widening && widening.getIn().getType() == op.getType()) {
      rewriter.replaceOp(op, widening.getIn());
      return success();
    }
    Location loc = op.getLoc();
    const bool isBFloat = element.isBF16();
    auto convert = [&](Type type, StringRef name, ValueRange numbers) -> Value {
      return LLVM::CallIntrinsicOp::create(
                 rewriter, loc, type, rewriter.getStringAttr(name), numbers)
          ->getResult(0);
    };
    auto convertOne = [&](Value number) {
      return convert(element,
                     isBFloat ? "llvm.nvvm.f2bf16.rn" : "llvm.nvvm.f2f16.rn",
                     number);
    };
    auto vector = dyn_cast<VectorType>(op.getType());
    if (!vector) {
      rewriter.replaceOp(op, convertOne(op.getIn()));
      return success();
    }
    auto getLane = [&](Value numbers, int64_t lane) -> Value {
      return vector::ExtractOp::create(rewriter, loc, numbers, lane);
    };
    const int64_t size = vector.getNumElements();
    SmallVector<Value> lanes;
    while (hasPairs && int64_t(lanes.size()) + 1 < size) {
      const int64_t lane = lanes.size();
      // The first operand becomes the upper half (PTX ISA, "cvt").
      Value pair =
          convert(VectorType::get(2, element),
                  isBFloat ? "llvm.nvvm.ff2bf16x2.rn" : "llvm.nvvm.ff2f16x2.rn",
                  {getLane(op.getIn(), lane + 1), getLane(op.getIn(), lane)});
      lanes.push_back(getLane(pair, 0));
      lanes.push_back(getLane(pair, 1));
    }
    while (int64_t(lanes.size()) < size)
      lanes.push_back(convertOne(getLane(op.getIn(), lanes.size())));
    rewriter.replaceOp(
        op, vector::FromElementsOp::create(rewriter, loc, vector, lanes));
    return success();
  }

private:
  bool hasPairs;
};

struct WidenBFloat : OpRewritePattern<arith::ExtFOp> {
  using OpRewritePattern<arith::ExtFOp>::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::ExtFOp op,
                                PatternRewriter &rewriter) const override {
    if (!getElementTypeOrSelf(op.getIn().getType()).isBF16())
      return rewriter.notifyMatchFailure(op, "not from bf16");
    Location loc = op.getLoc();
    auto withElement = [&](Type element) -> Type {
      if (auto vector = dyn_cast<VectorType>(op.getType()))
        return vector.clone(element);
      return element;
    };
    Type word = withElement(rewriter.getI32Type());
    TypedAttr count = rewriter.getI32IntegerAttr(16);
    if (auto vector = dyn_cast<VectorType>(word))
      count = DenseElementsAttr::get(vector, Attribute(count));
    Value bits = arith::BitcastOp::create(
        rewriter, loc, withElement(rewriter.getI16Type()), op.getIn());
    bits = arith::ExtUIOp::create(rewriter, loc, word, bits);
    bits = arith::ShLIOp::create(
        rewriter, loc, bits, arith::ConstantOp::create(rewriter, loc, count));
    rewriter.replaceOpWithNewOp<arith::BitcastOp>(op, op.getType(), bits);
    return success();
  }
};

/// max or min in three instructions of x86: its own, which returns the second
/// operand where the two do not compare, and NaN where they do not. LLVM's six
/// also order 0 above -0.
Value buildExtremum(OpBuilder &builder, Location loc, bool isMax, Value a,
                    Value b) {
  auto compare = [&](arith::CmpFPredicate predicate) -> Value {
    return arith::CmpFOp::create(builder, loc, predicate, a, b);
  };
  auto choose = [&](Value condition, Value x, Value otherwise) -> Value {
    return arith::SelectOp::create(builder, loc, condition, x, otherwise);
  };
  auto element = cast<FloatType>(getElementTypeOrSelf(a.getType()));
  TypedAttr nan =
      FloatAttr::get(element, APFloat::getQNaN(element.getFloatSemantics()));
  if (auto vector = dyn_cast<VectorType>(a.getType()))
    nan = DenseElementsAttr::get(vector, Attribute(nan));
  Value best = choose(
      compare(isMax ? arith::CmpFPredicate::OGT : arith::CmpFPredicate::OLT), a,
      b);
  return choose(compare(arith::CmpFPredicate::UNO),
                arith::ConstantOp::create(builder, loc, nan), best);
}

template <typename Op> struct ExpandExtremum : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    rewriter.replaceOp(op, buildExtremum(rewriter, op.getLoc(),
                                         std::is_same_v<Op, arith::MaximumFOp>,
                                         op.getLhs(), op.getRhs()));
    return success();
  }
};

/// The integer that `value` is in every lane, if it is a constant.
std::optional<APInt> getConstantInteger(Value value) {
  if (auto broadcast = value.getDefiningOp<vector::BroadcastOp>())
    value = broadcast.getSource();
  APInt integer;
  if (matchPattern(value, m_ConstantInt(&integer)))
    return integer;
  return std::nullopt;
}

/// Of `factor`, with 64 bits, the low 32, if they are all that it has.
Value getNarrowFactor(PatternRewriter &rewriter, Location loc, Value factor) {
  if (auto wide = factor.getDefiningOp<arith::ExtUIOp>())
    return getElementTypeOrSelf(wide.getIn().getType()).isInteger(32)
               ? wide.getIn()
               : Value();
  std::optional<APInt> constant = getConstantInteger(factor);
  if (!constant || !constant->isIntN(32))
    return {};
  TypedAttr narrow =
      rewriter.getIntegerAttr(rewriter.getI32Type(), constant->trunc(32));
  if (auto vector = dyn_cast<VectorType>(factor.getType()))
    narrow = DenseElementsAttr::get(vector.clone(rewriter.getI32Type()),
                                    Attribute(narrow));
  return arith::ConstantOp::create(rewriter, loc, narrow);
}

/// Halves of the 64-bit product of two 32-bit numbers, by an instruction each:
/// LLVM finds the one for the high half only if nothing else reads the product,
/// and multiplies 64 bits for the low one. Emulated GPUs take the same factors.
struct HalveProduct : OpRewritePattern<arith::TruncIOp> {
  HalveProduct(MLIRContext *context, bool isEmulated)
      : OpRewritePattern(context), isEmulated(isEmulated) {}

  LogicalResult matchAndRewrite(arith::TruncIOp op,
                                PatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    Value half = op.getIn();
    auto shift = half.getDefiningOp<arith::ShRUIOp>();
    if (shift) {
      std::optional<APInt> count = getConstantInteger(shift.getRhs());
      if (!count || *count != 32)
        return rewriter.notifyMatchFailure(op, "no half");
      half = shift.getLhs();
    }
    auto product = half.getDefiningOp<arith::MulIOp>();
    if (!product || !getElementTypeOrSelf(product.getType()).isInteger(64) ||
        !getElementTypeOrSelf(op.getType()).isInteger(32))
      return rewriter.notifyMatchFailure(op, "not of a 64-bit product");
    Value lhs = getNarrowFactor(rewriter, loc, product.getLhs());
    Value rhs = getNarrowFactor(rewriter, loc, product.getRhs());
    if (!lhs || !rhs)
      return rewriter.notifyMatchFailure(op, "a factor has more than 32 bits");
    if (!shift) {
      rewriter.replaceOpWithNewOp<arith::MulIOp>(op, lhs, rhs);
      return success();
    }
    if (isEmulated) {
      auto halves = arith::MulUIExtendedOp::create(rewriter, loc, lhs, rhs);
      rewriter.replaceOp(op, halves.getHigh());
      return success();
    }
    auto multiply = [&](Value a, Value b) {
      return LLVM::CallIntrinsicOp::create(
                 rewriter, loc, rewriter.getI32Type(),
                 rewriter.getStringAttr("llvm.nvvm.mulhi.ui"), ValueRange{a, b})
          ->getResult(0);
    };
    auto vector = dyn_cast<VectorType>(op.getType());
    if (!vector) {
      rewriter.replaceOp(op, multiply(lhs, rhs));
      return success();
    }
    SmallVector<Value> lanes;
    for (int64_t lane = 0; lane < vector.getNumElements(); ++lane)
      lanes.push_back(
          multiply(vector::ExtractOp::create(rewriter, loc, lhs, lane),
                   vector::ExtractOp::create(rewriter, loc, rhs, lane)));
    rewriter.replaceOpWithNewOp<vector::FromElementsOp>(op, vector, lanes);
    return success();
  }

private:
  bool isEmulated;
};

/// The maximum or minimum of a vector's elements, halves at a time; LLVM takes
/// the last four one by one.
struct HalveExtremum : OpRewritePattern<vector::ReductionOp> {
  using OpRewritePattern<vector::ReductionOp>::OpRewritePattern;

  LogicalResult matchAndRewrite(vector::ReductionOp op,
                                PatternRewriter &rewriter) const override {
    const bool isMax = op.getKind() == vector::CombiningKind::MAXIMUMF;
    if (!isMax && op.getKind() != vector::CombiningKind::MINIMUMF)
      return rewriter.notifyMatchFailure(op, "neither max nor min");
    int64_t size = op.getSourceVectorType().getNumElements();
    if (!llvm::isPowerOf2_64(size))
      return rewriter.notifyMatchFailure(op, "halves differ");
    Location loc = op.getLoc();
    Value rest = op.getVector();
    auto combine = [&](Value a, Value b) {
      return buildExtremum(rewriter, loc, isMax, a, b);
    };
    while (size > 1) {
      size /= 2;
      auto getHalf = [&](int64_t offset) -> Value {
        auto lanes = llvm::to_vector(llvm::seq(offset, offset + size));
        return vector::ShuffleOp::create(rewriter, loc, rest, rest, lanes);
      };
      rest = combine(getHalf(0), getHalf(size));
    }
    Value result = vector::ExtractOp::create(rewriter, loc, rest, 0);
    if (Value given = op.getAcc())
      result = combine(given, result);
    rewriter.replaceOp(op, result);
    return success();
  }
};
} // namespace

/// What kernels are lowered for.
enum class Machine : uint8_t { Cpu, EmulatedGpu, Gpu };

/// 16-bit floats in memory only, math functions as arithmetic, for GPUs, which
/// have no library to call, all of them; operations in the form in which the
/// machine has instructions.
static LogicalResult expandMath(Operation *kernels, Machine machine,
                                bool hasConversions = false) {
  MLIRContext *context = kernels->getContext();
  context->loadDialect<cf::ControlFlowDialect, func::FuncDialect,
                       math::MathDialect>();
  if (failed(meshc::codegen::narrowFloats(kernels, hasConversions)))
    return failure();
  const bool isEmulated = machine == Machine::EmulatedGpu;
  if (machine != Machine::Cpu) {
    RewritePatternSet combinations(context);
    meshc::codegen::populateGpuCombinationPatterns(combinations, isEmulated);
    walkAndApplyPatterns(kernels, std::move(combinations));
  }
  // Before what has other forms of their products.
  RewritePatternSet words(context);
  meshc::codegen::populateRandomPatterns(words, machine == Machine::Cpu);
  walkAndApplyPatterns(kernels, std::move(words));
  RewritePatternSet functions(context);
  meshc::codegen::populateMathFunctionPatterns(functions);
  meshc::codegen::populateSpecialFunctionPatterns(functions);
  if (machine != Machine::Cpu) {
    meshc::codegen::populateGpuMathFunctionPatterns(functions, isEmulated);
    meshc::codegen::populateWideMathFunctionPatterns(functions);
    functions.add<HalveProduct>(context, isEmulated);
  }
  if (machine == Machine::Gpu) {
    functions.add<RoundToHalf>(context, hasConversions);
    functions.add<WidenBFloat>(context);
  }
  if (machine == Machine::Cpu)
    functions.add<ExpandExtremum<arith::MaximumFOp>,
                  ExpandExtremum<arith::MinimumFOp>, HalveExtremum>(context);
  populateMathPolynomialApproximationPatterns(functions, [](StringRef name) {
    return name == math::SinOp::getOperationName() ||
           name == math::CosOp::getOperationName();
  });
  walkAndApplyPatterns(kernels, std::move(functions));
  return success();
}

/// What kernels of every target consist of.
static void populateKernelPatterns(LLVMTypeConverter &converter,
                                   RewritePatternSet &patterns) {
  populateSCFToControlFlowConversionPatterns(patterns);
  populateVectorToLLVMConversionPatterns(converter, patterns);
  arith::populateArithToLLVMConversionPatterns(converter, patterns);
  // Where LLVM has an intrinsic it comes before a library: its form of a fused
  // multiply-add on a vector is a call per lane.
  populateMathToLLVMConversionPatterns(converter, patterns,
                                       /*approximateLog1p=*/false,
                                       /*benefit=*/2);
  cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
}

static LogicalResult lowerToHost(ModuleOp kernels) {
  MLIRContext *context = kernels.getContext();
  LLVMTypeConverter converter(context);
  RewritePatternSet patterns(context);
  populateKernelPatterns(converter, patterns);
  populateMathToLibmConversionPatterns(patterns);
  populateFuncToLLVMConversionPatterns(converter, patterns);
  LLVMConversionTarget target(*context);
  target.addLegalOp<ModuleOp>();
  return applyFullConversion(kernels, target, std::move(patterns));
}

LogicalResult meshc::codegen::lowerKernels(ModuleOp kernels) {
  if (failed(expandMath(kernels, Machine::Cpu)))
    return failure();
  return lowerToHost(kernels);
}

LogicalResult meshc::codegen::lowerGpuKernels(gpu::GPUModuleOp kernels,
                                              bool hasConversions) {
  MLIRContext *context = kernels.getContext();
  context->loadDialect<NVVM::NVVMDialect>();
  if (failed(expandMath(kernels, Machine::Gpu, hasConversions)))
    return failure();
  LLVMTypeConverter converter(context);
  configureGpuToNVVMTypeConverter(converter);
  RewritePatternSet patterns(context);
  populateKernelPatterns(converter, patterns);
  populateGpuToNVVMConversionPatterns(converter, patterns);
  LLVMConversionTarget target(*context);
  target.addLegalOp<gpu::GPUModuleOp>();
  target.addIllegalDialect<gpu::GPUDialect>();
  target.addLegalDialect<NVVM::NVVMDialect>();
  WalkResult found = kernels.walk([](Operation *op) {
    if (!isa_and_nonnull<math::MathDialect>(op->getDialect()) ||
        isa<math::AbsFOp, math::AbsIOp, math::SqrtOp, math::RsqrtOp,
            math::FmaOp, math::CopySignOp, math::FloorOp, math::CeilOp,
            math::RoundEvenOp>(op))
      return WalkResult::advance();
    op->emitError("'") << op->getName() << "' of "
                       << getElementTypeOrSelf(op->getResult(0))
                       << " is not built for GPUs yet";
    return WalkResult::interrupt();
  });
  if (found.wasInterrupted())
    return failure();
  return applyFullConversion(kernels, target, std::move(patterns));
}

//===-- GPU kernels on the host -------------------------------------------===//

namespace {
/// Calls of the functions that HostImage.h names, from one kernel.
class FiberCalls {
public:
  explicit FiberCalls(ModuleOp module) : module(module) {}

  int32_t numBarriers = 0;
  int32_t numShuffles = 0;

  Value call(OpBuilder &builder, Location loc, StringRef name, Type result,
             ValueRange arguments) {
    auto function = module.lookupSymbol<LLVM::LLVMFuncOp>(name);
    if (!function) {
      OpBuilder top = OpBuilder::atBlockBegin(module.getBody());
      function = LLVM::LLVMFuncOp::create(
          top, loc, name,
          LLVM::LLVMFunctionType::get(
              result ? result : LLVM::LLVMVoidType::get(builder.getContext()),
              llvm::to_vector(arguments.getTypes())));
    }
    auto made = LLVM::CallOp::create(builder, loc, function, arguments);
    return result ? made.getResult() : Value();
  }

private:
  ModuleOp module;
};
} // namespace

/// Replaces what `op` asks of the GPU by calls.
static void replaceGpuOperation(Operation *op, FiberCalls &calls) {
  OpBuilder builder(op);
  Location loc = op->getLoc();
  Type word = builder.getI32Type();
  auto replaceId = [&](StringRef name) {
    Value id = calls.call(builder, loc, name, word, {});
    op->getResult(0).replaceAllUsesWith(
        arith::IndexCastOp::create(builder, loc, builder.getIndexType(), id));
    op->erase();
  };
  auto makeNumber = [&](int32_t number) -> Value {
    return arith::ConstantIntOp::create(builder, loc, number, 32);
  };
  if (isa<gpu::ThreadIdOp>(op))
    return replaceId("meshc_fiber_thread_id");
  if (isa<gpu::BlockIdOp>(op))
    return replaceId("meshc_fiber_block_id");
  if (isa<gpu::BarrierOp>(op)) {
    calls.call(builder, loc, "meshc_fiber_barrier", {},
               {makeNumber(++calls.numBarriers)});
    op->erase();
  } else if (auto shuffle = dyn_cast<gpu::ShuffleOp>(op)) {
    Value bits = arith::ExtUIOp::create(builder, loc, builder.getI64Type(),
                                        shuffle.getValue());
    Value other = calls.call(
        builder, loc, "meshc_fiber_shuffle_xor", builder.getI64Type(),
        {bits, shuffle.getOffset(), makeNumber(++calls.numShuffles)});
    shuffle.getShuffleResult().replaceAllUsesWith(
        arith::TruncIOp::create(builder, loc, word, other));
    op->erase();
  } else if (isa<gpu::ReturnOp>(op)) {
    LLVM::ReturnOp::create(builder, loc, ValueRange());
    op->erase();
  }
}

/// Moves the body of `kernel` into a function whose only parameter points to
/// pointers to the arguments.
static void addHostFunction(gpu::GPUFuncOp kernel, ModuleOp module) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  Location loc = kernel.getLoc();
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  auto function = LLVM::LLVMFuncOp::create(
      builder, loc, kernel.getName(),
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder.getContext()),
                                  {pointer}));
  function.getBody().takeBody(kernel.getBody());
  Block &entry = function.getBody().front();
  const unsigned numArguments = entry.getNumArguments();
  Value parameters = entry.addArgument(pointer, loc);
  builder.setInsertionPointToStart(&entry);
  for (unsigned i = 0; i < numArguments; ++i) {
    Value place =
        LLVM::GEPOp::create(builder, loc, pointer, pointer, parameters,
                            ArrayRef<LLVM::GEPArg>{int32_t(i)});
    Value address = LLVM::LoadOp::create(builder, loc, pointer, place, 8);
    Value argument = LLVM::LoadOp::create(
        builder, loc, entry.getArgument(i).getType(), address, 8);
    entry.getArgument(i).replaceAllUsesWith(argument);
  }
  entry.eraseArguments(0, numArguments);
}

FailureOr<OwningOpRef<ModuleOp>>
meshc::codegen::lowerGpuKernelsForHost(gpu::GPUModuleOp kernels) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(kernels.getLoc());
  gpu::GPUModuleOp copy = cast<gpu::GPUModuleOp>(kernels->clone());
  module->getBody()->push_back(copy);
  for (auto kernel : copy.getOps<gpu::GPUFuncOp>()) {
    FiberCalls calls(*module);
    kernel.walk([&](Operation *op) { replaceGpuOperation(op, calls); });
  }
  for (Operation &op : llvm::make_early_inc_range(*copy.getBody())) {
    if (auto kernel = dyn_cast<gpu::GPUFuncOp>(op))
      addHostFunction(kernel, *module);
    else if (isa<LLVM::GlobalOp>(op))
      op.moveBefore(module->getBody(), module->getBody()->begin());
  }
  copy.erase();
  declareHostMath(*module);
  if (failed(expandMath(*module, Machine::EmulatedGpu)) ||
      failed(lowerToHost(*module)))
    return failure();
  return module;
}
