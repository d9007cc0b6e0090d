#include "passes/ContractionOrder.h"

#include "../dialect/Programs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <set>

using namespace meshc;

namespace {

using Dims = std::set<char>;

/// Random contractions over dimensions called by letters.
class ContractionOrderTest : public ::testing::Test {
protected:
  std::unique_ptr<mlir::MLIRContext> context = meshc::test::makeContext();
  std::mt19937 random{7};
  std::map<char, int64_t> sizes;
  std::vector<Dims> inputs;
  Dims result;
  const layout::Machine *machine = &layout::getCpuMachine();

  nd::NamedTensorType getType(const Dims &dims) {
    llvm::SmallVector<nd::DimAttr> attrs;
    for (char dim : dims)
      attrs.push_back(nd::DimAttr::get(
          mlir::StringAttr::get(context.get(), std::string(1, dim)),
          sizes.at(dim)));
    return nd::NamedTensorType::get(attrs,
                                    mlir::Float32Type::get(context.get()));
  }

  static Dims getDims(nd::NamedTensorType type) {
    Dims dims;
    for (nd::DimAttr dim : type.getDims())
      dims.insert(dim.getName().getValue()[0]);
    return dims;
  }

  double count(const Dims &dims) {
    double elements = 1;
    for (char dim : dims)
      elements *= double(sizes.at(dim));
    return elements;
  }

  /// Two operations per point; 4 bytes per element.
  double getCost(const Dims &lhs, const Dims &rhs, const Dims &product) {
    Dims points = lhs;
    points.insert(rhs.begin(), rhs.end());
    return machine
        ->findMatmulPrice(layout::MatmulType::F32, 2 * count(points),
                          4 * (count(lhs) + count(rhs) + count(product)))
        ->us;
  }

  /// The dimensions of a product that `rest` or the result needs.
  Dims getProduct(const Dims &lhs, const Dims &rhs,
                  const std::vector<Dims> &rest) {
    Dims product;
    for (const Dims &side : {lhs, rhs})
      for (char dim : side)
        if (result.contains(dim) ||
            std::ranges::any_of(
                rest, [&](const Dims &other) { return other.contains(dim); }))
          product.insert(dim);
    return product;
  }

  /// The least cost over every sequence of contractions of two.
  double getLeastCost(const std::vector<Dims> &factors) {
    if (factors.size() == 1)
      return 0;
    double least = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < factors.size(); ++i)
      for (size_t j = i + 1; j < factors.size(); ++j) {
        std::vector<Dims> rest;
        for (size_t k = 0; k < factors.size(); ++k)
          if (k != i && k != j)
            rest.push_back(factors[k]);
        Dims product = getProduct(factors[i], factors[j], rest);
        double cost = getCost(factors[i], factors[j], product);
        rest.push_back(product);
        least = std::min(least, cost + getLeastCost(rest));
      }
    return least;
  }

  void makeContraction(size_t numInputs) {
    sizes.clear();
    inputs.assign(numInputs, {});
    result.clear();
    for (char dim = 'a'; dim <= 'g'; ++dim) {
      sizes[dim] = 1 << (random() % 8);
      for (Dims &input : inputs)
        if (random() % 3 == 0)
          input.insert(dim);
      bool occurs = std::ranges::any_of(
          inputs, [&](const Dims &input) { return input.contains(dim); });
      if (occurs && random() % 3 == 0)
        result.insert(dim);
    }
  }

  /// Checks that the steps are a tree over the inputs and that each keeps what
  /// is needed; returns their cost.
  double checkSteps() {
    llvm::SmallVector<nd::NamedTensorType> types;
    for (const Dims &input : inputs)
      types.push_back(getType(input));
    auto steps = orderContractions(types, getType(result), *machine);
    EXPECT_EQ(steps.size(), inputs.size() - 1);
    std::map<unsigned, Dims> alive;
    for (const Dims &input : inputs)
      alive.emplace(alive.size(), input);
    double cost = 0;
    unsigned next = unsigned(inputs.size());
    for (const Contraction &step : steps) {
      Dims lhs = alive.at(step.lhs), rhs = alive.at(step.rhs);
      EXPECT_NE(step.lhs, step.rhs);
      alive.erase(step.lhs);
      alive.erase(step.rhs);
      std::vector<Dims> rest;
      for (const auto &[number, dims] : alive)
        rest.push_back(dims);
      Dims product = getProduct(lhs, rhs, rest);
      EXPECT_EQ(getDims(step.result), product);
      cost += getCost(lhs, rhs, product);
      alive[next++] = product;
    }
    EXPECT_EQ(steps.back().result, getType(result));
    return cost;
  }
};

TEST_F(ContractionOrderTest, IsTheCheapestOfAll) {
  for (int round = 0; round < 60; ++round) {
    machine = layout::findMachine(round / 4 % 2 ? "h100" : "cpu");
    makeContraction(2 + round % 4);
    double least = getLeastCost(inputs);
    EXPECT_NEAR(checkSteps(), least, 1e-9 * least) << "round " << round;
  }
}

TEST_F(ContractionOrderTest, ManyInputsAreTakenInGroups) {
  for (size_t numInputs : {8, 9, 15, 16, 40}) {
    makeContraction(numInputs);
    checkSteps();
  }
}

} // namespace
