#include "runtime/app/TestSplit.h"

#include "runtime/app/Progress.h"
#include "runtime/app/SampleLoop.h"
#include "runtime/io/StandardStreams.h"

#include <fmt/format.h>

#include <algorithm>

using namespace meshc;
using namespace meshc::runtime;

Result<TestSplit> TestSplit::load(const Session &session,
                                  const std::string &dataFolder) {
  Result<const exec::ProgramT *> program = session.getProgram("eval");
  if (!program)
    return program.getError();
  ByteProgress progress("test data read");
  Result<Dataset> dataset =
      Dataset::load(session.getExecutable(), **program, Dataset::Split::Test,
                    dataFolder, progress.listen(session.isFirst()));
  if (!dataset)
    return dataset.getError();
  return TestSplit(*program, std::move(*dataset));
}

int64_t TestSplit::getNumEvaluated(std::optional<int64_t> maxBatches) const {
  const int64_t batchSize = dataset.getBatchSize();
  const int64_t numSamples = dataset.getNumSamples();
  const int64_t allBatches = (numSamples + batchSize - 1) / batchSize;
  const int64_t used =
      std::min(maxBatches.value_or(allBatches), allBatches) * batchSize;
  return std::min(used, numSamples);
}

Result<std::vector<NamedValue>>
TestSplit::evaluate(Session &session, std::optional<int64_t> maxBatches,
                    Progress *shared) const {
  const SampleLoop loop{
      .program = *program,
      .batchSize = dataset.getBatchSize(),
      .numSamples = getNumEvaluated(maxBatches),
      .feed =
          [&](std::span<const int64_t> samples) {
            return dataset.feed(session.getDevices(), samples);
          },
      .name = "evaluation",
      .quietTime = shared ? quietTime : Progress::Clock::duration(),
      .shared = shared};
  return loop.run(session);
}

void TestSplit::print(const std::vector<NamedValue> &means,
                      std::optional<int64_t> maxBatches) const {
  printOutput(fmt::format("evaluated {} of {} test samples, in batches of {}\n",
                          getNumEvaluated(maxBatches), dataset.getNumSamples(),
                          dataset.getBatchSize()));
  for (const auto &[name, mean] : means)
    if (name == "accuracy")
      printOutput(fmt::format("test {} {:.1f} %\n", name, mean * 100));
    else
      printOutput(fmt::format("test {} {:.4g}\n", name, mean));
}

Status runtime::evaluateOnTestSplit(Session &session,
                                    const std::string &dataFolder,
                                    std::optional<int64_t> maxBatches) {
  Result<TestSplit> split = TestSplit::load(session, dataFolder);
  if (!split)
    return split.getError();
  if (session.hasOtherRanks()) {
    Result<std::string> digest = split->getDataset().getDigest();
    if (!digest)
      return digest.getError();
    Status same = session.agree({{"the test data", *digest}});
    if (!same)
      return same;
  }
  Result<std::vector<NamedValue>> means = split->evaluate(session, maxBatches);
  if (!means)
    return means.getError();
  if (session.isFirst())
    split->print(*means, maxBatches);
  return Status::success();
}
