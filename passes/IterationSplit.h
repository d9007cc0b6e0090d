#ifndef MESHC_PASSES_ITERATIONSPLIT_H
#define MESHC_PASSES_ITERATIONSPLIT_H

#include "passes/ConstraintFlow.h"
#include "passes/ModuleLayout.h"

#include "llvm/ADT/DenseMap.h"

namespace meshc {

/// Two dimensions of an iteration space on one axis, though no tensor has both:
/// one of them keeps the axis.
struct AxisConflict {
  std::string dim; ///< keeps the axis
  std::string otherDim;
  std::string axis;
  double chosenUs = 0;   ///< resharding with this choice, under the cost model
  double rejectedUs = 0; ///< with the best other choice
  std::string rejected;  ///< what that is
};

/// Pending terms of a value; `axes` are sorted and empty iff `kind` is None.
struct Terms {
  layout::ReduceKind kind = layout::ReduceKind::None;
  std::vector<layout::AxisRef> axes;

  bool empty() const { return axes.empty(); }
  bool operator==(const Terms &) const = default;
};

/// How the loops of one operation are split.
struct IterationSplit {
  llvm::SmallVector<nd::DimAttr> dims;  ///< the loops
  std::vector<layout::DimSplit> splits; ///< one per loop
  std::optional<AxisConflict> conflict;
  /// What says how it is split: the table, or, where that has rules for roles,
  /// how variables lie.
  enum class Source : uint8_t {
    Table,
    Variables,  ///< it belongs to an update, or adds up gradients
    Parameter,  ///< it takes a part of a parameter, or rounds it
    Constraint, ///< it computes element by element what a constraint is on,
                ///< or from that
  };
  Source source = Source::Table;
  /// What a constraint is on, as plans call it, if it is split as that lies:
  /// because that is asked for (Source::Constraint), or costs less.
  std::optional<std::string> constrained;
  /// With which terms its one result leaves it, if its reader takes them along.
  Terms terms;

  const layout::DimSplit &get(mlir::StringAttr dim) const;
  /// Whether one of these axes splits a dimension.
  bool uses(llvm::ArrayRef<layout::AxisRef> axes) const;
};

/// How the operations of a program split their loops.
using SplitMap = llvm::DenseMap<mlir::Operation *, IterationSplit>;

/// Splits the loops of `op` as the layout table says. Where two of them
/// claim one axis, or one that a rule exempts beside another, every choice is
/// priced by what it takes to reshard operands and results from and to the
/// table's shardings, and the cheapest is taken. Where the layout has rules for
/// roles, what belongs to the update of variables, or adds up gradients, is
/// split as its operands are, `before` being the splits of what makes them.
/// What follows a constraint is split as that says; where an operand lies so,
/// or the result is to, and not as the table says, the price decides.
IterationSplit chooseIterationSplit(nd::PartitionOpInterface op,
                                    const ModuleLayout &layout,
                                    const SplitMap &before,
                                    Followed followed = {});

/// The sharding in which `op` reads operand `operand`, complete: a dimension
/// that is a loop is split as the loop is, one that blocks of one split loop
/// read a window of has that window where it is smaller than the dimension.
layout::Sharding getOperandSharding(nd::PartitionOpInterface op,
                                    unsigned operand,
                                    const IterationSplit &split);
/// The sharding of result `result` of `op` without its terms.
layout::Sharding getResultSharding(nd::PartitionOpInterface op, unsigned result,
                                   const IterationSplit &split);
/// The terms that result `result` of `op` has before any operand is partial:
/// over the axes of the reduced loops that it lacks.
Terms getOwnTerms(nd::PartitionOpInterface op, unsigned result,
                  const IterationSplit &split);

} // namespace meshc

#endif
