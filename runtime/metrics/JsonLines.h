#ifndef MESHC_RUNTIME_METRICS_JSONLINES_H
#define MESHC_RUNTIME_METRICS_JSONLINES_H

#include "runtime/metrics/StepMetrics.h"

#include <cstdio>
#include <memory>
#include <string>

namespace meshc::runtime {

/// One JSON object per step, in the file before the next step:
///
///   {"step": 1, "epoch": 1, "loss": 2.6017, "samples_per_s": 61042.7,
///    "data_wait_s": 0}
class JsonLines : public MetricsSink {
public:
  /// Of a training whose first step is `firstStep`: lines of steps before it
  /// stay, whatever follows in the file goes. Errors: CannotWrite.
  static Result<std::unique_ptr<JsonLines>> create(const std::string &path,
                                                   int64_t firstStep);

  Status add(const StepMetrics &metrics) override;
  Status finish() override { return Status::success(); }

private:
  struct Close {
    void operator()(std::FILE *file) const { std::fclose(file); }
  };

  JsonLines() = default;
  Error getError() const;
  /// Ends the file behind the lines that stay.
  bool cutOff(int64_t firstStep);

  std::string path;
  std::unique_ptr<std::FILE, Close> stream;
};

} // namespace meshc::runtime

#endif
