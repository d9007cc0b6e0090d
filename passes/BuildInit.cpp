#include "dialect/Locations.h"
#include "passes/Passes.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

namespace meshc {
#define GEN_PASS_DEF_BUILDINIT
#include "passes/Passes.h.inc"
} // namespace meshc

static TypedAttr getNumber(Type elementType, FloatAttr value) {
  double number = value.getValueAsDouble();
  if (isa<FloatType>(elementType))
    return FloatAttr::get(elementType, number);
  return IntegerAttr::get(elementType, int64_t(number));
}

static Value buildInitial(OpBuilder &builder, VariableOp variable, Value seed) {
  Location loc = variable.getLoc();
  NamedTensorType type = variable.getTensorType();
  if (auto fill = dyn_cast<FillAttr>(variable.getInit()))
    return ConstantOp::create(
        builder, loc, type, getNumber(type.getElementType(), fill.getValue()));
  auto random = cast<RandomAttr>(variable.getInit());
  auto distribution =
      DistributionAttr::get(builder.getContext(), random.getDistribution());
  return RandomOp::create(
      builder, loc, type, distribution, seed, /*part=*/Value(),
      builder.getI64IntegerAttr(getRandomKey(variable.getSymName())),
      builder.getF64FloatAttr(random.getFirst().getValueAsDouble()),
      builder.getF64FloatAttr(random.getSecond().getValueAsDouble()),
      /*order=*/ArrayAttr(), /*parts=*/builder.getI64IntegerAttr(1),
      /*parted=*/ArrayAttr());
}

/// The seed that @init has if random numbers are drawn in an expression.
static Value findSeed(ProgramOp init) {
  for (auto input : init.getOps<InputOp>())
    if (input.getName() == InputOp::seedName)
      return input.getResult();
  return {};
}

namespace {
struct BuildInit : meshc::impl::BuildInitBase<BuildInit> {
  using BuildInitBase::BuildInitBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    auto programs = module.getOps<ProgramOp>();
    if (!programs.empty())
      builder.setInsertionPoint(*programs.begin());
    // It is there if a variable starts as an expression.
    auto program = module.lookupSymbol<ProgramOp>("init");
    if (!program)
      program = ProgramOp::create(builder, module.getLoc(), "init");
    builder.setInsertionPointToStart(&program.getBody().front());
    auto scalar = NamedTensorType::get({}, builder.getI64Type());
    Value seed = findSeed(program);
    if (!seed)
      seed =
          InputOp::create(builder, module.getLoc(), scalar, InputOp::seedName);
    builder.setInsertionPointAfterValue(seed);
    for (auto variable : module.getOps<VariableOp>())
      // What one part leaves for the next, the first part sets.
      if (!isa<FlatSymbolRefAttr>(variable.getInit()) &&
          variable.getRole() != VariableRole::InStep)
        WriteOp::create(builder, variable.getLoc(), variable.getSymName(),
                        buildInitial(builder, variable, seed));
    // A running mean starts as what it is of.
    builder.setInsertionPointToEnd(&program.getBody().front());
    for (auto write : SmallVector<WriteOp>(program.getOps<WriteOp>()))
      if (VariableOp mean = findMean(module, write.getVariable()))
        WriteOp::create(builder, mean.getLoc(), mean.getSymName(),
                        write.getValue());
  }
};
} // namespace
