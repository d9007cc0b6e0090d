#ifndef MESHC_TESTS_EMULATION_TESTIMAGE_H
#define MESHC_TESTS_EMULATION_TESTIMAGE_H

/// The image of Kernels.cpp.

#include <fstream>
#include <iterator>
#include <string>

namespace meshc::emulation {

inline std::string readTestImage() {
  std::ifstream file(MESHC_TEST_IMAGE, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

} // namespace meshc::emulation

#endif
