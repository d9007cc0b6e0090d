// Verifiers, folds and builders of the operations that are not elementwise.

#include "dialect/AccessSyntax.h"
#include "dialect/Casts.h"
#include "dialect/Locations.h"
#include "dialect/ND.h"
#include "dialect/PartitionBuilder.h"
#include "layout/Machine.h"

#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/StringMap.h"

#include <cmath>

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

//===-- Module level ------------------------------------------------------===//

/// ["data"=2, "model"=3]
static ParseResult parseNamedSizes(OpAsmParser &parser, ArrayAttr &sizes) {
  SmallVector<Attribute> parsed;
  auto parseOne = [&]() -> ParseResult {
    std::string name;
    int64_t size;
    SMLoc where = parser.getCurrentLocation();
    if (parser.parseString(&name) || parser.parseEqual() ||
        parser.parseInteger(size))
      return failure();
    auto dim = DimAttr::getChecked(
        [&] { return parser.emitError(where); }, parser.getContext(),
        StringAttr::get(parser.getContext(), name), size);
    parsed.push_back(dim);
    return success(bool(dim));
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne))
    return failure();
  sizes = parser.getBuilder().getArrayAttr(parsed);
  return success();
}

static void printNamedSizes(OpAsmPrinter &printer, Operation *,
                            ArrayAttr sizes) {
  printer << "[";
  llvm::interleaveComma(sizes.getAsRange<DimAttr>(), printer, [&](DimAttr dim) {
    printer << dim.getName() << "=" << dim.getSize();
  });
  printer << "]";
}

/// "a" -> "c", "b" -> "d"
static ParseResult parseNewNames(OpAsmParser &parser, ArrayAttr &from,
                                 ArrayAttr &to) {
  SmallVector<Attribute> fromNames, toNames;
  auto parseOne = [&]() -> ParseResult {
    std::string oldName, newName;
    if (parser.parseString(&oldName) || parser.parseArrow() ||
        parser.parseString(&newName))
      return failure();
    fromNames.push_back(parser.getBuilder().getStringAttr(oldName));
    toNames.push_back(parser.getBuilder().getStringAttr(newName));
    return success();
  };
  if (parser.parseCommaSeparatedList(parseOne))
    return failure();
  from = parser.getBuilder().getArrayAttr(fromNames);
  to = parser.getBuilder().getArrayAttr(toNames);
  return success();
}

static void printNewNames(OpAsmPrinter &printer, Operation *, ArrayAttr from,
                          ArrayAttr to) {
  llvm::interleaveComma(llvm::zip_equal(from, to), printer, [&](auto names) {
    printer << std::get<0>(names) << " -> " << std::get<1>(names);
  });
}

ParseResult nd::parseAccesses(OpAsmParser &parser, ArrayAttr &accesses) {
  SmallVector<Attribute> parsed;
  auto parseOne = [&]() -> ParseResult {
    parsed.push_back(AccessAttr::parse(parser, {}));
    return success(bool(parsed.back()));
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne))
    return failure();
  accesses = parser.getBuilder().getArrayAttr(parsed);
  return success();
}

void nd::printAccesses(OpAsmPrinter &printer, Operation *, ArrayAttr accesses) {
  printer << "[";
  llvm::interleaveComma(accesses.getAsRange<AccessAttr>(), printer,
                        [&](AccessAttr access) { access.print(printer); });
  printer << "]";
}

LogicalResult MeshOp::verify() {
  auto module = (*this)->getParentOfType<ModuleOp>();
  if (*module.getOps<MeshOp>().begin() != *this)
    return emitOpError("(C1) the module has another mesh");
  llvm::SmallSet<StringRef, 4> names;
  int64_t devices = 1;
  for (auto axis : getAxes().getAsRange<DimAttr>()) {
    if (!names.insert(axis.getName().getValue()).second)
      return emitOpError("(C2) axis ") << axis.getName() << " occurs twice";
    if (llvm::MulOverflow(devices, axis.getSize(), devices) ||
        devices > layout::Mesh::maxDevices)
      return emitOpError("(C2) the mesh has more than 2^20 devices");
  }
  if (std::optional<ArrayRef<int64_t>> order = getDeviceOrder()) {
    SmallVector<int64_t> sorted(*order);
    llvm::sort(sorted);
    bool isPermutation = int64_t(sorted.size()) == devices;
    for (auto [index, device] : llvm::enumerate(sorted))
      isPermutation &= device == int64_t(index);
    if (!isPermutation)
      return emitOpError("(C3) the device order is no permutation of the ")
             << devices << " device numbers";
  }
  if (getMachine() && !layout::findMachine(*getMachine()))
    return emitOpError("(C4) there is no machine \"") << *getMachine() << "\"";
  return success();
}

LogicalResult PrecisionOp::verify() {
  auto module = (*this)->getParentOfType<ModuleOp>();
  if (*module.getOps<PrecisionOp>().begin() != *this)
    return emitOpError("(C1) the module has another precision");
  double scale = getScale().convertToDouble();
  int exponent;
  if (!(scale >= 0x1p-24 && scale <= 0x1p24) ||
      std::frexp(scale, &exponent) != 0.5)
    return emitOpError("(C2) the scale is no power of two in [2^-24, 2^24], "
                       "found ")
           << scale;
  if (int64_t(getGrowthSteps()) < 1)
    return emitOpError("(C2) growth_steps must be positive, found ")
           << int64_t(getGrowthSteps());
  return success();
}

LogicalResult VariableOp::verify() {
  auto type = dyn_cast<NamedTensorType>(getType());
  if (!type)
    return emitOpError("needs a tensor type");
  bool isFloat = isa<FloatType>(type.getElementType());
  if (getRole() == VariableRole::Parameter && !isFloat)
    return emitOpError("(C1) a parameter has float elements, found ")
           << type.getElementType();
  if (getRole() != VariableRole::InStep && type.isPartial())
    return emitOpError("(C4) only what is in_step is left as terms, found ")
           << type;
  if (auto fill = dyn_cast<FillAttr>(getInit())) {
    double value = fill.getValue().getValueAsDouble();
    // Integers up to 2^53 are exact as f64.
    if (!isFloat && !(std::trunc(value) == value && std::abs(value) <= 0x1p53))
      return emitOpError("(C3) integers are filled with an integer, found ")
             << fill.getValue();
    return success();
  }
  auto program = dyn_cast<FlatSymbolRefAttr>(getInit());
  if (!isa<RandomAttr>(getInit()) && !(program && program.getValue() == "init"))
    return emitOpError("(C2) the initialiser must be #nd.fill, #nd.random or "
                       "@init");
  if (!isFloat && !program)
    return emitOpError("(C2) random initialisers need float elements");
  return success();
}

void ProgramOp::build(OpBuilder &builder, OperationState &state,
                      StringRef name) {
  state.addAttribute(getSymNameAttrName(state.name),
                     builder.getStringAttr(name));
  state.addRegion()->emplaceBlock();
}

/// (C1) of read and write.
static LogicalResult verifyVariable(Operation *op, FlatSymbolRefAttr symbol,
                                    Type type, SymbolTableCollection &tables) {
  auto variable = tables.lookupNearestSymbolFrom<VariableOp>(
      op->getParentOfType<ModuleOp>(), symbol);
  if (!variable)
    return op->emitOpError("(C1) there is no variable ") << symbol;
  if (variable.getType() != type)
    return op->emitOpError("(C1) variable ")
           << symbol << " has type " << variable.getType() << ", found "
           << type;
  return success();
}

LogicalResult ReadOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyVariable(*this, getVariableAttr(), getType(), tables);
}

LogicalResult GradientOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto variable =
      tables.lookupNearestSymbolFrom<VariableOp>(*this, getVariableAttr());
  if (!variable || variable.getRole() != VariableRole::Parameter)
    return emitOpError("(C1) ") << getVariableAttr() << " is no parameter";
  if (variable.getType() != getType())
    return emitOpError("(C1) the parameter is ") << variable.getType();
  if ((*this)->getParentOfType<ProgramOp>().getSymName() !=
      ProgramOp::updateName)
    return emitOpError("(C2) a gradient is read in @")
           << ProgramOp::updateName << " alone";
  return success();
}

LogicalResult WriteOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyVariable(*this, getVariableAttr(), getValue().getType(), tables);
}

//===-- Sources -----------------------------------------------------------===//

LogicalResult ConstantOp::verify() {
  if (getValue().getType() != getType().getElementType())
    return emitOpError("(C1) the value must have the element type ")
           << getType().getElementType();
  return success();
}

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

/// Checks that integers of type `elementType` hold `largest`, the largest
/// number that is made of the positions along `dim`.
static LogicalResult verifyPositions(Operation *op, Type elementType,
                                     DimAttr dim, int64_t largest) {
  if (!elementType.isInteger(32) || llvm::isInt<32>(largest))
    return success();
  return op->emitOpError("positions along ")
         << dim.getName() << " of size " << dim.getSize() << " do not fit "
         << elementType;
}

LogicalResult IotaOp::verify() {
  Type elementType = getType().getElementType();
  if (getType().getRank() != 1 || elementType.isInteger(1) ||
      isForData(elementType))
    return emitOpError("(C1) the result has one dimension and integer or float "
                       "elements that are computed with");
  DimAttr dim = getType().getDims().front();
  return verifyPositions(*this, elementType, dim, dim.getSize() - 1);
}

LogicalResult RandomOp::verify() {
  NamedTensorType seed = getSeed().getType();
  if (!seed.getElementType().isInteger(64))
    return emitOpError("(C1) the seed is of i64, found ") << seed;
  if (!isa<FloatType>(getType().getElementType()))
    return emitOpError("(C2) the result has float elements");
  llvm::SmallDenseSet<StringAttr> names;
  if (ArrayAttr order = getOrderAttr()) {
    for (auto name : order.getAsRange<StringAttr>())
      if (!names.insert(name).second || !getType().hasDim(name))
        return emitOpError("(C3) dimension ")
               << name << " is not one of the result, or stands twice";
  } else {
    for (DimAttr dim : getType().getDims())
      names.insert(dim.getName());
  }
  for (DimAttr dim : seed.getDims()) {
    if (!llvm::is_contained(getType().getDims(), dim))
      return emitOpError("(C3) dimension ")
             << dim.getName() << " of the seed is none of the result";
    names.insert(dim.getName());
  }
  if (names.size() != getType().getDims().size())
    return emitOpError("(C3) the result has a dimension that neither the order "
                       "nor the seed has");
  if (bool(getPart()) != bool(getPartedAttr()))
    return emitOpError("(C4) a part and the dimensions that have its positions "
                       "go together");
  if (!getPart())
    return success();
  NamedTensorType part = getPart().getType();
  if (part.getRank() != 0 || !part.getElementType().isInteger(32))
    return emitOpError("(C4) the part is a scalar of i32, found ") << part;
  if (getParts() < 1)
    return emitOpError("(C4) there is a part at least");
  const SmallVector<DimAttr> counted = getCountedDims();
  for (auto name : getPartedAttr().getAsRange<StringAttr>())
    if (llvm::none_of(counted,
                      [&](DimAttr dim) { return dim.getName() == name; }))
      return emitOpError("(C4) positions of dimension ")
             << name << " do not count";
  return success();
}

bool RandomOp::isParted(StringAttr dim) {
  return getPart() && llvm::is_contained(getPartedAttr(), dim);
}

LogicalResult TrainingOp::verify() {
  if (int64_t(getParts()) < 1)
    return emitOpError("(C1) a step has a part at least, found ")
           << int64_t(getParts());
  return success();
}

/// 64-bit FNV-1a. Source: Fowler, Noll, Vo: draft-eastlake-fnv, offset basis
/// and prime of 64 bits.
int64_t meshc::nd::getRandomKey(StringRef name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char byte : name)
    hash = (hash ^ byte) * 0x100000001b3;
  return int64_t(hash);
}

std::string meshc::nd::getMeanName(StringRef parameter) {
  return (meanScope + "/" + parameter).str();
}

VariableOp meshc::nd::findMean(ModuleOp module, StringRef parameter) {
  auto mean = module.lookupSymbol<VariableOp>(getMeanName(parameter));
  return mean && mean.getRole() == VariableRole::State ? mean : VariableOp();
}

SmallVector<DimAttr> RandomOp::getCountedDims() {
  ArrayAttr order = getOrderAttr();
  if (!order)
    return SmallVector<DimAttr>(getType().getDims());
  SmallVector<DimAttr> dims;
  for (auto name : order.getAsRange<StringAttr>())
    dims.push_back(getType().getDims()[size_t(getType().findDim(name))]);
  return dims;
}

//===-- Operations on the set of dimensions -------------------------------===//

/// Checks that every dimension of `type` occurs in `within` with equal size.
static LogicalResult verifyContained(Operation *op, NamedTensorType type,
                                     NamedTensorType within, StringRef label,
                                     StringRef what) {
  for (DimAttr dim : type.getDims())
    if (!llvm::is_contained(within.getDims(), dim))
      return op->emitOpError(label)
             << " dimension " << dim.getName() << " of size " << dim.getSize()
             << " is no dimension of the " << what;
  return success();
}

LogicalResult EinsumOp::verify() {
  if (getInputs().empty())
    return emitOpError("needs an input");
  llvm::SmallDenseMap<StringAttr, int64_t> sizes;
  for (Value input : getInputs()) {
    auto type = cast<NamedTensorType>(input.getType());
    for (DimAttr dim : type.getDims()) {
      auto [known, isFirst] = sizes.try_emplace(dim.getName(), dim.getSize());
      if (!isFirst && known->second != dim.getSize())
        return emitOpError("(C1) dimension ")
               << dim.getName() << " has size " << known->second << " and "
               << dim.getSize();
    }
    auto first = cast<NamedTensorType>(getInputs().front().getType());
    if (type.getElementType() != first.getElementType())
      return emitOpError("(C3) expected one element type, found ")
             << first.getElementType() << " and " << type.getElementType();
    bool isNarrow = type.getElementType().getIntOrFloatBitWidth() < 32;
    if (type.getElementType() != getType().getElementType() &&
        !(isNarrow && getType().getElementType().isF32()))
      return emitOpError("(C3) expected one element type, found ")
             << type.getElementType() << " and " << getType().getElementType();
  }
  for (DimAttr dim : getType().getDims()) {
    auto known = sizes.find(dim.getName());
    if (known == sizes.end())
      return emitOpError("(C2) no input has the result's dimension ")
             << dim.getName();
    if (known->second != dim.getSize())
      return emitOpError("(C1) dimension ")
             << dim.getName() << " has size " << known->second << " and "
             << dim.getSize();
  }
  return success();
}

LogicalResult EinsumOp::canonicalize(EinsumOp op, PatternRewriter &rewriter) {
  if (op.getInputs().size() != 1)
    return rewriter.notifyMatchFailure(op, "has several inputs");
  Value input = op.getInputs().front();
  if (input.getType() == op.getType()) {
    rewriter.replaceOp(op, input);
    return success();
  }
  Type elementType = op.getType().getElementType();
  if (cast<NamedTensorType>(input.getType()).getElementType() != elementType)
    input = CastOp::create(rewriter, op.getLoc(), input, elementType);
  rewriter.replaceOpWithNewOp<ReduceOp>(op, op.getType(), Reduction::Sum,
                                        input);
  return success();
}

LogicalResult ReduceOp::verify() {
  NamedTensorType input = getInput().getType(), result = getType();
  if (failed(verifyContained(*this, result, input, "(C1)", "input")))
    return failure();
  if (input.getElementType() != result.getElementType())
    return emitOpError("(C2) the result has the input's element type ")
           << input.getElementType() << ", found " << result.getElementType();
  if (getKind() == Reduction::Mean && !isa<FloatType>(input.getElementType()))
    return emitOpError("(C2) a mean needs floats");
  return success();
}

OpFoldResult ReduceOp::fold(FoldAdaptor) {
  return getInput().getType() == getType() ? OpFoldResult(getInput())
                                           : OpFoldResult();
}

LogicalResult ReduceOp::canonicalize(ReduceOp op, PatternRewriter &rewriter) {
  auto inner = op.getInput().getDefiningOp<ReduceOp>();
  if (!inner || inner.getKind() != op.getKind() || !inner->hasOneUse())
    return rewriter.notifyMatchFailure(op, "is not a reduction of its kind");
  rewriter.modifyOpInPlace(
      op, [&] { op.getInputMutable().assign(inner.getInput()); });
  return success();
}

LogicalResult ArgReduceOp::verify() {
  NamedTensorType input = getInput().getType(), result = getType();
  if (!input.hasDim(getDim()))
    return emitOpError("(C1) the input has no dimension \"")
           << getDim() << "\"";
  if (result.hasDim(getDim()) || result.getRank() != input.getRank() - 1 ||
      failed(verifyContained(*this, result, input, "(C1)", "input")))
    return emitOpError("(C1) the result has the input's dimensions without \"")
           << getDim() << "\"";
  if (!result.getElementType().isInteger(32))
    return emitOpError("(C2) the result has i32 elements, found ")
           << result.getElementType();
  // nd-decompose counts one more: the position of nothing.
  DimAttr dim = input.getDims()[input.findDim(getDim())];
  return verifyPositions(*this, result.getElementType(), dim, dim.getSize());
}

LogicalResult BroadcastOp::verify() {
  NamedTensorType input = getInput().getType();
  if (failed(verifyContained(*this, input, getType(), "(C1)", "result")))
    return failure();
  if (input.getElementType() != getType().getElementType())
    return emitOpError("(C2) the element type stays ")
           << input.getElementType() << ", found "
           << getType().getElementType();
  return success();
}

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  if (getInput().getType() == getType())
    return getInput();
  return adaptor.getInput(); // a splat stays that splat
}

static StringAttr getNewName(ArrayAttr from, ArrayAttr to, StringAttr dim) {
  for (auto [oldName, newName] : llvm::zip(from, to))
    if (oldName == dim)
      return cast<StringAttr>(newName);
  return dim;
}

StringAttr RenameOp::getNewName(StringAttr dim) {
  return ::getNewName(getFrom(), getTo(), dim);
}

void RenameOp::build(OpBuilder &builder, OperationState &state, Value input,
                     ArrayAttr from, ArrayAttr to) {
  auto type = cast<NamedTensorType>(input.getType());
  SmallVector<DimAttr> dims;
  for (DimAttr dim : type.getDims())
    dims.push_back(
        DimAttr::get(::getNewName(from, to, dim.getName()), dim.getSize()));
  build(builder, state, NamedTensorType::get(dims, type.getElementType()),
        input, from, to);
}

void RenameOp::build(OpBuilder &builder, OperationState &state, Value input,
                     StringRef from, StringRef to) {
  build(builder, state, input, builder.getStrArrayAttr(from),
        builder.getStrArrayAttr(to));
}

LogicalResult RenameOp::verify() {
  NamedTensorType input = getInput().getType(), result = getType();
  llvm::SmallSet<StringRef, 4> names;
  auto isDimOfInput = [&](StringAttr name) {
    return input.hasDim(name) && names.insert(name).second;
  };
  if (getFrom().size() != getTo().size() ||
      !llvm::all_of(getFrom().getAsRange<StringAttr>(), isDimOfInput))
    return emitOpError("(C1) \"from\" are dimensions of the input, each once, "
                       "one for each of \"to\"");
  auto isRenamed = [&](auto pair) {
    auto [dim, renamed] = pair;
    return getNewName(dim.getName()) == renamed.getName() &&
           dim.getSize() == renamed.getSize();
  };
  if (input.getElementType() != result.getElementType() ||
      input.getRank() != result.getRank() ||
      !llvm::all_of(llvm::zip_equal(input.getDims(), result.getDims()),
                    isRenamed))
    return emitOpError("(C2) the result is the input's type with these names "
                       "changed, found ")
           << getType();
  return success();
}

OpFoldResult RenameOp::fold(FoldAdaptor adaptor) {
  if (Attribute splat = adaptor.getInput())
    return splat;
  auto inner = getInput().getDefiningOp<RenameOp>();
  if (!inner)
    return {};
  if (inner.getInput().getType() == getType())
    return inner.getInput();
  SmallVector<Attribute> from, to;
  for (DimAttr dim : inner.getInput().getType().getDims())
    if (StringAttr name = getNewName(inner.getNewName(dim.getName()));
        name != dim.getName()) {
      from.push_back(dim.getName());
      to.push_back(name);
    }
  setOperand(inner.getInput());
  setFromAttr(ArrayAttr::get(getContext(), from));
  setToAttr(ArrayAttr::get(getContext(), to));
  return getResult();
}

LogicalResult ReshardOp::verify() {
  NamedTensorType input = getInput().getType(), result = getType();
  if (input.withoutSharding() != result.withoutSharding())
    return emitOpError("(C1) operand and result differ in more than their "
                       "sharding");
  if (!result.getSharding())
    return emitOpError("(C2) the result has no sharding");
  return success();
}

OpFoldResult ReshardOp::fold(FoldAdaptor) {
  return getInput().getType() == getType() ? OpFoldResult(getInput())
                                           : OpFoldResult();
}

#define GET_OP_CLASSES
#include "dialect/NDOps.cpp.inc"
