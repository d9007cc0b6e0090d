#ifndef MESHC_RUNTIME_APP_BENCH_H
#define MESHC_RUNTIME_APP_BENCH_H

#include "runtime/app/Session.h"
#include "runtime/app/StepTracer.h"

namespace meshc::runtime {

struct BenchRequest {
  int64_t steps = 20;
  int64_t seed = 0;
  double compileSeconds = 0;         ///< passed through to the result
  bool profile = false;              ///< adds where the time goes
  TraceRequest trace;                ///< of steps behind those that are timed
  std::vector<NamedNumber> settings; ///< instead of the spec's
};

/// Runs the training step on random data, twice to warm up and then
/// `request.steps` times, and prints one line of JSON on standard output.
Status runBench(Session &session, const BenchRequest &request);

/// So many elements of an input are drawn, those behind repeat them: one takes
/// 65 ns on one thread, 26 s for the six inputs of
/// bench/gpu_kernels/elementwise.mesh.
/// Source: measured on an Intel Xeon.
inline constexpr int64_t maxRandomElements = int64_t(1) << 20;

/// Random contents for an input: normal floats (mean 0, deviation 1), integers
/// uniform in [0, index_bound), a pure function of seed, name and element
/// index modulo maxRandomElements.
HostArray makeRandomInput(const exec::PortT &port, int64_t seed);

} // namespace meshc::runtime

#endif
