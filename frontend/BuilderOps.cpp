// The operations: what each asks of its operands, and its result's type.

#include "frontend/BuilderState.h"
#include "layout/Spelling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace meshc::frontend {

namespace {

/// Which element types an operation takes.
enum class Elements : uint8_t { Float, Numeric, Bool, Any };

bool accepts(Elements elements, ElementType type) {
  switch (elements) {
  case Elements::Float:
    return isFloat(type);
  case Elements::Numeric:
    return type != ElementType::Bool && !isForData(type);
  case Elements::Bool:
    return type == ElementType::Bool;
  case Elements::Any:
    return true;
  }
  __builtin_unreachable();
}

std::string_view describe(Elements elements) {
  switch (elements) {
  case Elements::Float:
    return "float elements";
  case Elements::Numeric:
    return "numbers";
  case Elements::Bool:
    return "bool elements";
  case Elements::Any:
    return "any elements";
  }
  __builtin_unreachable();
}

/// "and" for andOf: words that C++ reserves have a suffix in method names.
std::string_view getSpelling(std::string_view method) {
  return method.ends_with("Of") ? method.substr(0, method.size() - 2) : method;
}

std::string toString(Tensor tensor) {
  return frontend::toString(tensor.getElementType(), tensor.getDims());
}

std::string quoteList(std::span<const Dim> dims) {
  if (dims.empty())
    return "no dimensions";
  std::string text;
  for (const Dim &dim : dims)
    text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", dim.name);
  return text;
}

std::vector<std::string> getNames(std::span<const Dim> dims) {
  std::vector<std::string> names;
  for (const Dim &dim : dims)
    names.push_back(dim.name);
  return names;
}

bool contains(std::span<const Dim> dims, const std::string &name) {
  return std::any_of(dims.begin(), dims.end(),
                     [&](const Dim &dim) { return dim.name == name; });
}

/// Checks that what computes is given no elements that are for data.
bool checkComputes(BuilderState &state, std::string_view what,
                   Elements elements, Tensor operand, int position,
                   const Where &where) {
  const ElementType type = operand.getElementType();
  const bool computes =
      elements == Elements::Float || elements == Elements::Numeric;
  if (!computes || !isForData(type))
    return true;
  state
      .fail(Code::ComputesWithData, where,
            fmt::format("{} computes, and {} is for data", what, getName(type)),
            position)
      .helps.push_back("convert with i32(...) or f32(...)");
  return false;
}

bool checkElements(BuilderState &state, std::string_view what,
                   Elements elements, Tensor operand, int position,
                   const Where &where) {
  if (accepts(elements, operand.getElementType()))
    return true;
  if (!checkComputes(state, what, elements, operand, position, where))
    return false;
  BuildError &error =
      state.fail(Code::WrongElementType, where,
                 fmt::format("{} takes {}, not {}", what, describe(elements),
                             getName(operand.getElementType())),
                 position);
  if (elements == Elements::Float)
    error.helps.push_back("convert with f32(...)");
  return false;
}

bool checkSameElements(BuilderState &state, std::string_view what, Tensor lhs,
                       Tensor rhs, int position, const Where &where) {
  ElementType first = lhs.getElementType(), second = rhs.getElementType();
  if (first == second)
    return true;
  state
      .fail(Code::ElementTypeMismatch, where,
            fmt::format("{} of {} and {}", what, toString(lhs), toString(rhs)),
            position)
      .helps.push_back(fmt::format(
          "nothing is converted silently; write {}(...) around one of them",
          getName(isFloat(second) || isForData(first) ? second : first)));
  return false;
}

/// Converts `x` to the elements of `other`, if it can be like a number.
void adapt(BuilderState &state, Tensor &x, Tensor other, const Where &where) {
  const ElementType type = other.getElementType();
  if (type != x.getElementType() && isFloat(type) && state.isNumberOfStep(x))
    x = state.create<nd::CastOp>(where, type, {}, BuilderState::getValue(x));
}

/// The same, once what can be converted like a number is.
bool unifyElements(BuilderState &state, std::string_view what, Tensor &lhs,
                   Tensor &rhs, int position, const Where &where) {
  adapt(state, lhs, rhs, where);
  adapt(state, rhs, lhs, where);
  return checkSameElements(state, what, lhs, rhs, position, where);
}

} // namespace

bool checkHasDim(BuilderState &state, std::string_view what, Tensor x,
                 const std::string &name, int position, const Where &where) {
  if (x.hasDim(name))
    return true;
  BuildError &error =
      state.fail(Code::DimNotInTensor, where,
                 fmt::format("{} over dimension \"{}\", which {} lacks", what,
                             name, toString(x)),
                 position);
  error.suggestion = layout::findNearest(name, getNames(x.getDims()));
  error.notes.push_back(fmt::format("it has {}", quoteList(x.getDims())));
  return false;
}

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

Tensor Builder::constant(double value, ElementType type, const Where &where) {
  mlir::Type element = state->getType(type);
  if (isFloat(type)) {
    bool overflows = type == ElementType::F32 && std::isfinite(value) &&
                     std::isinf(static_cast<float>(value));
    if (!overflows)
      return state->create<nd::ConstantOp>(
          where, type, {},
          mlir::cast<mlir::TypedAttr>(
              mlir::Attribute(mlir::FloatAttr::get(element, value))));
  } else if (std::trunc(value) == value && std::abs(value) < 0x1p63) {
    return constant(static_cast<int64_t>(value), type, where);
  }
  state->fail(
      Code::NotRepresentable, where,
      fmt::format("{} is not a value of type {}", value, getName(type)));
  return {};
}

Tensor Builder::constant(int64_t value, ElementType type, const Where &where) {
  if (isFloat(type))
    return constant(static_cast<double>(value), type, where);
  if (!holds(type, value)) {
    state->fail(
        Code::NotRepresentable, where,
        fmt::format("{} is not a value of type {}", value, getName(type)));
    return {};
  }
  return state->create<nd::ConstantOp>(
      where, type, {},
      mlir::cast<mlir::TypedAttr>(mlir::Attribute(
          mlir::IntegerAttr::get(state->getType(type), value))));
}

/// Checks that i32 holds `largest`, made of the positions along `dim`.
static bool checkPositions(BuilderState &state, std::string_view what,
                           const Dim &dim, int64_t largest,
                           const Where &where) {
  if (llvm::isInt<32>(largest))
    return true;
  state.fail(Code::NotRepresentable, where,
             fmt::format("{} counts along \"{}\" in i32, but its size is {}",
                         what, dim.name, dim.size));
  return false;
}

Tensor Builder::iota(const Dim &dim, const Where &where) {
  if (!checkPositions(*state, "iota", dim, dim.size - 1, where))
    return {};
  return state->create<nd::IotaOp>(where, ElementType::I32, {dim});
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

#define MESHC_UNARY(NAME, OP, ELEMENTS)                                        \
  Tensor Builder::NAME(Tensor x, const Where &where) {                         \
    if (!x || !checkElements(*state, getSpelling(#NAME), Elements::ELEMENTS,   \
                             x, 0, where))                                     \
      return {};                                                               \
    std::span<const Dim> dims = x.getDims();                                   \
    return state->create<nd::OP>(where, x.getElementType(),                    \
                                 {dims.begin(), dims.end()},                   \
                                 BuilderState::getValue(x));                   \
  }
#define MESHC_BINARY(NAME, OP, ELEMENTS)                                       \
  Tensor Builder::NAME(Tensor lhs, Tensor rhs, const Where &where) {           \
    std::string_view what = getSpelling(#NAME);                                \
    constexpr Elements elements = Elements::ELEMENTS;                          \
    if (!lhs || !rhs ||                                                        \
        !checkComputes(*state, what, elements, lhs, 0, where) ||               \
        !checkComputes(*state, what, elements, rhs, 1, where) ||               \
        !unifyElements(*state, what, lhs, rhs, 1, where) ||                    \
        !checkElements(*state, what, elements, lhs, 0, where))                 \
      return {};                                                               \
    return state->create<nd::OP>(where, lhs.getElementType(),                  \
                                 BuilderState::uniteLargestFirst({lhs, rhs}),  \
                                 BuilderState::getValue(lhs),                  \
                                 BuilderState::getValue(rhs));                 \
  }
#include "frontend/Elementwise.def"

Tensor Builder::compare(Comparison comparison, Tensor lhs, Tensor rhs,
                        const Where &where) {
  if (!lhs || !rhs || !unifyElements(*state, "comparison", lhs, rhs, 1, where))
    return {};
  static constexpr nd::Predicate predicates[] = {
      nd::Predicate::Eq, nd::Predicate::Ne, nd::Predicate::Lt,
      nd::Predicate::Le, nd::Predicate::Gt, nd::Predicate::Ge};
  return state->create<nd::CompareOp>(
      where, ElementType::Bool, BuilderState::uniteLargestFirst({lhs, rhs}),
      predicates[size_t(comparison)], BuilderState::getValue(lhs),
      BuilderState::getValue(rhs));
}

Tensor Builder::select(Tensor condition, Tensor whenTrue, Tensor whenFalse,
                       const Where &where) {
  if (!condition || !whenTrue || !whenFalse ||
      !checkElements(*state, "the condition of where", Elements::Bool,
                     condition, 0, where) ||
      !unifyElements(*state, "where", whenTrue, whenFalse, 2, where))
    return {};
  return state->create<nd::SelectOp>(
      where, whenTrue.getElementType(),
      BuilderState::uniteLargestFirst({condition, whenTrue, whenFalse}),
      BuilderState::getValue(condition), BuilderState::getValue(whenTrue),
      BuilderState::getValue(whenFalse));
}

Tensor Builder::cast(Tensor x, ElementType type, const Where &where) {
  if (!x || x.getElementType() == type)
    return x;
  std::span<const Dim> dims = x.getDims();
  return state->create<nd::CastOp>(where, type, {dims.begin(), dims.end()},
                                   BuilderState::getValue(x));
}

//===----------------------------------------------------------------------===//
// The set of dimensions
//===----------------------------------------------------------------------===//

Tensor Builder::einsum(const std::vector<Tensor> &inputs,
                       const std::vector<Dim> &result, const Where &where) {
  llvm::SmallVector<mlir::Value> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i] ||
        !checkElements(*state, "einsum", Elements::Float, inputs[i], int(i),
                       where) ||
        !checkSameElements(*state, "einsum", inputs[0], inputs[i], int(i),
                           where))
      return {};
    values.push_back(BuilderState::getValue(inputs[i]));
  }
  if (inputs.empty()) {
    state->fail(Code::MissingArgument, where, "einsum without inputs");
    return {};
  }
  std::vector<Dim> all = BuilderState::unite(inputs);
  int position = int(inputs.size());
  for (const Dim &dim : result) {
    if (!contains(all, dim.name)) {
      BuildError &error = state->fail(
          Code::DimFromNowhere, where,
          fmt::format("result dimension \"{}\" is in no input of the einsum",
                      dim.name),
          position);
      error.suggestion = layout::findNearest(dim.name, getNames(all));
      error.notes.push_back(fmt::format("the inputs have {}", quoteList(all)));
      error.helps.push_back("repeat the result along it with broadcast(...)");
      return {};
    }
    ++position;
  }
  // The products are counted in 64 bits, as flops.
  __int128 products = 1;
  for (const Dim &dim : all) {
    products *= dim.size;
    if (products > std::numeric_limits<int64_t>::max()) {
      state->fail(Code::TensorTooLarge, where,
                  fmt::format("an einsum over {} has more than 2^63 products",
                              quoteList(all)));
      return {};
    }
  }
  return state->create<nd::EinsumOp>(where, inputs[0].getElementType(), result,
                                     values);
}

static std::string_view getName(Reduction reduction) {
  switch (reduction) {
  case Reduction::Sum:
    return "sum";
  case Reduction::Max:
    return "max";
  case Reduction::Min:
    return "min";
  case Reduction::Mean:
    return "mean";
  }
  __builtin_unreachable();
}

static nd::Reduction toDialect(Reduction reduction) {
  switch (reduction) {
  case Reduction::Sum:
    return nd::Reduction::Sum;
  case Reduction::Max:
    return nd::Reduction::Max;
  case Reduction::Min:
    return nd::Reduction::Min;
  case Reduction::Mean:
    return nd::Reduction::Mean;
  }
  __builtin_unreachable();
}

Tensor Builder::reduce(Reduction reduction, Tensor x,
                       const std::vector<Dim> &over, const Where &where) {
  std::string_view what = getName(reduction);
  Elements elements =
      reduction == Reduction::Mean ? Elements::Float : Elements::Numeric;
  if (!x || !checkElements(*state, what, elements, x, 0, where))
    return {};
  for (size_t i = 0; i < over.size(); ++i) {
    if (!checkHasDim(*state, what, x, over[i].name, int(i) + 1, where))
      return {};
    if (contains({over.data(), i}, over[i].name)) {
      state->fail(
          Code::RepeatedDim, where,
          fmt::format("{} names dimension \"{}\" twice", what, over[i].name),
          int(i) + 1);
      return {};
    }
  }
  if (over.empty())
    return x;
  std::vector<Dim> dims;
  for (const Dim &dim : x.getDims())
    if (!contains(over, dim.name))
      dims.push_back(dim);
  return state->create<nd::ReduceOp>(where, x.getElementType(), dims,
                                     toDialect(reduction),
                                     BuilderState::getValue(x));
}

Tensor Builder::argReduce(Extreme extreme, Tensor x, const Dim &over,
                          const Where &where) {
  std::string_view what = extreme == Extreme::Max ? "argmax" : "argmin";
  if (!x || !checkElements(*state, what, Elements::Numeric, x, 0, where) ||
      !checkHasDim(*state, what, x, over.name, 1, where))
    return {};
  std::vector<Dim> dims;
  for (const Dim &dim : x.getDims())
    if (dim.name != over.name)
      dims.push_back(dim);
    else if (!checkPositions(*state, what, dim, dim.size, where))
      return {};
  nd::ArgKind kind =
      extreme == Extreme::Max ? nd::ArgKind::Max : nd::ArgKind::Min;
  return state->create<nd::ArgReduceOp>(where, ElementType::I32, dims, kind,
                                        over.name, BuilderState::getValue(x));
}

Tensor Builder::broadcast(Tensor x, const std::vector<Dim> &dims,
                          const Where &where) {
  if (!x)
    return {};
  for (size_t i = 0; i < dims.size(); ++i)
    if (x.hasDim(dims[i].name)) {
      state
          ->fail(Code::DimAlreadyPresent, where,
                 fmt::format("{} has dimension \"{}\" already", toString(x),
                             dims[i].name),
                 int(i) + 1)
          .notes.push_back("broadcast names the dimensions that are added");
      return {};
    }
  if (dims.empty())
    return x;
  std::vector<Dim> all = dims;
  all.insert(all.end(), x.getDims().begin(), x.getDims().end());
  return state->create<nd::BroadcastOp>(where, x.getElementType(), all,
                                        BuilderState::getValue(x));
}

/// Whether x can have renaming `number` of these.
static bool checkRenaming(BuilderState &state, Tensor x,
                          std::span<const Renaming> all, size_t number,
                          const Where &where) {
  const auto &[from, to] = all[number];
  int position = 2 * int(number) + 1;
  if (!checkHasDim(state, "rename", x, from.name, position, where))
    return false;
  for (const Renaming &earlier : all.first(number)) {
    if (earlier.from.name == from.name) {
      state.fail(
          Code::RepeatedDim, where,
          fmt::format("rename gives dimension \"{}\" two names", from.name),
          position);
      return false;
    }
    if (earlier.to.name == to.name) {
      state.fail(
          Code::RepeatedDim, where,
          fmt::format("rename gives two dimensions the name \"{}\"", to.name),
          position + 1);
      return false;
    }
  }
  // A name is free once its dimension gets another one.
  bool isFree = std::any_of(all.begin(), all.end(), [&](const Renaming &other) {
    return other.from.name == to.name && other.to.name != to.name;
  });
  if (x.hasDim(to.name) && !isFree) {
    state.fail(
        Code::DimAlreadyPresent, where,
        fmt::format("{} has dimension \"{}\" already", toString(x), to.name),
        position + 1);
    return false;
  }
  if (from.size != to.size) {
    state
        .fail(Code::ContradictingSizes, where,
              fmt::format("cannot rename \"{}\" of size {} to \"{}\" of "
                          "size {}",
                          from.name, from.size, to.name, to.size),
              position + 1)
        .notes.push_back("a dimension under another name keeps its size");
    return false;
  }
  return true;
}

Tensor Builder::rename(Tensor x, const std::vector<Renaming> &renamings,
                       const Where &where) {
  if (!x)
    return {};
  llvm::SmallVector<llvm::StringRef> from, to;
  for (size_t i = 0; i < renamings.size(); ++i) {
    if (!checkRenaming(*state, x, renamings, i, where))
      return {};
    from.push_back(renamings[i].from.name);
    to.push_back(renamings[i].to.name);
  }
  std::vector<Dim> dims(x.getDims().begin(), x.getDims().end());
  for (Dim &dim : dims)
    if (auto found = llvm::find(from, dim.name); found != from.end())
      dim = renamings[size_t(found - from.begin())].to;
  mlir::OpBuilder &builder = state->operations;
  return state->create<nd::RenameOp>(
      where, x.getElementType(), dims, BuilderState::getValue(x),
      builder.getStrArrayAttr(from), builder.getStrArrayAttr(to));
}

} // namespace meshc::frontend
