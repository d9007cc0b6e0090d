#ifndef MESHC_CODEGEN_STEPS_MERGETRANSFERS_H
#define MESHC_CODEGEN_STEPS_MERGETRANSFERS_H

#include "codegen/exec/Exec.h"

#include <optional>

namespace meshc::codegen {

/// Merges transfers of one small collective each, of one kind, over the same
/// axes, with one reduction, element type and phase, into transfers of several,
/// where the last of them stood.
///
/// A collective is small where its latency is a quarter of its time or more, on
/// the machine of the mesh. Others stay where they are: they neither wait
/// for small ones nor take them along. A small one is held back for later ones
///
/// - never past a step that reads its result;
/// - if the first such step does not belong to the update of the variables,
/// only
///   past other collectives, not past any computation;
/// - for at most as much computation as takes the time of sending a full
///   bucket, or a tenth of the program's time if that is more;
/// - as long as all together bring in no more than `bucketBytes` on a device;
///   without: the least power of two of which latency is at most a tenth, on
///   the machine of the mesh.
///
/// Of many small gradients the first are thus on their way while others are
/// still computed, and what is left at the end is less than a bucket. Every
/// device has the same list, so the order stays the same on all of them.
/// `bucketBytes` of 0 leaves everything as it is.
void mergeTransfers(steps::ProgramOp program,
                    std::optional<int64_t> bucketBytes = std::nullopt);

} // namespace meshc::codegen

#endif
