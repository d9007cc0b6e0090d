#ifndef MESHC_CODEGEN_STEPS_COLLECTIVEFORM_H
#define MESHC_CODEGEN_STEPS_COLLECTIVEFORM_H

#include "dialect/SPMD.h"

#include <vector>

namespace meshc::codegen {

/// What the two shardings of a collective amount to on one device.
struct CollectiveForm {
  layout::CollectiveKind kind;
  /// Those the devices talk over, layout::ReshardStep.
  std::vector<layout::AxisRef> axes;
  int64_t groupSize = 1; ///< devices that talk; 1 for a slice
  layout::ReduceKind reduce = layout::ReduceKind::None;
  int64_t payloadElements = 0, payloadBytes = 0; ///< what a device brings in
  int64_t wireBytes = 0;                         ///< layout::getSending
  bool hasContiguousBlocks = true;               ///< layout::ReshardStep
};

CollectiveForm getCollectiveForm(spmd::CollectiveOpInterface op,
                                 const layout::Mesh &mesh);

} // namespace meshc::codegen

#endif
