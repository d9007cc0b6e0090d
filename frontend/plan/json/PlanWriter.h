#ifndef MESHC_FRONTEND_PLAN_JSON_PLANWRITER_H
#define MESHC_FRONTEND_PLAN_JSON_PLANWRITER_H

#include "frontend/plan/EqualScopes.h"
#include "frontend/plan/GpuUse.h"
#include "frontend/plan/MemoryUse.h"
#include "frontend/plan/Overlap.h"
#include "frontend/plan/Plan.h"
#include "frontend/plan/ScopeSums.h"
#include "frontend/plan/StepTime.h"
#include "frontend/plan/json/PlanJson.h"
#include "frontend/plan/text/SourceQuote.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

namespace meshc::plan {

/// Keeps the order in which fields are added.
using Json = nlohmann::ordered_json;

/// Microseconds, in whole nanoseconds: what is predicted is not better, and
/// every writer of JSON spells them alike.
inline double roundTime(double us) { return std::round(us * 1e3) / 1e3; }

/// Writes the parts of a plan's JSON, each in a file of its own.
class PlanWriter {
public:
  /// There are no times without a machine, and neither where it cannot run all
  /// of the plan.
  PlanWriter(const exec::ExecutableT &executable, const ReadSource &readSource,
             const PlanJsonOptions &options);

  Json write() const;

private:
  // PlanJson.cpp
  Json getSpec() const;
  Json getTotals() const;
  Json getWaste() const;
  Json getRemarks() const;
  Json getMachine() const;
  Json getLink(int axis) const;
  Json getTrace() const;
  void addMeasured(Json &json, const std::string &id) const;

  // ValueJson.cpp
  Json getSpan(const exec::Span &span) const;
  Json getSpan(const std::unique_ptr<exec::Span> &span) const;
  Json getAxisNames(const std::vector<exec::AxisRef> &axes) const;
  Json getDim(const exec::TensorLayoutT &layout, size_t dim) const;
  Json getPartial(const exec::TensorLayoutT &layout) const;
  void addGradient(Json &json, const exec::OriginT *origin,
                   const std::string &name) const;
  Json getTensor(size_t index) const;

  // ScopeJson.cpp
  Json getScopes() const;
  Json getScopeId(int scope) const;
  Json getParts() const;
  Json getPartId(int part) const;

  // CommandJson.cpp
  Json getSource(const ValueSource &source) const;
  Json getSources(const std::vector<ValueSource> &sources) const;
  Json getSharding(const exec::TensorLayoutT &layout) const;
  Json getOp(size_t index) const;
  Json getCause(const exec::CauseT &cause) const;
  Json getCollective(size_t index) const;
  Json getTransfer(const Transfer &transfer) const;
  Json getSchedule() const;

  // MemoryJson.cpp
  Json getMemory() const;

  Plan plan;
  const exec::ExecutableT &executable;
  const ReadSource &readSource;
  std::vector<Transfer> transfers;
  std::vector<int> transferOf; ///< by command: number of its transfer; -1
  GpuUse gpu;
  MemoryUse memory;
  EqualScopes scopes;
  const layout::Machine *machine;
  std::vector<int> unpriced; ///< commands that the machine cannot run
  std::optional<StepTime> time;
  ScopeSums sums;
  std::optional<int64_t> memoryLimit;
  const MeasuredPlan *measured; ///< may be null
};

} // namespace meshc::plan

#endif
