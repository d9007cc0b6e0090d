#include "codegen/kernels/Cluster.h"

using namespace mlir;
using namespace meshc::codegen;

Cluster::Dims meshc::codegen::getLoopsAt(Operation *op,
                                         ArrayRef<unsigned> dims) {
  Cluster::Dims loops(getLoopSizes(op).size(), Cluster::unit);
  for (auto [loop, dim] : llvm::zip_equal(getResultLoops(op), dims))
    loops[loop] = dim;
  return loops;
}

Cluster::Dims meshc::codegen::getDimsOf(const ReadOperand &read,
                                        ArrayRef<unsigned> loops) {
  Cluster::Dims dims;
  for (unsigned loop : read.loops)
    dims.push_back(loops[loop]);
  return dims;
}

const Cluster::Member *Cluster::getProducer(Value value) const {
  auto found = producers.find(value.getDefiningOp());
  return found == producers.end() ? nullptr : &members[found->second];
}

Cluster::Dims Cluster::getResultDims(const Member &member) const {
  Dims dims;
  for (unsigned loop : getResultLoops(member.op))
    dims.push_back(member.loops[loop]);
  return dims;
}

Cluster::Dims Cluster::getOutputDims(Value value) const {
  return getResultDims(members[memberOf.at(value.getDefiningOp())]);
}

Cluster::Dims Cluster::getReducedDims(const Member &member) const {
  Dims dims;
  for (unsigned loop : member.uses.reduced)
    if (member.loops[loop] != unit)
      dims.push_back(member.loops[loop]);
  return dims;
}

/// Dimensions in place of the loops of a member.
static Cluster::Dims getDimsAt(const Cluster::Member &member,
                               ArrayRef<unsigned> loops) {
  return llvm::map_to_vector<4>(loops, [&](unsigned loop) {
    return loop == Cluster::unit ? loop : member.loops[loop];
  });
}

void Cluster::visitReads(
    const Member &member,
    llvm::function_ref<void(Value, ArrayRef<unsigned>)> visit) const {
  for (const auto &[tensor, loops] : member.uses.reads)
    visit(tensor, getDimsAt(member, loops));
}

/// Walks what `op` computes again: once for each member of a cluster, since
/// dimensions change and fusion tries thousands of clusters.
static Cluster::Uses findUses(Operation *op, size_t numLoops) {
  Cluster::Uses uses;
  uses.reduced = Cluster::Dims(getReducedLoops(op));
  // What is computed again may in turn read what is: not by recursion.
  SmallVector<std::pair<Value, Cluster::Dims>> open;
  auto addReads = [&](Operation *reader, ArrayRef<unsigned> loops) {
    for (auto [loop, own] : llvm::enumerate(loops))
      if (own != Cluster::unit && usesIndex(reader, unsigned(loop)))
        uses.positions.push_back(own);
    SmallVector<ReadOperand> reads = getReads(reader);
    for (const ReadOperand &read : llvm::reverse(reads))
      open.emplace_back(read.tensor, getDimsOf(read, loops));
  };
  addReads(op, llvm::to_vector(llvm::seq(0u, unsigned(numLoops))));
  while (!open.empty()) {
    auto [tensor, loops] = open.pop_back_val();
    Operation *producer = tensor.getDefiningOp();
    if (producer && isRecomputed(producer))
      addReads(producer, getLoopsAt(producer, loops));
    else
      uses.reads.emplace_back(tensor, loops);
  }
  return uses;
}

//===-- Unification of loops ----------------------------------------------===//

namespace {
/// Loops of all members and which of them are the same.
class LoopClasses {
public:
  unsigned add(int64_t size) {
    parents.push_back(unsigned(parents.size()));
    sizes.push_back(size);
    return parents.back();
  }
  unsigned find(unsigned loop) const {
    // Halves the path, so that long chains of operations stay cheap.
    while (parents[loop] != loop)
      loop = parents[loop] = parents[parents[loop]];
    return loop;
  }
  int64_t getSize(unsigned loop) const { return sizes[loop]; }
  void unite(unsigned a, unsigned b) { parents[find(b)] = find(a); }

private:
  mutable SmallVector<unsigned> parents;
  SmallVector<int64_t> sizes;
};
} // namespace

/// Whether no member has two loops in one class.
static bool isConsistent(const LoopClasses &classes,
                         ArrayRef<Cluster::Member> members) {
  for (const Cluster::Member &member : members) {
    llvm::SmallDenseSet<unsigned, 8> seen;
    for (unsigned loop : member.loops)
      if (loop != Cluster::unit && !seen.insert(classes.find(loop)).second)
        return false;
  }
  return true;
}

/// Makes the loops of `a` those of `b` where no member objects.
static void tryUnite(LoopClasses &classes, ArrayRef<Cluster::Member> members,
                     ArrayRef<unsigned> a, ArrayRef<unsigned> b) {
  if (llvm::all_of(llvm::zip_equal(a, b), [&](auto pair) {
        auto [x, y] = pair;
        return x == Cluster::unit || y == Cluster::unit ||
               classes.find(x) == classes.find(y);
      }))
    return;
  LoopClasses united = classes;
  for (auto [x, y] : llvm::zip_equal(a, b))
    if (x != Cluster::unit && y != Cluster::unit)
      united.unite(x, y);
  if (isConsistent(united, members))
    classes = std::move(united);
}

bool Cluster::unify() {
  LoopClasses classes;
  for (Member &member : members) {
    for (int64_t size : getLoopSizes(member.op))
      member.loops.push_back(size == 1 ? unit : classes.add(size));
    member.uses = findUses(member.op, member.loops.size());
  }

  // What a member computes has one index in the whole cluster.
  for (const Member &member : members)
    visitReads(member, [&](Value tensor, ArrayRef<unsigned> dims) {
      const Member *producer = getProducer(tensor);
      if (!producer)
        return;
      for (auto [x, y] : llvm::zip_equal(dims, getResultDims(*producer)))
        if (x != unit)
          classes.unite(x, y);
    });
  if (!isConsistent(classes, members))
    return false;

  // The same element of a tensor from outside is best read once.
  llvm::MapVector<Value, Dims> firstUse;
  for (const Member &member : members)
    visitReads(member, [&](Value tensor, ArrayRef<unsigned> dims) {
      if (getProducer(tensor))
        return;
      auto [known, isFirst] = firstUse.try_emplace(tensor, Dims(dims));
      if (!isFirst)
        tryUnite(classes, members, known->second, dims);
    });

  // Loops of one size may run together.
  llvm::SmallSetVector<unsigned, 8> loops;
  for (const Member &member : members)
    for (unsigned loop : member.loops)
      if (loop != unit)
        loops.insert(classes.find(loop));
  for (size_t i = 0; i < loops.size(); ++i)
    for (size_t j = i + 1; j < loops.size(); ++j)
      if (classes.getSize(loops[i]) == classes.getSize(loops[j]))
        tryUnite(classes, members, loops[i], loops[j]);

  llvm::SmallDenseMap<unsigned, unsigned> dimOf;
  for (Member &member : members)
    for (unsigned &loop : member.loops) {
      if (loop == unit)
        continue;
      auto [dim, isFirst] = dimOf.try_emplace(classes.find(loop), sizes.size());
      if (isFirst)
        sizes.push_back(classes.getSize(loop));
      loop = dim->second;
    }
  return true;
}

//===-- Memory and neighbouring dimensions --------------------------------===//

void Cluster::collectAccesses() {
  accesses.clear();
  for (auto [index, member] : llvm::enumerate(members)) {
    visitReads(member, [&](Value tensor, ArrayRef<unsigned> dims) {
      if (!getProducer(tensor))
        accesses.push_back({tensor, Dims(dims), unsigned(index), false});
    });
    if (isOutput(member.op->getResult(0)))
      accesses.push_back({member.op->getResult(0), getResultDims(member),
                          unsigned(index), true});
  }
}

/// Whether `inner` follows `outer` in `dims`, or neither is there.
static bool areNeighbours(ArrayRef<unsigned> dims, unsigned outer,
                          unsigned inner) {
  const unsigned *first = llvm::find(dims, outer);
  const unsigned *second = llvm::find(dims, inner);
  if (first == dims.end() || second == dims.end())
    return first == second;
  // Dimensions of size 1 may stand between them.
  for (++first; first != dims.end() && *first == Cluster::unit; ++first) {
  }
  return first == second;
}

llvm::BitVector Cluster::findPositions() const {
  llvm::BitVector asked(getNumDims());
  for (const Member &member : members)
    for (unsigned dim : getDimsAt(member, member.uses.positions))
      if (dim != unit)
        asked.set(dim);
  return asked;
}

bool Cluster::canCollapse(unsigned outer, unsigned inner) const {
  for (const Access &access : accesses)
    if (!areNeighbours(access.dims, outer, inner))
      return false;
  for (const Member &member : members) {
    if (llvm::is_contained(member.loops, outer) !=
        llvm::is_contained(member.loops, inner))
      return false;
    Dims reduced = getReducedDims(member);
    if (llvm::is_contained(reduced, outer) !=
        llvm::is_contained(reduced, inner))
      return false;
  }
  return true;
}

void Cluster::collapse() {
  for (bool changed = true; changed;) {
    changed = false;
    const llvm::BitVector asked = findPositions();
    for (unsigned outer = 0; outer < sizes.size() && !changed; ++outer)
      for (unsigned inner = 0; inner < sizes.size() && !changed; ++inner) {
        if (outer == inner || asked[outer] || asked[inner] ||
            !canCollapse(outer, inner))
          continue;
        // Counting on through the inner dimension steps through both.
        sizes[inner] *= sizes[outer];
        sizes.erase(sizes.begin() + outer);
        for (Member &member : members)
          for (unsigned &loop : member.loops)
            if (loop == outer)
              loop = unit;
            else if (loop != unit && loop > outer)
              --loop;
        collectAccesses();
        changed = true;
      }
  }
}

std::optional<Cluster> Cluster::build(ArrayRef<Operation *> ops,
                                      ArrayRef<Value> outputs) {
  Cluster cluster;
  cluster.outputs = llvm::to_vector(outputs);
  for (Operation *op : ops) {
    bool isAgain = isRecomputed(op);
    if (isAgain && !cluster.isOutput(op->getResult(0)))
      continue;
    cluster.memberOf[op] = unsigned(cluster.members.size());
    if (!isAgain)
      cluster.producers[op] = unsigned(cluster.members.size());
    cluster.members.push_back({op, {}, {}});
    for (Value tensor : getGatheredTensors(op))
      cluster.gathered.insert(tensor);
  }
  if (!cluster.unify())
    return std::nullopt;
  cluster.collectAccesses();
  cluster.collapse();
  return cluster;
}
