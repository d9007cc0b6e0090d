/// Products of every type and end on the emulated cuBLASLt, against sums in
/// f64.

#include "runtime/Cuda/MatmulCalls.h"
#include "runtime/Cuda/Gpu.h"
#include "runtime/Executable.h"
#include "tests/cuda/CudaTesting.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::cuda;
using namespace meshc::runtime::test;

namespace {

using exec::Activation;
using exec::ElementType;

/// f16 of a number that it can hold, without subnormal ones.
uint16_t toHalf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if (value == 0)
    return 0;
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t exponent = (bits >> 23 & 0xff) - 127 + 15;
  return uint16_t(sign | exponent << 10 | (bits >> 13 & 0x3ff));
}

double fromHalf(uint16_t half) {
  const double magnitude =
      (half & 0x7fff) == 0
          ? 0
          : std::ldexp(1 + (half & 0x3ff) / 1024.0, (half >> 10 & 31) - 15);
  return half & 0x8000 ? -magnitude : magnitude;
}

void store(ElementType element, double value, std::byte *target) {
  const float single = float(value);
  uint32_t bits;
  std::memcpy(&bits, &single, 4);
  const auto brain = uint16_t(bits >> 16); // exact for what is stored here
  const uint16_t half = toHalf(single);
  switch (element) {
  case ElementType::f32:
    std::memcpy(target, &single, 4);
    return;
  case ElementType::f64:
    std::memcpy(target, &value, 8);
    return;
  case ElementType::bf16:
    std::memcpy(target, &brain, 2);
    return;
  case ElementType::f16:
    std::memcpy(target, &half, 2);
    return;
  case ElementType::i32:
  case ElementType::i64:
  case ElementType::boolean:
    break;
  }
  FAIL();
}

double load(ElementType element, const std::byte *source) {
  uint64_t bits = 0;
  std::memcpy(&bits, source, size_t(getElementBytes(element)));
  if (element == ElementType::f16)
    return fromHalf(uint16_t(bits));
  if (element == ElementType::bf16)
    bits <<= 16;
  if (element == ElementType::f64) {
    double value;
    std::memcpy(&value, &bits, 8);
    return value;
  }
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

struct Case {
  ElementType factor, result;
  Activation activation;
  bool hasBias, accumulate;
  size_t algorithm = 0; ///< among those that the library offers
};

double activate(Activation activation, double x) {
  if (activation == Activation::relu)
    return std::max(x, 0.0);
  if (activation == Activation::gelu_tanh)
    return 0.5 * x *
           (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  return x;
}

/// Largest error of a product of 3 batches of 5 x 7 times 7 x 6, relative to
/// one; an error's message below zero.
std::string runCase(const Case &test) {
  constexpr int64_t batch = 3, m = 5, n = 6, k = 7;
  exec::CommandT command;
  exec::MatmulT matmul;
  matmul.batch = {batch};
  matmul.m = m;
  matmul.n = n;
  matmul.k = k;
  matmul.a_strides = {m * k, 1, m}; // columns are contiguous
  matmul.b_strides = {k * n, n, 1};
  matmul.c_strides = {m * n, n, 1};
  matmul.has_bias = test.hasBias;
  matmul.activation = test.activation;
  matmul.accumulate = test.accumulate;
  command.action.Set(std::move(matmul));
  const std::vector<ElementType> elements =
      test.hasBias
          ? std::vector{test.factor, test.factor, test.result, test.result}
          : std::vector{test.factor, test.factor, test.result};
  const std::vector<int64_t> counts =
      test.hasBias
          ? std::vector<int64_t>{batch * m * k, batch * k * n, n, batch * m * n}
          : std::vector<int64_t>{batch * m * k, batch * k * n, batch * m * n};
  for (ElementType element : elements) {
    command.operands.push_back(std::make_unique<exec::OperandT>());
    command.operands.back()->element = element;
  }

  Result<const Driver *> driver = Driver::get();
  if (!driver)
    return driver.getError().message;
  Result<std::unique_ptr<Gpu>> gpu = Gpu::open(**driver, 0);
  if (!gpu)
    return gpu.getError().message;
  Result<OwnedStream> stream = makeStream(**driver, 0);
  Result<std::unique_ptr<MatmulCalls>> calls = MatmulCalls::create(**driver);
  Result<MatmulPlan> plan = planMatmul(command);
  Result<DeviceMemory> workspace = allocate(**driver, matmulWorkspaceBytes);
  if (!stream || !calls || !plan || !workspace)
    return "cannot begin";

  // Multiples of 1/8 below 1: exact in every type.
  std::mt19937 random(5);
  std::vector<std::vector<double>> values;
  std::vector<DeviceMemory> memory;
  for (size_t i = 0; i < elements.size(); ++i) {
    const int64_t bytes = getElementBytes(elements[i]);
    std::vector<std::byte> data(size_t(counts[i] * bytes));
    values.emplace_back();
    for (int64_t j = 0; j < counts[i]; ++j) {
      values.back().push_back((int(random() % 15) - 7) / 8.0);
      store(elements[i], values.back().back(), data.data() + j * bytes);
    }
    Result<DeviceMemory> allocated = allocate(**driver, data.size());
    if (!allocated)
      return allocated.getError().message;
    memory.push_back(std::move(*allocated));
    if (Status copied = (*driver)->memcpyHtoDAsync(
            memory.back().get(), data.data(), data.size(), stream->get());
        !copied)
      return copied.getError().message;
    if (Status done = (*driver)->streamSynchronize(stream->get()); !done)
      return done.getError().message;
  }
  const MatmulPointers pointers = {memory[0].get(), memory[1].get(),
                                   memory.back().get(),
                                   test.hasBias ? memory[2].get() : 0};
  Result<MatmulCall *> call = (*calls)->prepare(*plan, pointers);
  if (!call)
    return call.getError().message;
  Result<std::vector<MatmulAlgorithm>> algorithms = (*calls)->rank(**call, 16);
  if (!algorithms || algorithms->size() <= test.algorithm)
    return "there is no such algorithm";
  MatmulCalls::choose(**call, (*algorithms)[test.algorithm]);
  std::vector<std::byte> found(
      size_t(batch * m * n * getElementBytes(test.result)));
  Status ran =
      (*calls)->run(*plan, **call, pointers, workspace->get(), stream->get());
  if (ran)
    ran = (*driver)->memcpyDtoHAsync(found.data(), memory.back().get(),
                                     found.size(), stream->get());
  if (ran)
    ran = (*driver)->streamSynchronize(stream->get());
  if (!ran)
    return ran.getError().message;

  // Results are below 16: rounding to 8, 11 and 24 bits.
  const double bound = test.result == ElementType::bf16  ? 0.06
                       : test.result == ElementType::f16 ? 0.008
                       : test.result == ElementType::f32 ? 1e-5
                                                         : 1e-13;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const int64_t place = (b * m + i) * n + j;
        double sum = test.hasBias ? values[2][size_t(j)] : 0;
        for (int64_t l = 0; l < k; ++l)
          sum += values[0][size_t(b * m * k + l * m + i)] *
                 values[1][size_t((b * k + l) * n + j)];
        sum = activate(test.activation, sum) +
              (test.accumulate ? values.back()[size_t(place)] : 0);
        const double value = load(
            test.result, found.data() + place * getElementBytes(test.result));
        if (!(std::abs(value - sum) <= bound))
          return fmt::format("element {}: expected {}, found {}", place, sum,
                             value);
      }
  return "";
}

TEST(MatmulCallsTest, every_type_and_end) {
  const std::pair<ElementType, ElementType> types[] = {
      {ElementType::f32, ElementType::f32},
      {ElementType::f64, ElementType::f64},
      {ElementType::bf16, ElementType::bf16},
      {ElementType::bf16, ElementType::f32},
      {ElementType::f16, ElementType::f16},
      {ElementType::f16, ElementType::f32}};
  for (auto [factor, result] : types)
    for (Activation activation :
         {Activation::none, Activation::relu, Activation::gelu_tanh})
      for (bool hasBias : {false, true})
        for (bool accumulate : {false, true}) {
          // cuBLASLt has no ends for f64.
          const bool hasEnd = hasBias || activation != Activation::none;
          if ((accumulate && activation != Activation::none) ||
              (factor == ElementType::f64 && hasEnd))
            continue;
          const Case test{factor, result, activation, hasBias, accumulate};
          EXPECT_EQ(runEmulated({}, [&] { return runCase(test); }), "")
              << getName(factor) << " to " << getName(result) << ", "
              << exec::EnumNameActivation(activation) << ", bias " << hasBias
              << ", accumulate " << accumulate;
        }
}

TEST(MatmulCallsTest, every_algorithm_that_is_offered) {
  Case test{ElementType::bf16, ElementType::f32, Activation::none, true, false};
  for (test.algorithm = 0; test.algorithm < 3; ++test.algorithm)
    EXPECT_EQ(runEmulated({}, [&] { return runCase(test); }), "")
        << test.algorithm;
  EXPECT_EQ(runEmulated({}, [&] { return runCase(test); }),
            "there is no such algorithm");
}

} // namespace
