// Loops: what is built between their beginning and end goes into a region.

#include "frontend/BuilderState.h"

#include <algorithm>

#include <fmt/format.h>

namespace meshc::frontend {

/// `dims` without the one called `name`.
static std::vector<Dim> without(std::span<const Dim> dims,
                                std::string_view name) {
  std::vector<Dim> others(dims.begin(), dims.end());
  std::erase_if(others, [&](const Dim &dim) { return dim.name == name; });
  return others;
}

BuilderState::~BuilderState() {
  // Inner regions use values of outer ones.
  while (!loops.empty())
    loops.pop_back();
}

bool BuilderState::isIn(const Loop &loop, mlir::Value value) const {
  mlir::Region *region = value.getParentRegion();
  for (size_t i = loops.size(); i-- > 0;) {
    if (loops[i].region.get() == region)
      return true;
    if (&loops[i] == &loop)
      return false;
  }
  return false;
}

bool BuilderState::checkNumOperations(const Where &where) {
  constexpr int64_t limit = Builder::maxOperations;
  __int128 operations = 0;
  for (size_t i = loops.size(); i-- > 0;) {
    operations += loops[i].numOperations;
    operations *= loops[i].getNumCopies();
    // Iterations of several loops, multiplied, need not fit.
    operations = std::min<__int128>(operations, limit + 1);
  }
  if (operations <= limit)
    return true;
  if (!std::exchange(loops.front().isTooLarge, true))
    fail(Code::ProgramTooLarge, where,
         fmt::format("the program has more than {} operations: each of the {} "
                     "iterations over \"{}\" has its own",
                     limit, loops.back().dim.size, loops.back().dim.name))
        .notes.push_back("loops that run as loops are not built yet; they are "
                         "written out");
  return false;
}

static std::vector<Dim> getDims(Tensor tensor) {
  return {tensor.getDims().begin(), tensor.getDims().end()};
}

Builder::LoopArguments Builder::beginLoop(const std::string &name,
                                          const Dim &dim,
                                          const std::vector<LoopValue> &carried,
                                          const Where &where) {
  enterNumberedScope(name, where);
  state->scopes.back().isLoop = true;
  const nd::ScopeAttr scope = state->scopes.back().scope;
  const auto origin = nd::OriginAttr::get(scope.getParent(), scope.getName());
  BuilderState::Loop &loop = state->loops.emplace_back(
      BuilderState::Loop{dim, withName(state->getLocation(where), origin),
                         state->operations.saveInsertionPoint(),
                         std::make_unique<mlir::Region>(), carried});
  mlir::Block &block = loop.region->emplaceBlock();
  state->operations.setInsertionPointToEnd(&block);
  auto addArgument = [&](mlir::Type type, ElementType element,
                         std::vector<Dim> dims, const std::string &argument) {
    mlir::Value value =
        block.addArgument(type, withName(state->getLocation(where),
                                         state->getOriginOf(argument)));
    return state->addNode(value, element, std::move(dims), where);
  };
  LoopArguments arguments;
  arguments.position = addArgument(state->getType(ElementType::I32, {}),
                                   ElementType::I32, {}, "position");
  for (const LoopValue &value : carried) {
    ElementType element = value.value.getElementType();
    if (value.value.hasDim(dim.name))
      state->fail(Code::RepeatedDim, value.where,
                  fmt::format("\"{}\" is carried from one position of \"{}\" "
                              "to the next, and has that dimension itself: {}",
                              value.name, dim.name,
                              toString(element, value.value.getDims())));
    arguments.carried.push_back(
        addArgument(BuilderState::getValue(value.value).getType(), element,
                    getDims(value.value), value.name));
  }
  state->checkNumOperations(where);
  return arguments;
}

Tensor BuilderState::slice(Loop &loop, Tensor x, const Where &where) {
  mlir::Value value = getValue(x);
  for (const auto &[whole, slice] : loop.slices)
    if (getValue(whole) == value)
      return slice;
  std::vector<Dim> dims = without(x.getDims(), loop.dim.name);
  mlir::Value argument = loop.region->front().addArgument(
      getType(x.getElementType(), dims), value.getLoc());
  Tensor slice = addNode(argument, x.getElementType(), std::move(dims), where);
  loop.slices.push_back({x, slice});
  return slice;
}

Tensor BuilderState::findSlice(Tensor x, Tensor index, std::string_view dim,
                               const Where &where) {
  for (Loop &loop : loops)
    if (loop.dim.name == dim &&
        loop.region->getArgument(0) == getValue(index) &&
        !isIn(loop, getValue(x)))
      return slice(loop, x, where);
  return {};
}

Tensor BuilderState::checkCarried(const Builder::LoopValue &initial,
                                  const Builder::LoopValue &value) {
  ElementType element = initial.value.getElementType();
  std::vector<Dim> dims = getDims(initial.value);
  bool isSame = value.value.getElementType() == element &&
                std::is_permutation(dims.begin(), dims.end(),
                                    value.value.getDims().begin(),
                                    value.value.getDims().end());
  if (!isSame) {
    fail(Code::CarriedTypeChanges, value.where,
         fmt::format(
             "\"{}\" is {} before the loop and {} after an iteration",
             value.name, toString(element, dims),
             toString(value.value.getElementType(), value.value.getDims())))
        .related.push_back({initial.where, "the type before"});
    return {};
  }
  if (std::ranges::equal(dims, value.value.getDims()))
    return value.value;
  // The same dimensions in another order of storage.
  return create<nd::ReduceOp>(value.where, element, std::move(dims),
                              nd::Reduction::Sum, getValue(value.value));
}

/// `value` with the sharding of `type`, at `builder`.
static mlir::Value reshard(mlir::OpBuilder &builder, mlir::Value value,
                           mlir::Type type) {
  return nd::ReshardOp::create(builder, value.getLoc(), type, value,
                               mlir::ArrayAttr());
}

static void setCarriedType(mlir::Value value, mlir::Type type);

/// Gives what `loop`, which is complete, carries as `number` the sharding of
/// `type`.
static void setCarriedType(nd::LoopOp loop, unsigned number, mlir::Type type) {
  setCarriedType(loop.getBody().getArgument(1 + number), type);
  mlir::Operation *yield = loop.getBody().front().getTerminator();
  mlir::OpOperand &next = yield->getOpOperand(number);
  if (next.get().getType() != type) {
    mlir::OpBuilder builder(yield);
    next.set(reshard(builder, next.get(), type));
  }
  setCarriedType(loop.getResult(number), type);
}

/// Gives `value` the sharding of `type`, and with it what loops carry that
/// begin with it or become it.
static void setCarriedType(mlir::Value value, mlir::Type type) {
  if (value.getType() == type)
    return;
  value.setType(type);
  llvm::SmallVector<mlir::OpOperand *> uses;
  for (mlir::OpOperand &use : value.getUses())
    uses.push_back(&use);
  for (mlir::OpOperand *use : uses) {
    if (use->get() != value)
      continue; // reshards by now
    const unsigned number = use->getOperandNumber();
    if (auto loop = mlir::dyn_cast<nd::LoopOp>(use->getOwner())) {
      if (number < loop.getInitial().size())
        setCarriedType(loop, number, type);
    } else if (auto yield = mlir::dyn_cast<nd::YieldOp>(use->getOwner())) {
      if (number >= yield.getCarried().size())
        continue;
      auto around = mlir::cast<nd::LoopOp>(yield->getParentOp());
      mlir::OpOperand &initial = around->getOpOperand(number);
      const mlir::Type wanted = initial.get().getType();
      if (wanted == type)
        continue;
      if (mlir::cast<nd::NamedTensorType>(wanted).getSharding()) {
        mlir::OpBuilder builder(yield);
        use->set(reshard(builder, value, wanted));
        continue;
      }
      mlir::OpBuilder builder(around);
      initial.set(reshard(builder, initial.get(), type));
      setCarriedType(around, number, type);
    }
  }
}

bool BuilderState::alignInitial(Loop &loop, size_t number, mlir::Value next) {
  mlir::Value initial = getValue(loop.initial[number].value);
  if (mlir::cast<nd::NamedTensorType>(initial.getType()).getSharding() ||
      initial.getType() == next.getType())
    return false;
  mlir::OpBuilder outside(context);
  outside.restoreInsertionPoint(loop.outside);
  Builder::LoopValue &aligned = loop.initial[number];
  aligned.value = addNode(reshard(outside, initial, next.getType()),
                          aligned.value.getElementType(),
                          getDims(aligned.value), aligned.where);
  setCarriedType(loop.region->getArgument(unsigned(1 + number)),
                 next.getType());
  return true;
}

void BuilderState::alignCarried(Loop &loop,
                                llvm::MutableArrayRef<mlir::Value> next) {
  // What has a sharding now may be what another value becomes.
  for (bool changed = true; changed;) {
    changed = false;
    for (auto [number, value] : llvm::enumerate(next))
      changed |= alignInitial(loop, number, value);
  }
  for (auto [initial, value] : llvm::zip_equal(loop.initial, next))
    if (mlir::Type type = getValue(initial.value).getType();
        value.getType() != type)
      value = reshard(operations, value, type);
}

//===-- State -------------------------------------------------------------===//

Tensor BuilderState::carryState(Loop &loop, Declared &variable, Tensor before,
                                const Where &where) {
  if (const Tensor::Node *known = loop.findState(variable))
    return Tensor(known);
  auto read = getValue(variable.value).getDefiningOp<nd::ReadOp>();
  if (before.hasDim(loop.dim.name)) {
    fail(Code::RepeatedDim, where,
         fmt::format("state \"{}\" is carried from one position of \"{}\" to "
                     "the next, and has that dimension itself: {}",
                     read.getVariable().str(), loop.dim.name,
                     toString(before.getElementType(), before.getDims())))
        .related.push_back({variable.where, "declared here"});
    return {};
  }
  mlir::Value argument = loop.region->front().insertArgument(
      unsigned(1 + loop.initial.size()), getValue(before).getType(),
      read.getLoc());
  loop.initial.push_back({read.getVariable().str(), before, where});
  Tensor inside =
      addNode(argument, before.getElementType(), getDims(before), where);
  loop.states.push_back({&variable, &nodes.back()});
  return inside;
}

void BuilderState::dropUnsetStates() {
  Loop &loop = loops.back();
  const size_t first = loop.initial.size() - loop.states.size();
  for (size_t i = loop.states.size(); i-- > 0;) {
    const auto [variable, inside] = loop.states[i];
    if (variable->last && variable->numLoops == loops.size())
      continue;
    mlir::Block &block = loop.region->front();
    const auto number = unsigned(1 + first + i);
    const mlir::Value before = getValue(loop.initial[first + i].value);
    origins.erase(block.getArgument(number));
    block.getArgument(number).replaceAllUsesWith(before);
    block.eraseArgument(number);
    inside->value = before; // results may be it
    loop.initial.erase(loop.initial.begin() + std::ptrdiff_t(first + i));
    loop.states.erase(loop.states.begin() + std::ptrdiff_t(i));
  }
}

std::vector<BuilderState::Declared *> BuilderState::getStackedStates() {
  std::vector<Declared *> states;
  for (auto &[name, variable] : declared)
    if (variable.last && variable.numLoops == loops.size() &&
        !loops.back().findState(variable))
      states.push_back(&variable);
  return states;
}

void BuilderState::forgetStatesOfLoops() {
  for (auto &[name, variable] : declared)
    if (variable.numLoops > loops.size())
      variable.last = {}, variable.numLoops = 0;
}

//===-- The end of a loop -------------------------------------------------===//

std::optional<Builder::LoopResults>
Builder::endLoop(const std::vector<LoopValue> &carried,
                 const std::vector<LoopValue> &stacked,
                 const std::vector<LoopValue> &summed, const Where &where) {
  llvm::SmallVector<mlir::Value> yielded[3];
  if (!state->failed) {
    state->dropUnsetStates();
    for (size_t i = 0; i < carried.size(); ++i)
      if (Tensor next =
              state->checkCarried(state->loops.back().initial[i], carried[i]))
        yielded[0].push_back(BuilderState::getValue(next));
    for (const auto &[variable, before] : state->loops.back().states)
      yielded[0].push_back(BuilderState::getValue(variable->last));
  }
  if (!state->failed)
    state->alignCarried(state->loops.back(), yielded[0]);
  // What iterations set of states of theirs is like stacked values.
  std::vector<BuilderState::Declared *> states = state->getStackedStates();
  BuilderState::Loop loop = std::move(state->loops.back());
  state->loops.pop_back();
  leaveScope();
  auto endRegion = [&] {
    state->operations.restoreInsertionPoint(loop.outside);
    if (!state->loops.empty())
      state->loops.back().numOperations += int64_t(
          std::min<__int128>(loop.numOperations * __int128(loop.getNumCopies()),
                             maxOperations + 1));
  };
  if (state->failed) {
    endRegion();
    state->forgetStatesOfLoops();
    return std::nullopt;
  }
  for (const LoopValue &value : stacked)
    yielded[1].push_back(BuilderState::getValue(value.value));
  for (const BuilderState::Declared *variable : states)
    yielded[1].push_back(BuilderState::getValue(variable->last));
  for (const LoopValue &value : summed)
    yielded[2].push_back(BuilderState::getValue(value.value));
  nd::YieldOp::create(state->operations, loop.location, yielded[0], yielded[1],
                      yielded[2]);
  endRegion();

  // The types of the results.
  std::vector<std::pair<ElementType, std::vector<Dim>>> made;
  for (const LoopValue &value : loop.initial)
    made.push_back({value.value.getElementType(), getDims(value.value)});
  auto addStacked = [&](Tensor value) {
    std::vector<Dim> dims = getDims(value);
    dims.insert(dims.begin(), loop.dim);
    made.push_back({value.getElementType(), std::move(dims)});
  };
  for (const LoopValue &value : stacked)
    addStacked(value.value);
  for (const BuilderState::Declared *variable : states)
    addStacked(variable->last);
  for (const LoopValue &value : summed)
    made.push_back({value.value.getElementType(), getDims(value.value)});
  llvm::SmallVector<mlir::Value> initial, sliced;
  llvm::SmallVector<mlir::Type> types;
  for (const auto &[element, dims] : made) {
    if (!state->checkType(element, dims, where)) {
      state->forgetStatesOfLoops();
      return std::nullopt;
    }
    types.push_back(state->getType(element, dims));
  }
  for (const LoopValue &value : loop.initial)
    initial.push_back(BuilderState::getValue(value.value));
  // Those that are carried keep a sharding of their own.
  llvm::copy(mlir::ValueRange(initial).getTypes(), types.begin());
  for (const auto &[whole, slice] : loop.slices)
    sliced.push_back(BuilderState::getValue(whole));
  auto dim = nd::DimAttr::get(
      mlir::StringAttr::get(state->context, loop.dim.name), loop.dim.size);
  auto op = nd::LoopOp::create(state->operations, loop.location, types, dim,
                               initial, sliced);
  op.getBody().takeBody(*loop.region);
  std::vector<Tensor> results;
  for (auto [value, type] : llvm::zip_equal(op.getResults(), made))
    results.push_back(
        state->addNode(value, type.first, std::move(type.second), where));
  size_t next = 0;
  auto take = [&](size_t count) {
    std::vector<Tensor> taken;
    for (size_t i = 0; i < count; ++i)
      taken.push_back(results[next++]);
    return taken;
  };
  auto leave = [&](BuilderState::Declared &variable) {
    variable.last = results[next++];
    variable.numLoops = state->loops.size();
  };
  LoopResults given;
  given.carried = take(carried.size());
  for (const auto &[variable, before] : loop.states)
    leave(*variable);
  given.stacked = take(stacked.size());
  for (BuilderState::Declared *variable : states)
    leave(*variable);
  given.summed = take(summed.size());
  return given;
}

} // namespace meshc::frontend
