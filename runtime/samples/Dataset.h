#ifndef MESHC_RUNTIME_SAMPLES_DATASET_H
#define MESHC_RUNTIME_SAMPLES_DATASET_H

#include "runtime/data/Values.h"
#include "runtime/io/ByteListener.h"
#include "runtime/samples/Conversion.h"
#include "runtime/samples/SampleFiles.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace meshc::runtime {

/// The samples of one split for the data-fed inputs of a program.
class Dataset {
public:
  enum class Split : uint8_t { Train, Test };

  /// Opens the files of every data source below `folder`, of a pattern
  /// (FilePattern.h) all that it names, and checks them against the inputs of
  /// `program`: samples have as many elements as the input has beside the dim
  /// that counts them, integer inputs get integers in range (of files that are
  /// too long to be looked at, when they are fed), and all inputs have equally
  /// many samples, for training a batch at least; those of equally many files
  /// have them alike in each.
  /// Errors, with the place of the data source in the spec: WrongData where the
  /// files do not fit the program, ValueOutOfRange; those of the readers.
  /// NothingToDo where there are no files for this split. `listener` is told
  /// how far a file is that is read as a whole.
  static Result<Dataset> load(const Executable &executable,
                              const exec::ProgramT &program, Split split,
                              const std::string &folder,
                              const ByteListener &listener = {});

  int64_t getNumSamples() const { return numSamples; }
  /// For training those of a step, else those that a run of the program takes.
  int64_t getBatchSize() const { return runSize * numParts; }
  /// Parts of a step, in which a run takes its share of a batch.
  int64_t getNumParts() const { return numParts; }
  /// Samples that a run of the program takes.
  int64_t getRunSize() const { return runSize; }
  /// Whole batches.
  int64_t getNumBatches() const { return numSamples / getBatchSize(); }

  /// Of each input, equal for equal samples; see SampleArray. Errors: those of
  /// reading.
  Result<std::vector<std::pair<std::string, std::string>>> getDigests() const;
  /// All of them together.
  Result<std::string> getDigest() const;

  std::vector<std::string> getPaths() const;
  /// Of an input of integers with one element a sample, those of the samples
  /// from `first` on. Errors: those of reading.
  Result<std::vector<int64_t>> getIntegers(const exec::PortT &port,
                                           int64_t first, int64_t count) const;

  /// Bytes of a sample, as an input has them.
  int64_t getSampleBytes(size_t input) const;
  /// Reads samples into `room`, which gets their size, as an input has them,
  /// but in the order of the file. Any number of threads may do so. Errors: of
  /// the first sample that has one; ValueOutOfRange, those of reading.
  Status readSamples(size_t input, int64_t first, int64_t count,
                     std::vector<std::byte> &room) const;

  size_t getNumInputs() const { return sources.size(); }
  const exec::PortT &getInput(size_t input) const {
    return *sources[input].port;
  }
  /// Writes a device's part of an input of a run into its block at `target`;
  /// `samples` has getRunSize() sample numbers. Any number of threads may do
  /// so. Errors: ValueOutOfRange, those of reading.
  Status fill(size_t input, const layout::Mesh &mesh, int64_t device,
              std::span<const int64_t> samples, std::byte *target) const;
  /// The same for all inputs on all devices of this process.
  Status feed(DeviceSet &devices, std::span<const int64_t> samples) const;

private:
  struct Source {
    const exec::PortT *port;
    size_t axis; ///< which counts samples
    SampleFiles files;
    Conversion conversion;
  };
  /// Elements of one sample that lie side by side in a block, too.
  struct Run {
    int64_t sample, first, count; ///< in elements of the sample
    int64_t place;                ///< in elements of the block
  };

  static Result<Source> open(const exec::ExecutableT &data,
                             const exec::DataSourceT &source,
                             const exec::PortT &port, Split split,
                             const std::string &folder,
                             const ByteListener &listener);
  /// An error where inputs do not have the same samples.
  Status checkSamples(const Source &next) const;
  static Status copyRun(const Source &source, const Run &run,
                        std::byte *target);

  std::vector<Source> sources;
  int64_t numSamples = 0;
  int64_t runSize = 0;
  int64_t numParts = 1;
};

/// Whether the data block of a program has files to evaluate on.
bool hasTestFiles(const exec::ExecutableT &data);

} // namespace meshc::runtime

#endif
