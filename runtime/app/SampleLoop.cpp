#include "runtime/app/SampleLoop.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

using namespace meshc;
using namespace meshc::runtime;

using Clock = Progress::Clock;

/// The output that says whether a gradient overflowed, and the loss scale is
/// smaller now (passes/LossScale.h).
static constexpr std::string_view retryOutput = "fp16/retry";

Status SampleLoop::runBatch(Session &session, std::span<const int64_t> samples,
                            int64_t number) const {
  const exec::PortT *retry = findPort(program.outputs, retryOutput);
  while (true) {
    // Each time: a run may put other values where an input was.
    Status ran = feed(samples);
    if (ran)
      ran = session.run(program, number);
    if (!ran || !retry)
      return ran;
    Result<HostArray> again = session.read(*retry);
    if (!again)
      return again.getError();
    if (getScalar(*again) == 0)
      return Status::success();
  }
}

Result<std::vector<NamedValue>>
SampleLoop::runSamples(Session &session, int64_t first, int64_t count) const {
  const int64_t copies = batchSize / count;
  const int64_t rest = batchSize % count;
  std::vector<int64_t> samples;
  for (int64_t place = 0; place < batchSize; ++place)
    samples.push_back(first + (place < copies * count ? place % count : 0));
  const int64_t number = first / batchSize + firstRun;
  Status ran = runBatch(session, samples, number);
  if (ran && visit)
    ran = visit(first, count);
  if (!ran)
    return ran.getError();
  if (!needsMeans)
    return std::vector<NamedValue>();
  Result<std::vector<NamedValue>> mixed = session.readScalars(program);
  if (!mixed)
    return mixed.getError();
  if (rest > 0) {
    samples.assign(size_t(batchSize), first);
    ran = runBatch(session, samples, number);
    if (!ran)
      return ran.getError();
    Result<std::vector<NamedValue>> single = session.readScalars(program);
    if (!single)
      return single.getError();
    const double share = double(rest) / double(batchSize);
    for (size_t i = 0; i < mixed->size(); ++i)
      // What is infinite or NaN for one sample is so for those it is among.
      if (std::isfinite((*single)[i].value))
        (*mixed)[i].value -= share * (*single)[i].value;
  }
  for (NamedValue &value : *mixed)
    value.value /= double(copies);
  return mixed;
}

Result<std::vector<NamedValue>> SampleLoop::run(Session &session) const {
  const int64_t numBatches = (numSamples + batchSize - 1) / batchSize;
  std::vector<NamedValue> sums;
  Progress own;
  Progress &progress = shared ? *shared : own;
  const Clock::time_point start = Clock::now();
  for (int64_t batch = 0; batch < numBatches; ++batch) {
    const int64_t used = batch * batchSize;
    const int64_t count = std::min(batchSize, numSamples - used);
    Result<std::vector<NamedValue>> values = runSamples(session, used, count);
    if (!values) {
      progress.finish();
      return values.getError();
    }
    if (sums.empty())
      sums = std::move(*values);
    else
      for (size_t i = 0; i < sums.size(); ++i)
        sums[i].value += (*values)[i].value;
    const Clock::time_point now = Clock::now();
    const bool isLast = batch + 1 == numBatches;
    if (!session.isFirst() || now - start < quietTime ||
        (!progress.isDue(now) && !isLast))
      continue;
    const double seconds = std::chrono::duration<double>(now - start).count();
    progress.show(
        {name, fmt::format("batch {}/{}", batch + 1, numBatches),
         fmt::format("{} samples/s",
                     formatRate(double(used + count) / seconds)),
         fmt::format("{} left", formatDuration(double(numBatches - batch - 1) *
                                               seconds / double(batch + 1)))},
        now, isLast);
  }
  own.finish();
  for (NamedValue &sum : sums)
    sum.value /= double(numSamples) / double(batchSize);
  return sums;
}
