#include "runtime/samples/TextUnits.h"

#include "runtime/io/File.h"
#include "runtime/io/FileKind.h"
#include "runtime/io/FilePattern.h"
#include "runtime/io/Gzip.h"
#include "runtime/io/RunningDigest.h"

#include <fmt/format.h>

#include <algorithm>

using namespace meshc;
using namespace meshc::runtime;

Result<std::vector<std::byte>> runtime::readText(const std::string &path,
                                                 ByteListener listener) {
  Result<std::unique_ptr<FileReader>> file =
      FileReader::open(path, std::move(listener));
  if (!file)
    return file.getError();
  Result<std::unique_ptr<ByteReader>> unpacked = unpack(std::move(*file), path);
  if (!unpacked)
    return unpacked.getError();
  Result<std::vector<std::byte>> text = readAll(**unpacked, path);
  if (!text)
    return text;
  const auto start = std::span(*text).first(std::min(kindBytes, text->size()));
  if (const std::string_view kind = findFileKind(start, text->size());
      !kind.empty())
    return getWrongKind(path, kind, "text");
  return text;
}

/// The characters of UTF-8. Errors: DamagedFile with the place of what is none.
static Result<std::vector<char32_t>>
decodeCharacters(std::span<const std::byte> text, const std::string &path) {
  std::vector<char32_t> characters;
  for (size_t i = 0; i < text.size();) {
    const auto lead = unsigned(text[i]);
    const size_t length = lead < 0x80         ? 1
                          : lead >> 5 == 0x6  ? 2
                          : lead >> 4 == 0xe  ? 3
                          : lead >> 3 == 0x1e ? 4
                                              : 0;
    char32_t character =
        length == 1 ? lead : char32_t(lead & (0x7fu >> length));
    bool isSound = length > 0 && i + length <= text.size();
    for (size_t j = 1; isSound && j < length; ++j) {
      isSound = unsigned(text[i + j]) >> 6 == 0x2;
      character = character << 6 | (unsigned(text[i + j]) & 0x3fu);
    }
    // The shortest form, no surrogate, no more than Unicode has.
    static constexpr char32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (!isSound || character < least[length] || character > 0x10ffff ||
        (character >= 0xd800 && character < 0xe000))
      return Error{
          ErrorCode::DamagedFile,
          fmt::format("'{}': byte {} begins no character of UTF-8", path, i),
          "tokens = \"bytes\" takes any text"};
    characters.push_back(character);
    i += length;
  }
  return characters;
}

Result<TextUnits> TextUnits::open(const exec::DataSourceT &source,
                                  const std::string &folder) {
  TextUnits result;
  if (source.units != "chars")
    return result;
  Result<std::vector<std::string>> paths = findFiles(folder, source.train);
  if (!paths)
    return paths.getError();
  std::vector<char32_t> &alphabet = result.alphabet;
  for (const std::string &path : *paths) {
    Result<std::vector<std::byte>> text = readText(path);
    if (!text)
      return text.getError();
    Result<std::vector<char32_t>> characters = decodeCharacters(*text, path);
    if (!characters)
      return characters.getError();
    alphabet.insert(alphabet.end(), characters->begin(), characters->end());
    std::sort(alphabet.begin(), alphabet.end());
    alphabet.erase(std::unique(alphabet.begin(), alphabet.end()),
                   alphabet.end());
  }
  if (alphabet.empty())
    return Error{
        ErrorCode::WrongData,
        fmt::format("'{}' has no characters", fmt::join(*paths, "', '")), ""};
  return result;
}

Result<std::vector<int32_t>> TextUnits::encode(std::span<const std::byte> text,
                                               const std::string &path) const {
  std::vector<int32_t> numbers;
  if (areBytes()) {
    for (std::byte byte : text)
      numbers.push_back(int32_t(byte));
    return numbers;
  }
  Result<std::vector<char32_t>> characters = decodeCharacters(text, path);
  if (!characters)
    return characters.getError();
  for (size_t i = 0; i < characters->size(); ++i) {
    const char32_t character = (*characters)[i];
    const auto found =
        std::lower_bound(alphabet.begin(), alphabet.end(), character);
    if (found == alphabet.end() || *found != character)
      return Error{ErrorCode::WrongData,
                   fmt::format("'{}': its character {} is U+{:04X}, which the "
                               "text for training does not have",
                               path, i, uint32_t(character)),
                   "tokens = \"bytes\" takes any text"};
    numbers.push_back(int32_t(found - alphabet.begin()));
  }
  return numbers;
}

std::string TextUnits::getDigest() const {
  RunningDigest digest;
  digest.add(std::as_bytes(std::span(alphabet)));
  return digest.get();
}

std::string TextUnits::decode(int64_t number) const {
  if (areBytes())
    return std::string(1, char(number));
  const char32_t character = alphabet[size_t(number)];
  auto follow = [&](int shift) {
    return char(0x80 | (character >> shift & 0x3f));
  };
  if (character < 0x80)
    return {char(character)};
  if (character < 0x800)
    return {char(0xc0 | character >> 6), follow(0)};
  if (character < 0x10000)
    return {char(0xe0 | character >> 12), follow(6), follow(0)};
  return {char(0xf0 | character >> 18), follow(12), follow(6), follow(0)};
}
