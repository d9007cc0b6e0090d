#include "frontend/plan/PlanJson.h"

#include "frontend/plan/GpuUse.h"
#include "frontend/plan/MemoryUse.h"
#include "frontend/plan/Overlap.h"
#include "frontend/plan/Plan.h"
#include "frontend/plan/Waste.h"
#include "layout/Sharding.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

using namespace meshc;
using namespace meshc::plan;

/// Keeps the order in which fields are added.
using Json = nlohmann::ordered_json;

namespace {
class PlanWriter {
public:
  explicit PlanWriter(const exec::ExecutableT &executable)
      : plan(executable), executable(executable),
        transfers(findTransfers(plan)), gpu(plan) {}

  Json write() const;

private:
  Json getSpan(const exec::Span &span) const;
  Json getSpan(const std::unique_ptr<exec::Span> &span) const;
  Json getAxisNames(const std::vector<exec::AxisRef> &axes) const;
  Json getTensor(size_t index) const;
  Json getSource(const ValueSource &source) const;
  Json getOp(const PlannedCommand &planned) const;
  Json getCause(const exec::CauseT &cause) const;
  Json getCollective(const PlannedCommand &planned) const;
  Json getTransfer(const Transfer &transfer) const;
  Json getMemory() const;
  Json getTotals() const;
  Json getWaste() const;

  Plan plan;
  const exec::ExecutableT &executable;
  std::vector<Transfer> transfers;
  GpuUse gpu;
};
} // namespace

Json PlanWriter::getSpan(const exec::Span &span) const {
  if (span.file() < 0)
    return nullptr;
  return {{"path", executable.files[size_t(span.file())]},
          {"line", span.line()},
          {"column", span.column()},
          {"end_line", span.end_line()},
          {"end_column", span.end_column()}};
}

Json PlanWriter::getSpan(const std::unique_ptr<exec::Span> &span) const {
  return span ? getSpan(*span) : Json(nullptr);
}

Json PlanWriter::getAxisNames(const std::vector<exec::AxisRef> &axes) const {
  Json names = Json::array();
  for (const exec::AxisRef &axis : axes)
    names.push_back(layout::toString(plan.mesh, getAxis(axis)));
  return names;
}

static const char *getRoleName(exec::BufferRole role) {
  switch (role) {
  case exec::BufferRole::parameter:
    return "param";
  case exec::BufferRole::state:
  case exec::BufferRole::input:
  case exec::BufferRole::output:
  case exec::BufferRole::activation:
  case exec::BufferRole::gradient:
  case exec::BufferRole::communication:
  case exec::BufferRole::workspace:
    return exec::EnumNameBufferRole(role);
  }
  std::abort();
}

Json PlanWriter::getTensor(size_t index) const {
  const exec::TensorT &tensor = *executable.tensors[index];
  Json dims = Json::array();
  for (size_t i = 0; i < tensor.layout->dims.size(); ++i) {
    const exec::DimShardingT &dim = *tensor.layout->dims[i];
    dims.push_back({{"name", dim.name},
                    {"size", dim.size},
                    {"axes", getAxisNames(dim.axes)},
                    {"local_size", getLocalSize(*tensor.layout, i)}});
  }
  Json json = {{"id", Plan::getTensorId(int(index))},
               {"name", plan.getName(int(index))},
               {"role", getRoleName(tensor.role)},
               {"dtype", getName(tensor.layout->element)},
               {"dims", std::move(dims)}};
  if (tensor.layout->partial != exec::ReduceKind::none)
    json["partial"] = {{"kind", getName(tensor.layout->partial)},
                       {"axes", getAxisNames(tensor.layout->partial_axes)}};
  json["bytes_global"] = tensor.bytes_global;
  json["bytes_per_device"] = tensor.bytes_per_device;
  json["span"] = getSpan(tensor.span);
  return json;
}

static Json getLaunches(const exec::KernelT &kernel) {
  Json launches = Json::array();
  for (const auto &launch : kernel.launches)
    launches.push_back({{"symbol", launch->symbol},
                        {"blocks", launch->grid},
                        {"threads", launch->block},
                        {"shared_bytes", launch->shared_bytes}});
  return launches;
}

/// A named value by its tensor, another one by the command that makes it.
Json PlanWriter::getSource(const ValueSource &source) const {
  if (source.tensor >= 0)
    return Plan::getTensorId(source.tensor);
  if (source.command >= 0)
    return plan.commands[size_t(source.command)].id;
  return nullptr;
}

static const char *getOpKind(const exec::CommandT &command) {
  switch (command.action.type) {
  case exec::Action::Kernel:
    return "kernel";
  case exec::Action::Matmul:
    return "matmul";
  case exec::Action::Convolution:
    return "convolution";
  case exec::Action::Copy:
    return "copy";
  case exec::Action::Collective:
    return "slice"; // the one collective that is an op: it sends nothing
  case exec::Action::NONE:
    break;
  }
  std::abort();
}

Json PlanWriter::getOp(const PlannedCommand &planned) const {
  const exec::CommandT &command = *planned.command;
  Json inputs = Json::array(), outputs = Json::array();
  for (const ValueSource &input : planned.inputs)
    inputs.push_back(getSource(input));
  for (const ValueSource &output : planned.outputs)
    outputs.push_back(getSource(output));
  Json json = {{"id", planned.id},
               {"name", command.name},
               {"kind", getOpKind(command)},
               {"inputs", std::move(inputs)},
               {"outputs", std::move(outputs)},
               {"phase", getName(command.phase)},
               {"repeat", repeatsPerStep},
               {"flops_per_device", command.flops},
               {"bytes_per_device", command.bytes},
               {"span", getSpan(command.span)}};
  if (const exec::KernelT *kernel = command.action.AsKernel();
      kernel && isGpuPlan(plan))
    json["launches"] = getLaunches(*kernel);
  return json;
}

Json PlanWriter::getCause(const exec::CauseT &cause) const {
  Json spans = Json::array();
  for (const exec::Span &span : cause.spans)
    spans.push_back(getSpan(span));
  Json json = {{"rule", cause.rule},       {"consumer", cause.consumer},
               {"operand", cause.operand}, {"needed", cause.needed},
               {"had", cause.had},         {"spans", std::move(spans)}};
  if (cause.alternative)
    json["alternative"] = {
        {"description", cause.alternative->description},
        {"cost_us", cause.alternative->cost_us},
        {"chosen_cost_us", cause.alternative->chosen_cost_us}};
  return json;
}

Json PlanWriter::getCollective(const PlannedCommand &planned) const {
  const exec::CollectiveT &collective = *planned.collective;
  Json json = {{"id", planned.id},
               {"kind", getName(collective.kind)},
               {"axes", getAxisNames(collective.axes)},
               {"group_size", collective.group_size},
               {"phase", getName(planned.command->phase)},
               {"repeat", repeatsPerStep},
               {"payload_elements", collective.payload_elements},
               {"payload_bytes", collective.payload_bytes},
               {"wire_bytes_per_device", collective.wire_bytes}};
  json["tensor"] = planned.tensor < 0 ? Json(nullptr)
                                      : Json(Plan::getTensorId(planned.tensor));
  for (const Transfer &transfer : transfers)
    for (int member : transfer.collectives)
      if (&plan.commands[size_t(member)] == &planned)
        json["transfer"] = transfer.id;
  json["span"] = getSpan(planned.command->span);
  // Merged collectives have several causes; the first one is the one that put
  // the collective where it stands.
  if (!collective.causes.empty())
    json["cause"] = getCause(*collective.causes.front());
  if (collective.causes.size() > 1) {
    json["merged_causes"] = Json::array();
    for (size_t cause = 1; cause < collective.causes.size(); ++cause)
      json["merged_causes"].push_back(getCause(*collective.causes[cause]));
  }
  return json;
}

Json PlanWriter::getTransfer(const Transfer &transfer) const {
  auto getId = [&](int index) { return plan.commands[size_t(index)].id; };
  Json members = Json::array();
  for (int member : transfer.collectives)
    members.push_back(getId(member));
  Json beside = Json::array();
  for (int index : transfer.beside)
    beside.push_back(getId(index));
  return {
      {"id", transfer.id},
      {"collectives", std::move(members)},
      {"payload_bytes", transfer.payloadBytes},
      {"repeat", repeatsPerStep},
      {"overlap",
       {{"ops", std::move(beside)},
        {"matmuls", transfer.matmuls},
        {"flops_per_device", transfer.flops},
        {"bytes_per_device", transfer.bytes},
        {"first_reader",
         transfer.reader < 0 ? Json(nullptr) : Json(getId(transfer.reader))},
        {"exposed", transfer.beside.empty()}}}};
}

Json PlanWriter::getMemory() const {
  const MemoryUse use(plan, gpu);
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
  for (int index : use.live) {
    const exec::BufferT &buffer = *executable.buffers[size_t(index)];
    json["at_peak"].push_back({{"name", buffer.name},
                               {"category", getName(getCategory(buffer.role))},
                               {"bytes", int64_t(buffer.bytes)}});
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
                         {"category", getName(MemoryCategory::Workspace)},
                         {"bytes", row.bytes}});
  }
  json["allocation"] = {{"arena", use.arenaBytes},
                        {"cublaslt", gpu.memory.products},
                        {"move_tables", gpu.memory.tables},
                        {"staging", gpu.memory.staging}};
  return json;
}

Json PlanWriter::getTotals() const {
  int64_t flops = 0, payload = 0, wire = 0;
  for (const PlannedCommand &planned : plan.commands) {
    flops += planned.command->flops * repeatsPerStep;
    if (const exec::CollectiveT *collective = planned.collective) {
      payload += collective->payload_bytes * repeatsPerStep;
      wire += collective->wire_bytes * repeatsPerStep;
    }
  }
  Json json = {{"flops_per_device", flops},
               {"collective_payload_bytes", payload},
               {"wire_bytes_per_device", wire},
               {"transfers", int64_t(transfers.size()) * repeatsPerStep}};
  if (!isGpuPlan(plan))
    return json;
  json["launches"] = {{"kernels", gpu.kernels},
                      {"products", gpu.products},
                      {"copies", gpu.copies},
                      {"collectives", gpu.collectives}};
  json["refused_products"] = gpu.refusedProducts;
  json["refused_moves"] = gpu.refusedMoves;
  return json;
}

Json PlanWriter::getWaste() const {
  Json all = Json::array();
  for (const Waste &waste : findWaste(plan)) {
    Json axes = Json::array();
    for (const layout::AxisRef &axis : waste.axes)
      axes.push_back(layout::toString(plan.mesh, axis));
    all.push_back({{"kind", getName(waste.kind)},
                   {"dim", waste.dim ? Json(waste.dim->name) : Json(nullptr)},
                   {"axes", std::move(axes)},
                   {"devices", waste.numDevices},
                   {"idle_devices", waste.numIdle},
                   {"lost", waste.lost},
                   {"text", waste.text},
                   {"span", waste.span ? getSpan(*waste.span) : Json()}});
  }
  return all;
}

Json PlanWriter::write() const {
  Json axes = Json::array(), dims = Json::array(), tensors = Json::array(),
       ops = Json::array(), collectives = Json::array(),
       transferred = Json::array();
  for (const layout::MeshAxis &axis : plan.mesh.getAxes())
    axes.push_back({{"name", axis.name}, {"size", axis.size}});
  for (const auto &dim : executable.dims)
    dims.push_back({{"name", dim->name},
                    {"size", dim->size},
                    {"axes", getAxisNames(dim->axes)},
                    {"span", getSpan(dim->span)}});
  for (size_t tensor = 0; tensor < executable.tensors.size(); ++tensor)
    tensors.push_back(getTensor(tensor));
  for (const PlannedCommand &planned : plan.commands)
    if (planned.collective)
      collectives.push_back(getCollective(planned));
    else
      ops.push_back(getOp(planned));

  for (const Transfer &transfer : transfers)
    transferred.push_back(getTransfer(transfer));

  Json spec = {{"path", executable.files.empty() ? "" : executable.files[0]},
               {"sha256", executable.spec_sha256}};
  return {{"schema", "meshc.plan/1"},
          {"producer", executable.producer},
          {"model", executable.model},
          {"program", plan.program ? Json(plan.program->name) : Json(nullptr)},
          {"target", exec::EnumNameTarget(executable.target)},
          {"devices", plan.mesh.getNumDevices()},
          {"mesh", {{"axes", std::move(axes)}}},
          {"dims", std::move(dims)},
          {"spec", std::move(spec)},
          {"tensors", std::move(tensors)},
          {"ops", std::move(ops)},
          {"collectives", std::move(collectives)},
          {"transfers", std::move(transferred)},
          {"memory", getMemory()},
          {"totals", getTotals()},
          {"waste", getWaste()}};
}

std::string plan::renderPlanJson(const exec::ExecutableT &executable) {
  // Paths need not be UTF-8; JSON has to be.
  return PlanWriter(executable)
             .write()
             .dump(2, ' ', false, Json::error_handler_t::replace) +
         "\n";
}
