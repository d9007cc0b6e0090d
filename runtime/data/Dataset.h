#ifndef MESHC_RUNTIME_DATA_DATASET_H
#define MESHC_RUNTIME_DATA_DATASET_H

#include "runtime/data/Idx.h"
#include "runtime/data/Values.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace meshc::runtime {

/// The dim that counts the samples of a batch, as the program says it: that of
/// its training, or the leading one of the input that its data block names
/// first. Empty where the program has no data block.
std::string getBatchDim(const exec::ExecutableT &data);

/// The samples of one split for the data-fed inputs of a program.
class Dataset {
public:
  enum class Split : uint8_t { Train, Test };

  /// Reads the files of every data source below `folder` and checks them
  /// against the inputs of `program`: items have as many elements as the input
  /// has behind its batch dimension, integer inputs get integers in range, and
  /// all files have equally many samples, for training a batch at least.
  /// Errors, with the place of the data source in the spec: WrongData where the
  /// files do not fit the program, ValueOutOfRange; see readIdx.
  static Result<Dataset> load(const Executable &executable,
                              const exec::ProgramT &program, Split split,
                              const std::string &folder);

  int64_t getNumSamples() const { return numSamples; }
  int64_t getBatchSize() const { return batchSize; }
  /// Whole batches.
  int64_t getNumBatches() const { return numSamples / batchSize; }

  /// Of each input, equal for equal samples; see getDigest() of Ranks.h.
  std::vector<std::pair<std::string, std::string>> getDigests() const;
  /// All of them together.
  std::string getDigest() const;

  std::vector<std::string> getPaths() const;
  /// Of an input of integers with one element a sample, those of the samples
  /// from `first` on.
  std::vector<int64_t> getIntegers(const exec::PortT &port, int64_t first,
                                   int64_t count) const;

  /// Writes one batch into the inputs' blocks on every device; `samples` has
  /// getBatchSize() sample numbers.
  Status feed(DeviceSet &devices, std::span<const int64_t> samples) const;

private:
  struct Source {
    const exec::PortT *port;
    IdxFile file;
    double divide = 1;
    std::vector<float> scaled; ///< of each byte, for f32 from bytes
  };

  static Result<Source> loadSource(const exec::ExecutableT &data,
                                   const exec::DataSourceT &source,
                                   const exec::PortT &port, Split split,
                                   const std::string &folder);
  /// Writes a device's part of a batch into its block at `target`.
  static void fillBlock(const Source &source, const Placement &placement,
                        std::span<const int64_t> samples, std::byte *target);

  std::vector<Source> sources;
  int64_t numSamples = 0;
  int64_t batchSize = 0;
};

} // namespace meshc::runtime

#endif
