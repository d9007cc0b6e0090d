#include "dialect/Locations.h"
#include "dialect/ProgramWalk.h"
#include "dialect/SPMD.h"
#include "passes/Kept.h"
#include "passes/Passes.h"
#include "passes/VertexCut.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

namespace meshc {
#define GEN_PASS_DEF_RECOMPUTERESIDUALS
#include "passes/Passes.h.inc"
} // namespace meshc

/// Scalar operations in a row, at most, that lead from what is kept to what is
/// computed again. A value that is not kept is neither written nor read: 8
/// bytes in f32. A third of what the machine computes in that time leaves room
/// for exponentials, which count as one here and take about eight. 53 on an
/// H100, 19 on the mesh of CPU devices.
static unsigned getMaxChain(Operation *op) {
  return unsigned(8 * getMachine(op).getFlopsPerByte() / 3);
}
/// What a view counts as: the sum and the comparison of a position, and the
/// selection, of two dimensions that slide.
static constexpr unsigned viewOps = 6;

/// Whether `op` computes each element of its result from one element of each
/// input, in the same order: neither a sum, a transposition nor a gather. Which
/// element it is may matter too.
static bool isElementwise(Operation *op) {
  auto generic = dyn_cast<linalg::GenericOp>(op);
  if (!generic || generic.getNumReductionLoops() != 0 ||
      generic->getNumResults() != 1 ||
      generic.payloadUsesValueFromOperand(generic.getDpsInitOperand(0)) ||
      !generic.getMatchingIndexingMap(generic.getDpsInitOperand(0))
           .isIdentity())
    return false;
  for (OpOperand *input : generic.getDpsInputOperands()) {
    AffineMap map = generic.getMatchingIndexingMap(input);
    if (!map.isProjectedPermutation())
      return false;
    for (unsigned i = 1; i < map.getNumResults(); ++i)
      if (map.getDimPosition(i - 1) > map.getDimPosition(i))
        return false;
  }
  return llvm::all_of(*generic.getBody(), [](Operation &inner) {
    return llvm::none_of(inner.getOperandTypes(), llvm::IsaPred<ShapedType>);
  });
}

/// Whether `op` becomes (a part of) a kernel that can compute its inputs on the
/// way: elementwise, or a sum over a tensor that has every loop. Matrix
/// products, whose factors lack some, read them from memory.
static bool isKernel(Operation *op) {
  auto generic = dyn_cast<linalg::GenericOp>(op);
  return generic &&
         (generic.getNumReductionLoops() == 0 ||
          llvm::any_of(generic.getDpsInputOperands(), [&](OpOperand *input) {
            return generic.getMatchingIndexingMap(input).isPermutation();
          }));
}

static unsigned countScalarOps(linalg::GenericOp op) {
  return llvm::count_if(
      op.getBody()->without_terminator(), [](Operation &inner) {
        return !isa<arith::ConstantOp, linalg::IndexOp>(inner);
      });
}

/// Whether `op` draws random numbers, from a counter.
static bool isDrawn(linalg::GenericOp op) {
  return !op.getBody()->getOps<spmd::RandomBitsOp>().empty();
}

namespace {
/// One block of a program: which values of the forward phase to compute again,
/// and doing so.
class Recomputation {
public:
  explicit Recomputation(Block &block)
      : block(block), maxChain(getMaxChain(block.getParentOp())) {}

  void run();

private:
  void addValue(Operation &op);
  bool staysInMemory(Value value) const;
  void findRequired();
  bool isComputed(Value value) const {
    auto found = numbers.find(value);
    return found != numbers.end() && cut.isComputed(found->second);
  }
  Value computeAgain(Value value, OpBuilder &builder);
  void rewrite();
  void eraseUnused();

  Block &block;
  const unsigned maxChain;
  VertexCut cut;
  /// Of the values of the forward phase, in `cut`.
  llvm::DenseMap<Value, unsigned> numbers;
  /// Scalar operations in a row that lead to a value from what is never
  /// computed again.
  llvm::DenseMap<Value, unsigned> lengths;
  std::vector<unsigned> required;
  /// What is computed again, since the last product or collective.
  IRMapping copies;
};
} // namespace

/// Splats, which every reader has for nothing.
static bool isSplat(Operation *op) {
  return isa_and_present<arith::ConstantOp, linalg::FillOp>(op);
}

/// Whether keeping `value` costs nothing, because it is in memory until the end
/// of the step, or until a product or a collective of a later phase reads it.
bool Recomputation::staysInMemory(Value value) const {
  if (value.getDefiningOp<nd::BorderOpInterface>() ||
      isSplat(value.getDefiningOp()))
    return true;
  return llvm::any_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = block.findAncestorOpInBlock(*use.getOwner());
    if (isa<nd::BorderOpInterface>(user))
      return true;
    // An element that a body picks by its index is read from memory too.
    return !isForward(user) && (!isKernel(user) || user != use.getOwner());
  });
}

void Recomputation::addValue(Operation &op) {
  Value value = op.getResult(0);
  unsigned number = cut.addValue(staysInMemory(value) ? 0 : getBytes(value));
  numbers[value] = number;
  // CSE may have given a value of both phases the location of the later one.
  auto isNumbered = [&](Value input) { return numbers.contains(input); };
  // What windows see is many times what they see it of; a slice is a part of
  // what is there.
  if (auto view = dyn_cast<spmd::ViewOp>(op);
      view && isNumbered(view.getInput()) && !view.findSlice()) {
    const unsigned length = lengths.lookup(view.getInput()) + viewOps;
    if (length <= maxChain) {
      lengths[value] = length;
      cut.addEdge(numbers.at(view.getInput()), number);
      return;
    }
  }
  auto generic = dyn_cast<linalg::GenericOp>(op);
  if (isElementwise(&op) && llvm::all_of(generic.getDpsInputs(), isNumbered)) {
    unsigned length = 0;
    for (Value input : generic.getDpsInputs())
      length = std::max(length, lengths.lookup(input));
    length += countScalarOps(generic);
    // To keep a mask would be to keep it for every element of what it masks.
    if (isDrawn(generic))
      length = 0;
    if (length <= maxChain) {
      lengths[value] = length;
      for (Value input : generic.getDpsInputs())
        cut.addEdge(numbers.at(input), number);
      return;
    }
  }
  cut.setSource(number);
}

void Recomputation::findRequired() {
  for (Operation &op : block) {
    auto isTensor = [](Value value) {
      return isa<RankedTensorType>(value.getType());
    };
    if ((isForward(&op) || isSplat(&op)) && op.getNumResults() == 1 &&
        isTensor(op.getResult(0)))
      addValue(op);
    else if (!isForward(&op) && isKernel(&op))
      for (Value input : cast<linalg::GenericOp>(op).getDpsInputs())
        if (auto found = numbers.find(input); found != numbers.end())
          required.push_back(found->second);
  }
}

/// `value`, which is computed again, in front of its first reader.
Value Recomputation::computeAgain(Value value, OpBuilder &builder) {
  if (Value copy = copies.lookupOrNull(value))
    return copy;
  Operation *op = value.getDefiningOp();
  IRMapping mapping;
  const SmallVector<Value> inputs =
      isa<spmd::ViewOp>(op) ? SmallVector<Value>(op->getOperands())
                            : cast<linalg::GenericOp>(op).getDpsInputs();
  for (Value input : inputs)
    if (isComputed(input))
      mapping.map(input, computeAgain(input, builder));
  Operation *copy = builder.clone(*op, mapping);
  copy->setLoc(withPhase(asInside(op->getLoc()), Phase::Backward));
  copies.map(value, copy->getResult(0));
  return copy->getResult(0);
}

void Recomputation::rewrite() {
  for (Operation &op : block) {
    if (isForward(&op))
      continue;
    if (!isKernel(&op)) {
      // Readers on either side are different kernels, each with its own copy.
      if (isa<linalg::GenericOp, spmd::CollectiveOpInterface>(op))
        copies.clear();
      continue;
    }
    OpBuilder builder(&op);
    for (OpOperand *input : cast<linalg::GenericOp>(op).getDpsInputOperands())
      if (isComputed(input->get()))
        input->set(computeAgain(input->get(), builder));
  }
}

/// Erases what only the backward phase has read.
void Recomputation::eraseUnused() {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

void Recomputation::run() {
  findRequired();
  cut.solve(required);
  rewrite();
  eraseUnused();
}

namespace {
struct RecomputeResiduals
    : meshc::impl::RecomputeResidualsBase<RecomputeResiduals> {
  void runOnOperation() override {
    // What is inside goes first: an operation that is dead takes it along.
    for (auto program : getOperation().getOps<spmd::ProgramOp>()) {
      SmallVector<Block *> blocks = getBlocks(program);
      for (Block *block : llvm::reverse(blocks))
        Recomputation(*block).run();
    }
  }
};
} // namespace
