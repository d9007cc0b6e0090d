#ifndef MESHC_RUNTIME_METRICS_METRICSPLOT_H
#define MESHC_RUNTIME_METRICS_METRICSPLOT_H

#include "runtime/metrics/Series.h"
#include "runtime/metrics/StepMetrics.h"

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace meshc::runtime {

/// A picture of the metrics over the steps, one curve under the other: SVG that
/// browsers show, light or dark as they are.
class MetricsPlot : public MetricsSink {
public:
  /// `first` is the metric at the top, of those there are. Errors: CannotWrite
  /// where the file could not be written.
  static Result<std::unique_ptr<MetricsPlot>> create(const std::string &path,
                                                     std::string_view title,
                                                     std::string_view first);

  /// Writes the file a minute after it was written last.
  Status add(const StepMetrics &metrics) override;
  Status finish() override;

private:
  MetricsPlot() = default;

  struct Curve {
    std::string name;
    Series series;
  };

  std::string path, title, first;
  std::vector<Curve> curves;
  std::chrono::steady_clock::time_point nextWrite;
};

/// "0", "20", "40" ...: round numbers between `least` and `most`, about
/// `count`, a step of 1, 2 or 5 times a power of ten apart; `least` and `most`
/// are finite, and `least` < `most`.
std::vector<double> getTicks(double least, double most, int count);

} // namespace meshc::runtime

#endif
