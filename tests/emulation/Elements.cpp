#include "Elements.h"

#include "BlasLtAbi.h"

#include <bit>
#include <cmath>
#include <cstring>

using namespace meshc::emulation;

namespace {

float fromHalf(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16;
  uint32_t exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7F800000 | fraction << 13);
  if (exponent == 0)
    return std::copysign(std::ldexp(float(fraction), -24),
                         std::bit_cast<float>(sign));
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t toHalf(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  if (std::isnan(value))
    return sign | 0x7E00;
  float size = std::fabs(value);
  // 65520 lies halfway between the largest half and the next power of two.
  if (size >= 65520)
    return sign | 0x7C00;
  // The spacing of halves of this size; below 2^-14 they are evenly spaced.
  int exponent = size < 0x1p-14f ? -14 : std::ilogb(size);
  float rounded = std::nearbyint(std::ldexp(size, 10 - exponent));
  auto units = static_cast<uint32_t>(rounded);
  return static_cast<uint16_t>(sign + ((exponent + 14) << 10) + units);
}

uint16_t toBFloat(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value))
    return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

template <class Element>
Element load(const unsigned char *data, int64_t index) {
  Element element;
  std::memcpy(&element, data + index * sizeof(Element), sizeof element);
  return element;
}

template <class Element>
void store(unsigned char *data, int64_t index, Element element) {
  std::memcpy(data + index * sizeof(Element), &element, sizeof element);
}

} // namespace

size_t meshc::emulation::getTypeBytes(int type) {
  switch (type) {
  case CUDA_R_64F:
    return 8;
  case CUDA_R_32F:
    return 4;
  case CUDA_R_16F:
  case CUDA_R_16BF:
    return 2;
  default:
    return 0;
  }
}

double meshc::emulation::loadElement(int type, const unsigned char *data,
                                     int64_t index) {
  switch (type) {
  case CUDA_R_64F:
    return load<double>(data, index);
  case CUDA_R_32F:
    return load<float>(data, index);
  case CUDA_R_16F:
    return fromHalf(load<uint16_t>(data, index));
  case CUDA_R_16BF:
    return std::bit_cast<float>(uint32_t(load<uint16_t>(data, index)) << 16);
  }
  __builtin_unreachable(); // getTypeBytes refuses other types
}

void meshc::emulation::storeElement(int type, unsigned char *data,
                                    int64_t index, double value) {
  switch (type) {
  case CUDA_R_64F:
    return store(data, index, value);
  case CUDA_R_32F:
    return store(data, index, static_cast<float>(value));
  case CUDA_R_16F:
    return store(data, index, toHalf(static_cast<float>(value)));
  case CUDA_R_16BF:
    return store(data, index, toBFloat(static_cast<float>(value)));
  }
  __builtin_unreachable(); // getTypeBytes refuses other types
}
