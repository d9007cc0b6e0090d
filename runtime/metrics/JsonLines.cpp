#include "runtime/metrics/JsonLines.h"

#include "runtime/io/FileErrors.h"
#include "runtime/io/Json.h"

#include <fmt/format.h>

#include <array>

#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

Error JsonLines::getError() const { return getWriteError(path); }

bool JsonLines::cutOff(int64_t firstStep) {
  // Steps stand in order, one a line, of which the last may be cut off.
  std::string line;
  long end = 0;
  std::array<char, 4096> part{};
  while (std::fgets(part.data(), int(part.size()), stream.get())) {
    line += part.data();
    if (line.back() != '\n')
      continue;
    long number = 0;
    if (std::sscanf(line.c_str(), "{\"step\": %ld,", &number) != 1 ||
        number >= firstStep)
      break;
    end = std::ftell(stream.get());
    line.clear();
  }
  return std::ferror(stream.get()) == 0 &&
         std::fseek(stream.get(), end, SEEK_SET) == 0 &&
         ftruncate(fileno(stream.get()), end) == 0;
}

Result<std::unique_ptr<JsonLines>> JsonLines::create(const std::string &path,
                                                     int64_t firstStep) {
  std::unique_ptr<JsonLines> lines(new JsonLines);
  lines->path = path;
  const bool goesOn = firstStep > 1 && access(path.c_str(), F_OK) == 0;
  lines->stream.reset(std::fopen(path.c_str(), goesOn ? "r+" : "w"));
  if (!lines->stream)
    return lines->getError();
  // Pipes and devices have no lines that could stay.
  if (goesOn && std::fseek(lines->stream.get(), 0, SEEK_SET) == 0 &&
      !lines->cutOff(firstStep))
    return lines->getError();
  return lines;
}

Status JsonLines::add(const StepMetrics &metrics) {
  std::string line =
      fmt::format("{{\"step\": {}, \"epoch\": {}", metrics.step, metrics.epoch);
  for (const NamedValue &value : metrics.values)
    line += fmt::format(", {}: {}", toJson(value.name), toJson(value.value));
  line +=
      fmt::format(", \"samples_per_s\": {:.1f}, \"data_wait_s\": {:.3g}}}\n",
                  metrics.samplesPerSecond, metrics.dataSeconds);
  return std::fputs(line.c_str(), stream.get()) < 0 ||
                 std::fflush(stream.get()) != 0
             ? getError()
             : Status::success();
}
