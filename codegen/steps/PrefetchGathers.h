#ifndef MESHC_CODEGEN_STEPS_PREFETCHGATHERS_H
#define MESHC_CODEGEN_STEPS_PREFETCHGATHERS_H

#include "codegen/exec/Exec.h"

namespace meshc::codegen {

/// Has what is gathered on its way `layers` layers before the one that reads it
/// first, if it was there to be sent: parameters travel while the layer before
/// computes, and the weights of `layers` + 1 layers are there at once.
///
/// A layer is the steps of one phase in one iteration or call, the outermost
/// (getLayer); what is in none is a layer between those beside it. What a
/// gather sends moves along if it is made of nothing but variables, and a
/// gather stays behind what is not. With 0 layers everything stays where it is
/// read.
/// In a loop that is not written out nothing is sent for the next iteration.
///
/// Needs transfers of one collective each, and what is read of variables in
/// front of all steps (formSteps).
void prefetchGathers(steps::ProgramOp program, int64_t layers);

} // namespace meshc::codegen

#endif
