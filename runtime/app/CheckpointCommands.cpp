#include "runtime/app/CheckpointCommands.h"

#include "runtime/app/Progress.h"
#include "runtime/checkpoint/BestFolder.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/OtherModel.h"
#include "runtime/exec/HalfFloats.h"
#include "runtime/io/Escape.h"
#include "runtime/io/StandardStreams.h"
#include "runtime/ranks/Ranks.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>

using namespace meshc;
using namespace meshc::runtime;

/// "4.6 MiB".
static std::string formatBytes(uint64_t bytes) {
  const char *unit = "B";
  double value = double(bytes);
  for (const char *next : {"KiB", "MiB", "GiB", "TiB"}) {
    if (value < 1024)
      break;
    value /= 1024;
    unit = next;
  }
  return fmt::format("{:.3g} {}", value, unit);
}

/// "1 file", "3 files".
static std::string count(size_t number, const char *what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

/// The checkpoints of a folder, ascending, then its best one; or the one at
/// `path`.
static Result<std::vector<std::string>> findAll(const std::string &path) {
  std::error_code ignored;
  if (std::filesystem::exists(path + "/" + manifestName, ignored))
    return std::vector<std::string>{path};
  std::vector<std::string> folders = {path};
  if (std::filesystem::exists(getBestPath(path), ignored))
    folders.push_back(getBestPath(path));
  std::vector<std::string> paths;
  for (const std::string &folder : folders) {
    Result<std::vector<int64_t>> steps = listSteps(folder);
    if (!steps)
      return steps.getError();
    for (int64_t step : *steps)
      paths.push_back(folder + "/" + getStepName(step));
  }
  if (paths.empty())
    return Error{ErrorCode::NoCheckpoint,
                 fmt::format("'{}' has no checkpoints", path), ""};
  return paths;
}

static void printLine(const std::string &line) {
  printOutput(escapeForTerminal(line) + "\n");
}

/// Calls `visit` with each checkpoint that can be opened, and returns the last
/// error, having printed those before it.
template <typename Visitor>
static Status forEach(const std::string &path, Visitor &&visit) {
  Result<std::vector<std::string>> paths = findAll(path);
  if (!paths)
    return paths.getError();
  std::optional<Error> error;
  for (const std::string &each : *paths) {
    Result<Checkpoint> checkpoint = Checkpoint::open(each);
    Status status =
        checkpoint ? visit(*checkpoint) : Status(checkpoint.getError());
    if (status)
      continue;
    if (error)
      printError(*error);
    error = status.getError();
  }
  return error ? Status(*error) : Status::success();
}

Status runtime::listCheckpoints(const std::string &path) {
  return forEach(path, [&](const Checkpoint &checkpoint) {
    const Manifest &manifest = checkpoint.getManifest();
    const auto savedAt = std::time_t(manifest.savedAt);
    std::string precision =
        manifest.precision.empty() ? "f32" : manifest.precision;
    std::string best;
    if (manifest.evaluation)
      best = fmt::format("  {} of the test samples: {:.6g}",
                         toString(manifest.evaluation->criterion),
                         manifest.evaluation->value);
    printLine(fmt::format(
        "{}  step {}  {:%Y-%m-%d %H:%M:%S}  {}  {} in {}  {} on {}, {}, seed "
        "{}{}",
        checkpoint.getPath(), manifest.position.step, fmt::localtime(savedAt),
        formatBytes(manifest.getBytes()),
        count(manifest.tensors.size(), "value"),
        count(manifest.files.size(), "file"), manifest.model,
        manifest.mesh.empty() ? "one device" : manifest.mesh, precision,
        manifest.position.seed, best));
    return Status::success();
  });
}

Status runtime::verifyCheckpoints(const std::string &path) {
  return forEach(path, [&](const Checkpoint &checkpoint) {
    ByteProgress progress("read");
    Status sound = checkpoint.verify(progress.listen(true));
    if (sound)
      printLine(
          fmt::format("{}  sound: {}, {}", checkpoint.getPath(),
                      count(checkpoint.getManifest().tensors.size(), "value"),
                      formatBytes(checkpoint.getManifest().getBytes())));
    return sound;
  });
}

Status runtime::compareWithProgram(const std::string &path,
                                   const Executable &executable) {
  Result<Checkpoint> checkpoint = Checkpoint::open(path);
  if (!checkpoint)
    return checkpoint.getError();
  const std::vector<std::string> differences =
      compareWithModel(checkpoint->getManifest(), executable.data);
  for (const std::string &difference : differences)
    printLine(difference);
  if (differences.empty()) {
    printLine(fmt::format("{}, as this program has them",
                          count(executable.data.variables.size(), "value")));
    return Status::success();
  }
  return Error{ErrorCode::OtherModel,
               fmt::format("'{}' is of another model: {} of its values differ "
                           "from those of '{}'",
                           checkpoint->getPath(), differences.size(),
                           executable.data.model),
               ""};
}

//===----------------------------------------------------------------------===//
// Two checkpoints
//===----------------------------------------------------------------------===//

/// An element as a number; integers of 64 bits as near as there is one.
static double getNumber(exec::ElementType element, const std::byte *place) {
  auto read = [&]<typename T>() {
    T value;
    std::memcpy(&value, place, sizeof(T));
    return value;
  };
  switch (element) {
  case exec::ElementType::f32:
    return read.template operator()<float>();
  case exec::ElementType::f64:
    return read.template operator()<double>();
  case exec::ElementType::i32:
    return read.template operator()<int32_t>();
  case exec::ElementType::i64:
    return double(read.template operator()<int64_t>());
  case exec::ElementType::boolean:
    return read.template operator()<uint8_t>();
  case exec::ElementType::u8:
    return read.template operator()<uint8_t>();
  case exec::ElementType::i8:
    return read.template operator()<int8_t>();
  case exec::ElementType::i16:
    return read.template operator()<int16_t>();
  case exec::ElementType::bf16:
    return read.template operator()<BFloat16>().toFloat();
  case exec::ElementType::f16:
    return read.template operator()<Float16>().toFloat();
  }
  __builtin_unreachable(); // the manifest is checked
}

/// How two values of one type differ; empty: not at all.
static std::string compareValues(const HostArray &a, const HostArray &b) {
  const auto width = size_t(getElementBytes(a.element));
  int64_t numDiffering = 0, first = -1;
  double largest = 0;
  for (size_t place = 0; place < a.data.size(); place += width) {
    if (std::memcmp(&a.data[place], &b.data[place], width) == 0)
      continue;
    if (numDiffering++ == 0)
      first = int64_t(place / width);
    const double difference = std::abs(getNumber(a.element, &a.data[place]) -
                                       getNumber(b.element, &b.data[place]));
    if (!(difference <= largest))
      largest = difference;
  }
  if (numDiffering == 0)
    return "";
  std::vector<int64_t> index(a.shape.size());
  int64_t rest = first;
  for (size_t i = a.shape.size(); i-- > 0; rest /= a.shape[i])
    index[i] = rest % a.shape[i];
  const auto place = size_t(first) * width;
  return fmt::format("{} of {} elements differ, by {:.3g} at most, the first "
                     "at [{}]: {:.9g} and {:.9g}",
                     numDiffering, a.getNumElements(), largest,
                     fmt::join(index, ", "),
                     getNumber(a.element, &a.data[place]),
                     getNumber(b.element, &b.data[place]));
}

Status runtime::compareCheckpoints(const std::string &before,
                                   const std::string &after) {
  Result<Checkpoint> first = Checkpoint::open(before);
  if (!first)
    return first.getError();
  Result<Checkpoint> second = Checkpoint::open(after);
  if (!second)
    return second.getError();
  size_t numDiffering = 0, numValues = 0;
  auto tell = [&](const std::string &name, const std::string &what) {
    printLine(fmt::format("{}  {}", name, what));
    ++numDiffering;
  };
  for (const StoredTensor &tensor : first->getManifest().tensors) {
    ++numValues;
    const StoredTensor *other = second->getManifest().find(tensor.name);
    if (!other) {
      tell(tensor.name, "is in the first one alone");
      continue;
    }
    if (other->element != tensor.element ||
        other->getSizes() != tensor.getSizes()) {
      tell(tensor.name,
           fmt::format("is {} and {}", toString(tensor.element, tensor.dims),
                       toString(other->element, other->dims)));
      continue;
    }
    Result<HostArray> a = first->read(tensor);
    if (!a)
      return a.getError();
    Result<HostArray> b = second->read(*other);
    if (!b)
      return b.getError();
    if (std::string what = compareValues(*a, *b); !what.empty())
      tell(tensor.name, what);
  }
  for (const StoredTensor &tensor : second->getManifest().tensors)
    if (!first->getManifest().find(tensor.name)) {
      ++numValues;
      tell(tensor.name, "is in the second one alone");
    }
  if (numDiffering == 0) {
    printLine(fmt::format("{}, equal bit for bit", count(numValues, "value")));
    return Status::success();
  }
  return Error{ErrorCode::CheckpointsDiffer,
               fmt::format("{} of {} values differ between '{}' and '{}'",
                           numDiffering, numValues, first->getPath(),
                           second->getPath()),
               ""};
}
