#include "codegen/steps/MergeCollectives.h"

#include "codegen/ExecTypes.h"
#include "codegen/kernels/StructuredOps.h"
#include "codegen/steps/CollectiveForm.h"
#include "layout/CostModel.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

/// Rate of additions and multiplications, on the same machine as the other
/// rates of the cost model. Source: oneDNN's f32 matmul on one core, half of
/// what bench/results/ has for two.
static constexpr double flopsPerUs = 9e4;
/// The part of the program's computation for which a collective may be held
/// back: what is sent last is then what the last tenth has made.
static constexpr double heldPart = 0.1;

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
  Merger(std::vector<Step> steps, const layout::Mesh &mesh, int64_t bucketBytes)
      : steps(std::move(steps)), mesh(mesh), bucketBytes(bucketBytes) {}

  std::vector<Step> merge();

private:
  Bucket makeBucket(size_t index) const;
  bool isSmall(const CollectiveForm &form) const;
  static bool areOfOneSort(const Bucket &x, const Bucket &y);
  bool mayJoin(const Bucket &bucket, const Bucket &added) const;
  void findReaders();
  void findBuckets();
  Step makeStep(const Bucket &bucket) const;

  std::vector<Step> steps;
  const layout::Mesh &mesh;
  const int64_t bucketBytes;
  const layout::CostModel model;
  double computedUs = 0, totalUs = 0; ///< before a step, of all steps
  llvm::DenseMap<Value, size_t> firstReader;
  std::vector<Bucket> buckets;
};
} // namespace

static int64_t getTensorBytes(Value tensor) {
  return getBytes(cast<RankedTensorType>(tensor.getType()));
}

/// Time of a step that computes; 0 for one that communicates.
static double getComputationUs(const Step &step,
                               const layout::CostModel &model) {
  if (step.kind == Step::Kind::Collective)
    return 0;
  double flops = 0, bytes = 0;
  for (Operation *op : step.ops) {
    double iterations = getWork(op);
    for (int64_t size : getLoopSizes(op))
      iterations *= double(size);
    flops += iterations;
  }
  for (Value operand : llvm::concat<const Value>(step.inputs, step.outputs))
    bytes += double(getTensorBytes(operand));
  return std::max(flops / flopsPerUs, bytes / model.copyBytesPerUs);
}

/// Whether nothing but new values of variables depends on the step.
static bool isUpdate(const Step &step) {
  return llvm::all_of(step.outputs, [](Value output) {
    return getPhase(output.getLoc()) == nd::Phase::Update;
  });
}

void Merger::findReaders() {
  for (auto [index, step] : llvm::enumerate(steps))
    for (Value input : step.inputs)
      firstReader.try_emplace(input, index);
}

Bucket Merger::makeBucket(size_t index) const {
  auto op = cast<spmd::CollectiveOpInterface>(steps[index].ops.front());
  Bucket bucket;
  bucket.form = getCollectiveForm(op, mesh);
  bucket.element = op.getInput().getType().getElementType();
  bucket.phase = getPhase(op->getLoc());
  bucket.members = {index};
  bucket.openedUs = computedUs;
  auto reader = firstReader.find(op.getResult());
  bucket.firstReader =
      reader == firstReader.end() ? steps.size() : reader->second;
  bucket.isForUpdates =
      bucket.firstReader == steps.size() || isUpdate(steps[bucket.firstReader]);
  return bucket;
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
  double wholeUs = model.getCost(form.kind, form.groupSize, form.wireBytes, 0);
  double latencyUs = model.getCost(form.kind, form.groupSize, 0, 0);
  return wholeUs <= 2 * latencyUs && form.payloadBytes <= bucketBytes;
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
  if (bucket.firstReader <= place ||
      form.payloadBytes + added.form.payloadBytes > bucketBytes)
    return false;
  for (size_t member : bucket.members)
    if (steps[member].inputs == steps[place].inputs)
      return false; // both would want its memory
  const double heldUs = added.openedUs - bucket.openedUs;
  if (!bucket.isForUpdates)
    return heldUs == 0;
  const double fullUs = model.getCost(
      form.kind, form.groupSize,
      layout::getWireBytes(form.kind, bucketBytes, form.groupSize), 0);
  return heldUs <= std::max(fullUs, heldPart * totalUs);
}

void Merger::findBuckets() {
  for (const Step &step : steps)
    totalUs += getComputationUs(step, model);
  // The latest bucket of each sort.
  std::vector<size_t> open;
  for (size_t index = 0; index < steps.size(); ++index) {
    const Step &step = steps[index];
    computedUs += getComputationUs(step, model);
    if (step.kind != Step::Kind::Collective)
      continue;
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

/// The members in one step, each with its operand and its result.
Step Merger::makeStep(const Bucket &bucket) const {
  Step merged = steps[bucket.members.front()];
  for (size_t member : llvm::drop_begin(bucket.members)) {
    const Step &step = steps[member];
    merged.ops.push_back(step.ops.front());
    merged.inputs.push_back(step.inputs.front());
    merged.outputs.push_back(step.outputs.front());
    merged.mayShare.push_back(step.mayShare.front());
    // Operand i is that of member i.
    for (unsigned &shared : merged.mayShare.back())
      shared = unsigned(merged.inputs.size()) - 1;
  }
  return merged;
}

std::vector<Step> Merger::merge() {
  if (bucketBytes == 0)
    return std::move(steps);
  findReaders();
  findBuckets();
  llvm::DenseMap<size_t, const Bucket *> placed; // by the last member
  llvm::DenseSet<size_t> taken;
  for (const Bucket &bucket : buckets) {
    placed[bucket.members.back()] = &bucket;
    taken.insert(bucket.members.begin(), bucket.members.end());
  }
  std::vector<Step> merged;
  for (size_t index = 0; index < steps.size(); ++index) {
    if (auto bucket = placed.find(index); bucket != placed.end())
      merged.push_back(makeStep(*bucket->second));
    else if (!taken.contains(index))
      merged.push_back(std::move(steps[index]));
  }
  return merged;
}

std::vector<Step> meshc::codegen::mergeCollectives(std::vector<Step> steps,
                                                   const layout::Mesh &mesh,
                                                   int64_t bucketBytes) {
  return Merger(std::move(steps), mesh, bucketBytes).merge();
}
