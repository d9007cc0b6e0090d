#include "passes/ContractionOrder.h"

#include <limits>

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

/// Trees are searched for up to this many inputs: 3^8 = 6561 splits.
static constexpr size_t maxSearched = 8;

namespace {

/// A tensor that may be multiplied: an input or a product of a subset.
struct Factor {
  unsigned number;
  NamedTensorType type;
};

/// The cheapest tree over a subset of the factors.
struct Tree {
  NamedTensorType type;
  double cost = std::numeric_limits<double>::infinity();
  unsigned left = 0; ///< subset; the rest is on the right
};

/// Searches the cheapest tree over few factors.
class TreeSearch {
public:
  /// `needed` are the dimensions that the product must keep.
  TreeSearch(ArrayRef<Factor> factors, NamedTensorType needed,
             const layout::Machine &machine)
      : factors(factors), needed(needed), machine(machine),
        trees(1u << factors.size()) {}

  /// Appends the steps of the cheapest tree; numbers of results start at
  /// `next`. Returns the product.
  Factor run(SmallVectorImpl<Contraction> &steps, unsigned &next);

private:
  NamedTensorType getProductType(unsigned subset) const;
  double getCost(const Tree &lhs, const Tree &rhs, NamedTensorType type) const;
  Factor emit(unsigned subset, SmallVectorImpl<Contraction> &steps,
              unsigned &next) const;

  ArrayRef<Factor> factors;
  NamedTensorType needed;
  const layout::Machine &machine;
  std::vector<Tree> trees; ///< by subset
};

} // namespace

/// The dimensions of a subset that are needed outside of it; those of the whole
/// come in the order in which they are needed.
NamedTensorType TreeSearch::getProductType(unsigned subset) const {
  if (subset + 1 == trees.size())
    return needed;
  SmallVector<DimAttr> dims;
  for (auto [member, factor] : llvm::enumerate(factors)) {
    if (!(subset >> member & 1))
      continue;
    for (DimAttr dim : factor.type.getDims()) {
      bool isNeeded = needed.hasDim(dim.getName());
      for (auto [other, outer] : llvm::enumerate(factors))
        isNeeded |= !(subset >> other & 1) && outer.type.hasDim(dim.getName());
      if (isNeeded && !llvm::is_contained(dims, dim))
        dims.push_back(dim);
    }
  }
  // A product on the way is an operand again, whatever the result's type.
  return NamedTensorType::get(dims, factors.front().type.getElementType());
}

double TreeSearch::getCost(const Tree &lhs, const Tree &rhs,
                           NamedTensorType type) const {
  double points = 1;
  for (DimAttr dim : lhs.type.getDims())
    points *= double(dim.getSize());
  for (DimAttr dim : rhs.type.getDims())
    if (!lhs.type.hasDim(dim.getName()))
      points *= double(dim.getSize());
  double elements = double(lhs.type.getNumElements()) +
                    double(rhs.type.getNumElements()) +
                    double(type.getNumElements());
  double bytes = elements * type.getElementType().getIntOrFloatBitWidth() / 8;
  const auto element = nd::findMatmulType(type.getElementType());
  const auto price = element
                         ? machine.findMatmulPrice(*element, 2 * points, bytes)
                         : std::nullopt;
  return lhs.cost + rhs.cost +
         (price ? *price : machine.getKernelPrice(2 * points, bytes)).us;
}

Factor TreeSearch::run(SmallVectorImpl<Contraction> &steps, unsigned &next) {
  for (auto [member, factor] : llvm::enumerate(factors))
    trees[1u << member] = {factor.type, 0, 0};
  for (unsigned subset = 1; subset < trees.size(); ++subset) {
    Tree &tree = trees[subset];
    if (llvm::has_single_bit(subset))
      continue;
    tree.type = getProductType(subset);
    // Each split once: the side with the lowest member is the left one.
    for (unsigned left = (subset - 1) & subset; left;
         left = (left - 1) & subset) {
      if ((left & -left) != (subset & -subset))
        continue;
      double cost = getCost(trees[left], trees[subset ^ left], tree.type);
      if (cost < tree.cost || tree.left == 0) {
        tree.cost = cost;
        tree.left = left;
      }
    }
  }
  return emit(unsigned(trees.size() - 1), steps, next);
}

Factor TreeSearch::emit(unsigned subset, SmallVectorImpl<Contraction> &steps,
                        unsigned &next) const {
  if (llvm::has_single_bit(subset))
    return factors[llvm::countr_zero(subset)];
  const Tree &tree = trees[subset];
  Factor lhs = emit(tree.left, steps, next);
  Factor rhs = emit(subset ^ tree.left, steps, next);
  steps.push_back({lhs.number, rhs.number, tree.type});
  return {next++, tree.type};
}

SmallVector<Contraction>
meshc::orderContractions(ArrayRef<NamedTensorType> inputs,
                         NamedTensorType result,
                         const layout::Machine &machine) {
  SmallVector<Factor> factors;
  for (auto [number, type] : llvm::enumerate(inputs))
    factors.push_back({unsigned(number), type});
  unsigned next = unsigned(inputs.size());
  SmallVector<Contraction> steps;
  while (factors.size() > 1) {
    size_t count = std::min(maxSearched, factors.size());
    ArrayRef<Factor> searched = ArrayRef(factors).take_front(count);
    ArrayRef<Factor> rest = ArrayRef(factors).drop_front(count);
    // What the rest or the result needs of the searched ones.
    NamedTensorType needed = result;
    if (!rest.empty()) {
      SmallVector<DimAttr> dims;
      for (const Factor &factor : searched)
        for (DimAttr dim : factor.type.getDims())
          if (!llvm::is_contained(dims, dim) &&
              (result.hasDim(dim.getName()) ||
               llvm::any_of(rest, [&](const Factor &other) {
                 return other.type.hasDim(dim.getName());
               })))
            dims.push_back(dim);
      needed = NamedTensorType::get(dims, inputs.front().getElementType());
    }
    Factor product = TreeSearch(searched, needed, machine).run(steps, next);
    SmallVector<Factor> remaining{product};
    llvm::append_range(remaining, rest);
    factors = std::move(remaining);
  }
  return steps;
}
