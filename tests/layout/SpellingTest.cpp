#include "layout/Spelling.h"

#include <gtest/gtest.h>

#include <vector>

using namespace meshc::layout;

TEST(FindNearest, AcceptsLikelyMisspellingsOnly) {
  const std::vector<std::string> names{"pos", "key_pos", "hidden", "x", "y"};
  EXPECT_EQ(findNearest("hiden", names), "hidden");
  EXPECT_EQ(findNearest("hidedn", names), "hidden");
  EXPECT_EQ(findNearest("po", names), "pos");
  EXPECT_EQ(findNearest("z", names), "x"); // the first of equals
  EXPECT_EQ(findNearest("keypos", names), "key_pos");
  EXPECT_EQ(findNearest("key_pos", names), "key_pos");
  EXPECT_EQ(findNearest("classes", names), "");
  EXPECT_EQ(findNearest("", names), "");
  EXPECT_EQ(findNearest(std::string(10'000'000, 'h'), names), "");
}
