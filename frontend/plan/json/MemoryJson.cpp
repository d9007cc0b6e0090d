/// What a device holds, and when.

#include "frontend/plan/json/PlanWriter.h"

#include <algorithm>

using namespace meshc;
using namespace meshc::plan;

/// What memory is called, and what it is of which value.
static Json getContent(const exec::BufferT &buffer) {
  const exec::OriginPart part =
      buffer.origin ? buffer.origin->part : exec::OriginPart::inside;
  return {{"name", buffer.name},
          {"tensor", buffer.tensor < 0
                         ? Json(nullptr)
                         : Json(Plan::getTensorId(buffer.tensor))},
          {"form", exec::EnumNameOriginPart(part)},
          {"category", getName(getCategory(buffer.role))},
          {"bytes", int64_t(buffer.bytes)}};
}

Json PlanWriter::getMemory() const {
  const MemoryUse &use = memory;
  // Positions in the schedule.
  std::vector<int> scheduled;
  int last = -1;
  for (size_t index = 0; index < plan.commands.size(); ++index) {
    if (index == 0 ||
        plan.commands[index].command != plan.commands[index - 1].command)
      ++last;
    scheduled.push_back(last);
  }
  auto getScheduled = [&](int command) {
    return scheduled.empty() ? 0 : scheduled[size_t(command)];
  };
  Json json = {{"peak_bytes_per_device", use.peakBytes}};
  for (size_t index = 0; index < numMemoryCategories; ++index) {
    auto category = MemoryCategory(index);
    // What no value occupies at the peak is workspace to whoever adds up.
    json[getName(category)] =
        use.bytes[index] +
        (category == MemoryCategory::Workspace
             ? use.peakBytes - use.arenaBytes + use.unusedBytes
             : 0);
  }
  json["at_peak"] = Json::array();
  for (size_t place = 0; place < use.live.size(); ++place) {
    Json entry = getContent(*executable.buffers[size_t(use.live[place])]);
    entry["part"] = getPartId(sums.liveParts[place]);
    json["at_peak"].push_back(std::move(entry));
  }
  if (memoryLimit)
    json["limit_bytes"] = *memoryLimit;
  json["peak_at"] = use.command < 0
                        ? Json(nullptr)
                        : Json(plan.commands[size_t(use.command)].id);
  json["buffers"] = Json::array();
  for (size_t index = 0; index < executable.buffers.size(); ++index) {
    const Life &life = use.lives[index];
    if (!life.isUsed())
      continue;
    Json buffer = getContent(*executable.buffers[index]);
    buffer["offset"] = int64_t(executable.buffers[index]->offset);
    buffer["first"] = getScheduled(life.first);
    buffer["last"] = getScheduled(life.last);
    json["buffers"].push_back(std::move(buffer));
  }
  if (!isGpuPlan(plan))
    return json;
  Json &atPeak = json["at_peak"];
  for (const runtime::cuda::MemoryRow &row : use.besideArena) {
    const auto isSmaller = [&](const Json &entry) {
      return entry["bytes"].get<uint64_t>() < row.bytes;
    };
    if (row.bytes > 0)
      atPeak.insert(std::find_if(atPeak.begin(), atPeak.end(), isSmaller),
                    Json{{"name", row.name},
                         {"tensor", nullptr},
                         {"form", "itself"},
                         {"category", getName(MemoryCategory::Workspace)},
                         {"bytes", row.bytes},
                         {"part", getPartId(0)}});
  }
  json["allocation"] = {{"arena", use.arenaBytes},
                        {"cublaslt", gpu.memory.products},
                        {"move_tables", gpu.memory.tables},
                        {"staging", gpu.memory.staging}};
  return json;
}
