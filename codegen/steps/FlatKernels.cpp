#include "codegen/steps/FlatKernels.h"

#include "mlir/IR/OperationSupport.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

static int64_t countElements(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getNumElements();
}

static Type getElementType(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getElementType();
}

//===-- Flat kernels ------------------------------------------------------===//

/// Whether the bodies ask where they are, or for elements elsewhere.
static bool dependsOnPosition(Operation *op) {
  auto generic = dyn_cast<linalg::GenericOp>(op);
  return generic && (!generic.getBody()->getOps<linalg::IndexOp>().empty() ||
                     !getGatheredTensors(op).empty());
}

std::optional<int64_t> meshc::codegen::getFlatSize(const KernelBody &kernel) {
  const Cluster &cluster = kernel.cluster;
  if (cluster.getNumDims() > 1 || llvm::any_of(kernel.ops, dependsOnPosition))
    return std::nullopt;
  const int64_t size =
      cluster.getNumDims() == 1 ? cluster.getSizes().front() : 1;
  for (const Cluster::Member &member : cluster.getMembers())
    if (!cluster.getReducedDims(member).empty())
      return std::nullopt;
  for (const Cluster::Access &access : cluster.getAccesses())
    if (int64_t count = countElements(access.tensor);
        count != size && (count != 1 || access.isStore))
      return std::nullopt;
  return size;
}

//===-- Same bodies -------------------------------------------------------===//

namespace {
/// Operations and results of a kernel, to look up.
struct KernelParts {
  explicit KernelParts(const KernelBody &body)
      : body(body), ops(body.ops.begin(), body.ops.end()),
        outputs(body.outputs.begin(), body.outputs.end()) {}

  const KernelBody &body;
  llvm::DenseSet<Operation *> ops;
  llvm::DenseSet<Value> outputs;
};

/// Goes through two kernels side by side.
class KernelMatcher {
public:
  KernelMatcher(const KernelParts &a, const KernelParts &b) : a(a), b(b) {}

  std::optional<OperandMatch> run();

private:
  bool matchFrom(Operation *x, Operation *y);
  bool matchOps(Operation *x, Operation *y);
  bool matchTensors(Value x, Value y);
  bool matchOperands(Value x, Value y);

  const KernelParts &a, &b;
  /// What stands for the operations and operands of `a`.
  llvm::DenseMap<Operation *, Operation *> computed;
  llvm::DenseMap<Value, Value> operands;
  /// Operations still to be compared.
  SmallVector<std::pair<Operation *, Operation *>> open;
};
} // namespace

/// Tensors from other steps: of one element type, both of as many elements as
/// the kernel goes through or both a single one, and always the same pair.
bool KernelMatcher::matchOperands(Value x, Value y) {
  if (getElementType(x) != getElementType(y))
    return false;
  auto size = [](const KernelParts &kernel) {
    return countElements(kernel.body.outputs.front());
  };
  const bool isWhole = countElements(x) == size(a);
  // Of a kernel of one element all tensors are both.
  if (size(b) != 1 && isWhole != (countElements(y) == size(b)))
    return false;
  auto [known, isFirst] = operands.try_emplace(x, y);
  return isFirst || known->second == y;
}

/// Whether two scalars outside of bodies are one number.
static bool areSame(Value x, Value y) {
  Operation *opX = x.getDefiningOp(), *opY = y.getDefiningOp();
  return opX && opY && opX->getNumResults() == 1 &&
         OperationEquivalence::isEquivalentTo(
             opX, opY, [](Value x, Value y) { return success(areSame(x, y)); },
             /*markEquivalent=*/nullptr, OperationEquivalence::IgnoreLocations);
}

/// The same of what fills tensors.
static bool areSame(OpFoldResult x, OpFoldResult y) {
  auto valueX = dyn_cast_if_present<Value>(x);
  auto valueY = dyn_cast_if_present<Value>(y);
  return valueX && valueY ? areSame(valueX, valueY) : x == y;
}

bool KernelMatcher::matchTensors(Value x, Value y) {
  OpFoldResult splatX = getSplat(x), splatY = getSplat(y);
  if (splatX || splatY)
    return areSame(splatX, splatY) && getElementType(x) == getElementType(y);
  Operation *opX = x.getDefiningOp(), *opY = y.getDefiningOp();
  const bool isInside = a.ops.contains(opX);
  if (isInside != b.ops.contains(opY))
    return false;
  if (!isInside)
    return matchOperands(x, y);
  open.push_back({opX, opY});
  return true;
}

/// Whether two bodies are the same. Numbers from outside of them have to be.
static bool areSame(Region &x, Region &y) {
  llvm::SmallDenseMap<Value, Value, 16> inside;
  auto isSame = [&](Value x, Value y) {
    auto known = inside.find(x);
    return success(known != inside.end() ? known->second == y : areSame(x, y));
  };
  // Operands that may change places are the same in some order.
  auto areSameSets = [&](ValueRange x, ValueRange y) {
    auto rest = llvm::to_vector(y);
    for (Value value : x) {
      auto found = llvm::find_if(
          rest, [&](Value other) { return succeeded(isSame(value, other)); });
      if (found == rest.end())
        return failure();
      rest.erase(found);
    }
    return success(rest.empty());
  };
  return OperationEquivalence::isRegionEquivalentTo(
      &x, &y, isSame, [&](Value x, Value y) { inside[x] = y; },
      OperationEquivalence::IgnoreLocations, areSameSets);
}

/// Whether two operations, and everything they are computed from, are the same.
bool KernelMatcher::matchFrom(Operation *x, Operation *y) {
  open = {{x, y}};
  while (!open.empty()) {
    auto [opX, opY] = open.pop_back_val();
    if (!matchOps(opX, opY))
      return false;
  }
  return true;
}

bool KernelMatcher::matchOps(Operation *x, Operation *y) {
  auto [known, isFirst] = computed.try_emplace(x, y);
  if (!isFirst)
    return known->second == y;
  Value resultX = x->getResult(0), resultY = y->getResult(0);
  if (a.outputs.contains(resultX) != b.outputs.contains(resultY))
    return false;
  if (getSplat(resultX) || getSplat(resultY))
    return matchTensors(resultX, resultY);
  auto genericX = dyn_cast<linalg::GenericOp>(x);
  auto genericY = dyn_cast<linalg::GenericOp>(y);
  if (!genericX || !genericY ||
      genericX.getNumDpsInputs() != genericY.getNumDpsInputs() ||
      getElementType(resultX) != getElementType(resultY))
    return false;
  if (!areSame(genericX.getRegion(), genericY.getRegion()))
    return false;
  for (auto [inputX, inputY] :
       llvm::zip_equal(genericX->getOpOperands(), genericY->getOpOperands())) {
    if (!genericX.payloadUsesValueFromOperand(&inputX))
      continue;
    const bool isTensor = isa<RankedTensorType>(inputX.get().getType());
    if (isTensor != isa<RankedTensorType>(inputY.get().getType()))
      return false;
    if (isTensor ? !matchTensors(inputX.get(), inputY.get())
                 : !areSame(inputX.get(), inputY.get()))
      return false;
  }
  return true;
}

std::optional<OperandMatch> KernelMatcher::run() {
  const KernelBody &kernel = a.body, &other = b.body;
  if (kernel.outputs.size() != other.outputs.size() ||
      kernel.inputs.size() != other.inputs.size())
    return std::nullopt;
  // Outputs may be in another order: each is tried, bodies decide.
  SmallVector<Value> match(kernel.countOperands());
  for (auto [index, x] : llvm::enumerate(kernel.outputs)) {
    Value found;
    if (auto known = computed.find(x.getDefiningOp()); known != computed.end())
      found = known->second->getResult(0);
    for (Value y : other.outputs) {
      if (found)
        break;
      KernelMatcher attempt = *this;
      if (!attempt.matchFrom(x.getDefiningOp(), y.getDefiningOp()))
        continue;
      found = y;
      computed = std::move(attempt.computed);
      operands = std::move(attempt.operands);
    }
    if (!found || !b.outputs.contains(found))
      return std::nullopt;
    match[kernel.inputs.size() + index] = found;
  }
  for (auto [index, x] : llvm::enumerate(kernel.inputs)) {
    match[index] = operands.lookup(x);
    if (!match[index])
      return std::nullopt;
  }
  llvm::SmallDenseSet<Value, 16> different(match.begin(), match.end());
  if (different.size() != match.size())
    return std::nullopt;
  const SmallVector<Value> operands = other.getOperands();
  OperandMatch places;
  for (Value value : match)
    places.push_back(unsigned(llvm::find(operands, value) - operands.begin()));
  return places;
}

std::optional<OperandMatch>
meshc::codegen::matchKernels(const KernelBody &kernel,
                             const KernelBody &other) {
  return KernelMatcher(KernelParts(kernel), KernelParts(other)).run();
}

//===-- Hashes ------------------------------------------------------------===//

/// Of equal numbers outside of bodies, the same.
static llvm::hash_code hashScalar(Value scalar) {
  Operation *op = scalar.getDefiningOp();
  return op ? OperationEquivalence::computeHash(
                  op, OperationEquivalence::ignoreHashValue,
                  OperationEquivalence::ignoreHashValue,
                  OperationEquivalence::IgnoreLocations)
            : llvm::hash_code(0);
}

/// Of equal bodies, as areSame() has it, the same number.
static llvm::hash_code hashBody(linalg::GenericOp generic) {
  auto hashOperand = [&](Value operand) {
    const bool isOutside = operand.getParentRegion() != &generic.getRegion();
    return isOutside ? hashScalar(operand) : llvm::hash_code(0);
  };
  llvm::hash_code hash(0);
  for (Operation &op : *generic.getBody())
    hash = llvm::hash_combine(hash, OperationEquivalence::computeHash(
                                        &op, hashOperand,
                                        OperationEquivalence::ignoreHashValue,
                                        OperationEquivalence::IgnoreLocations));
  return hash;
}

size_t meshc::codegen::hashKernel(const KernelBody &kernel) {
  const KernelParts parts(kernel);
  llvm::DenseMap<Value, llvm::hash_code> computed;
  auto hashTensor = [&](Value tensor) -> llvm::hash_code {
    const Type type = getElementType(tensor);
    if (OpFoldResult splat = getSplat(tensor)) {
      auto scalar = dyn_cast<Value>(splat);
      return scalar ? llvm::hash_combine(hashScalar(scalar), type)
                    : llvm::hash_combine(splat.getOpaqueValue(), type);
    }
    if (auto known = computed.find(tensor); known != computed.end())
      return known->second;
    return hash_value(type);
  };
  for (Operation *op : kernel.ops) {
    auto generic = dyn_cast<linalg::GenericOp>(op);
    if (!generic)
      continue;
    Value result = op->getResult(0);
    llvm::hash_code hash =
        llvm::hash_combine(parts.outputs.contains(result),
                           getElementType(result), hashBody(generic));
    for (OpOperand &operand : op->getOpOperands())
      if (generic.payloadUsesValueFromOperand(&operand))
        hash = llvm::hash_combine(hash,
                                  isa<RankedTensorType>(operand.get().getType())
                                      ? hashTensor(operand.get())
                                      : hashScalar(operand.get()));
    computed.try_emplace(result, hash);
  }
  size_t hash = llvm::hash_combine(kernel.inputs.size(), kernel.outputs.size());
  for (Value output : kernel.outputs)
    hash += hashTensor(output);
  return hash;
}
