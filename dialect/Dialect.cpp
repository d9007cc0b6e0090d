#include "dialect/ND.h"
#include "dialect/SPMD.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace meshc::nd;

#include "dialect/NDDialect.cpp.inc"

#include "dialect/NDEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialect/NDAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialect/NDTypes.cpp.inc"

#include "dialect/NDInterfaces.cpp.inc"

static void printAxes(ArrayRef<AxisRefAttr> axes, raw_ostream &os) {
  llvm::interleave(
      axes, os,
      [&](AxisRefAttr axis) {
        os << axis.getName().getValue();
        if (axis.getSize())
          os << axis.getPre() << "x" << axis.getSize();
      },
      "_");
}

namespace {
/// Names tensor types by their dimensions, `!batch_by_hidden`, and by what the
/// sharding adds to them: `!batch_at_data_by_hidden_sum_over_model`, or
/// `!y_window_at_rows`.
struct TypeAliases : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;

  AliasResult getAlias(Type type, raw_ostream &os) const override {
    auto tensor = dyn_cast<NamedTensorType>(type);
    if (!tensor)
      return AliasResult::NoAlias;
    ShardingAttr sharding = tensor.getSharding();
    if (tensor.getDims().empty())
      os << "scalar";
    llvm::interleave(
        tensor.getDims(), os,
        [&](DimAttr dim) {
          os << dim.getName().getValue();
          if (!sharding || sharding.getAxes(dim.getName()).empty())
            return;
          os << (sharding.getWindow(dim.getName()) ? "_window_at_" : "_at_");
          printAxes(sharding.getAxes(dim.getName()), os);
        },
        "_by_");
    if (!tensor.getElementType().isF32())
      os << "_" << tensor.getElementType();
    if (tensor.isPartial()) {
      os << "_" << stringifyReduceKind(*sharding.getPartialKind()) << "_over_";
      printAxes(sharding.getPartialAxes(), os);
    }
    return AliasResult::OverridableAlias;
  }
};
} // namespace

void NDDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/NDAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialect/NDTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialect/NDOps.cpp.inc"
      >();
  addInterfaces<TypeAliases>();
}

LogicalResult NDDialect::verifyOperationAttribute(Operation *op,
                                                  NamedAttribute attribute) {
  if (attribute.getName() == getRemarkAttrName() &&
      !isa<RemarkKindAttr>(attribute.getValue()))
    return op->emitOpError("'")
           << getRemarkAttrName() << "' is a #nd.remark, found "
           << attribute.getValue();
  return success();
}

Operation *NDDialect::materializeConstant(OpBuilder &builder, Attribute value,
                                          Type type, Location loc) {
  return ConstantOp::create(builder, loc, type, cast<TypedAttr>(value));
}
