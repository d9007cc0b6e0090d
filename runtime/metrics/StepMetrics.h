#ifndef MESHC_RUNTIME_METRICS_STEPMETRICS_H
#define MESHC_RUNTIME_METRICS_STEPMETRICS_H

#include "runtime/exec/Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace meshc::runtime {

/// An output of one element.
struct NamedValue {
  std::string name;
  double value;
};

/// What is known of a training step when it is over.
struct StepMetrics {
  int64_t step = 0, epoch = 0; ///< both from 1
  std::vector<NamedValue> values;
  double samplesPerSecond = 0;
  double dataSeconds = 0; ///< for which it has waited for its samples
};

/// Where metrics go.
class MetricsSink {
public:
  virtual ~MetricsSink() = default;

  /// Steps come in ascending order. Errors: CannotWrite.
  virtual Status add(const StepMetrics &metrics) = 0;
  /// Writes what is not written yet; nothing is added behind it. Errors:
  /// CannotWrite.
  virtual Status finish() = 0;
};

} // namespace meshc::runtime

#endif
