#include "runtime/checkpoint/Digest.h"

#include <sodium/core.h>
#include <sodium/crypto_generichash.h>
#include <sodium/utils.h>

using namespace meshc;
using namespace meshc::runtime;

Digest runtime::digest(std::span<const std::byte> bytes) {
  // Once, and by whichever thread comes first: chooses the code for this
  // processor.
  [[maybe_unused]] static const int ready = sodium_init();
  Digest result;
  crypto_generichash(result.data(), result.size(),
                     reinterpret_cast<const unsigned char *>(bytes.data()),
                     bytes.size(), nullptr, 0);
  return result;
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
