#include "dialect/interpreter/Blocks.h"

#include "llvm/Support/ErrorHandling.h"

#include <bit>
#include <cstring>
#include <limits>
#include <set>

using namespace meshc;
using namespace meshc::interpreter;

namespace {

/// The position of a device on the partial axes: which term it holds.
using Position = std::vector<int64_t>;

template <class Domain>
using TermTensors = std::map<Position, Tensor<Domain>>; // whole tensors

Position getPosition(const layout::Mesh &mesh,
                     const std::vector<layout::AxisRef> &parts,
                     int64_t device) {
  std::vector<int64_t> coordinates = mesh.getCoordinates(device);
  Position position;
  for (layout::AxisRef part : parts)
    position.push_back(mesh.getCoordinate(part, coordinates));
  return position;
}

/// A box of a whole tensor that a device has.
struct Owned {
  Sizes counts; ///< elements per dimension
  Walked whole, block;
};

/// The boxes that a device has: one, but around a ring.
std::vector<Owned> getOwned(const layout::Mesh &mesh,
                            llvm::ArrayRef<int64_t> sizes,
                            const layout::Sharding &sharding, int64_t device) {
  std::vector<int64_t> coordinates = mesh.getCoordinates(device);
  std::vector<Owned> boxes(1);
  boxes[0].whole.strides = getStrides(sizes);
  boxes[0].block.strides = getStrides(layout::getLocalShape(sizes, sharding));
  for (size_t d = 0; d < sizes.size(); ++d) {
    std::vector<Owned> cut;
    for (const layout::HeldRun &run :
         layout::getHeldRuns(mesh, sizes[d], sharding, d, coordinates))
      for (Owned box : boxes) {
        const layout::Range held = run.range;
        const int64_t begin = std::max<int64_t>(0, held.offset);
        const int64_t end = std::min(sizes[d], held.offset + held.count);
        box.counts.push_back(std::max<int64_t>(0, end - begin));
        box.whole.base += begin * box.whole.strides[d];
        box.block.base +=
            (run.element + begin - held.offset) * box.block.strides[d];
        cut.push_back(std::move(box));
      }
    boxes = std::move(cut);
  }
  return boxes;
}

/// Elements per dimension of a block that are no padding, with what a window
/// has outside the tensor, from the begin of the block on.
Sizes getHeld(const layout::Mesh &mesh, llvm::ArrayRef<int64_t> sizes,
              const layout::Sharding &sharding, int64_t device) {
  Sizes held;
  for (size_t d = 0; d < sizes.size(); ++d)
    held.push_back(layout::getHeldRange(mesh, sizes[d], sharding, d,
                                        mesh.getCoordinates(device))
                       .count);
  return held;
}

/// NaNs of different bits are told apart, 0 from -0 too.
template <class Number> bool isSame(const Number &a, const Number &b) {
  if constexpr (std::is_same_v<Number, double>)
    return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
  else
    return a == b;
}

template <class Domain>
bool isSameScalar(const Scalar<Domain> &a, const Scalar<Domain> &b) {
  using Number = typename Domain::Number;
  if (std::holds_alternative<Number>(a) && std::holds_alternative<Number>(b))
    return isSame(asNumber<Domain>(a), asNumber<Domain>(b));
  return a == b;
}

template <class Domain>
Scalar<Domain> getIdentity(layout::ReduceKind reduce, ElementKind kind) {
  bool isBoolean = kind.width == 1;
  int64_t lowest =
      isBoolean ? 0 : wrapInteger(int64_t(1) << (kind.width - 1), kind.width);
  double infinity = std::numeric_limits<double>::infinity();
  switch (reduce) {
  case layout::ReduceKind::None:
    break;
  case layout::ReduceKind::Sum:
    if (kind.isFloat)
      return Domain::getConstant(0);
    return int64_t(0);
  case layout::ReduceKind::Max:
    if (kind.isFloat)
      return Domain::getConstant(-infinity);
    return lowest;
  case layout::ReduceKind::Min:
    if (kind.isFloat)
      return Domain::getConstant(infinity);
    return isBoolean ? int64_t(1) : ~lowest;
  }
  llvm_unreachable("a whole value has no identity");
}

template <class Domain>
ScalarFunction<Domain> getCombination(layout::ReduceKind reduce,
                                      ElementKind kind) {
  switch (reduce) {
  case layout::ReduceKind::None:
    break;
  case layout::ReduceKind::Sum:
    return findFunction<Domain>("add", kind, 2);
  case layout::ReduceKind::Max:
    return findFunction<Domain>("maximum", kind, 2);
  case layout::ReduceKind::Min:
    return findFunction<Domain>("minimum", kind, 2);
  }
  llvm_unreachable("terms without a kind of reduction");
}

/// Joins the blocks of each term.
template <class Domain>
std::optional<TermTensors<Domain>>
joinBlocks(const layout::Mesh &mesh, llvm::ArrayRef<int64_t> sizes,
           const layout::Sharding &sharding, const Blocks<Domain> &blocks,
           std::string &error) {
  TermTensors<Domain> terms;
  std::map<Position, std::vector<int64_t>> writers; // of each element
  std::vector<int64_t> shape = layout::getLocalShape(sizes, sharding);
  for (int64_t device = 0; device < mesh.getNumDevices(); ++device) {
    const Tensor<Domain> &block = blocks[device];
    if (block.sizes != llvm::ArrayRef<int64_t>(shape)) {
      error = "device " + std::to_string(device) +
              " holds a block of the wrong sizes";
      return std::nullopt;
    }
    Position position = getPosition(mesh, sharding.partialAxes, device);
    Tensor<Domain> &term =
        terms.try_emplace(position, Tensor<Domain>(sizes)).first->second;
    std::vector<int64_t> &writer = writers[position];
    writer.resize(term.elements.size(), -1);
    for (const Owned &owned : getOwned(mesh, sizes, sharding, device))
      forEachPoint(
          owned.counts, {owned.whole, owned.block},
          [&](llvm::ArrayRef<int64_t>, llvm::ArrayRef<int64_t> at) {
            const Scalar<Domain> &element = block.elements[at[1]];
            if (writer[at[0]] < 0) {
              writer[at[0]] = device;
              term.elements[at[0]] = element;
            } else if (error.empty() &&
                       !isSameScalar<Domain>(term.elements[at[0]], element)) {
              error = "devices " + std::to_string(writer[at[0]]) + " and " +
                      std::to_string(device) + " disagree about element " +
                      std::to_string(at[0]);
            }
          });
  }
  if (!error.empty())
    return std::nullopt;
  return terms;
}

/// Cuts each device's block from the term at its position.
template <class Domain>
Blocks<Domain> cutBlocks(const layout::Mesh &mesh,
                         llvm::ArrayRef<int64_t> sizes,
                         const layout::Sharding &sharding, ElementKind kind,
                         const TermTensors<Domain> &terms) {
  Blocks<Domain> blocks;
  for (int64_t device = 0; device < mesh.getNumDevices(); ++device) {
    const Tensor<Domain> &term =
        terms.at(getPosition(mesh, sharding.partialAxes, device));
    Tensor<Domain> block(layout::getLocalShape(sizes, sharding));
    if (sharding.hasWindow())
      forEachPoint(getHeld(mesh, sizes, sharding, device),
                   {Walked{0, getStrides(block.sizes)}},
                   [&](llvm::ArrayRef<int64_t>, llvm::ArrayRef<int64_t> at) {
                     block.elements[at[0]] =
                         getIdentity<Domain>(layout::ReduceKind::Sum, kind);
                   });
    for (const Owned &owned : getOwned(mesh, sizes, sharding, device))
      forEachPoint(owned.counts, {owned.whole, owned.block},
                   [&](llvm::ArrayRef<int64_t>, llvm::ArrayRef<int64_t> at) {
                     block.elements[at[1]] = term.elements[at[0]];
                   });
    blocks.push_back(std::move(block));
  }
  return blocks;
}

template <class Domain>
void combineInto(Tensor<Domain> &sum, const Tensor<Domain> &term,
                 const ScalarFunction<Domain> &combination) {
  for (size_t i = 0; i < sum.elements.size(); ++i)
    sum.elements[i] = combination({sum.elements[i], term.elements[i]});
}

/// The terms over the partial axes of `target`, from those over the partial
/// axes of `source`.
///
/// A target term takes every source term of the devices that share its
/// position. Axes that are partial in both shardings thereby keep their terms,
/// axes that are partial in `source` alone are combined; axes that are partial
/// in `target` alone hold the value at their first position and the identity
/// elsewhere.
template <class Domain>
TermTensors<Domain> moveTerms(const layout::Mesh &mesh,
                              const layout::Sharding &source,
                              const layout::Sharding &target, ElementKind kind,
                              const TermTensors<Domain> &terms) {
  std::map<Position, std::set<Position>> sources, targets;
  for (int64_t device = 0; device < mesh.getNumDevices(); ++device) {
    Position before = getPosition(mesh, source.partialAxes, device);
    Position after = getPosition(mesh, target.partialAxes, device);
    sources[after].insert(before);
    targets[before].insert(after);
  }
  TermTensors<Domain> moved;
  for (const auto &[after, befores] : sources) {
    const Tensor<Domain> &first = terms.at(*befores.begin());
    if (*targets[*befores.begin()].begin() != after) {
      moved.emplace(
          after, Tensor<Domain>(first.sizes,
                                getIdentity<Domain>(target.partialKind, kind)));
      continue;
    }
    Tensor<Domain> sum = first;
    if (befores.size() > 1) {
      // Sums of 16-bit floats are rounded once.
      auto combination =
          getCombination<Domain>(source.partialKind, kind.unrounded());
      for (auto it = std::next(befores.begin()); it != befores.end(); ++it)
        combineInto(sum, terms.at(*it), combination);
      for (Scalar<Domain> &element : sum.elements)
        element = roundTo<Domain>(element, kind);
    }
    moved.emplace(after, std::move(sum));
  }
  return moved;
}

layout::Sharding getReplicated(size_t rank) {
  layout::Sharding sharding;
  sharding.dims.resize(rank);
  return sharding;
}

} // namespace

template <class Domain>
Blocks<Domain>
interpreter::scatter(const layout::Mesh &mesh, const layout::Sharding &sharding,
                     ElementKind kind, const Tensor<Domain> &whole) {
  TermTensors<Domain> terms = {{Position(), whole}};
  return cutBlocks(mesh, whole.sizes, sharding, kind,
                   moveTerms(mesh, getReplicated(whole.sizes.size()), sharding,
                             kind, terms));
}

template <class Domain>
std::optional<Tensor<Domain>>
interpreter::gather(const layout::Mesh &mesh, llvm::ArrayRef<int64_t> sizes,
                    const layout::Sharding &sharding, ElementKind kind,
                    const Blocks<Domain> &blocks, std::string &error) {
  auto terms = joinBlocks<Domain>(mesh, sizes, sharding, blocks, error);
  if (!terms)
    return std::nullopt;
  return moveTerms(mesh, sharding, getReplicated(sizes.size()), kind, *terms)
      .at(Position());
}

template <class Domain>
std::optional<Blocks<Domain>> interpreter::redistribute(
    const layout::Mesh &mesh, llvm::ArrayRef<int64_t> sizes,
    const layout::Sharding &source, const layout::Sharding &target,
    ElementKind kind, const Blocks<Domain> &blocks, std::string &error) {
  auto terms = joinBlocks<Domain>(mesh, sizes, source, blocks, error);
  if (!terms)
    return std::nullopt;
  return cutBlocks(mesh, sizes, target, kind,
                   moveTerms(mesh, source, target, kind, *terms));
}

#define INSTANTIATE(DOMAIN)                                                    \
  template Blocks<DOMAIN> interpreter::scatter<DOMAIN>(                        \
      const layout::Mesh &, const layout::Sharding &, ElementKind,             \
      const Tensor<DOMAIN> &);                                                 \
  template std::optional<Tensor<DOMAIN>> interpreter::gather<DOMAIN>(          \
      const layout::Mesh &, llvm::ArrayRef<int64_t>, const layout::Sharding &, \
      ElementKind, const Blocks<DOMAIN> &, std::string &);                     \
  template std::optional<Blocks<DOMAIN>> interpreter::redistribute<DOMAIN>(    \
      const layout::Mesh &, llvm::ArrayRef<int64_t>, const layout::Sharding &, \
      const layout::Sharding &, ElementKind, const Blocks<DOMAIN> &,           \
      std::string &);

INSTANTIATE(F64)
