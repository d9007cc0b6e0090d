#include "codegen/gpu/GpuFunction.h"

#include "codegen/gpu/LaunchShape.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace meshc::codegen;

GpuFunction GpuFunction::create(gpu::GPUModuleOp kernels, Location loc,
                                StringRef symbol, int64_t threads,
                                const GpuOperands &operands, size_t numAxes) {
  OpBuilder builder = OpBuilder::atBlockEnd(kernels.getBody());
  Type pointer = LLVM::LLVMPointerType::get(kernels.getContext(), 1);
  SmallVector<Type> types(operands.size(), pointer);
  types.append(numAxes, builder.getI64Type());
  auto created = gpu::GPUFuncOp::create(builder, loc, symbol,
                                        builder.getFunctionType(types, {}));
  created->setAttr(gpu::GPUDialect::getKernelFuncAttrName(),
                   builder.getUnitAttr());
  created.setKnownBlockSize(ArrayRef<int32_t>{int32_t(threads), 1, 1});
  for (unsigned i = 0; i < operands.size(); ++i) {
    created.setArgAttr(i, LLVM::LLVMDialect::getAlignAttrName(),
                       builder.getI64IntegerAttr(accessBytes));
    if (i < operands.isShared.size() && operands.isShared[i])
      continue;
    created.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(),
                       builder.getUnitAttr());
    if (i < operands.numInputs)
      created.setArgAttr(i, LLVM::LLVMDialect::getReadonlyAttrName(),
                         builder.getUnitAttr());
  }
  builder.setInsertionPointToEnd(&created.getBody().front());
  Operation *anchor =
      arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(0));
  gpu::ReturnOp::create(builder, loc);
  return GpuFunction(created, unsigned(operands.size()), anchor);
}

void GpuFunction::setBlocksAtOnce(int64_t count) {
  function->setAttr(
      NVVM::NVVMDialect::getMinctasmAttrName(),
      Builder(function.getContext()).getI32IntegerAttr(int32_t(count)));
}

OpBuilder GpuFunction::atEnd() {
  return OpBuilder(function.getBody().front().getTerminator());
}

Value GpuFunction::getId(OpBuilder &builder, Type type, bool isBlock) {
  Location loc = function.getLoc();
  Value id;
  if (isBlock)
    id = gpu::BlockIdOp::create(builder, loc, gpu::Dimension::x);
  else
    id = gpu::ThreadIdOp::create(builder, loc, gpu::Dimension::x);
  return arith::IndexCastOp::create(builder, loc, type, id);
}

LogicalResult meshc::codegen::checkGrid(Operation *op, int64_t grid) {
  // Source: CUDA C++ Programming Guide, table of technical specifications.
  constexpr int64_t maxGrid = (int64_t(1) << 31) - 1;
  if (grid > maxGrid)
    return op->emitError("a kernel of ")
           << grid << " blocks of threads; a GPU launches at most " << maxGrid;
  return success();
}

Value meshc::codegen::getSharedMemory(OpBuilder &builder, Location loc,
                                      gpu::GPUModuleOp kernels) {
  constexpr StringRef symbol = "meshc_fiber_shared";
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext(), 3);
  if (!kernels.lookupSymbol(symbol)) {
    OpBuilder top = OpBuilder::atBlockBegin(kernels.getBody());
    LLVM::GlobalOp::create(
        top, kernels.getLoc(), LLVM::LLVMArrayType::get(builder.getI8Type(), 0),
        /*isConstant=*/false, LLVM::Linkage::External, symbol, Attribute(),
        /*alignment=*/accessBytes, /*addrSpace=*/3);
  }
  return LLVM::AddressOfOp::create(builder, loc, pointer, symbol);
}
