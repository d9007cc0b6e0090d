#include "runtime/cuda/TuningCache.h"

#include "runtime/io/File.h"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <sys/file.h>
#include <unistd.h>

using namespace meshc::runtime;
using namespace meshc::runtime::cuda;

Result<std::string> cuda::getTuningCachePath() {
  // Variables that are set to nothing are not set; the XDG base directory
  // specification has relative paths ignored.
  auto get = [](const char *name) -> std::string {
    const char *value = std::getenv(name);
    return value ? value : "";
  };
  if (std::string folder = get("MESHC_CACHE_DIR"); !folder.empty())
    return folder + "/matmuls";
  if (std::string folder = get("XDG_CACHE_HOME"); folder.starts_with('/'))
    return folder + "/meshc/matmuls";
  if (std::string home = get("HOME"); !home.empty())
    return home + "/.cache/meshc/matmuls";
  return Error{ErrorCode::CannotWrite,
               "there is no folder to keep measured products in",
               "set MESHC_CACHE_DIR, XDG_CACHE_HOME or HOME"};
}

/// Source: Fowler, Noll and Vo, FNV-1a with 64 bits.
static uint64_t getChecksum(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char character : text)
    hash = (hash ^ uint8_t(character)) * 0x100000001b3;
  return hash;
}

/// The line without its checksum.
static std::string format(const std::string &product,
                          const MatmulChoice &choice) {
  return fmt::format("{} {} {:.3f} {:.3f} {}", choice.candidates, choice.chosen,
                     choice.firstMicroseconds, choice.chosenMicroseconds,
                     product);
}

/// Whether `line` is whole; then it is among `choices`.
static bool parse(std::string_view line, MatmulChoices &choices) {
  constexpr size_t digits = 16;
  uint64_t checksum = 0;
  if (line.size() <= digits + 1 || line[digits] != ' ' ||
      std::from_chars(line.data(), line.data() + digits, checksum, 16).ptr !=
          line.data() + digits)
    return false;
  const std::string rest(line.substr(digits + 1));
  if (getChecksum(rest) != checksum)
    return false;
  std::istringstream stream(rest);
  MatmulChoice choice;
  std::string product;
  if (!(stream >> choice.candidates >> choice.chosen >>
        choice.firstMicroseconds >> choice.chosenMicroseconds >> std::ws) ||
      !std::getline(stream, product) || choice.chosen >= choice.candidates)
    return false;
  choices[product] = choice;
  return true;
}

Result<MatmulChoices> cuda::readTuningCache(const std::string &path,
                                            size_t &damaged) {
  MatmulChoices choices;
  damaged = 0;
  // What cannot be looked at is an error of the reader's.
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error)
    return choices;
  Result<std::vector<std::byte>> bytes = readFile(path);
  if (!bytes)
    return bytes.getError();
  std::string_view text(reinterpret_cast<const char *>(bytes->data()),
                        bytes->size());
  while (!text.empty()) {
    const size_t end = text.find('\n');
    // A last line without an end was cut off.
    if (end == text.npos || !parse(text.substr(0, end), choices))
      ++damaged;
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return choices;
}

namespace {
/// The turn of one writer.
class Lock {
public:
  explicit Lock(const std::string &path)
      : file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    int status = -1;
    do {
      status = file < 0 ? -1 : flock(file, LOCK_EX);
    } while (file >= 0 && status != 0 && errno == EINTR);
    held = status == 0;
  }
  Lock(const Lock &) = delete;
  Lock &operator=(const Lock &) = delete;
  ~Lock() {
    if (file >= 0)
      close(file);
  }
  /// If not, errno says why.
  bool isHeld() const { return held; }

private:
  int file;
  bool held = false;
};
} // namespace

Status cuda::addToTuningCache(const std::string &path,
                              const MatmulChoices &choices) {
  auto fail = [&](const std::string &reason) {
    return Error{ErrorCode::CannotWrite,
                 fmt::format("cannot write '{}': {}", path, reason),
                 "set MESHC_CACHE_DIR to a folder that can be written"};
  };
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(),
                                      error);
  if (error)
    return fail(error.message());
  Lock lock(path + ".lock");
  if (!lock.isHeld())
    return fail(std::strerror(errno));
  size_t damaged = 0;
  Result<MatmulChoices> all = readTuningCache(path, damaged);
  if (!all)
    return all.getError();
  for (const auto &[product, choice] : choices)
    (*all)[product] = choice;
  std::string text;
  for (const auto &[product, choice] : *all) {
    const std::string line = format(product, choice);
    text += fmt::format("{:016x} {}\n", getChecksum(line), line);
  }
  return writeFile(path, text);
}
