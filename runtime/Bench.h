#ifndef MESHC_RUNTIME_BENCH_H
#define MESHC_RUNTIME_BENCH_H

#include "runtime/Session.h"

namespace meshc::runtime {

struct BenchRequest {
  int64_t steps = 20;
  int64_t seed = 0;
  double compileSeconds = 0; ///< passed through to the result
  bool profile = false;      ///< adds where the time goes
};

/// Runs the training step on random data, twice to warm up and then
/// `request.steps` times, and prints one line of JSON on standard output.
Status runBench(Session &session, const BenchRequest &request);

/// Random contents for an input: normal floats (mean 0, deviation 1), integers
/// uniform in [0, index_bound), a pure function of seed, name and element
/// index.
HostArray makeRandomInput(const exec::PortT &port, int64_t seed);

} // namespace meshc::runtime

#endif
