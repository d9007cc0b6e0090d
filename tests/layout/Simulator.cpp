#include "Simulator.h"

#include "Positions.h"

#include <algorithm>
#include <cmath>

using namespace meshc::layout;
using namespace meshc::layout::test;

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

std::vector<Place> Simulator::getPlaces(const Sharding &sharding) const {
  std::vector<Place> places;
  for (int64_t device = 0; device < mesh.getNumDevices(); ++device)
    places.push_back(getPlace(sharding, device));
  return places;
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
  const std::vector<Place> from = getPlaces(source), to = getPlaces(target);
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
        const Place &place = from[end.device];
        const Position position = plus(end.offset, at);
        if (!isInside(position, place.count)) {
          why = "a read of padding";
          return;
        }
        double term = before[end.device][getIndex(place.block, position)];
        value = i == 0 ? term : combine(move.reduce, value, term);
      }
      for (const TransferEnd &end : move.targets) {
        const Place &place = to[end.device];
        const Position position = plus(end.offset, at);
        if (!isInside(position, place.count)) {
          why = "a write to padding";
          return;
        }
        int64_t index = getIndex(place.block, position);
        if (writes[end.device][index]++)
          why = "an element written twice";
        blocks[end.device][index] = value;
      }
    });
  }
  for (int64_t device = 0; device < mesh.getNumDevices(); ++device) {
    const Place &place = to[device];
    forEach(place.count, [&](const Position &at) {
      if (!writes[device][getIndex(place.block, at)])
        why = "an element never written";
    });
  }
}
