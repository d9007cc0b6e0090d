#include "codegen/gpu/PutCode.h"

#include "codegen/ExecTypes.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

PutCode::PutCode(steps::PutOp put, StringRef name, ArrayRef<bool> isShared,
                 gpu::GPUModuleOp kernels)
    : put(put), name(name.str()), isShared(isShared.begin(), isShared.end()),
      kernels(kernels),
      loc(NameLoc::get(StringAttr::get(kernels.getContext(), name))),
      builder(kernels.getContext()), i32(builder.getI32Type()),
      i64(builder.getI64Type()),
      inputType(getElementTypeOrSelf(put.getInput())),
      indexType(getElementTypeOrSelf(put.getIndex())),
      sumType(getElementTypeOrSelf(put.getResult())), plan(put.getLoops()),
      shape(plan, getElementBytes(sumType)), termLoops(plan.batches),
      rowLoops(plan.batches), columnLoops(plan.columns),
      numberType(builder.getIntegerType(shape.numberBits)),
      numberBytes(shape.numberBits / 8) {
  llvm::append_range(termLoops, plan.terms);
  rowLoops.push_back({plan.rows, 0, 0, plan.rowStride});
  columnLoops.push_back(plan.line);
}

LogicalResult PutCode::begin(StringRef part, int64_t grid, int64_t threads,
                             int64_t sharedBytes) {
  if (failed(checkGrid(put, grid)))
    return failure();
  const std::string symbol = (name + "_" + part).str();
  function = GpuFunction::create(
      kernels, loc, symbol, threads,
      {/*numInputs=*/2, /*numOutputs=*/1, isShared, /*hasWorkspace=*/true},
      nd::getMesh(put).getAxes().size());
  builder = function->atEnd();
  launches.push_back({symbol, grid, threads, sharedBytes});
  return success();
}

//===-- Control -----------------------------------------------------------===//

void PutCode::doIf(Value condition, Body body) {
  auto branch = scf::IfOp::create(builder, loc, condition, /*withElse=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(branch.thenBlock()->getTerminator());
  body();
}

Value PutCode::choose(Value condition, Type type,
                      llvm::function_ref<Value()> then,
                      llvm::function_ref<Value()> otherwise) {
  auto branch = scf::IfOp::create(builder, loc, TypeRange{type}, condition,
                                  /*withElse=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(branch.thenBlock());
  scf::YieldOp::create(builder, loc, then());
  builder.setInsertionPointToEnd(branch.elseBlock());
  scf::YieldOp::create(builder, loc, otherwise());
  return branch.getResult(0);
}

PutCode::Values PutCode::loop(Value begin, Value end, int64_t step,
                              ValueRange carried, LoopBody body) {
  auto made =
      scf::ForOp::create(builder, loc, begin, end, constant(step), carried,
                         [](OpBuilder &, Location, Value, ValueRange) {});
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(made.getBody());
  scf::YieldOp::create(builder, loc,
                       body(made.getInductionVar(), made.getRegionIterArgs()));
  return llvm::to_vector_of<Value>(made.getResults());
}

//===-- Memory ------------------------------------------------------------===//

Value PutCode::getListPlace(int64_t offset, Value number) {
  Value list = LLVM::GEPOp::create(
      builder, loc, getOperand(3).getType(), builder.getI8Type(), getOperand(3),
      ArrayRef<LLVM::GEPArg>{constant(offset, i64)});
  return getPlace(list, numberType, number);
}

Value PutCode::getSharedPlace(int64_t offset, Type element, Value number) {
  Value memory = getSharedMemory(builder, loc, kernels);
  if (offset != 0)
    memory =
        LLVM::GEPOp::create(builder, loc, memory.getType(), builder.getI8Type(),
                            memory, ArrayRef<LLVM::GEPArg>{int32_t(offset)});
  return getPlace(memory, element, number);
}

Value PutCode::getOffset(ArrayRef<runtime::PutLoop> loops, Value number,
                         int64_t runtime::PutLoop::*stride) {
  Value offset = constant(0);
  for (size_t i = loops.size(); i-- > 0;) {
    Value position = i > 0 ? getRest(number, loops[i].size) : number;
    if (loops[i].*stride != 0)
      offset = add(offset, multiply(position, loops[i].*stride));
    if (i > 0)
      number = divide(number, loops[i].size);
  }
  return offset;
}
