#include "frontend/plan/json/PlanJson.h"

#include "frontend/plan/Remarks.h"
#include "frontend/plan/StepTotals.h"
#include "frontend/plan/Waste.h"
#include "frontend/plan/json/PlanWriter.h"
#include "layout/Sharding.h"
#include "runtime/exec/PlanIds.h"

#include <array>
#include <cmath>
#include <fmt/format.h>
#include <sodium.h>

using namespace meshc;
using namespace meshc::plan;

/// Nothing without a machine that can run all of the plan.
static std::optional<StepTime> predict(const Plan &plan,
                                       const std::vector<Transfer> &transfers,
                                       const layout::Machine *machine,
                                       const std::vector<int> &unpriced) {
  if (!machine || !unpriced.empty())
    return std::nullopt;
  return std::optional<StepTime>(std::in_place, plan, transfers, *machine);
}

PlanWriter::PlanWriter(const exec::ExecutableT &executable,
                       const ReadSource &readSource,
                       const PlanJsonOptions &options)
    : plan(executable), executable(executable), readSource(readSource),
      transfers(findTransfers(plan)), transferOf(plan.commands.size(), -1),
      gpu(plan), memory(plan, gpu), scopes(plan), machine(options.machine),
      unpriced(machine ? findUnpriced(plan, *machine) : std::vector<int>()),
      time(predict(plan, transfers, machine, unpriced)),
      sums(plan, scopes, transfers, memory, time ? &*time : nullptr),
      memoryLimit(options.memoryLimit), measured(options.measured) {
  for (size_t number = 0; number < transfers.size(); ++number)
    for (int member : transfers[number].collectives)
      transferOf[size_t(member)] = int(number);
  if (machine && !memoryLimit)
    memoryLimit = machine->getMemoryBytes();
}

Json PlanWriter::getMachine() const {
  Json constants = Json::array();
  for (const layout::MachineConstant &constant : machine->getConstants())
    constants.push_back({{"name", constant.name},
                         {"value", constant.value},
                         {"unit", constant.unit},
                         {"made", layout::getName(constant.made)},
                         {"source", constant.source}});
  Json json = {{"name", machine->getName()},
               {"label", machine->getLabel()},
               {"constants", std::move(constants)}};
  if (std::optional<int64_t> bytes = machine->getMemoryBytes())
    json["memory_bytes"] = *bytes;
  for (int index : unpriced)
    json["cannot_run"].push_back(plan.commands[size_t(index)].id);
  return json;
}

/// The link that messages along an axis take.
Json PlanWriter::getLink(int axis) const {
  const layout::Machine::Constants *gpu = machine->getGpuConstants();
  if (!gpu)
    return nullptr;
  const layout::AxisRef whole{.axis = axis,
                              .size = plan.mesh.getAxes()[size_t(axis)].size};
  const bool crossesHosts =
      machine->getReach(plan.mesh, std::span(&whole, 1)).hosts > 1;
  const layout::MachineConstant &link =
      crossesHosts ? gpu->networkRate : gpu->insideRate;
  return {{"name", link.name}, {"bytes_per_us", link.value}};
}

Json PlanWriter::getTrace() const {
  Json json = {{"steps", measured->steps},
               {"processes", measured->processes},
               {"traced_step_us", roundTime(measured->tracedStepUs)}};
  if (measured->stepUs)
    json["step_us"] = roundTime(*measured->stepUs);
  return json;
}

/// What the trace says of a command; nothing of one that was not run.
void PlanWriter::addMeasured(Json &json, const std::string &id) const {
  if (!measured)
    return;
  const auto found = measured->commands.find(id);
  if (found == measured->commands.end())
    return;
  json["measured_us"] = roundTime(found->second.us);
  if (found->second.waitUs > 0)
    json["measured_wait_us"] = roundTime(found->second.waitUs);
}

/// The spec with the text of its files, null of those that are not to be read.
Json PlanWriter::getSpec() const {
  Json files = Json::array();
  for (const std::string &path : executable.files) {
    std::optional<std::string> text = readSource(path);
    files.push_back({{"path", path}, {"text", text ? Json(*text) : Json()}});
  }
  return {{"path", executable.files.empty() ? "" : executable.files[0]},
          {"sha256", executable.spec_sha256},
          {"files", std::move(files)}};
}

/// What a run of the program computes and sends.
static Json toJson(const RunSums &sums) {
  return {{"flops_per_device", sums.flops},
          {"collective_payload_bytes", sums.payloadBytes},
          {"wire_bytes_per_device", sums.wireBytes},
          {"transfers", sums.transfers}};
}

/// Each part of a step but the last, and how many these are.
static Json getFirstParts(const Plan &parts, const layout::Machine *machine) {
  const std::vector<Transfer> transfers = findTransfers(parts);
  Json json = toJson(sumRun(parts, transfers));
  json["runs"] = parts.getRuns();
  if (machine && findUnpriced(parts, *machine).empty())
    json["step_us"] = roundTime(StepTime(parts, transfers, *machine).stepUs);
  return json;
}

Json PlanWriter::getTotals() const {
  Json json = toJson(sumRun(plan, transfers));
  const StepTotals whole(plan, transfers);
  const std::optional<StepRate> rate =
      time ? std::optional(StepRate(plan, *time)) : std::nullopt;
  for (const auto &[name, count] :
       {std::pair("samples", whole.samples), {"tokens", whole.tokens}})
    if (count > 0) {
      json[name] = count;
      if (rate)
        json[fmt::format("{}_per_s", name)] =
            std::round(rate->getPerSecond(count) * 1e3) / 1e3;
    }
  if (rate && rate->peakShare)
    json["peak_share"] = std::round(*rate->peakShare * 1e6) / 1e6;
  if (const exec::ProgramT *accumulate = findAccumulate(executable))
    json["first_parts"] = getFirstParts(Plan(executable, *accumulate), machine);
  if (time) {
    json["step_us"] = roundTime(time->stepUs);
    json["compute_us"] = roundTime(time->computeUs);
    json["exposed_us"] = roundTime(time->exposedUs);
  }
  if (executable.training)
    for (const auto &scope : executable.training->recomputed)
      json["recomputed"].push_back({{"scope", scope->scope},
                                    {"units", scope->units},
                                    {"bytes", scope->bytes},
                                    {"flops", scope->flops}});
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

Json PlanWriter::getRemarks() const {
  Json all = Json::array();
  for (const Remark &remark : findRemarks(plan, scopes)) {
    Json axes = Json::array();
    for (const layout::AxisRef &axis : remark.axes)
      axes.push_back(layout::toString(plan.mesh, axis));
    Json json = {
        {"kind", getName(remark.kind)},
        {"bytes", remark.bytes},
        {"count", remark.count},
        {"command", remark.command < 0
                        ? Json(nullptr)
                        : Json(plan.commands[size_t(remark.command)].id)},
        {"tensor", remark.tensor < 0 ? Json(nullptr)
                                     : Json(Plan::getTensorId(remark.tensor))},
        {"axes", std::move(axes)},
        {"text", remark.text}};
    if (!remark.advice.empty())
      json["advice"] = remark.advice;
    json["span"] = remark.span ? getSpan(*remark.span) : Json();
    all.push_back(std::move(json));
  }
  return all;
}

Json PlanWriter::write() const {
  Json axes = Json::array(), dims = Json::array(), rules = Json::array(),
       tensors = Json::array(), ops = Json::array(),
       collectives = Json::array(), transferred = Json::array();
  for (int axis = 0; axis < int(plan.mesh.getNumAxes()); ++axis) {
    const layout::MeshAxis &named = plan.mesh.getAxes()[size_t(axis)];
    axes.push_back({{"name", named.name}, {"size", named.size}});
    if (machine)
      axes.back()["link"] = getLink(axis);
  }
  for (const auto &dim : executable.dims)
    dims.push_back({{"name", dim->name},
                    {"size", dim->size},
                    {"axes", getAxisNames(dim->axes)},
                    {"span", getSpan(dim->span)}});
  for (size_t i = 0; i < executable.rules.size(); ++i) {
    const layout::LayoutRule &line = plan.layout.getRules()[i];
    rules.push_back(
        {{"role", toString(line.role)},
         {"dims", line.dims},
         {"axes", line.axes},
         {"unless", line.unless},
         {"values", line.values.empty() ? Json() : Json(line.values)},
         {"text", executable.rules[i]->text},
         {"span", getSpan(executable.rules[i]->span)}});
  }
  for (size_t tensor = 0; tensor < executable.tensors.size(); ++tensor)
    tensors.push_back(getTensor(tensor));
  for (size_t index = 0; index < plan.commands.size(); ++index)
    if (plan.commands[index].collective)
      collectives.push_back(getCollective(index));
    else
      ops.push_back(getOp(index));
  for (const Transfer &transfer : transfers)
    transferred.push_back(getTransfer(transfer));

  Json json = {
      {"schema", planSchema},
      {"producer", executable.producer},
      {"model", executable.model},
      {"program", plan.program ? Json(plan.program->name) : Json(nullptr)},
      {"target", exec::EnumNameTarget(executable.target)},
      {"devices", plan.mesh.getNumDevices()},
      {"mesh", {{"axes", std::move(axes)}}},
      {"dims", std::move(dims)},
      {"rules", std::move(rules)},
      {"spec", getSpec()},
      {"scopes", getScopes()},
      {"parts", getParts()},
      {"tensors", std::move(tensors)},
      {"ops", std::move(ops)},
      {"collectives", std::move(collectives)},
      {"transfers", std::move(transferred)},
      {"schedule", getSchedule()},
      {"memory", getMemory()},
      {"totals", getTotals()},
      {"waste", getWaste()},
      {"remarks", getRemarks()}};
  if (machine)
    json["machine"] = getMachine();
  if (measured)
    json["trace"] = getTrace();
  return json;
}

/// In hexadecimal digits.
static std::string getSha256(const std::string &text) {
  std::array<unsigned char, crypto_hash_sha256_BYTES> hash{};
  crypto_hash_sha256(hash.data(),
                     reinterpret_cast<const unsigned char *>(text.data()),
                     text.size());
  return fmt::format("{:02x}", fmt::join(hash, ""));
}

/// Paths and texts need not be UTF-8; JSON has to be.
static std::string dump(const Json &json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string plan::renderPlanJson(const exec::ExecutableT &executable,
                                 const ReadSource &readSource,
                                 const PlanJsonOptions &options) {
  Json plan = PlanWriter(executable, readSource, options).write();
  plan["sha256"] = getSha256(dump(plan, -1));
  return dump(plan, 2) + "\n";
}
