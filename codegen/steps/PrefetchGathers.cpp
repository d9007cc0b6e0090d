#include "codegen/steps/PrefetchGathers.h"

#include "codegen/ExecTypes.h"
#include "codegen/steps/Passes.h"

#include "llvm/ADT/STLExtras.h"

#include <map>
#include <set>

namespace meshc::codegen {
#define GEN_PASS_DEF_PREFETCHGATHERS
#include "codegen/steps/Passes.h.inc"
} // namespace meshc::codegen

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;
using steps::StepOpInterface;

namespace {
/// The steps of a program or of a loop's body, as they stand.
class Prefetch {
public:
  explicit Prefetch(Block &block)
      : block(block), stepList(steps::getSteps(block)) {}

  void run(size_t layers);

private:
  void findLayers();
  /// Whether nothing but variables is needed for `value`.
  bool isOfVariables(Value value);
  void moveBefore(Operation *step, Operation *place);

  Block &block;
  const std::vector<StepOpInterface> stepList;
  llvm::DenseMap<Operation *, size_t> layerOf; ///< of what computes
  std::vector<Operation *> firstOf;            ///< of each layer
  llvm::DenseMap<Value, bool> ofVariables;
};
} // namespace

/// Whether the step is but a place in memory, or sends.
static bool computesNothing(StepOpInterface step) {
  return step.communicates() ||
         isa<steps::SliceOp, steps::StackOp>(step.getOperation());
}

/// Of a step of several results an iteration that one of them is in.
static nd::ScopeAttr getLayerOf(StepOpInterface step) {
  nd::ScopeAttr layer;
  for (Value result : step->getResults())
    if (nd::ScopeAttr scope = getLayer(steps::getValueLoc(result));
        !layer ||
        (scope && scope.getIteration() >= 0 && layer.getIteration() < 0))
      layer = scope;
  return layer;
}

void Prefetch::findLayers() {
  // Loops that are written out: what is in such a loop and in no iteration of
  // it, such as gradients of what is stacked, goes with what is before it.
  std::set<std::pair<const void *, const void *>> loops;
  auto getLoop = [](nd::ScopeAttr scope) {
    return std::pair(scope.getParent().getAsOpaquePointer(),
                     scope.getName().getAsOpaquePointer());
  };
  for (StepOpInterface step : stepList)
    if (nd::ScopeAttr scope = getLayerOf(step);
        scope && scope.getIteration() >= 0)
      loops.insert(getLoop(scope));

  std::map<std::pair<nd::Phase, const void *>, size_t> known;
  std::optional<size_t> before;
  bool isBetween = false; // the step before was in no iteration or call
  for (StepOpInterface step : stepList) {
    if (computesNothing(step) || step->getNumResults() == 0 ||
        isOfVariables(step->getResult(0)))
      continue;
    const nd::ScopeAttr scope = getLayerOf(step);
    size_t layer = firstOf.size();
    if (before && scope && scope.getIteration() < 0 &&
        loops.contains(getLoop(scope)))
      layer = *before;
    else if (scope)
      layer =
          known
              .try_emplace({getPhase(steps::getValueLoc(step->getResult(0))),
                            scope.getAsOpaquePointer()},
                           firstOf.size())
              .first->second;
    else if (before && isBetween)
      layer = *before;
    isBetween = !scope;
    before = layer;
    if (layer == firstOf.size())
      firstOf.push_back(step);
    layerOf[step] = layer;
  }
}

bool Prefetch::isOfVariables(Value value) {
  if (auto known = ofVariables.find(value); known != ofVariables.end())
    return known->second;
  Operation *op = value.getDefiningOp();
  bool is = isa_and_present<spmd::ReadOp>(op);
  if (isa_and_present<steps::SliceOp, steps::KernelOp>(op))
    is = llvm::all_of(op->getOperands(),
                      [&](Value operand) { return isOfVariables(operand); });
  return ofVariables[value] = is;
}

void Prefetch::moveBefore(Operation *step, Operation *place) {
  if (step->isBeforeInBlock(place))
    return;
  for (Value operand : step->getOperands())
    if (isOfVariables(operand) && !isa<spmd::ReadOp>(operand.getDefiningOp()))
      moveBefore(operand.getDefiningOp(), place);
  step->moveBefore(place);
}

/// Whether the step is one collective that gives each device more than it
/// brings in.
static bool gathers(StepOpInterface step) {
  auto getSize = [](Type type) {
    return getBytes(cast<RankedTensorType>(type));
  };
  return isa<steps::TransferOp>(step.getOperation()) &&
         step->getNumResults() == 1 &&
         getSize(step->getOperand(0).getType()) <
             getSize(step->getResult(0).getType());
}

void Prefetch::run(size_t layers) {
  findLayers();
  for (StepOpInterface step : stepList) {
    if (!gathers(step))
      continue;
    std::optional<size_t> layer;
    for (Operation *user : step->getUsers())
      if (auto found = layerOf.find(user); found != layerOf.end())
        layer = std::min(layer.value_or(found->second), found->second);
    if (!layer)
      continue;
    Operation *place = firstOf[*layer - std::min(*layer, layers)];
    const Value sent = step->getOperand(0);
    if (Operation *maker = sent.getDefiningOp();
        maker && maker->getBlock() == &block && !isOfVariables(sent)) {
      // What the layer itself makes is not there before.
      if (!maker->isBeforeInBlock(firstOf[*layer]))
        continue;
      if (!maker->isBeforeInBlock(place))
        place = maker->getNextNode();
    }
    moveBefore(step, place);
  }
}

void meshc::codegen::prefetchGathers(steps::ProgramOp program, int64_t layers) {
  if (layers <= 0)
    return;
  SmallVector<Block *> blocks = {&program.getBody().front()};
  program.walk(
      [&](steps::LoopOp loop) { blocks.push_back(&loop.getBody().front()); });
  for (Block *block : blocks)
    Prefetch(*block).run(size_t(layers));
}

namespace {
struct PrefetchGathers : codegen::impl::PrefetchGathersBase<PrefetchGathers> {
  using PrefetchGathersBase::PrefetchGathersBase;
  void runOnOperation() override { prefetchGathers(getOperation(), layers); }
};
} // namespace
