#include "codegen/kernels/Schedule.h"

#include "codegen/ExecTypes.h"

#include "mlir/Analysis/FlatLinearValueConstraints.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <algorithm>

using namespace mlir;
using namespace meshc::codegen;

using Dims = Cluster::Dims;

/// Columns of one iteration where rows are cut: long enough that a call costs
/// nothing beside it, short enough that many threads find work; with
/// accumulators, what stays in the first-level cache beside a row of input.
/// Source: measured with bench/KernelBench.cpp.
static constexpr int64_t elementwiseBlock = 4096;
static constexpr int64_t accumulatorBlock = 1024;
/// Sums that are made at once where they are in memory, those of all
/// accumulators together: with two levels of blocks (BlockedSums.h) three times
/// as many numbers, 24 KiB of f32 in a first-level cache of 32 KiB.
static constexpr int64_t mostSumsAtOnce = 2 * accumulatorBlock;
/// What is worth to be read once: it does not stay in a second-level cache, and
/// is enough to be cut into parts for 8 threads (minBytes in cpu/RowParts.h),
/// which have no positions of their own then.
static constexpr int64_t largeBytes = int64_t(4) << 20;
/// The same where a tensor lies across the columns: the lines that one row's
/// columns touch stay in the second-level cache until the next rows have read
/// the rest of them, even if all fall on a few sets of it (a power of two as
/// stride). Source: measured with bench/KernelBench.cpp: a transpose of
/// 8192x1024 takes 64 ms row by row,
/// 41 ms in pieces of 64 columns, 27 ms in pieces of 32.
static constexpr int64_t transposeBlock = 32;

/// Row buffers of one kernel: half of a second-level cache of 128 KiB, the
/// smallest of the processors of x86-64-v3, and far below a thread's stack.
/// Source: Intel 64 and IA-32 Optimization Manual, 2.5 (256 KiB, shared by two
/// threads).
static constexpr int64_t maxScratchBytes = 64 * 1024;

static bool contains(ArrayRef<unsigned> set, unsigned dim) {
  return llvm::is_contained(set, dim);
}
static bool containsAll(ArrayRef<unsigned> set, ArrayRef<unsigned> part) {
  return llvm::all_of(part, [&](unsigned dim) { return contains(set, dim); });
}
static bool intersects(ArrayRef<unsigned> a, ArrayRef<unsigned> b) {
  return llvm::any_of(a, [&](unsigned dim) { return contains(b, dim); });
}
/// Whether `set` has all of `part` or nothing of it.
static bool hasAllOrNone(ArrayRef<unsigned> set, ArrayRef<unsigned> part) {
  return containsAll(set, part) || !intersects(set, part);
}

static int64_t getProduct(const Cluster &cluster, ArrayRef<unsigned> dims) {
  int64_t product = 1;
  for (unsigned dim : dims)
    product *= cluster.getSizes()[dim];
  return product;
}

/// Of each member, whether another one reads its result.
static llvm::BitVector findReadInside(const Cluster &cluster) {
  llvm::BitVector isRead(unsigned(cluster.getMembers().size()));
  for (const Cluster::Member &reader : cluster.getMembers())
    cluster.visitReads(reader, [&](Value tensor, ArrayRef<unsigned>) {
      if (const Cluster::Member *producer = cluster.getProducer(tensor))
        isRead.set(unsigned(producer - cluster.getMembers().begin()));
    });
  return isRead;
}

//===-- Rows and columns --------------------------------------------------===//

/// The one loop of `op` along whose steps `index`, of its body, takes steps of
/// one; none if there is no such loop, or more than one.
static std::optional<unsigned> findLoopOf(linalg::GenericOp op, Value index) {
  const std::optional<IndexForm> form = getIndexForm(index);
  SmallVector<int64_t> steps;
  if (!form ||
      failed(getFlattenedAffineExpr(form->expr, op.getNumLoops(), 0, &steps)))
    return std::nullopt;
  const auto loops = llvm::ArrayRef(steps).take_front(op.getNumLoops());
  if (llvm::count(loops, 1) != 1)
    return std::nullopt;
  return unsigned(llvm::find(loops, 1) - loops.begin());
}

/// Dimension along which most bytes are contiguous; `unit` if there is none.
static unsigned getContiguousDim(const Cluster &cluster) {
  SmallVector<int64_t> votes(cluster.getNumDims(), 0);
  for (const Cluster::Member &member : cluster.getMembers())
    if (auto generic = dyn_cast<linalg::GenericOp>(member.op))
      for (auto extract : generic.getBody()->getOps<tensor::ExtractOp>())
        if (!extract.getIndices().empty())
          if (std::optional<unsigned> loop =
                  findLoopOf(generic, extract.getIndices().back());
              loop && member.loops[*loop] != Cluster::unit)
            votes[member.loops[*loop]] += getTensorBytes(extract.getTensor());
  for (const Cluster::Access &access : cluster.getAccesses())
    for (unsigned dim : llvm::reverse(access.dims))
      if (dim != Cluster::unit) {
        votes[dim] += getTensorBytes(access.tensor);
        break;
      }
  if (votes.empty())
    return Cluster::unit;
  return unsigned(llvm::max_element(votes) - votes.begin());
}

/// Sets of dimensions to try as columns, best first.
static SmallVector<Dims> getColumnChoices(const Cluster &cluster,
                                          const llvm::BitVector &isReadInside) {
  unsigned contiguous = getContiguousDim(cluster);
  if (contiguous == Cluster::unit)
    return {Dims()};
  SmallVector<Dims> choices;
  for (auto [index, member] : llvm::enumerate(cluster.getMembers())) {
    Dims reduced = cluster.getReducedDims(member);
    if (reduced.empty())
      continue;
    if (isReadInside.test(index)) {
      // Rows against the grain of memory would be slower than two kernels.
      if (!contains(reduced, contiguous))
        return {};
      return {reduced};
    }
    if (contains(reduced, contiguous))
      choices.push_back(reduced);
  }
  choices.push_back({contiguous});
  return choices;
}

/// Dimensions that the largest tensor does not have, where the others are
/// sorted.
enum class Absent : uint8_t { First, Last };

/// Puts dimensions in the order in which the largest tensor stores them.
static void sortByStorage(const Cluster &cluster, Dims &dims, Absent absent) {
  const Cluster::Access *largest = nullptr;
  for (const Cluster::Access &access : cluster.getAccesses())
    if (!largest ||
        getTensorBytes(access.tensor) * (access.dims.size() + 1) >
            getTensorBytes(largest->tensor) * (largest->dims.size() + 1))
      largest = &access;
  if (!largest)
    return;
  auto position = [&](unsigned dim) {
    auto found = llvm::find(largest->dims, dim);
    if (found == largest->dims.end())
      return absent == Absent::First ? ptrdiff_t(-1)
                                     : ptrdiff_t(largest->dims.size());
    return ptrdiff_t(found - largest->dims.begin());
  };
  llvm::sort(dims, [&](unsigned a, unsigned b) {
    return std::pair(position(a), a) < std::pair(position(b), b);
  });
}

bool Schedule::divide(const Cluster &cluster, ArrayRef<unsigned> chosen) {
  columns.assign(chosen.begin(), chosen.end());
  summed.clear();
  parallel.clear();
  bool isFirst = true;
  for (const Cluster::Member &member : cluster.getMembers()) {
    Dims reduced = cluster.getReducedDims(member);
    if (!hasAllOrNone(reduced, columns))
      return false;
    llvm::erase_if(reduced,
                   [&](unsigned dim) { return contains(columns, dim); });
    if (reduced.empty())
      continue;
    if (isFirst)
      summed = reduced;
    else if (summed.size() != reduced.size() || !containsAll(summed, reduced))
      return false;
    isFirst = false;
  }
  for (unsigned dim = 0; dim < cluster.getNumDims(); ++dim)
    if (!contains(columns, dim) && !contains(summed, dim))
      parallel.push_back(dim);
  // What iterations read again comes again at once.
  sortByStorage(cluster, parallel, Absent::Last);
  for (Dims *dims : {&summed, &columns})
    sortByStorage(cluster, *dims, Absent::First);
  return assignRoles(cluster);
}

bool Schedule::assignRoles(const Cluster &cluster) {
  roles.clear();
  for (const Cluster::Member &member : cluster.getMembers()) {
    Dims reduced = cluster.getReducedDims(member);
    if (intersects(reduced, summed))
      roles.push_back(Role::Accumulator);
    else if (!reduced.empty())
      roles.push_back(Role::Reduction);
    else
      roles.push_back(intersects(member.loops, columns) ? Role::Column
                                                        : Role::Row);
  }
  for (unsigned member = 0; member < roles.size(); ++member)
    if (!isSound(cluster, member))
      return false;
  return true;
}

bool Schedule::isSound(const Cluster &cluster, unsigned member) const {
  const Cluster::Member &info = cluster.getMembers()[member];
  bool hasEveryRow =
      containsAll(info.loops, parallel) && containsAll(info.loops, summed);
  switch (roles[member]) {
  case Role::Accumulator:
    return hasEveryRow && hasAllOrNone(info.loops, columns) &&
           !isReadInside.test(member);
  case Role::Reduction:
    // Without some row dimension it would be computed again for each position.
    return hasEveryRow;
  case Role::Column:
  case Role::Row:
    if (cluster.isOutput(info.op->getResult(0)))
      return hasEveryRow && hasAllOrNone(info.loops, columns);
    return hasEveryRow || getWork(info.op) < costlyWork;
  }
  llvm_unreachable("not a role");
}

int64_t Schedule::getExtent(const Cluster &cluster) const {
  int64_t blocks = 1;
  if (columnBlock != 0)
    blocks = (getProduct(cluster, columns) + columnBlock - 1) / columnBlock;
  return getProduct(cluster, parallel) * blocks;
}

//===-- Stages ------------------------------------------------------------===//

const Schedule::Buffer *Schedule::getBuffer(Value value) const {
  auto found = buffers.find(value);
  return found == buffers.end() ? nullptr : &found->second;
}

std::optional<unsigned> Schedule::getReloadStage(Value value) const {
  auto found = reloads.find(value);
  if (found == reloads.end())
    return std::nullopt;
  return found->second;
}

/// Work to compute a column of `member` again, memory accesses included, as far
/// as it matters: up to `costlyWork`. Counted to the end it would grow with
/// every path that leads to the member.
unsigned Schedule::getWorkAgain(const Cluster &cluster, unsigned member) const {
  unsigned work = 0;
  SmallVector<unsigned> open{member};
  while (!open.empty() && work < costlyWork) {
    const Cluster::Member &info = cluster.getMembers()[open.pop_back_val()];
    work += getWork(info.op);
    cluster.visitReads(info, [&](Value tensor, ArrayRef<unsigned> dims) {
      if (!intersects(dims, columns))
        return;
      if (const Cluster::Member *producer = cluster.getProducer(tensor))
        open.push_back(unsigned(producer - cluster.getMembers().begin()));
      else
        ++work;
    });
  }
  return work;
}

/// Notes everything that `member`'s body needs evaluated in `stage`, depth
/// first: who comes first gets a row buffer.
void Schedule::visitReads(const Cluster &cluster, unsigned member,
                          unsigned stage) {
  SmallVector<Value> open;
  auto addReads = [&](unsigned reader) {
    const Cluster::Member &info = cluster.getMembers()[reader];
    const size_t first = open.size();
    cluster.visitReads(info, [&](Value tensor, ArrayRef<unsigned>) {
      open.push_back(tensor);
    });
    std::reverse(open.begin() + first, open.end());
  };
  addReads(member);
  while (!open.empty()) {
    Value tensor = open.pop_back_val();
    const Cluster::Member *producer = cluster.getProducer(tensor);
    if (!producer) {
      lastRead[tensor] = std::max(lastRead.lookup(tensor), stage);
      continue;
    }
    auto index = unsigned(producer - cluster.getMembers().begin());
    if (isComputedIn(cluster, index, stage))
      addReads(index);
  }
}

/// Notes the tensors that computing `member` again in `stage` would read:
/// kernels without row buffers do so.
void Schedule::noteReadsAgain(const Cluster &cluster, unsigned member,
                              unsigned stage) {
  SmallVector<unsigned> open{member};
  llvm::SmallDenseSet<unsigned> seen{member};
  while (!open.empty()) {
    const Cluster::Member &info = cluster.getMembers()[open.pop_back_val()];
    cluster.visitReads(info, [&](Value tensor, ArrayRef<unsigned>) {
      const Cluster::Member *producer = cluster.getProducer(tensor);
      if (!producer) {
        lastRead[tensor] = std::max(lastRead.lookup(tensor), stage);
        return;
      }
      auto index = unsigned(producer - cluster.getMembers().begin());
      if (roles[index] != Role::Reduction && seen.insert(index).second)
        open.push_back(index);
    });
  }
}

/// Notes that the result of `member` is needed in `stage`, and what that needs.
void Schedule::evaluate(const Cluster &cluster, unsigned member,
                        unsigned stage) {
  if (isComputedIn(cluster, member, stage))
    visitReads(cluster, member, stage);
}

/// Notes that the result of `member` is needed in `stage`; whether it has to be
/// computed there, as it is not kept from the stage that computed it first.
bool Schedule::isComputedIn(const Cluster &cluster, unsigned member,
                            unsigned stage) {
  if (roles[member] == Role::Reduction)
    return false; // an earlier stage left it
  Value result = cluster.getMembers()[member].op->getResult(0);
  auto [first, isFirst] = firstEvaluation.try_emplace(member, stage);
  if (isFirst)
    return true;
  if (first->second == stage || reloads.contains(result))
    return false;
  // Noted before: paths that meet again would be followed one by one.
  if (!notedAgain.insert({member, stage}).second)
    return false;
  if (buffers.contains(result)) {
    noteReadsAgain(cluster, member, stage);
    return false;
  }
  if (roles[member] == Role::Column) {
    unsigned work = getWorkAgain(cluster, member);
    if (cluster.isOutput(result) && work > 2) {
      reloads[result] = depths[member];
      return false;
    }
    auto element = cast<RankedTensorType>(result.getType()).getElementType();
    int64_t bytes =
        (getProduct(cluster, columns) * getElementBytes(element) + 63) / 64 *
        64;
    if (work >= costlyWork && scratchBytes + bytes <= maxScratchBytes) {
      buffers[result] = {first->second, scratchBytes};
      scratchBytes += bytes;
      noteReadsAgain(cluster, member, stage);
      return false;
    }
  }
  return true;
}

void Schedule::assignStages(const Cluster &cluster) {
  ArrayRef<Cluster::Member> members = cluster.getMembers();
  depths.assign(members.size(), 0);
  unsigned deepest = 0;
  for (auto [index, member] : llvm::enumerate(members)) {
    cluster.visitReads(
        member, [&, index = index](Value tensor, ArrayRef<unsigned>) {
          const Cluster::Member *producer = cluster.getProducer(tensor);
          if (!producer)
            return;
          unsigned from = unsigned(producer - members.begin());
          depths[index] =
              std::max(depths[index],
                       depths[from] + (roles[from] == Role::Reduction ? 1 : 0));
        });
    deepest = std::max(deepest, depths[index]);
  }

  stages.resize(deepest + 1);
  for (auto [index, member] : llvm::enumerate(members)) {
    Stage &stage = stages[depths[index]];
    bool isOutput = cluster.isOutput(member.op->getResult(0));
    Dims result = cluster.getResultDims(member);
    switch (roles[index]) {
    case Role::Reduction:
      stage.reductions.push_back(index);
      if (isOutput)
        rowStores.push_back(index);
      break;
    case Role::Accumulator:
      if (intersects(cluster.getReducedDims(member), columns))
        stage.reductions.push_back(index);
      else if (intersects(result, columns))
        stage.updates.push_back(index);
      else
        rowUpdates.push_back(index);
      break;
    case Role::Column:
      if (isOutput)
        stage.stores.push_back(index);
      break;
    case Role::Row:
      if (isOutput)
        rowStores.push_back(index);
      break;
    }
  }

  for (auto [index, stage] : llvm::enumerate(stages)) {
    for (unsigned root :
         llvm::concat<unsigned>(stage.reductions, stage.updates))
      visitReads(cluster, root, index);
    for (unsigned root : stage.stores)
      evaluate(cluster, root, index);
  }
  for (unsigned root : rowUpdates)
    visitReads(cluster, root, deepest);
  for (unsigned root : rowStores)
    evaluate(cluster, root, deepest);
}

bool Schedule::mayShare(const Cluster &cluster, unsigned member,
                        Value input) const {
  const Cluster::Member &info = cluster.getMembers()[member];
  Value output = info.op->getResult(0);
  if (roles[member] == Role::Accumulator || output.getType() != input.getType())
    return false;
  Dims dims = cluster.getResultDims(info);
  for (const Cluster::Access &access : cluster.getAccesses())
    if (access.tensor == input && ArrayRef(access.dims) != ArrayRef(dims))
      return false;
  if (llvm::is_contained(cluster.getGathered(), input))
    return false;
  return roles[member] != Role::Column ||
         lastRead.lookup(input) <= depths[member];
}

/// Whether columns are independent of one another.
bool Schedule::areColumnsIndependent() const {
  return columns.size() == 1 && llvm::all_of(stages, [](const Stage &stage) {
           return stage.reductions.empty();
         });
}

bool Schedule::canCutRows() const {
  return areColumnsIndependent() && rowStores.empty() && rowUpdates.empty();
}

/// Where a tensor's consecutive elements lie along a parallel dimension, makes
/// this dimension the innermost loop over rows, and short pieces of rows its
/// body. Returns whether there is one.
bool Schedule::cutAcross(const Cluster &cluster) {
  const unsigned column = columns.back();
  if (!summed.empty() || cluster.getSizes()[column] < 2 * transposeBlock)
    return false;
  for (const Cluster::Access &access : cluster.getAccesses()) {
    if (!llvm::is_contained(access.dims, column))
      continue;
    unsigned *across = llvm::find(parallel, access.dims.back());
    if (across == parallel.end())
      continue;
    std::rotate(across, across + 1, parallel.end());
    columnBlock = transposeBlock;
    blocksAreOutermost = true;
    return true;
  }
  return false;
}

/// Columns with which sums of several parallel positions are made at once, so
/// that what all of these read is read once; none where little is read again.
Dims Schedule::findSumsAtOnce(const Cluster &cluster) const {
  if (summed.empty() || !areColumnsIndependent() || !rowStores.empty() ||
      !rowUpdates.empty())
    return {};
  Dims together;
  int64_t accumulators = 0;
  for (const Stage &stage : stages)
    accumulators += int64_t(stage.updates.size());
  int64_t count = getProduct(cluster, columns) * accumulators;
  for (unsigned dim : llvm::reverse(parallel)) {
    const bool isReadAgain =
        llvm::any_of(cluster.getAccesses(), [&](const Cluster::Access &access) {
          return !contains(access.dims, dim) &&
                 getTensorBytes(access.tensor) >= largeBytes;
        });
    count *= cluster.getSizes()[dim];
    if (!isReadAgain || count > mostSumsAtOnce)
      break;
    together.insert(together.begin(), dim);
  }
  if (!together.empty())
    together.append(columns);
  return together;
}

std::optional<Schedule> Schedule::build(const Cluster &cluster,
                                        SumPlace place) {
  const llvm::BitVector isReadInside = findReadInside(cluster);
  for (ArrayRef<unsigned> choice : getColumnChoices(cluster, isReadInside)) {
    Schedule schedule;
    schedule.isReadInside = isReadInside;
    if (!schedule.divide(cluster, choice))
      continue;
    schedule.assignStages(cluster);
    if (place == SumPlace::Memory)
      if (Dims wider = schedule.findSumsAtOnce(cluster); !wider.empty()) {
        Schedule together;
        together.isReadInside = isReadInside;
        if (together.divide(cluster, wider) &&
            together.columns.back() == schedule.columns.back()) {
          together.assignStages(cluster);
          return together;
        }
      }
    if (schedule.areColumnsIndependent()) {
      int64_t block =
          schedule.summed.empty() ? elementwiseBlock : accumulatorBlock;
      if (!schedule.cutAcross(cluster) &&
          getProduct(cluster, schedule.columns) >= 2 * block)
        schedule.columnBlock = block;
      // What is done once per row would be done once per block.
      if (schedule.columnBlock != 0 && !schedule.canCutRows())
        continue;
    }
    return schedule;
  }
  return std::nullopt;
}
