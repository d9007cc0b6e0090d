// nd.stack and nd.unstack: what they must fulfil, partitioning, gradients.

#include "dialect/GradientBuilder.h"
#include "dialect/Locations.h"
#include "dialect/PartitionBuilder.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

//===-- nd.stack ----------------------------------------------------------===//

void StackOp::build(OpBuilder &builder, OperationState &state, StringAttr dim,
                    ValueRange inputs) {
  auto size = DimAttr::get(dim, int64_t(inputs.size()));
  build(builder, state, withDimFirst(getTensorType(inputs.front()), size), dim,
        inputs);
}

/// Whether two tensors are alike but for the order of storage.
static bool haveSameElements(NamedTensorType a, NamedTensorType b) {
  return a.getElementType() == b.getElementType() &&
         std::is_permutation(a.getDims().begin(), a.getDims().end(),
                             b.getDims().begin(), b.getDims().end());
}

LogicalResult StackOp::verify() {
  if (getInputs().empty())
    return emitOpError("(C1) there is nothing to stack");
  NamedTensorType type = getTensorType(getInputs().front());
  if (type.hasDim(getDim()))
    return emitOpError("(C1) the operands have dimension \"")
           << getDim() << "\"";
  for (Value input : getInputs())
    if (!haveSameElements(getTensorType(input), type))
      return emitOpError("(C1) operands are ")
             << type << " and " << input.getType();
  auto dim = DimAttr::get(getDimAttr(), int64_t(getInputs().size()));
  NamedTensorType wanted = withDimFirst(type, dim);
  if (!haveSameElements(getType(), wanted))
    return emitOpError("(C2) the result is ")
           << getType() << ", expected " << wanted;
  return success();
}

DimUse StackOp::getDimUse(StringRef) { return DimUse::parallel(); }

PartialUse StackOp::getPartialUse(unsigned, ReduceKind kind) {
  // What is written out reads zeros outside of what it takes.
  return kind == ReduceKind::Sum ? PartialUse::Joint : PartialUse::Complete;
}

bool StackOp::isWhole() {
  NamedTensorType type = getType();
  return type.getSharding() && type.findDim(getDim()) == 0 &&
         type.getSharding().getAxes(getDimAttr()).empty();
}

LocalResults StackOp::buildLocal(PartitionBuilder &builder, ValueRange shards) {
  if (!isWhole())
    return emitOpError("cannot be partitioned: expected choices by position "
                       "(nd-write-stacks makes them)");
  // All blocks are split as the result is, and stored in its order.
  NamedTensorType type =
      withoutDim(getType(), getDim()).withSharding(getType().getSharding());
  SmallVector<Value> parts;
  for (auto [input, shard] : llvm::zip_equal(getInputs(), shards)) {
    Value part = shard;
    if (getTensorType(input).getDims() != type.getDims())
      part = builder.buildPointwise(
          type, {{shard, getTensorType(input)}},
          [](OpBuilder &, Location, ValueRange scalars,
             PartitionBuilder::GlobalIndex) { return scalars.front(); });
    parts.push_back(part);
  }
  Value stacked =
      spmd::StackOp::create(builder.getBuilder(), builder.getLoc(),
                            getLocalType(getType(), builder.getMesh()), parts);
  return SmallVector{stacked};
}

LogicalResult spmd::StackOp::verify() {
  if (getParts().empty())
    return emitOpError("(C1) has no operand");
  auto part = cast<RankedTensorType>(getParts().front().getType());
  for (Type type : getParts().getTypes())
    if (type != part)
      return emitOpError("(C1) has operands of the types ")
             << part << " and " << type;
  SmallVector<int64_t> shape = {int64_t(getParts().size())};
  llvm::append_range(shape, part.getShape());
  if (getType() != RankedTensorType::get(shape, part.getElementType()))
    return emitOpError("(C2) makes ")
           << getType() << " of " << getParts().size() << " operands " << part;
  return success();
}

PrecisionUse StackOp::getPrecisionUse() { return PrecisionUse::Follow; }

llvm::FPClassTest StackOp::getResultClasses(ArrayRef<llvm::FPClassTest> x) {
  llvm::FPClassTest all = llvm::fcNone;
  for (llvm::FPClassTest classes : x)
    all |= classes;
  return all;
}

SmallVector<Value> StackOp::buildGradients(GradientBuilder &builder,
                                           ValueRange arrived) {
  SmallVector<Value> gradients(getInputs().size());
  if (!isa<FloatType>(getType().getElementType()))
    return gradients;
  // The gradient may be stored in another order.
  auto unstack = UnstackOp::create(builder, getGradientLoc(*this, getResult()),
                                   arrived.front(), getDimAttr());
  llvm::copy(unstack.getResults(), gradients.begin());
  return gradients;
}

//===-- nd.unstack --------------------------------------------------------===//

void UnstackOp::build(OpBuilder &builder, OperationState &state, Value input,
                      StringAttr dim) {
  NamedTensorType type = getTensorType(input);
  int64_t count = type.getSizes()[type.findDim(dim.getValue())];
  SmallVector<Type> results(count, withoutDim(type, dim.getValue()));
  build(builder, state, results, input, dim);
}

LogicalResult UnstackOp::verify() {
  NamedTensorType type = getInput().getType();
  int64_t position = type.findDim(getDim());
  if (position < 0)
    return emitOpError("(C1) the operand has no dimension \"")
           << getDim() << "\"";
  if (int64_t(getNumResults()) != type.getSizes()[position])
    return emitOpError("(C1) there are ")
           << getNumResults() << " results, expected "
           << type.getSizes()[position];
  NamedTensorType wanted = withoutDim(type, getDim());
  for (Type result : getResultTypes())
    if (result != wanted)
      return emitOpError("(C2) a result is ")
             << result << ", expected " << wanted;
  return success();
}

PrecisionUse UnstackOp::getPrecisionUse() { return PrecisionUse::Move; }

llvm::FPClassTest UnstackOp::getResultClasses(ArrayRef<llvm::FPClassTest> x) {
  return x[0];
}

SmallVector<Value> UnstackOp::buildGradients(GradientBuilder &builder,
                                             ValueRange arrived) {
  NamedTensorType type = withoutDim(getInput().getType(), getDim());
  if (!isa<FloatType>(type.getElementType()))
    return {Value()};
  Location loc = getGradientLoc(*this, getInput());
  SmallVector<Value> gradients;
  Value zero;
  for (Value gradient : arrived) {
    if (!gradient && !zero)
      zero = ConstantOp::create(builder, loc, type,
                                FloatAttr::get(type.getElementType(), 0));
    if (!gradient)
      gradient = zero;
    // All of them are stored in one order.
    if (gradient.getType() != type)
      gradient = ReduceOp::create(builder, loc, type, Reduction::Sum, gradient);
    gradients.push_back(gradient);
  }
  return {StackOp::create(builder, loc, getDimAttr(), gradients)};
}
