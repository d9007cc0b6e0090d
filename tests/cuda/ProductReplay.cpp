#include "tests/cuda/ProductReplay.h"

#include "tests/cuda/ProductCases.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

using namespace meshc;
using namespace meshc::runtime;
using namespace meshc::runtime::cuda;
using namespace meshc::runtime::test;

namespace {

/// What all products run with, from the first of them to the end of all tests.
class Products : public ::testing::Environment {
public:
  Result<ProductRunner *> get() {
    if (runner)
      return runner.get();
    Result<const Driver *> driver = Driver::get();
    if (!driver)
      return driver.getError();
    Result<std::unique_ptr<ProductRunner>> made =
        ProductRunner::create(**driver);
    if (!made)
      return made.getError();
    runner = std::move(*made);
    return runner.get();
  }
  void TearDown() override { runner.reset(); }

private:
  std::unique_ptr<ProductRunner> runner;
};

class ProductTest : public ::testing::Test {
public:
  ProductTest(Products &products, ProductCase test)
      : products(products), test(std::move(test)) {}

  void TestBody() override {
    Result<ProductRunner *> runner = products.get();
    ASSERT_TRUE(runner) << runner.getError().message;
    const ProductOutcome outcome = (*runner)->run(test);
    EXPECT_EQ(outcome.problems, "");
    if (!outcome.refusal.empty())
      GTEST_SKIP() << "refused: " << outcome.refusal;
  }

private:
  Products &products;
  ProductCase test;
};

class ReluTest : public ::testing::Test {
public:
  explicit ReluTest(Products &products) : products(products) {}

  void TestBody() override {
    Result<ProductRunner *> runner = products.get();
    ASSERT_TRUE(runner) << runner.getError().message;
    ReluRules rules;
    for (const ProductCase &test : listProductCases())
      if (test.matmul.activation == exec::Activation::relu &&
          !test.matmul.is_gradient && test.data == ProductData::special)
        rules.add((*runner)->run(test).rules);
    fmt::print("cuBLASLt's relu {}\n", rules.str());
    // Whether it makes 0 of NaN is up to the algorithm.
    EXPECT_EQ(rules.bitOfZero, std::set<bool>{true});
    EXPECT_EQ(rules.bitOfNan, std::set<bool>{true});
  }

private:
  Products &products;
};

} // namespace

void runtime::test::registerProducts() {
  // GoogleTest owns it.
  auto *products = new Products;
  ::testing::AddGlobalTestEnvironment(products);
  for (const ProductCase &test : listProductCases())
    ::testing::RegisterTest("Products", test.name.c_str(), nullptr, nullptr,
                            __FILE__, __LINE__,
                            [products, test]() -> ::testing::Test * {
                              return new ProductTest(*products, test);
                            });
  ::testing::RegisterTest(
      "Products", "relu_of_zero_and_nan", nullptr, nullptr, __FILE__, __LINE__,
      [products]() -> ::testing::Test * { return new ReluTest(*products); });
}
