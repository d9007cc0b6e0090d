#include "runtime/app/Progress.h"

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

TEST(ProgressTest, numbers_are_short) {
  EXPECT_EQ(formatNumber(0), "0.0000");
  EXPECT_EQ(formatNumber(2.30258), "2.3026");
  EXPECT_EQ(formatNumber(-123456.7), "-123456.7000");
  EXPECT_EQ(formatNumber(4.5399e14), "4.54e+14");
  EXPECT_EQ(formatNumber(-1e300), "-1e+300");
  EXPECT_EQ(formatNumber(0.00012), "0.00012");
  EXPECT_EQ(formatNumber(3.4567e-38), "3.46e-38");
  EXPECT_EQ(formatNumber(INFINITY), "inf");
  EXPECT_EQ(formatNumber(NAN), "nan");
}

TEST(ProgressTest, rates_are_whole) {
  EXPECT_EQ(formatRate(0.4), "0");
  EXPECT_EQ(formatRate(1023456.7), "1023457");
  EXPECT_EQ(formatRate(4.5399e14), "4.54e+14");
  EXPECT_EQ(formatRate(INFINITY), "inf");
}

/// No number is cut: it would be read as another one.
TEST(ProgressTest, fields_that_do_not_fit_are_left_out) {
  const std::vector<std::string> fields = {"epoch 1/5", "step 12/234",
                                           "loss 4.54e+14"};
  EXPECT_EQ(joinFields(fields, 100), "epoch 1/5  step 12/234  loss 4.54e+14");
  EXPECT_EQ(joinFields(fields, 37), "epoch 1/5  step 12/234  loss 4.54e+14");
  EXPECT_EQ(joinFields(fields, 36), "epoch 1/5  step 12/234");
  EXPECT_EQ(joinFields(fields, 21), "epoch 1/5");
  EXPECT_EQ(joinFields(fields, 4), "epoc");
  EXPECT_EQ(joinFields(fields, 0), "");
}

} // namespace
