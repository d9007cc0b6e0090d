#include "runtime/Progress.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace meshc::runtime;

namespace {

TEST(ProgressTest, durations_are_rounded_up_and_read_easily) {
  EXPECT_EQ(formatDuration(0), "0 s");
  EXPECT_EQ(formatDuration(11.2), "12 s");
  EXPECT_EQ(formatDuration(59.5), "1 min 00 s");
  EXPECT_EQ(formatDuration(199.9), "3 min 20 s");
  EXPECT_EQ(formatDuration(3599.1), "1 h 00 min");
  EXPECT_EQ(formatDuration(2 * 3600 + 5 * 60 + 1), "2 h 05 min");
}

/// What a clock that goes back and a rate of zero make of a duration.
TEST(ProgressTest, durations_that_are_none) {
  EXPECT_EQ(formatDuration(-3), "0 s");
  const std::string most = formatDuration(1e9);
  EXPECT_EQ(formatDuration(INFINITY), most);
  EXPECT_EQ(formatDuration(NAN), most);
}

} // namespace
