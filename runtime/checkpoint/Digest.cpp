#include "runtime/checkpoint/Digest.h"

// In this file alone, so that programs need no library at run time.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <sodium/utils.h>

using namespace meshc;
using namespace meshc::runtime;

Digest runtime::digest(std::span<const std::byte> bytes) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical,
                           XXH3_128bits(bytes.data(), bytes.size()));
  return std::to_array(canonical.digest);
}

std::string runtime::toHex(const Digest &digest) {
  std::string text(digest.size() * 2 + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), digest.data(), digest.size());
  text.pop_back();
  return text;
}

std::optional<Digest> runtime::fromHex(std::string_view text) {
  Digest result;
  if (text.size() != result.size() * 2)
    return std::nullopt;
  size_t length = 0;
  if (sodium_hex2bin(result.data(), result.size(), text.data(), text.size(),
                     nullptr, &length, nullptr) != 0 ||
      length != result.size())
    return std::nullopt;
  return result;
}
