/// Scopes and origins: syntax, constraints and the names that they print.

#include "dialect/ND.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

//===-- ScopeAttr: "layer"[3]/"attn" --------------------------------------===//

LogicalResult ScopeAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                ScopeAttr parent, StringAttr name,
                                int64_t iteration) {
  if (name.empty())
    return emitError() << "a scope has a name";
  if (iteration < -1)
    return emitError() << "iterations count from 0, found " << iteration;
  return success();
}

ScopeAttr ScopeAttr::inIteration(ScopeAttr loop, int64_t iteration) const {
  if (*this == loop)
    return get(getContext(), getParent(), getName(), iteration);
  if (!getParent())
    return *this;
  ScopeAttr parent = getParent().inIteration(loop, iteration);
  return get(getContext(), parent, getName(), getIteration());
}

std::string ScopeAttr::getText() const {
  std::string text = getParent() ? getParent().getText() + "/" : "";
  text += getName().getValue();
  if (getIteration() >= 0)
    text += "/" + std::to_string(getIteration());
  return text;
}

std::string ScopeAttr::getPath() const {
  const std::string name = getName().getValue().str();
  return getParent() ? getParent().getPath() + "/" + name : name;
}

/// The scopes of a path, and its last part where that is no iteration: what a
/// value is called.
static ParseResult parsePath(AsmParser &parser, ScopeAttr &scope,
                             StringAttr &name) {
  for (;;) {
    std::string part;
    if (parser.parseString(&part))
      return failure();
    auto attr = StringAttr::get(parser.getContext(), part);
    int64_t iteration = -1;
    const bool isIteration = succeeded(parser.parseOptionalLSquare());
    if (isIteration &&
        (parser.parseInteger(iteration) || parser.parseRSquare()))
      return failure();
    const bool isLast = failed(parser.parseOptionalSlash());
    if (isLast && !isIteration) {
      name = attr;
      return success();
    }
    scope = parser.getChecked<ScopeAttr>(parser.getContext(), scope, attr,
                                         iteration);
    if (!scope || isLast)
      return success(bool(scope));
  }
}

static void printScope(AsmPrinter &printer, ScopeAttr scope) {
  if (scope.getParent()) {
    printScope(printer, scope.getParent());
    printer << "/";
  }
  printer << scope.getName();
  if (scope.getIteration() >= 0)
    printer << "[" << scope.getIteration() << "]";
}

Attribute ScopeAttr::parse(AsmParser &parser, Type) {
  ScopeAttr scope;
  StringAttr name;
  if (parser.parseLess() || parsePath(parser, scope, name) ||
      parser.parseGreater())
    return {};
  return name ? get(scope, name) : scope;
}

void ScopeAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printScope(printer, *this);
  printer << ">";
}

//===-- OriginAttr --------------------------------------------------------===//

LogicalResult OriginAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 ScopeAttr scope, StringAttr name, Phase,
                                 OriginKind kind, StringAttr state,
                                 StringAttr as, OriginPart part) {
  if ((kind == OriginKind::State) == state.empty())
    return emitError() << "state, and nothing else, has a name of its own";
  if (name.empty() && (scope || !as.empty() || part != OriginPart::Itself ||
                       kind != OriginKind::Value))
    return emitError() << "only of a named value is there something";
  return success();
}

OriginAttr OriginAttr::inScope(ScopeAttr scope) const {
  return get(getContext(), scope, getName(), getPhase(), getKind(), getState(),
             getAs(), getPart());
}

OriginAttr OriginAttr::inPhase(Phase phase) const {
  return get(getContext(), getScope(), getName(), phase, getKind(), getState(),
             getAs(), getPart());
}

OriginAttr OriginAttr::withPart(OriginPart part) const {
  return get(getContext(), getScope(), getName(), getPhase(), getKind(),
             getState(), getAs(), part);
}

OriginAttr OriginAttr::withKind(OriginKind kind) const {
  auto state =
      kind == OriginKind::State ? getState() : StringAttr::get(getContext());
  return get(getContext(), getScope(), getName(), getPhase(), kind, state,
             getAs(), getPart());
}

OriginAttr OriginAttr::asState(StringRef state) const {
  return get(getContext(), getScope(), getName(), getPhase(), OriginKind::State,
             StringAttr::get(getContext(), state), getAs(), getPart());
}

OriginAttr OriginAttr::asElement(StringRef type) const {
  return get(getContext(), getScope(), getName(), getPhase(), getKind(),
             getState(), StringAttr::get(getContext(), type), getPart());
}

std::string OriginAttr::getText() const {
  std::string text;
  switch (getKind()) {
  case OriginKind::Value:
    break;
  case OriginKind::Gradient:
    text = "gradient of ";
    break;
  case OriginKind::Update:
    text = "update of ";
    break;
  case OriginKind::State:
    text = getState().str() + "/";
    break;
  }
  if (getScope())
    text += getScope().getText() + "/";
  text += getName().getValue();
  if (!getAs().empty())
    text += " as " + getAs().str();
  return text;
}

std::string OriginAttr::getPath() const {
  const std::string name = getName().getValue().str();
  return hasName() && getScope() ? getScope().getPath() + "/" + name : name;
}

/// Reads one of the enumerators after the first, which is not written.
template <typename Enum>
static void parseWord(AsmParser &parser, Enum &value, uint32_t last,
                      StringRef (*spell)(Enum)) {
  for (uint32_t given = 1; given <= last; ++given)
    if (succeeded(parser.parseOptionalKeyword(spell(Enum(given))))) {
      value = Enum(given);
      return;
    }
}

/// Reads the phase, the part and the kind, in this order; each may be missing.
static void parseWords(AsmParser &parser, Phase &phase, OriginPart &part,
                       OriginKind &kind) {
  parseWord(parser, phase, getMaxEnumValForPhase(), stringifyPhase);
  parseWord(parser, part, getMaxEnumValForOriginPart(), stringifyOriginPart);
  parseWord(parser, kind, getMaxEnumValForOriginKind(), stringifyOriginKind);
}

Attribute OriginAttr::parse(AsmParser &parser, Type) {
  MLIRContext *context = parser.getContext();
  Phase phase = Phase::Forward;
  OriginKind kind = OriginKind::Value;
  OriginPart part = OriginPart::Itself;
  ScopeAttr scope;
  auto name = StringAttr::get(context), state = name, as = name;
  auto parseText = [&](StringAttr &attr) -> ParseResult {
    std::string text;
    if (parser.parseString(&text))
      return failure();
    attr = StringAttr::get(context, text);
    return success();
  };
  if (parser.parseLess())
    return {};
  parseWords(parser, phase, part, kind);
  if (failed(parser.parseOptionalGreater())) {
    if (kind == OriginKind::State &&
        (parseText(state) || parser.parseKeyword("of")))
      return {};
    SMLoc where = parser.getCurrentLocation();
    if (parsePath(parser, scope, name))
      return {};
    if (scope && name.empty()) {
      parser.emitError(where, "an iteration is no value");
      return {};
    }
    if ((succeeded(parser.parseOptionalKeyword("as")) && parseText(as)) ||
        parser.parseGreater())
      return {};
  }
  return parser.getChecked<OriginAttr>(context, scope, name, phase, kind, state,
                                       as, part);
}

void OriginAttr::print(AsmPrinter &printer) const {
  SmallVector<std::string> words;
  if (getPhase() != Phase::Forward)
    words.push_back(stringifyPhase(getPhase()).str());
  if (getPart() != OriginPart::Itself)
    words.push_back(stringifyOriginPart(getPart()).str());
  if (getKind() != OriginKind::Value)
    words.push_back(stringifyOriginKind(getKind()).str());
  printer << "<";
  llvm::interleave(words, printer.getStream(), " ");
  if (hasName() && !words.empty())
    printer << " ";
  if (getKind() == OriginKind::State)
    printer << getState() << " of ";
  if (getScope()) {
    printScope(printer, getScope());
    printer << "/";
  }
  if (!getName().empty())
    printer << getName();
  if (!getAs().empty())
    printer << " as " << getAs();
  printer << ">";
}
