#ifndef MESHC_CODEGEN_GPU_PUTCODE_H
#define MESHC_CODEGEN_GPU_PUTCODE_H

#include "codegen/exec/Exec.h"
#include "codegen/gpu/GpuFunction.h"
#include "codegen/gpu/PutShape.h"
#include "codegen/kernels/EmittedKernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <optional>
#include <string>
#include <vector>

namespace meshc::codegen {

/// Writes the functions of a put, one after the other: where its tensors and
/// its workspace lie, and arithmetic on numbers of terms, rows and elements,
/// which have the width that the sizes need.
class PutCode {
public:
  PutCode(steps::PutOp put, llvm::StringRef name, llvm::ArrayRef<bool> isShared,
          mlir::gpu::GPUModuleOp kernels);

  /// Of the functions that are there.
  const std::vector<KernelLaunch> &getLaunches() const { return launches; }

protected:
  using Value = mlir::Value;
  using Type = mlir::Type;
  using ValueRange = mlir::ValueRange;
  using Values = llvm::SmallVector<Value>;
  using Body = llvm::function_ref<void()>;
  using LoopBody = llvm::function_ref<Values(Value, ValueRange)>;
  using PutLoop = runtime::PutLoop;

  /// Begins the next function, called after `part`. Fails with a diagnostic.
  llvm::LogicalResult begin(llvm::StringRef part, int64_t grid, int64_t threads,
                            int64_t sharedBytes = 0);
  void setBlocksAtOnce(int64_t count) { function->setBlocksAtOnce(count); }
  Value getBlock() { return function->getId(builder, numberType, true); }
  Value getThread() { return function->getId(builder, numberType, false); }

  //===-- Arithmetic and control ------------------------------------------===//

  Value constant(int64_t value, Type type = {}) {
    return mlir::arith::ConstantOp::create(
        builder, loc,
        builder.getIntegerAttr(type ? type : Type(numberType), value));
  }
  Value add(Value a, Value b) {
    return mlir::arith::AddIOp::create(builder, loc, a, b);
  }
  Value subtract(Value a, Value b) {
    return mlir::arith::SubIOp::create(builder, loc, a, b);
  }
  Value multiply(Value a, int64_t factor) {
    return mlir::arith::MulIOp::create(builder, loc, a, constant(factor));
  }
  Value divide(Value a, int64_t divisor) {
    return mlir::arith::DivUIOp::create(builder, loc, a, constant(divisor));
  }
  Value getRest(Value a, int64_t divisor) {
    return mlir::arith::RemUIOp::create(builder, loc, a, constant(divisor));
  }
  Value getLesser(Value a, Value b) {
    return mlir::arith::MinSIOp::create(builder, loc, a, b);
  }
  /// Quotient of a number that is not negative, rounded up.
  Value divideUp(Value a, int64_t divisor) {
    return divide(add(a, constant(divisor - 1)), divisor);
  }
  Value compare(mlir::arith::CmpIPredicate predicate, Value a, Value b) {
    return mlir::arith::CmpIOp::create(builder, loc, predicate, a, b);
  }
  Value isLess(Value a, Value b) {
    return compare(mlir::arith::CmpIPredicate::slt, a, b);
  }
  Value select(Value condition, Value a, Value b) {
    return mlir::arith::SelectOp::create(builder, loc, condition, a, b);
  }
  /// `value`, which is not negative, as another integer.
  Value convert(Value value, Type type) {
    const unsigned from = value.getType().getIntOrFloatBitWidth();
    const unsigned to = type.getIntOrFloatBitWidth();
    if (from == to)
      return value;
    if (from < to)
      return mlir::arith::ExtUIOp::create(builder, loc, type, value);
    return mlir::arith::TruncIOp::create(builder, loc, type, value);
  }
  void doIf(Value condition, Body body);
  Value choose(Value condition, Type type, llvm::function_ref<Value()> then,
               llvm::function_ref<Value()> otherwise);
  Values loop(Value begin, Value end, int64_t step, ValueRange carried,
              LoopBody body);
  void wait() { mlir::gpu::BarrierOp::create(builder, loc); }

  //===-- Memory ----------------------------------------------------------===//

  Value getPlace(Value base, Type element, Value number) {
    return mlir::LLVM::GEPOp::create(
        builder, loc, base.getType(), element, base,
        llvm::ArrayRef<mlir::LLVM::GEPArg>{number});
  }
  Value load(Value place, Type type, int64_t alignment) {
    return mlir::LLVM::LoadOp::create(builder, loc, type, place,
                                      unsigned(alignment));
  }
  void store(Value value, Value place, int64_t alignment) {
    mlir::LLVM::StoreOp::create(builder, loc, value, place,
                                unsigned(alignment));
  }
  Value getOperand(unsigned number) {
    return function->getOperand(builder, number);
  }
  Value loadNumber(Value place) { return load(place, numberType, numberBytes); }
  void storeNumber(Value number, Value place) {
    store(number, place, numberBytes);
  }
  /// The place of a number in the part of the workspace that begins `offset`
  /// bytes from its start.
  Value getListPlace(int64_t offset, Value number);
  /// The place of an element in shared memory, `offset` bytes from its start.
  Value getSharedPlace(int64_t offset, Type element, Value number);
  /// The same as runtime::getOffset.
  Value getOffset(llvm::ArrayRef<PutLoop> loops, Value number,
                  int64_t PutLoop::*stride);

  steps::PutOp put;
  const std::string name;
  const llvm::SmallVector<bool> isShared;
  mlir::gpu::GPUModuleOp kernels;
  mlir::Location loc;
  mlir::OpBuilder builder; ///< at the end of the function
  mlir::IntegerType i32, i64;
  Type inputType, indexType, sumType; ///< of elements
  const runtime::PutPlan plan;
  const PutShape shape;
  /// Of terms and rows through all batches, and of what a row has.
  std::vector<PutLoop> termLoops, rowLoops, columnLoops;
  mlir::IntegerType numberType;
  int64_t numberBytes;

private:
  std::vector<KernelLaunch> launches;
  std::optional<GpuFunction> function;
};

} // namespace meshc::codegen

#endif
