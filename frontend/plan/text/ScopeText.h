#ifndef MESHC_FRONTEND_PLAN_TEXT_SCOPETEXT_H
#define MESHC_FRONTEND_PLAN_TEXT_SCOPETEXT_H

#include "frontend/plan/ScopeSums.h"

namespace meshc::plan {

/// What calls and loops take, a row for each of the `top` that take most, in
/// the order of the model, and one for what is in none:
///
///   calls and loops, on each device
///                        flops      sent  computing  waiting  at the peak
///     layer, 4 times      99 %  52.1 MiB     120 us   361 us     80.5 MiB
///     layer/block/attn    34 %  ...
///     in none              1 %  ...
///
/// Without a machine there are no times. Empty of a program without scopes.
std::string renderScopes(const Plan &plan, const EqualScopes &scopes,
                         const std::vector<Transfer> &transfers,
                         const GpuUse &gpu, const layout::Machine *machine,
                         size_t top);

} // namespace meshc::plan

#endif
