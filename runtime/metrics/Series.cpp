#include "runtime/metrics/Series.h"

#include <algorithm>
#include <cmath>

using namespace meshc;
using namespace meshc::runtime;

static void join(Series::Bin &bin, const Series::Bin &next) {
  bin.lastStep = next.lastStep;
  bin.notFinite += next.notFinite;
  if (next.count == 0)
    return;
  bin.least = bin.count > 0 ? std::min(bin.least, next.least) : next.least;
  bin.most = bin.count > 0 ? std::max(bin.most, next.most) : next.most;
  bin.sum += next.sum;
  bin.count += next.count;
}

void Series::add(int64_t step, double value) {
  Bin next{step, step, 1, value, value, value, 0};
  if (!std::isfinite(value)) {
    next = {step, step, 0, 0, 0, 0, 1};
    if (!firstNotFinite)
      firstNotFinite = step;
  }
  if (!bins.empty() && step - bins.back().firstStep < binSteps) {
    join(bins.back(), next);
    return;
  }
  if (bins.size() == mostBins)
    joinPairs();
  bins.push_back(next);
}

void Series::joinPairs() {
  for (size_t i = 0; i < mostBins / 2; ++i) {
    Bin bin = bins[2 * i];
    join(bin, bins[2 * i + 1]);
    bins[i] = bin;
  }
  bins.resize(mostBins / 2);
  binSteps *= 2;
}
