// Writes the steps of a program as an exec.program.
//
// Operations move from the spmd program into the bodies of steps. What several
// kernels compute again each has a copy of, so nothing that a body reads is
// outside of it but the operands of its step.

#include "codegen/steps/FormSteps.h"

#include "codegen/ExecTypes.h"
#include "codegen/kernels/StructuredOps.h"
#include "codegen/steps/ExpandViews.h"
#include "codegen/steps/Passes.h"
#include "codegen/steps/StepGraph.h"
#include "dialect/Locations.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace meshc::codegen {
#define GEN_PASS_DEF_FORMSTEPS
#include "codegen/steps/Passes.h.inc"
} // namespace meshc::codegen

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

//===-- Kernels -----------------------------------------------------------===//

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

namespace {
/// Fills the body of one kernel.
class BodyWriter {
public:
  BodyWriter(Block &body, ArrayRef<Value> inputs) : body(body) {
    for (auto [input, argument] : llvm::zip_equal(inputs, body.getArguments()))
      arguments[input] = argument;
  }

  /// Appends `op`, or a copy of it if others compute it again, too.
  void add(Operation *op);
  /// The result of the body that `value` of the spmd program is.
  Value getResult(Value value) const { return computed.at(value); }

private:
  void setInputs(linalg::LinalgOp op);
  void setCaptured(Operation *op);
  Value getScalar(Value value, Operation *before);
  Value getEmpty(Value value, Operation *before);

  Block &body;
  /// By tensor of the spmd program: operands of the kernel, what its body
  /// computes, and scalars.
  llvm::DenseMap<Value, Value> arguments, computed, scalars;
  llvm::DenseMap<Type, Value> empties;
};
} // namespace

/// `value`, which no kernel computes but each that uses it, in this body.
Value BodyWriter::getScalar(Value value, Operation *before) {
  // What it is computed from comes first: not by recursion.
  SmallVector<Operation *> open = {value.getDefiningOp()};
  while (!open.empty()) {
    Operation *op = open.back();
    if (scalars.contains(op->getResult(0))) {
      open.pop_back();
      continue;
    }
    const size_t known = open.size();
    for (Value operand : op->getOperands())
      if (!scalars.contains(operand))
        open.push_back(operand.getDefiningOp());
    if (open.size() > known)
      continue;
    open.pop_back();
    Operation *copy = op->clone();
    for (OpOperand &operand : copy->getOpOperands())
      operand.set(scalars.at(operand.get()));
    body.getOperations().insert(before->getIterator(), copy);
    for (auto [old, made] :
         llvm::zip_equal(op->getResults(), copy->getResults()))
      scalars[old] = made;
  }
  return scalars.at(value);
}

/// In the place of a tensor of which nothing is read.
Value BodyWriter::getEmpty(Value value, Operation *before) {
  Value &empty = empties[value.getType()];
  if (!empty) {
    OpBuilder builder(before);
    empty = tensor::EmptyOp::create(builder, value.getLoc(), value.getType(),
                                    ValueRange());
  }
  return empty;
}

void BodyWriter::setInputs(linalg::LinalgOp op) {
  for (OpOperand &operand : op->getOpOperands()) {
    const Value value = operand.get();
    if (!isa<RankedTensorType>(value.getType()))
      operand.set(getScalar(value, op));
    else if (!op.payloadUsesValueFromOperand(&operand))
      operand.set(getEmpty(value, op));
    else if (Value inside = computed.lookup(value))
      operand.set(inside);
    else
      operand.set(arguments.at(value));
  }
}

/// Tensors that the body of `op` gathers from, and scalars from outside.
void BodyWriter::setCaptured(Operation *op) {
  Block &block = op->getRegion(0).front();
  for (Operation &inner : block)
    for (OpOperand &operand : inner.getOpOperands()) {
      Value value = operand.get();
      if (value.getParentBlock() == &block)
        continue;
      operand.set(isa<RankedTensorType>(value.getType())
                      ? arguments.at(value)
                      : getScalar(value, op));
    }
}

void BodyWriter::add(Operation *op) {
  const Value result = op->getResult(0);
  Operation *moved = op;
  if (isRecomputed(op))
    moved = op->clone();
  else
    op->remove();
  body.push_back(moved);
  if (auto structured = dyn_cast<linalg::LinalgOp>(moved)) {
    setInputs(structured);
    setCaptured(moved);
  }
  computed[result] = moved->getResult(0);
}

//===-- Blocks ------------------------------------------------------------===//

static bool isInput(Operation *op) {
  return isa_and_present<spmd::InputOp, spmd::ReadOp>(op);
}

namespace {
/// What steps are formed by.
struct FormOptions {
  MatmulLibrary library;
  MatmulEpilogues epilogues;
  bool fuses;
};
} // namespace

static LogicalResult formBlock(Block &source, Block &target,
                               const FormOptions &options);

namespace {
/// Writes the steps of a block, of a program or of a loop in it.
class BlockWriter {
public:
  BlockWriter(Block &source, Block &target, const StepGraph &graph,
              const FormOptions &options)
      : source(source), target(target), graph(graph), options(options),
        builder(OpBuilder::atBlockEnd(&target)) {
    for (auto [old, argument] :
         llvm::zip_equal(source.getArguments(), target.getArguments()))
      results[old] = argument;
  }

  LogicalResult write();

private:
  void addKernel(const FusionGraph::Node &node);
  void addMatmul(const MatmulNode &node);
  void addConv(const FusionGraph::Node &node, const ConvMatch &match);
  void addPart(Operation *op);
  void addPut(spmd::PutOp put);
  void addTransfer(Operation *op);
  LogicalResult addLoop(steps::LoopOp loop);
  LogicalResult addStep(const FusionGraph::Node &node);
  void moveOutputs();
  /// What stands for a tensor of the source: the result of a step, an argument
  /// of the block, or an input or variable, which moved into the new program.
  Value get(Value value) const {
    const Value step = results.lookup(value);
    assert((step || isInput(value.getDefiningOp())) &&
           "no step computes what a step reads");
    return step ? step : value;
  }
  SmallVector<Value> get(ValueRange values) const {
    return llvm::map_to_vector(values, [&](Value value) { return get(value); });
  }
  /// Adds a body whose arguments are `values`.
  Block &addBody(Region &region, ValueRange values) const;

  Block &source, &target;
  const StepGraph &graph;
  const FormOptions &options;
  OpBuilder builder;
  llvm::DenseMap<Value, Value> results; ///< of steps, and arguments
};
} // namespace

Block &BlockWriter::addBody(Region &region, ValueRange values) const {
  Block &body = region.emplaceBlock();
  for (Value value : values)
    body.addArgument(value.getType(), value.getLoc());
  return body;
}

void BlockWriter::addKernel(const FusionGraph::Node &node) {
  const SmallVector<Value> outputs = graph.fusion.getOutputs(node);
  auto kernel =
      steps::KernelOp::create(builder, node.ops.back()->getLoc(),
                              ValueRange(outputs).getTypes(), get(node.reads));
  Block &body = addBody(kernel.getBody(), node.reads);
  BodyWriter writer(body, node.reads);
  for (Operation *op : getKernelOps(node.ops))
    writer.add(op);
  auto yielded = llvm::map_to_vector(
      outputs, [&](Value output) { return writer.getResult(output); });
  OpBuilder inside = OpBuilder::atBlockEnd(&body);
  steps::YieldOp::create(inside, kernel.getLoc(), yielded);
  for (auto [output, result] : llvm::zip_equal(outputs, kernel.getResults()))
    results[output] = result;
}

/// What a plan tells of a product's result it tells of the step's.
static void keepRemark(Operation *product, Operation *step) {
  const StringRef name = nd::NDDialect::getRemarkAttrName();
  if (Attribute remark = product->getAttr(name))
    step->setAttr(name, remark);
}

void BlockWriter::addMatmul(const MatmulNode &node) {
  auto contraction = cast<linalg::GenericOp>(node.ops.front());
  const Value result = node.results.front();
  const Value aux = node.isGradient ? Value() : node.aux;
  auto getLoc = [](Value value) -> LocationAttr {
    return value ? LocationAttr(value.getLoc()) : LocationAttr();
  };
  auto getType = [](Value value) { return value ? value.getType() : Type(); };
  auto matmul = steps::MatmulOp::create(
      builder, result.getLoc(), result.getType(), getType(aux),
      getType(node.columnSum), get(contraction.getDpsInputs()[0]),
      get(contraction.getDpsInputs()[1]),
      node.addend ? get(node.addend) : Value(),
      node.bias ? get(node.bias) : Value(),
      node.isGradient ? get(node.aux) : Value(), contraction.getIndexingMaps(),
      node.activation, node.columnSumOf, getLoc(aux), getLoc(node.columnSum));
  keepRemark(contraction, matmul);
  results[result] = matmul.getResult();
  if (aux)
    results[aux] = matmul.getAux();
  if (node.columnSum)
    results[node.columnSum] = matmul.getColumnSum();
}

void BlockWriter::addConv(const FusionGraph::Node &node,
                          const ConvMatch &match) {
  const Value result = node.results.front();
  const auto [lhs, rhs] = match.getOperands();
  auto conv = steps::ConvOp::create(builder, result.getLoc(), result.getType(),
                                    match.result, get(lhs), get(rhs),
                                    builder.getAffineMapArrayAttr(match.maps));
  keepRemark(result.getDefiningOp(), conv);
  results[result] = conv.getResult();
}

/// The attribute `strides` of a slice of this type.
static DenseI64ArrayAttr getStrides(const spmd::Slice &slice, Type type) {
  if (slice.isDense(cast<RankedTensorType>(type).getShape()))
    return {};
  return DenseI64ArrayAttr::get(type.getContext(), slice.strides);
}

/// A slice or a stack.
void BlockWriter::addPart(Operation *op) {
  const Value result = op->getResult(0);
  const auto operands = llvm::to_vector_of<Value>(op->getOperands());
  if (auto slice = graph.slices.find(op); slice != graph.slices.end())
    results[result] = steps::SliceOp::create(
        builder, op->getLoc(), result.getType(), get(operands.front()),
        slice->second.offset, getStrides(slice->second, result.getType()));
  else
    results[result] = steps::StackOp::create(builder, op->getLoc(),
                                             result.getType(), get(operands));
}

void BlockWriter::addPut(spmd::PutOp put) {
  results[put.getResult()] = steps::PutOp::create(
      builder, put.getLoc(), put.getType(), get(put.getInput()),
      get(put.getIndex()), put.getIndexingMaps());
}

void BlockWriter::addTransfer(Operation *op) {
  const Value input = op->getOperand(0), result = op->getResult(0);
  auto transfer = steps::TransferOp::create(builder, op->getLoc(),
                                            TypeRange(result.getType()),
                                            get(ValueRange(input)));
  Block &body = addBody(transfer.getBody(), input);
  op->moveBefore(&body, body.end());
  op->setOperand(0, body.getArgument(0));
  OpBuilder inside = OpBuilder::atBlockEnd(&body);
  steps::YieldOp::create(inside, op->getLoc(), result);
  results[result] = transfer.getResult(0);
}

/// The loop, the steps of its body in the place of the operations there.
LogicalResult BlockWriter::addLoop(steps::LoopOp loop) {
  auto formed = steps::LoopOp::create(
      builder, loop.getLoc(), loop.getResultTypes(), loop.getDim(),
      loop.getIterations(), get(loop.getInitial()), get(loop.getSliced()),
      get(loop.getCaptured()), loop.getReverse());
  Block &body = loop.getBody().front();
  if (failed(formBlock(body, addBody(formed.getBody(), body.getArguments()),
                       options)))
    return failure();
  for (auto [old, result] :
       llvm::zip_equal(loop.getResults(), formed.getResults()))
    results[old] = result;
  return success();
}

/// Moves what says what leaves the program, or yields what leaves the loop.
void BlockWriter::moveOutputs() {
  auto isOutput = [](Operation *op) {
    return isa<spmd::OutputOp, spmd::WriteOp>(op);
  };
  for (Operation &op : llvm::make_early_inc_range(source)) {
    if (isa<steps::YieldOp>(op))
      steps::YieldOp::create(builder, op.getLoc(), get(op.getOperands()));
    if (!isOutput(&op))
      continue;
    for (Value value : op.getOperands())
      if (Value result = results.lookup(value))
        steps::moveUses(value, result, isOutput);
    op.moveBefore(&target, target.end());
  }
}

LogicalResult BlockWriter::addStep(const FusionGraph::Node &node) {
  Operation *op = node.ops.front();
  if (node.isKernel)
    addKernel(node);
  else if (node.isPart)
    addPart(op);
  else if (auto put = dyn_cast<spmd::PutOp>(op))
    addPut(put);
  else if (auto loop = dyn_cast<steps::LoopOp>(op))
    return addLoop(loop);
  else if (auto matmul = graph.matmuls.find(op); matmul != graph.matmuls.end())
    addMatmul(matmul->second);
  else if (auto conv = graph.convs.find(op); conv != graph.convs.end())
    addConv(node, conv->second);
  else
    addTransfer(op);
  return success();
}

LogicalResult BlockWriter::write() {
  for (Operation &op : llvm::make_early_inc_range(source))
    if (isInput(&op))
      op.moveBefore(&target, target.end());
  for (unsigned index : graph.fusion.getOrder())
    if (failed(addStep(graph.fusion.getNode(index))))
      return failure();
  moveOutputs();
  return success();
}

/// Whether what leaves the block is a step's, or comes into it.
static LogicalResult checkBorder(Block &block, const FusionGraph &graph) {
  llvm::DenseSet<Value> made;
  for (unsigned index : graph.getOrder())
    made.insert_range(graph.getNode(index).results);
  auto isThere = [&](Value value) {
    return made.contains(value) || isa<BlockArgument>(value) ||
           isInput(value.getDefiningOp());
  };
  for (auto write : block.getOps<spmd::WriteOp>())
    if (!isThere(write.getValue()))
      return write.emitError("no step computes the new value of ")
             << write.getVariableAttr();
  for (auto output : block.getOps<spmd::OutputOp>())
    if (!isThere(output.getValue()))
      return output.emitError("no step computes the output '")
             << output.getName() << "'";
  for (auto yield : block.getOps<steps::YieldOp>())
    if (!llvm::all_of(yield.getOperands(), isThere))
      return yield.emitError("no step computes what a loop yields");
  return success();
}

/// Calls a tensor something inside of what it is called after, in the loop that
/// makes it too.
static void nameInside(OpResult value) {
  auto loop = dyn_cast<steps::LoopOp>(value.getOwner());
  if (!loop)
    return value.getOwner()->setLoc(asInside(value.getLoc()));
  const unsigned number = value.getResultNumber();
  if (number < loop.getCarriedArguments().size()) {
    BlockArgument carried = loop.getCarriedArguments()[number];
    carried.setLoc(asInside(carried.getLoc()));
  }
  if (auto yielded = dyn_cast<OpResult>(loop.getYielded()[number]))
    nameInside(yielded);
}

/// Of tensors that are called after one value and of which one is made of the
/// other the last is the value. One that is larger is on the way to it: what
/// windows have seen, before it is summed, or a sum before it is rounded. What
/// a collective reads is the value itself, not yet complete.
static void nameLarger(Block &block) {
  struct Named {
    nd::OriginAttr origin;
    int64_t valueBytes;
  };
  llvm::DenseMap<Value, Named> named;
  for (Operation &op : llvm::reverse(block)) {
    if (isInput(&op))
      continue;
    for (OpResult result : op.getResults()) {
      const nd::OriginAttr origin = getOrigin(steps::getValueLoc(result));
      if (!origin || !origin.hasName() || !origin.isItself() ||
          !isa<RankedTensorType>(result.getType()))
        continue;
      const int64_t bytes = getTensorBytes(result);
      int64_t valueBytes = bytes;
      for (Operation *user : result.getUsers()) {
        Operation *reader = block.findAncestorOpInBlock(*user);
        if (isa<spmd::CollectiveOpInterface>(reader))
          continue;
        for (Value made : reader->getResults())
          if (auto known = named.find(made);
              known != named.end() && known->second.origin == origin)
            valueBytes = std::min(valueBytes, known->second.valueBytes);
      }
      named[result] = {origin, valueBytes};
      if (valueBytes < bytes)
        nameInside(result);
    }
  }
}

/// Writes the steps of `source` to `target`, which has its arguments.
static LogicalResult formBlock(Block &source, Block &target,
                               const FormOptions &options) {
  nameLarger(source);
  auto buildGraph = [&] {
    return buildStepGraph(source, options.library,
                          options.fuses ? options.epilogues
                                        : MatmulEpilogues::Nothing);
  };
  FailureOr<StepGraph> graph = buildGraph();
  if (succeeded(graph) && options.fuses) {
    const FailureOr<bool> expanded = expandViews(source, *graph);
    if (failed(expanded))
      return failure();
    if (*expanded)
      graph = buildGraph();
  }
  if (failed(graph))
    return failure();
  graph->fusion.finish();
  if (options.fuses)
    graph->fusion.fuse();
  if (failed(checkBorder(source, graph->fusion)))
    return failure();
  return BlockWriter(source, target, *graph, options).write();
}

FailureOr<steps::ProgramOp> meshc::codegen::formSteps(spmd::ProgramOp program,
                                                      MatmulLibrary library,
                                                      MatmulEpilogues epilogues,
                                                      bool fuses) {
  program.getContext()->loadDialect<steps::ExecDialect>();
  OpBuilder builder(program);
  auto formed =
      steps::ProgramOp::create(builder, program.getLoc(), program.getSymName());
  if (failed(formBlock(program.getBody().front(), formed.getBody().front(),
                       {library, epilogues, fuses}))) {
    formed.erase();
    return failure();
  }
  program.erase();
  return formed;
}

namespace {
struct FormSteps : codegen::impl::FormStepsBase<FormSteps> {
  using FormStepsBase::FormStepsBase;
  void runOnOperation() override {
    for (auto program :
         llvm::make_early_inc_range(getOperation().getOps<spmd::ProgramOp>()))
      if (failed(formSteps(program, library, epilogues, fuse)))
        return signalPassFailure();
  }
};
} // namespace
