#ifndef MESHC_DIALECT_LOCATIONS_H
#define MESHC_DIALECT_LOCATIONS_H

#include "dialect/ND.h"

#include <optional>
#include <string>

/// What a location carries: where the spec put a value, and its origin, which
/// is an attribute (#nd.origin): the value that an operation is for, with the
/// calls and loops around it, what it is to that value, and its part of a
/// training step. The origin is the metadata of the location:
///
///   loc(fused<#nd.origin<backward "b1"/"h">>["mlp.mesh":21:11 to :48])
///
/// A discardable attribute of the operation would be lost in the rewrites of
/// MLIR, which know nothing of it, and block arguments have none; locations are
/// handed on by all of them. Nothing else of a location is read, no text of it
/// is taken apart.
///
/// What is computed on the way to a named value and has no name of its own is
/// inside of it: the product in `let h = relu(einsum(x, w) + b)` is inside h.
/// What meshc adds says what it is to the value (nd::OriginPart): a copy of h.
///
/// An operation that a library or memory asks for, not the spec, has the
/// attribute `nd.remark` as well (#nd.remark): where its result is stored, that
/// is told. It has no name in it, so that equal kernels are equal.
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
/// The origin of `loc`; null if it says nothing.
nd::OriginAttr getOrigin(mlir::Location loc);

/// The same; where `loc` names nothing that of a value called `name`.
nd::OriginAttr getOrigin(mlir::Location loc, const llvm::Twine &name);

/// What plans call the value of `loc`, OriginAttr::getText(); empty without
/// one.
std::string getValueName(mlir::Location loc);
/// Whether `loc` is of something on the way to the value that getValueName
/// names.
bool isInside(mlir::Location loc);
/// Whether `loc` is of a value that has a name, not only of something on the
/// way to it.
bool hasName(mlir::Location loc);
/// Forward unless `loc` says otherwise.
nd::Phase getPhase(mlir::Location loc);
/// The iteration that `loc` is in, the outermost; else the call, the outermost;
/// null if it is in none: what has weights of its own in a deep model.
nd::ScopeAttr getLayer(mlir::Location loc);

mlir::Location withSpan(mlir::MLIRContext *context, const SourceSpan &span);
/// `loc` with this origin, whatever it had; its position stays.
mlir::Location withOrigin(mlir::Location loc, nd::OriginAttr origin);
/// `loc` as that of the value `name`, which is in no scope; its position and
/// phase stay.
mlir::Location withName(mlir::Location loc, const llvm::Twine &name);
/// `loc` as that of the value `name` of `scope`, such as the step that "adam"
/// counts; its position and phase stay.
mlir::Location withName(mlir::Location loc, llvm::StringRef scope,
                        llvm::StringRef name);
/// `loc` as that of the origin's value, in the phase of `loc`.
mlir::Location withName(mlir::Location loc, nd::OriginAttr origin);
/// `loc` as that of something inside the value that it is called after; as it
/// is if it has no name.
mlir::Location asInside(mlir::Location loc);
/// `loc` as that of something inside of what `outer` is called after.
mlir::Location asInside(mlir::Location loc, nd::OriginAttr outer);
/// `loc` as that of a part of what it is called after, or of what `outer` is;
/// as it is if that has no name. A copy of something inside a value is inside
/// of it, too, and no copy of the value; so is a padded form.
mlir::Location asPart(mlir::Location loc, nd::OriginPart part);
mlir::Location asPart(mlir::Location loc, nd::OriginAttr outer,
                      nd::OriginPart part);
/// `loc` in another phase; its position and name stay.
mlir::Location withPhase(mlir::Location loc, nd::Phase phase);
/// `loc` as that of the gradient of its value, in the backward phase.
mlir::Location asGradient(mlir::Location loc);

/// Where the gradient of `operand` through `op` comes from: the position of
/// `op`, the backward phase, and the name "gradient of h" for the operand h.
/// The gradient of an operand without a name, or of one that is inside h, is
/// inside the gradient of the result of `op`, or of h.
mlir::Location getGradientLoc(mlir::Operation *op, mlir::Value operand);

} // namespace meshc

#endif
