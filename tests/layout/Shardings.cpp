#include "Shardings.h"

#include "layout/Transfers.h"

#include <algorithm>

using namespace meshc::layout;
using namespace meshc::layout::test;

static void place(const Mesh &mesh, const std::vector<AxisRef> &parts,
                  size_t next, ReduceKind kind, Sharding sharding,
                  std::vector<Sharding> &found) {
  if (next == parts.size()) {
    if (sharding.isPartial())
      sharding.partialKind = kind;
    sharding = getCanonical(mesh, std::move(sharding));
    if (std::find(found.begin(), found.end(), sharding) == found.end())
      found.push_back(sharding);
    return;
  }
  place(mesh, parts, next + 1, kind, sharding, found);
  for (DimSplit &split : sharding.dims)
    for (size_t at = 0; at <= split.size(); ++at) {
      split.insert(split.begin() + at, parts[next]);
      place(mesh, parts, next + 1, kind, sharding, found);
      split.erase(split.begin() + at);
    }
  if (kind == ReduceKind::None)
    return;
  sharding.partialAxes.push_back(parts[next]);
  place(mesh, parts, next + 1, kind, std::move(sharding), found);
}

std::vector<Sharding>
meshc::layout::test::getAllShardings(const Mesh &mesh,
                                     const std::vector<AxisRef> &parts,
                                     size_t rank, ReduceKind kind) {
  std::vector<Sharding> found;
  place(mesh, parts, 0, kind,
        {std::vector<DimSplit>(rank), ReduceKind::None, {}}, found);
  return found;
}

std::vector<AxisRef> meshc::layout::test::getWholeAxes(const Mesh &mesh) {
  std::vector<AxisRef> parts;
  for (int32_t axis = 0; axis < mesh.getNumAxes(); ++axis)
    parts.push_back(mesh.getWholeAxis(axis));
  return parts;
}

std::string meshc::layout::test::spell(const Mesh &mesh,
                                       const Sharding &sharding) {
  std::vector<std::string> names;
  for (size_t d = 0; d < sharding.dims.size(); ++d)
    names.push_back("d" + std::to_string(d));
  return toString(mesh, sharding, names);
}

int64_t test::countMost(const Mesh &mesh, std::span<const int64_t> sizes,
                        const Sharding &source, const Sharding &target) {
  std::vector<int64_t> sent(size_t(mesh.getNumDevices())), taken = sent;
  for (const Transfer &transfer : getTransfers(mesh, sizes, source, target)) {
    int64_t elements = 1;
    for (int64_t size : transfer.shape)
      elements *= size;
    for (const TransferEnd &from : transfer.sources)
      for (const TransferEnd &to : transfer.targets)
        if (from.device != to.device) {
          sent[size_t(from.device)] += elements;
          taken[size_t(to.device)] += elements;
        }
  }
  return std::max(*std::ranges::max_element(sent),
                  *std::ranges::max_element(taken));
}
