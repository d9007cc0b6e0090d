#include "runtime/checkpoint/Safetensors.h"

#include "runtime/checkpoint/StrictJson.h"
#include "runtime/exec/Executable.h"
#include "runtime/io/FileErrors.h"
#include "runtime/io/FileKind.h"
#include "runtime/io/Json.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

using namespace meshc;
using namespace meshc::runtime;

static_assert(std::endian::native == std::endian::little,
              "elements are written as they lie in memory");

static constexpr exec::ElementType allElements[] = {
    exec::ElementType::f32, exec::ElementType::f64,     exec::ElementType::i32,
    exec::ElementType::i64, exec::ElementType::boolean, exec::ElementType::bf16,
    exec::ElementType::f16, exec::ElementType::u8,      exec::ElementType::i8,
    exec::ElementType::i16};

const char *runtime::getSafetensorsName(exec::ElementType element) {
  switch (element) {
  case exec::ElementType::f32:
    return "F32";
  case exec::ElementType::f64:
    return "F64";
  case exec::ElementType::i32:
    return "I32";
  case exec::ElementType::i64:
    return "I64";
  case exec::ElementType::boolean:
    return "BOOL";
  case exec::ElementType::bf16:
    return "BF16";
  case exec::ElementType::f16:
    return "F16";
  case exec::ElementType::u8:
    return "U8";
  case exec::ElementType::i8:
    return "I8";
  case exec::ElementType::i16:
    return "I16";
  }
  __builtin_unreachable(); // checkExecutable refuses other values
}

std::string runtime::layOut(SafetensorsHeader &header) {
  std::string json = "{\"__metadata__\": {";
  for (const auto &[key, value] : header.metadata)
    json += fmt::format("{}{}: {}", json.back() == '{' ? "" : ", ", toJson(key),
                        toJson(value));
  json += "}";
  uint64_t place = 0;
  for (SafetensorsEntry &entry : header.entries) {
    entry.begin = place;
    place += uint64_t(getElementBytes(entry.element));
    for (int64_t size : entry.shape)
      place = entry.begin + (place - entry.begin) * uint64_t(size);
    entry.end = place;
    json += fmt::format(
        ",\n{}: {{\"dtype\": \"{}\", \"shape\": [{}], \"data_offsets\": "
        "[{}, {}]}}",
        toJson(entry.name), getSafetensorsName(entry.element),
        fmt::join(entry.shape, ", "), entry.begin, entry.end);
  }
  json += "}";
  // Elements begin at a page, wherever the file is mapped.
  constexpr size_t alignment = 4096;
  const uint64_t length =
      (sizeof(uint64_t) + json.size() + alignment - 1) / alignment * alignment -
      sizeof(uint64_t);
  json.resize(length, ' ');
  header.bytes = sizeof(uint64_t) + length;
  for (SafetensorsEntry &entry : header.entries) {
    entry.begin += header.bytes;
    entry.end += header.bytes;
  }
  std::string front(sizeof(length), '\0');
  std::memcpy(front.data(), &length, sizeof(length));
  return front + json;
}

namespace {

/// Reads the entries of a header that is JSON.
class EntryReader {
public:
  EntryReader(uint64_t headerBytes, uint64_t fileBytes)
      : headerBytes(headerBytes), fileBytes(fileBytes) {}

  std::string defect;

  std::optional<SafetensorsEntry> read(const std::string &name,
                                       const nlohmann::json &object) {
    auto fail = [&](std::string what) {
      defect = fmt::format("tensor '{}' {}", name, what);
      return std::nullopt;
    };
    if (!object.is_object())
      return fail("is no object");
    JsonFields fields(object);
    const std::string dtype = fields.getText("dtype");
    const nlohmann::json &shape = fields.getList("shape");
    const nlohmann::json &offsets = fields.getList("data_offsets");
    if (!fields.getDefect().empty())
      return fail(fields.getDefect());
    SafetensorsEntry entry;
    entry.name = name;
    const auto *element =
        std::find_if(std::begin(allElements), std::end(allElements),
                     [&](exec::ElementType each) {
                       return dtype == getSafetensorsName(each);
                     });
    if (element != std::end(allElements))
      entry.element = *element;
    else if (dtype.empty() || !std::ranges::all_of(dtype, [](char letter) {
               return std::isalnum(static_cast<unsigned char>(letter)) ||
                      letter == '_';
             }))
      return fail(fmt::format("has elements '{}', which are no type", dtype));
    else
      entry.foreignType = dtype;
    constexpr size_t maxRank = 64;
    if (shape.size() > maxRank)
      return fail(fmt::format("has {} dimensions, expected at most {}",
                              shape.size(), maxRank));
    uint64_t bytes = uint64_t(getElementBytes(entry.element));
    for (const nlohmann::json &size : shape) {
      const int64_t count = size.is_number_integer() ? size.get<int64_t>() : -1;
      if (count < 0)
        return fail("has a size that is no positive integer");
      if (__builtin_mul_overflow(bytes, uint64_t(count), &bytes))
        return fail("has more elements than any file");
      entry.shape.push_back(count);
    }
    if (offsets.size() != 2 || !offsets[0].is_number_integer() ||
        !offsets[1].is_number_integer())
      return fail("has no two data_offsets");
    const auto begin = offsets[0].get<int64_t>();
    const auto end = offsets[1].get<int64_t>();
    if (begin < 0 || begin > end || uint64_t(end) > fileBytes - headerBytes)
      return fail(fmt::format("is at {} to {} of {} bytes of elements", begin,
                              end, fileBytes - headerBytes));
    if (entry.foreignType.empty() && uint64_t(end - begin) != bytes)
      return fail(fmt::format("has {} bytes, expected {} for {}[{}]",
                              end - begin, bytes, dtype,
                              fmt::join(entry.shape, ", ")));
    entry.begin = headerBytes + uint64_t(begin);
    entry.end = headerBytes + uint64_t(end);
    return entry;
  }

private:
  uint64_t headerBytes, fileBytes;
};

} // namespace

/// What is wrong with how the tensors lie in the file; empty: nothing.
static std::string checkCover(const SafetensorsHeader &header,
                              uint64_t fileBytes) {
  uint64_t place = header.bytes;
  const std::string *before = nullptr;
  for (const SafetensorsEntry &entry : header.entries) {
    if (entry.begin < place)
      return fmt::format("tensors '{}' and '{}' overlap", *before, entry.name);
    if (entry.begin > place)
      return fmt::format("no tensor has the {} bytes before '{}'",
                         entry.begin - place, entry.name);
    place = entry.end;
    before = &entry.name;
  }
  return place == fileBytes ? ""
                            : fmt::format("no tensor has its last {} bytes",
                                          fileBytes - place);
}

Result<SafetensorsHeader>
runtime::readSafetensorsHeader(const ReadAt &read, uint64_t fileBytes,
                               const std::string &path) {
  uint64_t length = 0;
  if (fileBytes < sizeof(length))
    return getDamage(path, fmt::format("it has {} bytes, expected at least {}",
                                       fileBytes, sizeof(length)));
  std::vector<std::byte> start(
      size_t(std::min<uint64_t>(fileBytes, kindBytes)));
  Status got = read(0, start);
  if (!got)
    return got.getError();
  // An own mark they have not.
  if (const std::string_view kind = findFileKind(start, fileBytes);
      !kind.empty() && kind != safetensorsKind)
    return getWrongKind(path, kind, safetensorsKind);
  std::memcpy(&length, start.data(), sizeof(length));
  const uint64_t most =
      std::min<uint64_t>(maxJsonBytes, fileBytes - sizeof(length));
  if (length > most)
    return getDamage(
        path, fmt::format("its header is to have {} bytes, expected at most {}",
                          length, most));
  std::string text(size_t(length), '\0');
  got = read(sizeof(length), std::as_writable_bytes(std::span(text)));
  if (!got)
    return got.getError();
  if (!text.starts_with('{'))
    return getDamage(path, "its header does not begin with '{'");
  Result<nlohmann::json> json = parseStrictJson(text, path, JsonScalars::Any);
  if (!json)
    return json.getError();
  SafetensorsHeader header;
  header.bytes = sizeof(length) + length;
  EntryReader reader(header.bytes, fileBytes);
  for (const auto &[name, object] : json->items()) {
    if (name == "__metadata__") {
      if (!object.is_object() && !object.is_null())
        return getDamage(path, "its __metadata__ is no object");
      // What it is to say is of no matter here but where texts say it.
      for (const auto &[key, value] : object.items())
        if (value.is_string())
          header.metadata[key] = value.get<std::string>();
      continue;
    }
    std::optional<SafetensorsEntry> entry = reader.read(name, object);
    if (!entry)
      return getDamage(path, reader.defect);
    header.entries.push_back(std::move(*entry));
  }
  // Of those that begin at one place, the empty ones come first.
  std::sort(header.entries.begin(), header.entries.end(),
            [](const SafetensorsEntry &a, const SafetensorsEntry &b) {
              return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
            });
  if (std::string defect = checkCover(header, fileBytes); !defect.empty())
    return getDamage(path, defect);
  return header;
}
