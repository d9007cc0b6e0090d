// Indexes: positions of every form.

#include "tests/fuzz/Generator.h"
#include "tests/fuzz/Position.h"

#include <cmath>

using namespace meshc::fuzz;

static Expr whole(int64_t value) { return number(double(value)); }

Expr Generator::makeOperand(const std::string &name) {
  const Variable &variable = get(name);
  if (variable.type.element != Element::F32 || !flip(4))
    return nameOf(name);
  Expr inner = nameOf(name);
  switch (pick(4)) {
  case 0:
    return call("tanh", {std::move(inner)});
  case 1:
    return binary("*", std::move(inner), number(pickNumber()));
  case 2: {
    auto other = pickVariable([&](const Variable &v) {
      return v.type.element == Element::F32 &&
             without(v.type.dims, variable.type.dims).empty();
    });
    return other ? binary("*", std::move(inner), nameOf(*other)) : inner;
  }
  default:
    return binary("+", std::move(inner), number(pickNumber()));
  }
}

/// `x + value`, written as one does.
static Expr shift(Expr x, int64_t value) {
  if (value == 0)
    return x;
  return binary(value < 0 ? "-" : "+", std::move(x), whole(std::abs(value)));
}

/// Two dims as the digits of a number of as many positions: 4 * n + m.
std::optional<Expr> Generator::makeNumber(int64_t positions,
                                          const Dims &taken) {
  const auto major = pickOtherDim(taken);
  if (!major || size(*major) == 1 || positions % size(*major) != 0)
    return std::nullopt;
  const int64_t rest = positions / size(*major);
  const auto minor = pickOtherDim(unite(taken, {*major}), rest);
  if (!minor || rest == 1)
    return std::nullopt;
  return binary("+", binary("*", whole(rest), positionOf(*major)),
                positionOf(*minor));
}

/// A position along `dim` of dims and numbers. The result has none of `taken`.
std::optional<Expr> Generator::makePosition(DimId dim, const Dims &taken) {
  const int64_t extent = size(dim);
  auto other = pickOtherDim(taken);
  if (flip(4) || !other)
    other = dim;
  const Expr loop = positionOf(*other);
  const int64_t offset = pick(2 * extent + 1) - extent;
  auto second = pickOtherDim(unite(taken, {*other}));
  const Expr inner = second ? positionOf(*second) : whole(0);
  auto sum = [&](int64_t factor) {
    Expr scaled = factor == 1 ? loop : binary("*", whole(factor), loop);
    if (!second || flip())
      return shift(scaled, offset);
    return shift(binary(flip(3) ? "-" : "+", scaled, inner), offset);
  };
  if (allows("digits") && flip(3))
    if (auto number = makeNumber(extent, taken))
      return number;
  switch (pick(12)) {
  case 0:
    return allows("slice") ? std::optional(shift(loop, pick(extent)))
                           : std::nullopt;
  case 1:
    return allows("point") ? std::optional(whole(pick(extent))) : std::nullopt;
  case 2:
    return allows("stride")
               ? std::optional(
                     shift(binary("*", whole(2 + pick(2)), loop), offset))
               : std::nullopt;
  case 3:
    return allows("shift") ? std::optional(shift(loop, offset)) : std::nullopt;
  case 4: {
    if (!allows("reverse"))
      return std::nullopt;
    Expr last = flip() ? shift(make(ExprKind::Size, "", {}, {dim}), -1)
                       : whole(extent - 1 + pick(3) - 1);
    return binary("-", std::move(last), loop);
  }
  case 5:
    if (extent == 1 && !allows("wrap-one"))
      return std::nullopt;
    return allows("roll")
               ? std::optional(
                     binary("%", sum(1), make(ExprKind::Size, "", {}, {dim})))
               : std::nullopt;
  case 6: {
    if (!allows("wrap"))
      return std::nullopt;
    const int64_t modulus = 1 + pick(extent + 3);
    if (modulus == 1 && !allows("wrap-one"))
      return std::nullopt;
    return binary("%", flip(4) ? binary("-", whole(pick(5)), loop) : sum(1),
                  whole(modulus));
  }
  case 7:
    if (!allows("floor"))
      return std::nullopt;
    return shift(
        call("floor", {binary("/", sum(1 + pick(2)), whole(1 + pick(3)))}),
        flip(3) ? pick(3) - 1 : 0);
  case 8:
  case 9:
    if (!allows("exact"))
      return std::nullopt;
    return binary(
        "/", flip(4) ? binary("-", whole(pick(5)), loop) : sum(1 + pick(2)),
        whole(2 + pick(2)));
  default:
    if (!allows("window") || !second)
      return std::nullopt;
    Expr scaled = binary("*", whole(1 + pick(3)), loop);
    Expr tap = binary("*", whole(1 + pick(3)), inner);
    Expr both = binary(flip(4) ? "-" : "+", std::move(scaled), std::move(tap));
    auto third = pickOtherDim(unite(taken, {*other, *second}), 0, 3);
    if (third && flip(4))
      both = binary("+", std::move(both), positionOf(*third));
    return shift(std::move(both), pick(5) - 2);
  }
}

/// Integers that were computed or are fed, alone or beside dims.
std::optional<Expr> Generator::makeTensorPosition(DimId dim) {
  auto name = pickVariable([&](const Variable &v) {
    return v.type.element == Element::I32 &&
           (!v.type.has(dim) || allows("tensor-dim"));
  });
  if (!name || !allows("tensor"))
    return std::nullopt;
  Expr index = nameOf(*name);
  // What the program is fed is checked against the dim it selects of.
  const bool isChecked = bounds.contains(*name) && bounds[*name] > size(dim);
  if (allows("tensor-sum") && (isChecked || flip(3))) {
    auto other = pickOtherDim(unite(getDims(*name), {dim}));
    if (other && flip())
      return binary(flip() ? "+" : "-", std::move(index), positionOf(*other));
    return shift(std::move(index), 1 + pick(3));
  }
  return isChecked ? std::nullopt : std::optional(std::move(index));
}

/// Two dims at once.
std::optional<Expr> Generator::makeSeveral(const std::string &name) {
  Dims dims = getDims(name);
  if (dims.size() < 2)
    return std::nullopt;
  std::shuffle(dims.begin(), dims.end(), random);
  const DimId a = dims[0], b = dims[1];
  Expr view = make(ExprKind::Index, "", {makeOperand(name)});
  if (allows("digits") && size(a) > 1 && size(b) > 1)
    if (auto number = pickOtherDim(dims, size(a) * size(b))) {
      view.parts.push_back(
          {{a},
           call("floor", {binary("/", positionOf(*number), whole(size(b)))})});
      view.parts.push_back(
          {{b}, binary("%", positionOf(*number), whole(size(b)))});
      return view;
    }
  switch (pick(5)) {
  case 0:
  case 1: {
    if (!allows("diagonal"))
      return std::nullopt;
    auto other = pickOtherDim(dims);
    if (flip() || !other) {
      view.parts.push_back(
          {{a}, shift(positionOf(b), flip() ? 0 : pick(3) - 1)});
      return view;
    }
    view.parts.push_back({{a}, positionOf(*other)});
    view.parts.push_back(
        {{b}, shift(positionOf(*other), flip() ? 0 : pick(3) - 1)});
    return view;
  }
  case 2:
    if (!allows("swap"))
      return std::nullopt;
    view.parts.push_back({{a}, positionOf(b)});
    view.parts.push_back({{b}, positionOf(a)});
    return view;
  case 3: {
    if (!allows("list"))
      return std::nullopt;
    auto i = pickOtherDim(dims), j = pickOtherDim(unite(dims, {*i}));
    if (!j)
      return std::nullopt;
    auto list = [](DimId x, DimId y) {
      return make(ExprKind::Tuple, "", {positionOf(x), positionOf(y)});
    };
    Expr position = list(*i, *j);
    if (flip())
      position = binary("*", whole(2), std::move(position));
    auto k = pickOtherDim(unite(dims, {*i, *j}), 0, 3);
    auto l = k ? pickOtherDim(unite(dims, {*i, *j, *k}), 0, 3) : std::nullopt;
    if (l && flip())
      position = binary("+", std::move(position), list(*k, *l));
    view.parts.push_back({{a, b}, shift(std::move(position), pick(3) - 1)});
    return view;
  }
  default:
    for (DimId dim : {a, b}) {
      auto position = flip(3) ? makeTensorPosition(dim)
                              : makePosition(dim, flip(3) ? Dims{} : dims);
      if (!position)
        return std::nullopt;
      view.parts.push_back({{dim}, std::move(*position)});
    }
    return view;
  }
}

/// Whether a tensor among the parts has a dim that another part reads.
static bool crosses(const Expr &view) {
  for (const Part &part : view.parts) {
    Dims added;
    bool hasTensor = false;
    forEachExpr(part.position, [&](const Expr &expr) {
      if (expr.kind == ExprKind::Name) {
        hasTensor = true;
        added = unite(added, expr.type.dims);
      }
    });
    for (const Part &other : view.parts)
      for (DimId dim : other.dims)
        if (&other != &part && hasTensor &&
            std::find(added.begin(), added.end(), dim) != added.end())
          return true;
  }
  return false;
}

std::optional<Expr> Generator::makeViewOf(const std::string &name) {
  const Dims dims = getDims(name);
  if (dims.empty())
    return std::nullopt;
  std::optional<Expr> view;
  if (flip(4)) {
    view = makeSeveral(name);
  } else {
    const DimId dim = pickFrom(dims);
    auto position = flip(6) ? makeTensorPosition(dim)
                            : makePosition(dim, flip(8) ? Dims{} : dims);
    if (position) {
      view = make(ExprKind::Index, "", {makeOperand(name)});
      view->parts.push_back({{dim}, std::move(*position)});
    }
  }
  if (!view)
    return std::nullopt;
  // With `else` where it has to be, and sometimes where it need not.
  const bool isBool = get(name).type.element == Element::Bool;
  for (bool hasElse : {false, true}) {
    if (hasElse || (flip(5) && !isBool))
      view->otherwise = get(name).type.element == Element::I32
                            ? double(pick(4) - 1)
                        : allows("pad") && flip() ? pickNumber()
                                                  : 0;
    Expr trial = *view;
    if (Checker(*checker).check(trial))
      return allows("tensor-other") || !crosses(trial)
                 ? std::optional(std::move(trial))
                 : std::nullopt;
  }
  return std::nullopt;
}

std::optional<Expr> Generator::makeView() {
  auto name = pickVariable([&](const Variable &v) {
    if (v.type.dims.empty())
      return false;
    switch (v.type.element) {
    case Element::F32:
      return true;
    case Element::I32:
      return allows("integer-view") && flip(4);
    case Element::Bool:
      return allows("bool-view") && flip(4);
    }
    __builtin_unreachable();
  });
  if (!name)
    return std::nullopt;
  std::optional<Expr> view = makeViewOf(*name);
  if (!view)
    return std::nullopt;
  if (get(*name).type.element == Element::Bool && !allows("bool-tensor"))
    for (const Part &part : view->parts) {
      bool hasTensor = false;
      forEachExpr(part.position, [&](const Expr &expr) {
        hasTensor |= expr.kind == ExprKind::Name;
      });
      if (hasTensor)
        return std::nullopt;
    }
  // -inf stays within what it is for.
  if (view->otherwise && get(*name).type.element == Element::F32 &&
      allows("pad-inf") && flip(4)) {
    Expr trial = *view;
    if (!Checker(*checker).check(trial) || trial.type.dims.empty())
      return view;
    view->otherwise = -HUGE_VAL;
    return make(ExprKind::Reduce, flip() ? "max" : "softmax",
                {std::move(*view)}, pickSubset(trial.type.dims, false));
  }
  return view;
}

/// x at the position of a loop, or of one beside it.
std::optional<Expr> Generator::makeSlice() {
  if (!allows("loop-slice"))
    return std::nullopt;
  const auto &[dim, position] = pickFrom(checker->getLoops());
  auto name = pickVariable([&, dim = dim](const Variable &v) {
    return v.type.has(dim) && v.type.element == Element::F32 &&
           (v.origin != Origin::Summed || allows("slice-of-sum"));
  });
  if (!name)
    return std::nullopt;
  Expr view = make(ExprKind::Index, "", {nameOf(*name)});
  Expr place = nameOf(position);
  if (flip(4) && allows("tensor-sum")) {
    place = flip() ? shift(std::move(place), pick(3) - 1)
                   : binary("-", whole(size(dim) - 1), std::move(place));
    if (flip())
      view.otherwise = pickNumber();
  }
  view.parts.push_back({{dim}, std::move(place)});
  return view;
}

/// A product of what is read elsewhere than it lies: every other row, rows by
/// integers, the same rows over and over.
std::optional<Expr> Generator::makeViewedProduct() {
  auto name = pickFloatWithDims();
  if (!name)
    return std::nullopt;
  const Dims dims = getDims(*name);
  const DimId dim = pickFrom(dims);
  std::optional<Expr> position;
  switch (pick(4)) {
  case 0:
  case 1: {
    const int64_t stride = 2 + pick(2);
    auto row = pickOtherDim(dims, 0, (size(dim) + stride - 1) / stride);
    if (!allows("stride-product") || !row)
      return std::nullopt;
    const int64_t rest = size(dim) - 1 - stride * (size(*row) - 1);
    position = shift(binary("*", whole(stride), positionOf(*row)),
                     rest > 0 && flip() ? pick(rest + 1) : 0);
    break;
  }
  case 2:
    if (allows("lookup-product"))
      position = makeTensorPosition(dim);
    break;
  default:
    auto row = pickOtherDim(dims);
    if (allows("tile-product") && row)
      position = binary("%", positionOf(*row),
                        flip() ? make(ExprKind::Size, "", {}, {dim})
                               : whole(size(dim)));
  }
  if (!position)
    return std::nullopt;
  Expr view = make(ExprKind::Index, "", {nameOf(*name)});
  view.parts.push_back({{dim}, std::move(*position)});
  Expr trial = view;
  if (!Checker(*checker).check(trial) || trial.type.dims.empty())
    return std::nullopt;
  if (allows("dense") && flip(3)) {
    auto to = pickOtherDim(trial.type.dims);
    if (!to)
      return std::nullopt;
    Expr layer = make(ExprKind::Layer, "dense", {std::move(view)});
    layer.layer.from = pickSubset(trial.type.dims, false);
    layer.layer.to = {*to};
    layer.layer.scope = makeName("l");
    return layer;
  }
  auto other = pickVariable([&](const Variable &v) {
    return v.type.element == Element::F32 &&
           std::ranges::any_of(trial.type.dims,
                               [&](DimId read) { return v.type.has(read); });
  });
  if (!other || !allows("einsum"))
    return std::nullopt;
  const Dims result =
      pickSubset(unite(trial.type.dims, getDims(*other)), false);
  return make(ExprKind::Einsum, "", {std::move(view), nameOf(*other)}, result);
}
