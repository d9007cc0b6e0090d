#include "codegen/exec/CommandBuilder.h"
#include "codegen/exec/Exec.h"

#include "runtime/exec/ExecutableChecker.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::steps;

LogicalResult PutOp::verify() {
  return spmd::verifyPut(*this, getInput(), getIndex(), getIndexingMaps(),
                         getResult());
}

//===-- Planning ----------------------------------------------------------===//

Location PutOp::getResultLoc(unsigned) { return getLoc(); }

/// What is added up is read in the order of the index.
Sharing PutOp::getSharing(codegen::KernelBodies &) { return Sharing(1); }

double PutOp::getWork() {
  return double(cast<RankedTensorType>(getInput().getType()).getNumElements());
}

exec::PutT PutOp::getLoops() {
  auto maps =
      llvm::to_vector(getIndexingMaps().getAsValueRange<AffineMapAttr>());
  const Value tensors[] = {getInput(), getIndex(), getResult()};
  // Sizes and strides of the loops; a tensor does not step along those that it
  // lacks.
  const unsigned numLoops = maps[0].getNumDims();
  SmallVector<int64_t> sizes(numLoops, 1);
  std::array<SmallVector<int64_t>, 3> strides;
  for (auto [map, tensor, steps] : llvm::zip_equal(maps, tensors, strides)) {
    steps.assign(numLoops, 0);
    ArrayRef<int64_t> shape =
        cast<RankedTensorType>(tensor.getType()).getShape();
    for (auto [position, stride] : llvm::enumerate(computeStrides(shape))) {
      const unsigned loop = map.getDimPosition(unsigned(position));
      sizes[loop] = shape[position];
      steps[loop] = stride;
    }
  }
  exec::PutT loops;
  for (unsigned loop = 0; loop < numLoops; ++loop) {
    if (!maps[0].isFunctionOfDim(loop)) {
      loops.positions = sizes[loop];
      loops.position_stride = strides[2][loop];
      continue;
    }
    if (sizes[loop] == 1)
      continue;
    loops.sizes.push_back(sizes[loop]);
    loops.input_strides.push_back(strides[0][loop]);
    loops.index_strides.push_back(strides[1][loop]);
    loops.result_strides.push_back(strides[2][loop]);
  }
  return loops;
}

//===-- Commands ----------------------------------------------------------===//

LogicalResult PutOp::prepare(codegen::CommandBuilder &commands) {
  if (!commands.getTarget().emitsPuts())
    return success();
  return commands.emitKernel(*this, [&](StringRef name, ArrayRef<bool> shared) {
    return commands.getTarget().emitPut(*this, name, shared);
  });
}

/// Fails with a diagnostic if there are too many terms for the runtime.
static LogicalResult checkTerms(Location loc, const exec::PutT &loops) {
  int64_t terms = 1;
  for (auto [size, stride] : llvm::zip_equal(loops.sizes, loops.result_strides))
    if (stride == 0 &&
        (llvm::MulOverflow(terms, size, terms) || terms > runtime::maxPutTerms))
      return mlir::emitError(loc, "this adds more than ")
             << runtime::maxPutTerms
             << " elements up by one index, which is not built yet";
  return success();
}

LogicalResult PutOp::addCommands(codegen::CommandBuilder &commands) {
  // An addition for each element.
  std::vector<SmallVector<int64_t>> work(1);
  llvm::append_range(work.front(),
                     cast<RankedTensorType>(getInput().getType()).getShape());
  if (commands.getTarget().emitsPuts())
    return commands.addKernel(*this, getLoc(), work);
  exec::PutT action = getLoops();
  if (failed(checkTerms(getLoc(), action)))
    return failure();
  exec::CommandT &command =
      commands.addCommand(getLoc(), {getInput(), getIndex(), getResult()}, 1);
  if (failed(commands.addFlops(getLoc(), command, work)))
    return failure();
  command.action.Set(std::move(action));
  return success();
}
