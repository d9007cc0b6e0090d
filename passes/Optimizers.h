#ifndef MESHC_PASSES_OPTIMIZERS_H
#define MESHC_PASSES_OPTIMIZERS_H

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

/// The optimizers and their hyper-parameters, without MLIR: the spec language
/// checks names and fills in defaults from this table, `OptimizerBuilder`
/// builds the updates.
///
/// With the gradient g of the minimized output and t counting steps from 1:
///
/// - sgd:      w <- w - lr g
/// - momentum: v <- beta v + g;  w <- w - lr v
///             Source: Polyak 1964 in the form of Sutskever et al. 2013,
///             (1)-(2), with the learning rate outside of v.
/// - adam:     m <- beta1 m + (1 - beta1) g
///             v <- beta2 v + (1 - beta2) g^2
///             w <- w - lr a / (sqrt(b) + epsilon)
///             with a = m / (1 - beta1^t) and b = v / (1 - beta2^t)
///             Source: Kingma, Ba 2015, algorithm 1, and its defaults.
namespace meshc {

enum class OptimizerKind : uint8_t { Sgd, Momentum, Adam };

/// A hyper-parameter lies in [low, high), `high` infinite at most.
struct HyperParameter {
  std::string_view name;
  std::optional<double> fallback; ///< without one the spec must give a value
  double low, high;

  bool accepts(double value) const { return low <= value && value < high; }
};

struct Optimizer {
  std::string_view name;
  OptimizerKind kind;
  std::span<const HyperParameter> hyper;

  /// Null if the optimizer has no such hyper-parameter.
  const HyperParameter *findHyper(std::string_view name) const;
};

/// In the order in which documentation lists them.
std::span<const Optimizer> getOptimizers();
/// Null if there is none of this name.
const Optimizer *findOptimizer(std::string_view name);

} // namespace meshc

#endif
