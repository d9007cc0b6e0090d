#ifndef MESHC_TESTS_FUZZ_TAPE_H
#define MESHC_TESTS_FUZZ_TAPE_H

#include "tests/fuzz/Precision.h"

#include <cmath>
#include <cstddef>
#include <vector>

namespace meshc::fuzz {

/// A number and where it was computed; node -1: it depends on nothing that is
/// differentiated by.
struct Scalar {
  double value = 0;
  int node = -1;
};

/// Every operation on numbers that depend on a leaf, with its slopes: gradients
/// by the chain rule, number by number.
class Tape {
public:
  /// Every result is rounded: how far that takes a result is the condition of
  /// the program.
  explicit Tape(Precision precision) : precision(precision) {}

  Precision getPrecision() const { return precision; }
  double round(double value) const { return fuzz::round(value, precision); }
  Scalar makeLeaf(double value) { return push(value, -1, 0, -1, 0); }
  Scalar unary(double value, Scalar x, double slope) {
    return x.node < 0 ? Scalar{round(value), -1}
                      : push(value, x.node, slope, -1, 0);
  }
  Scalar binary(double value, Scalar x, double xSlope, Scalar y,
                double ySlope) {
    if (x.node < 0 && y.node < 0)
      return {round(value), -1};
    return push(value, x.node, xSlope, y.node, ySlope);
  }

  Scalar add(Scalar x, Scalar y) {
    return binary(x.value + y.value, x, 1, y, 1);
  }
  /// A term of a sum, which adds up in f32 at least; `settle` rounds the whole.
  Scalar accumulate(Scalar x, Scalar y) {
    Scalar total = binary(x.value + y.value, x, 1, y, 1);
    total.value = roundSum(x.value + y.value, precision);
    return total;
  }
  Scalar settle(Scalar sum) {
    return hasWiderSums(precision) ? unary(sum.value, sum, 1) : sum;
  }
  Scalar sub(Scalar x, Scalar y) {
    return binary(x.value - y.value, x, 1, y, -1);
  }
  Scalar mul(Scalar x, Scalar y) {
    return binary(x.value * y.value, x, y.value, y, x.value);
  }
  Scalar div(Scalar x, Scalar y) {
    return binary(x.value / y.value, x, 1 / y.value, y,
                  -x.value / (y.value * y.value));
  }
  /// A mean is a sum times a factor, which is rounded too: the mean of equal
  /// numbers is then another number, and what is left of them behind it noise.
  Scalar mean(Scalar sum, int64_t count) {
    return mul(sum, {round(1 / double(count)), -1});
  }
  Scalar exp(Scalar x) {
    const double value = std::exp(x.value);
    return unary(value, x, value);
  }
  Scalar log(Scalar x) { return unary(std::log(x.value), x, 1 / x.value); }

  /// Of `result` by every node.
  std::vector<double> differentiate(Scalar result) const {
    std::vector<double> slopes(nodes.size(), 0);
    if (result.node >= 0)
      slopes[size_t(result.node)] = 1;
    for (size_t i = nodes.size(); i-- > 0;) {
      const Node &node = nodes[i];
      if (slopes[i] == 0)
        continue;
      pass(slopes, node.first, slopes[i] * node.firstSlope);
      pass(slopes, node.second, slopes[i] * node.secondSlope);
    }
    return slopes;
  }
  size_t size() const { return nodes.size(); }

private:
  struct Node {
    int first, second;
    double firstSlope, secondSlope;
  };

  Scalar push(double value, int first, double firstSlope, int second,
              double secondSlope) {
    nodes.push_back({first, second, firstSlope, secondSlope});
    return {round(value), int(nodes.size()) - 1};
  }
  void pass(std::vector<double> &slopes, int node, double slope) const {
    if (node >= 0)
      slopes[size_t(node)] = roundSum(
          slopes[size_t(node)] + roundSlope(slope, precision), precision);
  }

  Precision precision;
  std::vector<Node> nodes;
};

} // namespace meshc::fuzz

#endif
