#ifndef MESHC_RUNTIME_APP_TESTSPLIT_H
#define MESHC_RUNTIME_APP_TESTSPLIT_H

/// Evaluation on the samples of the test files.
///
/// A program runs on whole batches, B samples each, and its outputs are of a
/// batch: loss and accuracy are means over it. Where r < B samples are left in
/// the end, their part of such an output is found from two runs:
///
///   mixed   each of the r samples in floor(B / r) places, and the first of
///           them in the B mod r places that remain
///   single  that first sample in all places
///
/// If an output of a batch is a mean over its places of what it is for the
/// sample there, (f_1 + ... + f_B) / B, then
///
///   floor(B / r) * (sum of the r samples) / B = mixed - (B mod r) / B * single
///
/// which is exact, to the rounding of the program's sums. It holds for sums
/// over the batch too, and with an addend that no sample has a part in, such as
/// a penalty on parameters: whatever is linear in the number of times that a
/// sample is there. Outputs that are not, a maximum over the batch or a
/// quotient of two sums, are averaged over batches as they come, the last one
/// in part; none of the two runs counts more than twice.

#include "runtime/app/Session.h"
#include "runtime/data/Dataset.h"

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

  /// Runs program "eval" over the samples, or those of the first `maxBatches`
  /// batches, and prints the mean of every scalar output, as "test loss 0.3123"
  /// and "test accuracy 88.9 %"; returns these means. Progress goes to standard
  /// error.
  Result<std::vector<NamedValue>>
  evaluate(Session &session, std::optional<int64_t> maxBatches) const;

private:
  TestSplit(const exec::ProgramT *program, Dataset dataset)
      : program(program), dataset(std::move(dataset)) {}

  /// The outputs of one batch.
  Result<std::vector<NamedValue>>
  runBatch(Session &session, const std::vector<int64_t> &samples) const;
  /// What the `count` samples from `first` on are of the outputs of a batch:
  /// those of the batches of all samples add up to the outputs' means over
  /// samples, times the samples in batches.
  Result<std::vector<NamedValue>> runSamples(Session &session, int64_t first,
                                             int64_t count) const;

  const exec::ProgramT *program;
  Dataset dataset;
};

/// Loads the test split, compares it on all ranks and evaluates.
Status evaluateOnTestSplit(Session &session, const std::string &dataFolder,
                           std::optional<int64_t> maxBatches);

} // namespace meshc::runtime

#endif
