#include "dialect/interpreter/NDInterpreter.h"
#include "dialect/interpreter/SpecialFunctions.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <numbers>

using namespace mlir;
using namespace meshc;
using namespace meshc::interpreter;

namespace {

/// How a tensor of this type lies in a walk over `dims`, by name.
Walked walk(nd::NamedTensorType type, ArrayRef<nd::DimAttr> dims) {
  Sizes strides = getStrides(type.getSizes());
  Walked walked;
  for (nd::DimAttr dim : dims) {
    int64_t d = type.findDim(dim.getName());
    walked.strides.push_back(d < 0 ? 0 : strides[d]);
  }
  return walked;
}

Sizes getBox(ArrayRef<nd::DimAttr> dims) {
  Sizes box;
  for (nd::DimAttr dim : dims)
    box.push_back(dim.getSize());
  return box;
}

nd::NamedTensorType getType(Value value) {
  return cast<nd::NamedTensorType>(value.getType());
}

ElementKind getKind(Value value) {
  return getElementKind(getType(value).getElementType());
}

/// A literal of the program, as its element type can hold it.
template <class Domain>
Scalar<Domain> getConstant(double value, Type elementType) {
  if (!isa<FloatType>(elementType))
    return wrapInteger(int64_t(value), getElementKind(elementType));
  llvm::APFloat rounded(value);
  bool losesInfo;
  rounded.convert(cast<FloatType>(elementType).getFloatSemantics(),
                  llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return Domain::getConstant(rounded.convertToDouble());
}

template <class Domain> class NDInterpreter {
public:
  explicit NDInterpreter(ProgramState<Domain> &state) : state(state) {}

  LogicalResult run(nd::ProgramOp program) {
    std::map<std::string, Tensor<Domain>> written;
    for (Operation &op : program.getBody().front()) {
      auto border = dyn_cast<nd::BorderOpInterface>(op);
      if (border && border.isExit()) {
        auto &outside = border.isVariable() ? written : state.outputs;
        outside[border.getBorderName().str()] =
            values.at(border.getBorderValue());
      } else if (failed(execute(&op))) {
        return failure();
      }
    }
    for (auto &[name, value] : written)
      state.variables[name] = std::move(value);
    return success();
  }

private:
  using T = Tensor<Domain>;
  using S = Scalar<Domain>;

  LogicalResult execute(Operation *op) {
    if (auto loop = dyn_cast<nd::LoopOp>(op))
      return execute(loop);
    if (auto unstack = dyn_cast<nd::UnstackOp>(op)) {
      const T &input = values.at(unstack.getInput());
      for (auto [position, result] : llvm::enumerate(unstack.getResults()))
        set(result, slice(input, getType(unstack.getInput()), unstack.getDim(),
                          int64_t(position)));
      return success();
    }
    FailureOr<T> result = evaluate(op);
    if (failed(result))
      return failure();
    set(op->getResult(0), std::move(*result));
    return success();
  }

  void set(Value value, T tensor) {
    values.insert_or_assign(value, std::move(tensor));
  }

  /// The elements of `input`, of this type, at `position` of `dim`.
  T slice(const T &input, nd::NamedTensorType type, StringRef dim,
          int64_t position) {
    nd::NamedTensorType sliced = nd::withoutDim(type, dim);
    int64_t offset = position * getStrides(input.sizes)[type.findDim(dim)];
    T result(sliced.getSizes());
    forEachPoint(result.sizes,
                 {walk(sliced, sliced.getDims()), walk(type, sliced.getDims())},
                 [&](ArrayRef<int64_t>, ArrayRef<int64_t> at) {
                   result.elements[at[0]] = input.elements[at[1] + offset];
                 });
    return result;
  }

  /// Puts the value `part` at `position` of `dim` in `whole`, of this type.
  void place(T &whole, nd::NamedTensorType type, StringRef dim, Value part,
             int64_t position) {
    const T &tensor = values.at(part);
    int64_t offset = position * getStrides(whole.sizes)[type.findDim(dim)];
    nd::NamedTensorType placed = getType(part);
    forEachPoint(tensor.sizes,
                 {walk(placed, placed.getDims()), walk(type, placed.getDims())},
                 [&](ArrayRef<int64_t>, ArrayRef<int64_t> at) {
                   whole.elements[at[1] + offset] = tensor.elements[at[0]];
                 });
  }

  FailureOr<T> compute(nd::StackOp op) {
    T result(op.getType().getSizes());
    for (auto [position, input] : llvm::enumerate(op.getInputs()))
      place(result, op.getType(), op.getDim(), input, int64_t(position));
    return result;
  }

  LogicalResult execute(nd::LoopOp op) {
    nd::YieldOp yield = op.getYield();
    std::vector<T> carried, stacked, summed;
    for (Value initial : op.getInitial())
      carried.push_back(values.at(initial));
    for (Value result : op.getStackedResults())
      stacked.emplace_back(getType(result).getSizes());
    for (int64_t i = 0; i < op.getDim().getSize(); ++i) {
      int64_t at = op.getPositionOf(i);
      set(op.getPosition(), T(Sizes(), S(at)));
      for (auto [argument, value] :
           llvm::zip_equal(op.getCarriedArguments(), carried))
        set(argument, value);
      for (auto [argument, whole] :
           llvm::zip_equal(op.getSlices(), op.getSliced()))
        set(argument,
            slice(values.at(whole), getType(whole), op.getDim().getName(), at));
      for (Operation &inner : op.getBody().front().without_terminator())
        if (failed(execute(&inner)))
          return failure();
      for (auto [value, yielded] : llvm::zip_equal(carried, yield.getCarried()))
        value = values.at(yielded);
      for (auto [whole, yielded, result] :
           llvm::zip_equal(stacked, yield.getStacked(), op.getStackedResults()))
        place(whole, getType(result), op.getDim().getName(), yielded, at);
      for (auto [n, yielded] : llvm::enumerate(yield.getSummed())) {
        const T &term = values.at(yielded);
        if (i == 0)
          summed.push_back(term);
        else
          add(summed[n], term, getKind(yielded));
      }
    }
    for (auto [results, tensors] : {std::pair(op.getCarriedResults(), &carried),
                                    std::pair(op.getStackedResults(), &stacked),
                                    std::pair(op.getSummedResults(), &summed)})
      for (auto [result, tensor] : llvm::zip_equal(results, *tensors))
        set(result, tensor);
    return success();
  }

  void add(T &sum, const T &term, ElementKind kind) {
    auto add = findFunction<Domain>("add", kind, 2);
    for (auto [element, other] : llvm::zip_equal(sum.elements, term.elements))
      element = add({element, other});
  }

  FailureOr<T> evaluate(Operation *op) {
    return llvm::TypeSwitch<Operation *, FailureOr<T>>(op)
        .template Case<nd::BorderOpInterface>([&](auto entry) {
          return find(entry,
                      entry.isVariable() ? state.variables : state.inputs,
                      entry.getBorderName());
        })
        .template Case<nd::ReshardOp, nd::StopGradientOp, nd::RenameOp>(
            [&](auto op) { return values.at(op.getInput()); })
        .template Case<nd::ConstantOp, nd::IotaOp, nd::RandomOp, nd::EinsumOp,
                       nd::ReduceOp, nd::ArgReduceOp, nd::BroadcastOp,
                       nd::ViewOp, nd::StackOp, nd::GatherOp, nd::PutOp,
                       nd::CompareOp, nd::SelectOp, nd::CastOp>(
            [&](auto op) { return compute(op); })
        .template Case<nd::ElementwiseOpInterface>(
            [&](auto op) { return computeElementwise(op); })
        .Default([](Operation *op) {
          return op->emitOpError("is unknown to the interpreter");
        });
  }

  FailureOr<T> find(Operation *op, const std::map<std::string, T> &tensors,
                    StringRef name) {
    auto found = tensors.find(name.str());
    if (found == tensors.end())
      return op->emitOpError("was given no tensor '") << name << "'";
    if (found->second.sizes != Sizes(getType(op->getResult(0)).getSizes()))
      return op->emitOpError("was given a tensor of other sizes for '")
             << name << "'";
    return found->second;
  }

  //===-- Sources ---------------------------------------------------------===//

  FailureOr<T> compute(nd::ConstantOp op) {
    S value;
    if (auto number = dyn_cast<FloatAttr>(op.getValue()))
      value = Domain::getConstant(number.getValueAsDouble());
    else if (auto integer = dyn_cast<IntegerAttr>(op.getValue()))
      value = wrapInteger(integer.getValue().getSExtValue(), getKind(op));
    else
      return op.emitOpError("has a value unknown to the interpreter");
    return T(op.getType().getSizes(), value);
  }

  FailureOr<T> compute(nd::IotaOp op) {
    T result(op.getType().getSizes());
    auto convert = getConversion<Domain>({/*isFloat=*/false, 64}, getKind(op));
    for (auto [i, element] : llvm::enumerate(result.elements))
      element = convert(S(int64_t(i)));
    return result;
  }

  FailureOr<T> compute(nd::RandomOp op) {
    ElementKind kind = getKind(op).unrounded();
    Type type = op.getType().getElementType();
    if (kind.width < 32)
      type = Float32Type::get(op.getContext());
    auto number = [&](double value) {
      return getConstant<Domain>(value, type);
    };
    auto call = [&](StringRef name, auto... x) {
      return findFunction<Domain>(name, kind, sizeof...(x))({x...});
    };
    const double first = op.getFirst().convertToDouble();
    const double second = op.getSecond().convertToDouble();
    auto draw = [&](double u0, double u1) -> S {
      switch (op.getDistribution()) {
      case nd::Distribution::Uniform:
        return call(
            "add", number(first),
            call("mul", number(second - first), Domain::getConstant(u0)));
      case nd::Distribution::Normal: {
        S radius = call("sqrt", call("mul", number(-2),
                                     call("log", Domain::getConstant(u0))));
        S angle =
            call("mul", number(2 * std::numbers::pi), Domain::getConstant(u1));
        return call("add", number(first),
                    call("mul", number(second),
                         call("mul", radius, call("cos", angle))));
      }
      case nd::Distribution::TruncatedNormal: {
        const double bound = std::erf(std::numbers::sqrt2);
        S within =
            call("add", call("mul", number(2 * bound), Domain::getConstant(u0)),
                 number(-bound));
        return call("add", number(first),
                    call("mul", number(second * std::numbers::sqrt2),
                         call("erf_inv", within)));
      }
      }
      llvm_unreachable("not a distribution");
    };
    T result(op.getType().getSizes());
    const SmallVector<nd::DimAttr> counted = op.getCountedDims();
    Sizes countedSizes = getBox(counted);
    for (auto [size, dim] : llvm::zip_equal(countedSizes, counted))
      if (op.isParted(dim.getName()))
        size *= int64_t(op.getParts());
    const Sizes countedStrides = getStrides(countedSizes);
    int64_t part = 0, firstCounter = 0;
    if (op.getPart()) {
      const S &number = values.at(op.getPart()).elements[0];
      if (isPoison<Domain>(number))
        return op.emitOpError("has a part without meaning");
      part = asInteger<Domain>(number);
    }
    for (auto [stride, dim] : llvm::zip_equal(countedStrides, counted))
      if (op.isParted(dim.getName()))
        firstCounter += part * stride;
    Walked position;
    for (nd::DimAttr dim : op.getType().getDims()) {
      const auto *found = llvm::find(counted, dim);
      position.strides.push_back(
          found == counted.end()
              ? 0
              : countedStrides[size_t(found - counted.begin())] *
                    (op.isParted(dim.getName()) ? int64_t(op.getParts()) : 1));
    }
    const T &seeds = values.at(op.getSeed());
    bool hasSeeds = true;
    const Walked walked[] = {
        walk(op.getType(), op.getType().getDims()),
        walk(op.getSeed().getType(), op.getType().getDims()), position};
    forEachPoint(
        result.sizes, walked, [&](ArrayRef<int64_t>, ArrayRef<int64_t> at) {
          const S &seed = seeds.elements[size_t(at[1])];
          if (isPoison<Domain>(seed)) {
            hasSeeds = false;
            return;
          }
          auto [u0, u1] = getUniformNumbers(
              op.getKey(), asInteger<Domain>(seed), firstCounter + at[2]);
          result.elements[size_t(at[0])] =
              roundTo<Domain>(draw(u0, u1), getKind(op));
        });
    if (!hasSeeds)
      return op.emitOpError("has a seed without meaning");
    return result;
  }

  //===-- Elementwise -----------------------------------------------------===//

  /// function(element of each operand) for every element of the result.
  T mapByName(Operation *op, const ScalarFunction<Domain> &function) {
    nd::NamedTensorType type = getType(op->getResult(0));
    SmallVector<Walked> walked = {walk(type, type.getDims())};
    SmallVector<const T *> operands;
    for (Value operand : op->getOperands()) {
      walked.push_back(walk(getType(operand), type.getDims()));
      operands.push_back(&values.at(operand));
    }
    T result(type.getSizes());
    SmallVector<S, 3> scalars(operands.size());
    forEachPoint(result.sizes, walked,
                 [&](ArrayRef<int64_t>, ArrayRef<int64_t> at) {
                   for (size_t i = 0; i < operands.size(); ++i)
                     scalars[i] = operands[i]->elements[at[i + 1]];
                   result.elements[at[0]] = function(scalars);
                 });
    return result;
  }

  FailureOr<T> computeElementwise(Operation *op) {
    auto function =
        findFunction<Domain>(op->getName().stripDialect(),
                             getKind(op->getOperand(0)), op->getNumOperands());
    if (!function)
      return op->emitOpError("is no function of these elements in the "
                             "interpreter's domain");
    return mapByName(op, function);
  }

  FailureOr<T> compute(nd::CompareOp op) {
    // Booleans are 0 and 1: signed and unsigned order are one.
    auto function = findComparison<Domain>(
        stringifyPredicate(op.getPredicate()), getKind(op.getLhs()));
    if (!function)
      return op.emitOpError("is no comparison in the interpreter's domain");
    return mapByName(op, function);
  }

  FailureOr<T> compute(nd::SelectOp op) {
    return mapByName(op, [](ArrayRef<S> x) -> S {
      if (isPoison<Domain>(x[0]))
        return Poison();
      return asInteger<Domain>(x[0]) ? x[1] : x[2];
    });
  }

  FailureOr<T> compute(nd::CastOp op) {
    return mapByName(
        op, getConversion<Domain>(getKind(op.getInput()), getKind(op)));
  }

  //===-- The set of dimensions -------------------------------------------===//

  FailureOr<T> compute(nd::BroadcastOp op) {
    return mapByName(op, [](ArrayRef<S> x) { return x[0]; });
  }

  FailureOr<T> compute(nd::EinsumOp op) {
    ElementKind kind = getKind(op).unrounded();
    auto add = findFunction<Domain>("add", kind, 2);
    auto mul = findFunction<Domain>("mul", kind, 2);
    SmallVector<nd::DimAttr> dims = nd::getUnionOfDims(op);
    SmallVector<Walked> walked = {walk(op.getType(), dims)};
    SmallVector<const T *> operands;
    for (Value operand : op.getInputs()) {
      walked.push_back(walk(getType(operand), dims));
      operands.push_back(&values.at(operand));
    }
    T result(op.getType().getSizes(), Domain::getConstant(0));
    forEachPoint(getBox(dims), walked,
                 [&](ArrayRef<int64_t>, ArrayRef<int64_t> at) {
                   S product = operands[0]->elements[at[1]];
                   for (size_t i = 1; i < operands.size(); ++i)
                     product = mul({product, operands[i]->elements[at[i + 1]]});
                   S &sum = result.elements[at[0]];
                   sum = add({sum, product});
                 });
    for (S &element : result.elements)
      element = roundTo<Domain>(element, getKind(op));
    return result;
  }

  FailureOr<T> compute(nd::ReduceOp op) {
    ElementKind kind = getKind(op).unrounded();
    const T &input = values.at(op.getInput());
    StringRef name = op.getKind() == nd::Reduction::Max   ? "maximum"
                     : op.getKind() == nd::Reduction::Min ? "minimum"
                                                          : "add";
    auto combine = findFunction<Domain>(name, kind, 2);
    SmallVector<nd::DimAttr> dims = nd::getUnionOfDims(op);
    T result(op.getType().getSizes());
    std::vector<bool> started(result.elements.size());
    forEachPoint(getBox(dims),
                 {walk(op.getType(), dims), walk(getType(op.getInput()), dims)},
                 [&](ArrayRef<int64_t>, ArrayRef<int64_t> at) {
                   S &term = result.elements[at[0]];
                   const S &element = input.elements[at[1]];
                   term = started[at[0]] ? combine({term, element}) : element;
                   started[at[0]] = true;
                 });
    if (op.getKind() == nd::Reduction::Mean) {
      auto div = findFunction<Domain>("div", kind, 2);
      int64_t count = input.elements.size() / result.elements.size();
      for (S &element : result.elements)
        element = div({element, Domain::fromInteger(count)});
    }
    for (S &element : result.elements)
      element = roundTo<Domain>(element, getKind(op));
    return result;
  }

  FailureOr<T> compute(nd::ArgReduceOp op) {
    ElementKind kind = getKind(op.getInput());
    const T &input = values.at(op.getInput());
    bool isMax = op.getKind() == nd::ArgKind::Max;
    auto beats = findComparison<Domain>(isMax ? "gt" : "lt", kind);
    auto differs = findComparison<Domain>("ne", kind);
    auto holds = [](const S &x) { return asInteger<Domain>(x) != 0; };
    // The result's dimensions, then `dim`: positions come in ascending order.
    SmallVector<nd::DimAttr> dims = nd::getUnionOfDims(op);
    T result(op.getType().getSizes());
    std::vector<S> best(result.elements.size());
    forEachPoint(
        getBox(dims),
        {walk(op.getType(), dims), walk(getType(op.getInput()), dims)},
        [&](ArrayRef<int64_t> point, ArrayRef<int64_t> at) {
          const S &element = input.elements[at[1]];
          S &extreme = best[at[0]], &position = result.elements[at[0]];
          bool isFirst = point.back() == 0;
          if (isPoison<Domain>(element) ||
              (!isFirst && isPoison<Domain>(extreme))) {
            extreme = position = Poison();
            return;
          }
          bool isNaN = holds(differs({element, element}));
          bool wasNaN = !isFirst && holds(differs({extreme, extreme}));
          if (isFirst ||
              (!wasNaN && (isNaN || holds(beats({element, extreme}))))) {
            extreme = element;
            position = point.back();
          }
        });
    return result;
  }

  FailureOr<T> compute(nd::ViewOp op) {
    const T &input = values.at(op.getInput());
    ArrayRef<nd::DimAttr> inputDims = getType(op.getInput()).getDims();
    Sizes strides = getStrides(input.sizes);
    // Where each dimension of the input is read, given the place of each of its
    // loops among the dimensions of the result.
    SmallVector<std::pair<layout::Access, SmallVector<int64_t>>> accesses;
    for (nd::DimAttr dim : inputDims) {
      nd::DimAccess access = op.getInputAccess(dim.getName());
      SmallVector<int64_t> loops;
      for (StringAttr loop : access.getLoops())
        loops.push_back(op.getType().findDim(loop));
      accesses.emplace_back(access.getForm(), std::move(loops));
    }
    S zero = getConstant<Domain>(0, op.getType().getElementType());
    T result(op.getType().getSizes());
    forEachPoint(
        result.sizes, {walk(op.getType(), op.getType().getDims())},
        [&](ArrayRef<int64_t> point, ArrayRef<int64_t> at) {
          int64_t from = 0;
          for (auto [d, access] : llvm::enumerate(accesses)) {
            SmallVector<int64_t> positions;
            for (int64_t loop : access.second)
              positions.push_back(point[loop]);
            std::optional<int64_t> position = access.first.evaluate(positions);
            if (!position || *position < 0 || *position >= input.sizes[d]) {
              result.elements[at[0]] = zero;
              return;
            }
            from += *position * strides[d];
          }
          result.elements[at[0]] = input.elements[from];
        });
    return result;
  }

  FailureOr<T> compute(nd::GatherOp op) {
    const T &input = values.at(op.getInput());
    const T &index = values.at(op.getIndex());
    nd::NamedTensorType inputType = getType(op.getInput());
    int64_t dim = inputType.findDim(op.getDim());
    int64_t stride = getStrides(input.sizes)[dim];
    ArrayRef<nd::DimAttr> dims = op.getType().getDims();
    S zero = getConstant<Domain>(0, op.getType().getElementType());
    T result(op.getType().getSizes());
    forEachPoint(
        result.sizes,
        {walk(op.getType(), dims), walk(inputType, dims),
         walk(getType(op.getIndex()), dims)},
        [&](ArrayRef<int64_t>, ArrayRef<int64_t> at) {
          const S &i = index.elements[at[2]];
          if (isPoison<Domain>(i))
            return;
          bool isInside = asInteger<Domain>(i) >= 0 &&
                          asInteger<Domain>(i) < input.sizes[dim];
          result.elements[at[0]] =
              isInside ? input.elements[at[1] + asInteger<Domain>(i) * stride]
                       : zero;
        });
    return result;
  }

  FailureOr<T> compute(nd::PutOp op) {
    auto add = findFunction<Domain>("add", getKind(op).unrounded(), 2);
    const T &input = values.at(op.getInput());
    const T &index = values.at(op.getIndex());
    const int64_t dim = op.getType().findDim(op.getDim());
    T result(op.getType().getSizes(), Domain::getConstant(0));
    const int64_t stride = getStrides(result.sizes)[dim];
    ArrayRef<nd::DimAttr> dims = getType(op.getInput()).getDims();
    forEachPoint(input.sizes,
                 {walk(op.getType(), dims), walk(getType(op.getInput()), dims),
                  walk(getType(op.getIndex()), dims)},
                 [&](ArrayRef<int64_t>, ArrayRef<int64_t> at) {
                   const S &i = index.elements[at[2]];
                   if (isPoison<Domain>(i) || asInteger<Domain>(i) < 0 ||
                       asInteger<Domain>(i) >= result.sizes[dim])
                     return;
                   S &sum =
                       result.elements[at[0] + asInteger<Domain>(i) * stride];
                   sum = add({sum, input.elements[at[1]]});
                 });
    for (S &element : result.elements)
      element = roundTo<Domain>(element, getKind(op));
    return result;
  }

  ProgramState<Domain> &state;
  std::map<Value, Tensor<Domain>, bool (*)(Value, Value)> values{
      [](Value a, Value b) {
        return a.getAsOpaquePointer() < b.getAsOpaquePointer();
      }};
};

} // namespace

template <class Domain>
LogicalResult interpreter::runProgram(nd::ProgramOp program,
                                      ProgramState<Domain> &state) {
  return NDInterpreter<Domain>(state).run(program);
}

#define INSTANTIATE(DOMAIN)                                                    \
  template LogicalResult interpreter::runProgram<DOMAIN>(                      \
      nd::ProgramOp, ProgramState<DOMAIN> &);

INSTANTIATE(F64)
