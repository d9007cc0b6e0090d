#include "dialect/Locations.h"

using namespace mlir;
using namespace meshc;

/// Calls `visit` on `loc` and every location inside it, outermost first, until
/// it returns true.
static bool visitNested(Location loc,
                        llvm::function_ref<bool(Location)> visit) {
  if (visit(loc))
    return true;
  if (auto fused = dyn_cast<FusedLoc>(loc))
    return llvm::any_of(fused.getLocations(), [&](Location inner) {
      return visitNested(inner, visit);
    });
  if (auto named = dyn_cast<NameLoc>(loc))
    return visitNested(named.getChildLoc(), visit);
  if (auto call = dyn_cast<CallSiteLoc>(loc))
    return visitNested(call.getCallee(), visit);
  return false;
}

std::optional<SourceSpan> meshc::getSpan(Location loc) {
  std::optional<SourceSpan> span;
  visitNested(loc, [&](Location inner) {
    auto range = dyn_cast<FileLineColRange>(inner);
    if (!range)
      return false;
    span = SourceSpan{range.getFilename().str(), range.getStartLine(),
                      range.getStartColumn(), range.getEndLine(),
                      range.getEndColumn()};
    return true;
  });
  return span;
}

StringRef meshc::getValueName(Location loc) {
  StringRef name;
  visitNested(loc, [&](Location inner) {
    auto named = dyn_cast<NameLoc>(inner);
    if (named)
      name = named.getName().getValue();
    return bool(named);
  });
  return name;
}

nd::Phase meshc::getPhase(Location loc) {
  nd::Phase phase = nd::Phase::Forward;
  visitNested(loc, [&](Location inner) {
    auto fused = dyn_cast<FusedLoc>(inner);
    auto attr =
        fused ? dyn_cast_or_null<nd::PhaseAttr>(fused.getMetadata()) : nullptr;
    if (attr)
      phase = attr.getValue();
    return bool(attr);
  });
  return phase;
}

/// Marks what is inside a value, as the metadata of a fused location.
static constexpr llvm::StringLiteral insideMark = "inside";

static bool hasInsideMark(Location loc) {
  auto fused = dyn_cast<FusedLoc>(loc);
  auto mark =
      fused ? dyn_cast_or_null<StringAttr>(fused.getMetadata()) : nullptr;
  return mark && mark.getValue() == insideMark;
}

bool meshc::isInside(Location loc) { return visitNested(loc, hasInsideMark); }

/// `loc` without the layers that this file adds.
static Location getPosition(Location loc) {
  if (auto fused = dyn_cast<FusedLoc>(loc))
    if ((isa_and_nonnull<nd::PhaseAttr>(fused.getMetadata()) ||
         hasInsideMark(loc)) &&
        fused.getLocations().size() == 1)
      return getPosition(fused.getLocations().front());
  if (auto named = dyn_cast<NameLoc>(loc))
    return getPosition(named.getChildLoc());
  return loc;
}

Location meshc::withSpan(MLIRContext *context, const SourceSpan &span) {
  return FileLineColRange::get(StringAttr::get(context, span.file), span.line,
                               span.column, span.endLine, span.endColumn);
}

/// Puts the layers of this file around a position, innermost first.
static Location build(Location position, StringAttr name, bool isInside,
                      nd::Phase phase) {
  MLIRContext *context = position.getContext();
  Location loc = position;
  if (!name.empty())
    loc = NameLoc::get(name, loc);
  if (isInside)
    loc = FusedLoc::get({loc}, StringAttr::get(context, insideMark), context);
  if (phase != nd::Phase::Forward)
    loc = FusedLoc::get({loc}, nd::PhaseAttr::get(context, phase), context);
  return loc;
}

Location meshc::withName(Location loc, const Twine &name) {
  return build(getPosition(loc), StringAttr::get(loc.getContext(), name),
               /*isInside=*/false, getPhase(loc));
}

Location meshc::withNameInside(Location loc, const Twine &name) {
  return build(getPosition(loc), StringAttr::get(loc.getContext(), name),
               /*isInside=*/true, getPhase(loc));
}

Location meshc::withPhase(Location loc, nd::Phase phase) {
  return build(getPosition(loc),
               StringAttr::get(loc.getContext(), getValueName(loc)),
               isInside(loc), phase);
}

Location meshc::getGradientLoc(Operation *op, Value operand) {
  Location loc = withPhase(op->getLoc(), nd::Phase::Backward);
  StringRef ofOperand = getValueName(operand.getLoc());
  if (!ofOperand.empty() && !isInside(operand.getLoc()))
    return withName(loc, "gradient of " + ofOperand);
  StringRef outer = ofOperand.empty() ? getValueName(op->getLoc()) : ofOperand;
  return outer.empty() ? loc : withNameInside(loc, "gradient of " + outer);
}
