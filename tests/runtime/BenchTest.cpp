/// The random inputs of measurements.

#include "runtime/app/Bench.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

using namespace meshc;
using namespace meshc::runtime;

namespace {

constexpr int64_t tail = 5; // elements behind the last whole repetition

exec::PortT makePort(exec::ElementType element, int64_t count,
                     int64_t indexBound = 0) {
  exec::PortT port;
  port.name = "x";
  port.index_bound = indexBound;
  port.layout = std::make_unique<exec::TensorLayoutT>();
  port.layout->element = element;
  auto dim = std::make_unique<exec::DimShardingT>();
  dim->size = count;
  port.layout->dims.push_back(std::move(dim));
  return port;
}

template <typename T> std::vector<T> getValues(const HostArray &array) {
  std::vector<T> values(array.data.size() / sizeof(T));
  std::memcpy(values.data(), array.data.data(), array.data.size());
  return values;
}

TEST(BenchTest, large_inputs_repeat_their_first_elements) {
  const int64_t count = 2 * maxRandomElements + tail;
  const auto values = getValues<float>(
      makeRandomInput(makePort(exec::ElementType::f32, count), 3));
  ASSERT_EQ(int64_t(values.size()), count);
  for (int64_t i = maxRandomElements; i < count; ++i)
    ASSERT_EQ(values[size_t(i)], values[size_t(i % maxRandomElements)]) << i;
  double sum = 0;
  double squares = 0;
  for (int64_t i = 0; i < maxRandomElements; ++i) {
    sum += values[size_t(i)];
    squares += double(values[size_t(i)]) * values[size_t(i)];
  }
  // Five standard errors: 1 / sqrt(n) of the mean, sqrt(2 / n) of the variance.
  const auto n = double(maxRandomElements);
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2 / n));
}

TEST(BenchTest, data_are_all_that_there_can_be_or_within_the_bound) {
  const auto all = getValues<uint8_t>(
      makeRandomInput(makePort(exec::ElementType::u8, 20000), 3));
  EXPECT_EQ(std::set<uint8_t>(all.begin(), all.end()).size(), 256u);
  const auto wide = getValues<int16_t>(
      makeRandomInput(makePort(exec::ElementType::i16, 20000), 3));
  EXPECT_LT(*std::min_element(wide.begin(), wide.end()), -32000);
  EXPECT_GT(*std::max_element(wide.begin(), wide.end()), 32000);
  for (int8_t value : getValues<int8_t>(
           makeRandomInput(makePort(exec::ElementType::i8, 500, 7), 3)))
    EXPECT_TRUE(value >= 0 && value < 7) << int(value);
}

TEST(BenchTest, elements_depend_on_seed_and_name_not_on_the_size) {
  exec::PortT port = makePort(exec::ElementType::i32, 40, 7);
  const auto values = getValues<int32_t>(makeRandomInput(port, 3));
  for (int32_t value : values)
    EXPECT_TRUE(value >= 0 && value < 7) << value;
  auto longer = getValues<int32_t>(
      makeRandomInput(makePort(exec::ElementType::i32, 50, 7), 3));
  longer.resize(values.size());
  EXPECT_EQ(longer, values);
  EXPECT_NE(getValues<int32_t>(makeRandomInput(port, 4)), values);
  port.name = "y";
  EXPECT_NE(getValues<int32_t>(makeRandomInput(port, 3)), values);
}

} // namespace
