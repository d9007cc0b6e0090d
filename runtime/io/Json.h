#ifndef MESHC_RUNTIME_IO_JSON_H
#define MESHC_RUNTIME_IO_JSON_H

#include <string>
#include <string_view>

/// Pieces of JSON, which the runtime writes one line at a time.
namespace meshc::runtime {

/// A JSON string: quoted, with quotes, backslashes and control characters
/// escaped. `text` is UTF-8.
std::string toJson(std::string_view text);

/// A JSON number of nine digits; null for NaN and infinities, which JSON lacks.
std::string toJson(double value);

} // namespace meshc::runtime

#endif
