#ifndef MESHC_RUNTIME_METRICS_EVENTFILE_H
#define MESHC_RUNTIME_METRICS_EVENTFILE_H

#include "runtime/metrics/StepMetrics.h"

#include <chrono>
#include <cstdio>
#include <memory>
#include <string_view>

namespace meshc::runtime {

/// A file of events for TensorBoard, in a folder of which it shows all.
///
/// It is a list of records: the length of the event, 8 bytes, a checksum of
/// these, the event, a checksum of it; little endian. A checksum is CRC-32C,
/// turned right by 15 bits, plus 0xA282EAD8. An event is a message of Protocol
/// Buffers: 1 the time (double, seconds), 2 the step (varint), and one of 3 the
/// version of the file ("brain.Event:2"), 5 a summary, 7 the state of the run.
/// Source: tensorflow/core/util/event.proto, framework/summary.proto and
/// lib/io/record_writer.h.
class EventFile : public MetricsSink {
public:
  /// Makes `folder` where there is none, and a file in it whose name no other
  /// has. With `dropsLater`, TensorBoard drops what other files of the folder
  /// have from `firstStep` on. Errors: CannotWrite.
  static Result<std::unique_ptr<EventFile>>
  create(const std::string &folder, int64_t firstStep, bool dropsLater);

  Status add(const StepMetrics &metrics) override;
  Status finish() override;

private:
  struct Close {
    void operator()(std::FILE *file) const { std::fclose(file); }
  };

  EventFile() = default;
  Error getError() const;
  Status write(std::string_view event);
  Status flush();

  std::string path;
  std::unique_ptr<std::FILE, Close> stream;
  std::chrono::steady_clock::time_point nextFlush{};
};

} // namespace meshc::runtime

#endif
