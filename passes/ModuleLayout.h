#ifndef MESHC_PASSES_MODULELAYOUT_H
#define MESHC_PASSES_MODULELAYOUT_H

#include "dialect/ND.h"
#include "layout/Layout.h"
#include "layout/ReshardPlanner.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <memory>
#include <set>

namespace meshc {

/// Mesh and layout table of a module, with the operations they come from.
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
  /// Whether parameters, their gradients or state may lie otherwise than values
  /// of their dims, by rules of their role or name.
  bool hasRoles() const { return areRoles; }
  /// Axes that split `dim`, in canonical form, whatever its `unless` says;
  /// empty if no rule without a role names it.
  layout::DimSplit getSplit(llvm::StringRef dim) const;
  /// Whether the rule for `dim` does not hold beside one of `dims`.
  bool isExempt(llvm::StringRef dim, llvm::ArrayRef<nd::DimAttr> dims) const;
  /// The rule without a role for `dim`, or null.
  nd::RuleOp findRule(llvm::StringRef dim) const;

  /// How a value lies, by its dims and by `name` (OriginAttr::getPath). Two of
  /// its dimensions on one axis are an error at `op`, reported once for each
  /// pair.
  llvm::FailureOr<layout::Sharding> getSharding(nd::NamedTensorType type,
                                                mlir::Operation *op,
                                                std::string_view name = {});
  /// How a variable lies, or the gradient or state of a parameter.
  llvm::FailureOr<layout::Sharding> getSharding(nd::VariableOp variable);
  llvm::FailureOr<layout::Sharding> getSharding(nd::VariableOp parameter,
                                                layout::Role role);
  /// The same for a value between two operations, which is never illegal: of
  /// two dimensions on one axis the first in storage order keeps it. The
  /// compiler makes such values where the user's tensors are all legal, for
  /// example inside a product of three tensors. What is read of a variable, or
  /// constrained, lies as that does.
  layout::Sharding getLegalSharding(mlir::Value value) const;
  /// The rule for a role or name by which `dim` is split where the value of
  /// `use` comes from: a variable, or the update of one. Null: none.
  nd::RuleOp findRoleRule(mlir::OpOperand &use, llvm::StringRef dim) const;
  /// The parameter that `value` is read of, or the gradient of, if a rule is
  /// for it by its name.
  std::optional<std::string> findNamedParameter(mlir::Value value) const;
  /// Whether parts of a step have left `value`, of a gradient.
  bool isReadOfSum(mlir::Value value) const;

private:
  llvm::FailureOr<layout::Sharding> getSharding(nd::NamedTensorType type,
                                                std::string_view name,
                                                layout::Role role,
                                                mlir::Operation *op);
  /// Whether a rule by the name of `parameter` is for one of its dimensions.
  bool liesByName(nd::VariableOp parameter) const;

  layout::Mesh mesh;
  std::unique_ptr<layout::ReshardPlans> plans;
  layout::Layout rules;
  llvm::SmallVector<nd::RuleOp> ruleOps;
  llvm::StringMap<nd::VariableOp> variables;
  bool areRoles = false;
  llvm::StringSet<> namedParameters;
  std::set<std::pair<std::string, std::string>> reported;
  /// getLegalSharding of what has no name, found once for each type.
  mutable llvm::DenseMap<mlir::Type, layout::Sharding> legalShardings;
};

/// What a variable is to the layout.
layout::Role getRole(nd::VariableOp variable);
/// Names of the dimensions of `type`, in storage order.
std::vector<std::string> getDimNames(nd::NamedTensorType type);
/// Bytes of one stored element; a boolean takes one.
int64_t getElementBytes(nd::NamedTensorType type);

} // namespace meshc

#endif
