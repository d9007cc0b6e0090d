#ifndef MESHC_RUNTIME_DATA_INPUTFILES_H
#define MESHC_RUNTIME_DATA_INPUTFILES_H

#include "runtime/data/NpyFile.h"
#include "runtime/data/Values.h"
#include "runtime/io/RunningDigest.h"
#include "runtime/ranks/Ranks.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace meshc::runtime {

/// The place of the dim called `name`; none where the tensor has no such dim,
/// or `name` is empty.
std::optional<size_t> findDim(const exec::TensorLayoutT &layout,
                              std::string_view name);

/// The arrays that the inputs of a program are fed from. Along the batch dim
/// they have any number of samples, the same in all; of one that has the dim no
/// more than a batch is in memory.
class InputFiles {
public:
  /// Opens the file of each input. `batchDim` is empty where all sizes have to
  /// be those of the program. `comparesRanks`: other processes read files too,
  /// which have to be the same.
  /// Errors: WrongArray where a type or shape does not fit or numbers of
  /// samples differ, ValueOutOfRange; see readNpy.
  static Result<InputFiles>
  open(std::vector<std::pair<const exec::PortT *, std::string>> files,
       const std::string &batchDim, bool comparesRanks);

  /// Along the batch dim; none where no input has it.
  std::optional<int64_t> getNumSamples() const { return numSamples; }

  /// Writes sample samples[i] of every file into place i of the batch, on every
  /// device. Errors: ValueOutOfRange; see NpyFile.
  Status feed(DeviceSet &devices, std::span<const int64_t> samples);

  std::vector<std::string> getPaths() const;
  /// The first elements of an input of integers, as they were fed last.
  std::vector<int64_t> getIntegers(const exec::PortT &port,
                                   int64_t count) const;

  /// What ranks have to agree on before a run, and of what was read after all.
  Agreements getShapes() const;
  Agreements getDigests() const;

private:
  struct Input {
    const exec::PortT *port;
    NpyFile file;
    std::optional<size_t> axis;   ///< of the batch
    std::vector<std::byte> batch; ///< what the devices get
    RunningDigest digest;         ///< of what was read
  };

  static Status checkShape(const Input &input, const std::string &batchDim);
  /// Reads elements of a file, in its order, to `target`.
  Status read(Input &input, int64_t first, std::span<std::byte> target) const;
  Status readBatch(Input &input, std::span<const int64_t> samples) const;

  std::vector<Input> inputs;
  std::optional<int64_t> numSamples;
  bool comparesRanks = false;
};

} // namespace meshc::runtime

#endif
