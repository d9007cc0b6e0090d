#ifndef MESHC_FRONTEND_ELABORATE_DIGITS_H
#define MESHC_FRONTEND_ELABORATE_DIGITS_H

#include "frontend/elaborate/Position.h"

#include <optional>
#include <utility>
#include <vector>

namespace meshc::frontend {

/// Positions that are no accesses, as reads one after the other whose positions
/// are: quotients and remainders of one sum of loops are the digits of a
/// number.
///
/// A pixel shuffle reads, of x[row, depth],
///
///   x[row = floor(h / 2), depth = 2 * c + h % 2]
///
/// With the digits row and h%2 for h this is first x[depth = 2 * c + h%2],
/// which splits depth, and then [row = floor(h / 2), h%2 = h % 2] of that,
/// which makes h of two. Strides of one sum have to divide each other: 1, 2, 6
/// for floor(m / 6), floor(m / 2) % 3 and m % 2. More than two digits are taken
/// one by one, the largest first. A digit has the name of the dimension that it
/// is, so that it is split as that one; any other is called as it is written.
struct DigitReads {
  /// Reads of the tensor, each of the result of the one before it: first the
  /// positions given, then digits.
  std::vector<std::vector<ViewAccess>> reads;
  /// Whether digits were taken, and all positions given are inside for all that
  /// the loops take of them: there may be more combinations of digits.
  bool isInside = false;
};

/// Where each dimension of `dims` is read, and those which are read where they
/// are, as reads. Nothing, with an error, where numbers go beyond 2^31, where
/// the digits do not nest, or where a read would have more than twice the
/// elements of the tensor and of the result.
/// Requires: fitsAccess of each position.
std::optional<DigitReads>
readByDigits(const std::vector<Dim> &dims,
             std::vector<std::pair<Dim, Position>> positions,
             PositionError &error);

} // namespace meshc::frontend

#endif
