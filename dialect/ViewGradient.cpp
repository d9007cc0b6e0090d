// The gradient of nd.view.

#include "dialect/GradientBuilder.h"
#include "dialect/Locations.h"
#include "dialect/ND.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

namespace {
/// The view of the gradient g of a view s of x that has, at each position of x
/// and of loops that are left, the element of g that read it: summed over what
/// is left it is the gradient of x.
///
/// `s[row, dy] = x[2 row + dy - 1]` is solved for row, the larger one:
/// `v[y, dy] = g[row = (y - dy + 1) / 2, dy]`. An equation of which no loop is
/// left to solve for, as y = 0 of `x[y = 0]`, becomes an access too: of one
/// more dimension of g, which has one position, as often as a rounded quotient
/// may be one position: `v[y] = g[one = y]`. A remainder says in the same way
/// that positions from the modulus on are read by none.
///
/// What splits one dimension into two, or makes one of two, is turned round as
/// a whole, and nothing is left to be summed: the digits of a number say what
/// it is, and a number what they are. Of sizes 8 and 64:
///
///   s[head, d] = x[wide = 64 head + d]
///   v[wide] = g[head = floor(wide / 64), d = wide mod 64]
///
///   s[wide] = x[head = floor(wide / 64), d = wide mod 64]
///   v[head, d] = g[wide = 64 head + d]
class ViewGradient {
public:
  ViewGradient(ViewOp op, GradientBuilder &builder, Value gradient)
      : op(op), builder(builder), loc(getGradientLoc(op, op.getInput())),
        gradient(gradient) {
    // The loops of the view, by number, then the dimensions of the input.
    for (DimAttr dim : op.getType().getDims())
      loops.push_back({dim, std::nullopt, std::nullopt});
    isDigit.assign(op.getInput().getType().getDims().size(), false);
  }

  Value build() {
    ArrayRef<DimAttr> inputDims = op.getInput().getType().getDims();
    dims.append(inputDims.begin(), inputDims.end());
    solveDigits();
    // What is a loop as it stands is solved first: it needs no composing.
    for (bool asLoop : {true, false})
      for (auto [number, dim] : llvm::enumerate(inputDims))
        if (!isDigit[number] && isLoop(dim) == asLoop) {
          const layout::Access form = toForm(op.getInputAccess(dim.getName()));
          solve(number, form);
          if (form.getKind() == layout::Access::Kind::Modulo &&
              form.getDivisor() < dim.getSize())
            bounds.push_back({number, form.getDivisor()});
        }
    // What cannot be substituted becomes an equation itself: until none does.
    for (size_t i = 0; i < equations.size(); ++i)
      (void)substitute(equations[i].form);
    return buildView();
  }

private:
  /// Which dimension of the input is at which form of loops and of dimensions
  /// of the input.
  struct Equation {
    size_t number;
    layout::Access form;
  };
  struct Loop {
    DimAttr dim;
    /// Where it is, by loops that are left and dimensions of the new view.
    std::optional<layout::Access> solved;
    std::optional<Equation> from; ///< what it was solved from
  };

  bool isLoop(DimAttr dim) {
    return bool(op.getInputAccess(dim.getName()).getLoop());
  }

  /// `access`, its loops numbered as in `loops`.
  layout::Access toForm(const DimAccess &access) {
    const layout::Access form = access.getForm();
    std::vector<layout::AccessTerm> terms;
    for (const layout::AccessTerm &term : form.getTerms())
      terms.push_back(
          {int32_t(op.getType().findDim(access.getLoops()[term.loop])),
           term.factor});
    if (form.getKind() == layout::Access::Kind::Modulo)
      return layout::Access::modulo(std::move(terms), form.getOffset(),
                                    form.getDivisor());
    return layout::Access::quotient(form.getKind(), std::move(terms),
                                    form.getOffset(), form.getDivisor());
  }

  /// Number of dimension `number` of the new view among the loops of forms.
  int32_t getPosition(size_t number) const {
    return int32_t(loops.size() + number);
  }
  Loop *findSolved(const layout::AccessTerm &term) {
    bool isSolved = size_t(term.loop) < loops.size() && loops[term.loop].solved;
    return isSolved ? &loops[term.loop] : nullptr;
  }

  /// Solves for loops that are the two digits of a dimension, and for a loop
  /// whose two digits are dimensions.
  void solveDigits() {
    ArrayRef<DimAttr> inputDims = op.getInput().getType().getDims();
    std::vector<layout::Access> forms;
    for (DimAttr dim : inputDims)
      forms.push_back(toForm(op.getInputAccess(dim.getName())));
    for (size_t number = 0; number < forms.size(); ++number)
      if (!solveNumber(number, forms[number]))
        for (size_t low = 0; low < forms.size(); ++low)
          if (low != number)
            solveDigitsOfLoop(number, forms[number], low, forms[low]);
  }

  /// `wide = 64 head + d + offset`, with d below 64, where no other dimension
  /// is at one of these loops.
  bool solveNumber(size_t number, const layout::Access &form) {
    if (form.getKind() != layout::Access::Kind::Exact ||
        form.getDivisor() != 1 || form.getTerms().size() != 2)
      return false;
    layout::AccessTerm low = form.getTerms()[0], high = form.getTerms()[1];
    if (low.factor > high.factor)
      std::swap(low, high);
    if (low.factor != 1 || high.factor != loops[low.loop].dim.getSize() ||
        countAccesses(low.loop) != 1 || countAccesses(high.loop) != 1)
      return false;
    const std::vector<layout::AccessTerm> position = {{getPosition(number)}};
    loops[low.loop].solved =
        layout::Access::modulo(position, -form.getOffset(), high.factor);
    loops[high.loop].solved = layout::Access::quotient(
        layout::Access::Kind::Floor, position, -form.getOffset(), high.factor);
    for (int32_t loop : {low.loop, high.loop})
      loops[loop].from = {number, form};
    return isDigit[number] = true;
  }

  /// `head = floor((wide + offset) / 64)` and `d = (wide + offset) mod 64`,
  /// where the dimension d has no more positions and none is at `wide` besides.
  void solveDigitsOfLoop(size_t high, const layout::Access &quotient,
                         size_t low, const layout::Access &remainder) {
    const int64_t base = quotient.getDivisor();
    if (quotient.getKind() != layout::Access::Kind::Floor ||
        remainder.getKind() != layout::Access::Kind::Modulo ||
        remainder.getDivisor() != base || quotient.getTerms().size() != 1 ||
        quotient.getTerms() != remainder.getTerms() ||
        quotient.getTerms()[0].factor != 1 || dims[low].getSize() > base)
      return;
    const int32_t loop = quotient.getTerms()[0].loop;
    const int64_t offset = quotient.getOffset();
    if (((offset - remainder.getOffset()) % base) != 0 ||
        countAccesses(loop) != 2)
      return;
    loops[loop].solved = layout::Access::linear(
        {{getPosition(high), base}, {getPosition(low), 1}}, -offset);
    loops[loop].from = {high, quotient};
    isDigit[high] = isDigit[low] = true;
  }

  /// Uses that dimension `number` of the input is at `form`.
  void solve(size_t number, const layout::Access &given) {
    layout::Access form = substitute(given);
    // The loop of the largest size leaves the least to be summed.
    std::optional<int32_t> best;
    for (const layout::AccessTerm &term : form.getTerms())
      if (mayBeSolved(form, term.loop) &&
          (!best ||
           loops[term.loop].dim.getSize() > loops[*best].dim.getSize()))
        best = term.loop;
    if (!best) {
      equations.push_back({number, given});
      return;
    }
    loops[*best].solved =
        form.solve(*best, getPosition(number), getPosition(dims.size()));
    loops[*best].from = {number, given};
    if (form.getKind() == layout::Access::Kind::Floor)
      dims.push_back(makeDim("remainder", form.getDivisor()));
  }

  /// `form` without the loops that are solved. A loop whose form cannot stand
  /// in it is left after all: what it was solved from stays an equation.
  layout::Access substitute(layout::Access form) {
    while (true) {
      Loop *solved = nullptr;
      for (const layout::AccessTerm &term : form.getTerms())
        if (!solved)
          solved = findSolved(term);
      if (!solved)
        return form;
      int32_t number = int32_t(solved - loops.data());
      if (std::optional<layout::Access> composed =
              form.compose(number, *solved->solved)) {
        form = *composed;
        continue;
      }
      equations.push_back(*solved->from);
      solved->solved.reset();
      solved->from.reset();
    }
  }

  /// Whether `form` can be solved for `loop`, and no loop that is solved
  /// depends on that.
  bool mayBeSolved(const layout::Access &form, int32_t loop) {
    if (size_t(loop) >= loops.size())
      return false;
    for (const Loop &other : loops)
      if (other.solved && other.solved->getFactor(loop) != 0)
        return false;
    // A remainder stays a dimension, so what it comes from must stay solved.
    if (form.getKind() == layout::Access::Kind::Floor &&
        countAccesses(loop) > 1)
      return false;
    // A loop that runs over more than the modulus takes a position often.
    if (form.getKind() == layout::Access::Kind::Modulo &&
        loops[loop].dim.getSize() > form.getDivisor())
      return false;
    return form.solve(loop, 0, 0).has_value();
  }

  /// In how many accesses of the view the loop is.
  size_t countAccesses(int32_t loop) {
    return llvm::count_if(op.getInput().getType().getDims(), [&](DimAttr dim) {
      return llvm::is_contained(op.getInputAccess(dim.getName()).getLoops(),
                                loops[loop].dim.getName());
    });
  }

  /// A dimension under a name that nothing else here has.
  DimAttr makeDim(StringRef role, int64_t size) {
    std::string name = role.str();
    for (int suffix = 2; isTaken(name); ++suffix)
      name = (role + "_" + Twine(suffix)).str();
    return DimAttr::get(builder.getStringAttr(name), size);
  }
  bool isTaken(StringRef name) {
    auto has = [&](DimAttr dim) { return dim.getName() == name; };
    return llvm::any_of(dims, has) || llvm::any_of(fresh, has) ||
           llvm::any_of(op.getType().getDims(), has) ||
           llvm::any_of(op.getInput().getType().getDims(), has);
  }

  Value buildView() {
    // Loops that are left stay dimensions; under another name where the input
    // has a dimension of theirs.
    Value source = gradient;
    SmallVector<StringAttr> names; // of all numbers of forms
    SmallVector<StringAttr> accessed(loops.size());
    SmallVector<DimAttr> left;
    for (auto [number, loop] : llvm::enumerate(loops)) {
      StringAttr name = loop.dim.getName();
      bool isHidden = llvm::any_of(
          dims, [&](DimAttr dim) { return dim.getName() == name; });
      if (!loop.solved && isHidden) {
        DimAttr renamed = makeDim(name.getValue(), loop.dim.getSize());
        fresh.push_back(renamed);
        source =
            RenameOp::create(builder, loc, source, name, renamed.getName());
        name = renamed.getName();
      }
      if (!loop.solved)
        left.push_back(DimAttr::get(name, loop.dim.getSize()));
      names.push_back(name);
      accessed[number] = name;
    }
    for (DimAttr dim : dims)
      names.push_back(dim.getName());

    SmallVector<Attribute> accesses;
    for (auto [number, loop] : llvm::enumerate(loops))
      if (loop.solved && !isSame(loop, names))
        accesses.push_back(
            AccessAttr::get(accessed[number], DimAccess(*loop.solved, names)));
    // Positions of a dimension that repeats the gradient are inside where a
    // condition holds.
    auto require = [&](StringRef role, int64_t size,
                       const layout::Access &access) {
      DimAttr dim = makeDim(role, size);
      fresh.push_back(dim);
      auto type = cast<NamedTensorType>(source.getType()).withoutSharding();
      SmallVector<DimAttr> extended(type.getDims());
      extended.push_back(dim);
      source = BroadcastOp::create(
          builder, loc, NamedTensorType::get(extended, type.getElementType()),
          source);
      accesses.push_back(
          AccessAttr::get(dim.getName(), DimAccess(access, names)));
    };
    for (const Equation &equation : equations) {
      auto [size, access] =
          getCondition(equation.number, substitute(equation.form));
      require("one", size, access);
    }
    for (auto [number, modulus] : bounds)
      require("below", modulus, layout::Access::itself(getPosition(number)));
    SmallVector<DimAttr> resultDims(dims);
    llvm::append_range(resultDims, left);
    auto type = NamedTensorType::get(resultDims, op.getType().getElementType());
    return ViewOp::create(builder, loc, type, source,
                          builder.getArrayAttr(accesses));
  }

  /// Whether the new view reads `loop` at a dimension of its own name.
  static bool isSame(const Loop &loop, ArrayRef<StringAttr> names) {
    std::optional<int32_t> same = loop.solved->getLoop();
    return same && names[*same] == loop.dim.getName();
  }

  /// The size of a dimension, and the position in it that is inside exactly
  /// where dimension `number` of the input is at `form`.
  std::pair<int64_t, layout::Access> getCondition(size_t number,
                                                  const layout::Access &form) {
    // terms + offset - divisor * position is 0, or a remainder.
    std::vector<layout::AccessTerm> terms = form.getTerms();
    bool isModulo = form.getKind() == layout::Access::Kind::Modulo;
    terms.push_back({getPosition(number), isModulo ? -1 : -form.getDivisor()});
    if (isModulo)
      return {1, layout::Access::modulo(std::move(terms), form.getOffset(),
                                        form.getDivisor())};
    bool isFloor = form.getKind() == layout::Access::Kind::Floor;
    return {isFloor ? form.getDivisor() : 1,
            layout::Access::linear(std::move(terms), form.getOffset())};
  }

  ViewOp op;
  GradientBuilder &builder;
  Location loc;
  Value gradient;
  SmallVector<Loop> loops;
  /// The input's dimensions, then remainders of rounded quotients.
  SmallVector<DimAttr> dims;
  SmallVector<DimAttr> fresh; ///< names made for dimensions of the gradient
  SmallVector<Equation> equations;
  SmallVector<bool> isDigit; ///< dimensions of the input that solveDigits used
  /// Dimensions of the input of which a remainder reaches positions below its
  /// modulus alone, and that.
  SmallVector<std::pair<size_t, int64_t>> bounds;
};
} // namespace

SmallVector<Value> ViewOp::buildGradients(GradientBuilder &builder,
                                          ValueRange arrived) {
  if (!isa<FloatType>(getType().getElementType()))
    return {Value()};
  return {ViewGradient(*this, builder, arrived.front()).build()};
}
