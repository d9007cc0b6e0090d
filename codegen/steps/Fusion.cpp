#include "codegen/steps/Fusion.h"

#include "codegen/ExecTypes.h"
#include "codegen/exec/Exec.h"
#include "codegen/kernels/StructuredOps.h"
#include "dialect/Again.h"
#include "dialect/Locations.h"

#include <queue>

using namespace mlir;
using namespace meshc::codegen;

/// Tensors of one kernel. Beyond it a loop has more streams than a processor's
/// prefetchers follow (Intel Optimization Manual 2.1.5.4: 32 per core, forward
/// or backward, one per 4 KiB page).
static constexpr size_t maxOperands = 28;
/// Operations of one kernel. A tensor that is neither written nor read saves 8
/// bytes of each element, which is worth about 100 operations
/// (passes/RecomputeResiduals.cpp): longer kernels compute while memory waits
/// for them, and nothing is left to save. They cost time to compile, more than
/// in proportion. Source: measured, 'meshc compile' of 2,000 operations in a
/// row, in kernels of 64, 256 and 1,024: for CPUs 0.6 s, 0.6 s, 1.4 s; for
/// sm_90 4 s, 6 s, and not done after 100 s. The largest kernel of samples/ and
/// bench/ has 19.
static constexpr size_t maxOps = 256;
/// Nodes that only read the same tensors are merged where that saves at least
/// this part of the smaller one's traffic.
static constexpr int64_t minSiblingPart = 8;
/// Of a tensor that many nodes read, each is compared with so many before and
/// behind it: twice as many as can be merged into one kernel if each of them
/// writes a result (maxOperands).
static constexpr unsigned maxSiblings = 64;

static bool isNumber(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements() == 1;
}

void FusionGraph::addNode(Node node) {
  unsigned index = unsigned(nodes.size());
  for (Value result : node.results) {
    producers[result] = index;
    node.resultBytes += getTensorBytes(result);
    node.hasScalarResults &= isNumber(result);
  }
  setReads(node);
  nodes.push_back(std::move(node));
}

/// Sets what follows from the reads of a node whose results are known.
void FusionGraph::setReads(Node &node) {
  for (Value read : node.reads)
    node.readBytes += getTensorBytes(read);
  node.isScalar = node.hasScalarResults && llvm::all_of(node.reads, isNumber);
}

std::optional<unsigned> FusionGraph::getProducer(Value value) const {
  auto found = producers.find(value);
  if (found == producers.end())
    return std::nullopt;
  return getRoot(found->second);
}

const FusionGraph::Tensor *FusionGraph::findTensor(Value value) const {
  auto found = tensorOf.find(value);
  return found == tensorOf.end() ? nullptr : &tensors[found->second];
}

/// Whether `node` makes `value`, be it for itself alone.
bool FusionGraph::isResult(Value value, unsigned node) const {
  return getProducer(value) == node;
}

/// Whether it is better to compute the results where what the node reads is at
/// hand, write them and read them later than to read that later: the gradient
/// of relu needs one byte of each element.
static bool isNarrow(const FusionGraph::Node &node) {
  return 2 * node.resultBytes < node.readBytes;
}

/// Whether a node is a command that kernels are ordered by.
static bool isCommand(const FusionGraph::Node &node) {
  return !node.isKernel && !node.isPart;
}

void FusionGraph::setLevels() {
  // Nodes were added in program order: producers come first.
  std::vector<bool> needsLater(nodes.size()); // a matmul or collective
  for (auto [index, node] : llvm::enumerate(nodes)) {
    meshc::nd::Phase phase = meshc::getPhase(node.ops.front()->getLoc());
    needsLater[index] = phase != meshc::nd::Phase::Forward && isCommand(node);
    for (Value read : node.reads)
      if (auto producer = producers.find(read); producer != producers.end()) {
        const Node &from = nodes[producer->second];
        node.level =
            std::max(node.level, from.level + (isCommand(from) ? 1 : 0));
        if (needsLater[producer->second])
          needsLater[index] = true;
      }
    node.isEarly = phase == meshc::nd::Phase::Backward && !needsLater[index] &&
                   !isNarrow(node) && !node.isScalar;
  }
  for (Node &node : llvm::reverse(nodes)) {
    std::optional<unsigned> needed;
    for (Value result : node.results) {
      const Tensor *tensor = findTensor(result);
      for (unsigned entry = tensor ? tensor->firstReader : none; entry != none;
           entry = readers[entry].next) {
        const Node &reader = nodes[readers[entry].node];
        needed = std::min(needed.value_or(reader.level), reader.level);
        if (!reader.isKernel)
          node.isEarly = false;
      }
    }
    if (node.isEarly && needed)
      node.level = *needed;
  }
}

/// Lists the readers of every tensor, in program order, and the edges that they
/// make.
void FusionGraph::linkReaders() {
  readersOf.resize(nodes.size());
  std::vector<unsigned> last; // reader, by tensor
  std::vector<std::vector<unsigned>> previousOf(nodes.size());
  std::vector<bool> isMark(nodes.size());
  for (auto [index, node] : llvm::enumerate(nodes)) {
    isMark[index] = !node.isKernel;
    for (Value read : node.reads) {
      auto [known, isFirst] = tensorOf.try_emplace(read, tensors.size());
      if (isFirst) {
        Tensor tensor;
        if (auto producer = producers.find(read); producer != producers.end())
          tensor.producer = producer->second;
        tensor.escapes = escapes.contains(read);
        tensors.push_back(tensor);
        last.push_back(none);
      }
      Tensor &tensor = tensors[known->second];
      if (tensor.producer)
        previousOf[index].push_back(*tensor.producer);
      unsigned &previous = last[known->second];
      unsigned entry = unsigned(readers.size());
      (previous == none ? tensor.firstReader : readers[previous].next) = entry;
      readers.push_back({known->second, unsigned(index), previous, none});
      previous = entry;
      ++tensor.numReaders;
      readersOf[index].push_back(entry);
    }
  }
  order = MergeOrder(std::move(previousOf), isMark);
}

void FusionGraph::dropReader(unsigned reader) {
  const auto [tensor, node, previous, next] = readers[reader];
  (previous == none ? tensors[tensor].firstReader : readers[previous].next) =
      next;
  if (next != none)
    readers[next].previous = previous;
  --tensors[tensor].numReaders;
}

/// Whether something other than the two nodes, one of which makes `value`,
/// reads it.
bool FusionGraph::isReadOutside(Value value, unsigned first,
                                unsigned second) const {
  if (escapes.contains(value))
    return true;
  const Tensor *tensor = findTensor(value);
  if (!tensor)
    return false;
  unsigned reader = isResult(value, first) ? second : first;
  bool isReader = reader != getProducer(value) &&
                  llvm::is_contained(nodes[reader].reads, value);
  return tensor->numReaders > (isReader ? 1 : 0);
}

SmallVector<Value> FusionGraph::getOutputs(const Node &node) const {
  SmallVector<Value> outputs;
  unsigned self = *getProducer(node.results.front());
  for (Value result : node.results)
    if (isReadOutside(result, self, self))
      outputs.push_back(result);
  return outputs;
}

//===-- What to merge -----------------------------------------------------===//

/// What one kernel in place of two saves; no bytes if they should stay apart.
FusionGraph::Candidate FusionGraph::getCandidate(unsigned firstIndex,
                                                 unsigned secondIndex,
                                                 bool haveProducer) const {
  const Node &first = nodes[firstIndex], &second = nodes[secondIndex];
  Candidate candidate{0, firstIndex, secondIndex, /*onlyShares=*/true};
  if ((first.isEarly && second.level < first.level) ||
      (second.isEarly && first.level < second.level))
    return candidate;
  int64_t saved = 0, shared = 0;
  // Numbers that several kernels read, the optimizer's step for example, stay
  // apart from all of them: none waits for another because of a few bytes, and
  // updates of parameters keep equal bodies (GroupKernels.h).
  const bool isForAll = first.isScalar && !second.isScalar;
  for (Value read : second.reads) {
    if (isResult(read, firstIndex)) {
      bool isStored = isReadOutside(read, firstIndex, secondIndex);
      if (isStored && isForAll)
        return candidate;
      candidate.onlyShares = false;
      saved += getTensorBytes(read) * (isStored ? 1 : 2);
    } else if (llvm::is_contained(first.reads, read)) {
      shared += getTensorBytes(read);
    }
  }
  auto getTraffic = [](const Node &node) {
    return node.resultBytes + node.readBytes;
  };
  if (saved != 0)
    candidate.savedBytes = saved + shared;
  // A launch, in one byte's place: a mean of each of several sums that one
  // kernel makes.
  else if (first.isScalar && second.isScalar && first.level == second.level &&
           (haveProducer || haveOneProducer(first, second)))
    candidate.savedBytes = std::max<int64_t>(shared, 1);
  else if (first.level == second.level &&
           shared * minSiblingPart >=
               std::min(getTraffic(first), getTraffic(second)))
    candidate.savedBytes = shared;
  return candidate;
}

/// Whether they read results of the same node.
bool FusionGraph::haveOneProducer(const Node &one, const Node &other) const {
  return llvm::any_of(one.reads, [&](Value read) {
    const std::optional<unsigned> producer = getProducer(read);
    return producer && llvm::any_of(other.reads, [&](Value otherRead) {
             return isResult(otherRead, *producer);
           });
  });
}

/// The pairs that can save something of which at least one node is new. Those
/// of two older ones were tried when the later of the two was.
std::vector<FusionGraph::Candidate>
FusionGraph::getCandidates(ArrayRef<unsigned> added) {
  std::vector<Candidate> candidates;
  const unsigned firstAdded = added.front();
  auto consider = [&](unsigned first, unsigned second,
                      bool haveProducer = false) {
    if (first == second || !nodes[first].isKernel || !nodes[second].isKernel)
      return;
    if (!mergesScalars && (nodes[first].isScalar || nodes[second].isScalar))
      return;
    ++numPairs;
    const Candidate candidate = getCandidate(first, second, haveProducer);
    if (candidate.savedBytes != 0)
      candidates.push_back(candidate);
  };
  for (unsigned node : added) {
    if (nodes[node].isMerged || !nodes[node].isKernel)
      continue;
    auto compare = [&](unsigned other, bool haveProducer = false) {
      bool isEarlier = nodes[other].position < nodes[node].position;
      if (nodes[other].position != nodes[node].position)
        consider(isEarlier ? other : node, isEarlier ? node : other,
                 haveProducer);
    };
    for (unsigned reader : readersOf[node]) {
      const Tensor &tensor = tensors[readers[reader].tensor];
      if (tensor.producer)
        consider(getRoot(*tensor.producer), node);
      if (tensor.producer && mergesScalars && nodes[node].isScalar)
        for (Value result : nodes[getRoot(*tensor.producer)].results)
          if (const Tensor *beside = findTensor(result);
              beside && beside->numReaders == 1) {
            const unsigned other = readers[beside->firstReader].node;
            // Of two new nodes the earlier one sees the later one, unless
            // others read what it reads.
            const bool isSeen =
                tensor.numReaders == 1 && other >= firstAdded && other < node;
            if (nodes[other].isScalar && !isSeen)
              compare(other, /*haveProducer=*/true);
          }
      // Of two new readers the earlier one in the list sees the later one.
      unsigned count = 0;
      for (unsigned other = readers[reader].next;
           other != none && count < maxSiblings;
           other = readers[other].next, ++count)
        compare(readers[other].node);
      count = 0;
      for (unsigned other = readers[reader].previous;
           other != none && count < maxSiblings;
           other = readers[other].previous, ++count)
        if (readers[other].node < firstAdded)
          compare(readers[other].node);
    }
    for (Value result : nodes[node].results)
      if (const Tensor *tensor = findTensor(result))
        for (unsigned reader = tensor->firstReader; reader != none;
             reader = readers[reader].next)
          if (readers[reader].node < firstAdded)
            consider(node, readers[reader].node);
  }
  auto asTuple = [](const Candidate &x) {
    return std::tuple(-x.savedBytes, x.onlyShares, x.first, x.second);
  };
  llvm::sort(candidates, [&](const Candidate &x, const Candidate &y) {
    return asTuple(x) < asTuple(y);
  });
  // Two nodes may share several tensors.
  candidates.erase(llvm::unique(candidates,
                                [&](const Candidate &x, const Candidate &y) {
                                  return asTuple(x) == asTuple(y);
                                }),
                   candidates.end());
  return candidates;
}

/// Whether a result of a node is of the forward phase.
static bool isForward(const FusionGraph::Node &node) {
  return llvm::any_of(node.results, [](Value result) {
    return meshc::getPhase(meshc::steps::getValueLoc(result)) ==
           meshc::nd::Phase::Forward;
  });
}

/// Whether a node has what the backward phase is to compute again.
static bool isComputedAgain(const FusionGraph::Node &node) {
  return llvm::any_of(node.ops, [](Operation *op) {
    return op->hasAttr(meshc::againAttrName);
  });
}

bool FusionGraph::tryMerge(unsigned first, unsigned second) {
  const Node &one = nodes[first], &other = nodes[second];
  // What is known without looking at operations comes first.
  if (one.ops.size() + other.ops.size() > maxOps)
    return false;
  if (computesAgain && isForward(one) != isForward(other) &&
      (isComputedAgain(one) || isComputedAgain(other)))
    return false;
  Node merged;
  auto isInside = [&](Value value) {
    return isResult(value, first) || isResult(value, second);
  };
  for (const Node *part : {&one, &other})
    for (Value read : part->reads)
      if (!llvm::is_contained(merged.reads, read) &&
          (!isInside(read) || isRecomputed(read.getDefiningOp())))
        merged.reads.push_back(read);
  for (const Node *part : {&one, &other})
    for (Value result : part->results)
      if (isReadOutside(result, first, second))
        merged.results.push_back(result);
  if (merged.reads.size() + merged.results.size() > maxOperands)
    return false;
  auto crosses = [&](unsigned from, const Node &to) {
    return llvm::any_of(to.gathered,
                        [&](Value value) { return isResult(value, from); });
  };
  if (crosses(first, other) || crosses(second, one) ||
      !order.canMerge(first, second))
    return false;

  merged.ops.reserve(one.ops.size() + other.ops.size());
  std::merge(one.ops.begin(), one.ops.end(), other.ops.begin(), other.ops.end(),
             std::back_inserter(merged.ops),
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  if (!forms.canRun(merged.ops, merged.results))
    return false;

  merged.gathered = one.gathered;
  llvm::append_range(merged.gathered, other.gathered);
  merged.position = std::max(one.position, other.position);
  merged.level = std::max(one.level, other.level);
  merged.isEarly = one.isEarly && other.isEarly;
  merged.resultBytes = one.resultBytes + other.resultBytes;
  merged.hasScalarResults = one.hasScalarResults && other.hasScalarResults;
  setReads(merged);

  // A node of its own, so that what was tried with the parts is tried again.
  mergeReaders(first, second);
  order.merge(first, second);
  nodes[first].isMerged = nodes[second].isMerged = true;
  nodes[first].ops = nodes[second].ops = {};
  nodes.push_back(std::move(merged));
  return true;
}

/// Makes one reader of two, of every tensor that is still read from memory.
void FusionGraph::mergeReaders(unsigned first, unsigned second) {
  const auto index = unsigned(nodes.size());
  const bool isInOrder = nodes[first].position < nodes[second].position;
  llvm::SmallVector<unsigned> kept;
  for (unsigned node : {isInOrder ? second : first, isInOrder ? first : second})
    for (unsigned reader : readersOf[node]) {
      const Tensor &tensor = tensors[readers[reader].tensor];
      bool isInside = tensor.producer && (getRoot(*tensor.producer) == first ||
                                          getRoot(*tensor.producer) == second);
      bool isKnown = llvm::any_of(kept, [&](unsigned other) {
        return readers[other].tensor == readers[reader].tensor;
      });
      if (isInside || isKnown) {
        dropReader(reader);
        continue;
      }
      readers[reader].node = index;
      kept.push_back(reader);
    }
  readersOf.push_back(std::move(kept));
}

/// In rounds: of the pairs that there are at its start, the one that saves most
/// comes first, then those of which nothing has been merged since. What merging
/// has made is compared in the next round.
///
/// Numbers made of numbers come last: they are a few bytes, and a kernel that
/// has taken them along may not fit another one. A sum over everything can go
/// with sums over rows, unless the same kernel makes the mean of it.
void FusionGraph::finish() {
  linkReaders();
  setLevels();
}

void FusionGraph::fuse() {
  computesAgain = llvm::any_of(nodes, isComputedAgain);
  for (bool scalarsToo : {false, true}) {
    mergesScalars = scalarsToo;
    std::vector<unsigned> added;
    for (unsigned node = 0; node < nodes.size(); ++node)
      if (!nodes[node].isMerged)
        added.push_back(node);
    while (!added.empty()) {
      std::vector<Candidate> candidates = getCandidates(added);
      added.clear();
      for (const Candidate &candidate : candidates)
        if (!nodes[candidate.first].isMerged &&
            !nodes[candidate.second].isMerged &&
            tryMerge(candidate.first, candidate.second))
          added.push_back(unsigned(nodes.size()) - 1);
    }
  }
}

//===-- Order -------------------------------------------------------------===//

/// Whether a node is a sum over devices: the sooner it starts, the more runs
/// beside it, and it leaves no more in memory than there was. Other collectives
/// stand where their results are needed.
static bool startsAtOnce(const FusionGraph::Node &node) {
  return isa<meshc::spmd::AllReduceOp, meshc::spmd::ReduceScatterOp>(
      node.ops[0]);
}

/// Lists the nodes, of those that may come next the one with the least key
/// first. `waits` counts what each comes behind, of `followers` those behind
/// it.
static std::vector<unsigned>
sortNodes(std::vector<unsigned> waits,
          const std::vector<SmallVector<unsigned, 4>> &followers,
          ArrayRef<unsigned> nodes,
          llvm::function_ref<FusionGraph::OrderKey(unsigned)> getKey) {
  using Entry = std::pair<FusionGraph::OrderKey, unsigned>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (unsigned node : nodes)
    if (waits[node] == 0)
      ready.emplace(getKey(node), node);
  std::vector<unsigned> order;
  while (!ready.empty()) {
    const unsigned node = ready.top().second;
    ready.pop();
    order.push_back(node);
    for (unsigned follower : followers[node])
      if (--waits[follower] == 0)
        ready.emplace(getKey(follower), follower);
  }
  return order;
}

std::vector<unsigned> FusionGraph::getOrder() const {
  std::vector<unsigned> waits(nodes.size(), 0), all;
  std::vector<SmallVector<unsigned, 4>> followers(nodes.size());
  // Where each stands: at its last operation, but no later than what reads it.
  // A kernel may have taken along what is needed much later.
  std::vector<unsigned> positions;
  for (auto [index, node] : llvm::enumerate(nodes)) {
    positions.push_back(node.position);
    if (node.isMerged)
      continue;
    all.push_back(unsigned(index));
    for (Value read : node.reads)
      if (std::optional<unsigned> producer = getProducer(read)) {
        followers[*producer].push_back(unsigned(index));
        ++waits[index];
      }
  }
  const std::vector<unsigned> behind =
      sortNodes(waits, followers, all, [](unsigned) { return OrderKey(); });
  for (unsigned node : llvm::reverse(behind))
    for (unsigned follower : followers[node])
      positions[node] = std::min(positions[node], positions[follower]);
  return sortNodes(std::move(waits), followers, all, [&](unsigned node) {
    return OrderKey(!isForward(nodes[node]), !startsAtOnce(nodes[node]),
                    positions[node]);
  });
}
