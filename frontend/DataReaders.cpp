#include "frontend/DataReaders.h"

#include <fmt/format.h>

#include <algorithm>

using namespace meshc;
using namespace meshc::frontend;

static bool isInteger(ElementType element) {
  return !isFloat(element) && element != ElementType::Bool;
}

/// Any array whose first axis counts samples.
static std::string fitArray(DataSpec &, ElementType, std::span<const Dim>) {
  return "";
}

static std::string fitWindow(DataSpec &data, ElementType element,
                             std::span<const Dim> sample) {
  if (!isInteger(element))
    return "it gives integers";
  if (sample.size() != 1)
    return fmt::format("a sample is a window, so that it needs one dim beside "
                       "\"{}\"",
                       data.over);
  if (data.stride == 0)
    data.stride = sample.front().size;
  return "";
}

static std::string fitTokens(DataSpec &data, ElementType element,
                             std::span<const Dim> sample) {
  if (!data.units.empty() && data.units != "u16" && data.units != "i32")
    return fmt::format("type is u16 or i32, found \"{}\"", data.units);
  return fitWindow(data, element, sample);
}

static std::string fitText(DataSpec &data, ElementType element,
                           std::span<const Dim> sample) {
  if (data.units.empty())
    data.units = "bytes";
  if (data.units != "bytes" && data.units != "chars")
    return fmt::format("tokens are \"bytes\" or \"chars\", found \"{}\"; files "
                       "of other tokens are not read yet",
                       data.units);
  return fitWindow(data, element, sample);
}

static std::string fitRows(DataSpec &data, ElementType,
                           std::span<const Dim> sample) {
  if (sample.size() > 1)
    return fmt::format("a sample is one row, so that it has at most one dim "
                       "beside \"{}\"",
                       data.over);
  if (data.columns.empty() && sample.empty())
    data.columns = {data.input};
  if (data.columns.empty())
    return "it needs columns = \"a, b\", the names of its columns";
  const int64_t expected = sample.empty() ? 1 : sample.front().size;
  if (int64_t(data.columns.size()) != expected)
    return fmt::format("{} column{} named, a sample has {}",
                       data.columns.size(),
                       data.columns.size() == 1 ? " is" : "s are", expected);
  return "";
}

static std::string fitImages(DataSpec &data, ElementType,
                             std::span<const Dim> sample) {
  if (sample.size() == 2 ||
      (sample.size() == 3 && (sample[2].size == 1 || sample[2].size == 3)))
    return "";
  return fmt::format("beside \"{}\" an image has rows and columns, and perhaps "
                     "1 or 3 channels behind them",
                     data.over);
}

static std::string fitClasses(DataSpec &data, ElementType element,
                              std::span<const Dim> sample) {
  if (!isInteger(element))
    return "it gives integers";
  if (!sample.empty())
    return fmt::format("a class is one number, without a dim beside \"{}\"",
                       data.over);
  return "";
}

std::span<const DataReader> frontend::getDataReaders() {
  static const DataReader readers[] = {
      {"idx", {}, fitArray},
      {"npy", {}, fitArray},
      {"tokens", {"stride", "type"}, fitTokens},
      {"text", {"stride", "tokens"}, fitText},
      {"rows", {"columns"}, fitRows},
      {"images", {}, fitImages},
      {"classes", {}, fitClasses},
  };
  return readers;
}

const DataReader *frontend::findDataReader(std::string_view name) {
  const std::span<const DataReader> readers = getDataReaders();
  const auto found = std::find_if(
      readers.begin(), readers.end(),
      [&](const DataReader &reader) { return reader.name == name; });
  return found == readers.end() ? nullptr : &*found;
}

std::string frontend::fitToReader(DataSpec &data, ElementType element,
                                  std::span<const Dim> sample) {
  return findDataReader(data.reader)->fit(data, element, sample);
}
