#include "dialect/Locations.h"
#include "passes/Passes.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

namespace meshc {
#define GEN_PASS_DEF_BUILDINIT
#include "passes/Passes.h.inc"
} // namespace meshc

/// 64-bit FNV-1a of a variable's name: its random numbers depend on what it is
/// called, not on where it stands.
/// Source: Fowler, Noll, Vo: draft-eastlake-fnv, offset basis and prime of 64
/// bits.
static uint64_t hashName(StringRef name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char byte : name)
    hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

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
      builder, loc, type, distribution, seed,
      builder.getI64IntegerAttr(int64_t(hashName(variable.getSymName()))),
      builder.getF64FloatAttr(random.getFirst().getValueAsDouble()),
      builder.getF64FloatAttr(random.getSecond().getValueAsDouble()));
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
    auto program = ProgramOp::create(builder, module.getLoc(), "init");
    builder.setInsertionPointToStart(&program.getBody().front());
    auto scalar = NamedTensorType::get({}, builder.getI64Type());
    Value seed = InputOp::create(builder, module.getLoc(), scalar, "seed");
    for (auto variable : module.getOps<VariableOp>())
      WriteOp::create(builder, variable.getLoc(), variable.getSymName(),
                      buildInitial(builder, variable, seed));
  }
};
} // namespace
