#include "codegen/Steps.h"

#include "codegen/Fusion.h"
#include "codegen/MatmulEpilogue.h"
#include "codegen/MatmulForm.h"
#include "codegen/Schedule.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

namespace {
/// Turns a program's operations into the nodes of a fusion graph.
class GraphBuilder {
public:
  GraphBuilder(spmd::ProgramOp program, bool hasGeluEpilogue)
      : program(program), hasGeluEpilogue(hasGeluEpilogue) {}

  FailureOr<FusionGraph> build();

private:
  LogicalResult visit(Operation &op);
  void addMatmul(linalg::GenericOp contraction);
  void addKernel(Operation *op);
  bool isNeededInMemory(Value value) const;
  linalg::GenericOp absorbRounding(FusionGraph::Node &node,
                                   linalg::GenericOp last);
  linalg::GenericOp absorbAddition(FusionGraph::Node &node,
                                   linalg::GenericOp last);
  linalg::GenericOp absorbActivation(FusionGraph::Node &node,
                                     linalg::GenericOp last);

  spmd::ProgramOp program;
  bool hasGeluEpilogue;
  FusionGraph graph;
  llvm::DenseSet<Operation *> absorbed;
  unsigned position = 0;
};
} // namespace

/// Adds to `reads` what `op` reads from memory, through what it computes again.
static void collectReads(Operation *op, llvm::SmallSetVector<Value, 8> &reads) {
  for (const ReadOperand &read : getReads(op)) {
    Operation *producer = read.tensor.getDefiningOp();
    if (producer && isRecomputed(producer))
      collectReads(producer, reads);
    else
      reads.insert(read.tensor);
  }
}

/// Whether something other than a kernel's elementwise read uses `value`.
bool GraphBuilder::isNeededInMemory(Value value) const {
  return llvm::any_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (isa<spmd::OutputOp, spmd::WriteOp, spmd::CollectiveOpInterface,
            tensor::ExtractOp>(user))
      return true;
    if (!isLibraryMatmul(user))
      return false;
    auto contraction = cast<linalg::GenericOp>(user);
    return !contraction.isDpsInit(&use) || !getSplat(value);
  });
}

//===-- Matmuls -----------------------------------------------------------===//

/// Takes the rounding of the matmul's result to 16 bits into the library call.
/// Several calls that add up would each round. Returns the rounding; null if
/// there is none.
linalg::GenericOp GraphBuilder::absorbRounding(FusionGraph::Node &node,
                                               linalg::GenericOp last) {
  Value result = last->getResult(0);
  if (!result.hasOneUse() || node.addend || !getMatmulForm(last).outerK.empty())
    return {};
  return getRounding(*result.user_begin(), result);
}

/// Takes an addition to the matmul's result into the library call: of a bias
/// along the last dimension, or of a tensor that is not needed afterwards and
/// whose memory the result then takes. Returns the addition; null if there is
/// none.
linalg::GenericOp GraphBuilder::absorbAddition(FusionGraph::Node &node,
                                               linalg::GenericOp last) {
  Value result = last->getResult(0);
  if (!result.hasOneUse())
    return {};
  auto user = dyn_cast<linalg::GenericOp>(*result.user_begin());
  MatmulForm form = getMatmulForm(cast<linalg::GenericOp>(node.ops.front()));
  Value bias = getAddend(user, result, /*isBias=*/true);
  if (bias && !node.bias && form.outerK.empty() && form.n.c == 1 &&
      form.n.size == cast<RankedTensorType>(bias.getType()).getDimSize(0) &&
      bias.getDefiningOp() && !isRecomputed(bias.getDefiningOp()) &&
      (bias.getDefiningOp()->isBeforeInBlock(last))) {
    node.bias = bias;
    node.reads.push_back(bias);
    return user;
  }
  Value addend = getAddend(user, result, /*isBias=*/false);
  if (addend && !node.addend && !node.bias && addend.hasOneUse() &&
      addend.getDefiningOp() && addend.getDefiningOp()->isBeforeInBlock(last) &&
      !isa<spmd::InputOp, spmd::ReadOp>(addend.getDefiningOp()) &&
      !isRecomputed(addend.getDefiningOp()) &&
      !llvm::is_contained(node.reads, addend)) {
    node.addend = addend;
    node.reads.push_back(addend);
    return user;
  }
  return {};
}

/// Takes a gelu of the matmul's result, which nothing else needs, into the
/// library call. Returns its last operation; null if there is none.
linalg::GenericOp GraphBuilder::absorbActivation(FusionGraph::Node &node,
                                                 linalg::GenericOp last) {
  // The library adds an addend after the activation, and several calls that
  // accumulate would each apply it.
  auto contraction = cast<linalg::GenericOp>(node.ops.front());
  if (!hasGeluEpilogue || node.addend ||
      !getMatmulForm(contraction).outerK.empty())
    return {};
  SmallVector<linalg::GenericOp> gelu = matchGelu(last->getResult(0));
  if (gelu.empty())
    return {};
  node.activation = MatmulActivation::GeluErf;
  absorbed.insert(gelu.begin(), gelu.end());
  node.ops.insert(node.ops.end(), gelu.begin(), gelu.end());
  return gelu.back();
}

void GraphBuilder::addMatmul(linalg::GenericOp contraction) {
  FusionGraph::Node node{Step::Kind::Matmul, {contraction}, {}, {}, {}, {}, {}};
  for (Value operand : contraction.getDpsInputs())
    if (!llvm::is_contained(node.reads, operand))
      node.reads.push_back(operand);
  Value init = contraction.getDpsInitOperand(0)->get();
  if (!isZeroFilled(init)) {
    node.addend = init;
    if (!llvm::is_contained(node.reads, init))
      node.reads.push_back(init);
  }
  linalg::GenericOp last = contraction;
  if (linalg::GenericOp rounding = absorbRounding(node, last)) {
    absorbed.insert(rounding);
    node.ops.push_back(rounding);
    last = rounding;
  }
  while (linalg::GenericOp addition = absorbAddition(node, last)) {
    absorbed.insert(addition);
    node.ops.push_back(addition);
    last = addition;
  }
  if (linalg::GenericOp activation = absorbActivation(node, last))
    last = activation;
  node.results = {last->getResult(0)};
  node.position = position;
  graph.addNode(std::move(node));
}

//===-- Nodes -------------------------------------------------------------===//

void GraphBuilder::addKernel(Operation *op) {
  FusionGraph::Node node{Step::Kind::Kernel, {op}, {}, {}, {}, {}, {}};
  llvm::SmallSetVector<Value, 8> reads;
  collectReads(op, reads);
  node.gathered = getGatheredTensors(op);
  reads.insert(node.gathered.begin(), node.gathered.end());
  node.reads.assign(reads.begin(), reads.end());
  node.results = {op->getResult(0)};
  node.position = position;
  graph.addNode(std::move(node));
}

LogicalResult GraphBuilder::visit(Operation &op) {
  ++position;
  if (isa<spmd::InputOp, spmd::ReadOp, spmd::AxisIndexOp, tensor::EmptyOp>(op))
    return success();
  if (auto output = dyn_cast<spmd::OutputOp>(op)) {
    graph.addEscape(output.getValue());
    return success();
  }
  if (auto write = dyn_cast<spmd::WriteOp>(op)) {
    graph.addEscape(write.getValue());
    return success();
  }
  if (isa<spmd::CollectiveOpInterface>(op)) {
    FusionGraph::Node node{Step::Kind::Collective, {&op}, {}, {}, {}, {}, {}};
    node.reads = {op.getOperand(0)};
    node.results = {op.getResult(0)};
    node.position = position;
    graph.addNode(std::move(node));
    return success();
  }
  bool isScalar = llvm::none_of(op.getResultTypes(), llvm::IsaPred<ShapedType>);
  if (isScalar && isPure(&op))
    return success(); // kernels that use it compute it
  if (absorbed.contains(&op))
    return success();
  if (failed(checkComputation(&op)))
    return failure();
  if (isLibraryMatmul(&op))
    addMatmul(cast<linalg::GenericOp>(op));
  else if (!isRecomputed(&op) || isNeededInMemory(op.getResult(0)))
    addKernel(&op);
  return success();
}

/// Operations that what leaves the program depends on.
static llvm::DenseSet<Operation *> getLiveOps(Block &block) {
  llvm::DenseSet<Operation *> live;
  for (Operation &op : llvm::reverse(block))
    if (isa<spmd::OutputOp, spmd::WriteOp>(op) ||
        llvm::any_of(op.getUsers(), [&](Operation *user) {
          return live.contains(block.findAncestorOpInBlock(*user));
        }))
      live.insert(&op);
  return live;
}

FailureOr<FusionGraph> GraphBuilder::build() {
  Block &block = program.getBody().front();
  llvm::DenseSet<Operation *> live = getLiveOps(block);
  for (Operation &op : block)
    if (live.contains(&op) && failed(visit(op)))
      return failure();
  return std::move(graph);
}

//===-- Steps -------------------------------------------------------------===//

/// The operations of a kernel and what it computes again, in program order.
static std::vector<Operation *> getKernelOps(ArrayRef<Operation *> members) {
  llvm::SmallSetVector<Operation *, 16> ops;
  SmallVector<Operation *> pending(members);
  while (!pending.empty()) {
    Operation *op = pending.pop_back_val();
    if (!ops.insert(op))
      continue;
    for (const ReadOperand &read : getReads(op))
      if (Operation *producer = read.tensor.getDefiningOp();
          producer && isRecomputed(producer))
        pending.push_back(producer);
  }
  std::vector<Operation *> sorted(ops.begin(), ops.end());
  llvm::sort(sorted,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return sorted;
}

static std::vector<std::vector<unsigned>> getKernelSharing(const Step &step) {
  std::optional<Cluster> cluster = Cluster::build(step.ops, step.outputs);
  std::optional<Schedule> schedule = Schedule::build(*cluster);
  std::vector<std::vector<unsigned>> sharing;
  for (Value output : step.outputs) {
    sharing.emplace_back();
    for (auto [index, member] : llvm::enumerate(cluster->getMembers())) {
      if (member.op->getResult(0) != output)
        continue;
      for (auto [position, input] : llvm::enumerate(step.inputs))
        if (schedule->mayShare(*cluster, index, input))
          sharing.back().push_back(position);
    }
  }
  return sharing;
}

static Step createStep(const FusionGraph &graph,
                       const FusionGraph::Node &node) {
  Step step;
  step.kind = node.kind;
  step.inputs.assign(node.reads.begin(), node.reads.end());
  if (node.kind == Step::Kind::Kernel) {
    step.ops = getKernelOps(node.ops);
    SmallVector<Value> outputs = graph.getOutputs(node);
    step.outputs.assign(outputs.begin(), outputs.end());
    step.mayShare = getKernelSharing(step);
    return step;
  }
  step.ops = node.ops;
  step.outputs.assign(node.results.begin(), node.results.end());
  step.addend = node.addend;
  step.bias = node.bias;
  step.activation = node.activation;
  step.mayShare.emplace_back();
  // Every element is complete where its terms were.
  if (isa<spmd::AllReduceOp>(node.ops.front()))
    step.mayShare[0].push_back(0);
  // A result that takes the place of its addend: the library adds in place.
  bool isOperand = node.addend &&
                   llvm::is_contained(
                       cast<linalg::GenericOp>(node.ops.front()).getDpsInputs(),
                       node.addend);
  if (node.addend && !isOperand)
    step.mayShare[0].push_back(
        unsigned(llvm::find(step.inputs, node.addend) - step.inputs.begin()));
  return step;
}

FailureOr<std::vector<Step>> meshc::codegen::formSteps(spmd::ProgramOp program,
                                                       bool hasGeluEpilogue) {
  FailureOr<FusionGraph> graph = GraphBuilder(program, hasGeluEpilogue).build();
  if (failed(graph))
    return failure();
  graph->fuse();
  std::vector<Step> steps;
  for (unsigned node : graph->getOrder())
    steps.push_back(createStep(*graph, graph->getNode(node)));
  return steps;
}
