/// The part of Collective that has to do with other processes.

#include "runtime/exec/Executable.h"
#include "runtime/plans/Collective.h"

#include <algorithm>
#include <set>

using namespace meshc;
using namespace meshc::runtime;

using Move = Collective::Move;

namespace {

/// What one process brings into a move: a term of the sum.
struct Term {
  int64_t giver;
  std::vector<Collective::End> sources;
};

} // namespace

/// Whether terms that follow each other may be combined first without a change
/// of any bit. (Of equal ones, max and min take the last; of NaN the first.)
static bool isAssociative(exec::ElementType element, exec::ReduceKind reduce) {
  switch (element) {
  case exec::ElementType::i32:
  case exec::ElementType::i64:
  case exec::ElementType::boolean:
  case exec::ElementType::u8:
  case exec::ElementType::i8:
  case exec::ElementType::i16:
    return true;
  case exec::ElementType::f32:
  case exec::ElementType::f64:
  case exec::ElementType::bf16:
  case exec::ElementType::f16:
    return reduce != exec::ReduceKind::sum;
  }
  __builtin_unreachable();
}

/// The sources of a move as terms, in order. A process has neighbours in the
/// order of devices, of which it sends one term if their sum may be formed
/// first.
static std::vector<Term> getTerms(const Move &move, exec::ElementType element,
                                  const Division &division) {
  const bool joins = isAssociative(element, move.reduce);
  std::vector<Term> terms;
  for (const Collective::End &source : move.sources) {
    const int64_t giver = division.getRank(source.device);
    if (!joins || terms.empty() || terms.back().giver != giver)
      terms.push_back({giver, {}});
    terms.back().sources.push_back(source);
  }
  return terms;
}

/// The processes that have targets of a move, in order.
static std::vector<int64_t> getTakers(const Move &move,
                                      const Division &division) {
  std::set<int64_t> takers;
  for (const Collective::End &target : move.targets)
    takers.insert(division.getRank(target.device));
  return {takers.begin(), takers.end()};
}

/// Whether it is worth a second message to combine a box in shares.
///
/// With K takers that need R terms of others in all, R boxes go to all of them
/// at once; of shares, R/K boxes and then K-1 for the results. For one term
/// each, R is K: no fewer bytes.
/// Source: reduce_scatter and all_gather of Rabenseifner's all_reduce, Thakur,
/// Rabenseifner, Gropp 2005. Below 64 KiB the second message costs more than it
/// saves: by TCP over loopback, 3 / 4 / 8 processes on two cores, 16 KiB take
/// 88 / 187 / 895 us at once and 160 / 299 / 1059 us in shares, 64 KiB 189 /
/// 540 / 1437 us and 216 / 568 / 1247 us, 256 KiB 954 / 978 / 4623 us and 660 /
/// 844 / 1836 us.
static bool isDivided(const Move &move, std::span<const Term> terms,
                      std::span<const int64_t> takers, int64_t elementBytes) {
  constexpr int64_t minBytes = int64_t(1) << 16;
  if (takers.size() < 2 || move.countElements() * elementBytes < minBytes)
    return false;
  size_t received = 0;
  for (int64_t taker : takers)
    received +=
        size_t(std::count_if(terms.begin(), terms.end(), [&](const Term &term) {
          return term.giver != taker;
        }));
  return received > takers.size();
}

/// Part `number` of `count` of a move, cut along its longest dimension.
static Move cutShare(const Move &whole, int64_t number, int64_t count,
                     int64_t elementBytes) {
  Move share = whole;
  Collective::MoveDim *longest = &share.inner;
  for (Collective::MoveDim &dim : share.outer)
    if (dim.size > longest->size)
      longest = &dim;
  const int64_t begin = longest->size * number / count;
  const int64_t end = longest->size * (number + 1) / count;
  for (Collective::End &source : share.sources)
    source.offset += uint64_t(begin * longest->fromStride * elementBytes);
  for (Collective::End &target : share.targets)
    target.offset += uint64_t(begin * longest->toStride * elementBytes);
  longest->size = end - begin;
  return share;
}

/// Adds a box to the message with this peer; returns its offset in it.
static uint64_t addToMessage(std::vector<Collective::Message> &messages,
                             int64_t peer, uint64_t bytes) {
  auto message = std::find_if(
      messages.begin(), messages.end(),
      [&](const Collective::Message &other) { return other.peer == peer; });
  if (message == messages.end())
    message = messages.insert(messages.end(), {peer, 0, 0});
  const uint64_t offset = message->bytes;
  // Boxes begin at cache lines.
  constexpr uint64_t line = 64;
  message->bytes += (bytes + line - 1) / line * line;
  return offset;
}

void Collective::addMove(Move move, StagePart &stage) {
  int64_t rows = 1;
  for (const MoveDim &dim : move.outer)
    rows *= dim.size;
  stage.moves.push_back(moves.size());
  stage.pieces.add({rows, move.inner.size, getBytesPerElement(move)});
  moves.push_back(std::move(move));
}

void Collective::addShare(const Move &share, std::span<const int64_t> combiners,
                          std::span<const int64_t> takers, Group &group,
                          const Division &division) {
  const uint64_t bytes =
      uint64_t(share.countElements() * getElementBytes(element));
  StagePart &packing = group[Stage::Pack];
  StagePart &combining = group[Stage::Combine];
  StagePart &spreading = group[Stage::Spread];
  auto contains = [](std::span<const int64_t> ranks, int64_t rank) {
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  };
  const bool combines = contains(combiners, division.rank);

  // Both sides of a message go through the same moves in the same order. The
  // offset of a staged end counts from the start of its message, its device is
  // the peer.
  Move part = share;
  part.sources.clear();
  part.targets.clear();
  for (const Term &term : getTerms(share, element, division)) {
    if (term.giver != division.rank) {
      if (combines)
        part.sources.push_back(
            {term.giver, addToMessage(combining.incoming, term.giver, bytes),
             true});
      continue;
    }
    if (combines)
      part.sources.insert(part.sources.end(), term.sources.begin(),
                          term.sources.end());
    for (int64_t combiner : combiners) {
      if (combiner == division.rank)
        continue;
      Move packed = share;
      packed.sources = term.sources;
      packed.targets = {
          {combiner, addToMessage(packing.outgoing, combiner, bytes), true}};
      packed.inner.toStride = 1;
      addMove(std::move(packed), packing);
    }
  }
  if (!contains(takers, division.rank))
    return;
  for (const End &target : share.targets)
    if (division.isLocal(target.device))
      part.targets.push_back(target);
  if (combines) {
    for (int64_t taker : takers)
      if (!contains(combiners, taker))
        part.targets.push_back(
            {taker, addToMessage(combining.outgoing, taker, bytes), true});
    return addMove(std::move(part), combining);
  }
  part.sources = {{combiners[0],
                   addToMessage(spreading.incoming, combiners[0], bytes),
                   true}};
  part.inner.fromStride = 1;
  addMove(std::move(part), spreading);
}

void Collective::addPart(const Move &whole, Group &group,
                         const Division &division) {
  const int64_t elementBytes = getElementBytes(element);
  const std::vector<int64_t> takers = getTakers(whole, division);
  if (!isDivided(whole, getTerms(whole, element, division), takers,
                 elementBytes))
    return addShare(whole, takers, takers, group, division);
  const auto count = int64_t(takers.size());
  for (int64_t number = 0; number < count; ++number) {
    const Move share = cutShare(whole, number, count, elementBytes);
    if (share.countElements() > 0)
      addShare(share, std::span(takers).subspan(size_t(number), 1), takers,
               group, division);
  }
}

void Collective::placeMessages(uint64_t &stagingBytes) {
  auto place = [](std::vector<End> &ends,
                  const std::vector<Message> &messages) {
    for (End &end : ends)
      if (end.isStaged)
        end.offset += std::find_if(messages.begin(), messages.end(),
                                   [&](const Message &message) {
                                     return message.peer == end.device;
                                   })
                          ->offset;
  };
  for (Group &group : groups)
    for (StagePart &stage : group.stages) {
      for (std::vector<Message> *messages : {&stage.incoming, &stage.outgoing})
        for (Message &message : *messages) {
          message.offset = stagingBytes;
          stagingBytes += message.bytes;
        }
      for (size_t move : stage.moves) {
        place(moves[move].sources, stage.incoming);
        place(moves[move].targets, stage.outgoing);
      }
    }
}

bool Collective::isExchanged(int64_t group) const {
  for (const StagePart &stage : groups[group].stages)
    if (!stage.incoming.empty() || !stage.outgoing.empty())
      return true;
  return false;
}
