#include "layout/Access.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <numeric>
#include <utility>

using namespace meshc;
using namespace meshc::layout;

namespace {

int64_t divideUp(int64_t x, int64_t by) { return -divideDown(-x, by); }
int64_t getRemainder(int64_t x, int64_t by) {
  return x - divideDown(x, by) * by;
}

/// From `first` to `last`, both included; empty at `first` if there is none.
Range between(int64_t first, int64_t last) {
  return {first, std::max<int64_t>(last - first + 1, 0)};
}
int64_t getLast(Range range) { return range.offset + range.count - 1; }

/// The x with low <= factor * x <= high, both included.
Range divideRange(int64_t low, int64_t high, int64_t factor) {
  if (factor < 0)
    return divideRange(-high, -low, -factor);
  return between(divideUp(low, factor), divideDown(high, factor));
}

Range intersect(Range a, Range b) {
  return between(std::max(a.offset, b.offset),
                 std::min(getLast(a), getLast(b)));
}

/// Ascending by loop, one term for each, none of them 0.
void sortTerms(std::vector<AccessTerm> &terms) {
  std::sort(
      terms.begin(), terms.end(),
      [](const AccessTerm &a, const AccessTerm &b) { return a.loop < b.loop; });
  std::vector<AccessTerm> sums;
  for (const AccessTerm &term : terms)
    if (!sums.empty() && sums.back().loop == term.loop)
      sums.back().factor += term.factor;
    else
      sums.push_back(term);
  std::erase_if(sums, [](const AccessTerm &term) { return term.factor == 0; });
  terms = std::move(sums);
}

} // namespace

Access::Access(Kind kind, std::vector<AccessTerm> given, int64_t offset,
               int64_t divisor)
    : kind(kind), terms(std::move(given)), offset(offset), divisor(divisor) {
  assert(divisor >= 1 && "a divisor or modulus is positive");
  if (terms.size() != 1 || terms.front().factor == 0)
    sortTerms(terms);
  if (kind == Kind::Modulo) {
    for (AccessTerm &term : terms)
      term.factor = getRemainder(term.factor, divisor);
    // -1 rather than modulus - 1: half of the modulus stays positive.
    for (AccessTerm &term : terms)
      if (2 * term.factor > divisor)
        term.factor -= divisor;
    std::erase_if(terms,
                  [](const AccessTerm &term) { return term.factor == 0; });
    this->offset = getRemainder(offset, divisor);
    if (terms.empty()) {
      this->kind = Kind::Exact;
      this->divisor = 1;
    }
    return;
  }
  if (divisor == 1) {
    if (kind == Kind::Floor)
      this->kind = Kind::Exact;
    return;
  }
  int64_t common = divisor;
  for (const AccessTerm &term : terms)
    common = std::gcd(common, term.factor);
  if (kind == Kind::Exact)
    common = std::gcd(common, offset);
  for (AccessTerm &term : terms)
    term.factor /= common;
  this->offset = divideDown(offset, common);
  this->divisor /= common;
  if (this->divisor == 1)
    this->kind = Kind::Exact;
}

Access Access::itself(int32_t loop) {
  return Access(Kind::Exact, {{loop, 1}}, 0, 1);
}

Access Access::quotient(Kind kind, std::vector<AccessTerm> terms,
                        int64_t offset, int64_t divisor) {
  assert((kind == Kind::Exact || kind == Kind::Floor) && "no quotient");
  return Access(kind, std::move(terms), offset, divisor);
}

Access Access::modulo(std::vector<AccessTerm> terms, int64_t offset,
                      int64_t modulus) {
  return Access(Kind::Modulo, std::move(terms), offset, modulus);
}

Access Access::indexed(int32_t loop) {
  return Access(Kind::Indexed, {{loop, 1}}, 0, 1);
}

int64_t Access::getFactor(int32_t loop) const {
  for (const AccessTerm &term : terms)
    if (term.loop == loop)
      return term.factor;
  return 0;
}

std::optional<int32_t> Access::getLoop() const {
  if (kind != Kind::Exact || divisor != 1 || offset != 0 || terms.size() != 1 ||
      terms.front().factor != 1)
    return std::nullopt;
  return terms.front().loop;
}

std::optional<int64_t>
Access::evaluate(std::span<const int64_t> positions) const {
  assert(kind != Kind::Indexed && "a tensor says where");
  int64_t sum = offset;
  for (const AccessTerm &term : terms)
    sum += term.factor * positions[term.loop];
  if (kind == Kind::Modulo)
    return getRemainder(sum, divisor);
  if (kind == Kind::Exact && sum % divisor != 0)
    return std::nullopt;
  return divideDown(sum, divisor);
}

Range Access::getSums(std::span<const Range> loops) const {
  int64_t low = offset, high = offset;
  for (const AccessTerm &term : terms) {
    Range loop = loops[term.loop];
    if (loop.count == 0)
      return {offset, 0};
    int64_t first = term.factor * loop.offset;
    int64_t last = term.factor * getLast(loop);
    low += std::min(first, last);
    high += std::max(first, last);
  }
  return between(low, high);
}

Range Access::getImage(std::span<const Range> loops) const {
  Range sums = getSums(loops);
  switch (kind) {
  case Kind::Indexed:
    return loops[terms.front().loop];
  case Kind::Modulo:
    return {getRemainder(sums.offset, divisor), std::min(sums.count, divisor)};
  case Kind::Floor:
  case Kind::Exact:
    break;
  }
  if (sums.count == 0)
    return {divideDown(sums.offset, divisor), 0};
  if (kind == Kind::Floor)
    return between(divideDown(sums.offset, divisor),
                   divideDown(getLast(sums), divisor));
  int64_t first = divideUp(sums.offset, divisor);
  int64_t last = divideDown(getLast(sums), divisor);
  // The quotients of one term are whole at equal distances, of the factor; or
  // none is: a divisor that the factor has too is none of the offset.
  if (terms.size() == 1) {
    int64_t factor = terms.front().factor;
    if (std::gcd(factor, divisor) != 1)
      return between(first, first - 1);
    auto isTaken = [&](int64_t position) {
      return (position * divisor - offset) % factor == 0;
    };
    while (first <= last && !isTaken(first))
      ++first;
    while (first <= last && !isTaken(last))
      --last;
  }
  return between(first, last);
}

Range Access::getPreimage(int32_t loop, std::span<const Range> loops,
                          Range wanted) const {
  Range range = loops[loop];
  int64_t factor = getFactor(loop);
  if (factor == 0 || range.count == 0)
    return range;
  if (kind == Kind::Indexed)
    return intersect(range, wanted);
  // What the other loops add.
  std::vector<AccessTerm> others = terms;
  std::erase_if(others,
                [&](const AccessTerm &term) { return term.loop == loop; });
  Range rest = linear(std::move(others), offset).getSums(loops);
  if (rest.count == 0 || wanted.count == 0)
    return {range.offset, 0};
  auto find = [&](int64_t low, int64_t high) {
    return intersect(
        range, divideRange(low - getLast(rest), high - rest.offset, factor));
  };
  if (kind == Kind::Exact)
    return find(wanted.offset * divisor, getLast(wanted) * divisor);
  if (kind == Kind::Floor)
    return find(wanted.offset * divisor,
                getLast(wanted) * divisor + divisor - 1);
  // `wanted` comes again with every period.
  int64_t first = factor * range.offset, last = factor * getLast(range);
  if (factor < 0)
    std::swap(first, last);
  int64_t begin = divideDown(first + rest.offset - getLast(wanted), divisor);
  int64_t end = divideUp(last + getLast(rest) - wanted.offset, divisor);
  std::optional<Range> found;
  auto add = [&](int64_t period) {
    Range here = find(wanted.offset + period * divisor,
                      getLast(wanted) + period * divisor);
    if (here.count == 0)
      return false;
    if (!found)
      found = here;
    *found = between(std::min(found->offset, here.offset),
                     std::max(getLast(*found), getLast(here)));
    return true;
  };
  while (begin <= end && !add(begin))
    ++begin;
  while (begin < end && !add(end))
    --end;
  return found.value_or(Range{range.offset, 0});
}

std::optional<Window> Access::getWindow(int32_t loop,
                                        std::span<const Range> loops) const {
  const int64_t factor = getFactor(loop);
  if (kind == Kind::Indexed || factor == 0)
    return std::nullopt;
  std::vector<Range> others(loops.begin(), loops.end());
  others[size_t(loop)] = {0, 1};
  const Range sums = getSums(others);
  const int64_t size = loops[size_t(loop)].count;
  if (kind == Kind::Modulo) {
    // Around the ring in the shorter direction.
    const int64_t turns =
        divideDown(2 * sums.offset + divisor - 1, 2 * divisor);
    const int64_t first = sums.offset - turns * divisor;
    return Window{"", size, factor, first, first + sums.count - 1, 1, divisor};
  }
  int64_t low = sums.offset;
  if (kind == Kind::Exact)
    low = divideUp(low, divisor) * divisor;
  const int64_t high = sums.offset + sums.count - 1;
  if (low > high) // never whole where a block begins
    return std::nullopt;
  return Window{"", size, factor, low, high, divisor};
}

std::optional<Access> Access::solve(int32_t loop, int32_t position,
                                    int32_t remainder) const {
  int64_t factor = getFactor(loop);
  if (factor == 0 || kind == Kind::Indexed)
    return std::nullopt;
  // factor * loop = scale * position [+ remainder] - the other terms - offset.
  // The sign goes to the right, so that the divisor is positive.
  int64_t sign = factor < 0 ? -1 : 1;
  std::vector<AccessTerm> solved;
  for (const AccessTerm &term : terms)
    if (term.loop != loop)
      solved.push_back({term.loop, -sign * term.factor});
  if (kind == Kind::Modulo) {
    if (std::abs(factor) != 1)
      return std::nullopt;
    solved.push_back({position, sign});
    return modulo(std::move(solved), -sign * offset, divisor);
  }
  solved.push_back({position, sign * divisor});
  if (kind == Kind::Floor)
    solved.push_back({remainder, sign});
  return quotient(Kind::Exact, std::move(solved), -sign * offset,
                  std::abs(factor));
}

std::optional<Access> Access::compose(int32_t loop, const Access &inner) const {
  int64_t factor = getFactor(loop);
  if (factor == 0)
    return *this;
  if (getLoop())
    return inner;
  if (kind == Kind::Indexed || inner.kind == Kind::Indexed)
    return std::nullopt;
  if (inner.kind == Kind::Modulo) {
    // (factor * (sum mod m)) mod n is (factor * sum) mod n if n divides
    // factor * m.
    if (kind != Kind::Modulo || factor * inner.divisor % divisor != 0)
      return std::nullopt;
  } else if (inner.divisor != 1) {
    // A quotient inside may be taken out of the sum around it
    // - if it is rounded, where it counts once, for a rounded quotient;
    // - if it is exact, for another exact quotient: a whole sum says that
    //   factor * inner sum is divisible, which says the same of the inner sum
    //   if the factor has no divisor in common with the inner divisor.
    bool isPlain = kind != Kind::Modulo && divisor == 1;
    bool fits =
        inner.kind == Kind::Floor
            ? factor == 1 && (kind == Kind::Floor || isPlain)
            : kind == Kind::Exact && std::gcd(factor, inner.divisor) == 1;
    if (!fits)
      return std::nullopt;
  }
  bool isQuotient = inner.kind != Kind::Modulo;
  int64_t scale = isQuotient ? inner.divisor : 1;
  std::vector<AccessTerm> composed;
  for (const AccessTerm &term : terms)
    if (term.loop != loop)
      composed.push_back({term.loop, term.factor * scale});
  for (const AccessTerm &term : inner.terms)
    composed.push_back({term.loop, term.factor * factor});
  int64_t sum = offset * scale + inner.offset * factor;
  if (kind == Kind::Modulo)
    return modulo(std::move(composed), sum, divisor);
  Kind rounding = inner.kind == Kind::Floor ? Kind::Floor : kind;
  return quotient(rounding, std::move(composed), sum, divisor * scale);
}

std::string Access::toString(std::span<const std::string> loopNames) const {
  if (kind == Kind::Indexed)
    return "tensor over " + loopNames[terms.front().loop];
  std::string sum;
  auto add = [&](int64_t number, const std::string &name) {
    if (sum.empty())
      sum = number < 0 ? "-" : "";
    else
      sum += number < 0 ? " - " : " + ";
    int64_t size = std::abs(number);
    if (name.empty() || size != 1)
      sum += std::to_string(size) + (name.empty() ? "" : " ");
    sum += name;
  };
  for (const AccessTerm &term : terms)
    add(term.factor, loopNames[term.loop]);
  if (offset != 0 || terms.empty())
    add(offset, "");
  if (kind == Kind::Exact && divisor == 1)
    return sum;
  bool isSingle = terms.size() + (offset != 0) <= 1;
  bool needsBrackets = !isSingle || sum.find_first_of(" -") != sum.npos;
  std::string dividend = needsBrackets ? "(" + sum + ")" : sum;
  std::string by = std::to_string(divisor);
  if (kind == Kind::Modulo)
    return dividend + " % " + by;
  if (kind == Kind::Exact)
    return dividend + " / " + by;
  return "floor(" + dividend + " / " + by + ")";
}
