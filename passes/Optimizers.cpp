#include "passes/Optimizers.h"

#include <algorithm>
#include <limits>

using namespace meshc;

static constexpr double infinity = std::numeric_limits<double>::infinity();

static constexpr HyperParameter learningRate{"lr", std::nullopt, 0, infinity};

static constexpr HyperParameter sgd[] = {learningRate};

static constexpr HyperParameter momentum[] = {learningRate,
                                              {"beta", 0.9, 0, 1}};

// The smallest normal f32: below it epsilon would be 0 in the program, and
// parameters whose gradient is 0 would become NaN.
static constexpr HyperParameter adam[] = {
    {"lr", 0.001, 0, infinity},
    {"beta1", 0.9, 0, 1},
    {"beta2", 0.999, 0, 1},
    {"epsilon", 1e-8, std::numeric_limits<float>::min(), infinity}};

static constexpr Optimizer optimizers[] = {
    {"sgd", OptimizerKind::Sgd, sgd},
    {"momentum", OptimizerKind::Momentum, momentum},
    {"adam", OptimizerKind::Adam, adam}};

const HyperParameter *Optimizer::findHyper(std::string_view name) const {
  auto found = std::ranges::find(hyper, name, &HyperParameter::name);
  return found == hyper.end() ? nullptr : &*found;
}

std::span<const Optimizer> meshc::getOptimizers() { return optimizers; }

const Optimizer *meshc::findOptimizer(std::string_view name) {
  auto found = std::ranges::find(optimizers, name, &Optimizer::name);
  return found == std::end(optimizers) ? nullptr : found;
}
