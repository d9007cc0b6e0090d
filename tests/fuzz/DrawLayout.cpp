// Layouts that random programs are run under.

#include "tests/fuzz/Compilation.h"
#include "tests/fuzz/Print.h"
#include "tests/fuzz/Run.h"

#include "dialect/Locations.h"

#include <fmt/format.h>

#include <set>

using namespace meshc;
using namespace meshc::fuzz;

namespace {

/// An input, a variable or a value that has a name, and its dims.
struct NamedValue {
  std::string name;
  std::vector<std::string> dims;
};

/// Adds to rules for dims, in the form of a spec, rules of roles, by names and
/// such with exceptions.
class RuleDrawer {
public:
  RuleDrawer(const Tree &tree, const meshc::test::Layout &legal,
             const std::vector<std::string> &dims,
             const std::vector<NamedValue> &values, std::mt19937_64 &random)
      : text(print(tree)), mesh(legal.mesh), dims(dims), values(values),
        random(random) {
    for (const layout::LayoutRule &rule : legal.getRules())
      rules.push_back(rule);
    for (const layout::MeshAxis &axis : legal.getAxes())
      axes.push_back(axis.name);
  }

  meshc::test::Layout run() {
    std::vector<layout::LayoutRule> more{random() % 2 == 0 ? drawRole()
                                                           : drawNamed()};
    if (random() % 2 == 0)
      more.push_back(random() % 2 == 0 ? drawRole() : drawExempt());
    if (random() % 3 == 0)
      more.push_back(drawNamed());
    for (layout::LayoutRule &rule : more) {
      rules.push_back(std::move(rule));
      // A program may lack parameters, or dims that meet.
      if (!isAccepted())
        rules.pop_back();
    }
    return spell();
  }

private:
  /// One of them, or two in some order.
  std::vector<std::string> drawAxes() {
    std::vector<std::string> drawn{axes[random() % axes.size()]};
    const std::string &other = axes[random() % axes.size()];
    if (random() % 3 == 0 && other != drawn.front())
      drawn.push_back(other);
    return drawn;
  }
  std::string drawDim() { return dims[random() % dims.size()]; }

  layout::LayoutRule drawRole() {
    layout::LayoutRule rule;
    rule.role = layout::namedRoles[random() % layout::namedRoles.size()];
    rule.axes = drawAxes();
    if (random() % 3 == 0 && !dims.empty()) {
      rule.dims.push_back(drawDim());
      if (random() % 4 == 0)
        rule.axes.clear();
    }
    if (random() % 4 == 0 && !dims.empty())
      rule.unless.push_back(drawDim());
    return rule;
  }

  /// By one name, or for all with the same last letters.
  layout::LayoutRule drawNamed() {
    if (values.empty())
      return drawRole();
    const NamedValue &value = values[random() % values.size()];
    layout::LayoutRule rule;
    rule.values = value.name;
    if (random() % 4 == 0)
      rule.values = "*" + value.name.substr(value.name.size() - 1);
    rule.dims = {value.dims[random() % value.dims.size()]};
    if (random() % 4 != 0)
      rule.axes = drawAxes();
    return rule;
  }

  /// Of a dim that no rule is for, over an axis that others may have.
  layout::LayoutRule drawExempt() {
    layout::LayoutRule rule;
    rule.axes = {axes[random() % axes.size()]};
    rule.dims = {dims.empty() ? "" : drawDim()};
    for (const layout::LayoutRule &other : rules)
      if (other.isOfDims() && llvm::is_contained(other.axes, rule.axes.front()))
        llvm::append_range(rule.unless, other.dims);
    if (rule.unless.empty() && !dims.empty())
      rule.unless.push_back(drawDim());
    return rule;
  }

  meshc::test::Layout spell() const {
    std::vector<std::string> lines;
    for (const layout::LayoutRule &rule : rules)
      lines.push_back(toString(rule));
    return {mesh, fmt::format("{}", fmt::join(lines, ", "))};
  }
  bool isAccepted() const { return bool(Compilation(text, spell()).module); }

  const std::string text, mesh;
  const std::vector<std::string> &dims;
  const std::vector<NamedValue> &values;
  std::mt19937_64 &random;
  std::vector<layout::LayoutRule> rules;
  std::vector<std::string> axes;
};

} // namespace

meshc::test::Layout meshc::fuzz::drawLayout(const Tree &tree,
                                            const std::string &mesh,
                                            uint64_t seed) {
  Compilation whole(print(tree), meshc::test::Layout{mesh, ""});
  if (!whole.module)
    return {mesh, ""};
  // A rule is refused where no tensor of the program has its dim.
  std::set<std::string> present;
  std::vector<NamedValue> values;
  whole.module->walk([&](mlir::Operation *op) {
    for (mlir::Value result : op->getResults()) {
      auto named = mlir::dyn_cast<nd::NamedTensorType>(result.getType());
      if (!named)
        continue;
      NamedValue value;
      for (nd::DimAttr dim : named.getDims())
        value.dims.push_back(dim.getName().str());
      present.insert(value.dims.begin(), value.dims.end());
      if (!hasName(op->getLoc()) || value.dims.empty() ||
          getOrigin(op->getLoc()).getKind() != nd::OriginKind::Value)
        continue;
      value.name = getOrigin(op->getLoc()).getPath();
      values.push_back(std::move(value));
    }
  });
  std::vector<std::string> names;
  for (const Dim &dim : tree.dims)
    if (present.contains(dim.name))
      names.push_back(dim.name);
  std::mt19937_64 random(seed);
  const meshc::test::Layout legal =
      meshc::test::drawLegalLayout(*whole.module, mesh, names, 2, random);
  return random() % 2 == 0
             ? legal
             : RuleDrawer(tree, legal, names, values, random).run();
}
