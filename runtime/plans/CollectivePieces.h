#ifndef MESHC_RUNTIME_PLANS_COLLECTIVEPIECES_H
#define MESHC_RUNTIME_PLANS_COLLECTIVEPIECES_H

/// How the moves of a collective are cut into pieces of about half a MiB. A
/// piece is a formula of its number: what is stored does not grow with bytes.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace meshc::runtime {

/// Rows [rowBegin, rowEnd) of a move, elements [begin, end) of each.
struct Strip {
  int64_t rowBegin, rowEnd;
  int64_t begin, end;
  bool operator==(const Strip &) const = default;
};

/// A move of `rows` rows as strips: whole rows, as many as fit, or parts of one
/// row each, all of one size but the last of a row, and of whole rows the last
/// one.
class StripCut {
public:
  StripCut(int64_t rows, int64_t columns, int64_t bytesPerElement);

  int64_t getNumStrips() const { return stripsPerRow * getNumRowGroups(); }
  Strip getStrip(int64_t number) const;
  /// Bytes read and written.
  int64_t getBytes(int64_t strip) const;
  int64_t getStripsPerRow() const { return stripsPerRow; }
  /// Rows that are cut, or groups of rows that are not.
  int64_t getNumRowGroups() const {
    return (rows + rowsPerStrip - 1) / rowsPerStrip;
  }

private:
  int64_t rows, columns, bytesPerElement;
  int64_t columnsPerStrip, stripsPerRow, rowsPerStrip;
};

/// Pieces of the strips of several moves, one after the other. A piece, which
/// one thread does at a time, is a large strip or several small ones, of moves
/// that follow one another too: as many as pieceBytes allows.
class CollectivePieces {
public:
  /// Bytes read and written by one piece, about: some twenty microseconds, long
  /// beside handing it over and short beside a collective that is worth
  /// sharing.
  static constexpr int64_t pieceBytes = int64_t(1) << 19;

  /// Appends the strips of a move.
  void add(const StripCut &cut);

  int64_t getNumPieces() const { return numPieces; }
  size_t getNumMoves() const { return cuts.size(); }
  /// Calls `visit(move, strip)` for the strips of a piece, in order; moves are
  /// counted as they were added.
  template <class Visitor> void visit(int64_t piece, Visitor visit) const {
    Place place = getStart(piece);
    const Place end = getStart(piece + 1);
    while (place.move != end.move || place.strip != end.strip) {
      if (place.strip == cuts[place.move].getNumStrips()) {
        place = {place.move + 1, 0};
        continue;
      }
      visit(place.move, cuts[place.move].getStrip(place.strip));
      ++place.strip;
    }
  }
  /// What is stored beside the moves.
  size_t getNumRuns() const { return runs.size(); }

private:
  struct Place {
    size_t move;
    int64_t strip;
  };
  /// Pieces from `firstPiece` on that start at regular places: each of the
  /// `perPeriod` strips from `first` on starts one, and so again in every
  /// period of strips.
  struct Run {
    int64_t firstPiece;
    Place first;
    int64_t perPeriod, period;
  };

  /// Where a piece starts; behind the last one, where everything ends.
  Place getStart(int64_t piece) const;
  /// Appends `count` strips of `bytes` each, from number `first` of the last
  /// move on.
  void addStrips(int64_t first, int64_t count, int64_t bytes);
  void addRows(const StripCut &cut);

  std::vector<StripCut> cuts;
  std::vector<Run> runs;
  int64_t numPieces = 0;
  int64_t lastBytes = 0; ///< of the last piece
};

} // namespace meshc::runtime

#endif
