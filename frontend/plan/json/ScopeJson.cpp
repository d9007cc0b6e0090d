/// Calls and loops: which are alike, and what they take.

#include "frontend/plan/json/PlanWriter.h"

using namespace meshc;
using namespace meshc::plan;

Json PlanWriter::getScopeId(int scope) const {
  return scope < 0 ? Json(nullptr) : Json("s" + std::to_string(scope));
}

Json PlanWriter::getScopes() const {
  Json all = Json::array();
  for (size_t index = 0; index < scopes.scopes.size(); ++index) {
    const EqualScopes::Scope &scope = scopes.scopes[index];
    all.push_back({{"id", getScopeId(int(index))},
                   {"name", scope.name},
                   {"parent", getScopeId(scope.parent)},
                   {"iteration", scope.iteration < 0 ? Json(nullptr)
                                                     : Json(scope.iteration)},
                   {"like", getScopeId(scope.model)}});
  }
  return all;
}

Json PlanWriter::getPartId(int part) const {
  return "p" + std::to_string(part);
}

Json PlanWriter::getParts() const {
  Json all = Json::array();
  for (size_t index = 0; index < sums.parts.size(); ++index) {
    const ScopeSums::Part &part = sums.parts[index];
    Json json = {
        {"id", getPartId(int(index))},
        {"name", part.name},
        {"parent", part.parent < 0 ? Json(nullptr) : getPartId(part.parent)},
        {"count", part.count},
        {"flops_per_device", part.whole.flops},
        {"wire_bytes_per_device", part.whole.wireBytes}};
    if (time) {
      json["compute_us"] = double(part.whole.computeNs) / 1e3;
      json["exposed_us"] = double(part.whole.exposedNs) / 1e3;
    }
    for (size_t category = 0; category < numMemoryCategories; ++category)
      json["at_peak"][getName(MemoryCategory(category))] =
          part.whole.bytes[category];
    all.push_back(std::move(json));
  }
  return all;
}
