#include "runtime/app/TopTable.h"

#include "runtime/app/Session.h"
#include "runtime/io/Escape.h"
#include "runtime/io/File.h"
#include "runtime/io/StandardStreams.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

using namespace meshc;
using namespace meshc::runtime;

/// The last dim beside that of the samples.
static std::optional<size_t> findRanked(const exec::TensorLayoutT &layout,
                                        const Samples &samples) {
  for (size_t i = layout.dims.size(); i-- > 0;)
    if (samples.findAxis(layout) != i)
      return i;
  return std::nullopt;
}

Result<const exec::PortT *>
runtime::findTopOutput(const exec::ProgramT &program, const Samples &samples,
                       const TopRequest &request) {
  const std::string what =
      samples.dim.empty()
          ? "floats with a dim"
          : fmt::format("floats with a dim beside '{}'", samples.dim);
  std::vector<std::string> names;
  for (const auto &port : program.outputs)
    if (isFloat(port->layout->element) && findRanked(*port->layout, samples) &&
        !port->name.starts_with(gradientPrefix))
      names.push_back(port->name);
  std::string name = request.output;
  if (name.empty() && names.empty())
    return Error{ErrorCode::NothingToDo,
                 fmt::format("--topk is of an output of {}, and the model has "
                             "none",
                             what),
                 ""};
  if (name.empty() && names.size() > 1)
    return Error{ErrorCode::Usage, "--topk of which output? --of NAME says it",
                 listNames(names)};
  if (name.empty())
    name = names.front();
  if (std::find(names.begin(), names.end(), name) == names.end())
    return Error{ErrorCode::UnknownName,
                 fmt::format("there is no output '{}' of {}", name, what),
                 listNames(names)};
  const exec::PortT *port = findPort(program.outputs, name);
  const exec::DimShardingT &ranked =
      *port->layout->dims[*findRanked(*port->layout, samples)];
  if (request.count > ranked.size)
    return Error{ErrorCode::Usage,
                 fmt::format("--topk {}: dim '{}' of output '{}' has {} "
                             "positions",
                             request.count, ranked.name, name, ranked.size),
                 ""};
  return port;
}

Result<const exec::PortT *> runtime::findTruth(const exec::ProgramT &program,
                                               const Samples &samples,
                                               const TopRequest &request) {
  if (request.truth.empty())
    return static_cast<const exec::PortT *>(nullptr);
  std::vector<std::string> names;
  for (const auto &port : program.inputs) {
    const exec::ElementType element = port->layout->element;
    const bool isInteger = element == exec::ElementType::i32 ||
                           element == exec::ElementType::i64 ||
                           isForData(element);
    if (!isInteger || port->layout->dims.size() != 1 ||
        !samples.findAxis(*port->layout))
      continue;
    if (port->name == request.truth)
      return port.get();
    names.push_back(port->name);
  }
  return Error{ErrorCode::UnknownName,
               fmt::format("there is no input '{}' of integers, one for each "
                           "sample",
                           request.truth),
               names.empty() ? "" : listNames(names)};
}

/// The lines of a file, as a terminal may get them.
static Result<std::vector<std::string>> readLines(const std::string &path) {
  Result<std::vector<std::byte>> bytes = readFile(path);
  if (!bytes)
    return bytes.getError();
  const std::string_view text(reinterpret_cast<const char *>(bytes->data()),
                              bytes->size());
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    if (line.ends_with('\r'))
      line.remove_suffix(1);
    lines.push_back(escapeForTerminal(line, 80));
    begin = end + 1;
  }
  return lines;
}

/// Characters of a text in UTF-8.
static int countCharacters(std::string_view text) {
  return int(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
  }));
}

Result<TopTable> TopTable::create(const exec::PortT &port,
                                  const Samples &samples,
                                  const TopRequest &request) {
  const exec::TensorLayoutT &layout = *port.layout;
  const std::optional<size_t> batch = samples.findAxis(layout);
  const size_t ranked = *findRanked(layout, samples);
  TopTable table;
  table.output = port.name;
  table.count = request.count;
  int64_t stride = 1;
  for (size_t i = layout.dims.size(); i-- > 0;) {
    const exec::DimShardingT &dim = *layout.dims[i];
    const bool isBatch = i == batch;
    const Column column(isBatch ? "sample" : dim.name, dim.size, stride,
                        isBatch ? samples.count : dim.size);
    stride *= dim.size;
    if (i == ranked)
      table.ranked = column;
    else if (isBatch)
      table.samples = column;
    else
      table.others.insert(table.others.begin(), column);
  }
  if (!request.truth.empty())
    table.truth =
        Column(request.truth, table.ranked.size, 1, table.ranked.size);
  if (request.labels.empty())
    return table;
  Result<std::vector<std::string>> labels = readLines(request.labels);
  if (!labels)
    return labels.getError();
  if (int64_t(labels->size()) != table.ranked.size)
    return Error{ErrorCode::WrongData,
                 fmt::format("'{}' has {} labels, one in each line: dim '{}' "
                             "of output '{}' has {} positions",
                             request.labels, labels->size(), table.ranked.name,
                             port.name, table.ranked.size),
                 ""};
  table.labels = std::move(*labels);
  for (const std::string &label : table.labels)
    for (Column *column :
         {&table.ranked, table.truth ? &*table.truth : nullptr})
      if (column)
        column->width = std::max(column->width, countCharacters(label));
  return table;
}

TopTable::Column::Column(std::string name, int64_t size, int64_t stride,
                         int64_t positions)
    : name(std::move(name)), size(size), stride(stride),
      width(std::max(countCharacters(this->name),
                     int(std::to_string(positions - 1).size()))) {}

std::string TopTable::describe(int64_t position, int width) const {
  // What is right may be no position of the output.
  if (position < 0 || position >= int64_t(labels.size()))
    return fmt::format("{:>{}}", position, width);
  const std::string &label = labels[size_t(position)];
  return fmt::format("{}{:{}}", label, "", width - countCharacters(label));
}

std::string TopTable::describe(const Column &column) const {
  const int blanks = column.width - countCharacters(column.name);
  return labels.empty() ? fmt::format("{:{}}{}", "", blanks, column.name)
                        : fmt::format("{}{:{}}", column.name, "", blanks);
}

template <typename T>
void TopTable::printRow(const std::byte *row, const std::string &begin) const {
  std::vector<T> values(static_cast<size_t>(ranked.size));
  for (int64_t i = 0; i < ranked.size; ++i)
    std::memcpy(&values[size_t(i)],
                row + i * ranked.stride * int64_t(sizeof(T)), sizeof(T));
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::partial_sort(order.begin(), order.begin() + count, order.end(),
                    [&](size_t a, size_t b) {
                      const bool isNan = std::isnan(values[a]);
                      if (isNan != std::isnan(values[b]))
                        return isNan;
                      if (!isNan && values[a] != values[b])
                        return values[a] > values[b];
                      return a < b;
                    });
  for (int64_t place = 0; place < count; ++place) {
    const size_t position = order[size_t(place)];
    printOutput(fmt::format("{}{:>4}  {}  {:>{}.5g}\n", begin, place + 1,
                            describe(int64_t(position), ranked.width),
                            values[position], getValueWidth()));
  }
}

int TopTable::getValueWidth() const {
  // "-1.2346e-10".
  return std::max(countCharacters(output), 11);
}

void TopTable::printHeader() const {
  std::string line;
  if (samples)
    line += fmt::format("{:>{}}  ", samples->name, samples->width);
  if (truth)
    line += describe(*truth) + "  ";
  for (const Column &column : others)
    line += fmt::format("{:>{}}  ", column.name, column.width);
  printOutput(fmt::format("{}rank  {}  {:>{}}\n", line, describe(ranked),
                          output, getValueWidth()));
}

void TopTable::add(const HostArray &batch, int64_t first, int64_t count,
                   std::span<const int64_t> truths) {
  if (!isBegun)
    printHeader();
  isBegun = true;
  const int64_t bytes = getElementBytes(batch.element);
  int64_t rows = 1; // of a sample
  for (const Column &column : others)
    rows *= column.size;
  for (int64_t sample = 0; sample < (samples ? count : 1); ++sample)
    for (int64_t row = 0; row < rows; ++row) {
      int64_t element = samples ? sample * samples->stride : 0;
      std::string begin;
      int64_t rest = row;
      for (auto column = others.rbegin(); column != others.rend(); ++column) {
        const int64_t position = rest % column->size;
        rest /= column->size;
        element += position * column->stride;
        begin = fmt::format("{:>{}}  ", position, column->width) + begin;
      }
      if (truth)
        begin = describe(truths[size_t(sample)], truth->width) + "  " + begin;
      if (samples)
        begin = fmt::format("{:>{}}  ", first + sample, samples->width) + begin;
      const std::byte *data = batch.data.data() + element * bytes;
      if (batch.element == exec::ElementType::f64)
        printRow<double>(data, begin);
      else
        printRow<float>(data, begin);
    }
}
