#include "codegen/steps/StepGraph.h"

#include "codegen/kernels/StructuredOps.h"
#include "codegen/steps/MatmulActivation.h"
#include "codegen/steps/MatmulEpilogue.h"
#include "codegen/steps/MatmulForm.h"
#include "codegen/steps/MatmulOrder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

namespace {
/// Turns a block's operations into the nodes of a fusion graph.
class GraphBuilder {
public:
  GraphBuilder(Block &block, MatmulLibrary library, MatmulEpilogues epilogues)
      : block(block), library(library), epilogues(epilogues) {}

  FailureOr<StepGraph> build();

private:
  LogicalResult visit(Operation &op);
  void findConvs();
  void orderMatmuls();
  LogicalResult addMatmul(linalg::GenericOp contraction);
  void addConv(linalg::GenericOp contraction, const ConvMatch &match);
  void addKernel(Operation *op);
  void addWhole(Operation *op, bool isPart);
  bool isNeededInMemory(Value value) const;
  Value findBias(linalg::GenericOp contraction, Value result,
                 linalg::GenericOp user) const;
  SmallVector<Operation *> findBehind(Operation *product, Value value) const;
  LogicalResult hoistBias(linalg::GenericOp contraction);
  linalg::GenericOp absorbRounding(MatmulNode &node, linalg::GenericOp last);
  linalg::GenericOp absorbAddition(MatmulNode &node, linalg::GenericOp last);
  linalg::GenericOp absorbActivation(MatmulNode &node, linalg::GenericOp last);
  linalg::GenericOp absorbGradient(MatmulNode &node,
                                   const ActivationMatch &match);
  void absorbColumnSum(MatmulNode &node);
  bool sumsFactors() const {
    return library == MatmulLibrary::CublasLt &&
           epilogues == MatmulEpilogues::All;
  }
  std::optional<unsigned> findSummedFactor(linalg::GenericOp contraction,
                                           linalg::GenericOp sum) const;
  bool leaveToProduct(linalg::GenericOp sum, linalg::GenericOp contraction);
  bool leaveToLaterProduct(Operation *op);
  void absorbFactorSum(MatmulNode &node);

  Block &block;
  MatmulLibrary library;
  MatmulEpilogues epilogues;
  /// Gradients of activations, by the product that takes them.
  llvm::DenseMap<Operation *, ActivationMatch> gradients;
  /// Sums of a factor's columns, and of which, by the product that takes them.
  llvm::DenseMap<Operation *, std::pair<linalg::GenericOp, unsigned>> sums;
  /// Results of library calls: no kernel passes over them as it is.
  llvm::DenseSet<Value> products;
  StepGraph graph;
  llvm::DenseSet<Operation *> live, absorbed;
  unsigned position = 0;
};
} // namespace

/// Adds to `reads` what `op` reads from memory, through what it computes again.
static void collectReads(Operation *op, llvm::SmallSetVector<Value, 8> &reads) {
  SmallVector<Value> open;
  auto addReads = [&](Operation *reader) {
    SmallVector<ReadOperand> operands = getReads(reader);
    for (const ReadOperand &read : llvm::reverse(operands))
      open.push_back(read.tensor);
  };
  addReads(op);
  while (!open.empty()) {
    Value tensor = open.pop_back_val();
    Operation *producer = tensor.getDefiningOp();
    if (producer && isRecomputed(producer))
      addReads(producer);
    else
      reads.insert(tensor);
  }
}

static int64_t getNumElements(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getNumElements();
}

/// What `value` widens, if it does nothing else; itself if not.
static Value getStored(Value value) {
  Operation *op = value.getDefiningOp();
  auto generic = dyn_cast_if_present<linalg::GenericOp>(op);
  if (!generic || generic.getNumDpsInputs() != 1)
    return value;
  Value stored = generic.getDpsInputs().front();
  return getElementwise<arith::ExtFOp>(op, stored) ? stored : value;
}

/// Whether something other than a kernel's elementwise read uses `value`.
bool GraphBuilder::isNeededInMemory(Value value) const {
  return llvm::any_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (isa<spmd::OutputOp, spmd::WriteOp, spmd::CollectiveOpInterface,
            spmd::ViewOp, spmd::StackOp, spmd::PutOp, tensor::ExtractOp,
            steps::LoopOp, steps::YieldOp>(user))
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
linalg::GenericOp GraphBuilder::absorbRounding(MatmulNode &node,
                                               linalg::GenericOp last) {
  Value result = last->getResult(0);
  if (!result.hasOneUse() || node.addend || !getMatmulForm(last).outerK.empty())
    return {};
  return getRounding(*result.user_begin(), result);
}

/// Whether `value` is in memory before `product`.
static bool isThereBefore(Operation *product, Value value) {
  Operation *op = value.getDefiningOp();
  return op && !isRecomputed(op) && op->isBeforeInBlock(product);
}

/// The bias that a library call of `contraction` can add to `result`, its
/// result, rounded or not, by `user`; null if there is none.
Value GraphBuilder::findBias(linalg::GenericOp contraction, Value result,
                             linalg::GenericOp user) const {
  if (epilogues == MatmulEpilogues::None ||
      epilogues == MatmulEpilogues::Nothing)
    return {};
  const Value bias = getAddend(user, result, /*isBias=*/true);
  const MatmulForm form = getMatmulForm(contraction);
  return bias && form.outerK.empty() && form.n.c == 1 &&
                 form.n.size == getNumElements(bias)
             ? bias
             : Value();
}

/// What `value` comes from that stands behind `product`, in program order.
/// Empty too where a library call that is formed already makes a part of it: it
/// may come later.
SmallVector<Operation *> GraphBuilder::findBehind(Operation *product,
                                                  Value value) const {
  llvm::SmallSetVector<Operation *, 8> behind;
  SmallVector<Value> open = {value};
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    op = op ? block.findAncestorOpInBlock(*op) : nullptr;
    if (!op || op->isBeforeInBlock(product) || behind.contains(op))
      continue;
    if (absorbed.contains(op))
      return {};
    behind.insert(op);
    op->walk([&](Operation *inner) {
      llvm::append_range(open, inner->getOperands());
    });
  }
  SmallVector<Operation *> sorted(behind.begin(), behind.end());
  llvm::sort(sorted,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return sorted;
}

/// Has what a product adds as its bias computed ahead of it, where it stands
/// behind: a slice of the biases of all layers, or a parameter that is rounded
/// to 16 bits where it is needed. Nothing else reads the product's result, so
/// the bias does not come from it.
LogicalResult GraphBuilder::hoistBias(linalg::GenericOp contraction) {
  Value result = contraction->getResult(0);
  if (!result.hasOneUse())
    return success();
  if (auto rounding = getRounding(*result.user_begin(), result))
    result = rounding->getResult(0);
  auto user = result.hasOneUse()
                  ? dyn_cast<linalg::GenericOp>(*result.user_begin())
                  : linalg::GenericOp();
  const Value bias = user ? findBias(contraction, result, user) : Value();
  if (!bias)
    return success();
  const SmallVector<Operation *> behind = findBehind(contraction, bias);
  for (Operation *op : behind)
    op->moveBefore(contraction);
  for (Operation *op : behind)
    if (failed(visit(*op)))
      return failure();
  return success();
}

/// Takes an addition to the matmul's result into the library call: of a bias
/// along the last dimension, or of a tensor; on CPUs of one that is not needed
/// afterwards and whose memory the result then takes. Returns the addition;
/// null if there is none.
linalg::GenericOp GraphBuilder::absorbAddition(MatmulNode &node,
                                               linalg::GenericOp last) {
  Value result = last->getResult(0);
  if (!result.hasOneUse() || epilogues == MatmulEpilogues::Nothing)
    return {};
  auto user = dyn_cast<linalg::GenericOp>(*result.user_begin());
  auto contraction = cast<linalg::GenericOp>(node.ops.front());
  const Value bias = findBias(contraction, result, user);
  if (bias && !node.bias && isThereBefore(contraction, bias)) {
    node.bias = bias;
    node.reads.push_back(bias);
    return user;
  }
  // cuBLASLt adds a matrix that lies elsewhere, and a bias before it too.
  bool addsFromElsewhere = library == MatmulLibrary::CublasLt;
  Value addend = getAddend(user, result, /*isBias=*/false);
  Operation *addendOp = addend ? addend.getDefiningOp() : nullptr;
  if (addendOp && !node.addend && addendOp->isBeforeInBlock(last) &&
      !isRecomputed(addendOp) && !llvm::is_contained(node.reads, addend) &&
      (addsFromElsewhere ||
       (!node.bias && addend.hasOneUse() && !isBorrowed(addendOp)))) {
    node.addend = addend;
    node.reads.push_back(addend);
    return user;
  }
  return {};
}

/// Takes an activation of the matmul's result into the library call. Returns
/// its last operation; null if there is none.
linalg::GenericOp GraphBuilder::absorbActivation(MatmulNode &node,
                                                 linalg::GenericOp last) {
  // oneDNN adds an addend after the activation, cuBLASLt before it, and several
  // calls that accumulate would each apply it.
  auto contraction = cast<linalg::GenericOp>(node.ops.front());
  Value argument = last->getResult(0);
  if (epilogues != MatmulEpilogues::All || node.addend ||
      !getMatmulForm(contraction).outerK.empty())
    return {};
  if (library == MatmulLibrary::OneDnn) {
    SmallVector<linalg::GenericOp> gelu = matchGelu(argument);
    if (gelu.empty())
      return {};
    node.activation = MatmulActivation::GeluErf;
    absorbed.insert(gelu.begin(), gelu.end());
    node.ops.push_back(gelu.back());
    return gelu.back();
  }
  std::optional<ActivationMatch> match = matchActivation(contraction, argument);
  if (!match || !live.contains(match->result.getDefiningOp()) ||
      (match->gradient && !live.contains(match->gradient.getDefiningOp())))
    return {};
  node.activation = match->activation;
  node.aux = match->aux;
  absorbed.insert(match->absorbed.begin(), match->absorbed.end());
  if (match->gradient)
    gradients[match->gradientProduct] = *match;
  node.ops.push_back(match->result.getDefiningOp());
  return match->result.getDefiningOp<linalg::GenericOp>();
}

/// Makes the gradient of an activation of a matmul whose result arrives there.
/// Returns its last operation.
linalg::GenericOp GraphBuilder::absorbGradient(MatmulNode &node,
                                               const ActivationMatch &match) {
  node.activation = match.activation;
  node.isGradient = true;
  node.aux = match.aux;
  node.reads.push_back(match.aux);
  node.ops.push_back(match.gradient.getDefiningOp());
  node.results = {match.gradient};
  absorbColumnSum(node);
  return match.gradient.getDefiningOp<linalg::GenericOp>();
}

/// Takes the sum of the columns of a gradient, that of a bias, into the library
/// call.
void GraphBuilder::absorbColumnSum(MatmulNode &node) {
  Value result = node.results.front();
  MatmulForm form = getMatmulForm(cast<linalg::GenericOp>(node.ops.front()));
  linalg::GenericOp sum = findColumnSum(result, form.n.size);
  if (!sum || !live.contains(sum) ||
      getElementTypeOrSelf(sum->getResult(0)) != getElementTypeOrSelf(result))
    return;
  absorbed.insert(sum);
  node.ops.push_back(sum);
  node.columnSum = sum->getResult(0);
  node.columnSumOf = ColumnSum::Result;
}

static int64_t getRank(linalg::GenericOp op) {
  return cast<RankedTensorType>(op->getResult(0).getType()).getRank();
}

/// Whether a product contracts the dimensions of a factor that a sum of `kept`
/// last ones is over.
static bool isContractedBefore(linalg::GenericOp contraction, unsigned factor,
                               int64_t kept) {
  auto maps = contraction.getIndexingMapsArray();
  int64_t rank = maps[factor].getNumResults();
  for (int64_t dim = 0; dim < rank; ++dim)
    if (maps[2].isFunctionOfDim(maps[factor].getDimPosition(dim)) !=
        (dim >= rank - kept))
      return false;
  return true;
}

/// The factor whose columns, over what is contracted, `sum` sums up, if the
/// library call of the product may do that on the way and a kernel would have
/// to read the factor for it alone.
std::optional<unsigned>
GraphBuilder::findSummedFactor(linalg::GenericOp contraction,
                               linalg::GenericOp sum) const {
  if (absorbed.contains(sum) || !isPlainResult(contraction) ||
      !sumsTerms(contraction) || gradients.contains(contraction) ||
      sums.contains(contraction))
    return std::nullopt;
  MatmulForm form = getMatmulForm(contraction);
  for (unsigned index : {0u, 1u}) {
    Value factor = contraction.getDpsInputs()[index];
    bool isRows = (index == 0) != form.swapped;
    int64_t size = isRows ? form.m.size : form.n.size;
    Operation *other = contraction.getDpsInputs()[1 - index].getDefiningOp();
    // The sum leaves together with the product, which must not need it.
    if (products.contains(factor) && findColumnSum(factor, size) == sum &&
        isContractedBefore(contraction, index, getRank(sum)) &&
        (!other || other->isBeforeInBlock(sum) ||
         contraction->isBeforeInBlock(sum)) &&
        getElementTypeOrSelf(sum->getResult(0)) ==
            getElementTypeOrSelf(contraction->getResult(0)))
      return index;
  }
  return std::nullopt;
}

/// Has a product sum up columns of one of its factors in place of `sum` if it
/// can; whether it does.
bool GraphBuilder::leaveToProduct(linalg::GenericOp sum,
                                  linalg::GenericOp contraction) {
  Value result = contraction->getResult(0);
  std::optional<unsigned> factor = findSummedFactor(contraction, sum);
  if (!factor || !live.contains(contraction) ||
      (result.hasOneUse() && getRounding(*result.user_begin(), result)))
    return false;
  sums[contraction] = {sum, *factor};
  absorbed.insert(sum);
  return true;
}

/// The same with a product that comes later.
bool GraphBuilder::leaveToLaterProduct(Operation *op) {
  auto sum = dyn_cast<linalg::GenericOp>(op);
  if (!sumsFactors() || !sum || sum.getNumDpsInputs() != 1)
    return false;
  Value matrix = getStored(sum.getDpsInputs().front());
  return llvm::any_of(matrix.getUsers(), [&](Operation *user) {
    return isLibraryMatmul(user) && sum->isBeforeInBlock(user) &&
           leaveToProduct(sum, cast<linalg::GenericOp>(user));
  });
}

/// Takes a sum of a factor's columns into the library call.
void GraphBuilder::absorbFactorSum(MatmulNode &node) {
  auto contraction = cast<linalg::GenericOp>(node.ops.front());
  // One that comes after the product.
  if (node.ops.size() == 1 && !sums.contains(contraction)) {
    MatmulForm form = getMatmulForm(contraction);
    for (auto [factor, matrix] : llvm::enumerate(contraction.getDpsInputs())) {
      bool isRows = (factor == 0) != form.swapped;
      linalg::GenericOp sum =
          findColumnSum(matrix, isRows ? form.m.size : form.n.size);
      if (sum && contraction->isBeforeInBlock(sum) && live.contains(sum) &&
          leaveToProduct(sum, contraction))
        break;
    }
  }
  auto found = sums.find(contraction);
  if (found == sums.end())
    return;
  auto [sum, factor] = found->second;
  node.ops.push_back(sum);
  node.columnSum = sum->getResult(0);
  node.columnSumOf =
      factor == 0 ? ColumnSum::FirstFactor : ColumnSum::SecondFactor;
}

LogicalResult GraphBuilder::addMatmul(linalg::GenericOp contraction) {
  if (failed(hoistBias(contraction)))
    return failure();
  MatmulNode node;
  node.isKernel = false;
  node.ops = {contraction};
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
  if (auto match = gradients.find(contraction); match != gradients.end()) {
    last = absorbGradient(node, match->second);
  } else if (!sums.contains(contraction)) {
    while (linalg::GenericOp addition = absorbAddition(node, last)) {
      absorbed.insert(addition);
      node.ops.push_back(addition);
      last = addition;
    }
    if (linalg::GenericOp activation = absorbActivation(node, last))
      last = activation;
  }
  node.results = {last->getResult(0)};
  if (sumsFactors() && !node.columnSum)
    absorbFactorSum(node);
  products.insert(last->getResult(0));
  if (node.aux && !node.isGradient)
    node.results.push_back(node.aux);
  if (node.columnSum)
    node.results.push_back(node.columnSum);
  node.position = position;
  graph.fusion.addNode(node);
  graph.matmuls.try_emplace(contraction, std::move(node));
  return success();
}

//===-- Convolutions ------------------------------------------------------===//

/// Finds the contractions that the library computes from what a view reads.
void GraphBuilder::findConvs() {
  if (library != MatmulLibrary::OneDnn)
    return;
  for (auto contraction : block.getOps<linalg::GenericOp>())
    if (auto match = matchConv(contraction))
      graph.convs.try_emplace(contraction, std::move(*match));
}

/// Copies what no library call can take as it lies.
void GraphBuilder::orderMatmuls() {
  OrderedCopies copies;
  for (auto op : llvm::make_early_inc_range(block.getOps<linalg::GenericOp>()))
    if (isLibraryMatmul(op) && !graph.convs.contains(op))
      storeInLibraryOrder(op, library, copies);
}

void GraphBuilder::addConv(linalg::GenericOp contraction,
                           const ConvMatch &match) {
  FusionGraph::Node node;
  node.isKernel = false;
  node.ops = {contraction};
  for (Value operand : match.getOperands())
    if (!llvm::is_contained(node.reads, operand))
      node.reads.push_back(operand);
  Value result = contraction->getResult(0);
  if (result.hasOneUse())
    if (auto rounding = getRounding(*result.user_begin(), result)) {
      absorbed.insert(rounding);
      node.ops.push_back(rounding);
      result = rounding->getResult(0);
    }
  node.results = {result};
  node.position = position;
  graph.fusion.addNode(std::move(node));
}

//===-- Nodes -------------------------------------------------------------===//

void GraphBuilder::addKernel(Operation *op) {
  FusionGraph::Node node;
  node.ops = {op};
  llvm::SmallSetVector<Value, 8> reads;
  collectReads(op, reads);
  node.gathered = getGatheredTensors(op);
  reads.insert(node.gathered.begin(), node.gathered.end());
  node.reads.assign(reads.begin(), reads.end());
  node.results = {op->getResult(0)};
  node.position = position;
  graph.fusion.addNode(std::move(node));
}

/// What is a step as it is: a put, a collective, a loop; or a slice or a stack.
void GraphBuilder::addWhole(Operation *op, bool isPart) {
  FusionGraph::Node node;
  node.isKernel = false;
  node.isPart = isPart;
  node.ops = {op};
  for (Value operand : op->getOperands())
    if (!llvm::is_contained(node.reads, operand))
      node.reads.push_back(operand);
  node.results = llvm::to_vector_of<Value>(op->getResults());
  node.position = position;
  graph.fusion.addNode(std::move(node));
}

LogicalResult GraphBuilder::visit(Operation &op) {
  ++position;
  if (isa<spmd::InputOp, spmd::ReadOp, spmd::AxisIndexOp, tensor::EmptyOp>(op))
    return success();
  if (isa<spmd::ViewOp, spmd::StackOp>(op)) {
    if (isa<spmd::StackOp>(op) || graph.slices.contains(&op))
      addWhole(&op, /*isPart=*/true);
    return success();
  }
  if (isa<spmd::OutputOp, spmd::WriteOp, steps::YieldOp>(op)) {
    for (Value value : op.getOperands())
      graph.fusion.addEscape(value);
    return success();
  }
  if (isa<spmd::PutOp, spmd::CollectiveOpInterface, steps::LoopOp>(op)) {
    addWhole(&op, /*isPart=*/false);
    return success();
  }
  bool isScalar = llvm::none_of(op.getResultTypes(), llvm::IsaPred<ShapedType>);
  if (isScalar && isPure(&op))
    return success(); // kernels that use it compute it
  if (absorbed.contains(&op))
    return success();
  if (failed(checkComputation(&op)))
    return failure();
  if (auto conv = graph.convs.find(&op); conv != graph.convs.end())
    addConv(cast<linalg::GenericOp>(op), conv->second);
  else if (isLibraryMatmul(&op))
    return addMatmul(cast<linalg::GenericOp>(op));
  else if (leaveToLaterProduct(&op))
    return success();
  else if (!isRecomputed(&op) || isNeededInMemory(op.getResult(0)))
    addKernel(&op);
  return success();
}

/// Operations that what leaves the block depends on.
static llvm::DenseSet<Operation *> getLiveOps(Block &block) {
  llvm::DenseSet<Operation *> live;
  for (Operation &op : llvm::reverse(block))
    if (isa<spmd::OutputOp, spmd::WriteOp, steps::YieldOp>(op) ||
        llvm::any_of(op.getUsers(), [&](Operation *user) {
          return live.contains(block.findAncestorOpInBlock(*user));
        }))
      live.insert(&op);
  return live;
}

FailureOr<StepGraph> GraphBuilder::build() {
  findConvs();
  graph.slices = formViews(block, graph.convs);
  orderMatmuls();
  live = getLiveOps(block);
  for (Operation &op : block)
    if (live.contains(&op) && failed(visit(op)))
      return failure();
  return std::move(graph);
}

FailureOr<StepGraph> meshc::codegen::buildStepGraph(Block &block,
                                                    MatmulLibrary library,
                                                    MatmulEpilogues epilogues) {
  return GraphBuilder(block, library, epilogues).build();
}
