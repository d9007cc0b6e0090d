#ifndef MESHC_TESTS_FRONTEND_PLAN_EXAMPLEEXECUTABLE_H
#define MESHC_TESTS_FRONTEND_PLAN_EXAMPLEEXECUTABLE_H

#include "runtime/exec/exec_generated.h"

namespace meshc::plan {

/// The training step of y = relu(x w), loss = sum(y v) written by hand as a
/// command list, batch 6 over data=2 and hidden 7 over model=3, so that hidden
/// does not divide. In the order of its commands:
///
///   0 matmul      y    = relu(x w)
///   1 matmul           the product y v, unnamed, a partial sum over model
///   2 all_reduce       of it over model (c1), unnamed
///   3 kernel      loss = the rest, in a buffer that was the product's
///   4 kernel           gradient of y
///   5 matmul           gradient of w, partial over data
///   6 all_reduce       of it (c2), for two merged reasons
///   7 kernel      w    = w - lr * gradient, and the count of steps
///
/// Each waits for what it reads, so that nothing runs beside a collective.
///
/// Buffers, bytes, lives: w 60 always; step 4 always; x 60 always;
/// y 36 0-4; product 12 1-7; loss's sum 12 2-3; gradient of y 36 4-5; gradient
/// of w 60 5-7.
exec::ExecutableT makeExample();

/// The same for GPUs: product 0 is one call of cuBLASLt, product 5 two (its
/// batch dimensions are not one step apart), product 1 of integers is refused;
/// kernel 4 is two launches. The elements of c1 are not contiguous, so each of
/// its 3 devices packs its block twice, to send it and to add the others to it,
/// and receives two.
exec::ExecutableT makeGpuExample();

/// The same, but c2 takes the unnamed sum along as c3, and the loss waits for
/// nothing: the forward sum may take until the update of w.
exec::ExecutableT makeExampleWithOverlap();

/// The text of the spec that the spans of the example point into.
extern const char *const exampleSpec;

} // namespace meshc::plan

#endif
