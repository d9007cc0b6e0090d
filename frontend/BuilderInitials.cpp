// Initial values that are expressions: the program @init computes them.

#include "frontend/BuilderState.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <algorithm>
#include <cassert>
#include <map>

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::frontend;

namespace {

/// Makes values of @init independent of @forward: what they are made of there
/// is made once more in front of them.
class InitialCopies {
public:
  /// Of what stands from `first` on in @init; null: of all.
  InitialCopies(mlir::Block &init, mlir::Operation *first)
      : init(init), builder(init.getParentOp()->getContext()) {
    if (first)
      builder.setInsertionPoint(first);
    else
      builder.setInsertionPointToEnd(&init);
  }

  void add(mlir::Value value) {
    std::vector<mlir::Value> open{value};
    while (!open.empty()) { // programs are deep: no recursion
      mlir::Operation *op = open.back().getDefiningOp();
      const size_t numOpen = open.size();
      for (mlir::Value operand : op->getOperands())
        if (!isThere(operand))
          open.push_back(operand);
      if (open.size() > numOpen)
        continue;
      if (!isThere(open.back()))
        builder.clone(*op, copies);
      open.pop_back();
    }
  }
  mlir::Value get(mlir::Value value) const {
    return copies.lookupOrDefault(value);
  }

private:
  bool isThere(mlir::Value value) const {
    return value.getParentBlock() == &init || copies.contains(value);
  }

  mlir::Block &init;
  mlir::OpBuilder builder;
  mlir::IRMapping copies;
};

} // namespace

std::vector<Dim> Builder::beginInitial(const std::vector<Dim> &dims) {
  assert(!state->outside && "initial values do not nest");
  // Of the call whose variables the open one has, if there is one.
  std::vector<Dim> stacked;
  for (size_t loop : state->getLoopsOfVariables())
    stacked.push_back(state->loops[loop].dim);
  std::vector<Dim> all(stacked);
  all.insert(all.end(), dims.begin(), dims.end());

  if (!state->init)
    state->init = nd::ProgramOp::create(state->declarations,
                                        state->module->getLoc(), "init");
  mlir::Block &block = state->init.getBody().front();
  state->outside.emplace(BuilderState::Outside{
      state->operations.saveInsertionPoint(), std::exchange(state->loops, {}),
      std::move(stacked), &block, block.empty() ? nullptr : &block.back()});
  state->operations.setInsertionPointToEnd(&block);
  return all;
}

Tensor Builder::endInitial(Tensor value, ElementType type,
                           const std::vector<Dim> &dims, const Where &where) {
  // The builder may stand in a loop of it, if that has an error.
  mlir::Block &block = *state->outside->block;
  mlir::Operation *last = state->outside->last;
  mlir::Operation *first = nullptr;
  if (last)
    first = last->getNextNode();
  else if (!block.empty())
    first = &block.front();
  if (value && !isInitial(value, type, dims, where))
    value = {};
  if (value) {
    InitialCopies copies(block, first);
    for (mlir::Operation *op = first; op; op = op->getNextNode())
      for (mlir::OpOperand &operand : op->getOpOperands())
        if (operand.get().getParentBlock() != &block) {
          copies.add(operand.get());
          operand.set(copies.get(operand.get()));
        }
    mlir::Value initial = BuilderState::getValue(value);
    if (initial.getParentBlock() != &block) {
      copies.add(initial);
      value = state->addNode(
          copies.get(initial), type,
          std::vector<Dim>(value.getDims().begin(), value.getDims().end()),
          where);
    }
  }
  BuilderState::Outside outside = std::move(*state->outside);
  state->outside.reset();
  state->loops = std::move(outside.loops);
  // A value in error may read what a loop computes, which must not have uses
  // outside.
  if (!value) {
    for (mlir::Operation *op = block.empty() ? nullptr : &block.back();
         op != last;) {
      mlir::Operation *before = op->getPrevNode();
      if (!mlir::isa<nd::InputOp>(op)) // the seed of what is drawn later
        op->erase();
      op = before;
    }
    state->origins.clear();
  }
  state->operations.restoreInsertionPoint(outside.place);
  if (block.empty()) { // a number, which is none of an operation
    state->init.erase();
    state->init = {};
  }
  return value;
}

bool Builder::isInitial(Tensor value, ElementType type,
                        const std::vector<Dim> &dims, const Where &where) {
  const std::string wanted = toString(type, dims);
  if (const Origin origin = getOrigin(value); origin != Origin::Numbers) {
    state
        ->fail(Code::WrongKind, where,
               "an initial value is made of numbers, positions and random "
               "numbers alone")
        .notes.push_back(origin == Origin::Parameters
                             ? "this one reads a parameter"
                             : "this one reads an input, or what a loop "
                               "computes");
    return false;
  }
  if (value.getElementType() != type) {
    state->fail(Code::ElementTypeMismatch, where,
                fmt::format("the initial value of {} is {}", wanted,
                            toString(value.getElementType(), value.getDims())));
    return false;
  }
  std::vector<Dim> all(dims);
  all.insert(all.end(), state->outside->stacked.begin(),
             state->outside->stacked.end());
  for (const Dim &dim : value.getDims())
    if (std::find(all.begin(), all.end(), dim) == all.end()) {
      state
          ->fail(Code::UnexpectedDim, where,
                 fmt::format("the initial value of {} is {}", wanted,
                             toString(value.getElementType(), value.getDims())))
          .notes.push_back(
              fmt::format("the parameter has no dimension \"{}\"", dim.name));
      return false;
    }
  return true;
}

void BuilderState::setInitial(const std::string &parameter,
                              nd::NamedTensorType type, Tensor value,
                              mlir::Location location) {
  mlir::Value initial = getValue(value);
  initials[parameter] = initial;
  mlir::OpBuilder builder(context);
  builder.setInsertionPointToEnd(initial.getParentBlock());
  if (initial.getType() != type)
    initial =
        nd::BroadcastOp::create(builder, location, mlir::Type(type), initial);
  nd::WriteOp::create(builder, location, parameter, initial);
}

//===-- Comparing ---------------------------------------------------------===//

namespace {

/// Whether two values of @init are computed alike: by the same operations of
/// the same numbers. Draws are called like the call or the program that they
/// are in; where one differs from another, so do those that they stand for.
class InitialComparison {
public:
  bool areAlike(mlir::Value first, mlir::Value second) {
    open.push_back({first, second});
    while (!open.empty()) { // programs are deep: no recursion
      auto [x, y] = open.pop_back_val();
      auto [known, isNew] = others.try_emplace(x, y);
      if (known->second != y)
        return false;
      if (x == y || !isNew)
        continue;
      auto made = mlir::dyn_cast<mlir::OpResult>(x);
      auto other = mlir::dyn_cast<mlir::OpResult>(y);
      if (!made || !other || made.getResultNumber() != other.getResultNumber())
        return false;
      if (!haveAlikeBodies(made.getOwner(), other.getOwner()))
        return false;
    }
    return true;
  }

private:
  /// The operations of loops one by one; of any other that one alone.
  bool haveAlikeBodies(mlir::Operation *x, mlir::Operation *y) {
    llvm::SmallVector<mlir::Operation *> first, second;
    auto collect = [](llvm::SmallVector<mlir::Operation *> &all) {
      return [&all](mlir::Operation *op) { all.push_back(op); };
    };
    x->walk<mlir::WalkOrder::PreOrder>(collect(first));
    y->walk<mlir::WalkOrder::PreOrder>(collect(second));
    return std::ranges::equal(
        first, second, [&](auto *a, auto *b) { return areAlikeAlone(a, b); });
  }

  bool areAlikeAlone(mlir::Operation *x, mlir::Operation *y) {
    if (x->getName() != y->getName() ||
        x->getResultTypes() != y->getResultTypes() ||
        x->getNumOperands() != y->getNumOperands())
      return false;
    mlir::NamedAttrList first(x->getAttrDictionary()),
        second(y->getAttrDictionary());
    if (auto draw = mlir::dyn_cast<nd::RandomOp>(x)) {
      const int64_t key = draw.getKey(),
                    other = mlir::cast<nd::RandomOp>(y).getKey();
      if (keys.try_emplace(key, other).first->second != other ||
          keysBack.try_emplace(other, key).first->second != key)
        return false;
      first.erase(draw.getKeyAttrName());
      second.erase(draw.getKeyAttrName());
    }
    if (first.getDictionary(x->getContext()) !=
        second.getDictionary(x->getContext()))
      return false;
    for (auto [a, b] : llvm::zip_equal(x->getOperands(), y->getOperands()))
      open.push_back({a, b});
    for (auto [a, b] : llvm::zip_equal(x->getRegions(), y->getRegions()))
      for (auto [block, other] : llvm::zip(a, b))
        for (auto [argument, to] :
             llvm::zip(block.getArguments(), other.getArguments()))
          others.try_emplace(argument, to);
    return true;
  }

  llvm::SmallVector<std::pair<mlir::Value, mlir::Value>> open;
  llvm::DenseMap<mlir::Value, mlir::Value> others; ///< of each, its other
  std::map<int64_t, int64_t> keys, keysBack;
};

} // namespace

bool BuilderState::startsAs(std::string_view name,
                            const Initializer &initializer) {
  if (variables.find(name)->second.getInit() != getInit(initializer))
    return false;
  return initializer.kind != Initializer::Kind::Computed ||
         InitialComparison().areAlike(initials.find(name)->second,
                                      getValue(initializer.value));
}

void BuilderState::finishInitials() {
  if (!init)
    return;
  for (mlir::Operation &op :
       llvm::make_early_inc_range(llvm::reverse(init.getBody().front())))
    if (mlir::isOpTriviallyDead(&op))
      op.erase();
}
