#ifndef MESHC_RUNTIME_CHECKPOINT_DIGEST_H
#define MESHC_RUNTIME_CHECKPOINT_DIGEST_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace meshc::runtime {

/// BLAKE2b of 256 bits (libsodium's crypto_generichash).
using Digest = std::array<unsigned char, 32>;

/// Files are digested, written and read in pieces of so many bytes: threads
/// take one each, and who needs a part of a file verifies no more than its
/// pieces.
inline constexpr uint64_t pieceBytes = uint64_t(1) << 22;

inline int64_t getNumPieces(uint64_t bytes) {
  return int64_t((bytes + pieceBytes - 1) / pieceBytes);
}

Digest digest(std::span<const std::byte> bytes);
/// 64 hexadecimal digits.
std::string toHex(const Digest &digest);
std::optional<Digest> fromHex(std::string_view text);

} // namespace meshc::runtime

#endif
