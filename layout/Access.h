#ifndef MESHC_LAYOUT_ACCESS_H
#define MESHC_LAYOUT_ACCESS_H

#include "layout/Sharding.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace meshc::layout {

/// `factor` times the position of a loop.
struct AccessTerm {
  int32_t loop = 0;
  int64_t factor = 1;

  bool operator==(const AccessTerm &) const = default;
};

/// Which position of a dimension an operation takes at each position of its
/// loops. Loops are numbers from 0.
///
/// A convolution of stride 2 reads the row `2 * row + dy - 1` of its input:
/// with loops row = 0, dy = 1 the access has the terms (0, 2), (1, 1) and the
/// offset -1. A device that computes rows 4 to 7 with dy from 0 to 2 reads the
/// rows 7 to 15: the image of its block, the halo included. Solved for row,
/// the access is `(y - dy + 1) / 2`: which row of the result a row y of the
/// input goes to. It is exact: where the quotient is not whole there is none.
///
/// There are four kinds:
///
///   kind      position                          example
///   Exact     (terms + offset) / divisor        a stride; divisor 1: a slice
///             none where it is not whole
///   Floor     floor((terms + offset) / divisor) nearest upsampling
///   Modulo    (terms + offset) mod modulus      a roll
///   Indexed   what a tensor says; the loop runs an embedding
///             over the whole dimension
///
/// Accesses have one form: terms ascend by loop, no factor is 0, common
/// divisors are cancelled, factors and offset of a Modulo are the smallest, and
/// a Floor of divisor 1 and a Modulo without terms are Exact.
///
/// Units:    positions, in elements.
/// Requires: factors, offsets, divisors, modulus and positions below 2^31, and
///           fewer than 2^16 terms after compose and solve: sums fit 64 bits.
class Access {
public:
  enum class Kind : uint8_t { Exact, Floor, Modulo, Indexed };

  /// The loop itself.
  static Access itself(int32_t loop);
  /// `kind` is Exact or Floor, `divisor` at least 1; a loop may have several
  /// terms.
  static Access quotient(Kind kind, std::vector<AccessTerm> terms,
                         int64_t offset, int64_t divisor);
  static Access linear(std::vector<AccessTerm> terms, int64_t offset) {
    return quotient(Kind::Exact, std::move(terms), offset, 1);
  }
  /// `modulus` is at least 1.
  static Access modulo(std::vector<AccessTerm> terms, int64_t offset,
                       int64_t modulus);
  /// By a tensor; `loop` runs over every position of the dimension.
  static Access indexed(int32_t loop);

  Kind getKind() const { return kind; }
  /// Of Indexed one: its loop.
  const std::vector<AccessTerm> &getTerms() const { return terms; }
  int64_t getOffset() const { return offset; }
  /// Exact and Floor: the divisor; Modulo: the modulus; Indexed: 1.
  int64_t getDivisor() const { return divisor; }
  /// The factor of `loop`, 0 if it has no term.
  int64_t getFactor(int32_t loop) const;
  /// The loop that this access is, or nothing if it is anything else.
  std::optional<int32_t> getLoop() const;

  /// The position at these positions of the loops, in or out of the dimension;
  /// nothing where an exact quotient is not whole. Not for Indexed.
  std::optional<int64_t> evaluate(std::span<const int64_t> positions) const;

  /// A range that holds every position taken while each loop runs over its
  /// range (one per loop, of the loops that occur). It begins and ends with a
  /// position taken; it may be larger for a quotient of several terms that is
  /// exact with a divisor above 1. Its offset may be negative: what lies
  /// outside the dimension is for the caller to clip.
  ///
  /// Modulo: the offset is in [0, modulus), the count at most the modulus,
  /// which means everything; a range that ends past the modulus goes on at 0.
  /// Indexed: the range of its loop.
  Range getImage(std::span<const Range> loops) const;

  /// A range that holds the positions of `loop` at which some position in
  /// `wanted` is taken, the other loops running over their ranges; part of the
  /// range of `loop`. It begins and ends with such a position if the access has
  /// one term and is not exact with a divisor above 1. Of a Modulo `wanted` may
  /// end past the modulus, as an image does.
  Range getPreimage(int32_t loop, std::span<const Range> loops,
                    Range wanted) const;

  /// The window that a block of `loop` reads, the other loops running over
  /// their ranges, which begin at 0: its name is left empty. Nothing where that
  /// is no window: the access is by a tensor or lacks `loop`, or no sum of the
  /// others is whole.
  std::optional<Window> getWindow(int32_t loop,
                                  std::span<const Range> loops) const;

  /// The access solved for `loop`: where that is, given the position taken and
  /// the other loops. In the answer the loop number `position` is the position
  /// taken. A Floor leaves a remainder open: the answer is exact, with
  /// `remainder` for a further loop from 0 to divisor - 1.
  ///
  /// Every pair of a loop's position and the position taken there is a pair of
  /// the answer, and the reverse; for Modulo only as long as the loop has at
  /// most modulus positions, and of positions below the modulus: the caller
  /// leaves out the others, which are never taken. Nothing if there is no such
  /// access: Modulo where the loop's factor is neither 1 nor -1, Indexed, an
  /// access without `loop`.
  std::optional<Access> solve(int32_t loop, int32_t position,
                              int32_t remainder) const;

  /// This access with `inner` in place of `loop`; nothing if that is no access
  /// of one of these kinds. It has no position where `inner` has none.
  std::optional<Access> compose(int32_t loop, const Access &inner) const;

  /// "row", "2 row + dy - 1", "(y - dy + 1) / 2", "floor(up / 2)",
  /// "(n + 1) % 8", "tensor over vocab".
  std::string toString(std::span<const std::string> loopNames) const;

  bool operator==(const Access &) const = default;

private:
  Access(Kind kind, std::vector<AccessTerm> terms, int64_t offset,
         int64_t divisor);

  /// The range of terms + offset.
  Range getSums(std::span<const Range> loops) const;

  Kind kind;
  std::vector<AccessTerm> terms;
  int64_t offset;
  int64_t divisor;
};

} // namespace meshc::layout

#endif
