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

namespace {
/// Names tensor types by their dimensions: `!batch_by_hidden`.
struct TypeAliases : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;

  AliasResult getAlias(Type type, raw_ostream &os) const override {
    auto tensor = dyn_cast<NamedTensorType>(type);
    if (!tensor)
      return AliasResult::NoAlias;
    if (tensor.getDims().empty())
      os << "scalar";
    llvm::interleave(
        tensor.getDims(), os,
        [&](DimAttr dim) { os << dim.getName().getValue(); }, "_by_");
    if (!tensor.getElementType().isF32())
      os << "_" << tensor.getElementType();
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

Operation *NDDialect::materializeConstant(OpBuilder &builder, Attribute value,
                                          Type type, Location loc) {
  return ConstantOp::create(builder, loc, type, cast<TypedAttr>(value));
}
