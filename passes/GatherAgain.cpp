#include "dialect/Locations.h"
#include "dialect/SPMD.h"
#include "passes/Kept.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

namespace meshc {
#define GEN_PASS_DEF_GATHERAGAIN
#include "passes/Passes.h.inc"
} // namespace meshc

namespace {
/// The parameters of one program that are gathered.
class Gatherings {
public:
  explicit Gatherings(spmd::ProgramOp program)
      : block(program.getBody().front()) {}

  void run();

private:
  void addValues();
  /// Whether `value` hangs on nothing but one parameter, and on what is
  /// gathered of it.
  bool isGathered(Value value) const { return gathered.lookup(value); }
  /// Calls `visit` with each operand of `op`, and of what is inside, that is
  /// gathered.
  void forEachGathered(Operation &op,
                       llvm::function_ref<void(OpOperand &)> visit) const;
  void findReaders();
  /// Whether the backward phase begins with what the forward phase ends with.
  bool isStillThere(Value value) const;
  Value gatherAgain(Value value, OpBuilder &builder);

  Block &block;
  /// Values of the forward phase that hang on one parameter alone: whether on
  /// what is gathered of it.
  llvm::DenseMap<Value, bool> gathered;
  /// What is gathered first of a parameter, and the last operation of the
  /// forward phase that reads any of it.
  llvm::DenseMap<Value, Value> gatherOf;
  llvm::DenseMap<Value, Operation *> lastReaders; ///< by gather
  Operation *lastReader = nullptr;                ///< of all gathers
  IRMapping copies;
};
} // namespace

/// What an operation reads besides what it is initialised with.
static SmallVector<Value> getInputs(Operation *op) {
  if (auto generic = dyn_cast<linalg::GenericOp>(op))
    return generic.getDpsInputs();
  return op->getOperands();
}

/// Whether `op` has no other operands than tensors that it reads whole, and no
/// body that reads more.
static bool isPlain(Operation &op) {
  if (isa<spmd::CollectiveOpInterface, spmd::ViewOp>(op))
    return true;
  auto generic = dyn_cast<linalg::GenericOp>(op);
  return generic && generic.getNumReductionLoops() == 0 &&
         llvm::all_of(*generic.getBody(), [](Operation &inner) {
           return llvm::none_of(inner.getOperandTypes(),
                                llvm::IsaPred<ShapedType>);
         });
}

void Gatherings::addValues() {
  const SymbolTable variables(block.getParentOp()->getParentOfType<ModuleOp>());
  for (Operation &op : block) {
    if (auto read = dyn_cast<spmd::ReadOp>(op)) {
      auto variable = variables.lookup<VariableOp>(read.getVariable());
      if (variable.getRole() == VariableRole::Parameter)
        gathered[read] = false;
      continue;
    }
    if (!isForward(&op) || op.getNumResults() != 1 || !isPlain(op))
      continue;
    const SmallVector<Value> inputs = getInputs(&op);
    if (inputs.size() != 1 || !gathered.contains(inputs.front()))
      continue;
    const Value result = op.getResult(0), input = inputs.front();
    const bool gathers = isa<spmd::CollectiveOpInterface>(op) &&
                         getBytes(result) > getBytes(input);
    gathered[result] = gathers || isGathered(input);
    if (isGathered(input))
      gatherOf[result] = gatherOf.lookup(input);
    else if (gathers)
      gatherOf[result] = result;
  }
}

void Gatherings::forEachGathered(
    Operation &op, llvm::function_ref<void(OpOperand &)> visit) const {
  op.walk([&](Operation *inner) {
    for (OpOperand &operand : inner->getOpOperands())
      if (isGathered(operand.get()))
        visit(operand);
  });
}

void Gatherings::findReaders() {
  for (Operation &op : block) {
    if (!isForward(&op) || llvm::any_of(op.getResults(), [&](Value result) {
          return gathered.contains(result);
        }))
      continue;
    forEachGathered(op, [&](OpOperand &operand) {
      lastReaders[gatherOf.lookup(operand.get())] = &op;
      lastReader = &op;
    });
  }
}

bool Gatherings::isStillThere(Value value) const {
  Operation *reader = lastReaders.lookup(gatherOf.lookup(value));
  if (!reader)
    return false;
  const ScopeAttr layer = getLayer(reader->getLoc());
  return reader == lastReader ||
         (layer && layer == getLayer(lastReader->getLoc()));
}

Value Gatherings::gatherAgain(Value value, OpBuilder &builder) {
  if (!isGathered(value))
    return value;
  if (Value copy = copies.lookupOrNull(value))
    return copy;
  Operation *op = value.getDefiningOp();
  IRMapping mapping;
  for (Value input : getInputs(op))
    mapping.map(input, gatherAgain(input, builder));
  Operation *copy = builder.clone(*op, mapping);
  copy->setLoc(withPhase(op->getLoc(), Phase::Backward));
  copies.map(value, copy->getResult(0));
  return copy->getResult(0);
}

void Gatherings::run() {
  addValues();
  findReaders();
  for (Operation &op : block) {
    if (getPhase(op.getLoc()) != Phase::Backward)
      continue;
    OpBuilder builder(&op);
    forEachGathered(op, [&](OpOperand &operand) {
      if (!isStillThere(operand.get()))
        operand.set(gatherAgain(operand.get(), builder));
    });
  }
  // What only the backward phase has read.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (op.getNumResults() == 1 && isGathered(op.getResult(0)) &&
        isOpTriviallyDead(&op))
      op.erase();
}

namespace {
struct GatherAgain : meshc::impl::GatherAgainBase<GatherAgain> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<spmd::ProgramOp>())
      Gatherings(program).run();
  }
};
} // namespace
