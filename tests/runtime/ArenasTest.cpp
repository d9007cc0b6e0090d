#include "runtime/cpu/Arenas.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <unistd.h>

using namespace meshc::runtime;

static constexpr uint64_t huge = uint64_t(2) << 20;

static int64_t countMappings() {
  std::ifstream maps("/proc/self/maps");
  return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
}

TEST(ArenasTest, are_zero_apart_and_aligned) {
  const auto page = uint64_t(sysconf(_SC_PAGESIZE));
  for (uint64_t skew : {0, 16})
    for (uint64_t bytes : {uint64_t(0), uint64_t(1), page - 1, page, 3 * page,
                           huge - 17, huge, huge + 5}) {
      Result<Arenas> arenas = Arenas::create(5, bytes, skew);
      ASSERT_TRUE(arenas);
      const uint64_t alignment = bytes + skew < huge ? page : huge;
      for (int64_t index = 0; index < 5; ++index) {
        std::byte *data = arenas->getData(index);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % alignment, skew);
        EXPECT_TRUE(std::all_of(data, data + bytes, [](std::byte byte) {
          return byte == std::byte(0);
        }));
        std::memset(data, int(index + 1), bytes);
      }
      for (int64_t index = 0; index < 5; ++index) {
        const std::byte *data = arenas->getData(index);
        EXPECT_TRUE(std::all_of(data, data + bytes, [&](std::byte byte) {
          return byte == std::byte(index + 1);
        })) << bytes;
      }
    }
}

// More devices than a process may have mappings, of which each arena once took
// one.
TEST(ArenasTest, of_many_devices_take_few_mappings) {
  constexpr int64_t few = 20; // reading the file takes some, as sanitizers do
  const int64_t before = countMappings();
  {
    Result<Arenas> arenas = Arenas::create(100'000, 64, 16);
    ASSERT_TRUE(arenas);
    for (int64_t index : {0, 54'321, 99'999})
      *arenas->getData(index) = std::byte(1);
    EXPECT_LE(countMappings(), before + few);
  }
  EXPECT_LE(countMappings(), before + few);
}

TEST(ArenasTest, more_than_there_are_addresses_is_refused) {
  for (auto [count, bytes] : {std::pair{int64_t(1), uint64_t(1) << 62},
                              {int64_t(1) << 40, uint64_t(1) << 40},
                              {int64_t(1) << 20, uint64_t(1) << 43}}) {
    Result<Arenas> arenas = Arenas::create(count, bytes, 0);
    ASSERT_FALSE(arenas);
    EXPECT_EQ(arenas.getError().code, ErrorCode::DoesNotFit);
    EXPECT_NE(arenas.getError().message.find("bytes for each of"),
              std::string::npos);
  }
}
