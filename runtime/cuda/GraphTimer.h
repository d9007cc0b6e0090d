#ifndef MESHC_RUNTIME_CUDA_GRAPHTIMER_H
#define MESHC_RUNTIME_CUDA_GRAPHTIMER_H

/// How long a GPU takes for something that steps have in a graph. Calls that
/// are timed as they are issued measure the host where the GPU is the faster
/// one, which is so below some microseconds a call. So the calls to time are a
/// graph, many enough that the host is done with what comes next meanwhile, and
/// a launch of it is timed that waits behind another:
///
///   host    launch record launch record
///   GPU            [ graph ]|[ graph ]|
///                         begin      end

#include "runtime/cuda/library/Resources.h"

#include <functional>

namespace meshc::runtime::cuda {

class GraphTimer {
public:
  /// Prepares to time what `issue` enqueues on `stream`. That runs some times
  /// and is recorded `repeats` times in a graph, or often enough for 0.
  /// Errors: of `issue`, or GpuCallFailed where there can be no graph.
  static Result<GraphTimer> create(const Driver &driver, Stream stream,
                                   const std::function<Status()> &issue,
                                   int repeats = 0);

  /// Microseconds of what was issued, once.
  Result<double> measure() const;

private:
  GraphTimer(const Driver &driver, Stream stream)
      : driver(&driver), stream(stream) {}

  const Driver *driver;
  Stream stream;
  OwnedEvent begin, end;
  OwnedGraphExecutable graph;
  int repeats = 1;
};

} // namespace meshc::runtime::cuda

#endif
