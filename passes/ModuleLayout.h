#ifndef MESHC_PASSES_MODULELAYOUT_H
#define MESHC_PASSES_MODULELAYOUT_H

#include "dialect/ND.h"
#include "layout/LayoutRules.h"
#include "layout/ReshardPlanner.h"

#include "llvm/ADT/StringMap.h"

#include <memory>
#include <set>

namespace meshc {

/// Mesh and layout table of a module, in the terms of layout/, with the
/// operations they come from.
class ModuleLayout {
public:
  /// Errors: every rule that names an unknown dimension, at the rule.
  static llvm::FailureOr<ModuleLayout> create(mlir::ModuleOp module);

  const layout::Mesh &getMesh() const { return mesh; }
  /// How a tensor goes from one sharding to another, by the prices of the
  /// module's machine. Plans are remembered.
  const layout::ReshardChoice &
  planReshard(nd::NamedTensorType type, const layout::Sharding &source,
              const layout::Sharding &target) const;
  /// Axes that split `dim`, in canonical form; empty if no rule names it.
  layout::DimSplit getSplit(llvm::StringRef dim) const;
  /// The rule for `dim`, or null.
  nd::RuleOp findRule(llvm::StringRef dim) const;

  /// The sharding the table gives a tensor of these dimensions. Two of them on
  /// one axis are an error at `op`, reported once for each pair.
  llvm::FailureOr<layout::Sharding> getSharding(nd::NamedTensorType type,
                                                mlir::Operation *op);
  /// The same for a value between two operations, which is never illegal: of
  /// two dimensions on one axis the first in storage order keeps it. The
  /// compiler makes such values where the user's tensors are all legal, for
  /// example inside a product of three tensors.
  layout::Sharding getLegalSharding(nd::NamedTensorType type) const;

private:
  layout::Mesh mesh;
  std::unique_ptr<layout::ReshardPlans> plans;
  layout::LayoutRules rules;
  llvm::StringMap<nd::RuleOp> ruleOps;
  std::set<std::pair<std::string, std::string>> reported;
};

/// Names of the dimensions of `type`, in storage order.
std::vector<std::string> getDimNames(nd::NamedTensorType type);
/// Bytes of one stored element; a boolean takes one.
int64_t getElementBytes(nd::NamedTensorType type);

} // namespace meshc

#endif
