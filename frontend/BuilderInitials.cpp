// Initial values that are expressions: the program @init computes them.

#include "frontend/BuilderState.h"

#include "mlir/IR/IRMapping.h"

#include <cassert>

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
  std::vector<Dim> all;
  for (const BuilderState::Loop &loop : state->loops)
    all.push_back(loop.dim);
  all.insert(all.end(), dims.begin(), dims.end());

  auto init = state->module->lookupSymbol<nd::ProgramOp>("init");
  if (!init)
    init = nd::ProgramOp::create(state->declarations, state->module->getLoc(),
                                 "init");
  mlir::Block &block = init.getBody().front();
  state->outside.emplace(BuilderState::Outside{
      state->operations.saveInsertionPoint(), std::exchange(state->loops, {}),
      &block, block.empty() ? nullptr : &block.back()});
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
  if (block.empty()) // a number, which is none of an operation
    block.getParentOp()->erase();
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
  for (const BuilderState::Loop &loop : state->outside->loops)
    all.push_back(loop.dim);
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
  mlir::OpBuilder builder(context);
  builder.setInsertionPointToEnd(initial.getParentBlock());
  if (initial.getType() != type)
    initial =
        nd::BroadcastOp::create(builder, location, mlir::Type(type), initial);
  nd::WriteOp::create(builder, location, parameter, initial);
}
