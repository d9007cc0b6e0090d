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

bool Position::isConstant() const {
  return std::all_of(terms.begin(), terms.end(),
                     [](const auto &term) { return term.second == 0; });
}

bool Position::fitsAccess() const {
  constexpr int64_t limit = int64_t(1) << 31;
  auto fits = [&](int64_t number) { return -limit < number && number < limit; };
  return fits(offset) && fits(divisor) &&
         std::all_of(terms.begin(), terms.end(),
                     [&](const auto &term) { return fits(term.second); });
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
  return fits;
}

std::optional<Position> frontend::add(const Position &lhs, const Position &rhs,
                                      bool subtracts, PositionError &error) {
  // Of a rounded quotient a whole number is a multiple of the divisor.
  auto isWhole = [](const Position &p) { return p.divisor == 1; };
  for (const auto &[side, other] : {std::pair(&lhs, &rhs), {&rhs, &lhs}}) {
    if (side->kind == Position::Kind::Exact)
      continue;
    bool isRemainder = side->kind == Position::Kind::Modulo;
    bool isNegated = subtracts && side == &rhs;
    if (isRemainder || isNegated || !other->isConstant() || !isWhole(*other))
      return fail(error, Code::MixedIndex,
                  fmt::format("a {} stands in a sum with other positions",
                              isRemainder ? "remainder" : "rounded quotient"),
                  isRemainder ? "write the sum inside: (n + 1) % size(n)"
                              : "write the sum inside: floor((n + 1) / 2)");
  }
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
  return fits ? std::optional(sum) : failOverflow(error);
}

/// `position` times a whole number.
static std::optional<Position> multiply(Position position, int64_t factor,
                                        PositionError &error) {
  if (position.kind != Position::Kind::Exact && factor != 1)
    return fail(error, Code::MixedIndex,
                fmt::format("a {} is multiplied",
                            position.kind == Position::Kind::Modulo
                                ? "remainder"
                                : "rounded quotient"),
                "an index takes either a stride, or a remainder or rounding");
  if (!scale(position, factor))
    return failOverflow(error);
  return position;
}

static std::optional<Position> divide(Position position, int64_t by,
                                      PositionError &error) {
  if (by == 0)
    return fail(error, Code::NumberOverflow, "a position is divided by zero");
  if (position.kind == Position::Kind::Modulo)
    return fail(error, Code::MixedIndex, "a remainder is divided");
  if (position.kind == Position::Kind::Floor)
    return fail(error, Code::MixedIndex, "a rounded quotient is divided",
                "write one quotient: floor(n / 6) for floor(n / 2) / 3");
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
  bool isPlain = position.kind == Position::Kind::Exact &&
                 position.divisor == 1 &&
                 std::all_of(position.terms.begin(), position.terms.end(),
                             [](const auto &term) {
                               return -1 <= term.second && term.second <= 1;
                             });
  if (!isPlain)
    return fail(error, Code::MixedIndex,
                "a remainder is taken of multiples or quotients of dims",
                "\"%\" wraps sums of dims and numbers: (n + 1) % size(n)");
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
                                          Number rhs, PositionError &error) {
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

std::optional<Position> frontend::compute(Operator op, Number lhs,
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

Position frontend::floor(Position position) {
  if (position.kind == Position::Kind::Exact && position.divisor != 1)
    position.kind = Position::Kind::Floor;
  return position;
}
