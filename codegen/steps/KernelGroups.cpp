#include "codegen/steps/KernelGroups.h"

#include "mlir/IR/OperationSupport.h"

#include <map>
#include <unordered_map>

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

std::optional<int64_t> meshc::codegen::getFlatSize(const Step &kernel,
                                                   const Cluster &cluster) {
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
  explicit KernelParts(const Step &step)
      : step(step), ops(step.ops.begin(), step.ops.end()),
        outputs(step.outputs.begin(), step.outputs.end()) {}

  const Step &step;
  llvm::DenseSet<Operation *> ops;
  llvm::DenseSet<Value> outputs;
};

/// Goes through two kernels side by side.
class Matcher {
public:
  Matcher(const KernelParts &a, const KernelParts &b) : a(a), b(b) {}

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
bool Matcher::matchOperands(Value x, Value y) {
  if (getElementType(x) != getElementType(y))
    return false;
  auto size = [](const KernelParts &kernel) {
    return countElements(kernel.step.outputs.front());
  };
  const bool isWhole = countElements(x) == size(a);
  // Of a kernel of one element all tensors are both.
  if (size(b) != 1 && isWhole != (countElements(y) == size(b)))
    return false;
  auto [known, isFirst] = operands.try_emplace(x, y);
  return isFirst || known->second == y;
}

bool Matcher::matchTensors(Value x, Value y) {
  OpFoldResult splatX = getSplat(x), splatY = getSplat(y);
  if (splatX || splatY)
    return splatX == splatY && getElementType(x) == getElementType(y);
  Operation *opX = x.getDefiningOp(), *opY = y.getDefiningOp();
  const bool isInside = a.ops.contains(opX);
  if (isInside != b.ops.contains(opY))
    return false;
  if (!isInside)
    return matchOperands(x, y);
  open.push_back({opX, opY});
  return true;
}

/// Whether two operations, and everything they are computed from, are the same.
bool Matcher::matchFrom(Operation *x, Operation *y) {
  open = {{x, y}};
  while (!open.empty()) {
    auto [opX, opY] = open.pop_back_val();
    if (!matchOps(opX, opY))
      return false;
  }
  return true;
}

bool Matcher::matchOps(Operation *x, Operation *y) {
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
  // Numbers from outside the bodies have to be the same ones.
  if (!OperationEquivalence::isRegionEquivalentTo(
          &genericX.getRegion(), &genericY.getRegion(),
          OperationEquivalence::IgnoreLocations))
    return false;
  for (auto [inputX, inputY] :
       llvm::zip_equal(genericX->getOpOperands(), genericY->getOpOperands())) {
    if (!genericX.payloadUsesValueFromOperand(&inputX))
      continue;
    const bool isTensor = isa<RankedTensorType>(inputX.get().getType());
    if (isTensor != isa<RankedTensorType>(inputY.get().getType()))
      return false;
    if (isTensor ? !matchTensors(inputX.get(), inputY.get())
                 : inputX.get() != inputY.get())
      return false;
  }
  return true;
}

std::optional<OperandMatch> Matcher::run() {
  const Step &kernel = a.step, &other = b.step;
  if (kernel.outputs.size() != other.outputs.size() ||
      kernel.inputs.size() != other.inputs.size())
    return std::nullopt;
  // Outputs may be in another order: each is tried, bodies decide.
  OperandMatch match(kernel.inputs.size() + kernel.outputs.size());
  for (auto [index, x] : llvm::enumerate(kernel.outputs)) {
    Value found;
    if (auto known = computed.find(x.getDefiningOp()); known != computed.end())
      found = known->second->getResult(0);
    for (Value y : other.outputs) {
      if (found)
        break;
      Matcher attempt = *this;
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
  return match;
}

std::optional<OperandMatch> meshc::codegen::matchKernels(const Step &kernel,
                                                         const Step &other) {
  return Matcher(KernelParts(kernel), KernelParts(other)).run();
}

/// Of equal bodies, as isRegionEquivalentTo() has it, the same number.
static llvm::hash_code hashBody(linalg::GenericOp generic) {
  auto hashOperand = [&](Value operand) {
    const bool isOutside = operand.getParentRegion() != &generic.getRegion();
    return isOutside ? hash_value(operand) : llvm::hash_code(0);
  };
  llvm::hash_code hash(0);
  for (Operation &op : *generic.getBody())
    hash = llvm::hash_combine(hash, OperationEquivalence::computeHash(
                                        &op, hashOperand,
                                        OperationEquivalence::ignoreHashValue,
                                        OperationEquivalence::IgnoreLocations));
  return hash;
}

/// A number that kernels have in common where matchKernels() finds a match, and
/// hardly any others: what each output is computed from, whatever the order of
/// outputs.
static size_t hashKernel(const Step &kernel) {
  const KernelParts parts(kernel);
  llvm::DenseMap<Value, llvm::hash_code> computed;
  auto hashTensor = [&](Value tensor) -> llvm::hash_code {
    const Type type = getElementType(tensor);
    if (OpFoldResult splat = getSplat(tensor))
      return llvm::hash_combine(splat.getOpaqueValue(), type);
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
                                      : hash_value(operand.get()));
    computed.try_emplace(result, hash);
  }
  size_t hash = llvm::hash_combine(kernel.inputs.size(), kernel.outputs.size());
  for (Value output : kernel.outputs)
    hash += hashTensor(output);
  return hash;
}

//===-- Groups ------------------------------------------------------------===//

namespace {
enum class Place : uint8_t { Start, End };

struct Group {
  Place place;
  SmallVector<unsigned> members; ///< steps; the first has a dimension
  llvm::SmallSetVector<Value, 16> operands;
};
} // namespace

/// Where a kernel runs whatever runs with it; nothing if that matters. `read`
/// is what any step reads.
static std::optional<Place> getPlace(const Step &step,
                                     const llvm::DenseSet<Value> &read) {
  const bool isRead = llvm::any_of(
      step.outputs, [&](Value output) { return read.contains(output); });
  if (!isRead)
    return Place::End;
  const bool waits = llvm::any_of(step.inputs, [](Value input) {
    return !isa_and_present<spmd::ReadOp, spmd::InputOp>(input.getDefiningOp());
  });
  if (waits)
    return std::nullopt;
  return Place::Start;
}

static void appendMember(Step &group, Step member) {
  auto findInput = [&](Value value) {
    return unsigned(llvm::find(group.inputs, value) - group.inputs.begin());
  };
  for (Value input : member.inputs)
    if (!llvm::is_contained(group.inputs, input))
      group.inputs.push_back(input);
  for (const std::vector<unsigned> &shared : member.mayShare) {
    group.mayShare.emplace_back();
    for (unsigned input : shared)
      group.mayShare.back().push_back(findInput(member.inputs[input]));
  }
  llvm::append_range(group.ops, member.ops);
  llvm::append_range(group.outputs, member.outputs);
  group.members.push_back(std::move(member));
}

static Step makeStep(ArrayRef<Step> steps, const Group &group) {
  Step made;
  made.kind = Step::Kind::Kernel;
  for (unsigned member : group.members)
    appendMember(made, steps[member]);
  // What another member reads as well may be read after it is written.
  for (std::vector<unsigned> &shared : made.mayShare)
    llvm::erase_if(shared, [&](unsigned input) {
      return llvm::count_if(made.members, [&](const Step &member) {
               return llvm::is_contained(member.inputs, made.inputs[input]);
             }) > 1;
    });
  return made;
}

static std::vector<Group> findGroups(ArrayRef<Step> steps, size_t numAxes) {
  struct Candidate {
    unsigned step;
    Place place;
    bool hasDim;
  };
  llvm::DenseSet<Value> read;
  for (const Step &step : steps)
    read.insert(step.inputs.begin(), step.inputs.end());
  std::vector<Candidate> candidates;
  for (auto [index, step] : llvm::enumerate(steps)) {
    if (step.kind != Step::Kind::Kernel)
      continue;
    std::optional<Place> place = getPlace(step, read);
    std::optional<Cluster> cluster;
    if (place)
      cluster = Cluster::build(step.ops, step.outputs);
    if (cluster && getFlatSize(step, *cluster))
      candidates.push_back(
          {unsigned(index), *place, cluster->getNumDims() == 1});
  }
  // Tensors of a single element join those whose elements tell which of their
  // operands are single numbers.
  llvm::sort(candidates, [](const Candidate &x, const Candidate &y) {
    return std::pair(!x.hasDim, x.step) < std::pair(!y.hasDim, y.step);
  });
  const size_t maxOperands = size_t(maxParameterBytes) / 8 - numAxes;
  std::vector<Group> groups;
  std::unordered_map<size_t, SmallVector<unsigned>> groupsByHash;
  for (const Candidate &candidate : candidates) {
    const Step &step = steps[candidate.step];
    auto addTo = [&](Group &group) {
      group.members.push_back(candidate.step);
      group.operands.insert(step.inputs.begin(), step.inputs.end());
      group.operands.insert(step.outputs.begin(), step.outputs.end());
    };
    auto takes = [&](unsigned index) {
      const Group &group = groups[index];
      if (group.place != candidate.place ||
          group.operands.size() + step.inputs.size() + step.outputs.size() >
              maxOperands)
        return false;
      return matchKernels(steps[group.members.front()], step).has_value();
    };
    SmallVector<unsigned> &alike = groupsByHash[hashKernel(step)];
    if (auto found = llvm::find_if(alike, takes); found != alike.end()) {
      addTo(groups[*found]);
    } else if (candidate.hasDim) {
      alike.push_back(unsigned(groups.size()));
      groups.push_back({candidate.place, {}, {}});
      addTo(groups.back());
    }
  }
  return groups;
}

void meshc::codegen::groupKernels(std::vector<Step> &steps, size_t numAxes) {
  std::map<unsigned, Step> grouped; ///< by place
  std::vector<bool> isMember(steps.size(), false);
  for (const Group &group : findGroups(steps, numAxes)) {
    if (group.members.size() < 2)
      continue;
    auto [first, last] =
        std::minmax_element(group.members.begin(), group.members.end());
    grouped.emplace(group.place == Place::Start ? *first : *last,
                    makeStep(steps, group));
    for (unsigned member : group.members)
      isMember[member] = true;
  }
  std::vector<Step> result;
  for (unsigned index = 0; index < steps.size(); ++index) {
    if (auto found = grouped.find(index); found != grouped.end())
      result.push_back(std::move(found->second));
    else if (!isMember[index])
      result.push_back(std::move(steps[index]));
  }
  steps = std::move(result);
}
