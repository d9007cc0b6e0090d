// Kernels of random numbers, whose definition is that of nd.random
// (dialect/NDOps.td): the words come from the Random123 library.

#include "dialect/interpreter/SpecialFunctions.h"
#include "tests/codegen/KernelRunner.h"
#include "tests/codegen/NamedPrograms.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace meshc;
using namespace meshc::test;

namespace {

constexpr int64_t key = -7700000000000000013, seed = 1234567890123456789;

F64State getSeed() {
  F64State state;
  state.inputs["seed"] = ints({}, {seed});
  return state;
}

/// One device's block of the output "y".
std::vector<double> run(KernelRunner &runner,
                        std::vector<int64_t> coordinates = {0}) {
  F64State state = getSeed();
  runner.run(state, std::move(coordinates));
  std::vector<double> numbers;
  for (const auto &element : state.outputs.at("y").elements)
    numbers.push_back(std::get<double>(element));
  return numbers;
}

std::string getVector(int64_t size, const std::string &type) {
  return "[\"a\"=" + std::to_string(size) + "], " + type + ", <>";
}

std::pair<double, double> getUnits(int64_t index) {
  return interpreter::getUniformNumbers(uint64_t(key), uint64_t(seed),
                                        uint64_t(index));
}

/// uniform(-1.25, 2.375) at a global index, as `Float` computes it: a product
/// that is added is rounded once.
template <class Float> double getUniform(int64_t index) {
  return double(
      std::fma(Float(3.625), Float(getUnits(index).first), Float(-1.25)));
}

double getUniform(const std::string &type, int64_t index) {
  return type == "f64" ? getUniform<double>(index) : getUniform<float>(index);
}

const std::string uniform = "uniform(-1.25, 2.375)";
const std::string normal = "normal(0.375, 2.5)";
const int64_t sizes[] = {1, 2, 5, 7, 1023, 2050, 4099};

/// Bit for bit, on the processor and as GPU kernels.
TEST(RandomNumbers, UniformOnesAreThoseOfTheDefinition) {
  for (const std::string type : {"f32", "f64"})
    for (int64_t size : sizes) {
      SCOPED_TRACE(type + " of " + std::to_string(size));
      const std::string text =
          getRandomProgram(uniform, key, getVector(size, type));
      for (const bool isGpu : {false, true}) {
        auto runner =
            isGpu ? KernelRunner::createGpu(text) : KernelRunner::create(text);
        ASSERT_TRUE(runner);
        std::vector<double> numbers = run(*runner);
        ASSERT_EQ(numbers.size(), size_t(size));
        for (int64_t i = 0; i < size; ++i)
          ASSERT_EQ(numbers[size_t(i)], getUniform(type, i))
              << "at " << i << (isGpu ? " on a GPU" : "");
      }
    }
}

/// 2.5 r cos(a) + 0.375 with r = sqrt(-2 log u0), a = 2 pi u1, from u0, u1 and
/// 2 pi as the type holds them. With h half of the distance from 1 to the next
/// number, relative to r: log to 1 ulp is 2h of its result, so h of r; the
/// square root h more; the product with the cosine h. The angle, below 8, is
/// rounded by at most 4h, and the cosine to 2.5e-7 < 4.2h in f32, to 1.5 ulp <=
/// 3h in f64 (MathTest.cpp, WideMathTest.cpp): together 8.2h r. These 11.2h r
/// are multiplied by 2.5, and the result is rounded once, by h of itself.
template <class Float> void expectNormal() {
  const std::string type = sizeof(Float) == 8 ? "f64" : "f32";
  const double h = double(std::numeric_limits<Float>::epsilon()) / 2;
  double sum = 0, squares = 0;
  int64_t count = 0;
  for (int64_t size : sizes) {
    const std::string text =
        getRandomProgram(normal, key, getVector(size, type));
    for (const bool isGpu : {false, true}) {
      auto runner =
          isGpu ? KernelRunner::createGpu(text) : KernelRunner::create(text);
      ASSERT_TRUE(runner);
      std::vector<double> numbers = run(*runner);
      ASSERT_EQ(numbers.size(), size_t(size));
      for (int64_t i = 0; i < size; ++i) {
        auto [u0, u1] = getUnits(i);
        const long double radius =
            std::sqrt(-2 * std::log(static_cast<long double>(Float(u0))));
        const long double angle =
            static_cast<long double>(Float(2 * M_PI)) * Float(u1);
        const double exact = double(2.5L * radius * std::cos(angle) + 0.375L);
        ASSERT_NEAR(numbers[size_t(i)], exact,
                    h * (2.5 * 11.2 * double(radius) + std::abs(exact)))
            << type << " at " << i << " of " << size
            << (isGpu ? " on a GPU" : "");
        sum += numbers[size_t(i)];
        squares += numbers[size_t(i)] * numbers[size_t(i)];
        ++count;
      }
    }
  }
  // Of about 7000 independent numbers: four standard deviations.
  const double mean = sum / double(count);
  const double independent = double(sizes[std::size(sizes) - 1]);
  EXPECT_NEAR(mean, 0.375, 4 * 2.5 / std::sqrt(independent));
  EXPECT_NEAR(std::sqrt(squares / double(count) - mean * mean), 2.5,
              4 * 2.5 / std::sqrt(2 * independent));
}

TEST(RandomNumbers, NormalOnesAreCloseToTheDefinition) {
  expectNormal<float>();
  expectNormal<double>();
}

TEST(RandomNumbers, NarrowOnesAreThoseOfF32Rounded) {
  auto context = makeContext();
  const std::pair<std::string, mlir::Type> types[] = {
      {"bf16", mlir::BFloat16Type::get(context.get())},
      {"f16", mlir::Float16Type::get(context.get())}};
  for (const std::string &distribution : {uniform, normal})
    for (int64_t size : {1, 7, 1023, 2050}) {
      auto wide = KernelRunner::createGpu(
          getRandomProgram(distribution, key, getVector(size, "f32")));
      ASSERT_TRUE(wide);
      const std::vector<double> exact = run(*wide);
      for (const auto &[name, type] : types) {
        SCOPED_TRACE(distribution + " " + name + " of " + std::to_string(size));
        auto narrow = KernelRunner::createGpu(
            getRandomProgram(distribution, key, getVector(size, name)));
        ASSERT_TRUE(narrow);
        const std::vector<double> numbers = run(*narrow);
        for (size_t i = 0; i < exact.size(); ++i)
          ASSERT_EQ(numbers[i],
                    std::get<double>(interpreter::roundTo<interpreter::F64>(
                        exact[i], interpreter::getElementKind(type))))
              << "at " << i;
      }
    }
}

/// On whichever device an element lies its number is the same: blocks of equal
/// and unequal size, over one axis and over two.
TEST(RandomNumbers, DoNotDependOnTheLayout) {
  constexpr int64_t a = 7, b = 5, axes[] = {2, 3};
  struct Split {
    const char *sharding;
    std::vector<int> ofA, ofB; ///< axes, major to minor
  };
  for (const Split &split :
       {Split{"<>", {}, {}}, Split{R"(<"a"@x>)", {0}, {}},
        Split{R"(<"b"@y>)", {}, {1}}, Split{R"(<"a"@y, "b"@x>)", {1}, {0}},
        Split{R"(<"a"@x@y>)", {0, 1}, {}}, Split{R"(<"b"@y@x>)", {}, {1, 0}}}) {
    SCOPED_TRACE(split.sharding);
    auto runner = KernelRunner::createGpu(getRandomProgram(
        uniform, key, std::string(R"(["a"=7, "b"=5], f32, )") + split.sharding,
        R"("x"=2, "y"=3)"));
    ASSERT_TRUE(runner);
    for (int64_t x = 0; x < axes[0]; ++x)
      for (int64_t y = 0; y < axes[1]; ++y) {
        const int64_t coordinates[] = {x, y};
        struct Range {
          int64_t begin, end, block;
        };
        auto getRange = [&](int64_t size, const std::vector<int> &over) {
          Range range{0, size, size};
          for (int axis : over) {
            range.block = (range.block + axes[axis] - 1) / axes[axis];
            range.begin += coordinates[axis] * range.block;
            range.end = std::min(range.end, range.begin + range.block);
          }
          return range;
        };
        const Range rows = getRange(a, split.ofA),
                    columns = getRange(b, split.ofB);
        const std::vector<double> block = run(*runner, {x, y});
        ASSERT_EQ(block.size(), size_t(rows.block * columns.block));
        for (int64_t i = rows.begin; i < rows.end; ++i)
          for (int64_t j = columns.begin; j < columns.end; ++j)
            EXPECT_EQ(block[size_t((i - rows.begin) * columns.block + j -
                                   columns.begin)],
                      getUniform("f32", i * b + j))
                << "element " << i << ", " << j << " on " << x << ", " << y;
      }
  }
}

/// The block of one device among 2^20, whose elements have global indices
/// beyond 32 bits.
TEST(RandomNumbers, CountBeyond32Bits) {
  constexpr int64_t devices = 1 << 20, block = 5003, columns = 3;
  const std::string type = "[\"a\"=" + std::to_string(devices * block) +
                           ", \"b\"=" + std::to_string(columns) +
                           "], f32, <\"a\"@x>";
  auto runner = KernelRunner::createGpu(
      getRandomProgram(uniform, key, type, "\"x\"=" + std::to_string(devices)));
  ASSERT_TRUE(runner);
  for (int64_t device : {int64_t(0), devices / 2 - 3, devices - 1}) {
    const std::vector<double> numbers = run(*runner, {device});
    ASSERT_EQ(numbers.size(), size_t(block * columns));
    for (int64_t i = 0; i < block * columns; ++i)
      ASSERT_EQ(numbers[size_t(i)],
                getUniform("f32", device * block * columns + i))
          << "at " << i << " on " << device;
  }
}

/// All orders of threads, and GPUs: against the interpreter, whose numbers are
/// f64. In f32 u0 is rounded by 2^-25; near 1 that moves r by sqrt(2 * 2^-25),
/// 1e-4 of the largest numbers.
TEST(RandomNumbers, AgreeWithTheInterpreter) {
  for (const std::string type : {"f32", "f64"})
    for (int64_t size : sizes) {
      expectAgreement(getRandomProgram(uniform, key, getVector(size, type)),
                      getSeed(), type == "f64" ? 1e-15 : 0x1p-22);
      expectAgreement(getRandomProgram(normal, key, getVector(size, type)),
                      getSeed(), type == "f64" ? 1e-14 : 2e-4);
    }
}

} // namespace
