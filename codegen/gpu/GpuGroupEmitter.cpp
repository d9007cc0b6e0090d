// Kernels with the same body as one launch.
//
// Every member has blocks of its own. A block finds its member by comparing its
// number with the members' first ones, which are constants, in a tree of
// branches that all of its threads take together; what differs between members,
// addresses and sizes, comes out of the tree. The body is there once:
//
//   block        0   1   2 | 3 | 4   5
//   member       a   a   a | b | c   c
//   elements     blockElements each, the last one of a member what is left
//
// All blocks but the last one of a member access memory in whole vectors.

#include "codegen/gpu/GpuGroupEmitter.h"

#include "codegen/ExecTypes.h"
#include "codegen/gpu/GpuFunction.h"
#include "codegen/gpu/LaunchShape.h"
#include "codegen/steps/FlatKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

namespace {
/// The parameters of a group's function as one member sees them.
class MemberFrame : public KernelFrame {
public:
  explicit MemberFrame(GpuFunction &function) : function(function) {}

  /// Operands of the body from now on.
  void setOperands(ValueRange values) { operands = llvm::to_vector(values); }

  Value getOperand(OpBuilder &, unsigned index) override {
    return operands[index];
  }
  Value getCoordinate(OpBuilder &builder, unsigned axis) override {
    return function.getCoordinate(builder, axis);
  }

private:
  GpuFunction &function;
  SmallVector<Value> operands;
};

class GpuGroupBuilder {
public:
  GpuGroupBuilder(const KernelGroup &group, StringRef name,
                  ArrayRef<bool> isShared, gpu::GPUModuleOp kernels);

  FailureOr<EmittedKernel> build(StringRef name);

private:
  /// What differs between members.
  struct Member {
    SmallVector<unsigned> operands; ///< of the group, by operand of the body
    int64_t size;                   ///< elements
    int64_t firstBlock;
  };

  Value constant(int64_t value) { return elements.getConstant(value); }
  int64_t getBlockElements() const {
    return chunksPerThread * blockThreads * lanes;
  }
  unsigned getPositionBits() const;
  SmallVector<Member> findMembers();
  SmallVector<Value> getValues(const Member &member);
  SmallVector<Value> select(OpBuilder &builder, Value block,
                            ArrayRef<Member> candidates);
  SmallVector<Value> compute(OpBuilder &builder, Value position,
                             int64_t chunkLanes);
  void emitWholeBlock(OpBuilder &builder, Value begin, Value thread);
  void emitLastBlock(OpBuilder &builder, Value begin, Value size, Value thread);

  const KernelGroup &group;
  const KernelBody &body; ///< the first member, which stands for all
  Location loc;
  const Cluster &cluster;
  const Schedule &schedule;
  int64_t lanes; ///< columns of a chunk
  int64_t chunksPerThread;
  int64_t numBlocks = 0;
  SmallVector<Member> members;
  GpuFunction function;
  MemberFrame frame;
  ElementBuilder elements;
};
} // namespace

/// The members with their operands' places among those of the group, and their
/// blocks, which are counted.
SmallVector<GpuGroupBuilder::Member> GpuGroupBuilder::findMembers() {
  SmallVector<Member> found;
  for (const KernelGroup::Member &kernel : group.members) {
    Member member{{}, *getFlatSize(*kernel.body), numBlocks};
    const OperandMatch match = *matchKernels(body, *kernel.body);
    for (unsigned operand : match)
      member.operands.push_back(kernel.operands[operand]);
    numBlocks += llvm::divideCeil(member.size, getBlockElements());
    found.push_back(std::move(member));
  }
  return found;
}

/// Positions go up to the end of the last block.
unsigned GpuGroupBuilder::getPositionBits() const {
  int64_t largest = numBlocks;
  for (const Member &member : members)
    largest = std::max(largest, member.size + getBlockElements());
  return largest < (int64_t(1) << 31) ? 32 : 64;
}

GpuGroupBuilder::GpuGroupBuilder(const KernelGroup &group, StringRef name,
                                 ArrayRef<bool> isShared,
                                 gpu::GPUModuleOp kernels)
    : group(group), body(*group.members.front().body),
      loc(NameLoc::get(StringAttr::get(kernels.getContext(), name))),
      cluster(body.cluster), schedule(body.schedule),
      lanes(getAccessLanes(cluster, schedule)),
      chunksPerThread(getElementwiseChunks(cluster, schedule, lanes)),
      members(findMembers()),
      function(
          GpuFunction::create(kernels, loc, name, blockThreads,
                              {group.numInputs, group.numOutputs, isShared},
                              nd::getMesh(body.ops.front()).getAxes().size())),
      frame(function),
      elements(body, loc, OpBuilder(function.getAnchor()), frame,
               getElementOptions(getPositionBits(), accessBytes)) {}

//===-- Members -----------------------------------------------------------===//

/// Addresses of the operands, then size and first block.
SmallVector<Value> GpuGroupBuilder::getValues(const Member &member) {
  OpBuilder entry(function.getAnchor());
  SmallVector<Value> values;
  for (unsigned operand : member.operands)
    values.push_back(function.getOperand(entry, operand));
  values.push_back(constant(member.size));
  values.push_back(constant(member.firstBlock));
  return values;
}

/// The values of that one of `candidates` that `block` belongs to.
SmallVector<Value> GpuGroupBuilder::select(OpBuilder &builder, Value block,
                                           ArrayRef<Member> candidates) {
  if (candidates.size() == 1)
    return getValues(candidates.front());
  ArrayRef<Member> front = candidates.take_front(candidates.size() / 2);
  ArrayRef<Member> back = candidates.drop_front(front.size());
  Value isFront =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, block,
                            constant(back.front().firstBlock));
  auto branch = scf::IfOp::create(
      builder, loc, ValueRange(getValues(front.front())).getTypes(), isFront,
      /*withElse=*/true);
  OpBuilder inFront = branch.getThenBodyBuilder();
  scf::YieldOp::create(inFront, loc, select(inFront, block, front));
  OpBuilder inBack = branch.getElseBodyBuilder();
  scf::YieldOp::create(inBack, loc, select(inBack, block, back));
  return llvm::to_vector_of<Value>(branch.getResults());
}

//===-- Elements ----------------------------------------------------------===//

/// The results of `chunkLanes` elements from `position` on.
SmallVector<Value> GpuGroupBuilder::compute(OpBuilder &builder, Value position,
                                            int64_t chunkLanes) {
  elements.setPosition(schedule.getColumns().front(), position);
  elements.beginChunk(builder, chunkLanes, 0);
  SmallVector<Value> results;
  for (Value output : body.outputs)
    results.push_back(
        elements.getElement(output, cluster.getOutputDims(output)));
  return results;
}

/// Chunks of consecutive threads lie next to one another. All are read before
/// the first one is written.
void GpuGroupBuilder::emitWholeBlock(OpBuilder &builder, Value begin,
                                     Value thread) {
  elements.setGrain(lanes);
  elements.beginRow(builder);
  Value first = arith::AddIOp::create(
      builder, loc, begin,
      arith::MulIOp::create(builder, loc, thread, constant(lanes)));
  SmallVector<SmallVector<Value>> results;
  SmallVector<std::pair<Value, ElementBuilder::Scope>> chunks;
  for (int64_t chunk = 0; chunk < chunksPerThread; ++chunk) {
    Value position = arith::AddIOp::create(
        builder, loc, first, constant(chunk * blockThreads * lanes));
    results.push_back(compute(builder, position, lanes));
    chunks.emplace_back(position, elements.leaveChunk());
  }
  for (auto [chunk, values] : llvm::zip_equal(chunks, results)) {
    elements.setPosition(schedule.getColumns().front(), chunk.first);
    elements.resumeChunk(std::move(chunk.second), builder, lanes, 0);
    for (auto [output, value] : llvm::zip_equal(body.outputs, values))
      elements.store(value, output, cluster.getOutputDims(output));
  }
}

/// Element by element, neighbouring ones by neighbouring threads.
void GpuGroupBuilder::emitLastBlock(OpBuilder &builder, Value begin, Value size,
                                    Value thread) {
  elements.setGrain(1);
  Value first = arith::AddIOp::create(builder, loc, begin, thread);
  auto loop =
      scf::ForOp::create(builder, loc, first, size, constant(blockThreads));
  OpBuilder inner(loop.getBody()->getTerminator());
  elements.beginRow(inner);
  SmallVector<Value> values = compute(inner, loop.getInductionVar(), 1);
  for (auto [output, value] : llvm::zip_equal(body.outputs, values))
    elements.store(value, output, cluster.getOutputDims(output));
}

FailureOr<EmittedKernel> GpuGroupBuilder::build(StringRef name) {
  if (failed(checkGrid(body.ops.front(), numBlocks)))
    return failure();
  OpBuilder builder = function.atEnd();
  Type type = elements.getPositionType();
  Value block = function.getId(builder, type, /*isBlock=*/true);
  Value thread = function.getId(builder, type, /*isBlock=*/false);
  SmallVector<Value> values = select(builder, block, members);
  Value firstBlock = values.pop_back_val();
  Value size = values.pop_back_val();
  frame.setOperands(values);
  Value begin = arith::MulIOp::create(
      builder, loc, arith::SubIOp::create(builder, loc, block, firstBlock),
      constant(getBlockElements()));
  Value end =
      arith::AddIOp::create(builder, loc, begin, constant(getBlockElements()));
  Value isWhole =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ule, end, size);
  auto branch = scf::IfOp::create(builder, loc, isWhole, /*withElse=*/true);
  OpBuilder whole = branch.getThenBodyBuilder();
  emitWholeBlock(whole, begin, thread);
  OpBuilder last = branch.getElseBodyBuilder();
  emitLastBlock(last, begin, size, thread);

  EmittedKernel result;
  result.symbol = name;
  result.extent = numBlocks;
  result.launches.push_back({name.str(), numBlocks, blockThreads, 0});
  return result;
}

FailureOr<EmittedKernel>
meshc::codegen::emitGpuGroup(const KernelGroup &group, StringRef name,
                             ArrayRef<bool> isShared,
                             gpu::GPUModuleOp kernels) {
  std::string symbol =
      (name + "_of_" + llvm::Twine(group.members.size())).str();
  return GpuGroupBuilder(group, symbol, isShared, kernels).build(symbol);
}
