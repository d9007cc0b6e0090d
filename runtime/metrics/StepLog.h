#ifndef MESHC_RUNTIME_METRICS_STEPLOG_H
#define MESHC_RUNTIME_METRICS_STEPLOG_H

#include "runtime/metrics/StepMetrics.h"

#include <memory>
#include <string>
#include <vector>

namespace meshc::runtime {

/// Where a training is to write its metrics; nothing for what is empty.
struct MetricsRequest {
  std::string linesPath;   ///< JSON lines
  std::string eventFolder; ///< files of events, for TensorBoard
  std::string plotPath;    ///< a picture
  /// The events in the folder are of this training, whatever its first step.
  bool continues = false;
};

/// All that was asked for.
class StepLog : public MetricsSink {
public:
  /// Opens files for a training whose first step is `firstStep`, from 1.
  /// `title` and `loss`, the name of a metric, are for the picture. Errors:
  /// CannotWrite.
  static Result<StepLog> open(const MetricsRequest &request, int64_t firstStep,
                              const std::string &title,
                              const std::string &loss);

  Status add(const StepMetrics &metrics) override;
  /// Finishes all, and tells the first error.
  Status finish() override;

private:
  std::vector<std::unique_ptr<MetricsSink>> sinks;
};

} // namespace meshc::runtime

#endif
