#include "passes/RegroupAdditions.h"

#include "dialect/Casts.h"
#include "dialect/ProgramWalk.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

namespace {

/// A float addition of two values of the result's type.
AddOp asPlainAddition(Operation *op) {
  auto add = dyn_cast_or_null<AddOp>(op);
  if (!add || !isa<FloatType>(add.getType().getElementType()) ||
      add.getLhs().getType() != add.getType() ||
      add.getRhs().getType() != add.getType())
    return {};
  return add;
}

/// The addition that makes `value` if nothing but its one reader sees it.
AddOp getInnerAddition(Value value) {
  AddOp add = asPlainAddition(value.getDefiningOp());
  return add && value.hasOneUse() ? add : AddOp();
}

/// A tree of additions with its leaves from left to right.
class AdditionTree {
public:
  AdditionTree(AddOp root, const TermFlow &flow) : root(root), flow(flow) {
    Summary whole = descend();
    groups = getGroups();
    isBetterGrouped =
        countCompletions() < whole.completions + !whole.terms.empty();
  }

  /// A tree that was regrouped may have given this one a new leaf, of which
  /// `flow` knows nothing: every tree is made before the first is regrouped.
  bool regroup() {
    if (isBetterGrouped)
      rebuild();
    return isBetterGrouped;
  }

private:
  struct LeafGroup {
    Terms terms;
    SmallVector<OpOperand *> leaves; ///< as operands of the old additions
  };
  struct Summary {
    Terms terms;
    int completions; ///< inside the tree
  };

  /// What is widened for this sum alone has its terms as it is narrow, where
  /// they stop unless the sum takes them.
  Terms getTerms(Value leaf) const {
    if (flow.isMoving(leaf))
      return flow.getTerms(leaf);
    bool isWidened = false;
    while (leaf.hasOneUse() &&
           (isWideningCast(leaf.getDefiningOp()) ||
            isa_and_nonnull<RenameOp>(leaf.getDefiningOp()))) {
      isWidened |= isWideningCast(leaf.getDefiningOp());
      leaf = leaf.getDefiningOp()->getOperand(0);
    }
    if (!isWidened || !leaf.hasOneUse() ||
        flow.getTerms(leaf).kind != layout::ReduceKind::Sum)
      return Terms();
    return flow.getTerms(leaf);
  }

  /// Of two terms under an addition, what the sum still has and what had to be
  /// completed.
  static Summary join(const Summary &lhs, const Summary &rhs) {
    Summary sum{lhs.terms, lhs.completions + rhs.completions};
    if (lhs.terms.kind != rhs.terms.kind)
      sum.terms.axes.clear();
    llvm::erase_if(sum.terms.axes, [&](layout::AxisRef axis) {
      return !llvm::is_contained(rhs.terms.axes, axis);
    });
    if (sum.terms.empty())
      sum.terms.kind = layout::ReduceKind::None;
    sum.completions += sum.terms != lhs.terms;
    sum.completions += sum.terms != rhs.terms;
    return sum;
  }

  /// Collects additions and leaves, depth first from left to right.
  Summary descend() {
    struct Frame {
      AddOp add;
      SmallVector<Summary, 2> sides;
    };
    SmallVector<Frame> open;
    auto enter = [&](AddOp add) {
      additions.push_back(add);
      open.push_back({add, {}});
    };
    enter(root);
    while (true) {
      Frame &frame = open.back();
      if (frame.sides.size() < 2) {
        OpOperand &operand = frame.add->getOpOperand(frame.sides.size());
        if (AddOp inner = getInnerAddition(operand.get())) {
          enter(inner);
          continue;
        }
        leaves.push_back(&operand);
        frame.sides.push_back({getTerms(operand.get()), 0});
        continue;
      }
      Summary sum = join(frame.sides[0], frame.sides[1]);
      open.pop_back();
      if (open.empty())
        return sum;
      open.back().sides.push_back(std::move(sum));
    }
  }

  /// Leaves by their terms: most axes first, complete ones last.
  SmallVector<LeafGroup> getGroups() const {
    SmallVector<LeafGroup> groups;
    for (OpOperand *leaf : leaves) {
      Terms terms = getTerms(leaf->get());
      auto known = llvm::find_if(
          groups, [&](const LeafGroup &group) { return group.terms == terms; });
      if (known == groups.end())
        groups.push_back({terms, {leaf}});
      else
        known->leaves.push_back(leaf);
    }
    // An insertion sort keeps groups of equally many axes in their order.
    SmallVector<LeafGroup> sorted;
    for (LeafGroup &group : groups) {
      auto place = llvm::find_if(sorted, [&](const LeafGroup &other) {
        return other.terms.axes.size() < group.terms.axes.size();
      });
      sorted.insert(place, std::move(group));
    }
    return sorted;
  }

  int countCompletions() const {
    Summary sum{groups.front().terms, 0};
    for (const LeafGroup &group : ArrayRef(groups).drop_front())
      sum = join(sum, {group.terms, 0});
    return sum.completions + !sum.terms.empty();
  }

  void rebuild() {
    OpBuilder builder(root);
    // Inner sums take the places of the old ones, innermost first.
    SmallVector<AddOp> places(llvm::reverse(additions));
    size_t next = 0;
    auto add = [&](Value lhs, Value rhs) -> Value {
      return AddOp::create(builder, places[next++].getLoc(), lhs, rhs);
    };
    Value sum;
    for (const LeafGroup &group : groups) {
      Value part = group.leaves.front()->get();
      for (OpOperand *leaf : ArrayRef(group.leaves).drop_front())
        part = add(part, leaf->get());
      sum = sum ? add(part, sum) : part;
    }
    root.replaceAllUsesWith(sum);
    for (AddOp old : additions) // outermost first
      old.erase();
  }

  AddOp root;
  const TermFlow &flow;
  SmallVector<AddOp> additions; ///< each before those inside it
  SmallVector<OpOperand *> leaves;
  SmallVector<LeafGroup> groups;
  bool isBetterGrouped = false;
};

} // namespace

bool meshc::regroupAdditions(ProgramOp program, const TermFlow &flow) {
  SmallVector<AddOp> roots;
  for (Operation *op : getOperations(program))
    if (AddOp add = asPlainAddition(op)) {
      bool isInner =
          add->hasOneUse() && asPlainAddition(*add->getUsers().begin());
      if (!isInner)
        roots.push_back(add);
    }
  std::vector<AdditionTree> trees;
  for (AddOp root : roots)
    trees.emplace_back(root, flow);
  bool changed = false;
  for (AdditionTree &tree : trees)
    changed |= tree.regroup();
  return changed;
}
