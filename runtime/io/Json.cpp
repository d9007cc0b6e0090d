#include "runtime/io/Json.h"

#include <fmt/format.h>

#include <cmath>

using namespace meshc;

std::string runtime::toJson(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      result += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
      continue;
    }
    if (c == '"' || c == '\\')
      result += '\\';
    result += c;
  }
  return result + "\"";
}

std::string runtime::toJson(double value) {
  return std::isfinite(value) ? fmt::format("{:.9g}", value) : "null";
}
