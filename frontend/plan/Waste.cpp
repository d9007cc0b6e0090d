#include "frontend/plan/Waste.h"

#include "frontend/plan/Quantities.h"
#include "layout/Sharding.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace meshc;
using namespace meshc::plan;

/// The part of the time whose loss to uneven sizes is told: another size or
/// mesh is hardly chosen for less.
static constexpr double toldLoss = 0.1;
/// The part of the products that has to be split over an axis.
static constexpr double wantedShare = 0.5;

const char *plan::getName(Waste::Kind kind) {
  switch (kind) {
  case Waste::Kind::Uneven:
    return "uneven";
  case Waste::Kind::OneDevice:
    return "one_device";
  case Waste::Kind::Repeated:
    return "repeated";
  }
  std::abort();
}

static std::string formatPercent(double part) {
  return fmt::format("{:.0f}%", 100 * part);
}

/// How many of the nested blocks of `block` positions over `axes` hold some of
/// the first `count`.
static int64_t countFilled(int64_t count, int64_t block,
                           std::span<const layout::AxisRef> axes) {
  if (count == 0 || axes.empty())
    return count > 0;
  const int64_t inner = (block + axes[0].size - 1) / axes[0].size;
  const auto rest = axes.subspan(1);
  const int64_t full = count / inner;
  return (full > 0 ? full * countFilled(inner, inner, rest) : 0) +
         countFilled(count % inner, inner, rest);
}

namespace {
/// A rule as it is for one of its dims.
struct DimRule {
  const exec::NamedDimT &dim;
  std::string text; ///< heads -> model
  std::vector<layout::AxisRef> axes;
  const exec::Span *span; ///< may be null
};
} // namespace

static std::optional<Waste> findUneven(const DimRule &rule) {
  Waste waste{Waste::Kind::Uneven, &rule.dim, rule.axes};
  for (const layout::AxisRef &axis : waste.axes)
    waste.numDevices *= axis.size;
  const int64_t size = rule.dim.size;
  const int64_t block = layout::getLocalSize(size, waste.axes);
  waste.numIdle = waste.numDevices - countFilled(size, size, waste.axes);
  waste.lost = 1 - double(size) / (double(block) * double(waste.numDevices));
  if (waste.numIdle == 0 && waste.lost < toldLoss)
    return std::nullopt;
  std::string idle;
  if (waste.numIdle > 0)
    idle = fmt::format("{} of them {} none, ", waste.numIdle,
                       waste.numIdle == 1 ? "has" : "have");
  waste.text = fmt::format(
      "{}: {} over {} in blocks of {}: {}{} of the time is lost", rule.text,
      formatCount(size, "position"), formatCount(waste.numDevices, "device"),
      block, idle, formatPercent(waste.lost));
  waste.span = rule.span;
  return waste;
}

static std::optional<Waste> findOneDevice(const DimRule &rule) {
  Waste waste{Waste::Kind::OneDevice, &rule.dim, rule.axes};
  auto isSplit = [](const layout::AxisRef &axis) { return axis.size > 1; };
  if (std::any_of(waste.axes.begin(), waste.axes.end(), isSplit))
    return std::nullopt;
  waste.text =
      fmt::format("{}: it splits nothing, {} one device", rule.text,
                  waste.axes.size() == 1 ? "the axis has" : "the axes have");
  waste.span = rule.span;
  return waste;
}

static std::optional<Waste> findRepeated(const Plan &plan, size_t index) {
  const exec::AxisT &axis = *plan.executable.mesh->axes[index];
  // A file that was damaged may say anything.
  if (axis.size < 2 || !(axis.shared >= 0 && axis.shared < wantedShare))
    return std::nullopt;
  Waste waste{Waste::Kind::Repeated,
              nullptr,
              {plan.mesh.getWholeAxis(index)},
              axis.size};
  // Each device computes what is not split, and its part of the rest.
  const double size = double(axis.size);
  waste.lost = 1 - 1 / (size * (1 - axis.shared) + axis.shared);
  std::vector<std::string> rules, why;
  for (size_t i = 0; i < plan.layout.getRules().size(); ++i) {
    const layout::LayoutRule &rule = plan.layout.getRules()[i];
    if (std::ranges::find(rule.axes, axis.name) == rule.axes.end())
      continue;
    rules.push_back(toString(rule));
    if (!waste.span)
      waste.span = plan.executable.rules[i]->span.get();
    for (const std::string &name : rule.dims)
      if (const exec::NamedDimT *dim = findDim(plan, name); dim && dim->carries)
        why.push_back(fmt::format("a loop over {} carries values, so that all "
                                  "devices run every iteration",
                                  name));
  }
  if (!waste.span)
    waste.span = axis.span.get();
  std::string how =
      axis.shared == 0
          ? fmt::format("its {} compute the same{}",
                        formatCount(axis.size, "device"),
                        rules.empty() ? "" : " products")
          : fmt::format("its {} share {} of the products and each compute the "
                        "rest",
                        formatCount(axis.size, "device"),
                        formatPercent(axis.shared));
  waste.text = fmt::format("{}: {}; ", axis.name, how);
  if (rules.empty())
    waste.text += "no rule splits anything over it";
  else if (axis.shared == 0)
    waste.text += fmt::format("{} split{} none of them", fmt::join(rules, ", "),
                              rules.size() == 1 ? "s" : "");
  else
    waste.text +=
        fmt::format("{} split{} little of what is computed",
                    fmt::join(rules, ", "), rules.size() == 1 ? "s" : "");
  if (!why.empty())
    waste.text += fmt::format(": {}", fmt::join(why, ", "));
  return waste;
}

/// Of rules for dims and names; what others split is stored, not computed.
static std::vector<DimRule> listDimRules(const Plan &plan) {
  std::vector<DimRule> rules;
  for (size_t i = 0; i < plan.layout.getRules().size(); ++i) {
    const layout::LayoutRule &rule = plan.layout.getRules()[i];
    std::vector<layout::AxisRef> axes;
    for (const std::string &name : rule.axes)
      axes.push_back(plan.mesh.getWholeAxis(*plan.mesh.findAxis(name)));
    if (rule.role != layout::Role::Value || axes.empty())
      continue;
    for (const std::string &name : rule.dims)
      if (const exec::NamedDimT *dim = findDim(plan, name)) {
        layout::LayoutRule one = rule;
        one.dims = {name};
        rules.push_back(
            {*dim, toString(one), axes, plan.executable.rules[i]->span.get()});
      }
  }
  return rules;
}

std::vector<Waste> plan::findWaste(const Plan &plan) {
  std::vector<Waste> all;
  auto add = [&](std::optional<Waste> waste) {
    if (waste)
      all.push_back(std::move(*waste));
    return waste.has_value();
  };
  for (const DimRule &rule : listDimRules(plan))
    if (!add(findOneDevice(rule)))
      add(findUneven(rule));
  if (plan.program && plan.executable.mesh)
    for (size_t axis = 0; axis < plan.executable.mesh->axes.size(); ++axis)
      add(findRepeated(plan, axis));
  return all;
}
