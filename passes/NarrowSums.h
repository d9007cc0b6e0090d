#ifndef MESHC_PASSES_NARROWSUMS_H
#define MESHC_PASSES_NARROWSUMS_H

#include "passes/TermFlow.h"

namespace meshc {

/// Rounds sums of widened values back to the type of these where they are
/// completed: with p1 and p2 in bf16, partial over "model", wide(p1) + wide(p2)
/// is added in f32, rounded to bf16, completed and widened again. One sum of
/// 16-bit terms travels, where each of them would.
///
/// Returns whether the program changed; `flow` is then out of date.
bool narrowSums(nd::ProgramOp program, const TermFlow &flow);

} // namespace meshc

#endif
