#include "dialect/SPMD.h"

#include "dialect/AccessSyntax.h"

#include "layout/ReshardStep.h"

#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::spmd;

#include "dialect/SPMDDialect.cpp.inc"

#include "dialect/SPMDInterfaces.cpp.inc"

void SPMDDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialect/SPMDOps.cpp.inc"
      >();
}

void ProgramOp::build(OpBuilder &builder, OperationState &state,
                      StringRef name) {
  state.addAttribute(getSymNameAttrName(state.name),
                     builder.getStringAttr(name));
  state.addRegion()->emplaceBlock();
}

/// (C1) of the operations on the border of a program.
static LogicalResult verifyLocal(Operation *op, Type global, Type local) {
  auto named = dyn_cast<nd::NamedTensorType>(global);
  if (!named || !named.getSharding())
    return op->emitOpError("(C1) needs a sharded tensor type, found ")
           << global;
  layout::Mesh mesh = nd::getMesh(op);
  if (failed(nd::verifySharding(op, named, mesh, "(C1) ")))
    return failure();
  RankedTensorType expected = nd::getLocalType(named, mesh);
  if (expected != local)
    return op->emitOpError("(C1) one device holds ")
           << expected << " of " << global << ", found " << local;
  return success();
}

/// The tensor of which a device holds a block of variable `name`.
static nd::NamedTensorType getVariableType(Operation *op, StringRef name) {
  return op->getParentOfType<ModuleOp>()
      .lookupSymbol<nd::VariableOp>(name)
      .getTensorType();
}

LogicalResult InputOp::verify() {
  return verifyLocal(*this, getGlobal(), getType());
}

LogicalResult OutputOp::verify() {
  return verifyLocal(*this, getGlobal(), getValue().getType());
}

static LogicalResult verifyVariable(Operation *op, FlatSymbolRefAttr symbol,
                                    Type local, SymbolTableCollection &tables) {
  auto variable = tables.lookupNearestSymbolFrom<nd::VariableOp>(
      op->getParentOfType<ModuleOp>(), symbol);
  if (!variable)
    return op->emitOpError("(C1) there is no variable ") << symbol;
  return verifyLocal(op, variable.getType(), local);
}

LogicalResult ReadOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyVariable(*this, getVariableAttr(), getType(), tables);
}

LogicalResult WriteOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyVariable(*this, getVariableAttr(), getValue().getType(), tables);
}

LogicalResult AxisIndexOp::verify() {
  layout::Mesh mesh = nd::getMesh(*this);
  std::optional<int32_t> axis = mesh.findAxis(getAxis().getName().getValue());
  if (!axis)
    return emitOpError("(C1) the mesh has no axis ") << getAxis().getName();
  layout::Sharding sharding;
  sharding.dims = {{nd::getAxisRef(getAxis(), mesh)}};
  if (!layout::getViolation(mesh, sharding, 1).empty())
    return emitOpError("(C1) axis ")
           << getAxis().getName() << " of size " << mesh.getAxisSize(*axis)
           << " has no part (" << getAxis().getPre() << ")"
           << getAxis().getSize();
  return success();
}

//===-- Collectives -------------------------------------------------------===//

static LogicalResult verifyCollective(CollectiveOpInterface op) {
  nd::NamedTensorType source = op.getSourceType();
  nd::NamedTensorType target = op.getTargetType();
  if (!source.getSharding() || !target.getSharding() ||
      source.withoutSharding() != target.withoutSharding())
    return op->emitOpError(
        "(C1) source and target must be one tensor under two shardings");
  layout::Mesh mesh = nd::getMesh(op);
  for (nd::NamedTensorType type : {source, target})
    if (failed(nd::verifySharding(op, type, mesh, "(C1) ")))
      return failure();
  if (source.getSharding().hasWindow())
    return op->emitOpError("(C1) no device owns a part of a window");
  if (nd::getLocalType(source, mesh) != op.getInput().getType() ||
      nd::getLocalType(target, mesh) != op.getResult().getType())
    return op->emitOpError("(C2) expected local shapes ")
           << nd::getLocalType(source, mesh) << " and "
           << nd::getLocalType(target, mesh);
  // Terms of one kind say nothing about those of another.
  bool changesKind = source.isPartial() && target.isPartial() &&
                     source.getSharding().getPartialKind() !=
                         target.getSharding().getPartialKind();
  if (changesKind ||
      !layout::isReshardStep(mesh, source.getSizes(), op.getKind(),
                             nd::getSharding(source, mesh),
                             nd::getSharding(target, mesh)))
    return op->emitOpError("(C3) cannot take ")
           << nd::toString(source.getSharding()) << " to "
           << nd::toString(target.getSharding());
  return success();
}

CollectiveOpInterface spmd::createCollective(
    OpBuilder &builder, Location loc, layout::CollectiveKind kind, Value input,
    nd::NamedTensorType source, nd::NamedTensorType target, ArrayAttr causes) {
  Type type = nd::getLocalType(
      target, nd::getMesh(builder.getInsertionBlock()->getParentOp()));
  auto create = [&]<typename Op>() -> CollectiveOpInterface {
    return Op::create(builder, loc, type, input, source, target, causes);
  };
  switch (kind) {
  case layout::CollectiveKind::AllReduce:
    return create.operator()<AllReduceOp>();
  case layout::CollectiveKind::ReduceScatter:
    return create.operator()<ReduceScatterOp>();
  case layout::CollectiveKind::AllGather:
    return create.operator()<AllGatherOp>();
  case layout::CollectiveKind::AllToAll:
    return create.operator()<AllToAllOp>();
  case layout::CollectiveKind::Permute:
    return create.operator()<PermuteOp>();
  case layout::CollectiveKind::Exchange:
    return create.operator()<ExchangeOp>();
  case layout::CollectiveKind::Slice:
    return create.operator()<SliceOp>();
  }
  llvm_unreachable("not a collective kind");
}

// Of spmd.view.
using meshc::nd::parseAccesses;
using meshc::nd::printAccesses;

#define GET_OP_CLASSES
#include "dialect/SPMDOps.cpp.inc"
