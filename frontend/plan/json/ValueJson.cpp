/// Values, and how they are split.

#include "frontend/plan/json/PlanWriter.h"

#include "layout/Sharding.h"
#include "runtime/exec/Origins.h"

#include <cstdlib>

using namespace meshc;
using namespace meshc::plan;

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

//===-- Values ------------------------------------------------------------===//

Json PlanWriter::getDim(const exec::TensorLayoutT &layout, size_t dim) const {
  const exec::DimShardingT &split = *layout.dims[dim];
  Json json = {{"name", split.name},
               {"size", split.size},
               {"axes", getAxisNames(split.axes)},
               {"local_size", getLocalSize(layout, dim)}};
  if (const auto &window = split.window) {
    json["window"] = {{"loop", window->loop},     {"size", window->size},
                      {"factor", window->factor}, {"low", window->low},
                      {"high", window->high},     {"divisor", window->divisor}};
    if (window->modulus != 0)
      json["window"]["modulus"] = window->modulus;
  }
  return json;
}

/// Null where each device's block is complete.
Json PlanWriter::getPartial(const exec::TensorLayoutT &layout) const {
  if (layout.partial == exec::ReduceKind::none)
    return nullptr;
  return {{"kind", getName(layout.partial)},
          {"axes", getAxisNames(layout.partial_axes)}};
}

static const char *getRoleName(exec::BufferRole role) {
  switch (role) {
  case exec::BufferRole::parameter:
    return "param";
  case exec::BufferRole::model_state:
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

/// The field that says whose a tensor is; null of a value of its own.
static const char *getOwnerField(const exec::TensorT &tensor) {
  if (tensor.of < 0 || !tensor.origin)
    return nullptr;
  switch (tensor.origin->kind) {
  case exec::OriginKind::gradient:
    return "gradient_of";
  case exec::OriginKind::state:
    return "state_of";
  case exec::OriginKind::update:
  case exec::OriginKind::value:
    return tensor.origin->element.empty() ? nullptr : "copy_of";
  }
  std::abort();
}

/// Of a gradient, what the value is called that it is of.
void PlanWriter::addGradient(Json &json, const exec::OriginT *origin,
                             const std::string &name) const {
  if (origin && origin->kind == exec::OriginKind::gradient &&
      name.starts_with(runtime::getOriginName(executable, origin)))
    json["gradient_of_name"] = name.substr(runtime::getLead(*origin).size());
}

Json PlanWriter::getTensor(size_t index) const {
  const exec::TensorT &tensor = *executable.tensors[index];
  Json dims = Json::array();
  for (size_t i = 0; i < tensor.layout->dims.size(); ++i)
    dims.push_back(getDim(*tensor.layout, i));
  const layout::TensorLayout asked = askLayout(plan, int(index));
  for (size_t i = 0; i < asked.rules.size(); ++i)
    if (!asked.rules[i].empty())
      dims[i]["rules"] = asked.rules[i];
  Json json = {{"id", Plan::getTensorId(int(index))},
               {"name", plan.getName(int(index))},
               {"role", getRoleName(tensor.role)},
               {"dtype", getName(tensor.layout->element)},
               {"dims", std::move(dims)}};
  if (Json partial = getPartial(*tensor.layout); !partial.is_null())
    json["partial"] = std::move(partial);
  for (const layout::LostRule &lost : asked.lost)
    json["lost_rules"].push_back(
        {{"rule", lost.rule},
         {"why", toString(lost.why)},
         {"text", explainLost(plan, int(index), asked, lost)}});
  json["bytes_global"] = tensor.bytes_global;
  json["bytes_per_device"] = tensor.bytes_per_device;
  json["inside"] = tensor.inside;
  json["stored"] = plan.isStored(int(index));
  json["tile_bytes"] =
      plan.isInTiles(int(index)) ? Json(plan.getTileBytes(int(index))) : Json();
  const int whole = plan.getWhole(int(index));
  json["lies_in"] = whole < 0 ? Json(nullptr) : Json(Plan::getTensorId(whole));
  json["scope"] = getScopeId(scopes.tensorScopes[index]);
  json["part"] = getPartId(sums.tensorParts[index]);
  json["fold"] = Plan::getTensorId(scopes.tensorFolds[index]);
  if (const char *field = getOwnerField(tensor))
    json[field] = Plan::getTensorId(tensor.of);
  if (!tensor.inside)
    addGradient(json, tensor.origin.get(), tensor.name);
  json["span"] = getSpan(tensor.span);
  return json;
}
