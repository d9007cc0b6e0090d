#include "dialect/ND.h"

#include "llvm/ADT/SmallSet.h"

using namespace mlir;
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

//===-- DimSplitAttr: "batch"@data, or "batch"@data@model:(2)4 ------------===//

Attribute DimSplitAttr::parse(AsmParser &parser, Type) {
  std::string dim;
  SmallVector<AxisRefAttr> axes;
  if (parser.parseString(&dim))
    return {};
  MLIRContext *context = parser.getContext();
  do {
    StringAttr name;
    int64_t pre = 1, size = 0;
    if (parser.parseSymbolName(name) ||
        (succeeded(parser.parseOptionalColon()) &&
         (parser.parseLParen() || parser.parseInteger(pre) ||
          parser.parseRParen() || parser.parseInteger(size))))
      return {};
    axes.push_back(AxisRefAttr::get(
        context, StringAttr::get(context, name.getValue()), pre, size));
    // A following '@' starts the next axis.
  } while (*parser.getCurrentLocation().getPointer() == '@');
  return get(context, StringAttr::get(context, dim), axes);
}

void DimSplitAttr::print(AsmPrinter &printer) const {
  printer << getDim();
  for (AxisRefAttr axis : getAxes()) {
    printer.printSymbolName(axis.getName().getValue());
    if (axis.getSize() != 0)
      printer << ":(" << axis.getPre() << ")" << axis.getSize();
  }
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
    if (split.getAxes().empty())
      return emitError() << "dimension " << split.getDim()
                         << " is listed without axes";
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
