#include "dialect/interpreter/SPMDInterpreter.h"

#include "dialect/interpreter/Blocks.h"
#include "dialect/interpreter/ScalarProgram.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::interpreter;

namespace {

template <class Domain> class SPMDInterpreter {
public:
  SPMDInterpreter(spmd::ProgramOp program, ProgramState<Domain> &state)
      : program(program), state(state), mesh(nd::getMesh(program)),
        devices(mesh.getNumDevices()) {}

  LogicalResult run() {
    std::map<std::string, T> written;
    for (Operation &op : program.getBody().front()) {
      auto border = dyn_cast<nd::BorderOpInterface>(op);
      if (border && border.isExit()) {
        auto &outside = border.isVariable() ? written : state.outputs;
        if (failed(gatherTo(border, outside[border.getBorderName().str()])))
          return failure();
      } else if (failed(evaluate(&op))) {
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

  /// Sets the results of `op` on every device.
  LogicalResult evaluate(Operation *op) {
    return llvm::TypeSwitch<Operation *, LogicalResult>(op)
        .template Case<nd::BorderOpInterface>([&](auto entry) {
          return scatterTo(entry,
                           entry.isVariable() ? state.variables : state.inputs);
        })
        .template Case<spmd::CollectiveOpInterface, spmd::AxisIndexOp,
                       linalg::LinalgOp, tensor::EmptyOp, tensor::SplatOp,
                       tensor::ExtractSliceOp, tensor::InsertSliceOp>(
            [&](auto op) { return compute(op); })
        .template Case<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(
            [&](auto op) { return reshape(op); })
        .template Case<spmd::ViewOp, spmd::PutOp>(
            [&](auto op) { return computeGeneric(op); })
        .template Case<spmd::StackOp>([&](auto op) { return compute(op); })
        .Default([&](Operation *op) {
          auto constant = dyn_cast<arith::ConstantOp>(op);
          if (constant && isa<RankedTensorType>(constant.getType()))
            return compute(constant);
          return computeScalar(op);
        });
  }

  /// result[device] = function(device) on every device.
  template <class Function> LogicalResult set(Value result, Function function) {
    Blocks<Domain> blocks;
    for (int64_t device = 0; device < devices; ++device)
      blocks.push_back(function(device));
    values[result] = std::move(blocks);
    return success();
  }

  const T &get(Value value, int64_t device) { return values.at(value)[device]; }

  static Sizes getSizes(Value value) {
    return Sizes(cast<RankedTensorType>(value.getType()).getShape());
  }

  //===-- Border ----------------------------------------------------------===//

  LogicalResult scatterTo(nd::BorderOpInterface entry,
                          const std::map<std::string, T> &tensors) {
    nd::NamedTensorType type = entry.getGlobalType();
    StringRef name = entry.getBorderName();
    auto found = tensors.find(name.str());
    if (found == tensors.end())
      return entry->emitOpError("was given no tensor '") << name << "'";
    if (found->second.sizes != Sizes(type.getSizes()))
      return entry->emitOpError("was given a tensor of other sizes for '")
             << name << "'";
    // On devices integers are signless.
    const ElementKind kind =
        getElementKind(nd::getSignless(type.getElementType()));
    values[entry.getBorderValue()] = scatter<Domain>(
        mesh, nd::getSharding(type, mesh), kind, withKind(found->second, kind));
    return success();
  }

  LogicalResult gatherTo(nd::BorderOpInterface exit, T &whole) {
    nd::NamedTensorType type = exit.getGlobalType();
    std::string error;
    std::optional<T> gathered =
        gather<Domain>(mesh, type.getSizes(), nd::getSharding(type, mesh),
                       getElementKind(nd::getSignless(type.getElementType())),
                       values.at(exit.getBorderValue()), error);
    if (!gathered)
      return exit->emitOpError("cannot be gathered: ") << error;
    whole =
        withKind(std::move(*gathered), getElementKind(type.getElementType()));
    return success();
  }

  /// The bits of integers, as this kind reads them.
  static T withKind(T tensor, ElementKind kind) {
    for (S &element : tensor.elements)
      if (const auto *integer = std::get_if<int64_t>(&element))
        element = wrapInteger(*integer, kind);
    return tensor;
  }

  //===-- Communication ---------------------------------------------------===//

  LogicalResult compute(spmd::CollectiveOpInterface op) {
    nd::NamedTensorType source = op.getSourceType();
    nd::NamedTensorType target = op.getTargetType();
    std::string error;
    auto blocks = redistribute<Domain>(
        mesh, source.getSizes(), nd::getSharding(source, mesh),
        nd::getSharding(target, mesh),
        getElementKind(nd::getSignless(source.getElementType())),
        values.at(op.getInput()), error);
    if (!blocks)
      return op->emitOpError("cannot be executed: ") << error;
    values[op.getResult()] = std::move(*blocks);
    return success();
  }

  LogicalResult compute(spmd::AxisIndexOp op) {
    nd::AxisRefAttr ref = op.getAxis();
    std::optional<int32_t> axis = mesh.findAxis(ref.getName().getValue());
    if (!axis)
      return op.emitOpError("names no axis of the mesh");
    layout::AxisRef part = mesh.getWholeAxis(*axis);
    if (ref.getSize() != 0)
      part = {*axis, ref.getPre(), ref.getSize()};
    return set(op, [&](int64_t device) {
      return T({}, S(mesh.getCoordinate(part, mesh.getCoordinates(device))));
    });
  }

  //===-- Computation -----------------------------------------------------===//

  /// Gives a frame what `program` captures, on one device.
  void capture(const ScalarProgram<Domain> &scalars, int64_t device,
               typename ScalarProgram<Domain>::Frame &frame) {
    for (auto [value, slot] : scalars.getCapturedScalars())
      if (values.count(value)) // else an argument, set for each point
        frame.slots[slot] = get(value, device).elements[0];
    for (auto [index, value] : llvm::enumerate(scalars.getCapturedTensors()))
      frame.tensors[index] = &get(value, device);
  }

  LogicalResult computeScalar(Operation *op) {
    ScalarProgram<Domain> scalars;
    if (failed(scalars.append(op)))
      return failure();
    SmallVector<Blocks<Domain>> results(op->getNumResults());
    for (int64_t device = 0; device < devices; ++device) {
      auto frame = scalars.makeFrame();
      capture(scalars, device, frame);
      scalars.run(frame);
      if (!frame.error.empty())
        return op->emitOpError() << frame.error;
      for (auto [result, blocks] : llvm::zip_equal(op->getResults(), results))
        blocks.push_back(T({}, frame.slots[scalars.getSlot(result)]));
    }
    for (auto [result, blocks] : llvm::zip_equal(op->getResults(), results))
      values[result] = std::move(blocks);
    return success();
  }

  /// Adds `factor` times `expr` to where an operand lies; false if that is not
  /// linear.
  static bool add(AffineExpr expr, int64_t factor, Walked &walked) {
    if (auto dim = dyn_cast<AffineDimExpr>(expr)) {
      walked.strides[dim.getPosition()] += factor;
      return true;
    }
    if (auto constant = dyn_cast<AffineConstantExpr>(expr)) {
      walked.base += constant.getValue() * factor;
      return true;
    }
    auto parts = dyn_cast<AffineBinaryOpExpr>(expr);
    if (!parts)
      return false;
    if (expr.getKind() == AffineExprKind::Add)
      return add(parts.getLHS(), factor, walked) &&
             add(parts.getRHS(), factor, walked);
    // A constant factor stands on the right.
    auto scale = dyn_cast<AffineConstantExpr>(parts.getRHS());
    return expr.getKind() == AffineExprKind::Mul && scale &&
           add(parts.getLHS(), factor * scale.getValue(), walked);
  }

  /// How an operand lies in the iteration space of `map`.
  static FailureOr<Walked> walk(Operation *op, AffineMap map,
                                ArrayRef<int64_t> sizes) {
    Walked walked;
    walked.strides.resize(map.getNumDims(), 0);
    Sizes strides = getStrides(sizes);
    for (auto [expr, stride] : llvm::zip_equal(map.getResults(), strides)) {
      if (!add(expr, stride, walked))
        return op->emitOpError("has an indexing map unknown to the "
                               "interpreter: ")
               << AffineMapAttr::get(map);
    }
    return walked;
  }

  LogicalResult compute(linalg::LinalgOp op) {
    Block &body = *op.getBlock();
    ScalarProgram<Domain> scalars;
    if (failed(scalars.appendBody(body)))
      return failure();
    SmallVector<unsigned> arguments, yielded;
    for (Value argument : body.getArguments())
      arguments.push_back(scalars.getSlot(argument));
    for (Value value : body.getTerminator()->getOperands())
      yielded.push_back(scalars.getSlot(value));
    SmallVector<Walked> walked;
    for (auto [operand, map] :
         llvm::zip_equal(op->getOperands(), op.getIndexingMapsArray())) {
      Sizes sizes; // none for a scalar
      if (isa<RankedTensorType>(operand.getType()))
        sizes = getSizes(operand);
      FailureOr<Walked> one = walk(op, map, sizes);
      if (failed(one))
        return failure();
      walked.push_back(*one);
    }

    unsigned numInputs = op.getNumDpsInputs(), numInits = op.getNumDpsInits();
    SmallVector<Blocks<Domain>> results(numInits);
    for (int64_t device = 0; device < devices; ++device) {
      auto frame = scalars.makeFrame();
      capture(scalars, device, frame);
      SmallVector<T> inits;
      for (Value init : op.getDpsInits())
        inits.push_back(get(init, device));
      SmallVector<const T *> operands;
      for (Value input : op.getDpsInputs())
        operands.push_back(&get(input, device));
      for (T &init : inits)
        operands.push_back(&init);
      forEachPoint(op.getStaticLoopRanges(), walked,
                   [&](ArrayRef<int64_t> point, ArrayRef<int64_t> at) {
                     frame.point = point;
                     for (size_t i = 0; i < operands.size(); ++i)
                       frame.slots[arguments[i]] = operands[i]->elements[at[i]];
                     scalars.run(frame);
                     for (size_t i = 0; i < numInits; ++i)
                       inits[i].elements[at[numInputs + i]] =
                           frame.slots[yielded[i]];
                   });
      if (!frame.error.empty())
        return op->emitOpError() << frame.error;
      for (size_t i = 0; i < numInits; ++i)
        results[i].push_back(std::move(inits[i]));
    }
    for (size_t i = 0; i < numInits; ++i)
      values[op->getResult(i)] = std::move(results[i]);
    return success();
  }

  //===-- Tensors ---------------------------------------------------------===//

  LogicalResult compute(arith::ConstantOp op) {
    auto elements = dyn_cast<DenseElementsAttr>(op.getValue());
    if (!elements)
      return op.emitOpError("is a tensor unknown to the interpreter");
    T whole(getSizes(op));
    if (isa<FloatType>(elements.getElementType())) {
      for (auto [to, from] :
           llvm::zip_equal(whole.elements, elements.getValues<FloatAttr>()))
        to = Domain::getConstant(from.getValueAsDouble());
    } else {
      unsigned width = getElementKind(elements.getElementType()).width;
      for (auto [to, from] :
           llvm::zip_equal(whole.elements, elements.getValues<APInt>()))
        to = wrapInteger(from.getSExtValue(), width);
    }
    return set(op, [&](int64_t) { return whole; });
  }

  /// By what it is as an operation of `linalg`.
  template <class Op> LogicalResult computeGeneric(Op op) {
    // In no region: such a block does not know its context.
    Block block;
    OpBuilder builder(op.getContext());
    builder.setInsertionPointToStart(&block);
    Value result = op.buildGeneric(builder);
    for (Operation &part : block)
      if (failed(evaluate(&part)))
        return failure();
    Blocks<Domain> blocks = std::move(values[result]);
    for (Operation &part : block)
      for (Value value : part.getResults())
        values.erase(value);
    values[op.getResult()] = std::move(blocks);
    return success();
  }

  LogicalResult compute(spmd::StackOp op) {
    return set(op, [&](int64_t device) {
      T whole(getSizes(op));
      auto next = whole.elements.begin();
      for (Value part : op.getParts())
        next = llvm::copy(get(part, device).elements, next);
      return whole;
    });
  }

  LogicalResult compute(tensor::EmptyOp op) {
    return set(op, [&](int64_t) { return T(getSizes(op)); });
  }

  LogicalResult compute(tensor::SplatOp op) {
    return set(op, [&](int64_t device) {
      return T(getSizes(op), get(op.getInput(), device).elements[0]);
    });
  }

  template <class Op> LogicalResult reshape(Op op) {
    return set(op.getResult(), [&](int64_t device) {
      return T(getSizes(op.getResult()), get(op.getSrc(), device).elements);
    });
  }

  /// Where a slice begins, as numbers on this device; checks that it fits.
  template <class Op>
  FailureOr<Walked> walkSlice(Op op, ArrayRef<int64_t> sizes, int64_t device) {
    Walked walked;
    Sizes strides = getStrides(sizes);
    for (auto [d, offset] : llvm::enumerate(op.getMixedOffsets())) {
      std::optional<int64_t> constant = getConstantIntValue(offset);
      S begin = constant ? S(*constant)
                         : get(cast<Value>(offset), device).elements[0];
      int64_t length = op.getStaticSizes()[d], step = op.getStaticStrides()[d];
      if (ShapedType::isDynamic(length) || ShapedType::isDynamic(step))
        return op.emitOpError("has sizes unknown to the interpreter");
      if (isPoison<Domain>(begin))
        return op.emitOpError("begins at an index without meaning");
      int64_t first = asInteger<Domain>(begin);
      if (first < 0 || first + (length - 1) * step >= sizes[d])
        return op.emitOpError("reaches out of bounds");
      walked.base += first * strides[d];
      walked.strides.push_back(step * strides[d]);
    }
    return walked;
  }

  LogicalResult compute(tensor::ExtractSliceOp op) {
    bool fits = true;
    LogicalResult done = set(op, [&](int64_t device) {
      T slice(getSizes(op));
      const T &source = get(op.getSource(), device);
      FailureOr<Walked> from = walkSlice(op, source.sizes, device);
      fits &= succeeded(from);
      if (!fits)
        return slice;
      // Ranks may differ by dimensions of size 1: the order is the same.
      Sizes box(op.getStaticSizes());
      forEachPoint(box, {*from, {0, getStrides(box)}},
                   [&](ArrayRef<int64_t>, ArrayRef<int64_t> at) {
                     slice.elements[at[1]] = source.elements[at[0]];
                   });
      return slice;
    });
    return success(fits && succeeded(done));
  }

  LogicalResult compute(tensor::InsertSliceOp op) {
    bool fits = true;
    LogicalResult done = set(op, [&](int64_t device) {
      T whole = get(op.getDest(), device);
      const T &source = get(op.getSource(), device);
      FailureOr<Walked> to = walkSlice(op, whole.sizes, device);
      fits &= succeeded(to);
      if (!fits)
        return whole;
      Sizes box(op.getStaticSizes());
      forEachPoint(box, {*to, {0, getStrides(box)}},
                   [&](ArrayRef<int64_t>, ArrayRef<int64_t> at) {
                     whole.elements[at[0]] = source.elements[at[1]];
                   });
      return whole;
    });
    return success(fits && succeeded(done));
  }

  spmd::ProgramOp program;
  ProgramState<Domain> &state;
  layout::Mesh mesh;
  int64_t devices;
  std::map<Value, Blocks<Domain>, bool (*)(Value, Value)> values{
      [](Value a, Value b) {
        return a.getAsOpaquePointer() < b.getAsOpaquePointer();
      }};
};

} // namespace

template <class Domain>
LogicalResult interpreter::runProgram(spmd::ProgramOp program,
                                      ProgramState<Domain> &state) {
  return SPMDInterpreter<Domain>(program, state).run();
}

#define INSTANTIATE(DOMAIN)                                                    \
  template LogicalResult interpreter::runProgram<DOMAIN>(                      \
      spmd::ProgramOp, ProgramState<DOMAIN> &);

INSTANTIATE(F64)
