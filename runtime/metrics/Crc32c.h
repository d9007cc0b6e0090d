#ifndef MESHC_RUNTIME_METRICS_CRC32C_H
#define MESHC_RUNTIME_METRICS_CRC32C_H

#include <cstdint>
#include <string_view>

namespace meshc::runtime {

/// The checksum CRC-32C (Castagnoli): polynomial 0x1EDC6F41, bits of a byte
/// from the lowest, 0xFFFFFFFF before and exclusive-or'd behind.
/// Source: RFC 3720, appendix B.4.
uint32_t getCrc32c(std::string_view bytes);

} // namespace meshc::runtime

#endif
