#ifndef MESHC_RUNTIME_APP_PREDICTIONINPUTS_H
#define MESHC_RUNTIME_APP_PREDICTIONINPUTS_H

#include "runtime/app/Prediction.h"
#include "runtime/data/InputFiles.h"
#include "runtime/samples/Dataset.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace meshc::runtime {

/// What the inputs of a prediction are fed from: an array for each of them, or
/// the test files that the data block of the spec names.
class PredictionInputs {
public:
  /// `outputs`: what will be read of the program. Inputs that none of them
  /// needs may be missing; they are zeros then. Errors: MissingInput,
  /// UnknownName; Usage where samples are to be few and nothing counts them; as
  /// InputFiles::open or Dataset::load.
  static Result<PredictionInputs>
  open(const Session &session, const exec::ProgramT &program,
       const PredictionRequest &request,
       std::span<const exec::PortT *const> outputs);

  /// The dim that counts samples; empty if there is none.
  const std::string &getBatchDim() const { return batchDim; }
  /// Those to predict on; none where nothing counts them.
  std::optional<int64_t> getNumSamples() const { return numSamples; }
  /// The files that are read.
  std::vector<std::string> getPaths() const;

  /// Whether something feeds an input.
  bool has(const exec::PortT &port) const {
    return std::find(missing.begin(), missing.end(), &port) == missing.end();
  }

  /// Puts sample samples[i] into place i of the batch.
  Status feed(DeviceSet &devices, std::span<const int64_t> samples);
  /// What an input of integers, with the batch dim alone, is for the samples
  /// from `first` on, which were fed last, into as many places. Errors: those
  /// of reading.
  Result<std::vector<int64_t>> getIntegers(const exec::PortT &port,
                                           int64_t first, int64_t count) const;

  /// What ranks have to agree on before a run, and of what was read after all.
  Agreements getShapes() const;
  Agreements getDigests() const;

private:
  PredictionInputs(std::variant<InputFiles, Dataset> source,
                   std::string batchDim);

  std::variant<InputFiles, Dataset> source;
  std::vector<const exec::PortT *> missing;
  std::string batchDim;
  std::string digest; ///< of test data that other ranks read, too
  std::optional<int64_t> numSamples;
};

} // namespace meshc::runtime

#endif
