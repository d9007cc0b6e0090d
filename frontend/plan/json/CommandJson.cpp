/// What a device computes and sends.

#include "frontend/plan/json/PlanWriter.h"

#include "runtime/exec/Origins.h"
#include "runtime/exec/PlanIds.h"

#include <algorithm>

using namespace meshc;
using namespace meshc::plan;

static Json getLaunches(const exec::KernelT &kernel) {
  Json launches = Json::array();
  for (const auto &launch : kernel.launches)
    launches.push_back({{"symbol", launch->symbol},
                        {"blocks", launch->grid},
                        {"threads", launch->block},
                        {"shared_bytes", launch->shared_bytes}});
  return launches;
}

/// A named value by its tensor, another one by the command that makes it; null
/// of the seed of random numbers, which is no value of the model.
Json PlanWriter::getSource(const ValueSource &source) const {
  if (source.tensor >= 0)
    return Plan::getTensorId(source.tensor);
  if (source.command >= 0)
    return plan.commands[size_t(source.command)].id;
  return nullptr;
}

Json PlanWriter::getSources(const std::vector<ValueSource> &sources) const {
  Json ids = Json::array();
  for (const ValueSource &source : sources)
    if (Json id = getSource(source); !id.is_null())
      ids.push_back(std::move(id));
  return ids;
}

/// How the blocks of a value lie: the dimensions with their axes and windows.
Json PlanWriter::getSharding(const exec::TensorLayoutT &layout) const {
  Json dims = Json::array();
  for (size_t dim = 0; dim < layout.dims.size(); ++dim)
    dims.push_back(getDim(layout, dim));
  return {{"dims", std::move(dims)}, {"partial", getPartial(layout)}};
}

Json PlanWriter::getOp(size_t index) const {
  const PlannedCommand &planned = plan.commands[index];
  const exec::CommandT &command = *planned.command;
  Json json = {{"id", planned.id},
               {"name", command.name},
               {"kind", runtime::getPlanKind(command)},
               {"inputs", getSources(planned.inputs)},
               {"outputs", getSources(planned.outputs)},
               {"phase", getName(command.phase)},
               {"repeat", planned.repeats},
               {"flops_per_device", command.flops},
               {"bytes_per_device", command.bytes},
               {"scope", getScopeId(scopes.commandScopes[index])},
               {"part", getPartId(sums.commandParts[index])},
               {"fold", plan.commands[size_t(scopes.commandFolds[index])].id},
               {"span", getSpan(command.span)}};
  addGradient(json, command.origin.get(), command.name);
  if (time) {
    const StepTime::Span &span = time->commands[index];
    json["time_us"] = roundTime(span.getUs());
    json["start_us"] = roundTime(span.start);
    json["bound"] = layout::getName(time->bounds[index]);
  }
  addMeasured(json, planned.id);
  if (const exec::KernelT *kernel = command.action.AsKernel();
      kernel && isGpuPlan(plan))
    json["launches"] = getLaunches(*kernel);
  return json;
}

Json PlanWriter::getCause(const exec::CauseT &cause) const {
  Json spans = Json::array();
  for (const exec::Span &span : cause.spans)
    spans.push_back(getSpan(span));
  Json json = {
      {"kind", exec::EnumNameCauseKind(cause.kind)},
      {"rule", cause.rule},
      {"consumer", runtime::getOriginName(executable, cause.consumer.get())},
      {"operand", runtime::getOriginName(executable, cause.operand.get())},
      {"needed", cause.needed},
      {"had", cause.had},
      {"written", cause.written},
      {"spans", std::move(spans)}};
  if (!cause.consumer_operation.empty())
    json["consumer_operation"] = cause.consumer_operation;
  if (!cause.operand_operation.empty())
    json["operand_operation"] = cause.operand_operation;
  if (cause.alternative)
    json["alternative"] = {
        {"description", cause.alternative->description},
        {"cost_us", cause.alternative->cost_us},
        {"chosen_cost_us", cause.alternative->chosen_cost_us}};
  return json;
}

Json PlanWriter::getCollective(size_t index) const {
  const PlannedCommand &planned = plan.commands[index];
  const exec::CollectiveT &collective = *planned.collective;
  Json json = {{"id", planned.id},
               {"kind", getName(collective.kind)},
               {"axes", getAxisNames(collective.axes)},
               {"group_size", collective.group_size},
               {"inputs", getSources(planned.inputs)},
               {"outputs", getSources(planned.outputs)},
               {"phase", getName(planned.command->phase)},
               {"repeat", planned.repeats},
               {"payload_elements", collective.payload_elements},
               {"payload_bytes", collective.payload_bytes},
               {"wire_bytes_per_device", collective.wire_bytes},
               {"before", getSharding(*collective.source)},
               {"after", getSharding(*collective.target)}};
  json["tensor"] = planned.tensor < 0 ? Json(nullptr)
                                      : Json(Plan::getTensorId(planned.tensor));
  json["transfer"] = transfers[size_t(transferOf[index])].id;
  json["scope"] = getScopeId(scopes.commandScopes[index]);
  json["part"] = getPartId(sums.commandParts[index]);
  json["fold"] = plan.commands[size_t(scopes.commandFolds[index])].id;
  json["span"] = getSpan(collective.span);
  // Merged collectives have several causes; the first one is the one that put
  // the collective where it stands.
  // The states of an optimizer ask for a gradient alike.
  Json causes = Json::array();
  for (const auto &cause : collective.causes)
    if (Json written = getCause(*cause);
        std::find(causes.begin(), causes.end(), written) == causes.end())
      causes.push_back(std::move(written));
  if (!causes.empty())
    json["cause"] = causes.front();
  if (causes.size() > 1) {
    causes.erase(0);
    json["merged_causes"] = std::move(causes);
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
  Json json = {
      {"id", transfer.id},
      {"collectives", std::move(members)},
      {"largest", getId(transfer.largest)},
      {"payload_bytes", transfer.payloadBytes},
      {"repeat", plan.commands[size_t(transfer.collectives[0])].repeats},
      {"overlap",
       {{"ops", std::move(beside)},
        {"matmuls", transfer.matmuls},
        {"flops_per_device", transfer.flops},
        {"bytes_per_device", transfer.bytes},
        {"first_reader",
         transfer.reader < 0 ? Json(nullptr) : Json(getId(transfer.reader))},
        {"exposed", transfer.beside.empty()}}}};
  if (time) {
    const StepTime::Span &span =
        time->commands[size_t(transfer.collectives.front())];
    json["time_us"] = roundTime(span.getUs());
    json["start_us"] = roundTime(span.start);
    json["exposed_us"] =
        roundTime(time->exposed[size_t(&transfer - transfers.data())]);
  }
  addMeasured(json, getId(transfer.collectives.front()));
  return json;
}

/// Ops and transfers in the order of the command list.
Json PlanWriter::getSchedule() const {
  Json ids = Json::array();
  for (size_t index = 0; index < plan.commands.size(); ++index) {
    const PlannedCommand &planned = plan.commands[index];
    if (!planned.collective)
      ids.push_back(planned.id);
    else if (const Transfer &transfer = transfers[size_t(transferOf[index])];
             transfer.collectives.front() == int(index))
      ids.push_back(transfer.id);
  }
  return ids;
}
