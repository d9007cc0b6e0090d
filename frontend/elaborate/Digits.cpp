#include "frontend/elaborate/Digits.h"

#include "layout/AccessBounds.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::frontend;

namespace {

constexpr int64_t maxNumber = std::numeric_limits<int32_t>::max();

/// floor(sum / stride), and of that the remainder by `modulus` if it is not 0.
struct Digit {
  Position sum; ///< exact, without a divisor
  int64_t stride = 1;
  int64_t modulus = 0;

  /// What the sum may have more without another remainder.
  int64_t getPeriod() const { return modulus == 0 ? stride : stride * modulus; }
};

/// The digit that a rounded quotient or a remainder is: of a digit again one of
/// the same sum, where the strides nest.
Digit toDigit(const Position &part) {
  Digit digit{part};
  digit.sum.kind = Position::Kind::Exact;
  digit.sum.divisor = 1;
  (part.kind == Position::Kind::Floor ? digit.stride : digit.modulus) =
      part.divisor;
  auto &terms = digit.sum.terms;
  std::erase_if(terms, [](const auto &term) { return term.second == 0; });
  std::sort(terms.begin(), terms.end(), [](const auto &a, const auto &b) {
    return a.first.name < b.first.name;
  });
  const Position &sum = digit.sum;
  if (sum.parts.size() != 1 || sum.parts.front().second != 1 ||
      sum.offset != 0 || !terms.empty())
    return digit;
  Digit inner = toDigit(*sum.parts.front().first);
  if (part.kind == Position::Kind::Floor) {
    if (inner.modulus % part.divisor != 0 ||
        inner.stride > maxNumber / part.divisor)
      return digit;
    inner.modulus /= part.divisor;
    inner.stride *= part.divisor;
  } else if (inner.modulus % part.divisor == 0) {
    inner.modulus = part.divisor;
  } else if (part.divisor < inner.modulus) {
    return digit;
  }
  return inner;
}

/// A sum of loops of which digits are taken.
struct Numeral {
  std::vector<std::pair<Dim, int64_t>> terms;
  std::vector<Digit> taken = {};
  bool isBare = false; ///< a loop that is also taken itself

  /// The numeral is the terms and this, and then from 0 to count - 1.
  int64_t offset = 0;
  int64_t count = 1;
  /// Where digits begin, ascending, each a divisor of the next, and of where
  /// the last one ends; 0: with the numeral.
  std::vector<int64_t> strides = {};
  int64_t end = 0;
  std::vector<Dim> digits = {}; ///< one for each stride

  bool has(const Dim &loop) const {
    return std::any_of(terms.begin(), terms.end(),
                       [&](const auto &term) { return term.first == loop; });
  }
  Position getSum() const { return {terms, offset}; }
  /// Where digit i ends.
  int64_t getEnd(size_t i) const {
    return i + 1 < strides.size() ? strides[i + 1] : end;
  }
  /// The ranges of the digits, those of a last one that is not full apart.
  std::vector<std::vector<layout::Range>> getRanges() const;
};

class DigitReader {
public:
  DigitReader(const std::vector<Dim> &dims,
              std::vector<std::pair<Dim, Position>> given, PositionError &error)
      : dims(dims), positions(std::move(given)), error(error) {}

  std::optional<DigitReads> read();

private:
  bool fail(std::string message, std::string help = {}) {
    error = {Code::MixedIndex, std::move(message), std::move(help)};
    return false;
  }

  bool checkReach(const Position &position);
  void addWholeDims();
  bool findNumerals();
  bool addDigits(const Position &position);
  bool noteLoops(const Position &position);
  bool finish(Numeral &numeral);
  const Numeral *find(const std::vector<std::pair<Dim, int64_t>> &terms) const;
  void addValue(Position &sum, const Numeral &numeral, const Digit &digit,
                int64_t factor) const;
  Position rewrite(const Position &position) const;
  void addReads();
  std::vector<ViewAccess> getAccesses() const;
  std::vector<std::vector<ViewAccess>> getReads(const Numeral &numeral);
  bool mayMiss(const Dim &dim, const Position &position) const;
  void nameDigits();
  bool checkSizes(const std::vector<std::vector<ViewAccess>> &all);

  const std::vector<Dim> &dims; ///< of the tensor
  std::vector<std::pair<Dim, Position>> positions;
  PositionError &error;
  std::vector<Dim> loops;        ///< of the positions given
  std::vector<Numeral> numerals; ///< whose digits this round takes
  /// Where digits are read, the result first.
  std::vector<std::vector<ViewAccess>> reads;
};

std::string toString(const Position &position) {
  const ViewAccess access = position.getAccess({});
  std::vector<std::string> names;
  for (const Dim &loop : access.loops)
    names.push_back(loop.name);
  return access.form.toString(names);
}

Position getQuotient(Position sum, int64_t by) {
  sum.divisor = by;
  return floor(std::move(sum));
}

Position getRemainder(Position sum, int64_t by) {
  sum.kind = Position::Kind::Modulo;
  sum.divisor = by;
  return sum;
}

} // namespace

std::vector<std::vector<layout::Range>> Numeral::getRanges() const {
  std::vector<layout::Range> full;
  for (const Dim &digit : digits)
    full.push_back({0, digit.size});
  if (digits.empty() || end != 0)
    return {full};
  // Of the last numeral all digits above are the last ones where one is less.
  std::vector<std::vector<layout::Range>> all;
  std::vector<layout::Range> prefix = full;
  for (size_t i = digits.size(); i-- > 0;) {
    const int64_t above = getEnd(i);
    const int64_t last =
        (above == 0 ? count - 1 : (count - 1) % above) / strides[i];
    if (last > 0 || i == 0) {
      all.push_back(prefix);
      all.back()[i] = {0, i == 0 ? last + 1 : last};
    }
    prefix[i] = {last, 1};
  }
  return all;
}

/// Sums below 2^31, so that 64 bits hold whatever is made of them.
bool DigitReader::checkReach(const Position &position) {
  auto magnitude = [](__int128 x) { return x < 0 ? -x : x; };
  __int128 reach = magnitude(position.offset);
  for (const auto &[loop, factor] : position.terms)
    reach += magnitude(factor) * loop.size;
  for (const auto &[part, factor] : position.parts) {
    if (!checkReach(*part))
      return false;
    const layout::Range range = part->getRange();
    reach += magnitude(factor) * (magnitude(range.offset) + range.count);
  }
  if (reach <= maxNumber && position.divisor <= maxNumber)
    return true;
  error = {Code::NumberOverflow, "this index takes sums beyond 2^31", ""};
  return false;
}

/// A dimension that is not indexed, and has the name of a loop, is read at it.
void DigitReader::addWholeDims() {
  for (const Dim &dim : dims) {
    const bool isRead =
        std::any_of(positions.begin(), positions.end(), [&](const auto &known) {
          return known.first.name == dim.name;
        });
    if (!isRead && std::find(loops.begin(), loops.end(), dim) != loops.end())
      positions.emplace_back(dim, Position::of(dim));
  }
}

const Numeral *
DigitReader::find(const std::vector<std::pair<Dim, int64_t>> &terms) const {
  for (const Numeral &numeral : numerals)
    if (numeral.terms == terms)
      return &numeral;
  return nullptr;
}

/// Notes the digits whose sums are of loops alone.
bool DigitReader::addDigits(const Position &position) {
  for (const auto &[part, factor] : position.parts) {
    const Digit digit = toDigit(*part);
    if (!digit.sum.parts.empty()) {
      if (!addDigits(digit.sum))
        return false;
      continue;
    }
    if (digit.modulus != 0 && digit.stride > maxNumber / digit.modulus)
      return fail("the quotients of this index go beyond 2^31");
    if (!find(digit.sum.terms))
      numerals.push_back({digit.sum.terms});
    for (Numeral &numeral : numerals)
      if (numeral.terms == digit.sum.terms)
        numeral.taken.push_back(digit);
  }
  return true;
}

/// Notes loops that stand beside digits of theirs.
bool DigitReader::noteLoops(const Position &position) {
  for (const auto &[loop, factor] : position.terms)
    for (Numeral &numeral : numerals)
      if (factor != 0 && numeral.has(loop)) {
        if (numeral.terms.size() != 1 || numeral.terms.front().second != 1)
          return fail(
              fmt::format("\"{}\" stands beside a quotient or remainder "
                          "of a sum that it is in",
                          loop.name));
        numeral.isBare = true;
      }
  for (const auto &[part, factor] : position.parts) {
    const Digit digit = toDigit(*part);
    if (!digit.sum.parts.empty() && !noteLoops(digit.sum))
      return false;
  }
  return true;
}

/// The numerals whose digits the positions that are no accesses take, with
/// every position that shares a loop with one.
bool DigitReader::findNumerals() {
  std::vector<bool> isIn(positions.size(), false);
  auto shares = [&](const Position &position) {
    const std::vector<Dim> own = position.getLoops();
    return std::any_of(own.begin(), own.end(), [&](const Dim &loop) {
      return std::any_of(
          numerals.begin(), numerals.end(),
          [&](const Numeral &numeral) { return numeral.has(loop); });
    });
  };
  numerals.clear();
  for (bool grows = true; grows;) {
    grows = false;
    for (size_t i = 0; i < positions.size(); ++i) {
      Position &position = positions[i].second;
      if (isIn[i] || (position.isAccess() && !shares(position)))
        continue;
      if (position.kind != Position::Kind::Exact)
        position = Position::of(position);
      isIn[i] = grows = true;
      if (!addDigits(position))
        return false;
    }
  }
  for (size_t i = 0; i < positions.size(); ++i)
    if (isIn[i] && !noteLoops(positions[i].second))
      return false;
  for (const Numeral &numeral : numerals)
    for (const Numeral &other : numerals)
      for (const auto &[loop, factor] : numeral.terms)
        if (&numeral != &other && other.has(loop))
          return fail(fmt::format("quotients or remainders of two sums have "
                                  "\"{}\"",
                                  loop.name),
                      "those of one sum, as n + 1 is, go together");
  return std::all_of(numerals.begin(), numerals.end(),
                     [&](Numeral &numeral) { return finish(numeral); });
}

/// Which digits there are.
bool DigitReader::finish(Numeral &numeral) {
  const Digit &largest =
      *std::max_element(numeral.taken.begin(), numeral.taken.end(),
                        [](const Digit &a, const Digit &b) {
                          return a.getPeriod() < b.getPeriod();
                        });
  const int64_t period = largest.getPeriod();
  bool isBounded = !numeral.isBare;
  if (numeral.isBare)
    numeral.strides.push_back(1);
  for (const Digit &digit : numeral.taken) {
    if ((digit.sum.offset - largest.sum.offset) % digit.getPeriod() != 0)
      return fail(
          fmt::format("quotients or remainders of {} and of {} go by no "
                      "common digits",
                      toString(digit.sum), toString(largest.sum)));
    isBounded &= digit.modulus != 0;
    numeral.strides.push_back(digit.stride);
    if (digit.modulus != 0)
      numeral.strides.push_back(digit.getPeriod());
  }
  std::vector<int64_t> &strides = numeral.strides;
  std::sort(strides.begin(), strides.end());
  strides.erase(std::unique(strides.begin(), strides.end()), strides.end());
  for (size_t i = 1; i < strides.size(); ++i)
    if (strides[i] % strides[i - 1] != 0)
      return fail(fmt::format("quotients or remainders of {} by {} and {}, "
                              "neither of which divides the other",
                              toString(Position{numeral.terms}), strides[i - 1],
                              strides[i]));
  // From 0 on, by a multiple of all periods.
  const layout::Range range =
      Position{numeral.terms, largest.sum.offset}.getRange();
  const int64_t begin = layout::divideDown(range.offset, period) * period;
  numeral.offset = largest.sum.offset - begin;
  numeral.count = range.offset + range.count - begin;
  if (isBounded) {
    numeral.end = strides.back() < numeral.count ? strides.back() : 0;
    strides.pop_back();
  }
  // What always is 0 is no digit.
  std::erase_if(strides,
                [&](int64_t stride) { return stride >= numeral.count; });
  for (size_t i = 0; i < strides.size(); ++i) {
    const int64_t end = numeral.getEnd(i), stride = strides[i];
    const int64_t size =
        end != 0 ? end / stride : (numeral.count + stride - 1) / stride;
    std::string name = toString(getQuotient(numeral.getSum(), stride));
    if (end != 0)
      name = stride == 1 ? toString(getRemainder(numeral.getSum(), end))
                         : fmt::format("{} % {}", name, end / stride);
    numeral.digits.push_back({std::move(name), size});
  }
  return true;
}

/// Adds what `digit` is of the digits of `numeral`.
void DigitReader::addValue(Position &sum, const Numeral &numeral,
                           const Digit &digit, int64_t factor) const {
  for (size_t i = 0; i < numeral.strides.size(); ++i) {
    const int64_t stride = numeral.strides[i];
    if (stride < digit.stride ||
        (digit.modulus != 0 && stride >= digit.getPeriod()))
      continue;
    sum.terms.emplace_back(numeral.digits[i], factor * (stride / digit.stride));
  }
  // The numeral begins at 0, and the sum of the digit may not.
  if (digit.modulus == 0)
    sum.offset += factor * ((digit.sum.offset - numeral.offset) / digit.stride);
}

Position DigitReader::rewrite(const Position &position) const {
  Position result;
  result.offset = position.offset;
  result.divisor = position.divisor;
  result.kind = position.kind;
  for (const auto &[loop, factor] : position.terms) {
    auto numeral =
        std::find_if(numerals.begin(), numerals.end(),
                     [&](const Numeral &known) { return known.has(loop); });
    if (factor == 0 || numeral == numerals.end())
      result.terms.emplace_back(loop, factor);
    else
      addValue(result, *numeral, Digit{}, factor);
  }
  for (const auto &[part, factor] : position.parts) {
    const Digit digit = toDigit(*part);
    if (digit.sum.parts.empty()) {
      addValue(result, *find(digit.sum.terms), digit, factor);
      continue;
    }
    Position inner = rewrite(digit.sum);
    if (digit.stride != 1)
      inner = getQuotient(std::move(inner), digit.stride);
    if (digit.modulus != 0)
      inner = getRemainder(inner.kind == Position::Kind::Exact
                               ? inner
                               : Position::of(std::move(inner)),
                           digit.modulus);
    result.parts.emplace_back(
        std::make_shared<const Position>(std::move(inner)), factor);
  }
  return result;
}

/// How the digits of a numeral are found: the numeral itself where it is
/// multiples of loops, then the largest digit and what is left, as often as
/// needed.
std::vector<std::vector<ViewAccess>>
DigitReader::getReads(const Numeral &numeral) {
  std::vector<std::vector<ViewAccess>> all;
  if (numeral.digits.empty())
    return all;
  Position sum = numeral.getSum();
  auto take = [&](const Position &position, int64_t size) {
    const Dim rest{toString(position), size};
    all.back().push_back(position.getAccess(rest));
    sum = Position::of(rest);
  };
  size_t numLeft = numeral.digits.size();
  auto isLowest = [&] { return numLeft == 1 && numeral.strides[0] == 1; };
  if (!getRemainder(sum, maxNumber).isAccess() &&
      (numLeft > 1 || numeral.end != 0)) {
    all.emplace_back();
    take(sum, numeral.count);
  }
  // What is left below `end`: the lowest digit, or a numeral again.
  auto takeRemainder = [&](int64_t end) {
    const Position remainder = getRemainder(sum, end);
    if (isLowest()) {
      all.back().push_back(remainder.getAccess(numeral.digits[0]));
      numLeft = 0;
    } else {
      take(remainder, end);
    }
  };
  if (numeral.end != 0) {
    all.emplace_back();
    takeRemainder(numeral.end);
  }
  while (numLeft > 1) {
    const int64_t stride = numeral.strides[--numLeft];
    all.emplace_back();
    all.back().push_back(
        getQuotient(sum, stride).getAccess(numeral.digits[numLeft]));
    takeRemainder(stride);
  }
  if (numLeft == 1)
    all.push_back(
        {getQuotient(sum, numeral.strides[0]).getAccess(numeral.digits[0])});
  return all;
}

void DigitReader::addReads() {
  const size_t first = reads.size();
  for (const Numeral &numeral : numerals) {
    const std::vector<std::vector<ViewAccess>> own = getReads(numeral);
    reads.resize(std::max(reads.size(), first + own.size()));
    for (size_t i = 0; i < own.size(); ++i)
      reads[first + i].insert(reads[first + i].end(), own[i].begin(),
                              own[i].end());
  }
}

/// Whether a position is outside somewhere, by the digits of the last round.
bool DigitReader::mayMiss(const Dim &dim, const Position &position) const {
  const ViewAccess access = position.getAccess(dim);
  std::vector<std::vector<layout::Range>> all(1);
  for (const Dim &loop : access.loops)
    all.front().push_back({0, loop.size});
  for (const Numeral &numeral : numerals) {
    std::vector<std::vector<layout::Range>> extended;
    for (const std::vector<layout::Range> &digits : numeral.getRanges())
      for (std::vector<layout::Range> ranges : all) {
        for (size_t i = 0; i < digits.size(); ++i)
          for (size_t j = 0; j < access.loops.size(); ++j)
            if (access.loops[j] == numeral.digits[i])
              ranges[j] = digits[i];
        if (std::find(extended.begin(), extended.end(), ranges) ==
            extended.end())
          extended.push_back(std::move(ranges));
      }
    all = std::move(extended);
  }
  return std::any_of(all.begin(), all.end(),
                     [&](const std::vector<layout::Range> &ranges) {
                       return layout::mayMiss(access.form, ranges, dim.size);
                     });
}

/// Gives digits that are dimensions of the tensor their names.
void DigitReader::nameDigits() {
  for (auto &[dim, position] : positions) {
    const bool isDim = position.kind == Position::Kind::Exact &&
                       position.divisor == 1 && position.offset == 0 &&
                       position.terms.size() == 1 &&
                       position.terms.front().second == 1;
    if (!isDim || std::any_of(loops.begin(), loops.end(), [&](const Dim &loop) {
          return loop.name == dim.name;
        }))
      continue;
    const Dim digit = position.terms.front().first;
    if (digit.size != dim.size ||
        std::find(loops.begin(), loops.end(), digit) != loops.end() ||
        std::any_of(dims.begin(), dims.end(),
                    [&](const Dim &known) { return known.name == digit.name; }))
      continue;
    auto rename = [&, to = dim](Dim &at) {
      if (at == digit)
        at = to;
    };
    for (auto &[other, at] : positions)
      for (auto &[loop, factor] : at.terms)
        rename(loop);
    for (std::vector<ViewAccess> &accesses : reads)
      for (ViewAccess &access : accesses) {
        rename(access.dim);
        std::for_each(access.loops.begin(), access.loops.end(), rename);
      }
  }
}

/// Digits that are taken of a numeral which the loops hardly reach are more
/// than is there.
bool DigitReader::checkSizes(const std::vector<std::vector<ViewAccess>> &all) {
  auto count = [](const std::vector<Dim> &of) {
    double elements = 1;
    for (const Dim &dim : of)
      elements *= double(dim.size);
    return elements;
  };
  std::vector<Dim> now = dims;
  std::vector<double> sizes{count(now)};
  for (const std::vector<ViewAccess> &accesses : all) {
    for (const ViewAccess &access : accesses)
      std::erase_if(
          now, [&](const Dim &dim) { return dim.name == access.dim.name; });
    for (const ViewAccess &access : accesses)
      for (const layout::AccessTerm &term : access.form.getTerms()) {
        const Dim &loop = access.loops[size_t(term.loop)];
        if (std::find(now.begin(), now.end(), loop) == now.end())
          now.push_back(loop);
      }
    sizes.push_back(count(now));
  }
  const double most = 2 * std::max(sizes.front(), sizes.back());
  if (*std::max_element(sizes.begin(), sizes.end()) <= most)
    return true;
  return fail(
      "the quotients and remainders of this index are of sums with more "
      "values than there are elements",
      "multiples beside \"%\" go by strides that nest: (4 * a + b) % 6 "
      "where b has 4 positions");
}

std::optional<DigitReads> DigitReader::read() {
  auto isDone = [&] {
    return std::all_of(
        positions.begin(), positions.end(),
        [](const auto &known) { return known.second.isAccess(); });
  };
  DigitReads result;
  if (isDone()) {
    result.reads.push_back(getAccesses());
    return result;
  }
  for (const auto &[dim, position] : positions) {
    if (!checkReach(position))
      return std::nullopt;
    for (const Dim &loop : position.getLoops())
      if (std::find(loops.begin(), loops.end(), loop) == loops.end())
        loops.push_back(loop);
  }
  addWholeDims();
  do {
    if (!findNumerals())
      return std::nullopt;
    addReads();
    for (auto &[dim, position] : positions)
      position = rewrite(position);
  } while (!isDone());
  result.isInside =
      std::none_of(positions.begin(), positions.end(), [&](const auto &known) {
        return mayMiss(known.first, known.second);
      });
  nameDigits();
  result.reads.push_back(getAccesses());
  result.reads.insert(result.reads.end(), reads.rbegin(), reads.rend());
  if (!checkSizes(result.reads))
    return std::nullopt;
  return result;
}

std::vector<ViewAccess> DigitReader::getAccesses() const {
  std::vector<ViewAccess> accesses;
  for (const auto &[dim, position] : positions)
    accesses.push_back(position.getAccess(dim));
  return accesses;
}

std::optional<DigitReads>
frontend::readByDigits(const std::vector<Dim> &dims,
                       std::vector<std::pair<Dim, Position>> positions,
                       PositionError &error) {
  return DigitReader(dims, std::move(positions), error).read();
}
