// Layers of the library, by their definition.

#include "tests/fuzz/Evaluator.h"

using namespace meshc::fuzz;

Scalar Evaluator::atLayer(const Expr &expr, Point &point) {
  const LayerArguments &layer = expr.layer;
  const Expr &x = expr.operands[0];
  if (expr.name == "dense")
    return tape.add(sum(layer.from, point,
                        [&] {
                          return tape.mul(
                              at(x, point),
                              readParameter(layer.scope + "/weight", point));
                        }),
                    readParameter(layer.scope + "/bias", point));
  if (expr.name == "layer_norm") {
    const int64_t count = countElements(tree, layer.over);
    if (count == 1)
      note("a number less itself is what rounding leaves of it");
    const Scalar mean =
        tape.mean(sum(layer.over, point, [&] { return at(x, point); }), count);
    const Scalar variance = tape.mean(sum(layer.over, point,
                                          [&] {
                                            const Scalar centred =
                                                tape.sub(at(x, point), mean);
                                            return tape.mul(centred, centred);
                                          }),
                                      count);
    const Scalar base = tape.add(variance, {double(float(1e-5)), -1});
    const double root = std::sqrt(base.value);
    const Scalar scale = tape.unary(1 / root, base, -0.5 / (base.value * root));
    const Scalar gain = readParameter(layer.scope + "/gain", point),
                 bias = readParameter(layer.scope + "/bias", point);
    return tape.add(
        tape.mul(tape.mul(tape.sub(at(x, point), mean), scale), gain), bias);
  }
  return expr.name == "conv" || expr.name == "grow" ? atConvolution(expr, point)
                                                    : atPool(expr, point);
}

bool Evaluator::lookThrough(const Expr &expr, const Point &point,
                            Point &seen) const {
  const LayerArguments &layer = expr.layer;
  seen = point;
  for (size_t i = 0; i < layer.over.size(); ++i) {
    const int64_t at = point[size_t(layer.at[i])],
                  offset = point[size_t(layer.window[i])],
                  width = size(layer.window[i]);
    int64_t place;
    if (expr.name == "grow") {
      if (at < offset || (at - offset) % width != 0)
        return false;
      place = (at - offset) / width;
    } else {
      place = layer.stride * at + layer.dilation * (offset - (width - 1) / 2);
    }
    if (place < 0 || place >= size(layer.over[i]))
      return false;
    seen[size_t(layer.over[i])] = place;
  }
  return true;
}

Scalar Evaluator::atConvolution(const Expr &expr, Point &point) {
  const LayerArguments &layer = expr.layer;
  Scalar total;
  Point seen;
  forEach(layer.window, point, [&] {
    if (!lookThrough(expr, point, seen))
      return;
    forEach(layer.from, seen, [&] {
      // The weight has dims of the window and of x, and no others.
      Point weight = point;
      for (DimId dim : layer.from)
        weight[size_t(dim)] = seen[size_t(dim)];
      total = tape.accumulate(
          total, tape.mul(at(expr.operands[0], seen),
                          readParameter(layer.scope + "/weight", weight)));
    });
  });
  return tape.settle(total);
}

Scalar Evaluator::atPool(const Expr &expr, Point &point) {
  const LayerArguments &layer = expr.layer;
  const bool isMaximum = expr.name == "max_pool";
  std::vector<Scalar> candidates;
  Point seen;
  forEach(layer.window, point, [&] {
    if (lookThrough(expr, point, seen))
      candidates.push_back(at(expr.operands[0], seen));
    else
      candidates.push_back({isMaximum ? -HUGE_VAL : 0, -1});
  });
  if (!isMaximum) {
    Scalar total;
    for (const Scalar &candidate : candidates)
      total = tape.accumulate(total, candidate);
    return tape.div(total, {double(candidates.size()), -1});
  }
  size_t place;
  const Scalar extreme = findExtreme(candidates, true, place);
  for (const Scalar &candidate : candidates)
    decide(extreme, candidate);
  return extreme;
}
