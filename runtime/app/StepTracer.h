#ifndef MESHC_RUNTIME_APP_STEPTRACER_H
#define MESHC_RUNTIME_APP_STEPTRACER_H

#include "runtime/app/Session.h"
#include "runtime/app/TraceJson.h"

#include <cstdint>
#include <string>
#include <vector>

namespace meshc::runtime {

struct TraceRequest {
  std::string path;  ///< empty: nothing is traced
  int64_t steps = 2; ///< how many
};

/// Runs the steps of a training, traces some of them and writes the trace, one
/// file for all processes, when the last of these is over.
///
/// They are traced early, so that there is a trace however long the training
/// is and whatever ends it: two steps warm up, in which libraries load what
/// they need and the graphs of GPUs are made, five are timed without a trace,
/// and the next ones are traced. Where a training has fewer steps, its last
/// ones are traced.
class StepTracer {
public:
  static constexpr int64_t warmUpSteps = 2;
  static constexpr int64_t timedSteps = 5;

  /// For a training of `program` from step `begin`, counted from 0, to
  /// `totalSteps`.
  /// Errors: TooManyTraceSteps; CannotWrite where the file cannot be made.
  static Result<StepTracer> create(Session &session,
                                   const exec::ProgramT &program,
                                   const TraceRequest &request, int64_t begin,
                                   int64_t totalSteps);
  /// Traces steps [first, first + request.steps) and times all in front of
  /// these but the first two that are run. Errors: CannotWrite.
  static Result<StepTracer> createAt(Session &session,
                                     const exec::ProgramT &program,
                                     const TraceRequest &request,
                                     int64_t first);

  /// Runs the step of this number, counted from 0; steps are run in order.
  /// Errors: of the devices; CannotWrite; see Session::collect.
  Status run(int64_t step);

private:
  StepTracer(Session &session, const exec::ProgramT &program,
             const TraceRequest &request)
      : session(&session), program(&program), request(request) {}

  Status runTraced(int64_t step);
  Status finish();

  Session *session;
  const exec::ProgramT *program;
  TraceRequest request;
  int64_t begin = 0; ///< the first step that is run
  int64_t first = 0; ///< that is traced
  std::vector<RunTrace> runs;
  double seconds = 0; ///< of the timed steps
  int64_t numTimed = 0;
};

} // namespace meshc::runtime

#endif
