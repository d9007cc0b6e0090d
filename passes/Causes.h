#ifndef MESHC_PASSES_CAUSES_H
#define MESHC_PASSES_CAUSES_H

#include "layout/ReshardPlanner.h"
#include "passes/TermFlow.h"

namespace meshc {

/// Says why `use` needs its value in another sharding than it has.
///
/// The rule is one of these sentences, in the backward pass behind the name of
/// the value and ": ", with its kind:
///
/// - `contraction over split dimension "x"` (Contraction): a summed dimension
/// is
///   split, and the reader needs the whole sum;
/// - `reduction over split dimension "x"` (Reduction): the same of a reduce or
/// a
///   gather;
/// - `constraint on "v"` (Constraint): the user's sharding for one value;
/// - `dimensions "x" and "y" share axis "a"` (Conflict): the reader could keep
///   only one of them split;
/// - `window "x" = x + w of layout rule ...` (Window): the reader reads
/// positions
///   around its own;
/// - `layout rule "x" -> "a"` (Rule) or `no layout rule for "x"` (NoRule),
/// which
///   may go on with `beside "params: * -> a"`: what the table says about a
///   dimension that the value has split otherwise.
class CauseBuilder {
public:
  CauseBuilder(const ModuleLayout &layout, const SplitMap &splits,
               const TermFlow &flow)
      : layout(layout), splits(splits), flow(flow) {}

  /// One for each operation that the value is for: who reads it, or, where it
  /// is only widened under its own name, or lies as rules for a role say, who
  /// reads that.
  llvm::SmallVector<mlir::Attribute>
  build(mlir::OpOperand &use, const layout::Sharding &had,
        const layout::Sharding &needed,
        const layout::ReshardChoice &choice) const;

private:
  struct Reason {
    nd::CauseKind kind = nd::CauseKind::Constraint;
    std::string rule;
    llvm::SmallVector<mlir::Location> spans;
    const AxisConflict *conflict = nullptr;
    bool isWritten = false; ///< the spec asks for it
  };
  Reason getReason(mlir::OpOperand &use, const layout::Sharding &had,
                   const layout::Sharding &needed) const;
  Reason getReasonOfTerms(mlir::Value value,
                          llvm::ArrayRef<layout::AxisRef> completed) const;
  void addRule(llvm::StringRef dim, Reason &reason) const;
  /// The rule for a role or name by which a variable lies as `use` finds it.
  void addRuleOfVariable(mlir::OpOperand &use, nd::DimAttr dim,
                         Reason &reason) const;

  const ModuleLayout &layout;
  const SplitMap &splits;
  const TermFlow &flow;
};

} // namespace meshc

#endif
