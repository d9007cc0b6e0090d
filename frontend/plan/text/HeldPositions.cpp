#include "frontend/plan/text/HeldPositions.h"

#include "frontend/plan/Quantities.h"
#include "frontend/plan/text/TerminalText.h"
#include "layout/Sharding.h"
#include "runtime/exec/Executable.h"

#include <fmt/format.h>
#include <map>

using namespace meshc;
using namespace meshc::plan;

std::string plan::describeHeld(const Plan &plan,
                               const exec::TensorLayoutT &layout, size_t dim,
                               int64_t device) {
  const exec::DimShardingT &split = *layout.dims[dim];
  std::vector<std::string> runs;
  for (const layout::HeldRun &run :
       layout::getHeldRuns(plan.mesh, split.size, runtime::getSharding(layout),
                           dim, plan.mesh.getCoordinates(device)))
    if (run.range.count > 0)
      runs.push_back(fmt::format("{}:{}", run.range.offset,
                                 run.range.offset + run.range.count));
  return fmt::format(
      "{} {}", split.name,
      runs.empty() ? "none" : fmt::format("{}", fmt::join(runs, " and ")));
}

/// "device 3", "devices 0, 2, 4", "devices 0, 2, 4 to 510, 256 of them".
static std::string listDevices(const std::vector<int64_t> &devices) {
  if (devices.size() == 1)
    return fmt::format("device {}", devices.front());
  constexpr size_t numListed = 8;
  if (devices.size() <= numListed)
    return fmt::format("devices {}", fmt::join(devices, ", "));
  return fmt::format("devices {}, {}, {} to {}, {} of them", devices[0],
                     devices[1], devices[2], devices.back(), devices.size());
}

static std::string renderBlocks(const Plan &plan, int tensor) {
  const exec::TensorT &value = plan.getTensor(tensor);
  const exec::TensorLayoutT &layout = *value.layout;
  std::vector<std::string> sizes;
  for (const auto &dim : layout.dims)
    sizes.push_back(fmt::format("{} {}", dim->name, dim->size));
  std::string text = fmt::format(
      "{}: {} of {}, {} in all and {} on each device\n", plan.getName(tensor),
      getName(layout.element),
      sizes.empty() ? "one number" : fmt::format("{}", fmt::join(sizes, ", ")),
      formatBytes(value.bytes_global), formatBytes(value.bytes_per_device));
  if (layout.partial != exec::ReduceKind::none)
    text +=
        fmt::format("  each device along {} holds one term of a {}\n",
                    layout::toString(plan.mesh, getAxes(layout.partial_axes)),
                    getName(layout.partial));
  // In order of the first device that holds it.
  std::map<std::string, size_t> known;
  std::vector<std::pair<std::string, std::vector<int64_t>>> blocks;
  size_t width = 0;
  for (int64_t device = 0; device < plan.mesh.getNumDevices(); ++device) {
    std::vector<std::string> held;
    for (size_t dim = 0; dim < layout.dims.size(); ++dim)
      held.push_back(describeHeld(plan, layout, dim, device));
    std::string block =
        held.empty() ? "the number" : fmt::format("{}", fmt::join(held, ", "));
    width = std::max(width, block.size());
    auto [number, isNew] = known.try_emplace(block, blocks.size());
    if (isNew)
      blocks.push_back({std::move(block), {}});
    blocks[number->second].second.push_back(device);
  }
  for (const auto &[block, devices] : blocks)
    text += fmt::format("  {:<{}}  {}\n", block, width, listDevices(devices));
  return text;
}

std::optional<std::string>
plan::renderTensor(const exec::ExecutableT &executable, std::string_view id,
                   size_t width, std::string &message) {
  const Plan plan(executable);
  std::string text;
  for (int tensor : plan.findTensors(id))
    text += (text.empty() ? "" : "\n") + renderBlocks(plan, tensor);
  if (!text.empty())
    return wrapLines(text, width);
  message = plan.getUnknownMessage(id, /*isOfValue=*/true);
  return std::nullopt;
}
