#include "passes/IterationSplit.h"

#include "dialect/Casts.h"
#include "dialect/Locations.h"
#include "layout/ReshardPlanner.h"
#include "passes/TransferOrders.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

const layout::DimSplit &IterationSplit::get(StringAttr dim) const {
  for (auto [attr, split] : llvm::zip_equal(dims, splits))
    if (attr.getName() == dim)
      return split;
  llvm_unreachable("not a dimension of the iteration space");
}

bool IterationSplit::uses(ArrayRef<layout::AxisRef> axes) const {
  return llvm::any_of(splits, [&](const layout::DimSplit &split) {
    return llvm::any_of(split, [&](layout::AxisRef used) {
      return llvm::any_of(
          axes, [&](layout::AxisRef axis) { return axis.axis == used.axis; });
    });
  });
}

/// Takes the axes off that are `taken`, or parts of the same.
static void eraseAxes(layout::DimSplit &axes, ArrayRef<layout::AxisRef> taken) {
  llvm::erase_if(axes, [&](layout::AxisRef axis) {
    return llvm::any_of(
        taken, [&](layout::AxisRef other) { return other.axis == axis.axis; });
  });
}

namespace {

/// An axis and the dimensions (by index) that claim it.
struct Claim {
  /// In place of a dimension: all of them are whole.
  static constexpr size_t nobody = ~size_t(0);
  int32_t axis;
  SmallVector<size_t> dims;
};

class SplitChooser {
public:
  SplitChooser(PartitionOpInterface op, const ModuleLayout &layout,
               const SplitMap &before, Followed followed)
      : op(op), layout(layout), before(before),
        constraint(followed.isElementwise ? followed.constraint : ReshardOp()),
        wanted(followed.isElementwise ? ReshardOp() : followed.constraint) {}

  IterationSplit run() {
    IterationSplit split;
    split.dims = op.getIterationDims();
    split.source = findSource();
    if (constraint)
      split.constrained = getValueName(constraint.getLoc());
    else if (split.source == IterationSplit::Source::Parameter)
      split.constrained = findConstraint(op->getOperand(0));
    const bool isOfTable = split.source == IterationSplit::Source::Table;
    for (Value operand : op->getOperands())
      tableShardings.push_back(isOfTable && !findConstraint(operand)
                                   ? layout.getLegalSharding(operand)
                                   : getKnownSharding(operand));
    for (Value result : op->getResults())
      tableShardings.push_back(wanted ? getWanted(result)
                                      : layout.getLegalSharding(result));

    for (DimAttr dim : split.dims)
      split.splits.push_back((isOfTable || constraint) &&
                                     op.getDimUse(dim.getName()).maySplit()
                                 ? layout.getSplit(dim.getName())
                                 : layout::DimSplit());
    if (ReshardOp reader = findGradientReader())
      followReader(split, reader);
    else if (constraint)
      followConstraint(split, constraint.getType(),
                       getSharding(constraint.getType(), layout.getMesh()));
    else if (!isOfTable)
      followOperands(split);
    const Terms added = getAddedTerms();
    if (isOfTable)
      dropAxes(split, added);
    const IterationSplit ofTable = split;
    SmallVector<Claim> contested = getContested(split);
    if (!contested.empty())
      split = settle(split, contested);
    if (isOfTable) {
      keepMajorLoops(split);
      followDigits(split);
    }
    if (isOfTable)
      followConstrained(ofTable, split);
    if (isOfTable && wanted)
      followWanted(ofTable, split);
    if (op->getNumResults() == 1)
      split.terms = split.uses(added.axes) || added.empty()
                        ? getOwnTerms(op, 0, split)
                        : added;
    return split;
  }

private:
  /// The name of what a constraint is on, if a value lies as that does, or of
  /// the parameter that it is if a rule is for that.
  std::optional<std::string> findConstraint(Value value) const {
    Operation *maker = value.getDefiningOp();
    if (isConstraint(maker))
      return getValueName(value.getLoc());
    if (auto parameter = layout.findNamedParameter(value))
      return parameter;
    auto known = before.find(maker);
    return known != before.end() ? known->second.constrained : std::nullopt;
  }

  /// Splits the loops that dimensions of a tensor are as these, and has the
  /// others do without their axes.
  void followConstraint(IterationSplit &split, NamedTensorType type,
                        const layout::Sharding &wanted) const {
    for (auto [dim, axes] : llvm::zip_equal(split.dims, split.splits)) {
      const int64_t place = type.findDim(dim.getName());
      if (place >= 0) {
        axes = wanted.dims[size_t(place)];
        continue;
      }
      for (const layout::DimSplit &taken : wanted.dims)
        eraseAxes(axes, taken);
    }
  }

  /// How a value that leads to a constraint lies where it is as that says.
  layout::Sharding getWanted(Value value) {
    const NamedTensorType type = wanted.getType();
    const layout::Sharding lies = getSharding(type, layout.getMesh());
    layout::Sharding sharding = layout.getLegalSharding(value);
    for (auto [number, dim] :
         llvm::enumerate(cast<NamedTensorType>(value.getType()).getDims()))
      if (int64_t place = type.findDim(dim.getName()); place >= 0)
        sharding.dims[number] = lies.dims[size_t(place)];
    return sharding;
  }

  static int64_t countParts(const IterationSplit &split) {
    int64_t parts = 1;
    for (const layout::DimSplit &axes : split.splits)
      for (layout::AxisRef axis : axes)
        parts *= axis.size;
    return parts;
  }

  /// Splits loops as the result is to lie, if that takes less time, or no more
  /// and no device computes more.
  void followWanted(const IterationSplit &ofTable, IterationSplit &chosen) {
    IterationSplit split = ofTable;
    followConstraint(split, wanted.getType(),
                     getSharding(wanted.getType(), layout.getMesh()));
    for (auto [dim, axes] : llvm::zip_equal(split.dims, split.splits))
      if (!op.getDimUse(dim.getName()).maySplit())
        axes.clear();
    SmallVector<Claim> contested = getContested(split);
    if (!contested.empty())
      split = settle(split, contested);
    keepMajorLoops(split);
    const double us = getCostUs(split), chosenUs = getCostUs(chosen);
    if (us > chosenUs ||
        (us == chosenUs && countParts(split) < countParts(chosen)))
      return;
    split.constrained = getValueName(wanted.getLoc());
    chosen = std::move(split);
  }

  /// Where several split loops say together which positions of an operand's
  /// dimension are read, a device needs all of it. Has one of them alone split,
  /// if that costs less: the others are computed whole and sliced.
  void keepMajorLoops(IterationSplit &chosen) {
    for (OpOperand &operand : op->getOpOperands())
      for (DimAttr dim :
           cast<NamedTensorType>(operand.get().getType()).getDims()) {
        const DimAccess access =
            op.getOperandAccess(operand.getOperandNumber(), dim.getName());
        SmallVector<StringAttr> loops;
        for (auto [loop, axes] : llvm::zip_equal(chosen.dims, chosen.splits))
          if (!axes.empty() &&
              llvm::is_contained(access.getLoops(), loop.getName()))
            loops.push_back(loop.getName());
        if (loops.size() < 2)
          continue;
        IterationSplit best = chosen;
        double leastUs = getCostUs(chosen);
        for (StringAttr kept : loops) {
          IterationSplit split = chosen;
          for (auto [other, axes] : llvm::zip_equal(split.dims, split.splits))
            if (other.getName() != kept &&
                llvm::is_contained(loops, other.getName()))
              axes.clear();
          if (const double us = getCostUs(split); us < leastUs) {
            leastUs = us;
            best = std::move(split);
          }
        }
        chosen = std::move(best);
      }
  }

  /// Where one of the loops that say together which positions of an operand's
  /// dimension are read has the axes of the dimension, gives them to another
  /// one if that costs less: a major one reads blocks where they lie, and the
  /// result is moved. No device may compute more.
  void followDigits(IterationSplit &chosen) {
    for (OpOperand &operand : op->getOpOperands()) {
      const unsigned number = operand.getOperandNumber();
      auto type = cast<NamedTensorType>(operand.get().getType());
      for (auto [dim, lies] :
           llvm::zip_equal(type.getDims(), tableShardings[number].dims)) {
        const DimAccess access = op.getOperandAccess(number, dim.getName());
        if (lies.empty() || access.getLoops().size() < 2)
          continue;
        SmallVector<size_t> loops;
        for (auto [index, loop] : llvm::enumerate(chosen.dims))
          if (llvm::is_contained(access.getLoops(), loop.getName()))
            loops.push_back(index);
        const IterationSplit before = chosen;
        double leastUs = getCostUs(before);
        for (size_t minor : loops)
          for (size_t major : loops) {
            const DimAttr loop = before.dims[major];
            if (before.splits[minor] != lies || !before.splits[major].empty() ||
                !op.getDimUse(loop.getName()).maySplit() ||
                getShare(loop, lies) > getShare(before.dims[minor], lies))
              continue;
            IterationSplit split = before;
            std::swap(split.splits[minor], split.splits[major]);
            if (const double us = getCostUs(split); us < leastUs) {
              leastUs = us;
              chosen = std::move(split);
            }
          }
      }
    }
  }

  /// The largest part of a dimension that a device has.
  static double getShare(DimAttr dim, const layout::DimSplit &axes) {
    return double(layout::getLocalSize(dim.getSize(), axes)) /
           double(dim.getSize());
  }

  /// Splits loops as an operand lies that a constraint is on, if that takes
  /// less time than what the table says. A reduction does so anyway: its result
  /// is smaller to send, and each device reduces its part alone.
  void followConstrained(const IterationSplit &ofTable,
                         IterationSplit &chosen) {
    for (OpOperand &operand : op->getOpOperands()) {
      const std::optional<std::string> constrained =
          findConstraint(operand.get());
      if (!constrained)
        continue;
      IterationSplit split = ofTable;
      auto type = cast<NamedTensorType>(operand.get().getType());
      SmallVector<DimAttr> loops;
      layout::Sharding wanted;
      const layout::Sharding lies = tableShardings[operand.getOperandNumber()];
      for (auto [dim, axes] : llvm::zip_equal(type.getDims(), lies.dims)) {
        const StringAttr loop =
            op.getOperandAccess(operand.getOperandNumber(), dim.getName())
                .getSplitLoop();
        if (!loop || !op.getDimUse(loop).maySplit())
          continue;
        loops.push_back(DimAttr::get(loop, dim.getSize()));
        wanted.dims.push_back(axes);
      }
      followConstraint(
          split, NamedTensorType::get(loops, type.getElementType()), wanted);
      SmallVector<Claim> contested = getContested(split);
      if (!contested.empty())
        split = settle(split, contested);
      const double us = getCostUs(split), chosenUs = getCostUs(chosen);
      // What is sent behind it is computed by more devices for no one.
      if (!isa<ReduceOp>(*op) &&
          (us > chosenUs ||
           (us == chosenUs && countParts(split) <= countParts(chosen))))
        continue;
      split.constrained = *constrained;
      chosen = std::move(split);
    }
  }

  /// The terms of a value that nothing else reads, before it is completed.
  Terms getPending(Value operand) const {
    auto known = before.find(operand.getDefiningOp());
    return known != before.end() && operand.hasOneUse() ? known->second.terms
                                                        : Terms();
  }

  /// Whether it stores terms in the order in which they are sent.
  bool isCopyToSend() const { return op->hasAttr(copyToSendAttr); }

  /// Those that the operands of an addition have in common, and that of what
  /// only renames, widens or copies a value.
  Terms getAddedTerms() const {
    if (!isa<AddOp, SubOp, NegOp, RenameOp>(*op) && !isWideningCast(op) &&
        !isCopyToSend())
      return {};
    Terms shared = getPending(op->getOperand(0));
    for (Value operand : llvm::drop_begin(op->getOperands())) {
      const Terms other = getPending(operand);
      if (other.kind != shared.kind)
        return {};
      llvm::erase_if(shared.axes, [&](layout::AxisRef axis) {
        return !llvm::is_contained(other.axes, axis);
      });
    }
    return shared.kind == layout::ReduceKind::Sum && !shared.axes.empty()
               ? shared
               : Terms();
  }

  /// Sums terms before they are completed, once for all of them: the sum is not
  /// split over their axes, but whoever reads it may be.
  void dropAxes(IterationSplit &split, const Terms &added) const {
    if (op->getNumOperands() < 2 && !isCopyToSend())
      return;
    for (layout::DimSplit &axes : split.splits)
      eraseAxes(axes, added.axes);
  }

  using Source = IterationSplit::Source;

  Source findSource() {
    if (constraint)
      return Source::Constraint;
    if (!layout.hasRoles())
      return Source::Table;
    const auto isOf = [&](Value operand, Source source) {
      auto known = before.find(operand.getDefiningOp());
      return known != before.end() && known->second.source == source;
    };
    const bool isOfUpdate =
        getPhase(op->getLoc()) == Phase::Update || findGradientReader() ||
        llvm::any_of(op->getOperands(), [&](Value operand) {
          auto constraint = operand.getDefiningOp<ReshardOp>();
          return (constraint && constraint.getRole()) ||
                 layout.isReadOfSum(operand) ||
                 isOf(operand, Source::Variables);
        });
    if (isOfUpdate)
      return Source::Variables;
    if (mayTakeOfParameter() && (op->getOperand(0).getDefiningOp<ReadOp>() ||
                                 isOf(op->getOperand(0), Source::Parameter)))
      return Source::Parameter;
    return Source::Table;
  }

  /// Whether what it gives is less to send than what it takes, or as much.
  bool mayTakeOfParameter() {
    if (op->getNumOperands() != 1 || op->getNumResults() != 1)
      return false;
    const auto count = [](Value value) {
      return cast<NamedTensorType>(value.getType()).getNumElements();
    };
    return isNarrowingCast(op) || isa<RenameOp>(op) ||
           (isa<ViewOp>(op) &&
            count(op->getResult(0)) < count(op->getOperand(0)));
  }

  /// Of gradients that are put together, the constraint that has them lie as
  /// the optimizer's state does, unless that splits what they are put along. So
  /// each leaves for itself, as soon as it is there. Null: there is none.
  ReshardOp findGradientReader() {
    auto stack = dyn_cast<StackOp>(*op);
    if (!stack || !layout.hasRoles() || !stack->hasOneUse())
      return {};
    auto reader = dyn_cast<ReshardOp>(*stack->user_begin());
    if (!reader || !reader.getRole())
      return {};
    const NamedTensorType type = reader.getType();
    const layout::Sharding wanted = getSharding(type, layout.getMesh());
    return wanted.dims[size_t(type.findDim(stack.getDim()))].empty()
               ? reader
               : ReshardOp();
  }

  void followReader(IterationSplit &split, ReshardOp reader) const {
    const NamedTensorType type = reader.getType();
    const layout::Sharding wanted = getSharding(type, layout.getMesh());
    for (auto [dim, axes] : llvm::zip_equal(split.dims, split.splits))
      if (int64_t place = type.findDim(dim.getName()); place >= 0)
        axes = wanted.dims[size_t(place)];
  }

  /// How an operand lies, as far as that is decided.
  layout::Sharding getKnownSharding(Value operand) const {
    auto maker = operand.getDefiningOp<PartitionOpInterface>();
    auto known = before.find(maker);
    return known == before.end()
               ? layout.getLegalSharding(operand)
               : getResultSharding(maker,
                                   cast<OpResult>(operand).getResultNumber(),
                                   known->second);
  }

  /// Splits loops as operands are.
  void followOperands(IterationSplit &split) {
    for (OpOperand &operand : op->getOpOperands()) {
      auto type = cast<NamedTensorType>(operand.get().getType());
      const layout::Sharding sharding = getKnownSharding(operand.get());
      for (auto [dim, axes] : llvm::zip_equal(type.getDims(), sharding.dims)) {
        const StringAttr loop =
            op.getOperandAccess(operand.getOperandNumber(), dim.getName())
                .getSplitLoop();
        if (!loop || !op.getDimUse(loop).maySplit())
          continue;
        for (auto [loopDim, own] : llvm::zip_equal(split.dims, split.splits))
          if (loopDim.getName() == loop)
            for (layout::AxisRef axis : axes)
              if (!llvm::is_contained(own, axis))
                own.push_back(axis);
      }
    }
  }

  SmallVector<Claim> getContested(const IterationSplit &split) const {
    SmallVector<Claim> claims;
    for (auto [index, axes] : llvm::enumerate(split.splits))
      for (layout::AxisRef axis : axes) {
        auto known = llvm::find_if(claims, [&](const Claim &claim) {
          return claim.axis == axis.axis;
        });
        if (known == claims.end())
          claims.push_back({axis.axis, {index}});
        else if (known->dims.back() != index)
          known->dims.push_back(index);
      }
    // First, so that of equal prices it is the one.
    for (Claim &claim : claims)
      if (llvm::all_of(claim.dims, [&](size_t index) {
            return layout.isExempt(split.dims[index].getName(), split.dims);
          }))
        claim.dims.insert(claim.dims.begin(), Claim::nobody);
    llvm::erase_if(claims,
                   [](const Claim &claim) { return claim.dims.size() < 2; });
    return claims;
  }

  /// One way to settle every contest.
  struct Choice {
    IterationSplit split;
    SmallVector<size_t> winners; ///< one dimension per contested axis
    double costUs;
  };

  Choice makeChoice(const IterationSplit &wanted, ArrayRef<Claim> contested,
                    ArrayRef<size_t> winners) {
    Choice choice{wanted, SmallVector<size_t>(winners), 0};
    for (auto [claim, winner] : llvm::zip_equal(contested, winners))
      for (size_t loser : claim.dims)
        if (loser != winner && loser != Claim::nobody)
          llvm::erase_if(choice.split.splits[loser], [&](layout::AxisRef axis) {
            return axis.axis == claim.axis;
          });
    choice.costUs = getCostUs(choice.split);
    return choice;
  }

  /// Every way to give each contested axis to one of its claimants.
  std::vector<Choice> enumerateChoices(const IterationSplit &wanted,
                                       ArrayRef<Claim> contested) {
    std::vector<SmallVector<size_t>> all{{}};
    for (const Claim &claim : contested) {
      std::vector<SmallVector<size_t>> extended;
      for (const SmallVector<size_t> &winners : all)
        for (size_t winner : claim.dims) {
          extended.push_back(winners);
          extended.back().push_back(winner);
        }
      all = std::move(extended);
    }
    std::vector<Choice> choices;
    for (const SmallVector<size_t> &winners : all)
      choices.push_back(makeChoice(wanted, contested, winners));
    return choices;
  }

  /// Settles axis by axis, the others lying with the claimants that won them or
  /// that come first. Gives the outcome and what differs from it in one axis.
  std::vector<Choice> settleInTurn(const IterationSplit &wanted,
                                   ArrayRef<Claim> contested) {
    SmallVector<size_t> winners;
    for (const Claim &claim : contested)
      winners.push_back(claim.dims.front());
    Choice best = makeChoice(wanted, contested, winners);
    auto tryOthers = [&](size_t index, llvm::function_ref<void(Choice)> visit) {
      size_t kept = best.winners[index];
      for (size_t winner : contested[index].dims)
        if (winner != kept) {
          winners = best.winners;
          winners[index] = winner;
          visit(makeChoice(wanted, contested, winners));
        }
    };
    for (size_t index = 0; index < contested.size(); ++index) {
      Choice cheapest = best;
      tryOthers(index, [&](Choice choice) {
        if (choice.costUs < cheapest.costUs)
          cheapest = std::move(choice);
      });
      best = std::move(cheapest);
    }
    std::vector<Choice> choices{best};
    for (size_t index = 0; index < contested.size(); ++index)
      tryOthers(index,
                [&](Choice choice) { choices.push_back(std::move(choice)); });
    return choices;
  }

  /// Tries every way to settle the contests if there are few.
  IterationSplit settle(const IterationSplit &wanted,
                        ArrayRef<Claim> contested) {
    size_t ways = 1;
    for (const Claim &claim : contested)
      ways = std::min(ways * claim.dims.size(), maxEnumerated + 1);
    std::vector<Choice> choices = ways <= maxEnumerated
                                      ? enumerateChoices(wanted, contested)
                                      : settleInTurn(wanted, contested);
    // Equal costs: the dimension that comes first in the result.
    auto isCheaper = [](const Choice &a, const Choice &b) {
      return a.costUs < b.costUs;
    };
    auto cheapest = llvm::min_element(choices, isCheaper);
    std::iter_swap(choices.begin(), cheapest);
    auto next =
        std::min_element(std::next(choices.begin()), choices.end(), isCheaper);
    const Choice &best = choices.front(), &second = *next;
    IterationSplit split = best.split;
    AxisConflict conflict;
    conflict.chosenUs = best.costUs;
    conflict.rejectedUs = second.costUs;
    for (auto [index, claim] : llvm::enumerate(contested)) {
      if (best.winners[index] == second.winners[index] ||
          best.winners[index] == Claim::nobody ||
          second.winners[index] == Claim::nobody)
        continue;
      auto getName = [&](size_t dim) {
        return wanted.dims[dim].getName().str();
      };
      conflict.dim = getName(best.winners[index]);
      conflict.otherDim = getName(second.winners[index]);
      conflict.axis = layout.getMesh().getAxes()[claim.axis].name;
      conflict.rejected =
          "\"" + conflict.otherDim + "\" keeps axis \"" + conflict.axis + "\"";
      split.conflict = std::move(conflict);
      break;
    }
    return split;
  }

  double getCostUs(const IterationSplit &split) {
    double costUs = 0;
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      costUs += getReshardUs(op->getOperand(i).getType(), tableShardings[i],
                             getOperandSharding(op, i, split));
    for (unsigned i = 0; i < op->getNumResults(); ++i) {
      layout::Sharding result = getResultSharding(op, i, split);
      Terms terms = getOwnTerms(op, i, split);
      result.partialKind = terms.kind;
      result.partialAxes = terms.axes;
      costUs += getReshardUs(op->getResult(i).getType(), result,
                             tableShardings[op->getNumOperands() + i]);
    }
    return costUs;
  }

  double getReshardUs(Type type, const layout::Sharding &source,
                      const layout::Sharding &target) {
    return layout.planReshard(cast<NamedTensorType>(type), source, target)
        .best.costUs;
  }

  /// Beyond as many ways to settle the contests, as six axes with two claimants
  /// each have, not all are priced: their number is exponential in the axes.
  static constexpr size_t maxEnumerated = 64;

  PartitionOpInterface op;
  const ModuleLayout &layout;
  const SplitMap &before;
  ReshardOp constraint; ///< by which it is split
  ReshardOp wanted;     ///< as which its result is to lie
  SmallVector<layout::Sharding> tableShardings; ///< operands, then results
};

} // namespace

IterationSplit meshc::chooseIterationSplit(PartitionOpInterface op,
                                           const ModuleLayout &layout,
                                           const SplitMap &before,
                                           Followed followed) {
  return SplitChooser(op, layout, before, followed).run();
}
