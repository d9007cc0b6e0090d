// Views: which positions of a tensor are read, and whether they are there.

#include "frontend/BuilderState.h"

#include "layout/AccessBounds.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include <fmt/format.h>

namespace meshc::frontend {

namespace {

using Kind = layout::Access::Kind;

std::vector<layout::Range> getRanges(const ViewAccess &access) {
  std::vector<layout::Range> ranges;
  for (const Dim &loop : access.loops)
    ranges.push_back({0, loop.size});
  return ranges;
}

std::string toString(const ViewAccess &access) {
  std::vector<std::string> names;
  for (const Dim &loop : access.loops)
    names.push_back(loop.name);
  return access.form.toString(names);
}

/// Factors, offsets and sums are below 2^31, so that i32 holds positions and 64
/// bits what is made of them.
bool checkRange(BuilderState &state, const ViewAccess &access, int operand,
                const Where &where) {
  constexpr auto limit = __int128(std::numeric_limits<int32_t>::max());
  const layout::Access &form = access.form;
  __int128 reach = form.getOffset() < 0 ? -__int128(form.getOffset())
                                        : __int128(form.getOffset());
  for (const layout::AccessTerm &term : form.getTerms()) {
    __int128 size = access.loops[size_t(term.loop)].size;
    reach += size *
             (term.factor < 0 ? -__int128(term.factor) : __int128(term.factor));
  }
  if (reach <= limit && form.getDivisor() <= limit &&
      __int128(access.dim.size) * form.getDivisor() <= limit)
    return true;
  state.fail(Code::NumberOverflow, where,
             fmt::format("\"{}\" is read at {}, which goes beyond 2^31",
                         access.dim.name, toString(access)),
             operand);
  return false;
}

/// Whether the form takes positions outside of the dimension, or none.
bool mayMiss(const ViewAccess &access) {
  return layout::mayMiss(access.form, getRanges(access), access.dim.size);
}

/// The access for the dialect, which knows only loops that have a term.
nd::AccessAttr getAttribute(const ViewAccess &access,
                            mlir::MLIRContext *context) {
  const layout::Access &form = access.form;
  std::vector<layout::AccessTerm> terms;
  llvm::SmallVector<mlir::StringAttr> names;
  for (const layout::AccessTerm &term : form.getTerms()) {
    terms.push_back({int32_t(terms.size()), term.factor});
    names.push_back(
        mlir::StringAttr::get(context, access.loops[size_t(term.loop)].name));
  }
  layout::Access numbered =
      form.getKind() == Kind::Modulo
          ? layout::Access::modulo(terms, form.getOffset(), form.getDivisor())
          : layout::Access::quotient(form.getKind(), terms, form.getOffset(),
                                     form.getDivisor());
  return nd::AccessAttr::get(mlir::StringAttr::get(context, access.dim.name),
                             nd::DimAccess(numbered, names));
}

bool checkInside(BuilderState &state, const ViewAccess &access, int operand,
                 const Where &where) {
  if (!mayMiss(access))
    return true;
  layout::Range image = access.form.getImage(getRanges(access));
  // What goes on at 0 takes remainders from 0 to the largest.
  if (access.form.getKind() == Kind::Modulo &&
      image.offset + image.count > access.form.getDivisor())
    image = {0, access.form.getDivisor()};
  bool isQuotient =
      access.form.getKind() == Kind::Exact && access.form.getDivisor() > 1;
  std::string message =
      isQuotient
          ? fmt::format("\"{}\" is read at {}, which is not always whole",
                        access.dim.name, toString(access))
          : fmt::format("\"{}\" has positions 0 to {} and is read at {} to {}",
                        access.dim.name, access.dim.size - 1, image.offset,
                        image.offset + image.count - 1);
  BuildError &error =
      state.fail(Code::ReadsOutside, where, std::move(message), operand);
  error.insertion = " else 0";
  error.insertionReason = "say what is there outside";
  return false;
}

/// Whether something is read, and each position of a loop reads something for
/// some of the others; an access of one loop may shift it out.
bool checkWindow(BuilderState &state, const ViewAccess &access, int operand,
                 const Where &where) {
  const layout::Access &form = access.form;
  if (form.getKind() == Kind::Modulo)
    return true;
  auto isRead = [&](layout::Range image) {
    return image.count > 0 && image.offset < access.dim.size &&
           image.offset + image.count > 0;
  };
  if (!isRead(form.getImage(getRanges(access)))) {
    state.fail(Code::WindowTooLarge, where,
               fmt::format("nothing of \"{}\", of size {}, is read: no "
                           "position is at {}",
                           access.dim.name, access.dim.size, toString(access)),
               operand);
    return false;
  }
  if (form.getTerms().size() < 2)
    return true;
  for (const layout::AccessTerm &term : form.getTerms()) {
    const Dim &loop = access.loops[size_t(term.loop)];
    // The image moves with the position: it is farthest out at the ends.
    for (int64_t position : {int64_t(0), loop.size - 1}) {
      std::vector<layout::Range> ranges = getRanges(access);
      ranges[size_t(term.loop)] = {position, 1};
      layout::Range image = form.getImage(ranges);
      if (isRead(image))
        continue;
      state.fail(Code::WindowTooLarge, where,
                 fmt::format("at position {} of \"{}\" nothing of \"{}\", of "
                             "size {}, is read: {} is outside",
                             position, loop.name, access.dim.name,
                             access.dim.size, toString(access)),
                 operand);
      return false;
    }
  }
  return true;
}

} // namespace

Tensor Builder::view(Tensor x, const std::vector<ViewAccess> &accesses,
                     bool isPadded, const Where &where) {
  if (!x)
    return {};
  for (size_t i = 0; i < accesses.size(); ++i) {
    const ViewAccess &access = accesses[i];
    int operand = int(i) + 1, named = operand + int(accesses.size());
    if (!checkHasDim(*state, "index", x, access.dim.name, named, where))
      return {};
    for (size_t j = 0; j < i; ++j)
      if (accesses[j].dim.name == access.dim.name) {
        state->fail(Code::RepeatedDim, where,
                    fmt::format("the index reads dimension \"{}\" twice",
                                access.dim.name),
                    named);
        return {};
      }
    if (!checkRange(*state, access, operand, where) ||
        (!isPadded && !checkInside(*state, access, operand, where)) ||
        !checkWindow(*state, access, operand, where))
      return {};
  }

  std::vector<Dim> dims;
  auto add = [](std::vector<Dim> &all, const Dim &dim) {
    if (std::none_of(all.begin(), all.end(),
                     [&](const Dim &known) { return known.name == dim.name; }))
      all.push_back(dim);
  };
  mlir::MLIRContext *context = state->context;
  llvm::SmallVector<mlir::Attribute> attributes;
  for (const Dim &dim : x.getDims()) {
    auto access = std::find_if(accesses.begin(), accesses.end(),
                               [&](const ViewAccess &candidate) {
                                 return candidate.dim.name == dim.name;
                               });
    if (access == accesses.end()) {
      add(dims, dim);
      continue;
    }
    for (const layout::AccessTerm &term : access->form.getTerms())
      add(dims, access->loops[size_t(term.loop)]);
    attributes.push_back(getAttribute(*access, context));
  }
  Tensor read = state->create<nd::ViewOp>(
      where, x.getElementType(), dims, BuilderState::getValue(x),
      mlir::ArrayAttr::get(context, attributes));
  // Along a loop without a term, of `m % 1` and `0 * m`, all is the same: no
  // size and no factor changes which dimensions the result has.
  std::vector<Dim> repeated;
  for (const ViewAccess &access : accesses)
    for (const Dim &loop : access.loops)
      if (read && !read.hasDim(loop.name))
        add(repeated, loop);
  return repeated.empty() ? read : broadcast(read, repeated, where);
}

Dim asRead(const Dim &dim) { return {dim.name + " read", dim.size}; }

Tensor Builder::gather(Tensor x, Tensor index, const Dim &over,
                       const Where &where, bool isPadded) {
  if (!x || !index)
    return {};
  if (isForData(index.getElementType()))
    index = cast(index, ElementType::I32, where);
  if (index.getElementType() != ElementType::I32 &&
      index.getElementType() != ElementType::I64) {
    state->fail(Code::WrongElementType, where,
                fmt::format("the index of gather has integer elements, not {}",
                            getName(index.getElementType())),
                1);
    return {};
  }
  if (!checkHasDim(*state, "gather", x, over.name, 2, where))
    return {};
  // The dimension of the index is another one, of the result.
  if (index.hasDim(over.name)) {
    Dim read = asRead(over);
    return gather(rename(x, {{over, read}}, where), index, read, where,
                  isPadded);
  }
  if (Tensor slice = state->findSlice(x, index, over.name, where))
    return slice;
  std::vector<Dim> dims;
  for (const Dim &dim : BuilderState::unite({{index, x}}))
    if (dim.name != over.name)
      dims.push_back(dim);
  if (!isPadded)
    state->noteIndex(BuilderState::getValue(index), over.size);
  return state->create<nd::GatherOp>(where, x.getElementType(), dims,
                                     BuilderState::getValue(x),
                                     BuilderState::getValue(index), over.name);
}

/// The rounded quotient or the remainder that an access is, as integers of
/// `type`.
static Tensor getQuotient(Builder &builder, const ViewAccess &access,
                          ElementType type, const Where &where) {
  const layout::Access &form = access.form;
  assert(form.getKind() != Kind::Exact && "not everywhere a position");
  // Of integers that are not negative: a multiple of the divisor more changes
  // no remainder, and a quotient by as many.
  const int64_t divisor = form.getDivisor();
  const layout::Range sums =
      layout::Access::linear(form.getTerms(), form.getOffset())
          .getImage(getRanges(access));
  const int64_t multiple =
      sums.offset < 0 ? (-sums.offset + divisor - 1) / divisor : 0;
  const int64_t added = multiple * divisor;
  const bool isWide =
      sums.offset + sums.count + added > std::numeric_limits<int32_t>::max();
  const ElementType integer = isWide ? ElementType::I64 : ElementType::I32;
  auto number = [&](int64_t value) {
    return builder.constant(value, integer, where);
  };
  const int64_t offset = form.getOffset() + (isWide ? 0 : added);
  Tensor sum = builder.position(
      {access.dim, layout::Access::linear(form.getTerms(), offset),
       access.loops},
      integer, where);
  if (isWide)
    sum = builder.add(sum, number(added), where);
  Tensor result = builder.div(sum, number(divisor), where);
  if (form.getKind() == Kind::Modulo)
    result =
        builder.sub(sum, builder.mul(result, number(divisor), where), where);
  else if (multiple != 0)
    result = builder.sub(result, number(multiple), where);
  return type == integer ? result : builder.cast(result, type, where);
}

Tensor Builder::position(const ViewAccess &access, ElementType type,
                         const Where &where) {
  if (!checkRange(*state, access, -1, where))
    return {};
  if (access.form.getDivisor() != 1)
    return getQuotient(*this, access, type, where);
  Tensor sum;
  auto add = [&](Tensor term) {
    sum = sum ? this->add(sum, term, where) : term;
  };
  for (const layout::AccessTerm &term : access.form.getTerms()) {
    Tensor positions = iota(access.loops[size_t(term.loop)], where);
    if (type != ElementType::I32)
      positions = cast(positions, type, where);
    if (term.factor != 1)
      positions = mul(positions, constant(term.factor, type, where), where);
    add(positions);
  }
  if (!sum || access.form.getOffset() != 0)
    add(constant(access.form.getOffset(), type, where));
  // As in views: what is multiplied by 0 has its dimensions.
  std::vector<Dim> repeated;
  for (const Dim &loop : access.loops)
    if (sum && !sum.hasDim(loop.name))
      repeated.push_back(loop);
  return repeated.empty() ? sum : broadcast(sum, repeated, where);
}

Tensor Builder::isInside(Tensor index, const Dim &dim, const Where &where) {
  if (!index)
    return {};
  ElementType type = index.getElementType();
  return andOf(
      compare(Comparison::Ge, index, constant(int64_t(0), type, where), where),
      compare(Comparison::Lt, index, constant(dim.size, type, where), where),
      where);
}

Tensor Builder::isInside(const std::vector<ViewAccess> &accesses,
                         const Where &where) {
  Tensor inside;
  auto require = [&](Tensor condition) {
    inside = inside ? andOf(inside, condition, where) : condition;
  };
  for (const ViewAccess &access : accesses) {
    if (!mayMiss(access))
      continue;
    const layout::Access &form = access.form;
    const int64_t divisor = form.getDivisor();
    if (form.getKind() == Kind::Modulo) {
      require(isInside(position(access, ElementType::I32, where), access.dim,
                       where));
      continue;
    }
    Tensor sum = position(
        {access.dim, layout::Access::linear(form.getTerms(), form.getOffset()),
         access.loops},
        ElementType::I32, where);
    if (!sum)
      return {};
    require(isInside(sum, {access.dim.name, access.dim.size * divisor}, where));
    if (form.getKind() == Kind::Exact && divisor > 1) {
      Tensor by = constant(divisor, ElementType::I32, where);
      require(compare(Comparison::Eq, sum, mul(div(sum, by, where), by, where),
                      where));
    }
  }
  return inside;
}

} // namespace meshc::frontend
