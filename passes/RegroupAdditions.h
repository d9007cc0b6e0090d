#ifndef MESHC_PASSES_REGROUPADDITIONS_H
#define MESHC_PASSES_REGROUPADDITIONS_H

#include "passes/TermFlow.h"

namespace meshc {

/// Rewrites chains of additions so that terms pending over the same axes are
/// added first: ((whole + p1) + p2) + p3 becomes whole + ((p1 + p2) + p3),
/// which completes one sum instead of three. Only float additions of operands
/// and result of one type whose intermediate sums nothing else reads, and only
/// where it saves completions. The order of the sum changes; with it, in the
/// last bits, its value.
///
/// Returns whether the program changed; `flow` is then out of date.
bool regroupAdditions(nd::ProgramOp program, const TermFlow &flow);

} // namespace meshc

#endif
