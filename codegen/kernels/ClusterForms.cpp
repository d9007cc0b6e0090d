#include "codegen/kernels/ClusterForms.h"

#include "codegen/kernels/Schedule.h"
#include "codegen/kernels/StructuredOps.h"

#include "mlir/IR/OperationSupport.h"

using namespace mlir;
using namespace meshc::codegen;

/// Whether `value` is made in a region of `op`.
static bool isDefinedInside(Operation *op, Value value) {
  Operation *parent = value.getParentRegion()->getParentOp();
  return op->isAncestor(parent);
}

/// Of names, attributes and types of the operation and its body.
static size_t getHash(Operation *op) {
  llvm::hash_code hash = 0;
  op->walk<WalkOrder::PreOrder>([&](Operation *inner) {
    hash = llvm::hash_combine(hash,
                              OperationEquivalence::computeHash(
                                  inner, OperationEquivalence::ignoreHashValue,
                                  OperationEquivalence::ignoreHashValue,
                                  OperationEquivalence::IgnoreLocations));
  });
  return hash;
}

/// Whether both do the same to values of the same types, from outside in order.
static bool areAlike(Operation *x, Operation *y) {
  llvm::SmallDenseMap<Value, Value, 16> same;
  auto areEqual = [&](Value ofX, Value ofY) {
    if (auto known = same.find(ofX); known != same.end())
      return success(known->second == ofY);
    return success(ofX.getType() == ofY.getType() && !isDefinedInside(x, ofX) &&
                   !isDefinedInside(y, ofY));
  };
  return OperationEquivalence::isEquivalentTo(
      x, y, areEqual, [&](Value ofX, Value ofY) { same[ofX] = ofY; },
      OperationEquivalence::IgnoreLocations);
}

unsigned ClusterForms::getNumber(Operation *op) {
  const size_t hash = getHash(op);
  auto [begin, end] = examples.equal_range(hash);
  for (auto example = begin; example != end; ++example)
    if (areAlike(example->second, op))
      return forms.find(example->second)->second->number;
  examples.emplace(hash, op);
  return numForms++;
}

const ClusterForms::Form &ClusterForms::getForm(Operation *op) {
  std::unique_ptr<Form> &form = forms[op];
  if (form)
    return *form;
  auto made = std::make_unique<Form>();
  made->isRecomputed = isRecomputed(op);
  op->walk<WalkOrder::PreOrder>([&](Operation *inner) {
    for (Value operand : inner->getOperands())
      if (!isDefinedInside(op, operand))
        made->reads.push_back(operand);
  });
  made->number = getNumber(op);
  form = std::move(made);
  return *form;
}

ClusterForms::Key ClusterForms::getKey(ArrayRef<Operation *> ops,
                                       ArrayRef<Value> outputs) {
  Key key;
  llvm::SmallDenseMap<Value, unsigned, 32> numbers;
  // Makers of values from outside that are computed again, as they are met.
  SmallVector<Operation *> again;
  auto add = [&](Operation *op) {
    const Form &form = getForm(op);
    key.push_back(form.number);
    for (Value read : form.reads) {
      auto [place, isFirst] = numbers.try_emplace(read, numbers.size());
      key.push_back(place->second);
      Operation *producer = isFirst ? read.getDefiningOp() : nullptr;
      if (producer && isComputation(producer) && getForm(producer).isRecomputed)
        again.push_back(producer);
    }
    for (Value result : op->getResults())
      key.push_back(numbers.try_emplace(result, numbers.size()).first->second);
  };
  llvm::for_each(ops, add);
  key.push_back(~0u);
  key.push_back(unsigned(outputs.size()));
  for (Value output : outputs)
    key.push_back(numbers.find(output)->second);
  for (size_t next = 0; next < again.size(); ++next)
    add(again[next]);
  return key;
}

bool ClusterForms::canRun(ArrayRef<Operation *> ops, ArrayRef<Value> outputs) {
  auto [place, isFirst] = tried.try_emplace(getKey(ops, outputs), false);
  if (isFirst) {
    std::optional<Cluster> cluster = Cluster::build(ops, outputs);
    place->second = cluster && Schedule::build(*cluster);
  }
  return place->second;
}
