#include "runtime/metrics/EventFile.h"

#include "runtime/io/FileErrors.h"
#include "runtime/metrics/Crc32c.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

static_assert(std::endian::native == std::endian::little);

/// How long what was added may stay in this process.
static constexpr std::chrono::seconds flushInterval{5};

//===-- Protocol Buffers --------------------------------------------------===//

namespace {
/// How the value behind a tag is written.
enum class Wire : uint8_t { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

/// A message, field by field.
class Message {
public:
  Message &addVarint(uint32_t field, uint64_t value) {
    addTag(field, Wire::Varint);
    appendVarint(value);
    return *this;
  }
  Message &addDouble(uint32_t field, double value) {
    addTag(field, Wire::Fixed64);
    appendRaw(value);
    return *this;
  }
  Message &addFloat(uint32_t field, float value) {
    addTag(field, Wire::Fixed32);
    appendRaw(value);
    return *this;
  }
  Message &addBytes(uint32_t field, std::string_view bytes) {
    addTag(field, Wire::Bytes);
    appendVarint(bytes.size());
    text += bytes;
    return *this;
  }
  std::string_view getText() const { return text; }

private:
  void addTag(uint32_t field, Wire wire) {
    appendVarint(field << 3 | uint32_t(wire));
  }
  /// Seven bits a byte, the lowest first.
  void appendVarint(uint64_t value) {
    for (; value >= 0x80; value >>= 7)
      text += char(value | 0x80);
    text += char(value);
  }
  template <class T> void appendRaw(T value) {
    const auto bytes = std::bit_cast<std::array<char, sizeof(T)>>(value);
    text.append(bytes.data(), bytes.size());
  }

  std::string text;
};
} // namespace

static double getWallTime() {
  return std::chrono::duration<double>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

static Message makeEvent() { return Message().addDouble(1, getWallTime()); }

static Message makeScalar(std::string_view tag, double value) {
  return Message().addBytes(1, tag).addFloat(2, float(value));
}

//===-- Records -----------------------------------------------------------===//

static void appendChecked(std::string &record, std::string_view bytes) {
  constexpr uint32_t masked = 0xA282EAD8;
  const uint32_t sum = std::rotr(getCrc32c(bytes), 15) + masked;
  record += bytes;
  record.append(reinterpret_cast<const char *>(&sum), sizeof sum);
}

Error EventFile::getError() const { return getWriteError(path); }

Status EventFile::write(std::string_view event) {
  const uint64_t length = event.size();
  std::string record;
  appendChecked(record,
                {reinterpret_cast<const char *>(&length), sizeof length});
  appendChecked(record, event);
  return std::fwrite(record.data(), 1, record.size(), stream.get()) ==
                 record.size()
             ? Status::success()
             : getError();
}

Status EventFile::flush() {
  return std::fflush(stream.get()) == 0 ? Status::success() : getError();
}

Result<std::unique_ptr<EventFile>> EventFile::create(const std::string &folder,
                                                     int64_t firstStep,
                                                     bool dropsLater) {
  std::unique_ptr<EventFile> file(new EventFile);
  file->path = folder;
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) {
    errno = failed.value();
    return file->getError();
  }
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0)
    std::strcpy(host.data(), "host");
  // TensorBoard reads files in the order of their names.
  int descriptor = -1;
  for (int number = 0; descriptor < 0; ++number) {
    file->path =
        (std::filesystem::path(folder) /
         fmt::format("events.out.tfevents.{:010}.{}.{}.{}",
                     int64_t(getWallTime()), host.data(), getpid(), number))
            .string();
    descriptor =
        open(file->path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0 && errno != EEXIST)
      return file->getError();
  }
  file->stream.reset(fdopen(descriptor, "w"));
  if (!file->stream)
    return file->getError();
  Status written =
      file->write(makeEvent().addBytes(3, "brain.Event:2").getText());
  if (written && dropsLater) {
    constexpr uint64_t start = 1; // SessionLog.SessionStatus
    written =
        file->write(makeEvent()
                        .addVarint(2, uint64_t(firstStep))
                        .addBytes(7, Message().addVarint(1, start).getText())
                        .getText());
  }
  if (written)
    written = file->flush();
  if (!written)
    return written.getError();
  return file;
}

Status EventFile::add(const StepMetrics &metrics) {
  Message summary;
  for (const NamedValue &value : metrics.values)
    summary.addBytes(1, makeScalar(value.name, value.value).getText());
  summary.addBytes(
      1, makeScalar("samples_per_s", metrics.samplesPerSecond).getText());
  summary.addBytes(1, makeScalar("data_wait_s", metrics.dataSeconds).getText());
  Status written = write(makeEvent()
                             .addVarint(2, uint64_t(metrics.step))
                             .addBytes(5, summary.getText())
                             .getText());
  const auto now = std::chrono::steady_clock::now();
  if (!written || now < nextFlush)
    return written;
  nextFlush = now + flushInterval;
  return flush();
}

Status EventFile::finish() { return flush(); }
