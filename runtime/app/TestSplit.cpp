#include "runtime/app/TestSplit.h"

#include "runtime/app/Progress.h"
#include "runtime/io/StandardStreams.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

using namespace meshc;
using namespace meshc::runtime;

using Clock = std::chrono::steady_clock;

Result<TestSplit> TestSplit::load(const Session &session,
                                  const std::string &dataFolder) {
  Result<const exec::ProgramT *> program = session.getProgram("eval");
  if (!program)
    return program.getError();
  Result<Dataset> dataset = Dataset::load(session.getExecutable(), **program,
                                          Dataset::Split::Test, dataFolder);
  if (!dataset)
    return dataset.getError();
  return TestSplit(*program, std::move(*dataset));
}

Result<std::vector<NamedValue>>
TestSplit::runBatch(Session &session,
                    const std::vector<int64_t> &samples) const {
  Status ran = dataset.feed(session.getDevices(), samples);
  if (ran)
    ran = session.run(*program);
  if (!ran)
    return ran.getError();
  return session.readScalars(*program);
}

Result<std::vector<NamedValue>>
TestSplit::runSamples(Session &session, int64_t first, int64_t count) const {
  const int64_t batchSize = dataset.getBatchSize();
  const int64_t copies = batchSize / count;
  const int64_t rest = batchSize % count;
  std::vector<int64_t> samples;
  for (int64_t place = 0; place < batchSize; ++place)
    samples.push_back(first + (place < copies * count ? place % count : 0));
  Result<std::vector<NamedValue>> mixed = runBatch(session, samples);
  if (!mixed)
    return mixed.getError();
  if (rest > 0) {
    samples.assign(size_t(batchSize), first);
    Result<std::vector<NamedValue>> single = runBatch(session, samples);
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

/// Shows how far an evaluation is.
static void showProgress(Progress &progress, int64_t batches,
                         int64_t allBatches, int64_t samples,
                         Clock::time_point start) {
  const Clock::time_point now = Clock::now();
  const bool isLast = batches == allBatches;
  if (!progress.isDue(now) && !isLast)
    return;
  const double seconds = std::chrono::duration<double>(now - start).count();
  progress.show(
      {"evaluation", fmt::format("batch {}/{}", batches, allBatches),
       fmt::format("{} samples/s", formatRate(double(samples) / seconds)),
       fmt::format("{} left", formatDuration(double(allBatches - batches) *
                                             seconds / double(batches)))},
      now, isLast);
}

Result<std::vector<NamedValue>>
TestSplit::evaluate(Session &session, std::optional<int64_t> maxBatches) const {
  const int64_t batchSize = dataset.getBatchSize();
  const int64_t numSamples = dataset.getNumSamples();
  const int64_t allBatches = (numSamples + batchSize - 1) / batchSize;
  const int64_t numBatches =
      std::min(allBatches, maxBatches.value_or(allBatches));
  std::vector<NamedValue> sums;
  int64_t used = 0;
  Progress progress;
  const Clock::time_point start = Clock::now();
  for (int64_t batch = 0; batch < numBatches; ++batch) {
    const int64_t count = std::min(batchSize, numSamples - used);
    Result<std::vector<NamedValue>> values = runSamples(session, used, count);
    if (!values)
      return values.getError();
    used += count;
    if (sums.empty())
      sums = std::move(*values);
    else
      for (size_t i = 0; i < sums.size(); ++i)
        sums[i].value += (*values)[i].value;
    if (session.isFirst())
      showProgress(progress, batch + 1, numBatches, used, start);
  }
  progress.finish();
  for (NamedValue &sum : sums)
    sum.value /= double(used) / double(batchSize);
  if (!session.isFirst())
    return sums;
  printOutput(fmt::format("evaluated {} of {} test samples, in batches of {}\n",
                          used, numSamples, batchSize));
  for (const auto &[name, mean] : sums)
    if (name == "accuracy")
      printOutput(fmt::format("test {} {:.1f} %\n", name, mean * 100));
    else
      printOutput(fmt::format("test {} {:.4g}\n", name, mean));
  return sums;
}

Status runtime::evaluateOnTestSplit(Session &session,
                                    const std::string &dataFolder,
                                    std::optional<int64_t> maxBatches) {
  Result<TestSplit> split = TestSplit::load(session, dataFolder);
  if (!split)
    return split.getError();
  if (session.hasOtherRanks()) {
    Status same =
        session.agree({{"the test data", split->getDataset().getDigest()}});
    if (!same)
      return same;
  }
  Result<std::vector<NamedValue>> means = split->evaluate(session, maxBatches);
  return means ? Status::success() : Status(means.getError());
}
