#ifndef MESHC_DIALECT_ACCESSSYNTAX_H
#define MESHC_DIALECT_ACCESSSYNTAX_H

#include "mlir/IR/OpImplementation.h"

/// The syntax of accesses that the views of both dialects have:
/// ["y" = 2 "row" + "dy" - 1, "x" = "col"].
namespace meshc::nd {

mlir::ParseResult parseAccesses(mlir::OpAsmParser &parser,
                                mlir::ArrayAttr &accesses);
void printAccesses(mlir::OpAsmPrinter &printer, mlir::Operation *,
                   mlir::ArrayAttr accesses);

} // namespace meshc::nd

#endif
