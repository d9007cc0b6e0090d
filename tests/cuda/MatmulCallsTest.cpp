/// Products of every type and end on the emulated cuBLASLt, against sums in
/// f64.

#include "runtime/Cuda/MatmulCalls.h"
#include "runtime/Cuda/Gpu.h"
#include "runtime/Executable.h"
#include "runtime/MatmulOperands.h"
#include "tests/cuda/CudaTesting.h"
#include "tests/runtime/LinearModel.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <random>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::cuda;
using namespace meshc::runtime::test;
using testing::HasSubstr;

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
  if ((*calls)->getNumCandidates(**call) <= test.algorithm)
    return "there is no such algorithm";
  MatmulCalls::choose(**call, test.algorithm);
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

  // One rounding to 8 or 11 bits: terms are added up in f32, exactly, and tanh
  // is as exact as f32.
  auto getBound = [&](double sum) {
    switch (test.result) {
    case ElementType::bf16:
      return std::abs(sum) * 0x1p-8 + 1e-5;
    case ElementType::f16:
      return std::abs(sum) * 0x1p-11 + 1e-5;
    case ElementType::f64:
      return 1e-13;
    default:
      return 1e-5;
    }
  };
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
        if (!(std::abs(value - sum) <= getBound(sum)))
          return fmt::format("element {}: expected {}, found {}", place, sum,
                             value);
      }
  return "";
}

/// A product of `rows` x 7 times 7 x `width` with an end of its own, by a fresh
/// MatmulCalls; every operand by its position in the command. All but the
/// factors have the type `result`.
class EndRun {
public:
  EndRun(const exec::MatmulT &matmul, ElementType factor, ElementType result)
      : matmul(matmul), order(getOperandOrder(matmul)) {
    for (size_t i = 0; i < order.count; ++i) {
      command.operands.push_back(std::make_unique<exec::OperandT>());
      command.operands[i]->element = isMask(i) ? ElementType::i32
                                     : i < 2   ? factor
                                               : result;
    }
    command.action.Set(exec::MatmulT(matmul));
    std::mt19937 random(7);
    for (size_t i = 0; i < order.count; ++i) {
      values.emplace_back();
      for (int64_t j = 0; j < getCount(i); ++j)
        values[i].push_back(isMask(i) ? double(int32_t(random()))
                                      : (int(random() % 15) - 7) / 8.0);
    }
  }

  bool isMask(size_t position) const {
    return int(position) == order.aux && matmul.activation == Activation::relu;
  }
  int64_t getCount(size_t position) const {
    const int at = int(position);
    if (at == 0)
      return matmul.m * matmul.k;
    if (at == 1)
      return matmul.k * matmul.n;
    if (at == order.bias)
      return matmul.n;
    if (at == order.sums)
      return matmul.column_sum == exec::ColumnSum::a ? matmul.m : matmul.n;
    return isMask(position) ? matmul.m * getMaskRowWords(matmul.n)
                            : matmul.m * matmul.n;
  }

  /// Replaces the values of what is written by what the library wrote.
  std::string run() {
    Result<const Driver *> driver = Driver::get();
    if (!driver)
      return driver.getError().message;
    Result<std::unique_ptr<Gpu>> gpu = Gpu::open(**driver, 0);
    Result<OwnedStream> stream = makeStream(**driver, 0);
    Result<std::unique_ptr<MatmulCalls>> calls = MatmulCalls::create(**driver);
    Result<MatmulPlan> plan = planMatmul(command);
    Result<DeviceMemory> workspace = allocate(**driver, matmulWorkspaceBytes);
    if (!plan)
      return plan.getError().message;
    if (!gpu || !stream || !calls || !workspace)
      return "cannot begin";
    std::vector<DeviceMemory> memory;
    for (size_t i = 0; i < order.count; ++i) {
      std::vector<std::byte> data = pack(i);
      Result<DeviceMemory> allocated = allocate(**driver, data.size());
      if (!allocated)
        return allocated.getError().message;
      memory.push_back(std::move(*allocated));
      Status copied = (*driver)->memcpyHtoDAsync(memory[i].get(), data.data(),
                                                 data.size(), stream->get());
      if (!copied || !(*driver)->streamSynchronize(stream->get()))
        return "cannot copy";
    }
    auto get = [&](int position) {
      return position < 0 ? 0 : memory[size_t(position)].get();
    };
    const MatmulPointers pointers = {
        get(0),         get(1),
        get(order.c),   get(std::max(order.bias, order.sums)),
        get(order.aux), get(order.addend)};
    Result<MatmulCall *> call = (*calls)->prepare(*plan, pointers);
    if (!call)
      return call.getError().message;
    Status ran =
        (*calls)->run(*plan, **call, pointers, workspace->get(), stream->get());
    for (size_t i = 0; ran && i < order.count; ++i) {
      std::vector<std::byte> data = pack(i);
      ran = (*driver)->memcpyDtoHAsync(data.data(), memory[i].get(),
                                       data.size(), stream->get());
      if (ran)
        ran = (*driver)->streamSynchronize(stream->get());
      unpack(i, data);
    }
    return ran ? "" : ran.getError().message;
  }

  exec::MatmulT matmul;
  MatmulOperandOrder order;
  std::vector<std::vector<double>> values; ///< by operand

private:
  std::vector<std::byte> pack(size_t position) const {
    const ElementType element = command.operands[position]->element;
    const int64_t bytes = getElementBytes(element);
    std::vector<std::byte> data(size_t(getCount(position) * bytes));
    for (int64_t i = 0; i < getCount(position); ++i) {
      const double value = values[position][size_t(i)];
      const auto word = int32_t(value);
      if (isMask(position))
        std::memcpy(data.data() + i * bytes, &word, sizeof(word));
      else
        store(element, value, data.data() + i * bytes);
    }
    return data;
  }
  void unpack(size_t position, const std::vector<std::byte> &data) {
    const ElementType element = command.operands[position]->element;
    const int64_t bytes = getElementBytes(element);
    for (int64_t i = 0; i < getCount(position); ++i) {
      const std::byte *place = data.data() + i * bytes;
      int32_t word = 0;
      if (isMask(position))
        std::memcpy(&word, place, sizeof(word));
      values[position][size_t(i)] =
          isMask(position) ? word : load(element, place);
    }
  }

  exec::CommandT command;
};

double getSlope(double x) {
  const double scale = std::sqrt(2 / M_PI);
  const double t = std::tanh(scale * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) +
         0.5 * x * (1 - t * t) * scale * (1 + 3 * 0.044715 * x * x);
}

/// What is wrong with the end of a product; empty if nothing is.
std::string checkEnd(const exec::MatmulT &matmul, ElementType factor,
                     ElementType result) {
  EndRun end(matmul, factor, result);
  const std::vector<std::vector<double>> before = end.values;
  if (std::string failed = end.run(); !failed.empty())
    return failed;
  const MatmulOperandOrder &order = end.order;
  const double unit = result == ElementType::bf16  ? 0x1p-8
                      : result == ElementType::f16 ? 0x1p-11
                                                   : 0x1p-21;
  std::string problems;
  auto expect = [&](const char *what, int64_t at, double found, double value) {
    if (!(std::abs(found - value) <= unit * (std::abs(value) + 1)))
      problems +=
          fmt::format("{} {}: expected {}, found {}\n", what, at, value, found);
  };
  const int64_t m = matmul.m, n = matmul.n, k = matmul.k;
  auto getA = [&](int64_t i, int64_t l) {
    return before[0][size_t(i * matmul.a_strides[0] + l * matmul.a_strides[1])];
  };
  std::vector<double> sums(size_t(std::max(m, n)));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double x = order.bias >= 0 ? before[size_t(order.bias)][size_t(j)] : 0;
      if (order.addend >= 0)
        x += before[size_t(order.addend)][size_t(i * n + j)];
      for (int64_t l = 0; l < k; ++l)
        x += getA(i, l) * before[1][size_t(l * n + j)];
      const int64_t bit = i * getMaskRowWords(n) * 32 + j;
      auto readBit = [&](const std::vector<double> &words) {
        return uint32_t(int32_t(words[size_t(bit / 32)])) >> bit % 32 & 1;
      };
      double c = x;
      if (matmul.activation == Activation::relu && matmul.is_gradient)
        c = readBit(before[size_t(order.aux)]) ? x : 0;
      else if (matmul.activation == Activation::gelu_tanh && matmul.is_gradient)
        c = x * getSlope(before[size_t(order.aux)][size_t(i * n + j)]);
      else
        c = activate(matmul.activation, x);
      expect("c", i * n + j, end.values[size_t(order.c)][size_t(i * n + j)], c);
      if (matmul.column_sum == exec::ColumnSum::c)
        sums[size_t(j)] += c;
      if (!matmul.has_aux || matmul.is_gradient)
        continue;
      const std::vector<double> &aux = end.values[size_t(order.aux)];
      if (matmul.activation == Activation::relu)
        expect("bit", i * n + j, readBit(aux), x >= 0);
      else
        expect("aux", i * n + j, aux[size_t(i * n + j)], x);
    }
  if (matmul.column_sum == exec::ColumnSum::a)
    for (int64_t i = 0; i < m * k; ++i)
      sums[size_t(i / k)] += getA(i / k, i % k);
  if (matmul.column_sum == exec::ColumnSum::b)
    for (int64_t i = 0; i < k * n; ++i)
      sums[size_t(i % n)] += before[1][size_t(i)];
  for (int64_t i = 0; order.sums >= 0 && i < end.getCount(size_t(order.sums));
       ++i)
    expect("sum", i, end.values[size_t(order.sums)][size_t(i)],
           sums[size_t(i)]);
  return problems;
}

std::string checkEnd(const exec::MatmulT &matmul, ElementType element) {
  return checkEnd(matmul, element, element);
}

exec::MatmulT makeEnd(int64_t rows, int64_t width) {
  exec::MatmulT matmul;
  matmul.m = rows;
  matmul.n = width;
  matmul.k = 7;
  matmul.a_strides = {7, 1};
  matmul.b_strides = {width, 1};
  matmul.c_strides = {width, 1};
  return matmul;
}

TEST(MatmulCallsTest, activations_leave_behind_what_their_gradients_read) {
  for (ElementType element :
       {ElementType::f32, ElementType::bf16, ElementType::f16})
    for (Activation activation : {Activation::relu, Activation::gelu_tanh})
      for (int64_t width : {8, 136})
        for (int form = 0; form < 4; ++form) {
          exec::MatmulT matmul = makeEnd(5, width);
          matmul.activation = activation;
          matmul.has_aux = true;
          matmul.has_bias = form == 1;
          matmul.is_gradient = form >= 2;
          if (form == 3)
            matmul.column_sum = exec::ColumnSum::c;
          EXPECT_EQ(runEmulated({}, [&] { return checkEnd(matmul, element); }),
                    "")
              << getName(element) << ", "
              << exec::EnumNameActivation(activation) << ", width " << width
              << ", form " << form;
        }
}

TEST(MatmulCallsTest, a_matrix_is_added_from_where_it_is) {
  for (bool hasBias : {false, true}) {
    exec::MatmulT matmul = makeEnd(3, 5);
    matmul.has_addend = true;
    matmul.has_bias = hasBias;
    for (ElementType element : {ElementType::f32, ElementType::bf16})
      EXPECT_EQ(runEmulated({}, [&] { return checkEnd(matmul, element); }), "")
          << getName(element) << ", bias " << hasBias;
  }
}

TEST(MatmulCallsTest, columns_of_factors_are_summed) {
  for (exec::ColumnSum of : {exec::ColumnSum::a, exec::ColumnSum::b}) {
    exec::MatmulT matmul = makeEnd(3, 5);
    matmul.a_strides = {1, 3};
    matmul.column_sum = of;
    for (ElementType factor :
         {ElementType::f32, ElementType::bf16, ElementType::f16})
      EXPECT_EQ(
          runEmulated(
              {}, [&] { return checkEnd(matmul, factor, ElementType::f32); }),
          "")
          << exec::EnumNameColumnSum(of) << ", " << getName(factor);
  }
}

TEST(MatmulCallsTest, rows_of_gelu_that_the_library_does_not_take) {
  exec::MatmulT matmul = makeEnd(3, 5);
  matmul.activation = Activation::gelu_tanh;
  matmul.has_aux = true;
  EXPECT_EQ(runEmulated({}, [&] { return checkEnd(matmul, ElementType::f32); }),
            "cuBLASLt cannot compute this product: its gelu leaves rows of 5 "
            "elements behind, which must be a multiple of 8");
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

/// A product of 7 terms by an algorithm of those that are left.
std::string runSplit(const emulation::Variables &variables, size_t algorithm,
                     ElementType element = ElementType::f32) {
  const Case test{element, element, Activation::none, false, false, algorithm};
  return runEmulated(variables, [&] { return runCase(test); });
}

TEST(MatmulCallsTest, algorithms_that_lose_terms_are_left_out) {
  const std::string none = "there is no such algorithm";
  // What would happen; earlier releases are not known to have the fault.
  EXPECT_THAT(runSplit({{"SPLIT_SUMS", "3:1"}, {"CUBLASLT", "120602"}}, 0),
              HasSubstr("element 0: expected "));
  for (const char *version : {"120603", "120803", "130100"}) {
    const emulation::Variables variables = {{"SPLIT_SUMS", "3:1"},
                                            {"CUBLASLT", version}};
    EXPECT_EQ(runSplit(variables, 0), "") << version;
    EXPECT_EQ(runSplit(variables, 1), "") << version;
    EXPECT_EQ(runSplit(variables, 2), none) << version;
  }
  // Parts of one length lose nothing.
  EXPECT_EQ(runSplit({{"SPLIT_SUMS", "7:1"}}, 0), "");
  EXPECT_EQ(runSplit({{"SPLIT_SUMS", "7:1"}}, 2), "");
}

TEST(MatmulCallsTest, sums_stay_whole_where_every_algorithm_loses_terms) {
  for (ElementType element : {ElementType::f32, ElementType::bf16})
    for (size_t algorithm = 0; algorithm < 3; ++algorithm)
      EXPECT_EQ(runSplit({{"SPLIT_SUMS", "3:3"}}, algorithm, element), "")
          << getName(element) << ", " << algorithm;
  EXPECT_EQ(runSplit({{"SPLIT_SUMS", "3:3"},
                      {"FAIL", "cublasLtMatmulAlgoGetHeuristic:2:15"}},
                     0),
            "cuBLASLt has no algorithm that adds up all terms for 3 products "
            "of f32 with 5 rows, 6 columns and 7 terms");
  EXPECT_THAT(
      runSplit({{"FAIL", "cublasLtMatmulAlgoConfigGetAttribute:1:7"}}, 0),
      HasSubstr("cublasLtMatmulAlgoConfigGetAttribute failed: "));
}

/// A batch of 3 with a bias, and with relu: 4 and 6 are their ends.
std::string runBatch(const emulation::Variables &variables,
                     Activation activation = Activation::none) {
  const Case test{ElementType::f32, ElementType::f32, activation, true, false};
  return runEmulated(variables, [&] { return runCase(test); });
}

/// How many products the emulated library was asked for, by their batch.
std::map<std::string, int> countBatches(const std::string &log) {
  std::map<std::string, int> counts;
  std::ifstream lines(log);
  const std::string key = "\"batch\": ";
  for (std::string line; std::getline(lines, line);)
    if (line.find("\"call\": \"cublasLtMatmul\"") != line.npos)
      ++counts[line.substr(line.find(key) + key.size(), 1)];
  return counts;
}

TEST(MatmulCallsTest, batches_that_the_library_does_not_have_are_single_calls) {
  for (Activation activation : {Activation::none, Activation::relu})
    for (const char *status : {"7", "8", "15"}) {
      TemporaryFolder folder;
      const std::string log = folder / "log";
      EXPECT_EQ(runBatch({{"MISSING_BATCHES", "4,6"},
                          {"MISSING_STATUS", status},
                          {"LOG", log}},
                         activation),
                "")
          << status;
      EXPECT_EQ(countBatches(log), (std::map<std::string, int>{{"1", 3}}));
    }
  TemporaryFolder folder;
  const std::string log = folder / "log";
  EXPECT_EQ(runBatch({{"LOG", log}}), "");
  EXPECT_EQ(countBatches(log), (std::map<std::string, int>{{"3", 1}}));
}

TEST(MatmulCallsTest, every_word_for_having_no_algorithm) {
  const std::string batch =
      "cuBLASLt has no algorithm for 3 products of f32 with 5 rows, 6 columns "
      "and 7 terms";
  EXPECT_EQ(runBatch({{"MISSING_EPILOGUES", "4"}}), batch + ", with a bias");
  EXPECT_EQ(runBatch({{"MISSING_EPILOGUES", "4"}, {"MISSING_STATUS", "7"}}),
            batch + ", with a bias: CUBLAS_STATUS_INVALID_VALUE (status 7)");
  EXPECT_EQ(runBatch({{"MISSING_EPILOGUES", "4"}, {"MISSING_STATUS", "8"}}),
            batch + ", with a bias: CUBLAS_STATUS_ARCH_MISMATCH (status 8)");
  EXPECT_EQ(runBatch({{"MISSING_EPILOGUES", "4"}, {"MISSING_STATUS", "14"}}),
            "cublasLtMatmulAlgoGetHeuristic failed: "
            "CUBLAS_STATUS_INTERNAL_ERROR (status 14)");
  // Of a product alone that is no answer, and calls one by one are no help.
  EXPECT_EQ(runSplit({{"MISSING_EPILOGUES", "1"}, {"MISSING_STATUS", "7"}}, 0),
            "cublasLtMatmulAlgoGetHeuristic failed: "
            "CUBLAS_STATUS_INVALID_VALUE (status 7)");
  EXPECT_EQ(runSplit({{"MISSING_BATCHES", "1"}}, 0), batch);
}

} // namespace
