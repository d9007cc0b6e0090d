#include "runtime/weights/StoredPart.h"

#include "layout/Spelling.h"
#include "runtime/exec/Executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

using namespace meshc;
using namespace meshc::runtime;

/// More tensors of one parameter are none of a model.
static constexpr int64_t maxParts = int64_t(1) << 20;

namespace {

/// What one rule says of its parameter.
class RuleReader {
public:
  RuleReader(const NameRule &rule, const exec::VariableT &parameter)
      : rule(rule), layout(*parameter.layout), name(parameter.name) {}

  /// What is wrong; empty: nothing.
  std::string defect;

  std::vector<StoredPart> read();

private:
  /// The place of a dim of the parameter, which is named here and nowhere else.
  size_t takeDim(const std::string &dim);
  /// Sets box and sizes to the slice that the rule is about.
  void takeSlice();
  /// Sets shape, strides and the first element of a tensor.
  void takeAxes();
  /// Adds a part for each position of the dims in the name.
  void addParts(size_t namePart, StoredPart part,
                std::vector<StoredPart> &parts);
  void fail(std::string what) {
    if (defect.empty())
      defect = std::move(what);
  }

  const NameRule &rule;
  const exec::TensorLayoutT &layout;
  const std::string &name;
  std::vector<bool> taken; ///< by dim
  StoredPart base;
};

} // namespace

size_t RuleReader::takeDim(const std::string &dim) {
  std::vector<std::string> names;
  for (size_t i = 0; i < layout.dims.size(); ++i) {
    names.push_back(layout.dims[i]->name);
    if (names[i] != dim)
      continue;
    if (taken[i])
      fail(fmt::format("dim '{}' stands twice", dim));
    taken[i] = true;
    return i;
  }
  const std::string nearest = layout::findNearest(dim, names);
  fail(fmt::format(
      "'{}' is {}, which has no dim '{}'{}", name, toString(layout), dim,
      nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest)));
  return 0;
}

void RuleReader::takeSlice() {
  base.box = getWhole(getSizes(layout));
  if (rule.slicedDim.empty() || !defect.empty())
    return;
  const size_t dim = takeDim(rule.slicedDim);
  if (!defect.empty())
    return;
  taken[dim] = false; // the right side says where it is
  layout::Range &range = base.box[dim];
  if (range.count % rule.slice.count != 0)
    return fail(fmt::format("dim '{}' of size {} has no {} equal slices",
                            rule.slicedDim, range.count, rule.slice.count));
  const int64_t count = range.count / rule.slice.count;
  range = {rule.slice.index * count, count};
}

void RuleReader::takeAxes() {
  std::vector<NameRule::Axis> axes;
  if (rule.axes)
    axes = *rule.axes;
  else
    for (size_t i = 0; i < layout.dims.size(); ++i)
      if (!taken[i])
        axes.push_back({{}, {layout.dims[i]->name}});
  base.shape.resize(axes.size());
  int64_t stride = 1; // no more than the parameter's elements, times slices
  for (size_t i = axes.size(); i-- > 0 && defect.empty();) {
    const NameRule::Axis &axis = axes[i];
    int64_t size = 1;
    for (size_t j = axis.dims.size(); j-- > 0 && defect.empty();) {
      const size_t dim = takeDim(axis.dims[j]);
      if (!defect.empty())
        return;
      base.strides[dim] = stride * size;
      size *= base.box[dim].count;
    }
    base.first += axis.slice.index * size * stride;
    int64_t all = 0;
    if (__builtin_mul_overflow(size, axis.slice.count, &base.shape[i]) ||
        __builtin_mul_overflow(stride, base.shape[i], &all))
      return fail("the tensor has more elements than 64 bits count");
    stride = all;
  }
  for (size_t i = 0; i < taken.size(); ++i)
    if (!taken[i])
      fail(fmt::format("dim '{}' of '{}' is in no name and no axis",
                       layout.dims[i]->name, name));
}

void RuleReader::addParts(size_t number, StoredPart part,
                          std::vector<StoredPart> &parts) {
  if (number == rule.name.size()) {
    if (int64_t(parts.size()) == maxParts)
      return fail(fmt::format("it is for more than {} tensors", maxParts));
    parts.push_back(std::move(part));
    return;
  }
  const NameRule::Part &text = rule.name[number];
  part.tensor += text.text;
  if (text.dim.empty())
    return addParts(number + 1, std::move(part), parts);
  size_t dim = 0;
  while (layout.dims[dim]->name != text.dim)
    ++dim;
  const layout::Range range = part.box[dim];
  if (!text.positions.empty() && int64_t(text.positions.size()) != range.count)
    return fail(fmt::format("dim '{}' has {} positions, of which {} are named",
                            text.dim, range.count, text.positions.size()));
  for (int64_t i = 0; i < range.count && defect.empty(); ++i) {
    StoredPart each = part;
    each.tensor += text.positions.empty() ? std::to_string(range.offset + i)
                                          : text.positions[size_t(i)];
    each.box[dim] = {range.offset + i, 1};
    addParts(number + 1, std::move(each), parts);
  }
}

std::vector<StoredPart> RuleReader::read() {
  taken.assign(layout.dims.size(), false);
  base.strides.assign(layout.dims.size(), 0);
  base.line = rule.line;
  base.numPrefixes = rule.numPrefixes;
  takeSlice();
  for (const NameRule::Part &part : rule.name)
    if (!part.dim.empty() && defect.empty())
      takeDim(part.dim);
  if (defect.empty())
    takeAxes();
  std::vector<StoredPart> parts;
  if (defect.empty())
    addParts(0, base, parts);
  return parts;
}

/// The elements from one place of each dim to the next, in C order.
static std::vector<int64_t> getStrides(std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0; stride *= shape[i])
    strides[i] = stride;
  return strides;
}

/// Each parameter as a tensor of its own.
static std::vector<StoredParameter>
keepNames(std::span<const exec::VariableT *const> parameters) {
  std::vector<StoredParameter> result;
  for (const exec::VariableT *parameter : parameters) {
    const std::vector<int64_t> sizes = getSizes(*parameter->layout);
    result.push_back(
        {parameter,
         {{parameter->name, sizes, getWhole(sizes), 0, getStrides(sizes), 0}}});
  }
  return result;
}

Result<std::vector<StoredParameter>>
runtime::applyNames(const NameMap *map,
                    std::span<const exec::VariableT *const> parameters) {
  if (!map)
    return keepNames(parameters);
  std::vector<StoredParameter> result;
  std::map<std::string_view, size_t> places;
  std::vector<std::string> names;
  for (const exec::VariableT *parameter : parameters) {
    places.emplace(parameter->name, result.size());
    names.push_back(parameter->name);
    result.push_back({parameter, {}});
  }
  for (const NameRule &rule : map->rules) {
    auto place = places.find(rule.parameter);
    if (place == places.end()) {
      const std::string nearest = layout::findNearest(rule.parameter, names);
      return getMapError(
          map->path, rule.line,
          fmt::format("the model has no parameter '{}'{}", rule.parameter,
                      nearest.empty()
                          ? ""
                          : fmt::format("; did you mean '{}'?", nearest)));
    }
    StoredParameter &stored = result[place->second];
    RuleReader reader(rule, *stored.parameter);
    std::vector<StoredPart> parts = reader.read();
    if (!reader.defect.empty())
      return getMapError(map->path, rule.line, reader.defect);
    stored.parts.insert(stored.parts.end(),
                        std::make_move_iterator(parts.begin()),
                        std::make_move_iterator(parts.end()));
  }
  for (const StoredParameter &stored : result) {
    std::vector<Box> boxes;
    for (const StoredPart &part : stored.parts)
      if (getVolume(part.box) > 0)
        boxes.push_back(part.box);
    if (!boxes.empty() && !tiles(getSizes(*stored.parameter->layout), boxes))
      return getMapError(
          map->path, stored.parts.back().line,
          fmt::format("with this, the rules for '{}' do not have each of its "
                      "elements once",
                      stored.parameter->name));
  }
  return result;
}

StoredRuns::StoredRuns(const StoredPart &part, const Placement &placement) {
  const Box wanted = intersect(part.box, placement.owned);
  const std::vector<int64_t> local = getStrides(placement.block);
  inner.stored = part.first;
  std::vector<Loop> all;
  for (size_t i = 0; i < wanted.size(); ++i) {
    numRuns *= wanted[i].count > 0 ? 1 : 0;
    inner.stored += (wanted[i].offset - part.box[i].offset) * part.strides[i];
    inner.local += (wanted[i].offset - placement.owned[i].offset) * local[i];
    if (wanted[i].count > 1)
      all.push_back({wanted[i].count, part.strides[i], local[i]});
  }
  std::ranges::sort(all, std::greater(), &Loop::stored);
  // Loops that go on where the one within them ends are one.
  for (const Loop &loop : all) {
    if (!loops.empty() && loops.back().stored == loop.stored * loop.count &&
        loops.back().local == loop.local * loop.count)
      loops.back() = {loops.back().count * loop.count, loop.stored, loop.local};
    else
      loops.push_back(loop);
  }
  if (!loops.empty() && loops.back().stored == 1) {
    inner.count = loops.back().count;
    inner.stride = loops.back().local;
    loops.pop_back();
  }
  for (const Loop &loop : loops)
    numRuns *= loop.count;
}
