// Rules of the layout as operations, in the terms of layout/.

#include "dialect/ND.h"
#include "layout/Layout.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

layout::LayoutRule RuleOp::getRule() {
  return std::get<layout::LayoutRule>(layout::parseRule(getText()));
}

RuleOp RuleOp::create(OpBuilder &builder, Location loc,
                      const layout::LayoutRule &rule) {
  return create(builder, loc, toString(rule));
}

LogicalResult RuleOp::verify() {
  auto own = layout::parseRule(getText());
  if (auto *error = std::get_if<layout::RuleSyntaxError>(&own))
    return emitOpError("(C1) is no rule: ") << toString(*error);
  // The first of those that stand together looks at all: there may be
  // thousands.
  if (isa_and_nonnull<RuleOp>((*this)->getPrevNode()))
    return success();
  SmallVector<RuleOp> ops;
  std::vector<layout::LayoutRule> rules;
  for (auto rule : (*this)->getParentOfType<ModuleOp>().getOps<RuleOp>()) {
    auto parsed = layout::parseRule(rule.getText());
    if (std::holds_alternative<layout::RuleSyntaxError>(parsed))
      return success(); // an error of its own
    ops.push_back(rule);
    rules.push_back(std::get<layout::LayoutRule>(std::move(parsed)));
  }
  auto table = layout::Layout::create(getMesh(*this), std::move(rules));
  auto *errors = std::get_if<std::vector<layout::LayoutError>>(&table);
  if (!errors)
    return success();
  using Kind = layout::LayoutError::Kind;
  const layout::LayoutError &error = errors->front();
  RuleOp rule = ops[error.rule];
  if (error.kind == Kind::UnknownAxis)
    return rule.emitOpError("(C2) the mesh has no axis \"")
           << error.axis << "\"";
  if (error.kind == Kind::RepeatedAxis)
    return rule.emitOpError("(C2) axis \"")
           << error.axis << "\" is named twice";
  if (error.dim.empty())
    return rule.emitOpError("(C3) its role has another rule for all tensors");
  return rule.emitOpError("(C3) dimension \"")
         << error.dim << "\" has another rule";
}
