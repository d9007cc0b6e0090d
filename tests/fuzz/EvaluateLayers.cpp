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
                              readVariable(layer.scope + "/weight", point));
                        }),
                    readVariable(layer.scope + "/bias", point));
  if (expr.name == "layer_norm" || expr.name == "batch_norm")
    return atNorm(expr, point);
  return expr.name == "conv" || expr.name == "grow" ? atConvolution(expr, point)
                                                    : atPool(expr, point);
}

std::pair<Scalar, Scalar> Evaluator::getMoments(const Expr &x, const Dims &dims,
                                                Point &point) {
  const int64_t count = countElements(tree, dims);
  if (count == 1)
    note("a number less itself is what rounding leaves of it");
  const Scalar mean =
      tape.mean(sum(dims, point, [&] { return at(x, point); }), count);
  const Scalar squares = sum(dims, point, [&] {
    const Scalar centred = tape.sub(at(x, point), mean);
    return tape.mul(centred, centred);
  });
  return {mean, tape.mean(squares, count)};
}

Scalar Evaluator::atNorm(const Expr &expr, Point &point) {
  const LayerArguments &layer = expr.layer;
  const Expr &x = expr.operands[0];
  std::pair<Scalar, Scalar> moments;
  if (expr.name == "layer_norm")
    moments = getMoments(x, layer.over, point);
  else if (tree.isTraining)
    moments = getMoments(x, without(x.type.dims, layer.over), point);
  else
    moments = {readVariable(layer.scope + "/centre", point),
               readVariable(layer.scope + "/spread", point)};
  const Scalar base = tape.add(moments.second, {double(float(1e-5)), -1});
  const double root = std::sqrt(base.value);
  const Scalar scale = tape.unary(1 / root, base, -0.5 / (base.value * root));
  const Scalar gain = readVariable(layer.scope + "/gain", point),
               bias = readVariable(layer.scope + "/bias", point);
  return tape.add(
      tape.mul(tape.mul(tape.sub(at(x, point), moments.first), scale), gain),
      bias);
}

/// What the batch norms of an expression leave, with their momentum of 0.9.
void Evaluator::keepStates(const Expr &expr) {
  if (!tree.isTraining)
    return;
  forEachExpr(expr, [&](const Expr &norm) {
    if (norm.kind != ExprKind::Layer || norm.name != "batch_norm")
      return;
    const LayerArguments &layer = norm.layer;
    const Dims over = unite({}, layer.over);
    const Expr &x = norm.operands[0];
    const std::string names[] = {layer.scope + "/centre",
                                 layer.scope + "/spread"};
    Value kept[2] = {{over, {}}, {over, {}}};
    Point point(tree.dims.size(), 0);
    forEach(over, point, [&] {
      const auto [mean, variance] =
          getMoments(x, without(x.type.dims, over), point);
      const Scalar now[] = {{mean.value, -1}, {variance.value, -1}};
      for (int i = 0; i < 2; ++i)
        kept[i].elements.push_back(tape.add(
            tape.mul({double(float(0.9)), -1}, readVariable(names[i], point)),
            tape.mul({double(float(1 - 0.9)), -1}, now[i])));
    });
    for (int i = 0; i < 2; ++i)
      keepState(names[i], over, kept[i]);
  });
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
                          readVariable(layer.scope + "/weight", weight)));
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
