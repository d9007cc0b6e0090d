#include "runtime/io/Escape.h"

#include <fmt/format.h>

using namespace meshc;

std::string runtime::escapeForTerminal(std::string_view text, size_t maxBytes) {
  const bool isCut = text.size() > maxBytes;
  // In quotes, with these and backslashes escaped too.
  const std::string quoted =
      fmt::format("{:?}", isCut ? text.substr(0, maxBytes) : text);
  std::string escaped;
  for (size_t i = 1; i + 1 < quoted.size(); ++i) {
    const bool isPair =
        quoted[i] == '\\' && (quoted[i + 1] == '"' || quoted[i + 1] == '\\');
    i += isPair;
    escaped += quoted[i];
  }
  return isCut ? escaped + "..." : escaped;
}
