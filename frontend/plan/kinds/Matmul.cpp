#include "frontend/plan/kinds/PlannedKind.h"

#include "frontend/plan/Quantities.h"
#include "runtime/plans/MatmulPlan.h"

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::plan;

static std::optional<layout::Machine::Price>
findPrice(const exec::CommandT &command, const layout::Machine &machine) {
  // Of integers by plain loops.
  if (std::optional<layout::MatmulType> type = findMatmulType(command))
    return machine.findMatmulPrice(*type, double(command.flops),
                                   double(command.bytes));
  return findKernelPrice(command, machine);
}

static void addGpuUse(const PlannedCommand &planned, GpuUse &use) {
  runtime::Result<runtime::cuda::MatmulPlan> calls =
      runtime::cuda::planMatmul(*planned.command);
  if (calls)
    use.products += planned.repeats * runtime::cuda::countCalls(*calls);
  else
    use.refusedProducts.push_back(planned.id + ": " + calls.getError().message);
}

static std::string explainLaunches(const exec::CommandT &command) {
  runtime::Result<runtime::cuda::MatmulPlan> calls =
      runtime::cuda::planMatmul(command);
  return calls ? fmt::format(
                     "  It is {} of cuBLASLt.\n",
                     formatCount(runtime::cuda::countCalls(*calls), "call"))
               : fmt::format("  {}.\n", calls.getError().message);
}

const PlannedKind plan::plannedMatmul = {.description = "a library matmul",
                                         .flopsName = "matmuls",
                                         .findPrice = findPrice,
                                         .addGpuUse = addGpuUse,
                                         .explainLaunches = explainLaunches};
