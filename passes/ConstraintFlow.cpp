#include "passes/ConstraintFlow.h"

#include "dialect/ProgramWalk.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

bool meshc::isConstraint(Operation *op) {
  auto reshard = dyn_cast_if_present<ReshardOp>(op);
  return reshard && !reshard.getRole();
}

ReshardOp meshc::findOnlyConstraint(Value value) {
  Operation *reader = value.hasOneUse() ? *value.user_begin() : nullptr;
  return isConstraint(reader) ? cast<ReshardOp>(reader) : ReshardOp();
}

/// Whether both have the same dimensions, in any order.
static bool haveEqualDims(Value a, Value b) {
  const auto ofA = cast<NamedTensorType>(a.getType()).getDims();
  const auto ofB = cast<NamedTensorType>(b.getType()).getDims();
  return ofA.size() == ofB.size() && llvm::all_of(ofA, [&](DimAttr dim) {
           return llvm::is_contained(ofB, dim);
         });
}

static bool isElementwise(Operation *op) {
  return isa_and_present<ElementwiseOpInterface>(op) &&
         op->getNumResults() == 1;
}

llvm::DenseMap<Operation *, Followed>
meshc::findFollowers(ProgramOp program, const ModuleLayout &layout) {
  llvm::DenseMap<Operation *, Followed> followers;
  const SmallVector<Operation *> operations = getOperations(program);
  auto getConstraint = [&](Operation *op) {
    if (isConstraint(op))
      return cast<ReshardOp>(op);
    const Followed known = followers.lookup(op);
    return known.isElementwise ? known.constraint : ReshardOp();
  };
  // What an operation leads to comes behind it.
  for (Operation *op : llvm::reverse(operations)) {
    if (!isa<PartitionOpInterface>(op) || op->getNumResults() != 1 ||
        op->use_empty())
      continue;
    ReshardOp reached;
    bool isOne = true;
    for (Operation *user : op->getUsers()) {
      ReshardOp next = getConstraint(user);
      isOne &= next && (!reached || next == reached);
      reached = next;
    }
    if (isOne)
      followers[op] = {reached, isElementwise(op)};
    else if (auto gradient = dyn_cast<ReshardOp>(*op->user_begin());
             gradient && op->hasOneUse() && !isElementwise(op) &&
             layout.findNamedParameter(gradient))
      followers[op] = {gradient, false};
  }
  for (Operation *op : operations) {
    if (!isElementwise(op) || followers.contains(op))
      continue;
    for (Value operand : op->getOperands()) {
      ReshardOp from = getConstraint(operand.getDefiningOp());
      // An operand that is spread over more dimensions says nothing of these.
      if (from && haveEqualDims(operand, op->getResult(0))) {
        followers[op] = {from, true};
        break;
      }
    }
  }
  return followers;
}
