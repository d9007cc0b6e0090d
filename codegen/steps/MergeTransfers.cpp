#include "codegen/steps/MergeTransfers.h"

#include "codegen/ExecTypes.h"
#include "codegen/steps/CollectiveForm.h"
#include "codegen/steps/Passes.h"
#include "codegen/steps/StepPrice.h"
#include "layout/Machine.h"

#include "llvm/ADT/STLExtras.h"

namespace meshc::codegen {
#define GEN_PASS_DEF_MERGETRANSFERS
#include "codegen/steps/Passes.h.inc"
} // namespace meshc::codegen

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

/// The part of the program's computation for which a collective may be held
/// back: what is sent last is then what the last tenth has made.
static constexpr double heldPart = 0.1;
/// Of the time of a full bucket, latency at most: larger ones would make
/// transfers a tenth faster, and leave more of them behind the last gradient.
static constexpr double latencyPart = 0.1;
/// How many times its latency a small collective takes, at most: where latency
/// is less than a quarter of the time, to wait for others saves little.
static constexpr double smallLatencies = 4;

namespace {
/// Collectives that go together, and what they wait for.
struct Bucket {
  CollectiveForm form; ///< of the first, with the payload of all
  Type element;
  nd::Phase phase;
  std::vector<size_t> members; ///< steps, in order
  double openedUs = 0;         ///< computation before the first
  size_t firstReader = 0;      ///< of all results
  bool isForUpdates = true;    ///< whether the first readers are updates
};

class Merger {
public:
  /// For the steps of a program or of a loop's body.
  Merger(Block &block, const layout::Mesh &mesh, const layout::Machine &machine,
         std::optional<int64_t> bucketBytes)
      : stepList(steps::getSteps(block)), mesh(mesh), bucketBytes(bucketBytes),
        machine(machine) {}

  void merge();

private:
  Bucket makeBucket(size_t index) const;
  double getUs(const CollectiveForm &form, int64_t payloadBytes) const;
  int64_t getBucketBytes(const CollectiveForm &form) const;
  bool isSmall(const CollectiveForm &form) const;
  static bool areOfOneSort(const Bucket &x, const Bucket &y);
  bool mayJoin(const Bucket &bucket, const Bucket &added) const;
  void findBuckets();
  void makeTransfer(const Bucket &bucket) const;

  std::vector<steps::StepOpInterface> stepList;
  const layout::Mesh mesh;
  const std::optional<int64_t> bucketBytes;
  const layout::Machine &machine;
  double computedUs = 0, totalUs = 0;          ///< before a step, of all steps
  llvm::DenseMap<Operation *, size_t> numbers; ///< of steps
  std::vector<Bucket> buckets;
};
} // namespace

/// A slice or a stack, which says where tensors lie.
static bool isPart(Operation *step) {
  return isa<steps::SliceOp, steps::StackOp>(step);
}

/// Whether nothing but new values of variables depends on the step.
static bool isUpdate(steps::StepOpInterface step) {
  return llvm::all_of(step->getResults(), [](Value output) {
    return getPhase(steps::getValueLoc(output)) == nd::Phase::Update;
  });
}

/// The collective of a transfer as formed.
static spmd::CollectiveOpInterface getMember(steps::StepOpInterface transfer) {
  return *transfer->getRegion(0).getOps<spmd::CollectiveOpInterface>().begin();
}

/// Whether nothing but new values of variables depends on the step; also what
/// reads a slice or a stack of it.
static bool leadsToUpdates(Operation *step) {
  if (!isPart(step))
    return isUpdate(cast<steps::StepOpInterface>(step));
  return llvm::all_of(step->getUsers(), [](Operation *user) {
    return !isa<steps::StepOpInterface>(user) || leadsToUpdates(user);
  });
}

Bucket Merger::makeBucket(size_t index) const {
  spmd::CollectiveOpInterface op = getMember(stepList[index]);
  Bucket bucket;
  bucket.form = getCollectiveForm(op, mesh);
  bucket.element = op.getInput().getType().getElementType();
  bucket.phase = getPhase(op->getLoc());
  bucket.members = {index};
  bucket.openedUs = computedUs;
  bucket.firstReader = stepList.size();
  for (Operation *user : stepList[index]->getUsers())
    if (auto reader = numbers.find(user); reader != numbers.end())
      bucket.firstReader = std::min(bucket.firstReader, reader->second);
  bucket.isForUpdates = bucket.firstReader == stepList.size() ||
                        leadsToUpdates(stepList[bucket.firstReader]);
  return bucket;
}

/// A collective like `form` of so many bytes.
double Merger::getUs(const CollectiveForm &form, int64_t payloadBytes) const {
  return machine.getCollectiveUs(
      form.kind, machine.getReach(mesh, form.axes), payloadBytes,
      layout::getWireBytes(form.kind, payloadBytes, form.groupSize));
}

int64_t Merger::getBucketBytes(const CollectiveForm &form) const {
  if (bucketBytes)
    return *bucketBytes;
  constexpr int64_t least = int64_t(1) << 12, most = int64_t(1) << 32;
  int64_t bytes = least;
  const double latencyUs = getUs(form, 0);
  while (bytes < most && latencyUs > latencyPart * getUs(form, bytes))
    bytes *= 2;
  return bytes;
}

bool Merger::isSmall(const CollectiveForm &form) const {
  switch (form.kind) {
  case layout::CollectiveKind::AllReduce:
  case layout::CollectiveKind::ReduceScatter:
  case layout::CollectiveKind::AllGather:
    break;
  case layout::CollectiveKind::AllToAll:
  case layout::CollectiveKind::Permute:
  case layout::CollectiveKind::Exchange:
  case layout::CollectiveKind::Slice:
    return false;
  }
  // It would make an exchange of what it goes with, too.
  if (machine.needsContiguousBlocks() && !form.hasContiguousBlocks)
    return false;
  const layout::GroupReach reach = machine.getReach(mesh, form.axes);
  double wholeUs = machine.getCollectiveUs(form.kind, reach, form.payloadBytes,
                                           form.wireBytes);
  return wholeUs <= smallLatencies * getUs(form, 0) &&
         form.payloadBytes <= getBucketBytes(form);
}

bool Merger::areOfOneSort(const Bucket &x, const Bucket &y) {
  return x.form.kind == y.form.kind && x.form.axes == y.form.axes &&
         x.form.reduce == y.form.reduce && x.element == y.element &&
         x.phase == y.phase && x.isForUpdates == y.isForUpdates;
}

bool Merger::mayJoin(const Bucket &bucket, const Bucket &added) const {
  const CollectiveForm &form = bucket.form;
  // Where the transfer would stand.
  const size_t place = added.members.back();
  const int64_t fullBytes = getBucketBytes(form);
  if (bucket.firstReader <= place ||
      form.payloadBytes + added.form.payloadBytes > fullBytes)
    return false;
  for (size_t member : bucket.members)
    if (stepList[member]->getOperand(0) == stepList[place]->getOperand(0))
      return false; // both would want its memory
  const double heldUs = added.openedUs - bucket.openedUs;
  if (!bucket.isForUpdates)
    return heldUs == 0;
  return heldUs <= std::max(getUs(form, fullBytes), heldPart * totalUs);
}

void Merger::findBuckets() {
  for (auto [index, step] : llvm::enumerate(stepList)) {
    numbers[step] = index;
    totalUs += getComputationUs(step, machine);
  }
  // The latest bucket of each sort.
  std::vector<size_t> open;
  for (size_t index = 0; index < stepList.size(); ++index) {
    steps::StepOpInterface step = stepList[index];
    computedUs += getComputationUs(step, machine);
    if (!step.communicates() || step->getNumResults() != 1)
      continue; // as it was merged
    Bucket added = makeBucket(index);
    if (!isSmall(added.form))
      continue;
    auto latest = llvm::find_if(open, [&](size_t number) {
      return areOfOneSort(buckets[number], added);
    });
    if (latest != open.end() && mayJoin(buckets[*latest], added)) {
      Bucket &bucket = buckets[*latest];
      bucket.members.push_back(index);
      bucket.form.payloadBytes += added.form.payloadBytes;
      bucket.firstReader = std::min(bucket.firstReader, added.firstReader);
      continue;
    }
    if (latest != open.end())
      *latest = buckets.size();
    else
      open.push_back(buckets.size());
    buckets.push_back(std::move(added));
  }
}

/// The members in one transfer, each with its operand and its result.
void Merger::makeTransfer(const Bucket &bucket) const {
  SmallVector<Value> inputs;
  SmallVector<Type> types;
  for (size_t member : bucket.members) {
    inputs.push_back(stepList[member]->getOperand(0));
    types.push_back(stepList[member]->getResult(0).getType());
  }
  steps::StepOpInterface first = stepList[bucket.members.front()];
  OpBuilder builder(stepList[bucket.members.back()]);
  auto transfer =
      steps::TransferOp::create(builder, first.getLoc(), types, inputs);
  Block &body = transfer.getBody().emplaceBlock();
  SmallVector<Value> yielded;
  for (auto [number, member] : llvm::enumerate(bucket.members)) {
    steps::StepOpInterface step = stepList[member];
    Operation *op = getMember(step);
    Value input = inputs[number];
    op->moveBefore(&body, body.end());
    op->setOperand(
        0, body.addArgument(input.getType(), steps::getValueLoc(input)));
    yielded.push_back(op->getResult(0));
    steps::moveUses(step->getResult(0), transfer.getResult(unsigned(number)),
                    [](Operation *) { return true; });
    step->erase();
  }
  builder.setInsertionPointToEnd(&body);
  steps::YieldOp::create(builder, transfer.getLoc(), yielded);
}

void Merger::merge() {
  if (bucketBytes == 0)
    return;
  findBuckets();
  for (const Bucket &bucket : buckets)
    if (bucket.members.size() > 1)
      makeTransfer(bucket);
}

void meshc::codegen::mergeTransfers(steps::ProgramOp program,
                                    std::optional<int64_t> bucketBytes) {
  const layout::Mesh mesh = nd::getMesh(program);
  SmallVector<Block *> blocks = {&program.getBody().front()};
  program.walk(
      [&](steps::LoopOp loop) { blocks.push_back(&loop.getBody().front()); });
  for (Block *block : blocks)
    Merger(*block, mesh, nd::getMachine(program), bucketBytes).merge();
}

namespace {
struct MergeTransfers : codegen::impl::MergeTransfersBase<MergeTransfers> {
  using MergeTransfersBase::MergeTransfersBase;
  void runOnOperation() override {
    mergeTransfers(getOperation(), bucketBytes < 0
                                       ? std::nullopt
                                       : std::optional<int64_t>(bucketBytes));
  }
};
} // namespace
