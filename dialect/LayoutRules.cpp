// Rules of the layout as operations, in the terms of layout/.

#include "dialect/ND.h"
#include "layout/Layout.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

static std::vector<std::string> getNames(ArrayAttr names) {
  std::vector<std::string> texts;
  if (names)
    for (auto name : names.getAsRange<StringAttr>())
      texts.push_back(name.str());
  return texts;
}

layout::LayoutRule RuleOp::getRule() {
  const auto role = getRole() ? layout::Role(*getRole()) : layout::Role::Value;
  return {getNames(getDims()), getNames(getAxes()), role,
          getNames(getUnlessAttr()), getValues().value_or("").str()};
}

RuleOp RuleOp::create(OpBuilder &builder, Location loc,
                      const layout::LayoutRule &rule) {
  auto getAttr = [&](const std::vector<std::string> &names) {
    return builder.getStrArrayAttr(
        SmallVector<StringRef>(names.begin(), names.end()));
  };
  auto role = rule.role == layout::Role::Value
                  ? LayoutRoleAttr()
                  : LayoutRoleAttr::get(builder.getContext(),
                                        LayoutRole(uint32_t(rule.role)));
  return create(builder, loc, role, getAttr(rule.dims), getAttr(rule.axes),
                rule.unless.empty() ? ArrayAttr() : getAttr(rule.unless),
                rule.values.empty() ? StringAttr()
                                    : builder.getStringAttr(rule.values));
}

LogicalResult RuleOp::verify() {
  if (getDims().empty() && !getRole())
    return emitOpError("(C3) it has neither a role nor dimensions");
  if (getRole() && getValues())
    return emitOpError("(C4) a rule for values has a role");
  // The first of those that stand together looks at all: there may be
  // thousands.
  if (isa_and_nonnull<RuleOp>((*this)->getPrevNode()))
    return success();
  SmallVector<RuleOp> ops;
  std::vector<layout::LayoutRule> rules;
  std::vector<std::string> dims;
  for (auto rule : (*this)->getParentOfType<ModuleOp>().getOps<RuleOp>()) {
    if (rule.getDims().empty() && !rule.getRole())
      return success(); // an error of its own
    ops.push_back(rule);
    rules.push_back(rule.getRule());
    llvm::append_range(dims, rules.back().dims);
    llvm::append_range(dims, rules.back().unless);
  }
  auto table = layout::Layout::create(getMesh(*this), std::move(rules), dims);
  auto *errors = std::get_if<std::vector<layout::LayoutError>>(&table);
  if (!errors)
    return success();
  using Kind = layout::LayoutError::Kind;
  const layout::LayoutError &error = errors->front();
  RuleOp rule = ops[error.rule];
  if (error.kind == Kind::UnknownAxis)
    return rule.emitOpError("(C1) the mesh has no axis \"")
           << error.axis << "\"";
  if (error.kind == Kind::RepeatedAxis)
    return rule.emitOpError("(C1) axis \"")
           << error.axis << "\" is named twice";
  if (error.dim.empty())
    return rule.emitOpError("(C2) its role has another rule for all tensors");
  return rule.emitOpError("(C2) dimension \"")
         << error.dim << "\" has another rule";
}
