#include "tests/fuzz/Generate.h"
#include "tests/fuzz/Generator.h"

#include <cmath>

using namespace meshc::fuzz;

static constexpr Kind kinds[] = {
    {"slice", "x[n = m + 1]"},
    {"point", "x[n = 2]"},
    {"stride", "x[n = 2 * m]"},
    {"shift", "x[n = n - 1 else 0]"},
    {"pad", "else another number than 0"},
    {"pad-inf", "max and softmax of x[... else -inf]"},
    {"reverse", "x[n = size(n) - 1 - n]"},
    {"roll", "x[n = (n + 1) % size(n)]"},
    {"wrap", "% of another number than the size"},
    {"wrap-one", "% 1"},
    {"floor", "x[n = floor((m + 1) / 2)]"},
    {"exact", "x[n = (m - 1) / 2 else 0]"},
    {"exact-whole", "x[n = 2 * m / 3], whole for every m"},
    {"window", "x[n = 2 * m + 3 * k - 1 else 0]"},
    {"diagonal", "x[n = m, k = m], x[n = m] where x has m"},
    {"swap", "x[n = m, m = n]"},
    {"digits", "x[n = floor(t / 4), m = t % 4], x[t = 4 * n + m]"},
    {"list", "x[(n, m) = 2 * (i, j) + (k, l) else 0]"},
    {"tensor", "an index by integers"},
    {"tensor-dim", "x[n = i] where i has n"},
    {"tensor-sum", "x[n = i + m]"},
    {"tensor-other", "x[n = i, m = j] where i has m"},
    {"integer-view", "an index of integers"},
    {"bool-view", "an index of truths"},
    {"bool-tensor", "truths indexed by a tensor"},
    {"carried", "h = f(h) in a loop"},
    {"summed", "s += x in a loop"},
    {"stacked", "y[n = i] = x in a loop"},
    {"integer-loop", "integers that loops carry, sum and stack"},
    {"map", "loops that carry nothing"},
    {"loop-parameter", "parameters in loops"},
    {"nested", "loops in loops"},
    {"loop-slice", "x[n = i] in a loop"},
    {"slice-of-sum", "x[n = i] of what a loop has summed"},
    {"whole", "x in a loop over a dim that it has"},
    {"einsum", "contractions"},
    {"stride-product", "products of x[n = 2 * m]"},
    {"lookup-product", "products of x[n = i], by integers"},
    {"tile-product", "products of x[n = m % size(n)]"},
    {"reduce", "sums, means and extremes"},
    {"softmax", "softmax, log_softmax, cross_entropy"},
    {"where", "choices"},
    {"shape", "rename, broadcast, gather"},
    {"draw", "random numbers"},
    {"dense", "dense layers"},
    {"layer-norm", "layer_norm"},
    {"conv", "convolutions"},
    {"conv-shared", "convolutions of what others read too"},
    {"grow", "transposed convolutions"},
    {"pool", "max_pool, mean_pool"},
    {"alias", "let v = x"},
    {"function", "functions of several results"},
    {"own-dim", "dims of functions"},
    {"with", "calls with the variables of an earlier one"},
    {"typed", "let x: f32[n, m] = 0"},
    {"branch", "if and else, one of which is dead"},
    {"training", "if training"},
    {"state", "variables that the training step sets"},
    {"batch-norm", "batch_norm"},
    {"initial", "variables that begin as an expression"},
    {"size-one", "dims of size 1"},
    {"batch", "inputs that all have samples, of which a step may have parts"},
    {"kernels", "no program: that they are run on devices"},
    {"tiles", "no program: that large values are computed in tiles there"},
};

std::span<const Kind> meshc::fuzz::getKinds() { return kinds; }

Tree meshc::fuzz::generate(uint64_t seed, int statements,
                           const Kinds &leftOut) {
  // What is legal in evaluation may not be in the training step, where loops
  // carry other values.
  for (uint64_t attempt = 0;; ++attempt) {
    Tree tree = Generator(seed + (attempt << 48), leftOut).run(statements);
    if (check(tree).empty())
      return tree;
  }
}

Tree Generator::run(int statements) {
  tree.seed = int64_t(random());
  tree.run = flip(8) ? 5'000'000'000 : 1 + pick(3);
  declare();
  for (int i = 0; i < 3; ++i)
    addParameter(tree.body);
  addStatements(tree.body, statements);
  finish();
  return std::move(tree);
}

/// Six dims, of which some are small enough for windows and one may have two
/// others as its digits, their primes, and inputs of every type.
void Generator::declare() {
  static constexpr int64_t sizes[] = {2, 3, 4, 5, 7};
  static constexpr const char *names[] = {"b", "n", "m", "k", "t", "w"};
  for (const char *name : names) {
    int64_t size = sizes[pick(5)];
    if (flip(10) && allows("size-one"))
      size = 1;
    if (name == std::string("w"))
      size = 2 + pick(2);
    if (name == std::string("t") && allows("digits") && flip()) {
      const int64_t product =
          tree.dims[declared[1]].size * tree.dims[declared[2]].size;
      size = product > 15 ? size : product;
    }
    declared.push_back(DimId(tree.dims.size()));
    tree.dims.push_back({name, size, -1});
    if (size <= 3)
      windows.push_back(declared.back());
  }
  for (DimId dim : Dims(declared))
    tree.dims.push_back({tree.dims[size_t(dim)].name + "'", size(dim), dim});
  const bool hasBatch = allows("batch") && flip(3);
  auto addInput = [&](std::string name, Element element, size_t rank,
                      int64_t bound) {
    Dims dims = declared;
    std::shuffle(dims.begin(), dims.end(), random);
    if (hasBatch)
      std::iter_swap(dims.begin(), std::ranges::find(dims, Tree::batch));
    dims.resize(rank);
    tree.inputs.push_back({name, {element, unite({}, dims)}, bound});
    if (element == Element::I32)
      bounds[name] = bound;
    order.push_back(std::move(name));
  };
  addInput("x0", Element::F32, 3, 0);
  addInput("x1", Element::F32, 2, 0);
  addInput("i0", Element::I32, 1, 2 + pick(2));
  addInput("i1", Element::I32, 2, 3 + pick(4));
  addInput("c0", Element::Bool, 2, 0);
  checker.emplace(tree);
}

std::optional<std::string>
Generator::pickVariable(const std::function<bool(const Variable &)> &is) {
  std::vector<std::string> fitting;
  for (const std::string &name : order) {
    auto found = checker->getVariables().find(name);
    if (found != checker->getVariables().end() &&
        std::find(hidden.begin(), hidden.end(), name) == hidden.end() &&
        !found->second.isNumber && is(found->second))
      fitting.push_back(name);
  }
  if (fitting.empty())
    return std::nullopt;
  const auto count = int64_t(fitting.size());
  return fitting[size_t(count - 1 - std::min(pick(count), pick(count)))];
}

std::optional<std::string> Generator::pickFloat() {
  return pickVariable([&](const Variable &variable) {
    if (variable.type.element != Element::F32)
      return false;
    for (const auto &[dim, position] : checker->getLoops())
      if (variable.type.has(dim) && (!allows("whole") || !flip(4)))
        return false;
    return true;
  });
}

std::optional<std::string> Generator::pickFloatWithDims() {
  return pickVariable([&](const Variable &variable) {
    return variable.type.element == Element::F32 && !variable.type.dims.empty();
  });
}

std::optional<DimId> Generator::pickOtherDim(const Dims &not_, int64_t ofSize,
                                             int64_t atMost) {
  Dims fitting;
  for (size_t i = 0; i < tree.dims.size(); ++i) {
    const auto dim = DimId(i);
    const bool isLoop =
        std::any_of(checker->getLoops().begin(), checker->getLoops().end(),
                    [&](const auto &loop) { return loop.first == dim; });
    const std::string &owner = tree.dims[i].function;
    if (!isLoop && (owner.empty() || owner == function) &&
        std::find(not_.begin(), not_.end(), dim) == not_.end() &&
        (ofSize == 0 || size(dim) == ofSize) && size(dim) <= atMost) {
      fitting.push_back(dim);
      // Primes are rarer.
      if (tree.dims[i].primeOf < 0)
        fitting.insert(fitting.end(), 3, dim);
    }
  }
  if (fitting.empty())
    return std::nullopt;
  return pickFrom(fitting);
}

Dims Generator::pickSubset(Dims dims, bool isEmptyAllowed) {
  std::shuffle(dims.begin(), dims.end(), random);
  if (!dims.empty())
    dims.resize(size_t(isEmptyAllowed ? pick(int64_t(dims.size()) + 1)
                                      : 1 + pick(int64_t(dims.size()))));
  return unite({}, dims);
}

//===-- Statements --------------------------------------------------------===//

bool Generator::add(Body &body, Statement statement, double magnitude) {
  Checker trial(*checker);
  if (!trial.apply(statement))
    return false;
  *checker = std::move(trial);
  const std::string name = statement.name;
  Variable &variable = checker->getVariable(name);
  variable.magnitude = std::max(magnitude, 1e-3);
  order.push_back(name);
  body.push_back(std::move(statement));
  return true;
}

bool Generator::isLeftOut(const Expr &value) {
  bool isFound = false;
  forEachExpr(value, [&](const Expr &expr) {
    if (expr.kind != ExprKind::Index)
      return;
    const Expr &x = expr.operands[0];
    Dims read;
    for (const Part &part : expr.parts)
      read = unite(read, part.dims);
    // How many dims of x each dim of the result determines.
    std::map<DimId, int> uses;
    for (DimId dim : without(x.type.dims, read))
      ++uses[dim];
    for (const Part &part : expr.parts) {
      Dims added;
      bool readsPosition = false, hasFraction = false;
      forEachExpr(part.position, [&](const Expr &place) {
        if (place.kind == ExprKind::Position)
          added = unite(added, place.dims);
        readsPosition |=
            place.kind == ExprKind::Name && get(place.name).isPosition;
        hasFraction |= place.name == "/";
      });
      for (DimId dim : added)
        ++uses[dim];
      const bool isRounded = part.position.name == "floor" ||
                             (!part.position.operands.empty() &&
                              part.position.operands[0].name == "floor");
      isFound |= readsPosition && !allows("slice-of-sum") &&
                 x.kind == ExprKind::Name &&
                 get(x.name).origin == Origin::Summed;
      isFound |= hasFraction && !isRounded && !expr.otherwise &&
                 !allows("exact-whole");
    }
    for (const auto &[dim, count] : uses)
      isFound |= count > 1 && !allows("diagonal");
  });
  return isFound;
}

bool Generator::bind(Body &body, Expr value) {
  Checker trial(*checker);
  if (!trial.check(value) || isLeftOut(value))
    return false;
  double magnitude = getMagnitude(value);
  if (value.type.element == Element::F32 && magnitude > 6) {
    value = call("tanh", {std::move(value)});
    magnitude = 1;
  }
  Statement let;
  let.name = makeName("v");
  let.value = std::move(value);
  return add(body, std::move(let), magnitude);
}

void Generator::addParameter(Body &body) {
  Dims dims = without(declared, {});
  for (const auto &[dim, position] : checker->getLoops())
    dims = without(dims, {dim});
  std::shuffle(dims.begin(), dims.end(), random);
  dims.resize(std::min(dims.size(), size_t(1 + pick(3))));
  Statement parameter;
  parameter.kind = StatementKind::Param;
  parameter.name = makeName("p");
  parameter.type = {Element::F32, unite({}, dims)};
  if (flip(3) && allows("initial")) {
    parameter.isComputed = true;
    parameter.value = makeInitial(parameter.type);
  }
  add(body, std::move(parameter), 1);
}

void Generator::addStatements(Body &body, int count) {
  for (int i = 0; i < count; ++i)
    addStatement(body);
}

void Generator::addStatement(Body &body) {
  if (isInTraining) {
    if (tree.functions.empty() || !flip(4) || !addCall(body))
      addValue(body);
    return;
  }
  if (!checker->getLoops().empty() && flip(6) && allows("loop-parameter"))
    addParameter(body);
  const int64_t loopOdds = depth == 0 ? 5 : depth == 1 ? 9 : 0;
  if (loopOdds && flip(loopOdds) && (depth == 0 || allows("nested")))
    return addLoop(body);
  if (function.empty() && allows("function") && flip(10))
    return addFunction(body);
  if (!tree.functions.empty() && flip(7) && addCall(body))
    return;
  if (allows("branch") && flip(16))
    return addBranch(body);
  if (allows("training") && flip(60))
    return flip() ? addDropout(body) : addTraining(body);
  if (allows("state") && flip(40))
    return addState(body);
  if (allows("typed") && flip(16) && addTyped(body))
    return;
  addValue(body);
}

void Generator::addValue(Body &body) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    std::optional<Expr> value;
    switch (pick(18)) {
    case 0:
    case 1:
    case 2:
      value = makeElementwise();
      break;
    case 3:
      value = makeReduction();
      break;
    case 4:
      value = makeEinsum();
      break;
    case 5:
      value = makeShape();
      break;
    case 6:
      value = makeChoice();
      break;
    case 7:
      value = makeInteger();
      break;
    case 8:
    case 9:
      if (!isInTraining) // which has no variables of its own
        value = makeLayer();
      break;
    case 10:
      value = makeViewedProduct();
      break;
    case 11:
      value = makeDraw();
      break;
    case 12:
      if (!checker->getLoops().empty())
        value = makeSlice();
      break;
    default:
      value = makeView();
      break;
    }
    if (value && bind(body, std::move(*value)))
      return;
  }
}

/// Outputs of every type, and a loss of floats that were computed last.
void Generator::finish() {
  std::optional<Expr> loss;
  std::vector<std::string> used;
  auto addOutput = [&](const std::string &name) {
    Statement output;
    output.kind = StatementKind::Output;
    output.name = makeName("y");
    output.value = nameOf(name);
    add(tree.body, std::move(output), 1);
    order.pop_back();
  };
  for (int i = 0; i < 4; ++i) {
    std::optional<std::string> name = pickVariable(
        [&](const Variable &v) { return v.type.element == Element::F32; });
    if (std::find(used.begin(), used.end(), *name) != used.end())
      continue;
    used.push_back(*name);
    addOutput(*name);
    Expr weighed = flip() ? binary("^", nameOf(*name), number(2))
                          : binary("*", nameOf(*name),
                                   call("tanh", {nameOf(*pickFloat())}));
    Checker trial(*checker);
    if (!trial.check(weighed))
      weighed = nameOf(*name), trial.check(weighed);
    Expr term = weighed.type.dims.empty()
                    ? weighed
                    : make(ExprKind::Reduce, flip() ? "sum" : "mean", {weighed},
                           weighed.type.dims);
    loss = loss ? binary("+", std::move(*loss), std::move(term)) : term;
  }
  for (Element element : {Element::I32, Element::Bool})
    if (auto name = pickVariable([&](const Variable &v) {
          return v.type.element == element && !v.isPosition;
        }))
      addOutput(*name);
  Statement output;
  output.kind = StatementKind::Output;
  output.name = "loss";
  output.value = std::move(*loss);
  add(tree.body, std::move(output), 1);
}
