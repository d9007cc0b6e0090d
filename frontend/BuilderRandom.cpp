// Random numbers: from which seed they are drawn, and under which key.

#include "frontend/BuilderState.h"

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::frontend;

BuilderState::Draws &BuilderState::getDraws() {
  mlir::OpBuilder::InsertionGuard guard(operations);
  if (!loops.empty())
    operations.restoreInsertionPoint(loops.front().outside);
  Draws &all = draws[operations.getInsertionBlock()];
  if (!all.seed)
    all.seed =
        nd::InputOp::create(operations, mlir::UnknownLoc::get(context),
                            mlir::Type(nd::NamedTensorType::get(
                                {}, mlir::IntegerType::get(context, 64))),
                            nd::InputOp::seedName);
  return all;
}

void Builder::setParts(int64_t number,
                       std::set<std::string, std::less<>> dims) {
  state->numParts = number;
  state->parted = std::move(dims);
}

void Builder::addParted(const std::string &dim) { state->parted.insert(dim); }

bool Builder::isParted(std::string_view dim) const {
  return state->isParted(dim);
}

bool BuilderState::isParted(std::string_view dim) const {
  return parted.contains(dim.substr(0, dim.find_last_not_of('\'') + 1));
}

mlir::Value BuilderState::getPart() {
  Draws &all = getDraws();
  if (!all.part) {
    mlir::OpBuilder first =
        mlir::OpBuilder::atBlockBegin(all.seed.getParentBlock());
    all.part = nd::InputOp::create(
        first, mlir::UnknownLoc::get(context),
        mlir::Type(nd::NamedTensorType::get({}, first.getI32Type())),
        nd::InputOp::partName);
  }
  return all.part;
}

mlir::Value BuilderState::getSeed(mlir::Location location) {
  const mlir::Value seed = getDraws().seed;
  const auto scalar = mlir::cast<nd::NamedTensorType>(seed.getType());
  // The iterations of all loops around are one number, the outer ones major.
  mlir::Value iteration;
  for (const Loop &loop : loops) {
    mlir::Value position =
        nd::CastOp::create(operations, location, loop.region->getArgument(0),
                           scalar.getElementType());
    auto addTo = [&](mlir::Value major, int64_t size, mlir::Value minor) {
      mlir::Value factor = nd::ConstantOp::create(
          operations, location, scalar, operations.getI64IntegerAttr(size));
      return nd::AddOp::create(
          operations, location,
          nd::MulOp::create(operations, location, major, factor), minor);
    };
    // As nd.random counts.
    const bool isOfPart = isDrawnInParts(loop.dim.name);
    if (isOfPart)
      position = addTo(position, numParts,
                       nd::CastOp::create(operations, location, getPart(),
                                          scalar.getElementType()));
    if (iteration)
      position =
          addTo(iteration, loop.dim.size * (isOfPart ? numParts : 1), position);
    iteration = position;
  }
  if (!iteration)
    return seed;
  return nd::FoldInOp::create(operations, location, seed, iteration);
}

nd::Distribution BuilderState::getDistribution(Initializer::Kind kind) {
  switch (kind) {
  case Initializer::Kind::Normal:
    return nd::Distribution::Normal;
  case Initializer::Kind::TruncatedNormal:
    return nd::Distribution::TruncatedNormal;
  case Initializer::Kind::Uniform:
    return nd::Distribution::Uniform;
  case Initializer::Kind::Fill:
  case Initializer::Kind::Computed:
    break;
  }
  llvm_unreachable("nothing is drawn");
}

Tensor Builder::random(const std::string &name, Initializer distribution,
                       ElementType type, const std::vector<Dim> &dims,
                       const Where &where) {
  if (!isFloat(type)) {
    state->fail(
        Code::WrongElementType, where,
        fmt::format("random numbers are floats, not {}", getName(type)));
    return {};
  }
  if (!state->checkType(type, dims, where))
    return {};
  const std::string fullName =
      state->update ? state->getVariableName(name) : state->getFullName(name);
  // No parameter is called so.
  const int64_t key = nd::getRandomKey(
      fmt::format("{}#{}", fullName, state->getDraws().numbers[fullName]++));
  mlir::OpBuilder &operations = state->operations;
  llvm::SmallVector<mlir::StringRef> order, parted;
  for (const Dim &dim : dims) {
    order.push_back(dim.name);
    if (state->isDrawnInParts(dim.name))
      parted.push_back(order.back());
  }
  return state->create<nd::RandomOp>(
      where, type, dims, BuilderState::getDistribution(distribution.kind),
      state->getSeed(state->getLocation(where)),
      parted.empty() ? mlir::Value() : state->getPart(), key,
      llvm::APFloat(distribution.first), llvm::APFloat(distribution.second),
      operations.getStrArrayAttr(order),
      parted.empty() ? 1 : uint64_t(state->numParts),
      parted.empty() ? mlir::ArrayAttr() : operations.getStrArrayAttr(parted));
}
