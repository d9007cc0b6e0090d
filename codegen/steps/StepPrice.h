#ifndef MESHC_CODEGEN_STEPS_STEPPRICE_H
#define MESHC_CODEGEN_STEPS_STEPPRICE_H

#include "codegen/exec/Exec.h"
#include "layout/Machine.h"

namespace meshc::codegen {

/// Microseconds that a device computes for a step, as plans say them; 0 of one
/// that communicates, and of a slice or a stack, which say where tensors lie.
double getComputationUs(steps::StepOpInterface step,
                        const layout::Machine &machine);

/// Microseconds that a transfer is under way, of all its members together; 0 of
/// a step that computes.
double getTransferUs(steps::StepOpInterface step, const layout::Mesh &mesh,
                     const layout::Machine &machine);

} // namespace meshc::codegen

#endif
