#include "runtime/cpu/Processor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace meshc;
using namespace meshc::runtime;
using testing::HasSubstr;

namespace {

TEST(ProcessorTest, missing_features_are_named) {
  exec::ExecutableT data;
  data.cpu = "sapphirerapids";
  EXPECT_TRUE(checkProcessor(data));
  data.cpu_features = {"sse2", "64bit", "cmov"};
  EXPECT_TRUE(checkProcessor(data));
  data.cpu_features = {"sse2", "no-such-thing"};
  Status status = checkProcessor(data);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.getError().code, ErrorCode::OtherProcessor);
  EXPECT_THAT(status.getError().message, HasSubstr("'no-such-thing'"));
}

TEST(ProcessorTest, agrees_with_the_compiler_about_this_processor) {
  EXPECT_EQ(hasProcessorFeature("sse4.2"),
            bool(__builtin_cpu_supports("sse4.2")));
  EXPECT_EQ(hasProcessorFeature("avx"), bool(__builtin_cpu_supports("avx")));
  EXPECT_EQ(hasProcessorFeature("avx2"), bool(__builtin_cpu_supports("avx2")));
  EXPECT_EQ(hasProcessorFeature("fma"), bool(__builtin_cpu_supports("fma")));
  EXPECT_EQ(hasProcessorFeature("bmi2"), bool(__builtin_cpu_supports("bmi2")));
  EXPECT_EQ(hasProcessorFeature("avx512f"),
            bool(__builtin_cpu_supports("avx512f")));
  EXPECT_EQ(hasProcessorFeature("avx512vl"),
            bool(__builtin_cpu_supports("avx512vl")));
  // One of them is absent from any processor: Intel's and AMD's own.
  bool hasAll = true;
  for (const char *name : {"sse4a", "clzero", "serialize", "avx512fp16"})
    hasAll &= hasProcessorFeature(name).value();
  ASSERT_FALSE(hasAll);
  exec::ExecutableT data;
  data.cpu_features = {"sse4a", "clzero", "serialize", "avx512fp16"};
  Status status = checkProcessor(data);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.getError().message, HasSubstr("this processor lacks "));
}

} // namespace
