#include "runtime/data/Npy.h"

#include "runtime/exec/Executable.h"
#include "runtime/exec/HalfFloats.h"
#include "runtime/io/File.h"
#include "runtime/io/FileErrors.h"
#include "runtime/io/FileKind.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>

using namespace meshc;
using namespace meshc::runtime;

static constexpr std::string_view magic = "\x93NUMPY";
/// NumPy itself refuses longer ones unless told otherwise.
static constexpr size_t maxHeaderBytes = 10000;
static constexpr size_t maxDims = 32;

namespace {

using Kind = NpyStorage::Kind;

/// Without the order of bytes, which stands in front.
struct TypeName {
  std::string_view text;
  exec::ElementType element;
  Kind kind = Kind::Same;
};

constexpr std::array<TypeName, 12> typeNames = {{
    {"f4", exec::ElementType::f32},
    {"f8", exec::ElementType::f64},
    {"i4", exec::ElementType::i32},
    {"i8", exec::ElementType::i64},
    {"b1", exec::ElementType::boolean},
    {"u1", exec::ElementType::u8},
    {"i1", exec::ElementType::i8},
    {"i2", exec::ElementType::i16},
    {"f2", exec::ElementType::f32, Kind::Half},
    {"u2", exec::ElementType::i32, Kind::U16},
    {"u4", exec::ElementType::i64, Kind::U32},
    {"u8", exec::ElementType::i64, Kind::U64},
}};

struct Header {
  std::string type; ///< of records the list of their fields
  bool isFortranOrder = false;
  std::vector<int64_t> shape;
};

/// Reads {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
class HeaderParser {
public:
  explicit HeaderParser(std::string_view text) : text(text) {}

  std::optional<Header> parse() {
    if (!take('{'))
      return std::nullopt;
    bool hasType = false;
    bool hasOrder = false;
    bool hasShape = false;
    while (!take('}')) {
      std::optional<std::string> key = parseString();
      if (!key || !take(':'))
        return std::nullopt;
      bool *seen = nullptr;
      bool isSound = false;
      if (*key == "descr") {
        seen = &hasType;
        std::optional<std::string> type =
            peek('[') ? parseFields() : parseString();
        isSound = type.has_value();
        header.type = type.value_or("");
      } else if (*key == "fortran_order") {
        seen = &hasOrder;
        header.isFortranOrder = takeWord("True");
        isSound = header.isFortranOrder || takeWord("False");
      } else if (*key == "shape") {
        seen = &hasShape;
        isSound = parseShape();
      }
      if (!seen || *seen || !isSound)
        return std::nullopt;
      *seen = true;
      if (!take(',') && !peek('}'))
        return std::nullopt;
    }
    skipSpace();
    if (!text.empty() || !hasType || !hasOrder || !hasShape)
      return std::nullopt;
    return std::move(header);
  }

private:
  void skipSpace() {
    size_t count = text.find_first_not_of(" \n");
    text.remove_prefix(std::min(count, text.size()));
  }
  bool peek(char c) {
    skipSpace();
    return text.starts_with(c);
  }
  bool take(char c) {
    if (!peek(c))
      return false;
    text.remove_prefix(1);
    return true;
  }
  bool takeWord(std::string_view word) {
    skipSpace();
    if (!text.starts_with(word))
      return false;
    text.remove_prefix(word.size());
    return true;
  }
  std::optional<std::string> parseString() {
    skipSpace();
    if (text.empty() || (text[0] != '\'' && text[0] != '"'))
      return std::nullopt;
    size_t end = text.find(text[0], 1);
    if (end == std::string_view::npos)
      return std::nullopt;
    std::string result(text.substr(1, end - 1));
    text.remove_prefix(end + 1);
    return result;
  }
  /// The list of the fields of records, as it is written.
  std::optional<std::string> parseFields() {
    int depth = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      depth += text[i] == '[' ? 1 : text[i] == ']' ? -1 : 0;
      if (depth > 0)
        continue;
      std::string result(text.substr(0, i + 1));
      text.remove_prefix(i + 1);
      return result;
    }
    return std::nullopt;
  }
  bool parseShape() {
    if (!take('('))
      return false;
    while (!take(')')) {
      skipSpace();
      int64_t size = 0;
      auto [end, error] =
          std::from_chars(text.data(), text.data() + text.size(), size);
      if (error != std::errc() || size < 0 || header.shape.size() == maxDims)
        return false;
      text.remove_prefix(size_t(end - text.data()));
      header.shape.push_back(size);
      if (!take(',') && !peek(')'))
        return false;
    }
    return true;
  }

  std::string_view text;
  Header header;
};

} // namespace

/// Fills `target`; false where there are fewer bytes.
static Result<bool> fill(ByteReader &reader, std::span<std::byte> target) {
  Result<size_t> count = reader.read(target);
  if (!count)
    return count.getError();
  return *count == target.size();
}

Result<NpyHeader> runtime::parseNpyHeader(ByteReader &reader,
                                          const std::string &path) {
  auto damaged = [&](const std::string &what) { return getDamage(path, what); };
  std::array<std::byte, magic.size() + 2> mark{}; // and the version
  Result<size_t> begun = reader.read(mark);
  if (!begun)
    return begun.getError();
  if (*begun < mark.size())
    return damaged("it does not begin as a .npy file does");
  if (std::memcmp(mark.data(), magic.data(), magic.size()) != 0)
    return getUnmarked(mark, reader, path, "a .npy file");
  const int version = int(mark[magic.size()]);
  if (version < 1 || version > 3)
    return damaged(
        fmt::format("format version {}, expected 1, 2 or 3", version));
  std::array<std::byte, 4> digits{};
  Result<bool> isWhole =
      fill(reader, std::span(digits).first(version == 1 ? 2 : 4));
  if (!isWhole)
    return isWhole.getError();
  if (!*isWhole)
    return damaged("its header is cut off");
  size_t length = 0;
  for (size_t i = 0; i < digits.size(); ++i)
    length |= size_t(digits[i]) << (8 * i);
  if (length > maxHeaderBytes)
    return damaged(fmt::format("its header has {} bytes, expected at most {}",
                               length, maxHeaderBytes));
  std::string text(length, '\0');
  isWhole = fill(reader, std::as_writable_bytes(std::span(text)));
  if (!isWhole)
    return isWhole.getError();
  if (!*isWhole)
    return damaged("its header is cut off");
  std::optional<Header> header = HeaderParser(text).parse();
  if (!header)
    return damaged("its header is not well-formed");

  const std::string_view stored = header->type;
  const auto *type = std::find_if(
      typeNames.begin(), typeNames.end(), [&](const TypeName &name) {
        return stored.size() == 3 && stored.substr(1) == name.text &&
               std::string_view("<>=|").find(stored[0]) !=
                   std::string_view::npos;
      });
  if (type == typeNames.end())
    return Error{ErrorCode::UnsupportedArray,
                 stored.starts_with('[')
                     ? fmt::format("'{}' has records {}, expected numbers or "
                                   "booleans",
                                   path, stored.substr(0, 80))
                     : fmt::format("'{}' has elements of type \"{}\", expected "
                                   "f2, f4, f8, i1, i2, i4, i8, u1, u2, u4, u8 "
                                   "or b1",
                                   path, stored.substr(0, 80)),
                 stored.starts_with('[')
                     ? "array['field'] is one of them by itself"
                     : ""};
  if (header->isFortranOrder)
    return Error{
        ErrorCode::UnsupportedArray,
        fmt::format("'{}' is in Fortran order, expected C order", path),
        "numpy.ascontiguousarray() gives C order"};
  const auto bytes = uint8_t(type->text[1] - '0');
  return NpyHeader{type->element,
                   {type->kind, bytes, stored[0] == '>' && bytes > 1},
                   std::move(header->shape),
                   mark.size() + (version == 1 ? 2u : 4u) + length};
}

Status runtime::checkBooleans(exec::ElementType element,
                              std::span<const std::byte> elements,
                              const std::string &path) {
  if (element == exec::ElementType::boolean)
    for (std::byte value : elements)
      if (value > std::byte(1))
        return getDamage(
            path, fmt::format("a boolean is {}, expected 0 or 1", int(value)));
  return Status::success();
}

/// Writes each element of type From as one of type To.
template <typename From, typename To, typename Convert>
static Status convertAll(std::span<const std::byte> stored,
                         std::span<std::byte> target, Convert convert) {
  for (size_t i = 0; i * sizeof(From) < stored.size(); ++i) {
    From value;
    std::memcpy(&value, &stored[i * sizeof(From)], sizeof(From));
    const To result = convert(value);
    std::memcpy(&target[i * sizeof(To)], &result, sizeof(To));
  }
  return Status::success();
}

Status runtime::decode(const NpyStorage &storage, std::span<std::byte> stored,
                       std::span<std::byte> target, const std::string &path) {
  if (storage.isSwapped)
    for (size_t i = 0; i < stored.size(); i += storage.bytes)
      std::reverse(stored.begin() + ptrdiff_t(i),
                   stored.begin() + ptrdiff_t(i + storage.bytes));
  auto widen = [](auto value) { return value; };
  switch (storage.kind) {
  case Kind::Same:
    std::ranges::copy(stored, target.begin());
    return Status::success();
  case Kind::Half:
    return convertAll<Float16, float>(
        stored, target, [](Float16 value) { return value.toFloat(); });
  case Kind::U16:
    return convertAll<uint16_t, int32_t>(stored, target, widen);
  case Kind::U32:
    return convertAll<uint32_t, int64_t>(stored, target, widen);
  case Kind::U64: {
    std::optional<uint64_t> tooLarge;
    Status done =
        convertAll<uint64_t, int64_t>(stored, target, [&](uint64_t value) {
          if (value > uint64_t(INT64_MAX))
            tooLarge = value;
          return int64_t(value);
        });
    if (tooLarge)
      return Error{ErrorCode::UnsupportedArray,
                   fmt::format("'{}' has the integer {}, expected less than "
                               "2^63",
                               path, *tooLarge),
                   ""};
    return done;
  }
  }
  __builtin_unreachable(); // no other is made
}

Result<HostArray> runtime::parseNpy(ByteReader &reader,
                                    const std::string &path) {
  Result<NpyHeader> header = parseNpyHeader(reader, path);
  if (!header)
    return header.getError();
  HostArray array{header->element, std::move(header->shape), {}};
  Result<std::vector<std::byte>> elements =
      readElements(reader, countBytes(header->storage.bytes, array.shape),
                   "shape " + toString(array.element, array.shape), path);
  if (!elements)
    return elements.getError();
  if (header->storage.isPlain()) {
    array.data = std::move(*elements);
  } else {
    array.data.resize(elements->size() / header->storage.bytes *
                      size_t(getElementBytes(array.element)));
    if (Status decoded = decode(header->storage, *elements, array.data, path);
        !decoded)
      return decoded.getError();
  }
  Status isSound = checkBooleans(array.element, array.data, path);
  if (!isSound)
    return isSound.getError();
  return array;
}

Result<HostArray> runtime::readNpy(const std::string &path) {
  Result<std::unique_ptr<FileReader>> file = FileReader::open(path);
  if (!file)
    return file.getError();
  return parseNpy(**file, path);
}

Result<std::string> runtime::makeNpyHeader(exec::ElementType element,
                                           std::span<const int64_t> sizes,
                                           const std::string &path) {
  const auto *type = std::find_if(
      typeNames.begin(), typeNames.end(),
      [&](const TypeName &name) { return name.element == element; });
  if (type == typeNames.end())
    return Error{ErrorCode::UnsupportedArray,
                 fmt::format("cannot write '{}': .npy has no element type {}",
                             path, getName(element)),
                 ""};
  std::string shape = fmt::format("{}", fmt::join(sizes, ", "));
  if (sizes.size() == 1)
    shape += ",";
  std::string header = fmt::format(
      "{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
      type->text[1] == '1' ? '|' : '<', type->text, shape);
  // The elements start at a multiple of 64; the header ends with a new line.
  const size_t before = magic.size() + 4;
  const size_t total = (before + header.size() + 1 + 63) / 64 * 64;
  header.append(total - before - header.size() - 1, ' ');
  header += '\n';
  std::string text(magic);
  text +=
      {char(1), char(0), char(header.size() & 0xff), char(header.size() >> 8)};
  return text + header;
}

Status runtime::writeNpy(const std::string &path, const HostArray &array) {
  Result<std::string> text = makeNpyHeader(array.element, array.shape, path);
  if (!text)
    return text.getError();
  text->append(reinterpret_cast<const char *>(array.data.data()),
               array.data.size());
  return writeFile(path, *text);
}
