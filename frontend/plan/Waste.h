#ifndef MESHC_FRONTEND_PLAN_WASTE_H
#define MESHC_FRONTEND_PLAN_WASTE_H

#include "frontend/plan/Plan.h"

#include <optional>
#include <string>
#include <vector>

namespace meshc::plan {

/// Devices of the mesh that have nothing to do, or what others do too.
///
///   Uneven     12 heads over 8 devices: blocks of 2, and two devices have none
///   OneDevice  a rule over axes of one device each splits nothing
///   Repeated   more than half of the products of a step is not split over an
///              axis, so that its devices compute them alike: no rule names the
///              axis, or rules split over it no product
struct Waste {
  enum class Kind : uint8_t { Uneven, OneDevice, Repeated };
  Kind kind;
  const exec::NamedDimT *dim = nullptr; ///< null if Repeated
  std::vector<layout::AxisRef> axes;
  int64_t numDevices = 1; ///< along the axes
  int64_t numIdle = 0;    ///< of these
  double lost = 0; ///< of the devices' time for what is split so, or could be
  std::string text = {};            ///< one line
  const exec::Span *span = nullptr; ///< of the rule or the mesh; may be null
};

const char *getName(Waste::Kind kind);

/// In the order of the rules, then of the axes. Of uneven sizes only those that
/// leave a device idle or lose a tenth of the time are told.
std::vector<Waste> findWaste(const Plan &plan);

} // namespace meshc::plan

#endif
