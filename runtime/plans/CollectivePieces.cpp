#include "runtime/plans/CollectivePieces.h"

#include <algorithm>

using namespace meshc::runtime;

StripCut::StripCut(int64_t rows, int64_t columns, int64_t bytesPerElement)
    : rows(rows), columns(columns), bytesPerElement(bytesPerElement) {
  // A whole number of cache lines and of tiles.
  constexpr int64_t grain = 1024;
  const int64_t elements = std::max(grain, CollectivePieces::pieceBytes /
                                               bytesPerElement / grain * grain);
  const bool cutsRows = columns > elements;
  columnsPerStrip = cutsRows ? elements : columns;
  stripsPerRow = (columns + columnsPerStrip - 1) / columnsPerStrip;
  rowsPerStrip = cutsRows ? 1 : std::max<int64_t>(1, elements / columns);
}

Strip StripCut::getStrip(int64_t number) const {
  const int64_t row = number / stripsPerRow * rowsPerStrip;
  const int64_t begin = number % stripsPerRow * columnsPerStrip;
  return {row, std::min(row + rowsPerStrip, rows), begin,
          std::min(begin + columnsPerStrip, columns)};
}

int64_t StripCut::getBytes(int64_t number) const {
  const Strip strip = getStrip(number);
  return (strip.rowEnd - strip.rowBegin) * (strip.end - strip.begin) *
         bytesPerElement;
}

CollectivePieces::Place CollectivePieces::getStart(int64_t piece) const {
  if (piece == numPieces)
    return {cuts.size() - 1, cuts.back().getNumStrips()};
  const auto run = std::prev(std::upper_bound(
      runs.begin(), runs.end(), piece, [](int64_t number, const Run &other) {
        return number < other.firstPiece;
      }));
  const int64_t number = piece - run->firstPiece;
  return {run->first.move, run->first.strip +
                               number / run->perPeriod * run->period +
                               number % run->perPeriod};
}

void CollectivePieces::addStrips(int64_t first, int64_t count, int64_t bytes) {
  if (numPieces > 0) {
    const int64_t joined =
        std::min(count, std::max<int64_t>(0, pieceBytes - lastBytes) / bytes);
    lastBytes += joined * bytes;
    first += joined;
    count -= joined;
  }
  if (count == 0)
    return;
  const int64_t perPiece = std::max<int64_t>(1, pieceBytes / bytes);
  const int64_t added = (count + perPiece - 1) / perPiece;
  runs.push_back({numPieces, {cuts.size() - 1, first}, 1, perPiece});
  numPieces += added;
  lastBytes = (count - (added - 1) * perPiece) * bytes;
}

/// Rows of several strips, each with a shorter one at its end, perhaps. A strip
/// that is not the last of its row fills more than half of a piece, so that the
/// last one of a row shares its piece with at most one before or behind it: one
/// row after the other is cut alike, from the third on at the latest.
void CollectivePieces::addRows(const StripCut &cut) {
  const int64_t perRow = cut.getStripsPerRow(), rows = cut.getNumRowGroups();
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t before = lastBytes;
    const size_t firstRun = runs.size();
    const int64_t firstPiece = numPieces;
    addStrips(row * perRow, perRow - 1, cut.getBytes(0));
    addStrips((row + 1) * perRow - 1, 1, cut.getBytes(perRow - 1));
    if (lastBytes != before)
      continue;
    // Strips next to one another start the row's pieces; so they do in all
    // other rows.
    const Run &first = runs[firstRun];
    const int64_t added = numPieces - firstPiece;
    const int64_t others = rows - row - 1;
    if (others > 0)
      runs.push_back({numPieces,
                      {first.first.move, first.first.strip + perRow},
                      added,
                      perRow});
    numPieces += added * others;
    return;
  }
}

void CollectivePieces::add(const StripCut &cut) {
  cuts.push_back(cut);
  if (cut.getStripsPerRow() > 1)
    return addRows(cut);
  const int64_t count = cut.getNumStrips();
  if (count == 0)
    return;
  addStrips(0, count - 1, cut.getBytes(0));
  addStrips(count - 1, 1, cut.getBytes(count - 1));
}
