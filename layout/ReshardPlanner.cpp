#include "layout/ReshardPlanner.h"

#include "layout/ReshardMoves.h"
#include "layout/StepPrices.h"
#include "layout/WindowReshard.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <map>
#include <queue>
#include <tuple>

using namespace meshc;
using namespace meshc::layout;

namespace {

/// A sequence of steps from the source, by its last one.
struct Path {
  const AtomSharding *end;
  double cost;
  int32_t length;
  int32_t before;      ///< index of the path without the last step; -1: none
  CollectiveKind kind; ///< of the last step
  uint64_t shape;      ///< kinds of all steps, four bits each, without slices
};

/// Shortest paths by Dijkstra's algorithm. Every sharding keeps its two
/// cheapest paths of different shape. That is enough to find the two cheapest
/// of different shape to the target: if a best path went through a third, one
/// of the two could replace its first part.
class PathFinder {
public:
  PathFinder(const Mesh &mesh, const AtomSpace &space, int64_t elementBytes,
             const Machine &machine)
      : mesh(mesh), space(space), prices(mesh, space, elementBytes, machine),
        acrossHosts(machine.hasSeveralHosts(mesh)),
        maxElements(std::max(space.getBlockElements(space.getSource()),
                             space.getBlockElements(space.getTarget()))) {}

  ReshardChoice find() {
    push({nullptr, 0, 0, -1, CollectiveKind::Slice, 0}, space.getSource());
    std::vector<ReshardPlan> plans;
    int32_t expanded = 0;
    while (!queue.empty() && plans.size() < 2) {
      const int32_t index = queue.top();
      queue.pop();
      const Path path = paths[index];
      if (!settle(path))
        continue;
      if (*path.end == space.getTarget()) {
        plans.push_back(getPlan(index));
        if (path.shape == 0)
          break;
      } else if (expanded < maxExpanded) {
        ++expanded;
        for (ReshardMove &move : getMoves(space, *path.end, acrossHosts))
          follow(index, move);
      }
    }
    // Slices that have become one may have made the second the cheaper.
    if (plans.size() > 1 && plans[1].costUs < plans[0].costUs)
      std::swap(plans[0], plans[1]);
    // The exchange from the source is always there.
    ReshardChoice choice{std::move(plans.front()), std::nullopt};
    if (plans.size() > 1)
      choice.secondBest = std::move(plans[1]);
    return choice;
  }

private:
  /// Whether `path` is one of the two to keep for its end.
  bool settle(const Path &path) {
    std::vector<uint64_t> &shapes = settled[*path.end];
    if (shapes.size() == 2 ||
        std::find(shapes.begin(), shapes.end(), path.shape) != shapes.end())
      return false;
    shapes.push_back(path.shape);
    return true;
  }

  void follow(int32_t index, const ReshardMove &move) {
    const Path &path = paths[index];
    const AtomSharding &from = *path.end;
    const StepFigures figures =
        space.estimateFigures(mesh, move.kind, from, move.to);
    const int64_t before = space.getBlockElements(from);
    const int64_t after = space.getBlockElements(move.to);
    int64_t limit = maxElements;
    if (move.kind == CollectiveKind::AllToAll)
      limit += before / figures.groupSize + 1;
    if (after > limit)
      return;
    Path next = path;
    next.before = index;
    next.kind = move.kind;
    next.cost += prices.getCost(figures, before, after);
    double rest = 0;
    if (move.to != space.getTarget() &&
        !space.fits(CollectiveKind::Slice, move.to, space.getTarget()))
      rest = prices.getLeastCost();
    if (next.cost + rest > bounds[1].cost || path.length == maxLength)
      return;
    ++next.length;
    if (move.kind != CollectiveKind::Slice)
      next.shape = next.shape << 4 | (uint64_t(move.kind) + 1);
    if (move.to == space.getTarget())
      lowerBounds(next);
    push(next, move.to);
  }

  /// Records a way to the target: nothing dearer than the two cheapest of
  /// different shape needs to be looked at.
  void lowerBounds(const Path &path) {
    Bound bound{path.cost, path.shape};
    if (bound.shape == bounds[0].shape) {
      bounds[0].cost = std::min(bounds[0].cost, bound.cost);
      return;
    }
    if (bound.cost < bounds[0].cost)
      std::swap(bound, bounds[0]);
    if (bound.cost < bounds[1].cost)
      bounds[1] = bound;
  }

  void push(Path path, const AtomSharding &end) {
    path.end = &settled.try_emplace(end).first->first;
    paths.push_back(path);
    queue.push(int32_t(paths.size()) - 1);
  }

  ReshardPlan getPlan(int32_t index) {
    std::vector<const Path *> way;
    for (; paths[index].before >= 0; index = paths[index].before)
      way.insert(way.begin(), &paths[index]);
    ReshardPlan plan;
    const AtomSharding *from = &space.getSource();
    for (size_t i = 0; i < way.size(); ++i) {
      // Slices that split are one if they stand in a row.
      if (i + 1 < way.size() && way[i]->kind == CollectiveKind::Slice &&
          way[i + 1]->kind == CollectiveKind::Slice &&
          from->partial == way[i + 1]->end->partial)
        continue;
      addStep(plan, way[i]->kind, *from, *way[i]->end);
      from = way[i]->end;
    }
    plan.extraElements -= maxElements;
    return plan;
  }

  void addStep(ReshardPlan &plan, CollectiveKind kind, const AtomSharding &from,
               const AtomSharding &to) {
    plan.steps.push_back(space.getStep(mesh, kind, from, to));
    const int64_t before = space.getBlockElements(from);
    const int64_t after = space.getBlockElements(to);
    plan.costUs +=
        prices.getCost(space.getFigures(mesh, kind, from, to), before, after);
    plan.extraElements = std::max(plan.extraElements, before + after);
  }

  /// Cheaper first; of equal ones the shorter, then the one that needs no
  /// exchange, then the one found first.
  struct IsDearer {
    const std::vector<Path> &paths;
    auto getRank(int32_t index) const {
      const Path &path = paths[index];
      return std::tuple(path.cost, path.length,
                        path.kind == CollectiveKind::Exchange, index);
    }
    bool operator()(int32_t a, int32_t b) const {
      return getRank(a) > getRank(b);
    }
  };

  struct Bound {
    double cost = std::numeric_limits<double>::infinity();
    uint64_t shape = ~uint64_t(0);
  };

  /// Bounds the time on meshes of many axes; the plan is then the best found.
  static constexpr int32_t maxExpanded = 2000;
  static constexpr int32_t maxLength = 15; ///< so that a shape fits 64 bits

  const Mesh &mesh;
  const AtomSpace &space;
  StepPrices prices;
  const bool acrossHosts;
  const int64_t maxElements;
  std::vector<Path> paths;
  std::map<AtomSharding, std::vector<uint64_t>> settled;
  std::priority_queue<int32_t, std::vector<int32_t>, IsDearer> queue{
      IsDearer{paths}};
  Bound bounds[2]; ///< of the two cheapest shapes, cheaper first
};

/// The kinds of the steps that communicate.
std::vector<CollectiveKind> getShape(const ReshardPlan &plan) {
  std::vector<CollectiveKind> kinds;
  for (const ReshardStep &step : plan.steps)
    if (step.kind != CollectiveKind::Slice)
      kinds.push_back(step.kind);
  return kinds;
}

int64_t getElements(std::span<const int64_t> sizes, const Sharding &sharding) {
  int64_t elements = 1;
  for (int64_t size : getLocalShape(sizes, sharding))
    elements *= size;
  return elements;
}

/// Plans to a target with windows: to each sharding from which one step goes
/// there, and that step.
class WindowPlanner {
public:
  WindowPlanner(const Mesh &mesh, std::span<const int64_t> sizes,
                int64_t elementBytes, const Sharding &source,
                const Sharding &target, const Machine &machine)
      : mesh(mesh), sizes(sizes), elementBytes(elementBytes), source(source),
        target(target), machine(machine) {}

  ReshardChoice plan() const {
    std::vector<ReshardPlan> plans;
    const int64_t maxElements =
        std::max(getElements(sizes, source), getElements(sizes, target));
    for (const Sharding &last : getWindowSources(mesh, source, target)) {
      if (getElements(sizes, last) > maxElements)
        continue;
      ReshardChoice way =
          planReshard(mesh, sizes, elementBytes, source, last, machine);
      plans.push_back(extend(std::move(way.best), last));
      if (way.secondBest)
        plans.push_back(extend(std::move(*way.secondBest), last));
    }
    auto best = std::min_element(plans.begin(), plans.end(), isCheaper);
    ReshardChoice choice{*best, std::nullopt};
    const std::vector<CollectiveKind> shape = getShape(*best);
    if (shape.empty())
      return choice;
    std::erase_if(plans, [&](const ReshardPlan &plan) {
      return getShape(plan) == shape;
    });
    auto second = std::min_element(plans.begin(), plans.end(), isCheaper);
    if (second != plans.end())
      choice.secondBest = std::move(*second);
    return choice;
  }

private:
  static bool isCheaper(const ReshardPlan &a, const ReshardPlan &b) {
    return std::tuple(a.costUs, a.steps.size()) <
           std::tuple(b.costUs, b.steps.size());
  }

  ReshardPlan extend(ReshardPlan plan, const Sharding &last) const {
    const CollectiveKind kind =
        isWindowStep(mesh, sizes, CollectiveKind::Slice, last, target)
            ? CollectiveKind::Slice
            : CollectiveKind::Exchange;
    plan.steps.push_back(getWindowStep(mesh, sizes, kind, last, target));
    plan.costUs +=
        getCost(mesh, sizes, elementBytes, plan.steps.back(), machine);
    int64_t most = 0;
    for (const ReshardStep &step : plan.steps)
      most = std::max(most, getElements(sizes, step.source) +
                                getElements(sizes, step.target));
    plan.extraElements =
        most - std::max(getElements(sizes, source), getElements(sizes, target));
    return plan;
  }

  const Mesh &mesh;
  std::span<const int64_t> sizes;
  const int64_t elementBytes;
  const Sharding &source;
  const Sharding &target;
  const Machine &machine;
};

} // namespace

ReshardChoice layout::planReshard(const Mesh &mesh,
                                  std::span<const int64_t> sizes,
                                  int64_t elementBytes, const Sharding &source,
                                  const Sharding &target,
                                  const Machine &machine) {
  if (source == target)
    return {};
  assert(!source.hasWindow() && "no device owns a part of a window");
  if (target.hasWindow())
    return WindowPlanner(mesh, sizes, elementBytes, source, target, machine)
        .plan();
  AtomSpace space(mesh, sizes, source, target, machine.hasSeveralHosts(mesh));
  if (space.getSource() == space.getTarget())
    return {};
  return PathFinder(mesh, space, elementBytes, machine).find();
}

const ReshardChoice &ReshardPlans::get(const ShardingChange &change,
                                       int64_t elementBytes) {
  auto [place, isFirst] = choices.try_emplace({change, elementBytes});
  if (isFirst)
    place->second = planReshard(mesh, change.sizes, elementBytes, change.source,
                                change.target, machine);
  return place->second;
}
