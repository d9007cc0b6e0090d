#ifndef MESHC_RUNTIME_APP_TESTSPLIT_H
#define MESHC_RUNTIME_APP_TESTSPLIT_H

/// Evaluation on the samples of the test files (SampleLoop.h).

#include "runtime/app/Progress.h"
#include "runtime/app/Session.h"
#include "runtime/samples/Dataset.h"

#include <optional>
#include <string>
#include <vector>

namespace meshc::runtime {

/// The evaluation program with the files it runs on.
class TestSplit {
public:
  /// Errors: as Dataset::load.
  static Result<TestSplit> load(const Session &session,
                                const std::string &dataFolder);

  const Dataset &getDataset() const { return dataset; }

  /// How many samples an evaluation takes: all, or those of the first
  /// `maxBatches` batches.
  int64_t getNumEvaluated(std::optional<int64_t> maxBatches) const;
  /// Runs program "eval" over these samples; the mean of every scalar output.
  /// Progress goes to standard error; with `shared`, the line of something that
  /// this is a part of, it is told of what takes longer than quietTime.
  Result<std::vector<NamedValue>> evaluate(Session &session,
                                           std::optional<int64_t> maxBatches,
                                           Progress *shared = nullptr) const;
  /// Prints these means, as "test loss 0.3123" and "test accuracy 88.9 %".
  void print(const std::vector<NamedValue> &means,
             std::optional<int64_t> maxBatches) const;

private:
  TestSplit(const exec::ProgramT *program, Dataset dataset)
      : program(program), dataset(std::move(dataset)) {}

  const exec::ProgramT *program;
  Dataset dataset;
};

/// Loads the test split, compares it on all ranks and evaluates.
Status evaluateOnTestSplit(Session &session, const std::string &dataFolder,
                           std::optional<int64_t> maxBatches);

} // namespace meshc::runtime

#endif
