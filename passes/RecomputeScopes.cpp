#include "dialect/Again.h"
#include "dialect/Locations.h"
#include "dialect/ProgramWalk.h"
#include "dialect/SPMD.h"
#include "layout/Spelling.h"
#include "passes/Kept.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/IRMapping.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

namespace meshc {
#define GEN_PASS_DEF_RECOMPUTESCOPES
#include "passes/Passes.h.inc"
} // namespace meshc

/// Scalar operations of one run, as plans count flops: of a product two for
/// each of its terms.
static int64_t countFlops(Operation *op) {
  auto generic = dyn_cast<linalg::LinalgOp>(op);
  if (!generic || isa<linalg::FillOp>(op))
    return 0;
  int64_t iterations = 1;
  for (int64_t size : generic.getStaticLoopRanges())
    iterations *= size;
  return iterations *
         llvm::count_if(
             generic.getBlock()->without_terminator(), [](Operation &inner) {
               return !isa<arith::ConstantOp, linalg::IndexOp>(inner);
             });
}

/// Whether a collective's result is kept: to send it again takes longer than to
/// read it. What is gathered is larger than what it is gathered of, and was not
/// kept before either: that is gathered again.
static bool isSentOnce(Operation *op) {
  auto collective = dyn_cast_or_null<spmd::CollectiveOpInterface>(op);
  return collective &&
         getBytes(collective.getResult()) <= getBytes(collective.getInput()) &&
         collective.getKind() != layout::CollectiveKind::Slice;
}

namespace {
/// One block of a program whose units are computed again.
class ScopeRecomputation {
public:
  ScopeRecomputation(Block &block, ArrayRef<std::string> patterns)
      : block(block), patterns(patterns) {}

  LogicalResult run();
  /// By scope, in the order of the program.
  SmallVector<Attribute> getSums() const;

private:
  struct Unit {
    SmallVector<Operation *> operations;
  };
  struct Sum {
    int64_t units = 0, bytes = 0, flops = 0;
  };

  /// The outermost scope of an operation that fits a pattern; null: none.
  ScopeAttr findUnit(Operation *op) const;
  /// Whether a value of the unit is read in the forward phase elsewhere, so
  /// that it is an input of what comes next.
  bool leaves(Value value, ScopeAttr unit) const;
  bool isKept(Value value, ScopeAttr unit) const;
  bool isReadLater(Value value) const;
  /// Whether a scope is what all iterations of a loop that was written out have
  /// in common, and no iteration.
  bool isShared(ScopeAttr scope) const;
  int64_t countKept(ArrayRef<Value> values) const;
  void rewrite(ScopeAttr scope, Unit &unit);

  Block &block;
  ArrayRef<std::string> patterns;
  llvm::MapVector<ScopeAttr, Unit> units;
  llvm::DenseMap<Operation *, ScopeAttr> unitOf;
  llvm::MapVector<StringAttr, Sum> sums;
};
} // namespace

ScopeAttr ScopeRecomputation::findUnit(Operation *op) const {
  const OriginAttr origin = getOrigin(op->getLoc());
  ScopeAttr found;
  for (ScopeAttr scope = origin ? origin.getScope() : ScopeAttr(); scope;
       scope = scope.getParent())
    if (llvm::any_of(patterns, [&](const std::string &pattern) {
          return layout::fitsPattern(pattern, scope.getPath());
        }))
      found = scope;
  return found;
}

bool ScopeRecomputation::leaves(Value value, ScopeAttr unit) const {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    Operation *inBlock = block.findAncestorOpInBlock(*user);
    return isa<BorderOpInterface>(inBlock) ||
           (isForward(inBlock) && unitOf.lookup(inBlock) != unit);
  });
}

bool ScopeRecomputation::isKept(Value value, ScopeAttr unit) const {
  Operation *op = value.getDefiningOp();
  return !op || unitOf.lookup(op) != unit || isSentOnce(op) ||
         isa<BorderOpInterface>(op) || leaves(value, unit);
}

bool ScopeRecomputation::isReadLater(Value value) const {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    return !isForward(block.findAncestorOpInBlock(*user));
  });
}

bool ScopeRecomputation::isShared(ScopeAttr scope) const {
  return scope.getIteration() < 0 &&
         llvm::any_of(units, [&](const auto &other) {
           return other.first.getIteration() >= 0 &&
                  other.first.getParent() == scope.getParent() &&
                  other.first.getName() == scope.getName();
         });
}

int64_t ScopeRecomputation::countKept(ArrayRef<Value> values) const {
  int64_t bytes = 0;
  for (Value value : values) {
    Operation *op = value.getDefiningOp();
    if (op && !isa<BorderOpInterface, arith::ConstantOp, linalg::FillOp>(op) &&
        isReadLater(value))
      bytes += getBytes(value);
  }
  return bytes;
}

void ScopeRecomputation::rewrite(ScopeAttr scope, Unit &unit) {
  // What the unit makes and reads.
  llvm::SetVector<Value> values;
  SmallVector<Value> residuals;
  Operation *first = nullptr;
  for (Operation *op : unit.operations) {
    values.insert(op->operand_begin(), op->operand_end());
    for (Value result : op->getResults()) {
      values.insert(result);
      if (isKept(result, scope) || !isReadLater(result))
        continue;
      residuals.push_back(result);
      for (Operation *user : result.getUsers()) {
        Operation *reader = block.findAncestorOpInBlock(*user);
        if (!isForward(reader) && (!first || reader->isBeforeInBlock(first)))
          first = reader;
      }
    }
  }
  if (residuals.empty())
    return;
  const int64_t before = countKept(values.getArrayRef());
  // In the order of the unit, so that operands are there.
  llvm::DenseSet<Operation *> needed;
  SmallVector<Value> open(residuals);
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (!needed.insert(op).second)
      continue;
    for (Value operand : op->getOperands())
      if (!isKept(operand, scope))
        open.push_back(operand);
  }
  OpBuilder builder(first);
  IRMapping copies;
  Sum &sum = sums[StringAttr::get(scope.getContext(), scope.getPath())];
  for (Operation *op : unit.operations)
    if (needed.contains(op)) {
      // The results that are kept are read where they are.
      Operation *copy = builder.clone(*op, copies);
      copy->setLoc(withPhase(asInside(op->getLoc()), Phase::Backward));
      copy->setAttr(againAttrName, builder.getUnitAttr());
      for (auto [result, again] :
           llvm::zip_equal(op->getResults(), copy->getResults()))
        if (isKept(result, scope))
          copies.map(result, result);
        else
          copies.map(result, again);
      sum.flops += countFlops(op);
    }
  for (Value residual : residuals)
    residual.replaceUsesWithIf(copies.lookup(residual), [&](OpOperand &use) {
      Operation *reader = block.findAncestorOpInBlock(*use.getOwner());
      return !isForward(reader) &&
             reader != copies.lookup(residual).getDefiningOp();
    });
  ++sum.units;
  sum.bytes += before - countKept(values.getArrayRef());
}

LogicalResult ScopeRecomputation::run() {
  for (Operation &op : block) {
    if (!isForward(&op))
      continue;
    ScopeAttr unit = findUnit(&op);
    if (!unit)
      continue;
    if (isa<nd::LoopOp>(op))
      return op.emitError("not supported yet: to compute the iterations of a "
                          "loop again that is not written out");
    unitOf[&op] = unit;
    units[unit].operations.push_back(&op);
  }
  for (auto &[scope, unit] : units)
    if (!isShared(scope))
      rewrite(scope, unit);
  return success();
}

SmallVector<Attribute> ScopeRecomputation::getSums() const {
  SmallVector<Attribute> all;
  for (const auto &[scope, sum] : sums)
    all.push_back(RecomputedAttr::get(scope.getContext(), scope, sum.units,
                                      sum.bytes, sum.flops));
  return all;
}

namespace {
struct RecomputeScopes : meshc::impl::RecomputeScopesBase<RecomputeScopes> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    for (auto training : module.getOps<TrainingOp>()) {
      std::optional<ArrayAttr> asked = training.getRecompute();
      if (!asked)
        continue;
      SmallVector<std::string> patterns;
      for (auto pattern : asked->getAsRange<StringAttr>())
        patterns.push_back(pattern.str());
      for (auto program : module.getOps<spmd::ProgramOp>()) {
        const StringRef name = program.getSymName();
        if (name != "step" && name != ProgramOp::accumulateName)
          continue;
        ScopeRecomputation recomputation(program.getBody().front(), patterns);
        if (failed(recomputation.run()))
          return signalPassFailure();
        // The parts of a step compute the same again.
        if (name == "step")
          training.setRecomputedAttr(
              ArrayAttr::get(module.getContext(), recomputation.getSums()));
      }
    }
  }
};
} // namespace
