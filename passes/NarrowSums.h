#ifndef MESHC_PASSES_NARROWSUMS_H
#define MESHC_PASSES_NARROWSUMS_H

#include "passes/TermFlow.h"

namespace meshc {

/// Rounds sums of widened gradients back to the type of these where they are
/// completed: with p1 and p2 in bf16, partial over "model", wide(p1) + wide(p2)
/// is added in f32, rounded to bf16, completed and widened again. One sum of
/// 16-bit terms travels, where each of them would. Only in the backward phase:
/// there what becomes infinite in fp16 is a step that is left out, with a lower
/// loss scale after it. Sums of the forward phase travel in f32, and so do
/// gradients of parameters.
///
/// Returns whether the program changed; `flow` is then out of date.
bool narrowSums(nd::ProgramOp program, const TermFlow &flow);

} // namespace meshc

#endif
