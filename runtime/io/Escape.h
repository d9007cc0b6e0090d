#ifndef MESHC_RUNTIME_IO_ESCAPE_H
#define MESHC_RUNTIME_IO_ESCAPE_H

#include <cstddef>
#include <string>
#include <string_view>

namespace meshc::runtime {

/// Text from elsewhere as a terminal may get it: control characters, bytes that
/// are no UTF-8 and marks that turn the direction of writing become \x1b,
/// \u{202e} and the like. What is longer than `maxBytes` is cut, and says so.
std::string escapeForTerminal(std::string_view text, size_t maxBytes = 16384);

} // namespace meshc::runtime

#endif
