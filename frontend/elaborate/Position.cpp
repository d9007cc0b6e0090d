#include "frontend/elaborate/Position.h"

#include <algorithm>

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::frontend;
using ast::Operator;

static std::nullopt_t fail(PositionError &error, Code code, std::string message,
                           std::string help = {}) {
  error = {code, std::move(message), std::move(help)};
  return std::nullopt;
}

static std::nullopt_t failOverflow(PositionError &error) {
  return fail(error, Code::NumberOverflow,
              "the numbers of this index do not fit 64 bits");
}

Position Position::of(Position part) {
  Position sum;
  sum.parts.emplace_back(std::make_shared<const Position>(std::move(part)), 1);
  return sum;
}

bool Position::isConstant() const {
  auto isZero = [](const auto &term) { return term.second == 0; };
  return std::all_of(terms.begin(), terms.end(), isZero) &&
         std::all_of(parts.begin(), parts.end(), isZero);
}

std::vector<Dim> Position::getLoops() const {
  std::vector<Dim> loops;
  auto add = [&](const Dim &dim) {
    if (std::find(loops.begin(), loops.end(), dim) == loops.end())
      loops.push_back(dim);
  };
  for (const auto &[dim, factor] : terms)
    add(dim);
  for (const auto &[part, factor] : parts)
    for (const Dim &dim : part->getLoops())
      add(dim);
  return loops;
}

bool Position::fitsAccess() const {
  constexpr int64_t limit = int64_t(1) << 31;
  auto fits = [&](int64_t number) { return -limit < number && number < limit; };
  return fits(offset) && fits(divisor) &&
         std::all_of(terms.begin(), terms.end(),
                     [&](const auto &term) { return fits(term.second); }) &&
         std::all_of(parts.begin(), parts.end(), [&](const auto &part) {
           return fits(part.second) && part.first->fitsAccess();
         });
}

bool Position::isAccess() const {
  if (!parts.empty())
    return false;
  const std::vector<layout::AccessTerm> accessTerms =
      getAccess({}).form.getTerms();
  return kind != Kind::Modulo ||
         std::all_of(accessTerms.begin(), accessTerms.end(),
                     [](const layout::AccessTerm &term) {
                       return term.factor == 1 || term.factor == -1;
                     });
}

layout::Range Position::getRange() const {
  // Parts as loops from their least value on.
  std::vector<layout::AccessTerm> numbered;
  std::vector<layout::Range> ranges;
  auto add = [&](int64_t factor, layout::Range range) {
    numbered.push_back({int32_t(ranges.size()), factor});
    ranges.push_back(range);
  };
  for (const auto &[loop, factor] : terms)
    add(factor, {0, loop.size});
  for (const auto &[part, factor] : parts)
    add(factor, part->getRange());
  if (kind != Kind::Modulo)
    return layout::Access::quotient(kind, std::move(numbered), offset, divisor)
        .getImage(ranges);
  layout::Range image =
      layout::Access::modulo(std::move(numbered), offset, divisor)
          .getImage(ranges);
  // What goes on at 0 may be anything.
  return image.offset + image.count > divisor ? layout::Range{0, divisor}
                                              : image;
}

bool Position::operator==(const Position &other) const {
  return terms == other.terms && offset == other.offset &&
         divisor == other.divisor && kind == other.kind &&
         std::equal(parts.begin(), parts.end(), other.parts.begin(),
                    other.parts.end(), [](const auto &a, const auto &b) {
                      return a.second == b.second && *a.first == *b.first;
                    });
}

ViewAccess Position::getAccess(const Dim &dim) const {
  ViewAccess access{dim, layout::Access::linear({}, 0), {}};
  std::vector<layout::AccessTerm> numbered;
  for (const auto &[loop, factor] : terms) {
    numbered.push_back({int32_t(access.loops.size()), factor});
    access.loops.push_back(loop);
  }
  access.form =
      kind == Kind::Modulo
          ? layout::Access::modulo(std::move(numbered), offset, divisor)
          : layout::Access::quotient(kind, std::move(numbered), offset,
                                     divisor);
  return access;
}

/// lhs + sign * rhs, of whole numbers.
static bool accumulate(int64_t &lhs, int64_t rhs, int64_t sign) {
  int64_t scaled;
  return !__builtin_mul_overflow(rhs, sign, &scaled) &&
         !__builtin_add_overflow(lhs, scaled, &lhs);
}

/// Multiplies terms and offset: the divisor stays.
static bool scale(Position &position, int64_t factor) {
  bool fits =
      !__builtin_mul_overflow(position.offset, factor, &position.offset);
  for (auto &[dim, number] : position.terms)
    fits &= !__builtin_mul_overflow(number, factor, &number);
  for (auto &[part, number] : position.parts)
    fits &= !__builtin_mul_overflow(number, factor, &number);
  return fits;
}

std::optional<Position> frontend::add(const Position &lhs, const Position &rhs,
                                      bool subtracts, PositionError &error) {
  // Of a rounded quotient a whole number is a multiple of the divisor.
  auto isNumber = [](const Position &p) {
    return p.kind == Position::Kind::Exact && p.divisor == 1 && p.isConstant();
  };
  auto isSum = [&](const Position &p, const Position &other, bool isNegated) {
    return p.kind == Position::Kind::Exact ||
           (p.kind == Position::Kind::Floor && !isNegated && isNumber(other));
  };
  if (!isSum(lhs, rhs, false))
    return add(Position::of(lhs), rhs, subtracts, error);
  if (!isSum(rhs, lhs, subtracts))
    return add(lhs, Position::of(rhs), subtracts, error);
  Position sum = lhs, term = rhs;
  if (lhs.divisor != rhs.divisor) {
    if (!scale(sum, rhs.divisor) || !scale(term, lhs.divisor) ||
        __builtin_mul_overflow(lhs.divisor, rhs.divisor, &sum.divisor))
      return failOverflow(error);
  }
  if (rhs.kind != Position::Kind::Exact)
    sum.kind = rhs.kind;
  int64_t sign = subtracts ? -1 : 1;
  bool fits = accumulate(sum.offset, term.offset, sign);
  for (const auto &[dim, factor] : term.terms) {
    auto found = std::find_if(
        sum.terms.begin(), sum.terms.end(),
        [&](const auto &known) { return known.first.name == dim.name; });
    if (found == sum.terms.end())
      found = sum.terms.insert(sum.terms.end(), {dim, 0});
    fits &= accumulate(found->second, factor, sign);
  }
  for (const auto &[part, factor] : term.parts) {
    auto found =
        std::find_if(sum.parts.begin(), sum.parts.end(),
                     [&](const auto &known) { return *known.first == *part; });
    if (found == sum.parts.end())
      found = sum.parts.insert(sum.parts.end(), {part, 0});
    fits &= accumulate(found->second, factor, sign);
  }
  return fits ? std::optional(sum) : failOverflow(error);
}

/// `position` times a whole number.
static std::optional<Position> multiply(Position position, int64_t factor,
                                        PositionError &error) {
  if (position.kind != Position::Kind::Exact && factor != 1)
    position = Position::of(std::move(position));
  if (!scale(position, factor))
    return failOverflow(error);
  return position;
}

static std::optional<Position> divide(Position position, int64_t by,
                                      PositionError &error) {
  if (by == 0)
    return fail(error, Code::NumberOverflow, "a position is divided by zero");
  if (position.kind != Position::Kind::Exact)
    position = Position::of(std::move(position));
  if (by < 0) {
    if (by == INT64_MIN || !scale(position, -1))
      return failOverflow(error);
    by = -by;
  }
  if (__builtin_mul_overflow(position.divisor, by, &position.divisor))
    return failOverflow(error);
  return position;
}

static std::optional<Position> getRemainder(Position position, int64_t by,
                                            PositionError &error) {
  if (by < 1)
    return fail(error, Code::NumberOverflow,
                fmt::format("a position is taken modulo {}, expected at least "
                            "1",
                            by));
  if (position.kind == Position::Kind::Exact && position.divisor != 1)
    return fail(error, Code::MixedIndex,
                "a remainder is taken of a quotient that is not always whole",
                "floor(n / 2) is whole");
  // A quotient by 1 is a sum, and (n % 6) % 2 is n % 2.
  const bool isRepeated =
      position.kind == Position::Kind::Modulo && position.divisor % by == 0;
  if (position.kind != Position::Kind::Exact && !isRepeated)
    position = Position::of(std::move(position));
  if (position.isConstant()) {
    position.offset %= by;
    if (position.offset < 0)
      position.offset += by;
    return position;
  }
  position.kind = Position::Kind::Modulo;
  position.divisor = by;
  return position;
}

std::optional<Position> frontend::compute(Operator op, const Position &lhs,
                                          const Number &rhs,
                                          PositionError &error) {
  std::optional<int64_t> number = toInteger(rhs);
  if (!number) {
    bool isFactor = op == Operator::Multiply;
    return fail(error, Code::IndexNotInteger,
                fmt::format("an index has the number {}, which {}",
                            toString(rhs), describeNoInteger(rhs)),
                isFactor ? "a quotient of positions is written n / 2, or "
                           "floor(n / 2)"
                         : "floor(...) rounds it");
  }
  switch (op) {
  case Operator::Add:
  case Operator::Subtract:
    return add(lhs, Position{{}, *number}, op == Operator::Subtract, error);
  case Operator::Multiply:
    return multiply(lhs, *number, error);
  case Operator::Divide:
    return divide(lhs, *number, error);
  case Operator::Remainder:
    return getRemainder(lhs, *number, error);
  default:
    break;
  }
  return fail(
      error, Code::WrongKind,
      fmt::format("\"{}\" makes no position of a dim", ast::getSpelling(op)));
}

std::optional<Position> frontend::compute(Operator op, const Number &lhs,
                                          const Position &rhs,
                                          PositionError &error) {
  if (op == Operator::Add || op == Operator::Multiply)
    return compute(op, rhs, lhs, error);
  if (op != Operator::Subtract)
    return fail(
        error, Code::WrongKind,
        fmt::format("\"{}\" by a dim makes no position", ast::getSpelling(op)));
  std::optional<Position> negated = negate(rhs, error);
  return negated ? compute(Operator::Add, *negated, lhs, error) : std::nullopt;
}

std::optional<Position> frontend::negate(const Position &position,
                                         PositionError &error) {
  return multiply(position, -1, error);
}

/// floor((floor(a / 2) + b) / 3) as floor((a + 2 b) / 6).
static std::optional<Position> flatten(const Position &position) {
  if (position.parts.size() != 1 || position.parts.front().second != 1)
    return std::nullopt;
  const Position &inner = *position.parts.front().first;
  if (inner.kind != Position::Kind::Floor)
    return std::nullopt;
  Position outer = position;
  outer.parts.clear();
  outer.divisor = 1;
  Position sum = inner;
  sum.kind = Position::Kind::Exact;
  sum.divisor = 1;
  PositionError error;
  std::optional<Position> flat;
  if (scale(outer, inner.divisor))
    flat = add(sum, outer, /*subtracts=*/false, error);
  if (!flat ||
      __builtin_mul_overflow(inner.divisor, position.divisor, &flat->divisor))
    return std::nullopt;
  flat->kind = Position::Kind::Floor;
  return flat;
}

Position frontend::floor(Position position) {
  if (position.kind != Position::Kind::Exact || position.divisor == 1)
    return position;
  if (std::optional<Position> flat = flatten(position))
    return *flat;
  position.kind = Position::Kind::Floor;
  return position;
}

Position frontend::ceil(Position position) {
  // What goes beyond 64 bits is refused where it goes beyond those of an
  // access.
  if (position.kind == Position::Kind::Exact &&
      __builtin_add_overflow(position.offset, position.divisor - 1,
                             &position.offset))
    position.offset = INT64_MAX;
  return floor(std::move(position));
}
