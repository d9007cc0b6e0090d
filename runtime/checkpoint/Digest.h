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

/// XXH3 of 128 bits, in its canonical (big-endian) order of bytes. It finds
/// what disks and networks damage; whoever means harm can write the manifest
/// too, so that a cryptographic one would find no more, at a twentieth of the
/// rate.
using Digest = std::array<unsigned char, 16>;

/// Files are digested, written and read in pieces of so many bytes: threads
/// take one each, and who needs a part of a file verifies no more than its
/// pieces.
inline constexpr uint64_t pieceBytes = uint64_t(1) << 22;

inline int64_t getNumPieces(uint64_t bytes) {
  return int64_t((bytes + pieceBytes - 1) / pieceBytes);
}

Digest digest(std::span<const std::byte> bytes);
/// 32 hexadecimal digits.
std::string toHex(const Digest &digest);
std::optional<Digest> fromHex(std::string_view text);

} // namespace meshc::runtime

#endif
