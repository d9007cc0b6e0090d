#ifndef MESHC_DIALECT_LOCATIONS_H
#define MESHC_DIALECT_LOCATIONS_H

#include "dialect/ND.h"

#include <optional>
#include <string>

/// What a location says about a value: where the spec put it, what it is called
/// and which part of a training step it belongs to. They are nested in one MLIR
/// location, outermost first:
///
///   fused<#nd.phase<backward>>["h"("mlp.mesh":21:11 to :48)]
///
/// What is computed on the way to a named value and has no name of its own is
/// said to be inside it: the product in `let h = relu(einsum(x, w) + b)` is
///
///   fused<"inside">["h"("mlp.mesh":21:16 to :40)]
///
/// Rewrites that replace an operation keep its location, so they keep these.
namespace meshc {

/// Position of a value in the spec; lines and columns count from 1,
/// `endColumn` is one past the last character.
struct SourceSpan {
  std::string file;
  unsigned line = 0, column = 0, endLine = 0, endColumn = 0;

  bool operator==(const SourceSpan &) const = default;
};

/// First file position inside `loc`; nothing if it has none.
std::optional<SourceSpan> getSpan(mlir::Location loc);
/// First name inside `loc`; empty if it has none.
llvm::StringRef getValueName(mlir::Location loc);
/// Whether `loc` is of something inside the value that getValueName names.
bool isInside(mlir::Location loc);
/// Forward unless `loc` says otherwise.
nd::Phase getPhase(mlir::Location loc);

mlir::Location withSpan(mlir::MLIRContext *context, const SourceSpan &span);
/// `loc` as that of the value `name`; its position and phase stay.
mlir::Location withName(mlir::Location loc, const llvm::Twine &name);
/// `loc` as that of something inside the value `name`.
mlir::Location withNameInside(mlir::Location loc, const llvm::Twine &name);
/// `loc` in another phase; its position and name stay.
mlir::Location withPhase(mlir::Location loc, nd::Phase phase);

/// Where the gradient of `operand` through `op` comes from: the position of
/// `op`, the backward phase, and the name "gradient of h" for the operand h.
/// The gradient of an operand without a name, or of one that is inside h, is
/// inside the gradient of the result of `op`, or of h.
mlir::Location getGradientLoc(mlir::Operation *op, mlir::Value operand);

} // namespace meshc

#endif
