#include "tests/end_to_end/Harness.h"

#include <map>
#include <random>
#include <set>

using namespace meshc;
using namespace meshc::test;

static std::vector<std::string> splitText(llvm::StringRef text,
                                          char separator) {
  std::vector<std::string> parts;
  llvm::SmallVector<llvm::StringRef> pieces;
  text.split(pieces, separator, -1, /*KeepEmpty=*/false);
  for (llvm::StringRef piece : pieces)
    parts.push_back(piece.str());
  return parts;
}

std::vector<layout::MeshAxis> Layout::getAxes() const {
  std::vector<layout::MeshAxis> axes;
  for (const std::string &axis : splitText(mesh, ',')) {
    auto [name, size] = llvm::StringRef(axis).split('=');
    axes.push_back({name.str(), std::stoll(size.str())});
  }
  return axes;
}

std::vector<std::string> Layout::getLines() const {
  std::vector<std::string> lines;
  int depth = 0;
  bool isNew = true;
  for (char c : rules) {
    depth += (c == '(') - (c == ')');
    if (c == ',' && depth == 0) {
      isNew = true;
      continue;
    }
    if (isNew)
      lines.emplace_back();
    isNew = false;
    lines.back() += c;
  }
  return lines;
}

std::vector<layout::LayoutRule> Layout::getRules() const {
  std::vector<layout::LayoutRule> parsed;
  for (const std::string &rule : splitText(rules, ',')) {
    auto [dim, axes] = llvm::StringRef(rule).split('=');
    parsed.push_back({{dim.str()}, splitText(axes, '+')});
  }
  return parsed;
}

void meshc::test::PrintTo(const Layout &layout, std::ostream *out) {
  *out << "--mesh " << layout.mesh << " --layout '" << layout.rules << "'";
}

/// The right-hand sides a rule may have: "", "a", "b", "a+b", "b+a", ...
static std::vector<std::string> getChoices(llvm::StringRef mesh,
                                           unsigned maxAxes) {
  std::vector<std::string> choices = {""};
  auto axes = Layout{mesh.str(), ""}.getAxes();
  for (const auto &major : axes) {
    choices.push_back(major.name);
    for (const auto &minor : axes)
      if (maxAxes > 1 && minor.name != major.name)
        choices.push_back(major.name + "+" + minor.name);
  }
  return choices;
}

/// The table number `number`, counting with one digit per dimension.
static Layout getLayout(llvm::StringRef mesh, llvm::ArrayRef<std::string> dims,
                        const std::vector<std::string> &choices,
                        uint64_t number) {
  Layout layout{mesh.str(), ""};
  for (const std::string &dim : dims) {
    const std::string &axes = choices[number % choices.size()];
    number /= choices.size();
    if (!axes.empty())
      layout.rules += (layout.rules.empty() ? "" : ",") + dim + "=" + axes;
  }
  return layout;
}

static uint64_t countLayouts(llvm::ArrayRef<std::string> dims,
                             const std::vector<std::string> &choices) {
  uint64_t count = 1;
  for (size_t i = 0; i < dims.size(); ++i)
    count *= choices.size();
  return count;
}

std::vector<Layout> meshc::test::enumerateLayouts(
    llvm::StringRef mesh, llvm::ArrayRef<std::string> dims, unsigned maxAxes) {
  std::vector<std::string> choices = getChoices(mesh, maxAxes);
  std::vector<Layout> layouts;
  for (uint64_t i = 0; i < countLayouts(dims, choices); ++i)
    layouts.push_back(getLayout(mesh, dims, choices, i));
  return layouts;
}

bool meshc::test::isLegal(mlir::ModuleOp model, const Layout &layout) {
  std::vector<std::string> names;
  for (auto dim : model.getOps<nd::DimOp>())
    names.push_back(dim.getName().str());
  auto created = layout::Layout::create(layout::Mesh(layout.getAxes()),
                                        layout.getRules(), names);
  auto *rules = std::get_if<layout::Layout>(&created);
  if (!rules)
    return false;
  bool legal = true;
  model.walk([&](mlir::Operation *op) {
    for (mlir::Type type : op->getResultTypes())
      if (auto named = mlir::dyn_cast<nd::NamedTensorType>(type)) {
        std::vector<std::string> dims;
        for (nd::DimAttr dim : named.getDims())
          dims.push_back(dim.getName().str());
        legal &= rules->getLayout({dims, named.getSizes()}, layout::Role::Value)
                     .index() == 0;
      }
  });
  return legal;
}

Layout meshc::test::drawLegalLayout(mlir::ModuleOp model, llvm::StringRef mesh,
                                    llvm::ArrayRef<std::string> dims,
                                    unsigned maxAxes, std::mt19937_64 &random) {
  const std::vector<std::string> choices = getChoices(mesh, maxAxes);
  std::vector<std::string> order(dims.begin(), dims.end());
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[random() % i]);
  std::map<std::string, std::string> chosen; // axes by dimension
  auto makeLayout = [&] {
    Layout layout{mesh.str(), ""};
    for (const std::string &dim : dims)
      if (auto found = chosen.find(dim); found != chosen.end())
        layout.rules +=
            (layout.rules.empty() ? "" : ",") + dim + "=" + found->second;
    return layout;
  };
  for (const std::string &dim : order) {
    const std::string &axes = choices[random() % choices.size()];
    if (axes.empty())
      continue;
    chosen[dim] = axes;
    if (!isLegal(model, makeLayout()))
      chosen.erase(dim);
  }
  return makeLayout();
}

std::vector<Layout> meshc::test::sampleLayouts(mlir::ModuleOp model,
                                               llvm::StringRef mesh,
                                               llvm::ArrayRef<std::string> dims,
                                               unsigned maxAxes, size_t count,
                                               uint64_t seed) {
  std::vector<std::string> choices = getChoices(mesh, maxAxes);
  const uint64_t total = countLayouts(dims, choices);
  if (total <= count)
    return enumerateLayouts(mesh, dims, maxAxes);
  std::mt19937_64 random(seed);
  std::vector<Layout> layouts;
  std::set<std::string> seen;
  auto add = [&](const Layout &layout) {
    if (seen.insert(layout.rules).second)
      layouts.push_back(layout);
  };
  for (size_t i = 0; i < 20 * count && layouts.size() < count; ++i)
    add(drawLegalLayout(model, mesh, dims, maxAxes, random));
  for (size_t i = 0; i < count / 8; ++i)
    add(getLayout(mesh, dims, choices, random() % total));
  return layouts;
}
