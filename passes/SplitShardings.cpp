// The shardings that the split of an operation's loops gives its operands and
// results.

#include "dialect/Casts.h"
#include "passes/IterationSplit.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

/// Dimensions are split as the loops that they are; others are whole.
static layout::Sharding
getSharding(NamedTensorType type, const IterationSplit &split,
            llvm::function_ref<DimAccess(DimAttr)> getAccess) {
  layout::Sharding sharding;
  for (DimAttr dim : type.getDims()) {
    StringAttr loop = getAccess(dim).getSplitLoop();
    sharding.dims.push_back(loop ? split.get(loop) : layout::DimSplit());
  }
  return sharding;
}

/// The one split loop of `access`; null if none or several are.
static StringAttr findSplitLoop(const DimAccess &access,
                                const IterationSplit &split) {
  StringAttr found;
  for (StringAttr loop : access.getLoops()) {
    if (split.get(loop).empty())
      continue;
    if (found)
      return {};
    found = loop;
  }
  return found;
}

/// Whether other dimensions have none of these axes.
static bool areFree(const layout::Sharding &sharding,
                    const layout::DimSplit &axes) {
  for (const layout::DimSplit &other : sharding.dims)
    for (layout::AxisRef taken : other)
      for (layout::AxisRef axis : axes)
        if (taken.axis == axis.axis && taken.pre < axis.pre * axis.size &&
            axis.pre < taken.pre * taken.size)
          return false;
  return true;
}

/// Splits dimension `number` as the digits of loops are, if they have blocks.
static bool addDigits(layout::Sharding &sharding, size_t number, DimAttr dim,
                      const DimAccess &access, const IterationSplit &split) {
  const auto blocks =
      findDigitBlocks(access, dim.getSize(), split.dims,
                      [&](StringAttr loop) { return split.get(loop); });
  if (!blocks || !areFree(sharding, blocks->split))
    return false;
  sharding.dims[number] = blocks->split;
  return true;
}

/// Splits dimension `number`, which is no loop, as a window where blocks of one
/// loop read one that is smaller than the dimension.
static void addWindow(layout::Sharding &sharding, size_t number, DimAttr dim,
                      const DimAccess &access, const IterationSplit &split) {
  StringAttr loop = findSplitLoop(access, split);
  if (!loop)
    return;
  auto window = getWindow(access, loop, split.dims);
  const layout::DimSplit &axes = split.get(loop);
  if (!window || !window->fits(axes))
    return;
  // A loop that another dimension is has its axes already.
  for (const layout::DimSplit &other : sharding.dims)
    if (other == axes)
      return;
  layout::Sharding windowed = sharding;
  windowed.dims[number] = axes;
  windowed.windows.resize(sharding.dims.size());
  windowed.windows[number] = std::move(window);
  const int64_t held = layout::getLocalSize(dim.getSize(), windowed, number);
  const int64_t modulus = windowed.getWindow(number)->modulus;
  if (held < dim.getSize() && (modulus == 0 || held <= modulus))
    sharding = std::move(windowed);
}

layout::Sharding meshc::getOperandSharding(PartitionOpInterface op,
                                           unsigned operand,
                                           const IterationSplit &split) {
  auto type = cast<NamedTensorType>(op->getOperand(operand).getType());
  auto getAccess = [&](DimAttr dim) {
    return op.getOperandAccess(operand, dim.getName());
  };
  layout::Sharding sharding = getSharding(type, split, getAccess);
  llvm::SmallDenseSet<size_t> areDigits;
  for (auto [number, dim] : llvm::enumerate(type.getDims()))
    if (DimAccess access = getAccess(dim);
        !access.getSplitLoop() &&
        addDigits(sharding, number, dim, access, split))
      areDigits.insert(number);
  // Of the digits of a loop whose blocks are none of theirs the quotient has
  // the axes, if it can.
  for (bool isRing : {false, true})
    for (auto [number, dim] : llvm::enumerate(type.getDims()))
      if (DimAccess access = getAccess(dim);
          !access.getSplitLoop() && !areDigits.contains(number) &&
          isRing ==
              (access.getForm().getKind() == layout::Access::Kind::Modulo))
        addWindow(sharding, number, dim, access, split);
  return sharding;
}

layout::Sharding meshc::getResultSharding(PartitionOpInterface op,
                                          unsigned result,
                                          const IterationSplit &split) {
  auto type = cast<NamedTensorType>(op->getResult(result).getType());
  return getSharding(type, split, [&](DimAttr dim) {
    return op.getResultAccess(result, dim.getName());
  });
}

/// Whether a dimension of the result follows from the loop `name` alone.
static bool hasLoop(PartitionOpInterface op, unsigned result, StringAttr name) {
  auto type = cast<NamedTensorType>(op->getResult(result).getType());
  return llvm::any_of(type.getDims(), [&](DimAttr dim) {
    return op.getResultAccess(result, dim.getName()).getSplitLoop() == name;
  });
}

Terms meshc::getOwnTerms(PartitionOpInterface op, unsigned result,
                         const IterationSplit &split) {
  Terms terms;
  for (auto [dim, axes] : llvm::zip_equal(split.dims, split.splits)) {
    if (axes.empty())
      continue;
    DimUse use = op.getDimUse(dim.getName());
    if (!use.isReduced() || hasLoop(op, result, dim.getName()))
      continue;
    terms.kind = toLayout(use.reduce);
    terms.axes.insert(terms.axes.end(), axes.begin(), axes.end());
  }
  llvm::sort(terms.axes);
  return terms;
}
