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

bool PutOp::readsAnywhere() { return true; }

double PutOp::getWork() {
  return double(cast<RankedTensorType>(getInput().getType()).getNumElements());
}

//===-- Commands ----------------------------------------------------------===//

LogicalResult PutOp::addCommands(codegen::CommandBuilder &commands) {
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
  exec::PutT action;
  int64_t terms = 1;
  for (unsigned loop = 0; loop < numLoops; ++loop) {
    if (!maps[0].isFunctionOfDim(loop)) {
      action.positions = sizes[loop];
      action.position_stride = strides[2][loop];
      continue;
    }
    if (sizes[loop] == 1)
      continue;
    if (!maps[2].isFunctionOfDim(loop) &&
        (llvm::MulOverflow(terms, sizes[loop], terms) ||
         terms > runtime::maxPutTerms))
      return mlir::emitError(getLoc(), "this adds more than ")
             << runtime::maxPutTerms
             << " elements up by one index, which is not built yet";
    action.sizes.push_back(sizes[loop]);
    action.input_strides.push_back(strides[0][loop]);
    action.index_strides.push_back(strides[1][loop]);
    action.result_strides.push_back(strides[2][loop]);
  }
  exec::CommandT &command =
      commands.addCommand(getLoc(), {getInput(), getIndex(), getResult()}, 1);
  // An addition for each element.
  if (failed(commands.addFlops(
          getLoc(), command,
          SmallVector<int64_t>(
              cast<RankedTensorType>(getInput().getType()).getShape()))))
    return failure();
  command.action.Set(std::move(action));
  return success();
}
