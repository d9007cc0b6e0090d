#include "codegen/exec/CommandBuilder.h"
#include "codegen/exec/Exec.h"
#include "codegen/steps/CollectiveForm.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::steps;

LogicalResult TransferOp::verifyRegions() {
  if (failed(verifyBody(*this)))
    return failure();
  Block &block = getBody().front();
  SmallVector<Value> results;
  std::optional<layout::CollectiveKind> kind;
  for (Operation &op : block.without_terminator()) {
    auto collective = dyn_cast<spmd::CollectiveOpInterface>(op);
    if (!collective)
      return emitOpError("(C2) holds '") << op.getName() << "', no collective";
    if (results.size() >= block.getNumArguments() ||
        collective.getInput() != block.getArgument(unsigned(results.size())))
      return emitOpError("(C2) has a collective that does not take the next "
                         "operand");
    if (kind && kind != collective.getKind())
      return emitOpError("(C3) has collectives of different kinds");
    kind = collective.getKind();
    results.push_back(collective.getResult());
  }
  if (results.empty() || !llvm::equal(results, getYielded()))
    return emitOpError("(C2) does not yield its collectives' results in order");
  return success();
}

Location TransferOp::getResultLoc(unsigned result) {
  return getYielded()[result].getLoc();
}

/// Every element of a sum is complete where its terms were.
Sharing TransferOp::getSharing(codegen::KernelBodies &) {
  Sharing sharing(getNumResults());
  for (auto [index, value] : llvm::enumerate(getYielded()))
    if (value.getDefiningOp<spmd::AllReduceOp>())
      sharing[index].push_back(unsigned(index));
  return sharing;
}

double TransferOp::getWork() { return 0; }

bool TransferOp::communicates() { return true; }

static exec::CollectiveKind getCollectiveKind(layout::CollectiveKind kind) {
  switch (kind) {
  case layout::CollectiveKind::AllReduce:
    return exec::CollectiveKind::all_reduce;
  case layout::CollectiveKind::ReduceScatter:
    return exec::CollectiveKind::reduce_scatter;
  case layout::CollectiveKind::AllGather:
    return exec::CollectiveKind::all_gather;
  case layout::CollectiveKind::AllToAll:
    return exec::CollectiveKind::all_to_all;
  case layout::CollectiveKind::Permute:
    return exec::CollectiveKind::permute;
  case layout::CollectiveKind::Exchange:
    return exec::CollectiveKind::exchange;
  case layout::CollectiveKind::Slice:
    return exec::CollectiveKind::slice;
  }
  llvm_unreachable("not a collective kind");
}

/// One member of a transfer. It stands at the line that asks for it, the first
/// of its causes'; at that of its value if none has one.
static exec::CollectiveT getCollective(spmd::CollectiveOpInterface op,
                                       codegen::CommandBuilder &commands) {
  codegen::ExecTypes &types = commands.getTypes();
  codegen::CollectiveForm form =
      codegen::getCollectiveForm(op, types.getMesh());
  exec::CollectiveT action;
  action.kind = getCollectiveKind(form.kind);
  action.source = types.getLayout(op.getSourceType());
  action.target = types.getLayout(op.getTargetType());
  action.axes = types.getAxes(form.axes);
  action.group_size = form.groupSize;
  action.payload_elements = form.payloadElements;
  action.payload_bytes = form.payloadBytes;
  action.wire_bytes = form.wireBytes;
  action.origin = types.getOrigin(getOrigin(op->getLoc()));
  if (form.kind != layout::CollectiveKind::Slice)
    action.id = commands.getNextCollective();
  if (ArrayAttr causes = op.getCausesAttr())
    for (auto cause : causes.getAsRange<nd::CauseAttr>())
      action.causes.push_back(types.getCause(cause));
  action.span = std::make_unique<exec::Span>(types.getSpan(op->getLoc()));
  for (const auto &cause : llvm::reverse(action.causes))
    if (!cause->spans.empty())
      *action.span = cause->spans.front();
  return action;
}

LogicalResult TransferOp::addCommands(codegen::CommandBuilder &commands) {
  auto operands = llvm::to_vector_of<Value>(getInputs());
  llvm::append_range(operands, getOutputs());
  exec::CommandT &command =
      commands.addCommand(getLoc(), operands, getNumResults());
  SmallVector<spmd::CollectiveOpInterface> members(
      getBody().getOps<spmd::CollectiveOpInterface>());
  exec::CollectiveT action = getCollective(members.front(), commands);
  // All of it is called after the member that brings in most.
  spmd::CollectiveOpInterface largest = members.front();
  int64_t most = action.payload_bytes;
  *command.span = *action.span;
  for (spmd::CollectiveOpInterface member : llvm::drop_begin(members)) {
    action.merged.push_back(
        std::make_unique<exec::CollectiveT>(getCollective(member, commands)));
    const exec::CollectiveT &added = *action.merged.back();
    if (added.payload_bytes <= most)
      continue;
    most = added.payload_bytes;
    largest = member;
    *command.span = *added.span;
  }
  command.name = getValueName(largest->getLoc());
  command.origin = commands.getTypes().getOrigin(getOrigin(largest->getLoc()));
  if (!action.merged.empty())
    command.name += " and " + std::to_string(action.merged.size()) + " more";
  if (action.kind != exec::CollectiveKind::slice)
    command.queue = exec::Queue::communication;
  command.action.Set(std::move(action));
  return success();
}
