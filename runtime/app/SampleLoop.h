#ifndef MESHC_RUNTIME_APP_SAMPLELOOP_H
#define MESHC_RUNTIME_APP_SAMPLELOOP_H

/// A program run over any number of samples, batch by batch.
///
/// A program has batches of one size, B samples each. Where r < B samples are
/// left in the end, they are put into the places of a batch more than once:
///
///   mixed   each of the r samples in floor(B / r) places, and the first of
///           them in the B mod r places that remain
///
/// Outputs that have the batch dim are taken from its first r places. Outputs
/// without dims, such as loss and accuracy, are means over the batch: the part
/// of the r samples in one is found with a second run:
///
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

#include "runtime/app/Progress.h"
#include "runtime/app/Session.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace meshc::runtime {

struct SampleLoop {
  const exec::ProgramT &program;
  int64_t batchSize;
  int64_t numSamples; ///< 0: nothing is run
  /// Puts a sample into each place of the batch.
  std::function<Status(std::span<const int64_t> samples)> feed;
  /// After the run on samples [first, first + count), which are in as many
  /// places from the first on; none: nothing is done.
  std::function<Status(int64_t first, int64_t count)> visit{};
  bool needsMeans = true; ///< of outputs without dims
  std::string name;       ///< of the line that shows how far it is
  int64_t firstRun = 1;   ///< the number of the first batch
  /// A loop that is over before shows nothing.
  Progress::Clock::duration quietTime{};
  /// Whose line the loop rewrites, and leaves to be rewritten; null: its own.
  Progress *shared = nullptr;

  /// Runs it on all samples. The means over samples of the outputs without
  /// dims, in the order of the program, if they are needed. A program that
  /// computes gradients in fp16 runs until they are finite numbers, or its loss
  /// scale is at its lowest.
  Result<std::vector<NamedValue>> run(Session &session) const;

private:
  Status runBatch(Session &session, std::span<const int64_t> samples,
                  int64_t number) const;
  /// What the samples are of the outputs of a batch: those of the batches of
  /// all samples add up to the outputs' means, times the samples in batches.
  Result<std::vector<NamedValue>> runSamples(Session &session, int64_t first,
                                             int64_t count) const;
};

} // namespace meshc::runtime

#endif
