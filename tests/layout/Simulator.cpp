#include "Simulator.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

using namespace meshc::layout;
using namespace meshc::layout::testing;

static constexpr double unset = std::numeric_limits<double>::quiet_NaN();

static int64_t getCount(const Position &shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

static int64_t getIndex(const Position &shape, const Position &at) {
  int64_t index = 0;
  for (size_t d = 0; d < shape.size(); ++d)
    index = index * shape[d] + at[d];
  return index;
}

static bool isInside(const Position &at, const Position &shape) {
  for (size_t d = 0; d < shape.size(); ++d)
    if (at[d] < 0 || at[d] >= shape[d])
      return false;
  return true;
}

static Position plus(Position a, const Position &b) {
  for (size_t d = 0; d < a.size(); ++d)
    a[d] += b[d];
  return a;
}

static void forEach(const Position &shape,
                    const std::function<void(const Position &)> &visit) {
  Position at(shape.size());
  for (int64_t index = 0, count = getCount(shape); index < count; ++index) {
    int64_t rest = index;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d])
      at[d] = rest % shape[d];
    visit(at);
  }
}

static double getIdentity(ReduceKind kind) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return kind == ReduceKind::Sum   ? 0
         : kind == ReduceKind::Max ? -infinity
                                   : infinity;
}

double Simulator::combine(ReduceKind kind, double a, double b) const {
  if (std::isnan(a) || std::isnan(b))
    return unset;
  return kind == ReduceKind::Sum   ? a + b
         : kind == ReduceKind::Max ? std::max(a, b)
                                   : std::min(a, b);
}

Simulator::Simulator(const Mesh &mesh, std::vector<int64_t> sizes,
                     uint64_t seed)
    : mesh(mesh), sizes(std::move(sizes)), random(seed) {
  tensor.resize(getCount(this->sizes));
  for (double &value : tensor)
    value = double(int64_t(random() % 2001) - 1000);
}

/// Digit of a coordinate, straight from the comment of AxisRef.
static int64_t getDigit(const Mesh &mesh, AxisRef part, int64_t device) {
  std::vector<int64_t> coordinates = mesh.getCoordinates(device);
  int64_t step = mesh.getAxisSize(part.axis) / (part.pre * part.size);
  return coordinates[part.axis] / step % part.size;
}

Place Simulator::getPlace(const Sharding &sharding, int64_t device) const {
  Place place;
  for (size_t d = 0; d < sizes.size(); ++d) {
    int64_t start = 0, end = sizes[d], block = sizes[d];
    const DimSplit &split = sharding.dims[d];
    for (size_t i = 0; i < split.size();) {
      // A run of parts that continue one another is one axis.
      int64_t ways = 1, digit = 0;
      size_t first = i;
      do {
        digit = digit * split[i].size + getDigit(mesh, split[i], device);
        ways *= split[i].size;
        ++i;
      } while (i < split.size() && split[i].axis == split[first].axis &&
               split[i].pre == split[i - 1].pre * split[i - 1].size);
      block = (block + ways - 1) / ways;
      start += digit * block;
      end = std::min(end, start + block);
    }
    place.start.push_back(start);
    place.block.push_back(block);
    place.count.push_back(std::max<int64_t>(0, end - start));
  }
  return place;
}

/// Number of the term that a device holds of a partial value.
int64_t Simulator::getTerm(const Sharding &sharding, int64_t device) const {
  int64_t term = 0;
  for (AxisRef part : sharding.partialAxes)
    term = term * part.size + getDigit(mesh, part, device);
  return term;
}

void Simulator::fill(const Sharding &sharding) {
  blocks.clear();
  for (int64_t device = 0; device < mesh.getNumDevices(); ++device)
    blocks.emplace_back(getCount(getPlace(sharding, device).block), unset);
}

void Simulator::scatter(const Sharding &sharding) {
  int64_t numTerms = 1;
  for (AxisRef part : sharding.partialAxes)
    numTerms *= part.size;
  std::vector<std::vector<double>> terms(numTerms, tensor);
  for (size_t i = 0; i < tensor.size() && numTerms > 1; ++i) {
    auto draw = [&] { return double(random() % 1000); };
    int64_t owner = int64_t(random() % numTerms);
    for (int64_t term = 0; term < numTerms; ++term) {
      if (term == owner)
        continue;
      double value = draw();
      if (sharding.partialKind == ReduceKind::Sum) {
        terms[term][i] = value;
        terms[owner][i] -= value;
      } else {
        double sign = sharding.partialKind == ReduceKind::Max ? -1 : 1;
        terms[term][i] = tensor[i] + sign * value;
      }
    }
  }
  fill(sharding);
  for (int64_t device = 0; device < mesh.getNumDevices(); ++device) {
    Place place = getPlace(sharding, device);
    forEach(place.count, [&](const Position &at) {
      blocks[device][getIndex(place.block, at)] =
          terms[getTerm(sharding, device)]
               [getIndex(sizes, plus(place.start, at))];
    });
  }
}

std::string Simulator::compare(const Sharding &sharding) const {
  // Devices that agree on everything but the partial axes hold one value.
  for (int64_t device = 0; device < mesh.getNumDevices(); ++device) {
    std::vector<int64_t> group = mesh.getGroup(device, sharding.partialAxes);
    Place place = getPlace(sharding, device);
    std::string wrong;
    if (int64_t(blocks[device].size()) != getCount(place.block))
      return "device " + std::to_string(device) + " has a block of " +
             std::to_string(blocks[device].size());
    forEach(place.block, [&](const Position &at) {
      int64_t index = getIndex(place.block, at);
      bool owned = isInside(at, place.count);
      double value = blocks[group[0]][index];
      for (size_t i = 1; i < group.size(); ++i)
        value = combine(sharding.partialKind, value, blocks[group[i]][index]);
      if (!owned || !wrong.empty())
        return;
      double expected = tensor[getIndex(sizes, plus(place.start, at))];
      if (value != expected)
        wrong = "device " + std::to_string(device) + " has " +
                std::to_string(value) + " instead of " +
                std::to_string(expected) + " at element " +
                std::to_string(index) + " of its block";
    });
    if (!wrong.empty())
      return wrong;
  }
  return {};
}

void Simulator::transfer(const Sharding &source, const Sharding &target,
                         std::string &why) {
  std::vector<std::vector<double>> before = blocks;
  fill(target);
  std::vector<std::vector<int>> writes(blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i)
    writes[i].resize(blocks[i].size());
  for (const Transfer &move : getTransfers(mesh, sizes, source, target)) {
    if (getCount(move.shape) == 0 || move.targets.empty())
      why = "an empty transfer";
    if ((move.sources.size() == 1) != (move.reduce == ReduceKind::None))
      why = "a reduction that does not fit the number of sources";
    for (size_t i = 1; i < move.sources.size(); ++i)
      if (move.sources[i - 1].device >= move.sources[i].device)
        why = "sources out of order";
    forEach(move.shape, [&](const Position &at) {
      double value = getIdentity(move.reduce);
      for (size_t i = 0; i < move.sources.size(); ++i) {
        const TransferEnd &end = move.sources[i];
        Place place = getPlace(source, end.device);
        Position from = plus(end.offset, at);
        if (!isInside(from, place.count)) {
          why = "a read of padding";
          return;
        }
        double term = before[end.device][getIndex(place.block, from)];
        value = i == 0 ? term : combine(move.reduce, value, term);
      }
      for (const TransferEnd &end : move.targets) {
        Place place = getPlace(target, end.device);
        Position to = plus(end.offset, at);
        if (!isInside(to, place.count)) {
          why = "a write to padding";
          return;
        }
        int64_t index = getIndex(place.block, to);
        if (writes[end.device][index]++)
          why = "an element written twice";
        blocks[end.device][index] = value;
      }
    });
  }
  for (int64_t device = 0; device < mesh.getNumDevices(); ++device) {
    Place place = getPlace(target, device);
    forEach(place.count, [&](const Position &at) {
      if (!writes[device][getIndex(place.block, at)])
        why = "an element never written";
    });
  }
}
