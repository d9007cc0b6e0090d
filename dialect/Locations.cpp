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

/// `loc` without the layers that this file adds.
static Location getPosition(Location loc) {
  if (auto fused = dyn_cast<FusedLoc>(loc))
    if (isa_and_nonnull<nd::PhaseAttr>(fused.getMetadata()) &&
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

Location meshc::withName(Location loc, const Twine &name) {
  Location named =
      NameLoc::get(StringAttr::get(loc.getContext(), name), getPosition(loc));
  nd::Phase phase = getPhase(loc);
  return phase == nd::Phase::Forward ? named : withPhase(named, phase);
}

Location meshc::withPhase(Location loc, nd::Phase phase) {
  StringRef name = getValueName(loc);
  Location inner = getPosition(loc);
  if (!name.empty())
    inner = NameLoc::get(StringAttr::get(loc.getContext(), name), inner);
  return FusedLoc::get({inner}, nd::PhaseAttr::get(loc.getContext(), phase),
                       loc.getContext());
}

Location meshc::getGradientLoc(Operation *op, Value operand) {
  Location loc = withPhase(op->getLoc(), nd::Phase::Backward);
  StringRef ofOperand = getValueName(operand.getLoc());
  if (!ofOperand.empty())
    return withName(loc, "gradient of " + ofOperand);
  StringRef ofResult = getValueName(op->getLoc());
  return ofResult.empty() ? loc : withName(loc, "gradient inside " + ofResult);
}
