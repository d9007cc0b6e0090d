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

static std::string spellRule(const Plan &plan, const exec::NamedDimT &dim) {
  return dim.name + " -> " + layout::toString(plan.mesh, getAxes(dim.axes));
}

static std::optional<Waste> findUneven(const Plan &plan,
                                       const exec::NamedDimT &dim) {
  Waste waste{Waste::Kind::Uneven, &dim, getAxes(dim.axes)};
  for (const layout::AxisRef &axis : waste.axes)
    waste.numDevices *= axis.size;
  const int64_t block = layout::getLocalSize(dim.size, waste.axes);
  waste.numIdle =
      waste.numDevices - countFilled(dim.size, dim.size, waste.axes);
  waste.lost =
      1 - double(dim.size) / (double(block) * double(waste.numDevices));
  if (waste.numIdle == 0 && waste.lost < toldLoss)
    return std::nullopt;
  std::string idle;
  if (waste.numIdle > 0)
    idle = fmt::format("{} of them {} none, ", waste.numIdle,
                       waste.numIdle == 1 ? "has" : "have");
  waste.text =
      fmt::format("{}: {} over {} in blocks of {}: {}{} of the time is lost",
                  spellRule(plan, dim), formatCount(dim.size, "position"),
                  formatCount(waste.numDevices, "device"), block, idle,
                  formatPercent(waste.lost));
  waste.span = dim.rule_span.get();
  return waste;
}

static std::optional<Waste> findOneDevice(const Plan &plan,
                                          const exec::NamedDimT &dim) {
  Waste waste{Waste::Kind::OneDevice, &dim, getAxes(dim.axes)};
  auto isSplit = [](const layout::AxisRef &axis) { return axis.size > 1; };
  if (std::any_of(waste.axes.begin(), waste.axes.end(), isSplit))
    return std::nullopt;
  waste.text =
      fmt::format("{}: it splits nothing, {} one device", spellRule(plan, dim),
                  waste.axes.size() == 1 ? "the axis has" : "the axes have");
  waste.span = dim.rule_span.get();
  return waste;
}

static bool hasAxis(const exec::NamedDimT &dim, size_t axis) {
  return std::any_of(
      dim.axes.begin(), dim.axes.end(),
      [&](const exec::AxisRef &part) { return part.axis() == int(axis); });
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
  for (const auto &dim : plan.executable.dims) {
    if (!hasAxis(*dim, index))
      continue;
    rules.push_back(spellRule(plan, *dim));
    if (!waste.span)
      waste.span = dim->rule_span.get();
    if (dim->carries)
      why.push_back(fmt::format("a loop over {} carries values, so that all "
                                "devices run every iteration",
                                dim->name));
  }
  if (!waste.span)
    waste.span = axis.span.get();
  std::string how =
      axis.shared == 0
          ? fmt::format("its {} compute the same",
                        formatCount(axis.size, "device"))
          : fmt::format("its {} share {} of the products and each compute the "
                        "rest",
                        formatCount(axis.size, "device"),
                        formatPercent(axis.shared));
  waste.text = fmt::format("{}: {}; ", axis.name, how);
  if (rules.empty())
    waste.text += "no rule splits anything over it";
  else if (axis.shared == 0)
    waste.text +=
        fmt::format("{} split{} what is stored alone", fmt::join(rules, ", "),
                    rules.size() == 1 ? "s" : "");
  else
    waste.text +=
        fmt::format("{} split{} little of what is computed",
                    fmt::join(rules, ", "), rules.size() == 1 ? "s" : "");
  if (!why.empty())
    waste.text += fmt::format(": {}", fmt::join(why, ", "));
  return waste;
}

std::vector<Waste> plan::findWaste(const Plan &plan) {
  std::vector<Waste> all;
  auto add = [&](std::optional<Waste> waste) {
    if (waste)
      all.push_back(std::move(*waste));
    return waste.has_value();
  };
  for (const auto &dim : plan.executable.dims)
    if (!dim->axes.empty() && !add(findOneDevice(plan, *dim)))
      add(findUneven(plan, *dim));
  if (plan.program && plan.executable.mesh)
    for (size_t axis = 0; axis < plan.executable.mesh->axes.size(); ++axis)
      add(findRepeated(plan, axis));
  return all;
}
