#include "Driver.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>

using namespace meshc::emulation;

/// How many bytes of each of two allocations are poison, of which the first is
/// written in part: "5242892 ". Emulated memory is the host's.
static std::string countPoison(size_t bytes, size_t at, size_t written) {
  Memory memory;
  CUdeviceptr allocations[2];
  for (CUdeviceptr &address : allocations)
    if (memory.allocate(0, bytes, address) != CUDA_SUCCESS)
      return "no memory";
  std::memset(reinterpret_cast<void *>(allocations[0] + at), 0, written);
  std::string found = memory.checkGuards();
  for (CUdeviceptr address : allocations) {
    const auto *begin = reinterpret_cast<const unsigned char *>(address);
    found += std::to_string(std::count(begin, begin + bytes, 0xFF)) + " ";
  }
  for (CUdeviceptr address : allocations)
    if (memory.release(address) != CUDA_SUCCESS)
      found += "not released";
  return found;
}

TEST(Memory, IsPoisonUntilItIsWritten) {
  constexpr size_t mebibyte = 1 << 20;
  struct Case {
    size_t bytes, at, written;
  };
  for (const Case &c :
       {Case{1, 0, 1}, Case{4099, 1, 7}, Case{2 * mebibyte, 0, 2 * mebibyte},
        Case{2 * mebibyte + 1, mebibyte - 5, 10},
        Case{5 * mebibyte + 12, mebibyte + 7, 3 * mebibyte},
        Case{5 * mebibyte + 12, 0, 5 * mebibyte + 12}})
    EXPECT_EQ(countPoison(c.bytes, c.at, c.written),
              std::to_string(c.bytes - c.written) + " " +
                  std::to_string(c.bytes) + " ")
        << c.bytes;
}
