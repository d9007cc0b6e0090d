#include "frontend/plan/Quantities.h"

#include <gtest/gtest.h>

using namespace meshc;

TEST(QuantitiesTest, bytes_have_three_digits_and_powers_of_1024) {
  EXPECT_EQ(plan::formatBytes(0), "0 B");
  EXPECT_EQ(plan::formatBytes(40), "40 B");
  EXPECT_EQ(plan::formatBytes(1023), "1023 B");
  EXPECT_EQ(plan::formatBytes(1024), "1 KiB");
  EXPECT_EQ(plan::formatBytes(1600), "1.56 KiB");
  EXPECT_EQ(plan::formatBytes(5 << 20), "5 MiB");
  EXPECT_EQ(plan::formatBytes((int64_t(1) << 20) - 1), "1 MiB");
  EXPECT_EQ(plan::formatBytes(int64_t(3) << 40), "3 TiB");
}

TEST(QuantitiesTest, flops_have_powers_of_1000) {
  EXPECT_EQ(plan::formatFlops(999), "999 flop");
  EXPECT_EQ(plan::formatFlops(1230000), "1.23 Mflop");
  EXPECT_EQ(plan::formatFlops(999999), "1 Mflop");
}

TEST(QuantitiesTest, numbers_have_powers_of_1000) {
  EXPECT_EQ(plan::formatNumber(0), "0");
  EXPECT_EQ(plan::formatNumber(640), "640");
  EXPECT_EQ(plan::formatNumber(814'090), "814 k");
  EXPECT_EQ(plan::formatNumber(124'439'808), "124 M");
  EXPECT_EQ(plan::formatNumber(1'557'611'200), "1.56 G");
}

TEST(QuantitiesTest, one_is_singular) {
  EXPECT_EQ(plan::formatCount(1, "device"), "1 device");
  EXPECT_EQ(plan::formatCount(0, "device"), "0 devices");
}
