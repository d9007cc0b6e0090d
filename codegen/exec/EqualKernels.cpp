#include "codegen/exec/EqualKernels.h"

#include "mlir/IR/OperationSupport.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;
using steps::StepOpInterface;

/// Of names, attributes and types of everything in the body.
static size_t getHash(Operation *step) {
  llvm::hash_code hash = llvm::hash_value(step->getNumOperands());
  step->walk([&](Operation *op) {
    hash =
        llvm::hash_combine(hash, OperationEquivalence::computeHash(
                                     op, OperationEquivalence::ignoreHashValue,
                                     OperationEquivalence::ignoreHashValue,
                                     OperationEquivalence::IgnoreLocations));
  });
  return hash;
}

/// Whether the bodies are the same, or of steps without one attributes and
/// types. Operands that could change places are not: code follows their order.
static bool areEqual(Operation *x, Operation *y) {
  if (x->getName() != y->getName())
    return false;
  if (x->getNumRegions() == 0)
    return x->getAttrDictionary() == y->getAttrDictionary() &&
           x->getOperandTypes() == y->getOperandTypes() &&
           x->getResultTypes() == y->getResultTypes();
  llvm::SmallDenseMap<Value, Value, 32> same;
  return OperationEquivalence::isRegionEquivalentTo(
      &x->getRegion(0), &y->getRegion(0),
      [&](Value x, Value y) { return success(same.lookup(x) == y); },
      [&](Value x, Value y) { same[x] = y; },
      OperationEquivalence::IgnoreLocations);
}

const EmittedKernel *EqualKernels::find(StepOpInterface step,
                                        ArrayRef<bool> isShared) const {
  auto [begin, end] = entries.equal_range(getHash(step));
  for (auto entry = begin; entry != end; ++entry)
    if (ArrayRef(entry->second.isShared) == isShared &&
        areEqual(step, StepOpInterface(entry->second.step)))
      return &entry->second.code;
  return nullptr;
}

void EqualKernels::add(StepOpInterface step, ArrayRef<bool> isShared,
                       const EmittedKernel &code) {
  // Not to_vector, which makes two booleans of the pointers to these.
  entries.emplace(
      getHash(step),
      Entry{step, SmallVector<bool>(isShared.begin(), isShared.end()), code});
}
