// reshape: dims as other dims of as many positions.

#include "frontend/elaborate/Elaborator.h"

#include <algorithm>
#include <ranges>

#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace meshc;
using namespace meshc::frontend;

namespace {
/// `from -> to` of a reshape.
struct Regrouping {
  std::vector<Dim> from, to;
};
} // namespace

/// Positions of all dims together; nothing beyond 2^63.
static std::optional<int64_t> countPositions(const std::vector<Dim> &dims) {
  int64_t count = 1;
  for (const Dim &dim : dims)
    if (__builtin_mul_overflow(count, dim.size, &count))
      return std::nullopt;
  return count;
}

/// "d of 6", "(heads, d) of 2 * 3".
static std::string describe(const std::vector<Dim> &dims) {
  std::vector<std::string> names;
  std::vector<int64_t> sizes;
  for (const Dim &dim : dims) {
    names.push_back(dim.name);
    sizes.push_back(dim.size);
  }
  if (dims.empty())
    return "()";
  return dims.size() == 1 ? fmt::format("{} of {}", names[0], sizes[0])
                          : fmt::format("({}) of {}", fmt::join(names, ", "),
                                        fmt::join(sizes, " * "));
}

/// `group` as the smallest regroupings, one after the other, that it is made
/// of: (2, 6, 5) to (4, 3, 5) as (2, 6) to (4, 3), and 5 to 5. Dims of size 1
/// at the end belong to the last one.
static std::vector<Regrouping> split(const Regrouping &group) {
  std::vector<Regrouping> parts;
  auto from = group.from.begin(), to = group.to.begin();
  while (from != group.from.end() && to != group.to.end()) {
    Regrouping part{{*from++}, {*to++}};
    int64_t had = part.from[0].size, wanted = part.to[0].size;
    while (had != wanted) {
      const bool isLess = had < wanted;
      const Dim &next = isLess ? *from++ : *to++;
      (isLess ? part.from : part.to).push_back(next);
      (isLess ? had : wanted) *= next.size;
    }
    parts.push_back(std::move(part));
  }
  if (parts.empty())
    return {group};
  parts.back().from.insert(parts.back().from.end(), from, group.from.end());
  parts.back().to.insert(parts.back().to.end(), to, group.to.end());
  return parts;
}

/// Where each dim in front of the arrow is read: a digit of the number that the
/// dims behind it are, the first of which is the major one.
static void addPositions(const Regrouping &group,
                         std::vector<std::pair<Dim, Position>> &positions) {
  Position number;
  int64_t stride = 1;
  for (const Dim &dim : std::views::reverse(group.to)) {
    number.terms.insert(number.terms.begin(), {dim, stride});
    stride *= dim.size;
  }
  stride = 1;
  std::vector<std::pair<Dim, Position>> digits;
  for (const Dim &dim : std::views::reverse(group.from)) {
    Position digit = number;
    if (stride > 1) {
      digit.divisor = stride;
      digit = floor(std::move(digit));
    }
    stride *= dim.size;
    if (&dim != &group.from.front()) {
      Position rest = digit.kind == Position::Kind::Exact
                          ? std::move(digit)
                          : Position::of(std::move(digit));
      rest.kind = Position::Kind::Modulo;
      rest.divisor = dim.size;
      digit = std::move(rest);
    }
    digits.emplace_back(dim, std::move(digit));
  }
  positions.insert(positions.end(), digits.rbegin(), digits.rend());
}

/// reshape(x, (heads, d_head) -> d, part -> (i, j)): all at once.
Value Elaborator::callReshape(const ast::CallExpr &call, const Arguments &) {
  if (call.arguments.size() < 2 || call.arguments[0].arrow ||
      call.arguments[0].name) {
    error(Code::MissingArgument, call.span,
          "reshape needs a tensor and the dimensions to regroup")
        .help("write reshape(x, (major, minor) -> merged)");
    return Poison();
  }
  const ast::Expr &operand = *call.arguments[0].value;
  Tensor x = evaluateTensor(operand, "what is reshaped");
  std::vector<Regrouping> groups;
  std::vector<Operand> read, made; // in the order of the groups' dims
  for (size_t i = 1; i < call.arguments.size(); ++i) {
    const ast::Argument &argument = call.arguments[i];
    if (!argument.arrow || !argument.target || argument.name) {
      error(Code::ExpectedToken, argument.value->span,
            "expected \"dims -> dims\"");
      return Poison();
    }
    std::optional<Dims> from = evaluateDims(*argument.value, &read);
    std::optional<Dims> to = evaluateDims(*argument.target, &made);
    if (!from || !to || !x)
      return Poison();
    groups.push_back({std::move(*from), std::move(*to)});
    const std::optional<int64_t> had = countPositions(groups.back().from);
    if (!had || had != countPositions(groups.back().to)) {
      error(
          Code::UnequalSizes, join(argument.value->span, argument.target->span),
          fmt::format("cannot reshape {} to {}", ::describe(groups.back().from),
                      ::describe(groups.back().to)))
          .note("what stands in front of \"->\" has as many positions as what "
                "stands behind it");
      return Poison();
    }
  }
  std::vector<Dim> from, to;
  for (const Regrouping &group : groups) {
    from.insert(from.end(), group.from.begin(), group.from.end());
    to.insert(to.end(), group.to.begin(), group.to.end());
  }
  if (!checkReshape(x, from, to, read, made))
    return Poison();
  const Where where = getWhere(call.span);
  std::vector<std::pair<Dim, Position>> positions;
  std::vector<Dim> added;
  for (const Regrouping &group : groups) {
    for (const Regrouping &part : split(group))
      addPositions(part, positions);
    if (group.from.empty())
      added.insert(added.end(), group.to.begin(), group.to.end());
  }
  for (size_t i = 0; i < positions.size(); ++i)
    if (!checkNumbers(positions[i].second, read[i].span))
      return Poison();
  std::vector<Operand> operands{{operand.span, x}};
  operands.insert(operands.end(), read.begin(), read.end());
  operands.insert(operands.end(), read.begin(), read.end());
  Tensor result = positions.empty() ? x
                                    : readPositions(x, positions, false,
                                                    nullptr, operands, where);
  if (result && !added.empty())
    result = checked(builder.broadcast(result, added, where));
  return orPoison(result);
}

/// Whether `x` has each dim of `from`, and no other one of `to`, once.
bool Elaborator::checkReshape(Tensor x, const std::vector<Dim> &from,
                              const std::vector<Dim> &to,
                              const std::vector<Operand> &read,
                              const std::vector<Operand> &made) {
  auto isNamed = [](const std::vector<Dim> &dims, size_t count,
                    const std::string &name) {
    return std::any_of(dims.begin(), dims.begin() + ptrdiff_t(count),
                       [&](const Dim &dim) { return dim.name == name; });
  };
  for (size_t i = 0; i < from.size(); ++i) {
    if (isNamed(from, i, from[i].name)) {
      error(Code::RepeatedDim, read[i].span,
            fmt::format("reshape reads dimension \"{}\" twice", from[i].name));
      return false;
    }
    if (!x.hasDim(from[i].name)) {
      error(Code::DimNotInTensor, read[i].span,
            fmt::format("reshape of dimension \"{}\", which {} lacks",
                        from[i].name,
                        toString(x.getElementType(), x.getDims())));
      return false;
    }
  }
  for (size_t i = 0; i < to.size(); ++i) {
    if (isNamed(to, i, to[i].name)) {
      error(Code::RepeatedDim, made[i].span,
            fmt::format("reshape makes dimension \"{}\" twice", to[i].name));
      return false;
    }
    if (x.hasDim(to[i].name) && !isNamed(from, from.size(), to[i].name)) {
      error(Code::DimAlreadyPresent, made[i].span,
            fmt::format("{} has dimension \"{}\" already",
                        toString(x.getElementType(), x.getDims()), to[i].name));
      return false;
    }
  }
  return true;
}
