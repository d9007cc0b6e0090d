#include "frontend/driver/Sharing.h"

#include "dialect/ND.h"

#include <algorithm>
#include <map>

using namespace mlir;
using namespace meshc;
using namespace meshc::driver;

void Sharing::noteLoops(ModuleOp module) {
  module.walk([&](nd::LoopOp loop) {
    if (!loop.getInitial().empty())
      carrying.insert(loop.getDim().getName().getValue());
  });
}

/// The products that an einsum adds up, as a double: an estimate.
static double countProducts(nd::EinsumOp einsum) {
  double products = 1;
  for (nd::DimAttr dim :
       cast<nd::PartitionOpInterface>(einsum.getOperation()).getIterationDims())
    products *= double(dim.getSize());
  return products;
}

void Sharing::measureProducts(ModuleOp module) {
  const layout::Mesh mesh = nd::getMesh(module);
  shared.assign(mesh.getAxes().size(), 1);
  auto program = module.lookupSymbol<nd::ProgramOp>("step");
  if (!program)
    program = module.lookupSymbol<nd::ProgramOp>("eval");
  if (!program)
    return;
  double all = 0;
  std::vector<double> split(shared.size());
  program.walk([&](nd::EinsumOp einsum) {
    const double products = countProducts(einsum);
    std::vector<bool> isSplit(split.size());
    // A dim that is summed is one of an operand.
    for (mlir::Value operand : einsum->getOperands())
      for (const layout::DimSplit &dim :
           nd::getSharding(cast<nd::NamedTensorType>(operand.getType()), mesh)
               .dims)
        for (const layout::AxisRef &axis : dim)
          isSplit[size_t(axis.axis)] = true;
    all += products;
    for (size_t axis = 0; axis < split.size(); ++axis)
      split[axis] += isSplit[axis] ? products : 0;
  });
  if (all > 0)
    for (size_t axis = 0; axis < split.size(); ++axis)
      shared[axis] = split[axis] / all;
}

void Sharing::writeTo(exec::ExecutableT &executable) const {
  for (size_t axis = 0; axis < shared.size(); ++axis)
    executable.mesh->axes[axis]->shared = shared[axis];
  for (const auto &dim : executable.dims)
    dim->carries = carrying.contains(dim->name);
}
