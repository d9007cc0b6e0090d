#include "layout/Sharding.h"

#include "layout/AxisParts.h"

#include <algorithm>
#include <cstdlib>

using namespace meshc;
using namespace meshc::layout;

bool Sharding::isReplicated() const {
  auto splits = [](AxisRef part) { return part.size > 1; };
  for (const DimSplit &split : dims)
    if (std::any_of(split.begin(), split.end(), splits))
      return false;
  return !hasWindow() &&
         std::none_of(partialAxes.begin(), partialAxes.end(), splits);
}

int64_t layout::getLocalSize(int64_t size, const DimSplit &split) {
  for (AxisRef part : split)
    size = ceilDiv(size, part.size);
  return size;
}

Range layout::getOwnedRange(const Mesh &mesh, int64_t size,
                            const DimSplit &split,
                            std::span<const int64_t> coordinates) {
  int64_t begin = 0, end = size, block = size;
  for (AxisRef part : joinParts(split)) {
    block = ceilDiv(block, part.size);
    begin += mesh.getCoordinate(part, coordinates) * block;
    end = std::min(end, begin + block);
  }
  begin = std::min(begin, end);
  return {begin, end - begin};
}

Range Window::getImage(Range block) const {
  const int64_t begin = block.offset;
  const int64_t last = begin + std::max<int64_t>(block.count, 1) - 1;
  const int64_t first =
      divideDown(factor * (factor < 0 ? last : begin) + low, divisor);
  if (block.count == 0)
    return {first, 0};
  return {first,
          divideDown(factor * (factor < 0 ? begin : last) + high, divisor) -
              first + 1};
}

bool Window::fits(const DimSplit &split) const {
  int64_t block = loopSize;
  for (AxisRef part : split) {
    block = ceilDiv(block, part.size);
    if (factor * block % divisor != 0)
      return false;
  }
  return true;
}

int64_t layout::getLocalSize(int64_t size, const Sharding &sharding,
                             size_t dim) {
  const DimSplit &split = sharding.dims[dim];
  if (const Window *window = sharding.getWindow(dim))
    return window->getImage({0, getLocalSize(window->loopSize, split)}).count;
  return getLocalSize(size, split);
}

Range layout::getHeldRange(const Mesh &mesh, int64_t size,
                           const Sharding &sharding, size_t dim,
                           std::span<const int64_t> coordinates) {
  const DimSplit &split = sharding.dims[dim];
  const Window *window = sharding.getWindow(dim);
  if (!window)
    return getOwnedRange(mesh, size, split, coordinates);
  Range block = getOwnedRange(mesh, window->loopSize, split, coordinates);
  // Backwards all begin alike, where a full block does.
  if (window->factor < 0 && block.count > 0)
    block.count = getLocalSize(window->loopSize, split);
  return window->getImage(block);
}

std::vector<HeldRun> layout::getHeldRuns(const Mesh &mesh, int64_t size,
                                         const Sharding &sharding, size_t dim,
                                         std::span<const int64_t> coordinates) {
  const Range held = getHeldRange(mesh, size, sharding, dim, coordinates);
  const Window *window = sharding.getWindow(dim);
  const int64_t modulus = window ? window->modulus : 0;
  if (modulus == 0)
    return {{held, 0}};
  std::vector<HeldRun> runs;
  for (int64_t element = 0; element < held.count;) {
    const int64_t at = held.offset + element;
    const int64_t position = at - divideDown(at, modulus) * modulus;
    const int64_t count = std::min(modulus - position, held.count - element);
    runs.push_back({{position, count}, element});
    element += count;
  }
  return runs;
}

bool layout::dividesEvenly(int64_t size, const DimSplit &split) {
  for (AxisRef part : split) {
    if (size % part.size)
      return false;
    size /= part.size;
  }
  return true;
}

std::vector<int64_t> layout::getLocalShape(std::span<const int64_t> sizes,
                                           const Sharding &sharding) {
  std::vector<int64_t> shape(sizes.size());
  for (size_t d = 0; d < sizes.size(); ++d)
    shape[d] = getLocalSize(sizes[d], sharding, d);
  return shape;
}

Sharding layout::getCanonical(const Mesh &mesh, Sharding sharding) {
  for (DimSplit &split : sharding.dims)
    split = joinParts(split);
  std::sort(sharding.partialAxes.begin(), sharding.partialAxes.end());
  sharding.partialAxes = joinParts(sharding.partialAxes);
  if (sharding.partialAxes.empty())
    sharding.partialKind = ReduceKind::None;
  if (std::none_of(sharding.windows.begin(), sharding.windows.end(),
                   [](const auto &window) { return window.has_value(); }))
    sharding.windows.clear();
  return sharding;
}

static std::string getPartViolation(const Mesh &mesh, AxisRef part) {
  if (part.axis < 0 || part.axis >= mesh.getNumAxes())
    return "axis " + std::to_string(part.axis) +
           " is out of range; the mesh has " +
           std::to_string(mesh.getNumAxes()) + " axes";
  int64_t axisSize = mesh.getAxisSize(part.axis);
  if (part.pre < 1 || part.size < 1 || axisSize % part.pre ||
      axisSize / part.pre % part.size)
    return "part (" + std::to_string(part.pre) + ")" +
           std::to_string(part.size) + " does not fit axis '" +
           mesh.getAxes()[part.axis].name + "' of size " +
           std::to_string(axisSize);
  return {};
}

static std::string getWindowViolation(const Sharding &sharding) {
  if (!sharding.hasWindow())
    return {};
  if (sharding.windows.size() != sharding.dims.size())
    return std::to_string(sharding.windows.size()) + " windows for " +
           std::to_string(sharding.dims.size()) + " dimensions";
  for (size_t d = 0; d < sharding.dims.size(); ++d) {
    const Window *window = sharding.getWindow(d);
    if (!window)
      continue;
    const std::string name = "the window of loop '" + window->loop + "'";
    if (joinParts(sharding.dims[d]).empty() != window->loop.empty())
      return name + " has no axis that splits the loop";
    const bool isRing = window->modulus != 0;
    if (window->loopSize < 1 ||
        (window->loop.empty() && window->loopSize > 1) || window->factor == 0 ||
        window->low > window->high || window->divisor < 1 ||
        window->modulus < 0 || (isRing && window->divisor != 1))
      return name + " has size " + std::to_string(window->loopSize) +
             ", factor " + std::to_string(window->factor) + ", range [" +
             std::to_string(window->low) + ", " + std::to_string(window->high) +
             "], divisor " + std::to_string(window->divisor) + " and modulus " +
             std::to_string(window->modulus);
    if (isRing && getLocalSize(window->modulus, sharding, d) > window->modulus)
      return name + " has blocks with a position of " +
             std::to_string(window->modulus) + " twice";
    if (!window->fits(sharding.dims[d]))
      return name + " has blocks that begin between two positions of factor " +
             std::to_string(window->factor) + " and divisor " +
             std::to_string(window->divisor);
  }
  if (sharding.partialKind == ReduceKind::Max ||
      sharding.partialKind == ReduceKind::Min)
    return std::string("a window of a partial ") +
           getName(sharding.partialKind) + ", whose identity is not 0";
  return {};
}

std::string layout::getViolation(const Mesh &mesh, const Sharding &sharding,
                                 size_t rank) {
  if (sharding.dims.size() != rank)
    return "sharding of " + std::to_string(sharding.dims.size()) +
           " dimensions for a tensor of " + std::to_string(rank);

  std::vector<AxisRef> used;
  for (const DimSplit &split : sharding.dims)
    used.insert(used.end(), split.begin(), split.end());
  used.insert(used.end(), sharding.partialAxes.begin(),
              sharding.partialAxes.end());
  for (AxisRef part : used)
    if (std::string text = getPartViolation(mesh, part); !text.empty())
      return text;

  std::erase_if(used, [](AxisRef part) { return part.size == 1; });
  std::sort(used.begin(), used.end());
  for (size_t i = 1; i < used.size(); ++i) {
    AxisRef major = used[i - 1], minor = used[i];
    // Parts are independent digits only if the minor one starts at a multiple
    // of where the major one ends.
    if (major.axis == minor.axis && minor.pre % (major.pre * major.size))
      return "axis '" + mesh.getAxes()[major.axis].name +
             "' serves two purposes at once";
  }

  if (sharding.partialKind == ReduceKind::None && sharding.isPartial())
    return "partial axes without a kind of reduction";
  if (sharding.partialKind != ReduceKind::None && !sharding.isPartial())
    return "a partial kind without axes";
  if (!std::is_sorted(sharding.partialAxes.begin(), sharding.partialAxes.end()))
    return "partial axes are not sorted";
  return getWindowViolation(sharding);
}

const char *layout::getName(ReduceKind kind) {
  switch (kind) {
  case ReduceKind::None:
    return "none";
  case ReduceKind::Sum:
    return "sum";
  case ReduceKind::Max:
    return "max";
  case ReduceKind::Min:
    return "min";
  }
  std::abort();
}

std::string layout::toString(const Mesh &mesh, AxisRef part) {
  const MeshAxis &axis = mesh.getAxes()[part.axis];
  if (part == mesh.getWholeAxis(part.axis))
    return axis.name;
  return axis.name + ":(" + std::to_string(part.pre) + ")" +
         std::to_string(part.size);
}

std::string layout::toString(const Mesh &mesh, std::span<const AxisRef> parts) {
  if (parts.size() == 1)
    return toString(mesh, parts.front());
  std::string text = "(";
  for (AxisRef part : parts)
    text += (text.size() > 1 ? ", " : "") + toString(mesh, part);
  return text + ")";
}

/// "@rows", or of a window " by 2 row@rows + [-1, 1]", of quotients
/// " by y@rows + [0, 1] / 2", around a ring " by n@rows + [-1, -1] % 8", of no
/// loop " + [3, 3]".
static std::string getSplitText(const Mesh &mesh, const Sharding &sharding,
                                size_t dim) {
  const Window *window = sharding.getWindow(dim);
  std::string axes;
  if (!sharding.dims[dim].empty())
    axes = "@" + toString(mesh, sharding.dims[dim]);
  if (!window)
    return axes;
  std::string factor;
  if (window->factor != 1)
    factor = std::to_string(window->factor) + " ";
  std::string divisor;
  if (window->divisor != 1)
    divisor = " / " + std::to_string(window->divisor);
  if (window->modulus != 0)
    divisor = " % " + std::to_string(window->modulus);
  const std::string loop =
      window->loop.empty() ? "" : " by " + factor + window->loop + axes;
  return loop + " + [" + std::to_string(window->low) + ", " +
         std::to_string(window->high) + "]" + divisor;
}

std::string layout::toString(const Mesh &mesh, const Sharding &sharding,
                             std::span<const std::string> dimNames) {
  std::string text;
  for (size_t d = 0; d < sharding.dims.size(); ++d)
    if (!sharding.dims[d].empty() || sharding.getWindow(d))
      text += (text.empty() ? "" : ", ") + dimNames[d] +
              getSplitText(mesh, sharding, d);
  if (sharding.isPartial())
    return "<" + text + "> partial " + getName(sharding.partialKind) +
           " over " + toString(mesh, sharding.partialAxes);
  return text.empty() ? "replicated" : "<" + text + ">";
}
