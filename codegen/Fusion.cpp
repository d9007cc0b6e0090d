#include "codegen/Fusion.h"

#include "codegen/ExecTypes.h"
#include "codegen/Schedule.h"
#include "dialect/Locations.h"

#include "llvm/ADT/PriorityQueue.h"

#include <queue>

using namespace mlir;
using namespace meshc::codegen;

/// Tensors of one kernel. Beyond it a loop has more streams than a processor's
/// prefetchers follow (Intel Optimization Manual 2.1.5.4: 32 per core, forward
/// or backward, one per 4 KiB page).
static constexpr size_t maxOperands = 28;
/// Nodes that only read the same tensors are merged where that saves at least
/// this part of the smaller one's traffic.
static constexpr int64_t minSiblingPart = 8;

static int64_t getTensorBytes(Value tensor) {
  return getBytes(cast<RankedTensorType>(tensor.getType()));
}

void FusionGraph::addNode(Node node) {
  unsigned index = unsigned(nodes.size());
  for (Value result : node.results)
    producers[result] = index;
  for (Value read : node.reads)
    readers[read].push_back(index);
  nodes.push_back(std::move(node));
  mergedInto.push_back(index);
}

unsigned FusionGraph::getRoot(unsigned node) const {
  while (mergedInto[node] != node)
    node = mergedInto[node];
  return node;
}

std::optional<unsigned> FusionGraph::getProducer(Value value) const {
  auto found = producers.find(value);
  if (found == producers.end())
    return std::nullopt;
  return getRoot(found->second);
}

/// Whether the node does nothing but compute numbers from numbers.
static bool isScalar(const FusionGraph::Node &node) {
  return llvm::all_of(
      llvm::concat<const Value>(node.reads, node.results), [](Value value) {
        return cast<RankedTensorType>(value.getType()).getNumElements() == 1;
      });
}

/// Whether it is better to compute the results where what the node reads is at
/// hand, write them and read them later than to read that later: the gradient
/// of relu needs one byte of each element.
static bool isNarrow(const FusionGraph::Node &node) {
  int64_t read = 0, written = 0;
  for (Value value : node.reads)
    read += getTensorBytes(value);
  for (Value value : node.results)
    written += getTensorBytes(value);
  return 2 * written < read;
}

void FusionGraph::setLevels() {
  // Nodes were added in program order: producers come first.
  std::vector<bool> needsLater(nodes.size()); // a matmul or collective
  for (auto [index, node] : llvm::enumerate(nodes)) {
    meshc::nd::Phase phase = meshc::getPhase(node.ops.front()->getLoc());
    needsLater[index] =
        phase != meshc::nd::Phase::Forward && node.kind != Step::Kind::Kernel;
    for (Value read : node.reads)
      if (auto producer = producers.find(read); producer != producers.end()) {
        const Node &from = nodes[producer->second];
        bool isCommand = from.kind != Step::Kind::Kernel;
        node.level = std::max(node.level, from.level + (isCommand ? 1 : 0));
        if (needsLater[producer->second])
          needsLater[index] = true;
      }
    node.isEarly = phase == meshc::nd::Phase::Backward && !needsLater[index] &&
                   !isNarrow(node) && !isScalar(node);
  }
  for (Node &node : llvm::reverse(nodes)) {
    std::optional<unsigned> needed;
    for (Value result : node.results)
      for (unsigned reader : readers.lookup(result)) {
        needed =
            std::min(needed.value_or(nodes[reader].level), nodes[reader].level);
        if (nodes[reader].kind != Step::Kind::Kernel)
          node.isEarly = false;
      }
    if (node.isEarly && needed)
      node.level = *needed;
  }
}

bool FusionGraph::isReadOutside(Value value, unsigned first,
                                unsigned second) const {
  if (escapes.contains(value))
    return true;
  auto found = readers.find(value);
  return found != readers.end() &&
         llvm::any_of(found->second, [&](unsigned reader) {
           unsigned root = getRoot(reader);
           return root != first && root != second;
         });
}

SmallVector<Value> FusionGraph::getOutputs(const Node &node) const {
  SmallVector<Value> outputs;
  unsigned self = getRoot(producers.at(node.results.front()));
  for (Value result : node.results)
    if (isReadOutside(result, self, self))
      outputs.push_back(result);
  return outputs;
}

//===-- What to merge -----------------------------------------------------===//

/// Bytes of memory traffic that one kernel in place of two saves; 0 if they
/// should stay apart.
int64_t FusionGraph::getSavedBytes(const Node &first,
                                   const Node &second) const {
  if ((first.isEarly && second.level < first.level) ||
      (second.isEarly && first.level < second.level))
    return 0;
  int64_t saved = 0, shared = 0;
  // Numbers that several kernels read, the optimizer's step for example, stay
  // apart from all of them: none waits for another because of a few bytes, and
  // updates of parameters keep equal bodies (KernelGroups.h).
  const bool isForAll = isScalar(first) && !isScalar(second);
  for (Value read : second.reads) {
    if (llvm::is_contained(first.results, read)) {
      bool isStored =
          isReadOutside(read, getRoot(producers.at(first.results.front())),
                        getRoot(producers.at(second.results.front())));
      if (isStored && isForAll)
        return 0;
      saved += getTensorBytes(read) * (isStored ? 1 : 2);
    } else if (llvm::is_contained(first.reads, read)) {
      shared += getTensorBytes(read);
    }
  }
  if (saved != 0)
    return saved + shared;
  auto getTraffic = [](const Node &node) {
    int64_t bytes = 0;
    for (Value value : llvm::concat<const Value>(node.reads, node.results))
      bytes += getTensorBytes(value);
    return bytes;
  };
  if (first.level != second.level ||
      shared * minSiblingPart < std::min(getTraffic(first), getTraffic(second)))
    return 0;
  return shared;
}

std::vector<FusionGraph::Candidate> FusionGraph::getCandidates() const {
  llvm::DenseSet<std::pair<unsigned, unsigned>> seen;
  std::vector<Candidate> candidates;
  auto consider = [&](unsigned first, unsigned second) {
    if (first == second || nodes[first].kind != Step::Kind::Kernel ||
        nodes[second].kind != Step::Kind::Kernel)
      return;
    if (!seen.insert({first, second}).second ||
        rejected.contains({first, second}))
      return;
    if (int64_t saved = getSavedBytes(nodes[first], nodes[second]))
      candidates.push_back({saved, first, second});
  };
  for (const auto &[value, indices] : readers) {
    std::optional<unsigned> producer = getProducer(value);
    for (unsigned reader : indices) {
      if (producer)
        consider(*producer, getRoot(reader));
      for (unsigned other : indices) {
        unsigned a = getRoot(reader), b = getRoot(other);
        if (nodes[a].position < nodes[b].position)
          consider(a, b);
      }
    }
  }
  llvm::sort(candidates, [](const Candidate &x, const Candidate &y) {
    return std::tuple(-x.savedBytes, x.first, x.second) <
           std::tuple(-y.savedBytes, y.first, y.second);
  });
  return candidates;
}

/// Whether a path leads from one of the two to the other through a third node:
/// merged, each would have to wait for the other.
bool FusionGraph::passesThroughOthers(unsigned first, unsigned second) const {
  llvm::DenseSet<unsigned> visited;
  SmallVector<unsigned> pending;
  auto follow = [&](unsigned node) {
    for (Value result : nodes[node].results) {
      auto found = readers.find(result);
      if (found == readers.end())
        continue;
      for (unsigned reader : found->second)
        if (unsigned root = getRoot(reader);
            root != node && visited.insert(root).second)
          pending.push_back(root);
    }
  };
  for (unsigned start : {first, second}) {
    visited = {start};
    pending.clear();
    follow(start);
    // The direct edge between them is what merging removes.
    llvm::erase_if(pending, [&](unsigned node) {
      return node == first || node == second;
    });
    visited.erase(first);
    visited.erase(second);
    while (!pending.empty()) {
      unsigned node = pending.pop_back_val();
      if (node == first || node == second)
        return true;
      follow(node);
    }
  }
  return false;
}

bool FusionGraph::tryMerge(unsigned first, unsigned second) {
  Node merged = nodes[first];
  const Node &other = nodes[second];
  auto crosses = [](const Node &from, const Node &to) {
    return llvm::any_of(to.gathered, [&](Value value) {
      return llvm::is_contained(from.results, value);
    });
  };
  if (crosses(nodes[first], other) || crosses(other, nodes[first]) ||
      passesThroughOthers(first, second))
    return false;

  llvm::append_range(merged.ops, other.ops);
  llvm::sort(merged.ops,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  llvm::append_range(merged.results, other.results);
  llvm::append_range(merged.gathered, other.gathered);
  for (Value read : other.reads)
    if (!llvm::is_contained(merged.reads, read))
      merged.reads.push_back(read);
  llvm::erase_if(merged.reads, [&](Value read) {
    return llvm::is_contained(merged.results, read) &&
           !isRecomputed(read.getDefiningOp());
  });
  merged.position = std::max(merged.position, other.position);
  merged.level = std::max(merged.level, other.level);
  merged.isEarly = merged.isEarly && other.isEarly;

  SmallVector<Value> outputs;
  for (Value result : merged.results)
    if (isReadOutside(result, first, second))
      outputs.push_back(result);
  if (merged.reads.size() + outputs.size() > maxOperands)
    return false;
  std::optional<Cluster> cluster = Cluster::build(merged.ops, outputs);
  if (!cluster || !Schedule::build(*cluster))
    return false;

  // A node of its own, so that what was tried with the parts is tried again.
  unsigned index = unsigned(nodes.size());
  nodes[first].isMerged = nodes[second].isMerged = true;
  mergedInto[first] = mergedInto[second] = index;
  mergedInto.push_back(index);
  nodes.push_back(std::move(merged));
  return true;
}

void FusionGraph::fuse() {
  setLevels();
  for (bool changed = true; changed;) {
    changed = false;
    for (const Candidate &candidate : getCandidates()) {
      if (nodes[candidate.first].isMerged || nodes[candidate.second].isMerged)
        continue; // the next round sees what they became
      if (tryMerge(candidate.first, candidate.second))
        changed = true;
      else
        rejected.insert({candidate.first, candidate.second});
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

std::vector<unsigned> FusionGraph::getOrder() const {
  std::vector<unsigned> waits(nodes.size(), 0);
  std::vector<SmallVector<unsigned, 4>> followers(nodes.size());
  // Whether it comes after what starts at once, position, node.
  using Entry = std::tuple<bool, unsigned, unsigned>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (auto [index, node] : llvm::enumerate(nodes)) {
    if (node.isMerged)
      continue;
    for (Value read : node.reads)
      if (std::optional<unsigned> producer = getProducer(read)) {
        followers[*producer].push_back(index);
        ++waits[index];
      }
    if (waits[index] == 0)
      ready.push({!startsAtOnce(node), node.position, index});
  }
  std::vector<unsigned> order;
  while (!ready.empty()) {
    unsigned node = std::get<2>(ready.top());
    ready.pop();
    order.push_back(node);
    for (unsigned follower : followers[node])
      if (--waits[follower] == 0)
        ready.push({!startsAtOnce(nodes[follower]), nodes[follower].position,
                    follower});
  }
  return order;
}
