#include "runtime/metrics/StepLog.h"

#include "runtime/metrics/EventFile.h"
#include "runtime/metrics/JsonLines.h"
#include "runtime/metrics/MetricsPlot.h"

using namespace meshc;
using namespace meshc::runtime;

Result<StepLog> StepLog::open(const MetricsRequest &request, int64_t firstStep,
                              const std::string &title,
                              const std::string &loss) {
  StepLog log;
  Status opened = Status::success();
  auto add = [&](auto created) {
    if (created)
      log.sinks.push_back(std::move(*created));
    else
      opened = created.getError();
  };
  if (!request.linesPath.empty())
    add(JsonLines::create(request.linesPath, firstStep));
  if (opened && !request.eventFolder.empty())
    add(EventFile::create(request.eventFolder, firstStep,
                          firstStep > 1 || request.continues));
  if (opened && !request.plotPath.empty())
    add(MetricsPlot::create(request.plotPath, title, loss));
  if (!opened)
    return opened.getError();
  return log;
}

Status StepLog::add(const StepMetrics &metrics) {
  for (const auto &sink : sinks)
    if (Status added = sink->add(metrics); !added)
      return added;
  return Status::success();
}

Status StepLog::finish() {
  Status all = Status::success();
  for (const auto &sink : sinks)
    if (Status finished = sink->finish(); !finished && all)
      all = finished;
  return all;
}
