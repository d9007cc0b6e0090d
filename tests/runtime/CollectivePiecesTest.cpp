/// Pieces as a formula of their number, against the list that cutting one move
/// after the other gives.

#include "runtime/plans/CollectivePieces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

using namespace meshc::runtime;

namespace {

constexpr int64_t pieceBytes = CollectivePieces::pieceBytes;

struct Move {
  int64_t rows, columns, bytesPerElement;
};

/// A strip and whose it is.
using Part = std::pair<size_t, Strip>;

/// The pieces written out: strips are collected until the next is too much.
std::vector<std::vector<Part>> listPieces(const std::vector<Move> &moves) {
  std::vector<std::vector<Part>> pieces;
  int64_t bytes = 0;
  for (size_t number = 0; number < moves.size(); ++number) {
    const Move &move = moves[number];
    auto add = [&](const Strip &strip) {
      const int64_t more = (strip.rowEnd - strip.rowBegin) *
                           (strip.end - strip.begin) * move.bytesPerElement;
      if (pieces.empty() || bytes + more > pieceBytes) {
        pieces.emplace_back();
        bytes = 0;
      }
      pieces.back().emplace_back(number, strip);
      bytes += more;
    };
    const int64_t elements = std::max<int64_t>(
        1024, pieceBytes / move.bytesPerElement / 1024 * 1024);
    const int64_t step = std::max<int64_t>(1, elements / move.columns);
    for (int64_t row = 0; row < move.rows; row += step)
      for (int64_t begin = 0; begin < move.columns; begin += elements)
        add({row, std::min(row + step, move.rows), begin,
             std::min(begin + elements, move.columns)});
  }
  return pieces;
}

CollectivePieces makePieces(const std::vector<Move> &moves) {
  CollectivePieces pieces;
  for (const Move &move : moves)
    pieces.add({move.rows, move.columns, move.bytesPerElement});
  return pieces;
}

void expectEqualPieces(const std::vector<Move> &moves,
                       const std::string &where) {
  const std::vector<std::vector<Part>> expected = listPieces(moves);
  const CollectivePieces pieces = makePieces(moves);
  ASSERT_EQ(pieces.getNumPieces(), int64_t(expected.size())) << where;
  for (size_t piece = 0; piece < expected.size(); ++piece) {
    std::vector<Part> parts;
    pieces.visit(int64_t(piece), [&](size_t move, const Strip &strip) {
      parts.emplace_back(move, strip);
    });
    ASSERT_EQ(parts, expected[piece]) << where << ", piece " << piece;
  }
}

TEST(CollectivePieces, AreThoseOfTheList) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 4000; ++round) {
    std::vector<Move> moves;
    std::string where;
    const int64_t count = int64_t(random() % 8);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t bytes = int64_t(1) << (random() % 4);
      const int64_t ends = 1 + int64_t(random() % (round % 5 == 0 ? 200 : 5));
      const int64_t elements = pieceBytes / (bytes * ends);
      // Rows about as long as a piece, much shorter, and much longer.
      const int64_t longest[] = {9, elements, 2 * elements, 7 * elements};
      const int64_t columns =
          1 + int64_t(random() % uint64_t(longest[random() % 4]));
      const int64_t rows = 1 + int64_t(random() % 12) *
                                   int64_t(columns < 9 ? elements / 4 + 1 : 1);
      moves.push_back({rows, columns, bytes * ends});
      where += std::to_string(rows) + "x" + std::to_string(columns) + "x" +
               std::to_string(bytes * ends) + " ";
    }
    expectEqualPieces(moves, where);
  }
}

/// Sizes at which one more strip begins, or fits into a piece.
TEST(CollectivePieces, AreThoseOfTheListAtTheBorders) {
  for (int64_t bytes : {8, 12, 300, 1000})
    for (int64_t columns :
         {int64_t(1), int64_t(513), pieceBytes / bytes, 2 * pieceBytes / bytes})
      for (int64_t more = -2; more <= 2; ++more)
        for (int64_t rows : {1, 2, 3, 7})
          if (columns + more > 0)
            expectEqualPieces({{1, 100, 8},
                               {rows, columns + more, bytes},
                               {2, 3, 4},
                               {rows, columns + more, bytes}},
                              std::to_string(rows) + "x" +
                                  std::to_string(columns + more) + "x" +
                                  std::to_string(bytes));
}

/// 2^56 bytes: as a list some 3 10^10 pieces.
TEST(CollectivePieces, TakeNoMemoryThatGrowsWithBytes) {
  const int64_t many = int64_t(1) << 27;
  const CollectivePieces pieces = makePieces(
      {{many, 1000, 8}, {many, 100'003, 8}, {1, many * many / 8, 8}});
  EXPECT_LE(pieces.getNumRuns(), 30U);
  EXPECT_GT(pieces.getNumPieces(), int64_t(1) << 34);
  int64_t end = 0;
  pieces.visit(pieces.getNumPieces() - 1, [&](size_t move, const Strip &strip) {
    EXPECT_EQ(move, 2U);
    end = strip.end;
  });
  EXPECT_EQ(end, many * many / 8);
}

} // namespace
