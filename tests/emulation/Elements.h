#ifndef MESHC_TESTS_EMULATION_ELEMENTS_H
#define MESHC_TESTS_EMULATION_ELEMENTS_H

/// Floating-point numbers of the four types, by their cudaDataType.

#include <cstddef>
#include <cstdint>

namespace meshc::emulation {

/// Bytes of an element; 0 for types that are not emulated.
size_t getTypeBytes(int type);

/// As doubles, which hold every value of the four types.
double loadElement(int type, const unsigned char *data, int64_t index);
/// Rounded to nearest even.
void storeElement(int type, unsigned char *data, int64_t index, double value);

} // namespace meshc::emulation

#endif
