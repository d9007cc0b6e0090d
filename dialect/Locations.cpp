#include "dialect/Locations.h"

using namespace mlir;
using namespace meshc;
using nd::OriginAttr;

/// The first file position inside `loc`, itself perhaps.
static FileLineColRange findRange(Location loc) {
  if (auto range = dyn_cast<FileLineColRange>(loc))
    return range;
  if (auto named = dyn_cast<NameLoc>(loc))
    return findRange(named.getChildLoc());
  if (auto call = dyn_cast<CallSiteLoc>(loc))
    return findRange(call.getCallee());
  if (auto fused = dyn_cast<FusedLoc>(loc))
    for (Location inner : fused.getLocations())
      if (FileLineColRange range = findRange(inner))
        return range;
  return {};
}

std::optional<SourceSpan> meshc::getSpan(Location loc) {
  FileLineColRange range = findRange(loc);
  if (!range)
    return std::nullopt;
  return SourceSpan{range.getFilename().str(), range.getStartLine(),
                    range.getStartColumn(), range.getEndLine(),
                    range.getEndColumn()};
}

OriginAttr meshc::getOrigin(Location loc) {
  auto fused = dyn_cast<FusedLoc>(loc);
  if (!fused)
    return {};
  if (auto origin = dyn_cast_or_null<OriginAttr>(fused.getMetadata()))
    return origin;
  // What MLIR has made one is for what the first was for.
  for (Location inner : fused.getLocations())
    if (OriginAttr origin = getOrigin(inner))
      return origin;
  return {};
}

OriginAttr meshc::getOrigin(Location loc, const Twine &name) {
  OriginAttr origin = getOrigin(loc);
  return origin && origin.hasName()
             ? origin
             : OriginAttr::get(nd::ScopeAttr(),
                               StringAttr::get(loc.getContext(), name));
}

std::string meshc::getValueName(Location loc) {
  OriginAttr origin = getOrigin(loc);
  return origin ? origin.getText() : "";
}

bool meshc::isInside(Location loc) {
  OriginAttr origin = getOrigin(loc);
  return origin && !origin.isItself();
}

bool meshc::hasName(Location loc) {
  OriginAttr origin = getOrigin(loc);
  return origin && origin.hasName() && origin.isItself();
}

nd::Phase meshc::getPhase(Location loc) {
  OriginAttr origin = getOrigin(loc);
  return origin ? origin.getPhase() : nd::Phase::Forward;
}

nd::ScopeAttr meshc::getLayer(Location loc) {
  OriginAttr origin = getOrigin(loc);
  nd::ScopeAttr layer;
  for (nd::ScopeAttr scope = origin ? origin.getScope() : nd::ScopeAttr();
       scope; scope = scope.getParent())
    if (!layer || scope.getIteration() >= 0 || layer.getIteration() < 0)
      layer = scope;
  return layer;
}

Location meshc::withSpan(MLIRContext *context, const SourceSpan &span) {
  return FileLineColRange::get(StringAttr::get(context, span.file), span.line,
                               span.column, span.endLine, span.endColumn);
}

/// `loc` without the origin around it.
static Location getPosition(Location loc) {
  auto fused = dyn_cast<FusedLoc>(loc);
  if (fused && isa_and_nonnull<OriginAttr>(fused.getMetadata()) &&
      fused.getLocations().size() == 1)
    return fused.getLocations().front();
  return loc;
}

/// The origin of `loc`, or one that says nothing.
static OriginAttr getOriginOrNone(Location loc) {
  if (OriginAttr origin = getOrigin(loc))
    return origin;
  return OriginAttr::get(nd::ScopeAttr(), StringAttr::get(loc.getContext()));
}

Location meshc::withOrigin(Location loc, OriginAttr origin) {
  Location position = getPosition(loc);
  if (!origin.hasName() && origin.getPhase() == nd::Phase::Forward)
    return position;
  return FusedLoc::get({position}, origin, loc.getContext());
}

Location meshc::withName(Location loc, OriginAttr origin) {
  return withOrigin(loc, origin.inPhase(getPhase(loc)));
}

Location meshc::withName(Location loc, const Twine &name) {
  return withName(loc,
                  OriginAttr::get(nd::ScopeAttr(),
                                  StringAttr::get(loc.getContext(), name)));
}

Location meshc::withName(Location loc, StringRef scope, StringRef name) {
  MLIRContext *context = loc.getContext();
  auto outer =
      nd::ScopeAttr::get(nd::ScopeAttr(), StringAttr::get(context, scope));
  return withName(loc, OriginAttr::get(outer, StringAttr::get(context, name)));
}

Location meshc::asInside(Location loc, OriginAttr outer) {
  return asPart(loc, outer, nd::OriginPart::Inside);
}

Location meshc::asInside(Location loc) { return asInside(loc, getOrigin(loc)); }

Location meshc::asPart(Location loc, OriginAttr outer, nd::OriginPart part) {
  if (!outer || !outer.hasName())
    return loc;
  const bool isForm =
      part == nd::OriginPart::Copy || part == nd::OriginPart::Padded;
  return withName(loc, outer.withPart(isForm && !outer.isItself()
                                          ? nd::OriginPart::Inside
                                          : part));
}

Location meshc::asPart(Location loc, nd::OriginPart part) {
  return asPart(loc, getOrigin(loc), part);
}

Location meshc::withPhase(Location loc, nd::Phase phase) {
  return withOrigin(loc, getOriginOrNone(loc).inPhase(phase));
}

Location meshc::asGradient(Location loc) {
  OriginAttr origin = getOriginOrNone(loc);
  if (origin.hasName())
    origin = origin.withKind(nd::OriginKind::Gradient);
  return withOrigin(loc, origin.inPhase(nd::Phase::Backward));
}

Location meshc::getGradientLoc(Operation *op, Value operand) {
  const Location loc = op->getLoc(), from = operand.getLoc();
  if (hasName(from))
    return asGradient(withName(loc, getOrigin(from)));
  OriginAttr outer = getOrigin(from);
  if (!outer || !outer.hasName())
    outer = getOrigin(loc);
  return asGradient(asInside(loc, outer));
}
