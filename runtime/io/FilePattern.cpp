#include "runtime/io/FilePattern.h"

#include "runtime/io/FileErrors.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include <glob.h>
#include <unistd.h>

using namespace meshc;
using namespace meshc::runtime;

std::string runtime::getPathBelow(const std::string &folder,
                                  const std::string &name) {
  return folder.empty() || name.starts_with('/') ? name : folder + "/" + name;
}

/// As glob() takes it: what `special` lists is itself.
static std::string quote(std::string_view text, std::string_view special) {
  std::string quoted;
  for (char c : text) {
    if (special.find(c) != std::string_view::npos)
      quoted += '\\';
    quoted += c;
  }
  return quoted;
}

namespace {

/// What glob() finds, which is freed.
struct Found {
  glob_t paths{};
  Found() = default;
  ~Found() { globfree(&paths); }
  Found(const Found &) = delete;
  Found &operator=(const Found &) = delete;
};

} // namespace

Result<std::vector<std::string>> runtime::findFiles(const std::string &folder,
                                                    const std::string &name) {
  const std::string path = getPathBelow(folder, name);
  if (!isPattern(name))
    return std::vector<std::string>{path};
  // What stands in front of the pattern has to be there, and is no pattern.
  const size_t before = path.size() - name.size();
  const size_t first = before + name.find_first_of("*?");
  const size_t slash = path.rfind('/', first);
  const std::string start =
      slash == std::string::npos ? "." : path.substr(0, slash + 1);
  if (access((start + "/.").c_str(), R_OK | X_OK) != 0)
    return getReadError(start);
  Found found;
  const std::string pattern = quote(path.substr(0, before), "*?[\\") +
                              quote(path.substr(before), "[\\");
  switch (
      glob(pattern.c_str(), GLOB_ERR | GLOB_NOSORT, nullptr, &found.paths)) {
  case 0:
    break;
  case GLOB_NOMATCH:
    return Error{ErrorCode::CannotRead,
                 fmt::format("no file in '{}' matches '{}'",
                             before > 0 ? folder : start,
                             before > 0 ? name : path.substr(slash + 1)),
                 ""};
  case GLOB_NOSPACE:
    throw std::bad_alloc();
  default:
    return getReadError(path);
  }
  std::vector<std::string> paths(found.paths.gl_pathv,
                                 found.paths.gl_pathv + found.paths.gl_pathc);
  std::sort(paths.begin(), paths.end());
  return paths;
}
