// Which integers an input may have where they are used as indices.

#include "frontend/BuilderState.h"

#include "llvm/ADT/MapVector.h"

#include <algorithm>
#include <limits>

using namespace meshc;
using namespace meshc::frontend;

/// The number after the last one of an integer type, or the last one of i64.
static int64_t getEnd(mlir::Type type) {
  const unsigned bits = type.getIntOrFloatBitWidth();
  if (bits == 64)
    return std::numeric_limits<int64_t>::max();
  return int64_t(1) << (type.isUnsignedInteger() ? bits : bits - 1);
}

/// What a conversion of elements for data is of; any other value itself.
static mlir::Value skipCast(mlir::Value value) {
  auto cast = value.getDefiningOp<nd::CastOp>();
  return cast && nd::isForData(cast.getInput().getType().getElementType())
             ? cast.getInput()
             : value;
}

void BuilderState::noteIndex(mlir::Value index, int64_t bound) {
  IndexUse use;
  use.bound = bound;
  mlir::Value given = skipCast(index);
  if (auto view = given.getDefiningOp<nd::ViewOp>()) {
    // One dim at the positions that follow each other from some place on.
    if (view.getAccesses().size() != 1)
      return;
    auto access = mlir::cast<nd::AccessAttr>(view.getAccesses()[0]);
    if (access.getKind() != nd::AccessKind::Exact || access.getDivisor() != 1 ||
        access.getLoops().size() != 1 || access.getFactors()[0] != 1)
      return;
    const auto type = view.getType();
    const int64_t dim = type.findDim(access.getLoops()[0].getValue());
    use.dim = access.getDim().str();
    use.first = access.getOffset();
    use.end = use.first + type.getSizes()[size_t(dim)];
    given = skipCast(view.getInput());
  }
  use.input = given.getDefiningOp<nd::InputOp>();
  if (use.input)
    indexUses.push_back(use);
}

/// The bound of an input by its uses; none where a part of it is no index.
static std::optional<int64_t>
getBound(std::vector<BuilderState::IndexUse> &uses) {
  std::optional<int64_t> least, most;
  for (const BuilderState::IndexUse &use : uses)
    if (use.dim.empty())
      least = std::min(least.value_or(use.bound), use.bound);
  if (least)
    return least;
  // What every position has to keep to is what the loosest of them has to.
  std::sort(uses.begin(), uses.end(),
            [](const auto &a, const auto &b) { return a.first < b.first; });
  int64_t covered = 0;
  for (const BuilderState::IndexUse &use : uses) {
    if (use.dim != uses.front().dim || use.first > covered)
      return std::nullopt;
    covered = std::max(covered, use.end);
    most = std::max(most.value_or(use.bound), use.bound);
  }
  nd::InputOp input = uses.front().input;
  const int64_t dim = input.getType().findDim(uses.front().dim);
  return covered < input.getType().getSizes()[size_t(dim)] ? std::nullopt
                                                           : most;
}

void BuilderState::finishIndexBounds() {
  // In the order of the program.
  llvm::MapVector<mlir::Operation *, std::vector<IndexUse>> inputsUsed;
  for (const IndexUse &use : indexUses)
    inputsUsed[use.input].push_back(use);
  for (auto &[input, uses] : inputsUsed)
    if (std::optional<int64_t> bound = getBound(uses)) {
      auto op = mlir::cast<nd::InputOp>(input);
      op.setIndexBound(std::min(*bound, getEnd(op.getType().getElementType())));
    }
}
