#include "runtime/cpu/Put.h"

#include "runtime/exec/HalfFloats.h"
#include "runtime/exec/SumBlock.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

using namespace meshc;
using namespace meshc::runtime;

/// No term.
static constexpr uint32_t none = UINT32_MAX;
/// Of lists, at the least: 256 KiB.
static constexpr int64_t minListedRows = int64_t(1) << 16;

static uint64_t align(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

Put::Put(const exec::PutT &put, exec::ElementType input,
         exec::ElementType index)
    : plan(put), input(input), index(index), numTerms(getSize(plan.terms)),
      listedRows(std::min(plan.rows, std::max(minListedRows, numTerms))) {}

/// The innermost level, those that it is added to, and a row that is widened.
static int countTiles(int64_t numTerms) { return countSumLevels(numTerms) + 2; }

uint64_t Put::getScratchBytes() const {
  return align(uint64_t(listedRows) * sizeof(uint32_t)) +
         align(uint64_t(numTerms) * sizeof(uint32_t)) +
         uint64_t(countTiles(numTerms) * PutPlan::tileSize) * sizeof(double);
}

/// Units on one thread.
template <typename Sum, typename Index> class Put::Run {
public:
  Run(const Put &put, void *const *operands, std::byte *scratch)
      : put(put), plan(put.plan),
        input(static_cast<const std::byte *>(operands[0])),
        index(static_cast<const Index *>(operands[1])),
        result(static_cast<Sum *>(operands[2])),
        heads(reinterpret_cast<uint32_t *>(scratch)) {
    scratch += align(uint64_t(put.listedRows) * sizeof(uint32_t));
    next = reinterpret_cast<uint32_t *>(scratch);
    scratch += align(uint64_t(put.numTerms) * sizeof(uint32_t));
    widened = reinterpret_cast<Sum *>(scratch);
    sums = widened + PutPlan::tileSize;
  }

  void compute(int64_t begin, int64_t end) {
    const int64_t tiles = plan.getTilesPerLine();
    const int64_t unitsPerTable = plan.rows * tiles;
    while (begin < end) {
      const int64_t table = begin / unitsPerTable;
      const int64_t first = begin % unitsPerTable;
      const int64_t row = first / tiles;
      const int64_t last = std::min(
          {first + end - begin, unitsPerTable, (row + put.listedRows) * tiles});
      const int64_t rowsEnd = (last - 1) / tiles + 1;
      const int64_t numColumns = getSize(plan.columns);
      list(table / numColumns, row, rowsEnd - row);
      setTable(table / numColumns, table % numColumns);
      for (int64_t unit = first; unit < last;) {
        int64_t filled = unit / tiles;
        if (const uint32_t term = heads[filled - row]; term != none) {
          writeUnit(unit++, term);
          continue;
        }
        while (filled < rowsEnd && heads[filled - row] == none)
          ++filled;
        const int64_t stop = std::min(filled * tiles, last);
        clear(unit, stop);
        unit = stop;
      }
      begin += last - first;
    }
  }

private:
  /// Lists the terms of `count` rows of a batch from `row` on, unless it just
  /// has.
  void list(int64_t batch, int64_t row, int64_t count) {
    if (batch == listedBatch && row == listedRow && count == listedCount)
      return;
    listedBatch = batch;
    listedRow = row;
    listedCount = count;
    std::fill_n(heads, count, none);
    const Index *const first =
        index + getOffset(plan.batches, batch, &PutLoop::index);
    const bool isOneLoop = plan.terms.size() == 1;
    // The last one first, so that lists are in the order of the terms.
    for (int64_t term = put.numTerms; term-- > 0;) {
      const int64_t place = isOneLoop
                                ? term * plan.terms[0].index
                                : getOffset(plan.terms, term, &PutLoop::index);
      // What is before the first row is far behind the last one.
      const auto i = uint64_t(first[place]) - uint64_t(row);
      if (i >= uint64_t(count))
        continue;
      next[term] = heads[i];
      heads[i] = uint32_t(term);
    }
  }

  void setTable(int64_t batch, int64_t column) {
    tableInput = getOffset(plan.batches, batch, &PutLoop::input) +
                 getOffset(plan.columns, column, &PutLoop::input);
    tableResult = getOffset(plan.batches, batch, &PutLoop::result) +
                  getOffset(plan.columns, column, &PutLoop::result);
  }

  /// Where a unit of the table begins in the result.
  Sum *getResult(int64_t unit) const {
    const int64_t tiles = plan.getTilesPerLine();
    return result + tableResult + unit / tiles * plan.rowStride +
           unit % tiles * PutPlan::tileSize * plan.line.result;
  }
  void setTile(int64_t unit) {
    start = unit % plan.getTilesPerLine() * PutPlan::tileSize;
    size = std::min(PutPlan::tileSize, plan.line.size - start);
  }

  /// What a term has of the tile, contiguous, until the next call.
  const Sum *read(uint32_t term) {
    const int64_t place =
        tableInput + start * plan.line.input +
        (plan.terms.size() == 1 ? int64_t(term) * plan.terms[0].input
                                : getOffset(plan.terms, term, &PutLoop::input));
    const int64_t stride = plan.line.input;
    if (isHalfFloat(put.input)) {
      if constexpr (std::is_same_v<Sum, float>)
        widenRow(put.input, input + place * 2, stride, widened, size);
      return widened;
    }
    const Sum *const from = reinterpret_cast<const Sum *>(input) + place;
    if (stride == 1 || size == 1)
      return from;
    for (int64_t i = 0; i < size; ++i)
      widened[i] = from[i * stride];
    return widened;
  }

  void write(int64_t unit, const Sum *from) {
    Sum *const to = getResult(unit);
    const int64_t stride = plan.line.result;
    if (stride == 1 || size == 1)
      std::memcpy(to, from, size_t(size) * sizeof(Sum));
    else
      for (int64_t i = 0; i < size; ++i)
        to[i * stride] = from[i];
  }

  /// Units [begin, end) of the table, whose rows have no terms: as one where
  /// they lie as one, which the library writes without reading it first.
  void clear(int64_t begin, int64_t end) {
    if ((plan.line.result == 1 || plan.line.size == 1) &&
        plan.rowStride == plan.line.size) {
      std::memset(getResult(begin), 0,
                  size_t(getResult(end) - getResult(begin)) * sizeof(Sum));
      return;
    }
    for (int64_t unit = begin; unit < end; ++unit) {
      setTile(unit);
      Sum *const to = getResult(unit);
      for (int64_t i = 0; i < size; ++i)
        to[i * plan.line.result] = 0;
    }
  }

  Sum *getLevel(int level) { return sums + level * PutPlan::tileSize; }

  /// Adds `from` to the sums of a level, or begins them with it.
  void add(int level, const Sum *from) {
    Sum *const to = getLevel(level);
    if (used >> level & 1)
      for (int64_t i = 0; i < size; ++i)
        to[i] += from[i];
    else
      std::memcpy(to, from, size_t(size) * sizeof(Sum));
    used |= 1u << level;
  }
  void carry(int level) {
    used &= ~(1u << level);
    add(level + 1, getLevel(level));
  }

  /// A unit whose row has `term` as the first one.
  void writeUnit(int64_t unit, uint32_t term) {
    setTile(unit);
    if (next[term] == none)
      return write(unit, read(term));
    used = 0;
    for (int64_t count = 1; term != none; ++count, term = next[term]) {
      add(0, read(term));
      for (int level = 0; level < countWholeBlocks(count); ++level)
        carry(level);
    }
    int level = 0;
    for (; used >> level != 1; ++level)
      if (used >> level & 1)
        carry(level);
    write(unit, getLevel(level));
  }

  const Put &put;
  const PutPlan &plan;
  const std::byte *input;
  const Index *index;
  Sum *result;
  uint32_t *heads; ///< by row from listedRow on, the first of its terms
  uint32_t *next;  ///< by term, the one of the same row that follows
  Sum *widened, *sums;
  int64_t listedBatch = -1, listedRow = 0, listedCount = 0;
  int64_t tableInput = 0, tableResult = 0; ///< of a batch and a column
  int64_t start = 0, size = 0;             ///< of the tile in the line
  unsigned used = 0; ///< levels that have something, by bit
};

void Put::run(int64_t begin, int64_t end, void *const *operands,
              std::byte *scratch) const {
  auto compute = [&]<typename Sum>(Sum) {
    if (index == exec::ElementType::i32)
      Run<Sum, int32_t>(*this, operands, scratch).compute(begin, end);
    else
      Run<Sum, int64_t>(*this, operands, scratch).compute(begin, end);
  };
  if (input == exec::ElementType::f64)
    compute(0.0);
  else
    compute(0.0f);
}
