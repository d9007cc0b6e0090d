#include "tests/end_to_end/ModelBuilder.h"

#include "tests/dialect/Updates.h"

#include <numbers>

using namespace mlir;
using namespace meshc;
using namespace meshc::test;

static nd::NamedTensorType typeOf(Value value) {
  return cast<nd::NamedTensorType>(value.getType());
}

ModelBuilder::ModelBuilder(MLIRContext &context,
                           std::map<std::string, int64_t> sizes)
    : builder(&context), sizes(std::move(sizes)) {
  Location loc = builder.getUnknownLoc();
  model.module = ModuleOp::create(loc);
  builder.setInsertionPointToEnd(model.module->getBody());
  for (const auto &[name, size] : this->sizes)
    nd::DimOp::create(builder, loc, name, size);
  program = nd::ProgramOp::create(builder, loc, "forward");
  builder.setInsertionPointToEnd(&program.getBody().front());
}

nd::NamedTensorType ModelBuilder::getType(Dims dims, Type elementType) {
  SmallVector<nd::DimAttr> attrs;
  for (StringRef dim : dims)
    attrs.push_back(
        nd::DimAttr::get(builder.getStringAttr(dim), sizes.at(dim.str())));
  return nd::NamedTensorType::get(attrs, elementType);
}

SmallVector<StringRef> ModelBuilder::getOthers(Value value, StringRef dim) {
  SmallVector<StringRef> others;
  for (nd::DimAttr other : typeOf(value).getDims())
    if (other.getName() != dim)
      others.push_back(other.getName());
  return others;
}

//===-- Sources -----------------------------------------------------------===//

Value ModelBuilder::input(StringRef name, Dims dims, Model::Bounds bounds) {
  model.bounds[name.str()] = bounds;
  return nd::InputOp::create(builder, builder.getUnknownLoc(),
                             getType(dims, builder.getF64Type()), name);
}

Value ModelBuilder::indexInput(StringRef name, Dims dims, int64_t bound) {
  model.bounds[name.str()] = {0, double(bound)};
  return nd::InputOp::create(builder, builder.getUnknownLoc(),
                             getType(dims, builder.getI32Type()), name, bound);
}

Value ModelBuilder::indexInput(StringRef name, Dims dims,
                               Model::Bounds bounds) {
  model.bounds[name.str()] = bounds;
  return nd::InputOp::create(builder, builder.getUnknownLoc(),
                             getType(dims, builder.getI32Type()), name);
}

Value ModelBuilder::dataInput(StringRef name, Dims dims, Type elementType) {
  const double count = std::ldexp(1, int(elementType.getIntOrFloatBitWidth()));
  const double low = elementType.isUnsignedInteger() ? 0 : -count / 2;
  model.bounds[name.str()] = {low, low + count};
  return nd::InputOp::create(builder, builder.getUnknownLoc(),
                             getType(dims, elementType), name);
}

Value ModelBuilder::parameter(StringRef name, Dims dims) {
  nd::NamedTensorType type = getType(dims, builder.getF64Type());
  OpBuilder outside(program);
  // Never used: tests give parameters random values.
  nd::VariableOp::create(
      outside, builder.getUnknownLoc(), name, nd::VariableRole::Parameter, type,
      nd::RandomAttr::get(builder.getContext(), nd::Distribution::Normal,
                          builder.getF64FloatAttr(0),
                          builder.getF64FloatAttr(0.5)));
  return nd::ReadOp::create(builder, builder.getUnknownLoc(), type, name);
}

Value ModelBuilder::constant(double value, Dims dims) {
  return nd::ConstantOp::create(builder, builder.getUnknownLoc(),
                                getType(dims, builder.getF64Type()),
                                builder.getF64FloatAttr(value));
}

Value ModelBuilder::iota(StringRef dim) {
  return nd::IotaOp::create(builder, builder.getUnknownLoc(),
                            getType(dim, builder.getI32Type()));
}

Value ModelBuilder::random(nd::Distribution distribution, Dims dims, Value seed,
                           int64_t key, double first, double second,
                           Dims order) {
  return nd::RandomOp::create(
      builder, builder.getUnknownLoc(), getType(dims, builder.getF64Type()),
      distribution, seed, mlir::Value(), key, llvm::APFloat(first),
      llvm::APFloat(second),
      order.empty() ? mlir::ArrayAttr() : builder.getStrArrayAttr(order),
      /*parts=*/1, /*parted=*/mlir::ArrayAttr());
}

//===-- Operations --------------------------------------------------------===//

Value ModelBuilder::scale(Value x, double factor) {
  return make<nd::MulOp>(x, constant(factor));
}

Value ModelBuilder::compare(nd::Predicate predicate, Value lhs, Value rhs) {
  return nd::CompareOp::create(builder, builder.getUnknownLoc(), predicate, lhs,
                               rhs);
}

Value ModelBuilder::cast(Value x, Type elementType) {
  return nd::CastOp::create(builder, builder.getUnknownLoc(), x, elementType);
}

Value ModelBuilder::einsum(ValueRange inputs, Dims dims) {
  return nd::EinsumOp::create(
      builder, builder.getUnknownLoc(),
      getType(dims, typeOf(inputs.front()).getElementType()), inputs);
}

Value ModelBuilder::reduce(nd::Reduction kind, Value x, Dims dims) {
  return nd::ReduceOp::create(builder, builder.getUnknownLoc(),
                              getType(dims, typeOf(x).getElementType()), kind,
                              x);
}

Value ModelBuilder::argReduce(nd::ArgKind kind, Value x, StringRef dim) {
  return nd::ArgReduceOp::create(
      builder, builder.getUnknownLoc(),
      getType(getOthers(x, dim), builder.getI32Type()), kind, dim, x);
}

Value ModelBuilder::broadcast(Value x, Dims dims) {
  return nd::BroadcastOp::create(builder, builder.getUnknownLoc(),
                                 getType(dims, typeOf(x).getElementType()), x);
}

Value ModelBuilder::rename(Value x, StringRef from, StringRef to) {
  return nd::RenameOp::create(builder, builder.getUnknownLoc(), x, from, to);
}

Value ModelBuilder::constrain(Value x, StringRef dim, StringRef axis) {
  MLIRContext *context = builder.getContext();
  SmallVector<nd::DimSplitAttr> splits;
  if (!dim.empty())
    splits.push_back(nd::DimSplitAttr::get(
        context, builder.getStringAttr(dim),
        nd::AxisRefAttr::get(context, builder.getStringAttr(axis), 0, 0)));
  nd::NamedTensorType type = typeOf(x).withoutSharding();
  return nd::ReshardOp::create(builder, builder.getUnknownLoc(),
                               Type(type.withSharding(nd::ShardingAttr::get(
                                   context, splits, std::nullopt, {}))),
                               x, ArrayAttr());
}

Value ModelBuilder::gather(Value x, Value index, StringRef dim) {
  SmallVector<StringRef> dims = getOthers(index, dim);
  for (StringRef other : getOthers(x, dim))
    if (!llvm::is_contained(dims, other))
      dims.push_back(other);
  return nd::GatherOp::create(builder, builder.getUnknownLoc(),
                              getType(dims, typeOf(x).getElementType()), x,
                              index, dim);
}

Value ModelBuilder::view(Value x, StringRef dim, const layout::Access &access,
                         Dims loops) {
  SmallVector<StringRef> dims = getOthers(x, dim);
  SmallVector<StringAttr> names;
  for (StringRef loop : loops) {
    names.push_back(builder.getStringAttr(loop));
    if (!llvm::is_contained(dims, loop))
      dims.push_back(loop);
  }
  auto attr = nd::AccessAttr::get(builder.getStringAttr(dim),
                                  nd::DimAccess(access, names));
  return nd::ViewOp::create(builder, builder.getUnknownLoc(),
                            getType(dims, typeOf(x).getElementType()), x,
                            builder.getArrayAttr({attr}));
}

Value ModelBuilder::stack(ValueRange parts, StringRef dim) {
  return nd::StackOp::create(builder, builder.getUnknownLoc(),
                             builder.getStringAttr(dim), parts);
}

ResultRange ModelBuilder::unstack(Value x, StringRef dim) {
  return nd::UnstackOp::create(builder, builder.getUnknownLoc(), x,
                               builder.getStringAttr(dim))
      .getResults();
}

ResultRange ModelBuilder::loop(StringRef dim, ValueRange initial,
                               ValueRange sliced,
                               llvm::function_ref<Iteration(ValueRange)> body) {
  Location loc = builder.getUnknownLoc();
  Region region;
  Block &block = region.emplaceBlock();
  block.addArgument(nd::NamedTensorType::get({}, builder.getI32Type()), loc);
  block.addArguments(initial.getTypes(),
                     SmallVector<Location>(initial.size(), loc));
  for (Value value : sliced)
    block.addArgument(nd::withoutDim(typeOf(value), dim), loc);
  OpBuilder::InsertPoint outside = builder.saveInsertionPoint();
  builder.setInsertionPointToEnd(&block);
  Iteration iteration = body(block.getArguments());
  nd::YieldOp::create(builder, loc, iteration.carried, iteration.stacked,
                      iteration.summed);
  builder.restoreInsertionPoint(outside);
  SmallVector<Type> types(initial.getTypes());
  nd::DimAttr attr = getType({dim}, builder.getI32Type()).getDims().front();
  for (Value value : iteration.stacked)
    types.push_back(nd::withDimFirst(typeOf(value), attr));
  for (Value value : iteration.summed)
    types.push_back(value.getType());
  auto op = nd::LoopOp::create(builder, loc, types, attr, initial, sliced);
  op.getBody().takeBody(region);
  return op.getResults();
}

//===-- What a library would have -----------------------------------------===//

Value ModelBuilder::softmax(Value x, StringRef dim) {
  SmallVector<StringRef> others = getOthers(x, dim);
  Value highest =
      make<nd::StopGradientOp>(reduce(nd::Reduction::Max, x, others));
  Value e = make<nd::ExpOp>(make<nd::SubOp>(x, highest));
  return make<nd::DivOp>(e, reduce(nd::Reduction::Sum, e, others));
}

Value ModelBuilder::layerNorm(Value x, StringRef dim, Value gain, Value bias) {
  SmallVector<StringRef> others = getOthers(x, dim);
  Value centered = make<nd::SubOp>(x, reduce(nd::Reduction::Mean, x, others));
  Value variance =
      reduce(nd::Reduction::Mean, make<nd::MulOp>(centered, centered), others);
  Value scaled = make<nd::MulOp>(
      centered, make<nd::RsqrtOp>(make<nd::AddOp>(variance, constant(1e-5))));
  return make<nd::AddOp>(make<nd::MulOp>(scaled, gain), bias);
}

Value ModelBuilder::relu(Value x) {
  return make<nd::MaximumOp>(x, constant(0));
}

Value ModelBuilder::gelu(Value x) {
  Value erf = make<nd::ErfOp>(scale(x, 1 / std::numbers::sqrt2));
  return make<nd::MulOp>(scale(x, 0.5), make<nd::AddOp>(erf, constant(1)));
}

Value ModelBuilder::crossEntropy(Value logits, Value label, StringRef dim) {
  SmallVector<StringRef> others = getOthers(logits, dim);
  Value highest =
      make<nd::StopGradientOp>(reduce(nd::Reduction::Max, logits, others));
  Value shifted = make<nd::SubOp>(logits, highest);
  Value sum = reduce(nd::Reduction::Sum, make<nd::ExpOp>(shifted), others);
  return make<nd::SubOp>(make<nd::LogOp>(sum), gather(shifted, label, dim));
}

//===-- Border ------------------------------------------------------------===//

void ModelBuilder::output(StringRef name, Value value) {
  nd::OutputOp::create(builder, builder.getUnknownLoc(), name, value);
}

void ModelBuilder::write(StringRef variable, Value value) {
  nd::WriteOp::create(builder, builder.getUnknownLoc(), variable, value);
}

void ModelBuilder::train(StringRef minimize, StringRef optimizer,
                         std::map<std::string, double> hyper) {
  OpBuilder outside(program);
  nd::TrainingOp::create(outside, builder.getUnknownLoc(), minimize, optimizer,
                         1, 0,
                         /*parts=*/1, /*recompute=*/mlir::ArrayAttr(),
                         /*recomputed=*/mlir::ArrayAttr(),
                         /*rates=*/mlir::ArrayAttr());
  UpdateBuilder::add(*model.module, optimizer, hyper);
}

Model ModelBuilder::take() { return std::move(model); }
