#include "dialect/ND.h"

#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

LogicalResult DimAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                              StringAttr name, int64_t size) {
  if (name.empty())
    return emitError() << "(C1) a dimension needs a name";
  if (size < 1)
    return emitError() << "(C2) dimension '" << name.getValue() << "' has size "
                       << size << ", expected at least 1";
  return success();
}

//===-- AxisRefAttr: model, or model:(2)4 ---------------------------------===//

Attribute AxisRefAttr::parse(AsmParser &parser, Type) {
  std::string name;
  int64_t pre = 1, size = 0;
  if (parser.parseKeywordOrString(&name))
    return {};
  if (succeeded(parser.parseOptionalColon()) &&
      (parser.parseLParen() || parser.parseInteger(pre) ||
       parser.parseRParen() || parser.parseInteger(size)))
    return {};
  return get(parser.getContext(), StringAttr::get(parser.getContext(), name),
             pre, size);
}

static void printAxis(AsmPrinter &printer, AxisRefAttr axis) {
  printer.printKeywordOrString(axis.getName().getValue());
  if (axis.getSize() != 0)
    printer << ":(" << axis.getPre() << ")" << axis.getSize();
}

void AxisRefAttr::print(AsmPrinter &printer) const {
  // Behind the mnemonic: #nd<axis model>.
  printer << " ";
  printAxis(printer, *this);
}

//===-- Lists of axes: model, or (data, model) ----------------------------===//

static ParseResult parseAxes(AsmParser &parser,
                             SmallVectorImpl<AxisRefAttr> &axes) {
  auto parseOne = [&]() -> ParseResult {
    auto axis = cast_or_null<AxisRefAttr>(AxisRefAttr::parse(parser, {}));
    axes.push_back(axis);
    return success(axis != nullptr);
  };
  if (failed(parser.parseOptionalLParen()))
    return parseOne();
  return failure(parser.parseCommaSeparatedList(parseOne) ||
                 parser.parseRParen());
}

static void printAxes(AsmPrinter &printer, ArrayRef<AxisRefAttr> axes) {
  auto printOne = [&](AxisRefAttr axis) { printAxis(printer, axis); };
  if (axes.size() == 1)
    return printOne(axes.front());
  printer << "(";
  llvm::interleaveComma(axes, printer, printOne);
  printer << ")";
}

//===-- WindowAttr: what "y" by 2 "row"=5@rows + [-1, 1] has -------------===//

namespace {
/// What is written of a window.
struct WindowText {
  DimAttr loop = {};
  int64_t factor = 1, low = 0, high = 0, divisor = 1, modulus = 0;
};
} // namespace

/// `2 "row"=5`, in front of the axes of a window.
static ParseResult parseWindowLoop(AsmParser &parser, WindowText &window) {
  OptionalParseResult given = parser.parseOptionalInteger(window.factor);
  if (given.has_value() && failed(*given))
    return failure();
  window.loop = dyn_cast_or_null<DimAttr>(DimAttr::parse(parser, {}));
  return success(window.loop != nullptr);
}

/// `+ [-1, 1] / 2` or `+ [-1, -1] mod 8`, behind them.
static ParseResult parseWindowRange(AsmParser &parser, WindowText &window) {
  if (parser.parsePlus() || parser.parseLSquare() ||
      parser.parseInteger(window.low) || parser.parseComma() ||
      parser.parseInteger(window.high) || parser.parseRSquare())
    return failure();
  if (succeeded(parser.parseOptionalSlash()))
    return parser.parseInteger(window.divisor);
  if (succeeded(parser.parseOptionalKeyword("mod")))
    return parser.parseInteger(window.modulus);
  return success();
}

static WindowAttr getWindowAttr(AsmParser &parser, SMLoc where,
                                const WindowText &window) {
  return WindowAttr::getChecked(
      [&] { return parser.emitError(where); }, parser.getContext(), window.loop,
      window.factor, window.low, window.high, window.divisor, window.modulus);
}

Attribute WindowAttr::parse(AsmParser &parser, Type) {
  SMLoc where = parser.getCurrentLocation();
  WindowText window;
  if (parser.parseLess())
    return {};
  if (*parser.getCurrentLocation().getPointer() != '+' &&
      parseWindowLoop(parser, window))
    return {};
  if (parseWindowRange(parser, window) || parser.parseGreater())
    return {};
  return getWindowAttr(parser, where, window);
}

static void printWindowLoop(AsmPrinter &printer, WindowAttr window) {
  if (window.getFactor() != 1)
    printer << window.getFactor() << " ";
  window.getLoop().print(printer);
}

static void printWindowRange(AsmPrinter &printer, WindowAttr window) {
  printer << " + [" << window.getLow() << ", " << window.getHigh() << "]";
  if (window.getDivisor() != 1)
    printer << " / " << window.getDivisor();
  if (window.getModulus() != 0)
    printer << " mod " << window.getModulus();
}

void WindowAttr::print(AsmPrinter &printer) const {
  printer << "<";
  if (getLoop())
    printWindowLoop(printer, *this);
  printWindowRange(printer, *this);
  printer << ">";
}

LogicalResult WindowAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 DimAttr, int64_t factor, int64_t low,
                                 int64_t high, int64_t divisor,
                                 int64_t modulus) {
  if (factor == 0 || low > high || divisor < 1 || modulus < 0 ||
      (modulus != 0 && divisor != 1))
    return emitError() << "(C1) a window of factor " << factor << ", range ["
                       << low << ", " << high << "], divisor " << divisor
                       << " and modulus " << modulus;
  constexpr int64_t limit = int64_t(1) << 31;
  if (factor <= -limit || factor >= limit || low <= -limit || high >= limit ||
      divisor >= limit || modulus >= limit)
    return emitError() << "(C2) the numbers of a window are below 2^31";
  return success();
}

//===-- DimSplitAttr: "batch"@data, or "batch"@data@model:(2)4 ------------===//

static ParseResult parseAxisPart(AsmParser &parser,
                                 SmallVectorImpl<AxisRefAttr> &axes) {
  StringAttr name;
  int64_t pre = 1, size = 0;
  if (parser.parseSymbolName(name) ||
      (succeeded(parser.parseOptionalColon()) &&
       (parser.parseLParen() || parser.parseInteger(pre) ||
        parser.parseRParen() || parser.parseInteger(size))))
    return failure();
  MLIRContext *context = parser.getContext();
  axes.push_back(AxisRefAttr::get(
      context, StringAttr::get(context, name.getValue()), pre, size));
  return success();
}

Attribute DimSplitAttr::parse(AsmParser &parser, Type) {
  SMLoc where = parser.getCurrentLocation();
  std::string dim;
  if (parser.parseString(&dim))
    return {};
  const bool hasLoop = succeeded(parser.parseOptionalKeyword("by"));
  WindowText window;
  if (hasLoop && parseWindowLoop(parser, window))
    return {};
  auto isNext = [&](char c) {
    return *parser.getCurrentLocation().getPointer() == c;
  };
  SmallVector<AxisRefAttr> axes;
  const bool hasWindow = hasLoop || isNext('+');
  // A following '@' starts the next axis; a window of no loop has none.
  while (isNext('@') || (axes.empty() && (hasLoop || !hasWindow)))
    if (parseAxisPart(parser, axes))
      return {};
  MLIRContext *context = parser.getContext();
  auto name = StringAttr::get(context, dim);
  if (!hasWindow)
    return get(context, name, axes);
  if (parseWindowRange(parser, window))
    return {};
  WindowAttr attr = getWindowAttr(parser, where, window);
  return attr ? get(context, name, axes, attr) : DimSplitAttr();
}

void DimSplitAttr::print(AsmPrinter &printer) const {
  printer << getDim();
  WindowAttr window = getWindow();
  if (window && window.getLoop()) {
    printer << " by ";
    printWindowLoop(printer, window);
  }
  for (AxisRefAttr axis : getAxes()) {
    printer.printSymbolName(axis.getName().getValue());
    if (axis.getSize() != 0)
      printer << ":(" << axis.getPre() << ")" << axis.getSize();
  }
  if (window)
    printWindowRange(printer, window);
}

//===-- ShardingAttr ------------------------------------------------------===//

LogicalResult ShardingAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   ArrayRef<DimSplitAttr> splits,
                                   std::optional<ReduceKind> partialKind,
                                   ArrayRef<AxisRefAttr> partialAxes) {
  if (partialKind.has_value() != !partialAxes.empty())
    return emitError() << "a partial sharding needs a kind and axes";
  llvm::SmallSet<StringRef, 8> dims;
  for (DimSplitAttr split : splits) {
    const WindowAttr window = split.getWindow();
    if (split.getAxes().empty() != (window && !window.getLoop()))
      return emitError() << "dimension " << split.getDim()
                         << " is listed without axes, or without a loop that "
                            "they split";
    if (!dims.insert(split.getDim().getValue()).second)
      return emitError() << "dimension " << split.getDim()
                         << " is listed twice";
  }
  return success();
}

ArrayRef<AxisRefAttr> ShardingAttr::getAxes(StringRef dim) const {
  for (DimSplitAttr split : getSplits())
    if (split.getDim().getValue() == dim)
      return split.getAxes();
  return {};
}

WindowAttr ShardingAttr::getWindow(StringRef dim) const {
  for (DimSplitAttr split : getSplits())
    if (split.getDim().getValue() == dim)
      return split.getWindow();
  return {};
}

bool ShardingAttr::hasWindow() const {
  return llvm::any_of(
      getSplits(), [](DimSplitAttr split) { return bool(split.getWindow()); });
}

Attribute ShardingAttr::parse(AsmParser &parser, Type) {
  SmallVector<DimSplitAttr> splits;
  auto parseSplit = [&]() -> ParseResult {
    auto split = cast_or_null<DimSplitAttr>(DimSplitAttr::parse(parser, {}));
    splits.push_back(split);
    return success(split != nullptr);
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater,
                                     parseSplit))
    return {};
  std::optional<ReduceKind> kind;
  SmallVector<AxisRefAttr> partialAxes;
  if (succeeded(parser.parseOptionalKeyword("partial"))) {
    StringRef keyword;
    SMLoc where = parser.getCurrentLocation();
    if (parser.parseKeyword(&keyword))
      return {};
    kind = symbolizeReduceKind(keyword);
    if (!kind) {
      parser.emitError(where) << "expected sum, max or min";
      return {};
    }
    if (parser.parseKeyword("over") || parseAxes(parser, partialAxes))
      return {};
  }
  return getChecked([&] { return parser.emitError(parser.getNameLoc()); },
                    parser.getContext(), ArrayRef<DimSplitAttr>(splits), kind,
                    ArrayRef<AxisRefAttr>(partialAxes));
}

void ShardingAttr::print(AsmPrinter &printer) const {
  printer << "<";
  llvm::interleaveComma(getSplits(), printer,
                        [&](DimSplitAttr split) { split.print(printer); });
  printer << ">";
  if (!isPartial())
    return;
  printer << " partial " << stringifyReduceKind(*getPartialKind()) << " over ";
  printAxes(printer, getPartialAxes());
}

//===-- AccessAttr: "y" = 2 "row" + "dy" - 1, "row" = ("y" + 1) / 2 -------===//

AccessAttr AccessAttr::get(StringAttr dim, const DimAccess &access) {
  layout::Access form = access.getForm();
  assert(form.getKind() != layout::Access::Kind::Indexed &&
         "a tensor says where");
  SmallVector<std::pair<StringAttr, int64_t>> terms;
  for (const layout::AccessTerm &term : form.getTerms())
    terms.emplace_back(access.getLoops()[term.loop], term.factor);
  llvm::sort(terms, [](const auto &a, const auto &b) {
    return a.first.getValue() < b.first.getValue();
  });
  AccessKind kind =
      form.getKind() == layout::Access::Kind::Exact   ? AccessKind::Exact
      : form.getKind() == layout::Access::Kind::Floor ? AccessKind::Floor
                                                      : AccessKind::Modulo;
  return get(dim.getContext(), dim, kind,
             llvm::to_vector(llvm::make_first_range(terms)),
             llvm::to_vector(llvm::make_second_range(terms)), form.getOffset(),
             form.getDivisor());
}

DimAccess AccessAttr::getAccess() const {
  std::vector<layout::AccessTerm> terms;
  for (auto [loop, factor] : llvm::enumerate(getFactors()))
    terms.push_back({int32_t(loop), factor});
  switch (getKind()) {
  case AccessKind::Exact:
  case AccessKind::Floor: {
    auto kind = getKind() == AccessKind::Exact ? layout::Access::Kind::Exact
                                               : layout::Access::Kind::Floor;
    return {layout::Access::quotient(kind, std::move(terms), getOffset(),
                                     getDivisor()),
            getLoops()};
  }
  case AccessKind::Modulo:
    return {layout::Access::modulo(std::move(terms), getOffset(), getDivisor()),
            getLoops()};
  }
  llvm_unreachable("not a form of a position");
}

StringAttr AccessAttr::getLoop() const {
  std::optional<int32_t> loop = getAccess().getForm().getLoop();
  return loop ? getLoops()[*loop] : StringAttr();
}

LogicalResult AccessAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 StringAttr dim, AccessKind,
                                 ArrayRef<StringAttr>,
                                 ArrayRef<int64_t> factors, int64_t offset,
                                 int64_t divisor) {
  if (divisor < 1)
    return emitError() << "(C1) dimension " << dim
                       << " is read at a quotient by " << divisor
                       << ", expected at least 1";
  SmallVector<int64_t> numbers(factors);
  numbers.append({offset, divisor});
  for (int64_t number : numbers)
    if (!llvm::isInt<32>(number))
      return emitError() << "(C2) dimension " << dim
                         << " is read at a multiple of " << number
                         << ", expected less than 2^31";
  return success();
}

/// 2 "row" + "dy" - 1
static ParseResult parseSum(AsmParser &parser,
                            SmallVectorImpl<StringAttr> &loops,
                            SmallVectorImpl<int64_t> &factors,
                            int64_t &offset) {
  offset = 0;
  int64_t sign = succeeded(parser.parseOptionalMinus()) ? -1 : 1;
  while (true) {
    int64_t number = 1;
    SMLoc where = parser.getCurrentLocation();
    OptionalParseResult hasNumber = parser.parseOptionalInteger(number);
    if (hasNumber.has_value() && failed(*hasNumber))
      return failure();
    std::string loop;
    if (succeeded(parser.parseOptionalString(&loop))) {
      loops.push_back(StringAttr::get(parser.getContext(), loop));
      factors.push_back(sign * number);
    } else if (!hasNumber.has_value()) {
      return parser.emitError(where, "expected a dimension or a number");
    } else if (llvm::AddOverflow(offset, sign * number, offset)) {
      return parser.emitError(where, "the numbers add up to too many");
    }
    if (succeeded(parser.parseOptionalPlus()))
      sign = 1;
    else if (succeeded(parser.parseOptionalMinus()))
      sign = -1;
    else
      return success();
  }
}

Attribute AccessAttr::parse(AsmParser &parser, Type) {
  std::string dim;
  if (parser.parseString(&dim) || parser.parseEqual())
    return {};
  SMLoc where = parser.getCurrentLocation();
  bool isFloor = succeeded(parser.parseOptionalKeyword("floor"));
  if (isFloor && parser.parseLParen())
    return {};
  bool hasBrackets = succeeded(parser.parseOptionalLParen());
  SmallVector<StringAttr> loops;
  SmallVector<int64_t> factors;
  int64_t offset, divisor = 1;
  if (parseSum(parser, loops, factors, offset) ||
      (hasBrackets && parser.parseRParen()))
    return {};
  AccessKind kind = isFloor ? AccessKind::Floor : AccessKind::Exact;
  if (isFloor) {
    if (parser.parseSlash() || parser.parseInteger(divisor) ||
        parser.parseRParen())
      return {};
  } else if (succeeded(parser.parseOptionalSlash())) {
    if (parser.parseInteger(divisor))
      return {};
  } else if (succeeded(parser.parseOptionalKeyword("mod"))) {
    kind = AccessKind::Modulo;
    if (parser.parseInteger(divisor))
      return {};
  }
  auto emitError = [&] { return parser.emitError(where); };
  auto name = StringAttr::get(parser.getContext(), dim);
  if (failed(verify(emitError, name, kind, loops, factors, offset, divisor)))
    return {};
  // What is written in another order, or with a common divisor, is one form.
  auto written =
      get(parser.getContext(), name, kind, loops, factors, offset, divisor);
  return get(name, written.getAccess());
}

void AccessAttr::print(AsmPrinter &printer) const {
  printer << getDim() << " = ";
  if (getKind() == AccessKind::Floor)
    printer << "floor(";
  bool isWhole = getKind() == AccessKind::Exact && getDivisor() == 1;
  size_t parts = getLoops().size() + (getOffset() != 0);
  bool needsBrackets = !isWhole && parts > 1;
  if (needsBrackets)
    printer << "(";
  bool isFirst = true;
  auto printSign = [&](int64_t number) {
    if (isFirst)
      printer << (number < 0 ? "-" : "");
    else
      printer << (number < 0 ? " - " : " + ");
    isFirst = false;
  };
  for (auto [loop, factor] : llvm::zip_equal(getLoops(), getFactors())) {
    printSign(factor);
    if (std::abs(factor) != 1)
      printer << std::abs(factor) << " ";
    printer << loop;
  }
  if (getOffset() != 0 || isFirst) {
    printSign(getOffset());
    printer << std::abs(getOffset());
  }
  if (needsBrackets)
    printer << ")";
  if (getKind() == AccessKind::Modulo)
    printer << " mod " << getDivisor();
  else if (!isWhole)
    printer << " / " << getDivisor();
  if (getKind() == AccessKind::Floor)
    printer << ")";
}
