// Samples that are rows of a table: CSV as RFC 4180 has it.

#include "runtime/data/Values.h"
#include "runtime/exec/Executable.h"
#include "runtime/io/File.h"
#include "runtime/io/FileErrors.h"
#include "runtime/io/FileKind.h"
#include "runtime/io/Gzip.h"
#include "runtime/samples/Conversion.h"
#include "runtime/samples/Readers.h"

#include <csv.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

using namespace meshc;
using namespace meshc::runtime;

namespace {

/// Takes the cells of a table one by one, and keeps the numbers of some
/// columns.
class RowTable {
public:
  explicit RowTable(const SampleRequest &request) : request(request) {}

  void addCell(std::string_view cell);
  void endRow();
  /// What the first row says, when it was read.
  std::string getFormat() const {
    return fmt::format("the columns {}", fmt::join(names, ", "));
  }

  std::optional<Error> error;
  std::vector<std::byte> elements;
  bool hasNames = false; ///< the first row was read
  int64_t numRows = 0;   ///< behind it

private:
  void fail(const std::string &what) {
    if (!error)
      error = Error{
          ErrorCode::WrongData,
          fmt::format("'{}', row {}: {}", request.path, numRows + 2, what), ""};
  }
  void findColumns();
  template <typename T> void parse(std::string_view cell);

  const SampleRequest &request;
  std::vector<std::string> names;
  /// By the column of the file, the places that it has in a sample.
  std::vector<std::vector<size_t>> places;
  size_t column = 0;
  std::vector<std::byte> row;
};

} // namespace

void RowTable::findColumns() {
  hasNames = true;
  Status same = checkFormat(request, getFormat());
  if (!same) {
    error = same.getError();
    return;
  }
  places.resize(names.size());
  const std::vector<std::string> &wanted = request.source.columns;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto found = std::find(names.begin(), names.end(), wanted[i]);
    if (found == names.end()) {
      error =
          Error{ErrorCode::WrongData,
                fmt::format("'{}' has no column '{}'", request.path, wanted[i]),
                fmt::format("its first row names {}", fmt::join(names, ", "))};
      return;
    }
    if (std::find(found + 1, names.end(), wanted[i]) != names.end()) {
      error = Error{
          ErrorCode::WrongData,
          fmt::format("'{}' has two columns '{}'", request.path, wanted[i]),
          ""};
      return;
    }
    places[size_t(found - names.begin())].push_back(i);
  }
  row.resize(wanted.size() * 8);
}

/// A cell without the blanks around a number, and without the sign that it need
/// not have.
static std::string_view getNumberText(std::string_view cell) {
  const size_t begin = cell.find_first_not_of(" \t");
  if (begin == std::string_view::npos)
    return {};
  cell = cell.substr(begin, cell.find_last_not_of(" \t") + 1 - begin);
  return cell.size() > 1 && cell[0] == '+' && cell[1] != '-' ? cell.substr(1)
                                                             : cell;
}

/// The integer that all of a cell is.
static bool parseNumber(std::string_view cell, int64_t &value) {
  const char *end = cell.data() + cell.size();
  const auto [rest, failed] = std::from_chars(cell.data(), end, value);
  return failed == std::errc() && rest == end;
}

/// The number that all of a cell is, infinite where no f64 is as large.
static bool parseNumber(std::string_view cell, double &value) {
  const char *end = cell.data() + cell.size();
  const auto [rest, failed] = std::from_chars(cell.data(), end, value);
  // It leaves out what is too small too; strtod tells the two apart.
  if (failed == std::errc::result_out_of_range && rest == end) {
    value = std::strtod(std::string(cell).c_str(), nullptr);
    return true;
  }
  return failed == std::errc() && rest == end && std::isfinite(value);
}

template <typename T> void RowTable::parse(std::string_view cell) {
  T value{};
  if (!parseNumber(getNumberText(cell), value)) {
    fail(cell.empty()
             ? fmt::format("column '{}' is empty", names[column])
             : fmt::format("column '{}' is \"{}\", expected {}", names[column],
                           cell.substr(0, 40),
                           std::is_floating_point_v<T> ? "a number"
                                                       : "an integer"));
    return;
  }
  if constexpr (std::is_floating_point_v<T>) {
    const bool isWithin =
        std::isfinite(value) &&
        (request.element != exec::ElementType::f32 || hasValue<float>(value));
    if (!isWithin) {
      fail(fmt::format("column '{}' is \"{}\", which is beyond {}",
                       names[column], cell.substr(0, 40),
                       getName(request.element)));
      return;
    }
  }
  const auto bytes = std::as_bytes(std::span(&value, 1));
  for (size_t place : places[column])
    std::copy(bytes.begin(), bytes.end(), row.begin() + ptrdiff_t(place * 8));
}

void RowTable::addCell(std::string_view cell) {
  if (error)
    return;
  if (!hasNames) {
    names.emplace_back(cell);
    return;
  }
  if (column < names.size() && !places[column].empty())
    isFloat(request.element) ? parse<double>(cell) : parse<int64_t>(cell);
  ++column;
}

void RowTable::endRow() {
  if (error)
    return;
  if (!hasNames) {
    findColumns();
    return;
  }
  if (column != names.size()) {
    fail(fmt::format("{} cells, the first row names {} columns", column,
                     names.size()));
    return;
  }
  elements.insert(elements.end(), row.begin(), row.end());
  column = 0;
  ++numRows;
}

static void takeCell(void *cell, size_t length, void *table) {
  static_cast<RowTable *>(table)->addCell(
      {static_cast<const char *>(cell), length});
}

static void takeEnd(int, void *table) {
  static_cast<RowTable *>(table)->endRow();
}

namespace {

/// libcsv's, which is freed.
struct TableParser {
  csv_parser state;
  ~TableParser() { csv_free(&state); }
};

} // namespace

/// Gives a table the next bytes of a file, and its end where they are the last.
static Status parsePart(csv_parser &parser, std::span<const std::byte> part,
                        bool isLast, const std::string &path, RowTable &table) {
  if (csv_parse(&parser, part.data(), part.size(), takeCell, takeEnd, &table) ==
          part.size() &&
      (!isLast || csv_fini(&parser, takeCell, takeEnd, &table) == 0))
    return Status::success();
  const int error = csv_error(&parser);
  if (error == CSV_ENOMEM)
    return getTooLarge(path);
  return Error{ErrorCode::WrongData,
               fmt::format("'{}', row {}: {}", path, table.numRows + 2,
                           csv_strerror(error)),
               ""};
}

/// What is behind a byte order mark of UTF-8, which spreadsheets write.
static std::span<const std::byte> skipMark(std::span<const std::byte> text) {
  static constexpr std::byte mark[] = {std::byte(0xef), std::byte(0xbb),
                                       std::byte(0xbf)};
  return text.size() >= 3 && std::ranges::equal(text.first(3), mark)
             ? text.subspan(3)
             : text;
}

/// Gives a table what is in a file.
static Status readTable(const SampleRequest &request, RowTable &table) {
  const std::string &path = request.path;
  Result<std::unique_ptr<FileReader>> file =
      FileReader::open(path, request.listener);
  if (!file)
    return file.getError();
  Result<std::unique_ptr<ByteReader>> reader = unpack(std::move(*file), path);
  if (!reader)
    return reader.getError();
  TableParser parser;
  if (csv_init(&parser.state, CSV_STRICT | CSV_STRICT_FINI) != 0)
    return Error{ErrorCode::Internal, "libcsv does not start", ""};
  std::vector<std::byte> part(size_t(1) << 16);
  // What has no rows is no table, however long it is.
  constexpr uint64_t maxRowBytes = uint64_t(1) << 26;
  uint64_t rowBytes = 0;
  for (bool isFirst = true; !table.error; isFirst = false) {
    const Result<size_t> length = (*reader)->read(part);
    if (!length)
      return length.getError();
    const auto found = std::span(part).first(*length);
    const std::string_view kind =
        isFirst
            ? findFileKind(found, *length + (*reader)->getMost().value_or(0))
            : std::string_view();
    if (!kind.empty())
      return getWrongKind(path, kind, "a table as text (CSV)");
    const int64_t row = table.numRows;
    const bool isLast = *length < part.size();
    if (Status parsed =
            parsePart(parser.state, isFirst ? skipMark(found) : found, isLast,
                      path, table);
        !parsed || isLast)
      return parsed;
    rowBytes = row == table.numRows ? rowBytes + *length : 0;
    if (rowBytes > maxRowBytes)
      return Error{ErrorCode::WrongData,
                   fmt::format("'{}' has a row of more than {} MiB", path,
                               maxRowBytes >> 20),
                   ""};
  }
  return Status::success();
}

Result<Samples> runtime::openRows(const SampleRequest &request) {
  SampleShape shape;
  shape.element =
      isFloat(request.element) ? SampleElement::f64 : SampleElement::i64;
  shape.sizes = request.sizes;
  shape.stride = shape.getSampleElements();
  if (shape.stride != int64_t(request.source.columns.size()))
    return Error{
        ErrorCode::WrongData,
        fmt::format("input '{}' takes {} numbers of a row, of which {} "
                    "are named",
                    request.source.input, shape.stride,
                    request.source.columns.size()),
        ""};
  RowTable table(request);
  Status read = readTable(request, table);
  if (table.error)
    return *table.error;
  if (!read)
    return read.getError();
  if (!table.hasNames)
    return Error{ErrorCode::WrongData,
                 fmt::format("'{}' is empty: its first row names the columns",
                             request.path),
                 ""};
  shape.numSamples = table.numRows;
  shape.format = table.getFormat();
  return Samples(std::make_unique<SamplesInMemory>(
      request.path, std::move(shape), std::move(table.elements)));
}
