#include "runtime/metrics/Crc32c.h"

#include <array>

using namespace meshc;

/// The remainders of all bytes, for the polynomial with its bits turned round.
static constexpr std::array<uint32_t, 256> remainders = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit)
      rest = rest >> 1 ^ (rest & 1 ? 0x82F63B78u : 0);
    table[byte] = rest;
  }
  return table;
}();

uint32_t runtime::getCrc32c(std::string_view bytes) {
  uint32_t rest = ~uint32_t(0);
  for (char byte : bytes)
    rest = rest >> 8 ^ remainders[(rest ^ uint8_t(byte)) & 0xFF];
  return ~rest;
}
