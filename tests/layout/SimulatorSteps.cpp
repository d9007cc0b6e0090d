// Runs reshard steps the way a communication library would: among the devices
// of one group, whole blocks in and whole blocks out.

#include "Simulator.h"

#include "Positions.h"

#include <algorithm>
#include <map>
#include <set>

using namespace meshc::layout;
using namespace meshc::layout::test;

using Blocks = std::vector<std::vector<double>>;

void Simulator::run(const ReshardStep &step, std::string &why) {
  const Blocks before = blocks;
  fill(step.target);
  if (step.kind == CollectiveKind::Exchange)
    runExchange(step, before, why);
  else if (step.kind == CollectiveKind::Permute)
    runPermute(step, before, why);
  else
    runBlockwise(step, before, why);
}

/// all_reduce, reduce_scatter, all_gather, all_to_all, slice: what a device
/// owns is found in the blocks of its group, once or once per term.
void Simulator::runBlockwise(const ReshardStep &step, const Blocks &before,
                             std::string &why) {
  const std::vector<Place> places = getPlaces(step.source);
  const bool reduces = step.kind == CollectiveKind::AllReduce ||
                       step.kind == CollectiveKind::ReduceScatter;
  for (int64_t device = 0; device < mesh.getNumDevices(); ++device) {
    const std::vector<int64_t> group = getPeers(step, device);
    if (int64_t(group.size()) != step.groupSize)
      why = "a wrong group size";
    const Place place = getPlace(step.target, device);
    std::vector<Place> sources;
    for (int64_t peer : group)
      sources.push_back(places[peer]);
    for (const Place &source : sources)
      if (reduces && source.start != sources[0].start)
        why = "terms of different blocks";
    const bool isTerm = holdsTerm(step, device);
    forEach(place.block, [&](const Position &at) {
      const Position whole = plus(place.start, at);
      double &value = blocks[device][getIndex(place.block, at)];
      int found = 0;
      for (size_t i = 0; i < group.size(); ++i) {
        const Position from = minus(whole, sources[i].start);
        if (!isInside(from, sources[i].count))
          continue;
        double term = before[group[i]][getIndex(sources[i].block, from)];
        value = found++ && reduces
                    ? combine(step.source.partialKind, value, term)
                    : term;
      }
      if (found > 1 && !reduces)
        why = "parts that overlap";
      if (found == 1 && !isTerm)
        value = getIdentity(step.target.partialKind);
    });
  }
}

/// Every device with a block sends it to one device and gets one.
void Simulator::runPermute(const ReshardStep &step, const Blocks &before,
                           std::string &why) {
  const std::vector<Place> places = getPlaces(step.source);
  std::set<int64_t> spent;
  for (int64_t device = 0; device < mesh.getNumDevices(); ++device) {
    const Place place = getPlace(step.target, device);
    if (getCount(place.count) == 0)
      continue;
    bool found = false;
    for (int64_t peer : mesh.getGroup(device, step.axes)) {
      const Place &source = places[peer];
      if (source.start != place.start || source.count != place.count ||
          source.block != place.block || spent.contains(peer) ||
          getTerm(step.source, peer) != getTerm(step.target, device))
        continue;
      spent.insert(peer);
      blocks[device] = before[peer];
      found = true;
      break;
    }
    if (!found)
      why = "no device left to send a block";
  }
}

/// Every device looks in its group for each element it shall own.
void Simulator::runExchange(const ReshardStep &step, const Blocks &before,
                            std::string &why) {
  const std::vector<Place> places = getPlaces(step.source);
  for (int64_t device = 0; device < mesh.getNumDevices(); ++device) {
    const std::vector<int64_t> group = getPeers(step, device);
    const Place place = getPlace(step.target, device);
    const bool isTerm = holdsTerm(step, device);
    forEach(place.count, [&](const Position &at) {
      const Position whole = plus(place.start, at);
      std::map<int64_t, double> terms;
      for (int64_t peer : group) {
        const Place &source = places[peer];
        const Position from = minus(whole, source.start);
        if (isInside(from, source.count))
          terms.emplace(getTerm(step.source, peer),
                        before[peer][getIndex(source.block, from)]);
      }
      if (terms.empty()) {
        why = "an element that no device of the group has";
        return;
      }
      double value = terms.begin()->second;
      for (auto term = std::next(terms.begin()); term != terms.end(); ++term)
        value = combine(step.source.partialKind, value, term->second);
      if (!isTerm)
        value = getIdentity(step.target.partialKind);
      blocks[device][getIndex(place.block, at)] = value;
    });
  }
}

/// The devices from which one device may take.
std::vector<int64_t> Simulator::getPeers(const ReshardStep &step,
                                         int64_t device) const {
  if (step.kind == CollectiveKind::Slice)
    return {device};
  return mesh.getGroup(device, step.axes);
}

/// Whether a device of a partial target gets a value rather than the identity:
/// the first of those that can find the same terms of the source does.
bool Simulator::holdsTerm(const ReshardStep &step, int64_t device) const {
  auto getTerms = [&](int64_t at) {
    std::set<int64_t> terms;
    for (int64_t peer : getPeers(step, at))
      terms.insert(getTerm(step.source, peer));
    return terms;
  };
  const std::set<int64_t> own = getTerms(device);
  for (int64_t other : mesh.getGroup(device, step.target.partialAxes)) {
    if (other == device)
      return true;
    for (int64_t term : getTerms(other))
      if (own.contains(term))
        return false;
  }
  return true;
}
