#ifndef MESHC_RUNTIME_APP_OUTPUTFILE_H
#define MESHC_RUNTIME_APP_OUTPUTFILE_H

#include "runtime/data/InputFiles.h"
#include "runtime/data/NpyFile.h"
#include "runtime/data/Values.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace meshc::runtime {

/// The gradient of NAME is the output with this before its name.
inline constexpr std::string_view gradientPrefix = "grad:";

/// The samples of a prediction and what a batch of them is.
struct Samples {
  std::string dim; ///< that counts them; empty: there is none
  int64_t count;
  int64_t batchSize; ///< 1 without such a dim

  bool areOneBatch() const { return count == batchSize; }
  /// Where a tensor has the dim; none: it has not.
  std::optional<size_t> findAxis(const exec::TensorLayoutT &layout) const {
    return findDim(layout, dim);
  }
};

/// The files that a command reads and writes, by whatever name.
class TakenFiles {
public:
  void add(const std::string &path);
  /// Takes a file to write, which is for `what`; devices and pipes take more
  /// than one. Errors: RepeatedInput where it is one of them already.
  Status addWritten(const std::string &path, const std::string &what);

private:
  std::set<std::string> places;
};

/// An output of a program for all samples, on its way into a .npy file: what
/// batches give is cut to their samples and put together. One without the batch
/// dim is that of the only batch.
class OutputFile {
public:
  /// Errors: as NpyWriter.
  static Result<OutputFile> create(const exec::PortT &port,
                                   const std::string &path,
                                   const Samples &samples);

  /// Takes the output of a batch, whose first `count` places have the samples
  /// from `first` on. Errors: CannotWrite.
  Status add(const HostArray &batch, int64_t first, int64_t count);
  /// Has the file appear. Errors: CannotWrite.
  Status commit() { return writer.commit(); }

private:
  OutputFile(NpyWriter writer, int64_t numSamples)
      : writer(std::move(writer)), numSamples(numSamples) {}

  NpyWriter writer;
  int64_t numSamples;
  // The samples of a batch lie together in each of `outer` pieces, `inner`
  // elements of each.
  int64_t outer = 1;
  int64_t inner = 1;
};

} // namespace meshc::runtime

#endif
