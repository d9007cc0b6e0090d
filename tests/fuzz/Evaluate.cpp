#include "tests/fuzz/Evaluate.h"
#include "tests/fuzz/Evaluator.h"

#include <algorithm>
#include <random>

using namespace meshc::fuzz;

Feeds meshc::fuzz::drawFeeds(const Tree &tree, const std::vector<Leaf> &leaves,
                             uint64_t seed) {
  Feeds feeds;
  for (const Leaf &leaf : leaves) {
    std::seed_seq sequence(leaf.name.begin(), leaf.name.end());
    uint32_t words[2];
    sequence.generate(words, words + 2);
    std::mt19937_64 random(seed ^ (uint64_t(words[0]) << 32 | words[1]));
    Tensor tensor{leaf.type.dims, leaf.type.element, {}};
    const int64_t count = countElements(tree, leaf.type.dims);
    for (int64_t i = 0; i < count; ++i) {
      // Of 20 bits: products of two are exact in f64 and rounded in f32.
      const double unit = double(random() >> 44) * 0x1p-20;
      tensor.elements.push_back(
          leaf.isPositive                     ? unit + 0.5
          : leaf.type.element == Element::F32 ? 2 * unit - 1
          : leaf.type.element == Element::I32 ? std::floor(unit * leaf.bound)
                                              : double(unit < 0.5));
    }
    feeds[leaf.name] = std::move(tensor);
  }
  return feeds;
}

void Evaluator::findParted(const std::vector<Statement> &body) {
  for (const Statement &statement : body) {
    findParted(statement.body);
    findParted(statement.otherwise);
    if (statement.kind == StatementKind::Dim)
      forEachExpr(statement.value, [&](const Expr &expr) {
        if (std::ranges::any_of(expr.dims,
                                [&](DimId dim) { return isParted(dim); }))
          parted.insert(statement.dim);
      });
  }
}

void Evaluator::feed(const std::vector<Leaf> &leaves, const Feeds &feeds) {
  for (const Leaf &leaf : leaves) {
    const Tensor &tensor = feeds.at(leaf.name);
    Value value{tensor.dims, {}};
    for (double element : tensor.elements) {
      const bool hasGradient =
          leaf.type.element == Element::F32 && leaf.kind != LeafKind::State;
      value.elements.push_back(hasGradient ? tape.makeLeaf(element)
                                           : Scalar{element, -1});
      leafNodes[leaf.name].push_back(value.elements.back().node);
    }
    if (leaf.kind == LeafKind::Input)
      values[leaf.name] = std::move(value);
    else
      variables[leaf.name] = std::move(value);
  }
}

size_t Evaluator::getOffset(const Dims &dims, const Point &point) const {
  size_t offset = 0;
  for (DimId dim : dims)
    offset = offset * size_t(size(dim)) + size_t(point[size_t(dim)]);
  return offset;
}

Evaluator::Point Evaluator::atIterations(Point point) const {
  for (const auto &[dim, position] : loops)
    if (std::ranges::find(place.loops, dim) != place.loops.end())
      point[size_t(dim)] = int64_t(values.at(position).elements[0].value);
  return point;
}

/// A variable of this scope in the iterations that run.
Scalar Evaluator::readVariable(const std::string &name, const Point &point) {
  auto known = left.find(place.path + name);
  const Value &value =
      known != left.end() ? known->second : variables.at(place.path + name);
  return value.elements[getOffset(value.dims, atIterations(point))];
}

void Evaluator::keepState(const std::string &name, const Dims &dims,
                          const Value &value) {
  const std::string path = place.path + name;
  Value &whole = left.try_emplace(path, variables.at(path)).first->second;
  Point point = atIterations(Point(tree.dims.size(), 0));
  forEach(dims, point, [&] {
    whole.elements[getOffset(whole.dims, point)] =
        value.elements[getOffset(value.dims, point)];
  });
}

void Evaluator::keepStates(const std::vector<Statement> &body) {
  if (!tree.isTraining || !problem.empty())
    return;
  for (const Statement &statement : body)
    if (statement.kind == StatementKind::State)
      keepState(statement.name, unite({}, statement.type.dims),
                values.at(statement.name));
}

Evaluator::Value Evaluator::bind(const Expr &expr) {
  Value value{expr.type.dims, {}};
  Point point(tree.dims.size(), 0);
  forEach(value.dims, point, [&] {
    Scalar element = at(expr, point);
    if (!std::isfinite(element.value))
      note("a value is not finite");
    else if (std::fabs(element.value) > 1e4)
      note("a value is large");
    value.elements.push_back(element);
  });
  keepStates(expr);
  if (tape.size() > maxNodes)
    note("too long");
  return value;
}

void Evaluator::run(const std::vector<Statement> &body) {
  for (const Statement &statement : body) {
    if (!problem.empty())
      return;
    run(statement);
  }
  keepStates(body);
}

void Evaluator::runLoop(const Statement &loop) {
  const Place around = place;
  loops.push_back({loop.dim, loop.position});
  place.path += loop.position + "/";
  place.loops.push_back(loop.dim);
  for (int64_t i = 0; i < size(loop.dim) && problem.empty(); ++i) {
    values[loop.position] = {{}, {{double(i), -1}}};
    run(loop.body);
  }
  loops.pop_back();
  place = around;
}

/// Names are unique in the whole program, so that the function's are beside the
/// caller's.
void Evaluator::runCall(const Statement &call) {
  const Function &function = *tree.findFunction(call.value.name);
  const LayerArguments &scopes = call.value.layer;
  std::vector<Value> arguments, results;
  for (const Expr &operand : call.value.operands)
    arguments.push_back(bind(operand));
  for (size_t i = 0; i < arguments.size(); ++i)
    values[function.parameters[i]] = std::move(arguments[i]);
  const Place around = place;
  if (scopes.with.empty())
    place.path += scopes.scope + "/";
  else
    place = places.at(scopes.with);
  places[scopes.scope] = place;
  run(call.body);
  if (!problem.empty())
    return;
  for (const Expr &result : call.results)
    results.push_back(bind(result));
  place = around;
  for (size_t i = 0; i < results.size(); ++i)
    values[call.names[i]] = std::move(results[i]);
}

void Evaluator::addTo(const std::string &name, const Expr &term) {
  const Value old = values.at(name), added = bind(term);
  Value sum{unite(old.dims, added.dims), {}};
  Point point(tree.dims.size(), 0);
  forEach(sum.dims, point, [&] {
    sum.elements.push_back(
        tape.add(old.elements[getOffset(old.dims, point)],
                 added.elements[getOffset(added.dims, point)]));
  });
  values[name] = std::move(sum);
}

void Evaluator::run(const Statement &statement) {
  const std::string &name = statement.name;
  switch (statement.kind) {
  case StatementKind::Param:
  case StatementKind::State: {
    Value value{unite({}, statement.type.dims), {}};
    Point point(tree.dims.size(), 0);
    forEach(value.dims, point,
            [&] { value.elements.push_back(readVariable(name, point)); });
    values[name] = std::move(value);
    return;
  }
  case StatementKind::Let:
  case StatementKind::Assign:
    values[name] = bind(statement.value);
    return;
  case StatementKind::Output:
    values[name] = bind(statement.value);
    outputs.push_back({name, statement.value.type.element});
    return;
  case StatementKind::Add:
    return addTo(name, statement.value);
  case StatementKind::Place: {
    const Value part = bind(statement.value);
    Value &whole = values.at(name);
    Point point(tree.dims.size(), 0);
    point[size_t(statement.dim)] =
        int64_t(values.at(statement.position).elements[0].value);
    forEach(part.dims, point, [&] {
      whole.elements[getOffset(whole.dims, point)] =
          part.elements[getOffset(part.dims, point)];
    });
    return;
  }
  case StatementKind::For:
    return runLoop(statement);
  case StatementKind::If:
    return run(evaluateCondition(tree, statement.value) ? statement.body
                                                        : statement.otherwise);
  case StatementKind::Call:
    return runCall(statement);
  case StatementKind::Dim:
    return;
  }
}

Evaluation meshc::fuzz::evaluate(const Tree &tree,
                                 const std::vector<Leaf> &leaves,
                                 const Feeds &feeds, Precision precision,
                                 double margin) {
  Evaluator evaluator(tree, precision, margin);
  for (const Function &function : tree.functions)
    evaluator.findParted(function.body);
  evaluator.feed(leaves, feeds);
  evaluator.findDraws(tree.body, "");
  evaluator.run(tree.body);
  return evaluator.finish(leaves);
}

Evaluation Evaluator::finish(const std::vector<Leaf> &leaves) {
  Evaluation result;
  result.problem = problem;
  if (!problem.empty())
    return result;
  auto toTensor = [](const Value &value, Element element) {
    Tensor tensor{value.dims, element, {}};
    for (const Scalar &scalar : value.elements)
      tensor.elements.push_back(scalar.value);
    return tensor;
  };
  for (const auto &[name, element] : outputs)
    result.outputs[name] = toTensor(values.at(name), element);
  for (const Leaf &leaf : leaves)
    if (tree.isTraining && leaf.kind == LeafKind::State)
      result.outputs[leaf.name] =
          toTensor(left.contains(leaf.name) ? left.at(leaf.name)
                                            : variables.at(leaf.name),
                   leaf.type.element);
  const std::vector<double> slopes =
      tape.differentiate(values.at("loss").elements[0]);
  for (const Leaf &leaf : leaves) {
    if (leaf.type.element != Element::F32 || leaf.kind == LeafKind::State)
      continue;
    Tensor gradient{leaf.type.dims, Element::F32, {}};
    for (int node : leafNodes.at(leaf.name)) {
      gradient.elements.push_back(slopes[size_t(node)]);
      if (!(std::fabs(gradient.elements.back()) < 1e4))
        result.problem = "a gradient is large";
    }
    result.gradients[leaf.name] = std::move(gradient);
  }
  return result;
}

void Evaluator::findInitials(const std::vector<Statement> &body,
                             const Place &inside,
                             std::map<std::string, Tensor> &initials) {
  isInitial = true;
  for (const Statement *statement : flatten(tree, body)) {
    Place inner = inside;
    if (statement->kind == StatementKind::For) {
      inner.path += statement->position + "/";
      inner.loops.push_back(statement->dim);
      findInitials(statement->body, inner, initials);
    } else if (statement->kind == StatementKind::Call &&
               statement->value.layer.with.empty()) {
      inner.path += statement->value.layer.scope + "/";
      findInitials(statement->body, inner, initials);
    } else if (statement->isComputed) {
      Tensor initial{unite(statement->type.dims, inside.loops),
                     statement->type.element,
                     {}};
      Point point(tree.dims.size(), 0);
      forEach(initial.dims, point, [&] {
        initial.elements.push_back(at(statement->value, point).value);
      });
      initials[inside.path + statement->name] = std::move(initial);
    }
  }
}

std::map<std::string, Tensor> meshc::fuzz::evaluateInitials(const Tree &tree) {
  Evaluator evaluator(tree, Precision::F64, 0);
  std::map<std::string, Tensor> initials;
  evaluator.findDraws(tree.body, "");
  evaluator.findInitials(tree.body, {}, initials);
  return initials;
}
