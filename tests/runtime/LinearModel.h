#ifndef MESHC_TESTS_RUNTIME_LINEARMODEL_H
#define MESHC_TESTS_RUNTIME_LINEARMODEL_H

/// A whole model by hand: linear regression, data-parallel.
///
///   x: f32[batch, feature], y: i32[batch]; w: f32[feature]
///   residual = x w - y: f32[batch]
///   loss = mean(residual^2), accuracy = mean(|residual| < 1/2)
///
/// trained by gradient descent. The batch is split over the mesh, the gradient
/// is summed over it, and loss and accuracy leave as partial sums. What x w - y
/// was in the last step is state, split as the batch.

#include "runtime/exec/Executable.h"
#include "runtime/exec/KernelTable.h"

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace meshc::runtime::test {

struct LinearModel {
  static constexpr int64_t batch = 12;
  static constexpr int64_t features = 3;
  static constexpr int64_t labels = 9; ///< y in [0, labels)

  /// The program on `devices` devices (a divisor of the batch); the names of
  /// its data files end in `suffix`.
  static std::vector<uint8_t> makeProgram(int64_t devices,
                                          const std::string &suffix = "");
  static std::span<const meshcKernelEntry> getKernels();
};

/// Steps until the model's step program raises SIGINT; 0: never.
extern int stepsToInterrupt;

/// Steps until the model's step program makes the parameter NaN; 0: never.
extern int stepsToNan;

/// Where a thread keeps data below its stack pointer, how many bytes of it the
/// handler of that SIGINT changed. Known if the main thread ran the step.
extern size_t bytesBelowStackChanged;

/// Updates by other threads than the main one that SIGINT might interrupt.
extern std::atomic<int> updatesOpenToSignals;

/// A folder that lives as long as the object.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::string operator/(const std::string &name) const {
    return (path / name).string();
  }

  std::filesystem::path path;
};

void writeBytes(const std::string &path, const std::string &bytes);
std::string readBytes(const std::string &path);

/// The bytes of an IDX file, whose elements have one byte unless `type` says
/// another one.
std::string makeIdx(const std::vector<int64_t> &sizes,
                    const std::string &elements, char type = 0x08);

/// Compresses as gzip does.
std::string compress(const std::string &bytes);

/// Writes train-x, train-y, test-x and test-y: labels are 2 x0 + 4 x1 + 2 x2,
/// rounded, for x in [0, 1].
void writeLinearData(const TemporaryFolder &folder, int64_t trainSamples = 100,
                     int64_t testSamples = 31);

/// Puts the samples of train-x and train-y into files of so many each, train-x0
/// and so on, and removes these.
void splitLinearData(const TemporaryFolder &folder,
                     const std::vector<int64_t> &counts);

} // namespace meshc::runtime::test

#endif
