/// Products of every type and end on the emulated cuBLASLt, against sums in
/// f64.

#include "runtime/cuda/MatmulCalls.h"
#include "runtime/cuda/library/Gpu.h"
#include "runtime/exec/Executable.h"
#include "tests/cuda/CudaTesting.h"
#include "tests/cuda/ProductCases.h"
#include "tests/runtime/LinearModel.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
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
  case ElementType::u8:
  case ElementType::i8:
  case ElementType::i16:
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

/// What `run` says of the products of an emulated GPU, or what is in its way.
std::string
runProducts(const emulation::Variables &variables,
            const std::function<std::string(ProductRunner &)> &run) {
  return runEmulated(variables, [&]() -> std::string {
    Result<const Driver *> driver = Driver::get();
    if (!driver)
      return driver.getError().message;
    Result<std::unique_ptr<ProductRunner>> runner =
        ProductRunner::create(**driver);
    return runner ? run(**runner) : runner.getError().message;
  });
}

/// What `check` says of every product of listProductCases(), one line each.
std::string checkProducts(const emulation::Variables &variables,
                          std::string (*check)(const ProductOutcome &outcome)) {
  return runProducts(variables, [&](ProductRunner &runner) {
    std::string text;
    for (const ProductCase &test : listProductCases())
      if (std::string found = check(runner.run(test)); !found.empty())
        text += test.name + ": " + found + "\n";
    return text;
  });
}

TEST(MatmulCallsTest, every_end_by_every_algorithm) {
  EXPECT_EQ(checkProducts({},
                          [](const ProductOutcome &outcome) {
                            if (!outcome.refusal.empty())
                              return outcome.refusal;
                            return outcome.algorithms == 3
                                       ? outcome.problems
                                       : "there are not three algorithms";
                          }),
            "");
}

/// One product that the library does not take keeps no other from being tried.
TEST(MatmulCallsTest, products_that_are_refused_are_told_one_by_one) {
  const std::string found = checkProducts(
      {{"MISSING_EPILOGUES", "134,192"}}, [](const ProductOutcome &outcome) {
        return outcome.problems + outcome.refusal;
      });
  std::string expected;
  for (const ProductCase &test : listProductCases()) {
    const exec::MatmulT &matmul = test.matmul;
    const bool isRelu = test.name.starts_with("relu_aux_bias_");
    if (!isRelu && !test.name.starts_with("dgelu_f") &&
        !test.name.starts_with("dgelu_b"))
      continue;
    expected += fmt::format(
        "{}: cuBLASLt has no algorithm for a product of {} with {} rows, {} "
        "columns and {} terms, with {}\n",
        test.name, getName(test.factor), matmul.m, matmul.n, matmul.k,
        isRelu ? "a bias, relu, what the gradient needs of it"
               : "the gradient of gelu_tanh");
  }
  EXPECT_EQ(found, expected);
}

TEST(MatmulCallsTest, rows_of_gelu_that_the_library_does_not_take) {
  EXPECT_EQ(runEmulated(
                {},
                []() -> std::string {
                  ProductCase test;
                  test.matmul.m = test.matmul.k = 3;
                  test.matmul.n = 5;
                  test.matmul.a_strides = {3, 1};
                  test.matmul.b_strides = {5, 1};
                  test.matmul.c_strides = {5, 1};
                  test.matmul.activation = Activation::gelu_tanh;
                  test.matmul.has_aux = true;
                  Result<const Driver *> driver = Driver::get();
                  if (!driver)
                    return driver.getError().message;
                  return (*ProductRunner::create(**driver))->run(test).problems;
                }),
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

/// The first product of this name and its outcome, and how often the emulated
/// library was asked for products, by their batch.
std::pair<std::string, std::map<std::string, int>>
runProduct(const std::string &name, emulation::Variables variables) {
  TemporaryFolder folder;
  const std::string log = folder / "log";
  variables.emplace_back("LOG", log);
  const std::string found =
      runProducts(variables, [&](ProductRunner &runner) -> std::string {
        for (const ProductCase &test : listProductCases())
          if (test.name == name) {
            const ProductOutcome outcome = runner.run(test);
            return outcome.refusal + outcome.problems;
          }
        return "there is no such product";
      });
  return {found, countBatches(log)};
}

/// Two batches of three heads: six products in a call for each algorithm,
/// unless they have an end, or the library is too old.
TEST(MatmulCallsTest, batches_that_no_step_describes_are_one_call) {
  auto expect = [](const char *batch, int calls) {
    return std::pair<std::string, std::map<std::string, int>>("",
                                                              {{batch, calls}});
  };
  const std::string size = "_f32_33x136x10";
  for (const char *name :
       {"none_batches", "accumulate_batches", "addend_batches"})
    EXPECT_EQ(runProduct(name + size, {}), expect("6", 3)) << name;
  EXPECT_EQ(runProduct("bias_batches" + size, {}), expect("3", 6));
  EXPECT_EQ(runProduct("none_batches" + size, {{"CUBLASLT", "120803"}}),
            expect("3", 6));
  for (const char *status : {"7", "8", "15"})
    EXPECT_EQ(runProduct("none_batches" + size,
                         {{"FAIL", "cublasLtMatmulAlgoGetHeuristic:1:" +
                                       std::string(status)}}),
              expect("3", 6))
        << status;
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
