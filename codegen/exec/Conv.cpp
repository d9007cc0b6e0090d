#include "codegen/exec/CommandBuilder.h"
#include "codegen/exec/Exec.h"
#include "codegen/steps/ConvForm.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::steps;
using codegen::ConvForm;
using codegen::ConvTensor;

/// Source, weights, destination.
static std::array<Value, 3> getTensors(ConvOp op) {
  std::array<Value, 3> tensors = {op.getLhs(), op.getRhs(), op.getResult()};
  switch (op.getComputes()) {
  case ConvTensor::Destination:
    break;
  case ConvTensor::Source:
    std::rotate(tensors.begin(), tensors.begin() + 2, tensors.end());
    break;
  case ConvTensor::Weights:
    std::swap(tensors[1], tensors[2]);
    break;
  }
  return tensors;
}

static std::optional<ConvForm> findForm(ConvOp op) {
  std::array<ArrayRef<int64_t>, 3> shapes;
  for (auto [shape, tensor] : llvm::zip_equal(shapes, getTensors(op)))
    shape = cast<RankedTensorType>(tensor.getType()).getShape();
  auto maps =
      llvm::to_vector(op.getIndexingMaps().getAsValueRange<AffineMapAttr>());
  return codegen::getConvForm(maps, shapes, op.getComputes());
}

LogicalResult ConvOp::verify() {
  auto maps =
      llvm::to_vector(getIndexingMaps().getAsValueRange<AffineMapAttr>());
  if (maps.size() != 3)
    return emitOpError("(C1) needs three indexing maps");
  for (AffineMap map : maps)
    if (map.getNumDims() != maps[0].getNumDims() || map.getNumSymbols() != 0)
      return emitOpError("(C1) has indexing maps of different loops");
  Type factor = getElementTypeOrSelf(getLhs());
  Type result = getElementTypeOrSelf(getResult());
  if (!factor.isF32() && !factor.isBF16())
    return emitOpError("(C2) computes f32 or bf16, found ")
           << getLhs().getType();
  if (getElementTypeOrSelf(getRhs()) != factor ||
      (result != factor && !result.isF32()))
    return emitOpError("(C2) has element types ")
           << factor << ", " << getElementTypeOrSelf(getRhs()) << " and "
           << result;
  if (!findForm(*this))
    return emitOpError("(C3) no library call is this convolution");
  return success();
}

//===-- Planning ----------------------------------------------------------===//

ConvForm ConvOp::getForm() { return *findForm(*this); }

Location ConvOp::getResultLoc(unsigned) { return getLoc(); }

/// The library reads its operands where it has written already.
Sharing ConvOp::getSharing(codegen::KernelBodies &) { return Sharing(1); }

bool ConvOp::readsAnywhere() { return true; }

/// Of each term a product, a sum and the widening of 16-bit factors.
double ConvOp::getWork() {
  const double parts = getElementTypeOrSelf(getLhs()).isF32() ? 2 : 4;
  return parts * getForm().countTerms();
}

//===-- Commands ----------------------------------------------------------===//

static exec::ConvolutionTensor getExecTensor(ConvTensor tensor) {
  switch (tensor) {
  case ConvTensor::Destination:
    return exec::ConvolutionTensor::destination;
  case ConvTensor::Source:
    return exec::ConvolutionTensor::source;
  case ConvTensor::Weights:
    return exec::ConvolutionTensor::weights;
  }
  llvm_unreachable("not a tensor of a convolution");
}

LogicalResult ConvOp::addCommands(codegen::CommandBuilder &commands) {
  const ConvForm form = getForm();
  exec::ConvolutionT action;
  action.result = getExecTensor(getComputes());
  action.batch = form.batch.size;
  action.groups = form.groups.size;
  action.inputs = form.inputs.size;
  action.outputs = form.outputs.size;
  action.source_strides = {form.batch.source, form.groups.source,
                           form.inputs.source};
  action.weights_strides = {form.groups.weights, form.outputs.weights,
                            form.inputs.weights};
  action.destination_strides = {form.batch.destination, form.groups.destination,
                                form.outputs.destination};
  SmallVector<int64_t> factors = {2, action.batch, action.groups, action.inputs,
                                  action.outputs};
  for (const ConvForm::Space &dim : form.space) {
    action.source.push_back(dim.sourceSize);
    action.weights.push_back(dim.weightsSize);
    action.destination.push_back(dim.destinationSize);
    action.stride.push_back(dim.stride);
    action.dilation.push_back(dim.dilation);
    action.pad.push_back(dim.pad);
    action.source_strides.push_back(dim.source);
    action.weights_strides.push_back(dim.weights);
    action.destination_strides.push_back(dim.destination);
    factors.push_back(dim.weightsSize);
    factors.push_back(dim.destinationSize);
  }
  exec::CommandT &command =
      commands.addCommand(getLoc(), {getLhs(), getRhs(), getResult()}, 1);
  if (failed(commands.addFlops(getLoc(), command, factors)))
    return failure();
  command.action.Set(std::move(action));
  return success();
}
