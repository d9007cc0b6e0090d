#include "codegen/steps/GroupKernels.h"

#include "codegen/steps/FlatKernels.h"
#include "codegen/steps/Passes.h"

#include <unordered_map>

namespace meshc::codegen {
#define GEN_PASS_DEF_GROUPKERNELS
#include "codegen/steps/Passes.h.inc"
} // namespace meshc::codegen

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

namespace {
enum class Side : uint8_t { Front, Back };

struct Group {
  Side side;
  SmallVector<unsigned> members; ///< kernels; the first has a dimension
  llvm::SmallSetVector<Value, 16> operands;
};
} // namespace

/// On which side of the program a kernel runs whatever runs with it; nothing if
/// that matters.
static std::optional<Side> getSide(steps::KernelOp kernel) {
  const bool isRead =
      llvm::any_of(kernel->getUsers(), llvm::IsaPred<steps::StepOpInterface>);
  if (!isRead)
    return Side::Back;
  const bool waits = llvm::any_of(kernel.getInputs(), [](Value input) {
    return isa_and_present<steps::StepOpInterface>(input.getDefiningOp());
  });
  if (waits)
    return std::nullopt;
  return Side::Front;
}

/// Fails where a kernel has no body.
static FailureOr<std::vector<Group>>
findGroups(ArrayRef<steps::KernelOp> kernels, KernelBodies &bodies,
           size_t numAxes) {
  struct Candidate {
    unsigned kernel;
    Side side;
    bool hasDim;
  };
  std::vector<Candidate> candidates;
  for (auto [index, kernel] : llvm::enumerate(kernels)) {
    std::optional<Side> side = getSide(kernel);
    if (!side)
      continue;
    const KernelBody *body = bodies.find(kernel);
    if (!body)
      return failure();
    if (getFlatSize(*body))
      candidates.push_back(
          {unsigned(index), *side, body->cluster.getNumDims() == 1});
  }
  // Tensors of a single element join those whose elements tell which of their
  // operands are single numbers.
  llvm::sort(candidates, [](const Candidate &x, const Candidate &y) {
    return std::pair(!x.hasDim, x.kernel) < std::pair(!y.hasDim, y.kernel);
  });
  const size_t maxOperands = size_t(maxParameterBytes) / 8 - numAxes;
  std::vector<Group> groups;
  std::unordered_map<size_t, SmallVector<unsigned>> groupsByHash;
  for (const Candidate &candidate : candidates) {
    steps::KernelOp kernel = kernels[candidate.kernel];
    auto addTo = [&](Group &group) {
      group.members.push_back(candidate.kernel);
      group.operands.insert_range(kernel->getOperands());
      group.operands.insert_range(kernel->getResults());
    };
    auto takes = [&](unsigned index) {
      const Group &group = groups[index];
      if (group.side != candidate.side || group.operands.size() +
                                                  kernel->getNumOperands() +
                                                  kernel->getNumResults() >
                                              maxOperands)
        return false;
      return matchKernels(bodies.get(kernels[group.members.front()]),
                          bodies.get(kernel))
          .has_value();
    };
    SmallVector<unsigned> &alike = groupsByHash[hashKernel(bodies.get(kernel))];
    if (auto found = llvm::find_if(alike, takes); found != alike.end()) {
      addTo(groups[*found]);
    } else if (candidate.hasDim) {
      alike.push_back(unsigned(groups.size()));
      groups.push_back({candidate.side, {}, {}});
      addTo(groups.back());
    }
  }
  return groups;
}

/// Moves the kernels into a group at `place`.
static void makeGroup(ArrayRef<steps::KernelOp> members, Operation *place) {
  llvm::SmallSetVector<Value, 16> inputs;
  SmallVector<Type> types;
  for (steps::KernelOp kernel : members) {
    inputs.insert_range(kernel.getInputs());
    llvm::append_range(types, kernel.getResultTypes());
  }
  OpBuilder builder(place);
  auto group = steps::GroupOp::create(builder, place->getLoc(), types,
                                      inputs.getArrayRef());
  Block &body = group.getBody().emplaceBlock();
  llvm::SmallDenseMap<Value, Value, 16> arguments;
  for (Value input : inputs)
    arguments[input] =
        body.addArgument(input.getType(), steps::getValueLoc(input));
  SmallVector<Value> yielded;
  unsigned output = 0;
  for (steps::KernelOp kernel : members) {
    kernel->moveBefore(&body, body.end());
    for (OpOperand &operand : kernel->getOpOperands())
      operand.set(arguments.at(operand.get()));
    for (Value result : kernel.getResults()) {
      steps::moveUses(result, group.getResult(output++),
                      [](Operation *) { return true; });
      yielded.push_back(result);
    }
  }
  builder.setInsertionPointToEnd(&body);
  steps::YieldOp::create(builder, group.getLoc(), yielded);
}

LogicalResult meshc::codegen::groupKernels(steps::ProgramOp program) {
  KernelBodies bodies(SumPlace::Registers);
  const size_t numAxes = nd::getMesh(program).getAxes().size();
  SmallVector<steps::KernelOp> kernels(
      program.getBody().getOps<steps::KernelOp>());
  FailureOr<std::vector<Group>> groups = findGroups(kernels, bodies, numAxes);
  if (failed(groups))
    return failure();
  for (const Group &group : *groups) {
    if (group.members.size() < 2)
      continue;
    auto [first, last] =
        std::minmax_element(group.members.begin(), group.members.end());
    auto members = llvm::map_to_vector(
        group.members, [&](unsigned member) { return kernels[member]; });
    makeGroup(members, kernels[group.side == Side::Front ? *first : *last]);
  }
  return success();
}

namespace {
struct GroupKernels : codegen::impl::GroupKernelsBase<GroupKernels> {
  void runOnOperation() override {
    if (failed(groupKernels(getOperation())))
      signalPassFailure();
  }
};
} // namespace
