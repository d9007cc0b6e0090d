#include "dialect/Locations.h"
#include "dialect/ProgramWalk.h"
#include "dialect/SPMD.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

namespace meshc {
#define GEN_PASS_DEF_FUSEARITHMETIC
#include "passes/Passes.h.inc"
} // namespace meshc

//===-- Operations --------------------------------------------------------===//

/// The operation that makes what `op` yields, if `op` is elementwise and its
/// results lie in the order of its loops.
static Operation *getLastScalar(Operation *op) {
  auto generic = dyn_cast_if_present<linalg::GenericOp>(op);
  if (!generic || generic.getNumReductionLoops() != 0 ||
      generic->getNumResults() != 1 ||
      !generic.getMatchingIndexingMap(generic.getDpsInitOperand(0))
           .isIdentity())
    return nullptr;
  Operation *scalar =
      generic.getBody()->getTerminator()->getOperand(0).getDefiningOp();
  return scalar && scalar->getBlock() == generic.getBody() ? scalar : nullptr;
}

/// The scalar operation of `op`, if it is a `Scalar` of the inputs, in any
/// order, and nothing else; null if not.
template <class... Scalar> static Operation *getOnlyScalar(Operation *op) {
  Operation *scalar = getLastScalar(op);
  if (!isa_and_present<Scalar...>(scalar))
    return nullptr;
  auto generic = cast<linalg::GenericOp>(op);
  bool isAll = generic.getBody()->getOperations().size() == 2 &&
               scalar->getNumOperands() == generic.getNumDpsInputs() &&
               llvm::all_of(generic.getRegionInputArgs(), [&](Value input) {
                 return llvm::is_contained(scalar->getOperands(), input);
               });
  return isAll ? scalar : nullptr;
}

static bool isWideFloat(Value value) {
  return isa<Float32Type, Float64Type>(getElementTypeOrSelf(value));
}

/// Whether `value` comes from a product that a library may compute: no factor
/// has every loop.
static bool isMatrixProduct(Value value) {
  auto generic = value.getDefiningOp<linalg::GenericOp>();
  return generic && generic.getNumReductionLoops() != 0 &&
         llvm::none_of(generic.getDpsInputOperands(), [&](OpOperand *input) {
           return generic.getMatchingIndexingMap(input).isPermutation();
         });
}

static bool isOne(Value tensor) {
  DenseFPElementsAttr constant;
  return matchPattern(tensor, m_Constant(&constant)) && constant.isSplat() &&
         constant.getSplatValue<APFloat>().isExactlyValue(1.0);
}

/// What reads `value` in the phase in which it is computed. Later phases do not
/// count: evaluation, which has none, must decide as training does.
static SmallVector<OpOperand *> getUsesInPhase(Value value) {
  Block *block = value.getParentBlock();
  Phase phase = getPhase(value.getLoc());
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : value.getUses())
    if (getPhase(block->findAncestorOpInBlock(*use.getOwner())->getLoc()) <=
        phase)
      uses.push_back(&use);
  // Use lists are in no order that lasts.
  llvm::sort(uses, [&](OpOperand *a, OpOperand *b) {
    return a->getOwner() != b->getOwner() &&
           block->findAncestorOpInBlock(*a->getOwner())
               ->isBeforeInBlock(block->findAncestorOpInBlock(*b->getOwner()));
  });
  return uses;
}

/// Whether `use` stands in a region around which its value is computed, once
/// however often the region runs.
static bool isInRegion(OpOperand &use) {
  return use.getOwner()->getBlock() != use.get().getParentBlock();
}

/// The only input through which `value` is read in its phase; null if there are
/// more, or if it is in a region that the value comes from outside of.
static OpOperand *getOnlyUseInPhase(Value value) {
  SmallVector<OpOperand *> uses = getUsesInPhase(value);
  return llvm::hasSingleElement(uses) && !isInRegion(*uses.front())
             ? uses.front()
             : nullptr;
}

//===-- One operation in another
//---------------------------------------------===//

/// Replaces the reader of `use` by an operation that also computes what `use`
/// reads.
static linalg::GenericOp computeInside(OpOperand &use) {
  auto reader = cast<linalg::GenericOp>(use.getOwner());
  auto producer = use.get().getDefiningOp<linalg::GenericOp>();
  AffineMap read = reader.getMatchingIndexingMap(&use);
  OpOperand *init = reader.getDpsInitOperand(0);
  SmallVector<Value> inputs;
  SmallVector<AffineMap> maps;
  for (OpOperand *input : reader.getDpsInputOperands()) {
    if (input != &use) {
      inputs.push_back(input->get());
      maps.push_back(reader.getMatchingIndexingMap(input));
      continue;
    }
    for (OpOperand *inner : producer.getDpsInputOperands()) {
      inputs.push_back(inner->get());
      maps.push_back(producer.getMatchingIndexingMap(inner).compose(read));
    }
  }
  maps.push_back(reader.getMatchingIndexingMap(init));

  OpBuilder builder(reader);
  auto whole = linalg::GenericOp::create(
      builder, reader.getLoc(), reader->getResultTypes(), inputs, init->get(),
      maps, reader.getIteratorTypesArray(),
      [&](OpBuilder &b, Location, ValueRange arguments) {
        IRMapping mapping;
        auto argument = arguments.begin();
        for (OpOperand *input : reader.getDpsInputOperands()) {
          if (input != &use) {
            mapping.map(reader.getMatchingBlockArgument(input), *argument++);
            continue;
          }
          for (BlockArgument inner : producer.getRegionInputArgs())
            mapping.map(inner, *argument++);
        }
        mapping.map(reader.getMatchingBlockArgument(init), *argument);
        for (Operation &op : producer.getBody()->without_terminator())
          b.clone(op, mapping);
        Value computed = producer.getBody()->getTerminator()->getOperand(0);
        mapping.map(reader.getMatchingBlockArgument(&use),
                    mapping.lookupOrDefault(computed));
        for (Operation &op : *reader.getBody())
          b.clone(op, mapping);
      });
  reader.replaceAllUsesWith(whole.getResults());
  reader.erase();
  return whole;
}

//===-- Products that are added -------------------------------------------===//

/// Whether `op` multiplies its inputs, or negates their product, and does
/// nothing else.
static bool isProduct(Operation *op) {
  if (!isa_and_present<arith::MulFOp, arith::NegFOp>(getLastScalar(op)))
    return false;
  auto scalars = cast<linalg::GenericOp>(op).getBody()->without_terminator();
  return llvm::all_of(scalars, llvm::IsaPred<arith::MulFOp, arith::NegFOp>) &&
         llvm::count_if(scalars, llvm::IsaPred<arith::MulFOp>) == 1;
}

/// -(x y) is one operation.
static void moveNegated(linalg::GenericOp negation) {
  OpOperand &input = *negation.getDpsInputOperand(0);
  if (isWideFloat(input.get()) &&
      getOnlyScalar<arith::MulFOp>(input.get().getDefiningOp()) &&
      getOnlyUseInPhase(input.get()) == &input)
    computeInside(input);
}

/// Whether `use`, of a product, belongs to an elementwise sum or difference.
static bool isTerm(OpOperand &use) {
  auto sum = dyn_cast<linalg::GenericOp>(use.getOwner());
  if (!getOnlyScalar<arith::AddFOp, arith::SubFOp>(sum) ||
      !sum.isDpsInput(&use))
    return false;
  Value other = sum.getDpsInputs()[1 - use.getOperandNumber()];
  // A library call takes along what is added to its product.
  bool isTaken =
      isMatrixProduct(other) && llvm::hasSingleElement(getUsesInPhase(other));
  return other != use.get() && !isTaken &&
         sum.getMatchingIndexingMap(&use).isPermutation();
}

/// Whether `use`, of `product`, belongs to a sum over dimensions.
static bool isSummed(OpOperand &use, linalg::GenericOp product) {
  auto sum = dyn_cast<linalg::GenericOp>(use.getOwner());
  if (!sum || sum.getNumReductionLoops() == 0 || sum.getNumDpsInputs() != 1 ||
      !sum.isDpsInput(&use) || sum.getBody()->getOperations().size() != 2 ||
      !isa<arith::AddFOp>(sum.getBody()->front()) ||
      !sum.getMatchingIndexingMap(&use).isPermutation())
    return false;
  // Else it would be a matrix product, which the user has not written.
  return llvm::any_of(product.getDpsInputOperands(), [&](OpOperand *factor) {
    return product.getMatchingIndexingMap(factor).isPermutation();
  });
}

/// Has the sums that `product` goes into compute it, if it goes nowhere else.
static void moveProduct(linalg::GenericOp product) {
  Value value = product->getResult(0);
  if (!isWideFloat(value))
    return;
  SmallVector<OpOperand *> uses = getUsesInPhase(value);
  if (!llvm::all_of(uses, [&](OpOperand *use) {
        return !isInRegion(*use) && (isTerm(*use) || isSummed(*use, product));
      }))
    return;
  for (OpOperand *use : uses)
    computeInside(*use);
}

//===-- Functions and quotients -------------------------------------------===//

/// 1 + tanh x and 1 + erf x.
static void moveFunction(linalg::GenericOp function) {
  OpOperand *use = getOnlyUseInPhase(function->getResult(0));
  if (!use || !getOnlyScalar<arith::AddFOp>(use->getOwner()))
    return;
  auto sum = cast<linalg::GenericOp>(use->getOwner());
  if (sum.isDpsInput(use) &&
      isOne(sum.getDpsInputs()[1 - use->getOperandNumber()]))
    computeInside(*use);
}

/// 1 / sqrt x and 1 / (1 + exp x).
static void moveDivisor(linalg::GenericOp quotient) {
  if (!isOne(quotient.getDpsInputs()[0]))
    return;
  OpOperand &divisor = *quotient.getDpsInputOperand(1);
  Operation *op = divisor.get().getDefiningOp();
  if (getOnlyUseInPhase(divisor.get()) != &divisor)
    return;
  if (getOnlyScalar<math::SqrtOp>(op)) {
    computeInside(divisor);
    return;
  }
  if (!getOnlyScalar<arith::AddFOp>(op))
    return;
  auto sum = cast<linalg::GenericOp>(op);
  unsigned place = isOne(sum.getDpsInputs()[0]) ? 1 : 0;
  OpOperand &power = *sum.getDpsInputOperand(place);
  if (!isOne(sum.getDpsInputs()[1 - place]) ||
      !getOnlyScalar<math::ExpOp>(power.get().getDefiningOp()) ||
      getOnlyUseInPhase(power.get()) != &power)
    return;
  linalg::GenericOp whole = computeInside(power);
  for (OpOperand *input : quotient.getDpsInputOperands())
    if (input->get() == whole->getResult(0)) {
      computeInside(*input);
      return;
    }
}

/// A quotient that becomes an integer: the conversion has its own.
static void moveQuotient(linalg::GenericOp conversion) {
  OpOperand &input = *conversion.getDpsInputOperand(0);
  if (isa_and_present<arith::DivFOp>(
          getLastScalar(input.get().getDefiningOp())))
    computeInside(input);
}

/// Runs `move` on the operations of `block` that `isWanted`. None of them is
/// replaced before its turn.
static void forEach(Block &block,
                    llvm::function_ref<bool(Operation *)> isWanted,
                    llvm::function_ref<void(linalg::GenericOp)> move) {
  SmallVector<linalg::GenericOp> found;
  for (auto op : block.getOps<linalg::GenericOp>())
    if (isWanted(op))
      found.push_back(op);
  llvm::for_each(found, move);
}

template <class... Scalar> static bool isOnly(Operation *op) {
  return getOnlyScalar<Scalar...>(op) != nullptr;
}

//===-- Bodies ------------------------------------------------------------===//

namespace {
/// The body of one operation: nothing outside reads what lies between.
class Body {
public:
  explicit Body(linalg::GenericOp op) : op(op) {}

  void fuse() {
    for (auto negation : llvm::to_vector(op.getBody()->getOps<arith::NegFOp>()))
      negateFactor(negation);
    for (auto product : llvm::to_vector(op.getBody()->getOps<arith::MulFOp>()))
      fuseProduct(product);
    for (auto sum : op.getBody()->getOps<arith::AddFOp>())
      if (isFunctionAndOne(sum))
        allowTogether(sum);
    for (auto quotient : op.getBody()->getOps<arith::DivFOp>())
      if (isReciprocal(quotient))
        allowTogether(quotient);
  }

private:
  /// Whether `sum` adds to the accumulator of a sum over dimensions: products
  /// enter it as those of contractions do, without a word in the program.
  bool isAccumulated(Operation *sum) {
    return op.getNumReductionLoops() != 0 &&
           llvm::is_contained(sum->getOperands(),
                              Value(op.getRegionOutputArgs().front()));
  }
  bool isOneScalar(Value scalar) {
    FloatAttr number;
    if (matchPattern(scalar, m_Constant(&number)))
      return number.getValue().isExactlyValue(1.0);
    auto argument = dyn_cast<BlockArgument>(scalar);
    return argument && argument.getOwner() == op.getBody() &&
           isOne(op->getOperand(argument.getArgNumber()));
  }
  /// The other term of a sum with 1; null if there is none.
  Value getTermBesideOne(Operation *sum) {
    if (!isa_and_present<arith::AddFOp>(sum))
      return {};
    if (isOneScalar(sum->getOperand(0)))
      return sum->getOperand(1);
    return isOneScalar(sum->getOperand(1)) ? sum->getOperand(0) : Value();
  }
  bool isFunctionAndOne(arith::AddFOp sum) {
    Value function = getTermBesideOne(sum);
    return function && function.hasOneUse() &&
           isa_and_present<math::TanhOp, math::ErfOp>(function.getDefiningOp());
  }
  bool isReciprocal(arith::DivFOp quotient) {
    Operation *divisor = quotient.getRhs().getDefiningOp();
    if (!isOneScalar(quotient.getLhs()) || !quotient.getRhs().hasOneUse())
      return false;
    if (isa_and_present<math::SqrtOp>(divisor))
      return true;
    Value power = getTermBesideOne(divisor);
    return power && power.hasOneUse() && power.getDefiningOp<math::ExpOp>();
  }
  /// -(x y) -> (-x) y: instructions negate what they read.
  static void negateFactor(arith::NegFOp negation) {
    auto product = negation.getOperand().getDefiningOp<arith::MulFOp>();
    if (!product || !product->hasOneUse() || !isWideFloat(product))
      return;
    OpBuilder builder(product);
    product->setOperand(
        0, arith::NegFOp::create(builder, negation.getLoc(), product.getLhs()));
    negation.replaceAllUsesWith(product.getResult());
    negation.erase();
  }
  void fuseProduct(arith::MulFOp product);
  /// Has `scalar` computed together with what it reads where the machine has an
  /// instruction for that.
  static void allowTogether(arith::ArithFastMathInterface scalar) {
    scalar->setAttr(scalar.getFastMathAttrName(),
                    arith::FastMathFlagsAttr::get(
                        scalar.getContext(), arith::FastMathFlags::contract));
  }

  linalg::GenericOp op;
};
} // namespace

/// Rounds `product` with the sums that it goes into, if it goes nowhere else.
void Body::fuseProduct(arith::MulFOp product) {
  auto isTerm = [&](Operation *user) {
    return isa<arith::AddFOp, arith::SubFOp>(user) && !isAccumulated(user) &&
           user->getOperand(0) != user->getOperand(1);
  };
  if (!isWideFloat(product) || product->use_empty() ||
      !llvm::all_of(product->getUsers(), isTerm))
    return;
  for (Operation *sum : llvm::make_early_inc_range(product->getUsers())) {
    const unsigned place = sum->getOperand(0) == product.getResult() ? 0 : 1;
    Value lhs = product.getLhs(), addend = sum->getOperand(1 - place);
    OpBuilder builder(sum);
    if (isa<arith::SubFOp>(sum)) {
      Value &negated = place == 0 ? addend : lhs;
      negated = arith::NegFOp::create(builder, sum->getLoc(), negated);
    }
    Value fused = math::FmaOp::create(builder, sum->getLoc(), lhs,
                                      product.getRhs(), addend);
    sum->getResult(0).replaceAllUsesWith(fused);
    sum->erase();
  }
  product.erase();
}

namespace {
struct FuseArithmetic : meshc::impl::FuseArithmeticBase<FuseArithmetic> {
  void runOnOperation() override {
    // What is inside goes first: an operation that is dead takes it along.
    for (auto program : getOperation().getOps<spmd::ProgramOp>()) {
      SmallVector<Block *> blocks = getBlocks(program);
      for (Block *block : llvm::reverse(blocks))
        fuse(*block);
    }
  }

private:
  static void fuse(Block &block) {
    forEach(block, isOnly<arith::FPToSIOp>, moveQuotient);
    forEach(block, isOnly<arith::DivFOp>, moveDivisor);
    forEach(block, isOnly<math::TanhOp, math::ErfOp>, moveFunction);
    forEach(block, isOnly<arith::NegFOp>, moveNegated);
    forEach(block, isProduct, moveProduct);
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
    for (auto op : block.getOps<linalg::GenericOp>())
      Body(op).fuse();
  }
};
} // namespace
