#include "codegen/steps/ConvForm.h"

#include "codegen/exec/Exec.h"
#include "codegen/kernels/StructuredOps.h"
#include "codegen/steps/MatmulEpilogue.h"
#include "codegen/steps/StridedLoops.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

//===-- Forms -------------------------------------------------------------===//

double ConvForm::countTerms() const {
  double terms = double(batch.size) * double(groups.size) *
                 double(inputs.size) * double(outputs.size);
  for (const Space &dim : space)
    terms *= double(dim.weightsSize) * double(dim.destinationSize);
  return terms;
}

namespace {

/// A sum of loops times factors, and a constant.
struct LinearForm {
  SmallVector<std::pair<unsigned, int64_t>, 2> terms; ///< loop, factor
  int64_t offset = 0;
};

/// Adds `factor` times `expr`; false if that is not linear.
bool addTo(LinearForm &form, AffineExpr expr, int64_t factor) {
  if (auto loop = dyn_cast<AffineDimExpr>(expr)) {
    form.terms.push_back({loop.getPosition(), factor});
    return true;
  }
  if (auto constant = dyn_cast<AffineConstantExpr>(expr)) {
    form.offset += factor * constant.getValue();
    return true;
  }
  auto parts = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!parts)
    return false;
  if (expr.getKind() == AffineExprKind::Add)
    return addTo(form, parts.getLHS(), factor) &&
           addTo(form, parts.getRHS(), factor);
  auto scale = dyn_cast<AffineConstantExpr>(parts.getRHS());
  return expr.getKind() == AffineExprKind::Mul && scale &&
         addTo(form, parts.getLHS(), factor * scale.getValue());
}

/// Builds the form of a convolution.
class FormBuilder {
public:
  FormBuilder(ArrayRef<AffineMap> maps,
              const std::array<ArrayRef<int64_t>, 3> &shapes)
      : maps(maps), shapes(shapes), numLoops(maps[0].getNumDims()) {}

  std::optional<ConvForm> build();

private:
  bool readFactors();
  bool readSource();
  bool addSpace(LinearForm form, int64_t size, int64_t stride);
  bool addLoops();

  ArrayRef<AffineMap> maps;
  const std::array<ArrayRef<int64_t>, 3> &shapes;
  unsigned numLoops;
  SmallVector<int64_t> sizes, source, weights, destination; ///< by loop
  llvm::SmallDenseSet<unsigned> inSpace;
  ConvForm form;
};

using Loops = std::vector<ConvForm::Loop>;

} // namespace

/// Sizes and strides of what is indexed by loops alone.
bool FormBuilder::readFactors() {
  sizes.assign(numLoops, 0);
  source.assign(numLoops, 0);
  for (unsigned i : {1u, 2u}) {
    if (maps[i].getNumDims() != numLoops || maps[i].getNumSymbols() != 0 ||
        !maps[i].isProjectedPermutation() ||
        maps[i].getNumResults() != shapes[i].size())
      return false;
    for (auto [dim, size] : llvm::enumerate(shapes[i])) {
      int64_t &known = sizes[maps[i].getDimPosition(dim)];
      if (size < 1 || (known != 0 && known != size))
        return false;
      known = size;
    }
  }
  weights = getStrides(maps[1], computeStrides(shapes[1]));
  destination = getStrides(maps[2], computeStrides(shapes[2]));
  return maps[0].getNumResults() == shapes[0].size() &&
         !llvm::is_contained(sizes, 0);
}

/// A dimension of the source that windows see.
bool FormBuilder::addSpace(LinearForm linear, int64_t size, int64_t stride) {
  ConvForm::Space dim;
  dim.sourceSize = size;
  dim.source = stride;
  dim.pad = -linear.offset;
  bool hasWeights = false, hasDestination = false;
  for (auto [loop, factor] : linear.terms) {
    if (factor < 1 || !inSpace.insert(loop).second ||
        (weights[loop] != 0) == (destination[loop] != 0))
      return false;
    bool &isKnown = weights[loop] != 0 ? hasWeights : hasDestination;
    if (std::exchange(isKnown, true))
      return false;
    if (weights[loop] != 0) {
      dim.weightsSize = sizes[loop];
      dim.weights = weights[loop];
      dim.dilation = factor;
    } else {
      dim.destinationSize = sizes[loop];
      dim.destination = destination[loop];
      dim.stride = factor;
    }
  }
  // Windows see something of the source.
  const int64_t end = (dim.destinationSize - 1) * dim.stride +
                      (dim.weightsSize - 1) * dim.dilation + 1 - dim.pad;
  if (std::max<int64_t>(0, -dim.pad) >= std::min(size, end))
    return false;
  form.space.push_back(dim);
  return true;
}

bool FormBuilder::readSource() {
  int64_t stride = 1;
  for (size_t dim = shapes[0].size(); dim-- > 0; stride *= shapes[0][dim]) {
    LinearForm linear;
    if (shapes[0][dim] < 1 || !addTo(linear, maps[0].getResult(dim), 1))
      return false;
    const auto *only =
        linear.terms.size() == 1 ? &linear.terms.front() : nullptr;
    const bool isLoop = only && only->second == 1 && linear.offset == 0 &&
                        sizes[only->first] == shapes[0][dim];
    if (!isLoop) {
      if (!addSpace(linear, shapes[0][dim], stride))
        return false;
    } else if (std::exchange(source[only->first], stride) != 0) {
      return false;
    }
  }
  return true;
}

/// Loops that are none of space, by the tensors that they are in.
bool FormBuilder::addLoops() {
  Loops batch, groups, inputs, outputs;
  for (unsigned loop = 0; loop < numLoops; ++loop) {
    if (inSpace.contains(loop)) {
      if (source[loop] != 0)
        return false;
      continue;
    }
    const bool inSource = source[loop] != 0, inWeights = weights[loop] != 0,
               inDestination = destination[loop] != 0;
    if (int(inSource) + int(inWeights) + int(inDestination) < 2)
      return false;
    Loops &loops = !inSource        ? outputs
                   : !inDestination ? inputs
                   : inWeights      ? groups
                                    : batch;
    loops.push_back(
        {sizes[loop], source[loop], weights[loop], destination[loop]});
  }
  for (Loops *loops : {&batch, &groups, &inputs, &outputs})
    mergeLoops(*loops);
  if (groups.size() > 1 || inputs.size() > 1 || outputs.size() > 1)
    return false;
  auto take = [](const Loops &loops) {
    return loops.empty() ? ConvForm::Loop() : loops.front();
  };
  form.groups = take(groups);
  form.inputs = take(inputs);
  form.outputs = take(outputs);
  form.batch = take(batch);
  for (const ConvForm::Loop &loop :
       ArrayRef(batch).drop_front(!batch.empty())) {
    ConvForm::Space dim;
    dim.sourceSize = dim.destinationSize = loop.size;
    dim.source = loop.source;
    dim.destination = loop.destination;
    form.space.push_back(dim);
  }
  // The channels of groups are one dimension.
  const bool isSplit = form.groups.size > 1;
  return !isSplit ||
         ((form.inputs.size == 1 ||
           form.groups.source == form.inputs.size * form.inputs.source) &&
          (form.outputs.size == 1 ||
           form.groups.destination ==
               form.outputs.size * form.outputs.destination));
}

std::optional<ConvForm> FormBuilder::build() {
  if (!readFactors() || !readSource() || !addLoops() || form.space.empty() ||
      form.space.size() > 3)
    return std::nullopt;
  llvm::sort(form.space,
             [](const auto &x, const auto &y) { return x.source > y.source; });
  return form;
}

/// Whether windows reach every element of the source, but for those that they
/// step over.
static bool reachesAll(const ConvForm &form) {
  return llvm::all_of(form.space, [](const ConvForm::Space &dim) {
    const int64_t end = (dim.destinationSize - 1) * dim.stride +
                        (dim.weightsSize - 1) * dim.dilation + 1 - dim.pad;
    return dim.pad >= 0 && end > dim.sourceSize - dim.stride;
  });
}

std::optional<ConvForm>
meshc::codegen::getConvForm(ArrayRef<AffineMap> maps,
                            std::array<ArrayRef<int64_t>, 3> shapes,
                            ConvTensor result) {
  std::optional<ConvForm> form = FormBuilder(maps, shapes).build();
  if (form && result == ConvTensor::Source && !reachesAll(*form))
    return std::nullopt;
  return form;
}

//===-- Recognition -------------------------------------------------------===//

namespace {

/// A tensor of a contraction: what a view is of, the other factor, the result.
enum Place : unsigned { Viewed, Other, Result };

/// A dimension of what is viewed that is no loop: `divisor` times its position
/// is a sum of a loop of the other factor, one of the result and an offset.
/// Either loop may be missing.
struct Equation {
  unsigned dim = 0;
  int64_t divisor = 1, offset = 0;
  std::optional<unsigned> loops[3]; ///< Other and Result
  int64_t factors[3] = {0, 0, 0};
};

/// Finds the convolution that a contraction of one view is.
class ConvMatcher {
public:
  ConvMatcher(linalg::GenericOp contraction, unsigned viewed)
      : contraction(contraction), viewed(viewed),
        view(contraction.getDpsInputs()[viewed].getDefiningOp<spmd::ViewOp>()) {
  }

  std::optional<ConvMatch> match();

private:
  bool readView();
  std::optional<Equation> readAccess(unsigned dim, const nd::DimAccess &access);
  std::optional<std::array<int64_t, 2>>
  getSourceFactors(const Equation &equation, Place source);
  std::optional<ConvMatch> matchWith(Place source);
  AffineMap getMap(Place place, Place source);
  Value getTensor(Place place);
  int64_t countSpace(Place place);
  AffineMap getContractionMap(Place place) {
    return contraction.getIndexingMapsArray()[place == Result   ? 2
                                              : place == Viewed ? viewed
                                                                : 1 - viewed];
  }

  linalg::GenericOp contraction;
  unsigned viewed;
  spmd::ViewOp view;
  SmallVector<std::optional<unsigned>> loops; ///< of the viewed, by dimension
  SmallVector<Equation> equations;
};

} // namespace

Value ConvMatcher::getTensor(Place place) {
  switch (place) {
  case Viewed:
    return view.getInput();
  case Other:
    return contraction.getDpsInputs()[1 - viewed];
  case Result:
    break;
  }
  return contraction->getResult(0);
}

/// The access of dimension `dim` as an equation; nothing where it is none.
std::optional<Equation> ConvMatcher::readAccess(unsigned dim,
                                                const nd::DimAccess &access) {
  const layout::Access form = access.getForm();
  if (form.getKind() != layout::Access::Kind::Exact)
    return std::nullopt;
  Equation equation;
  equation.dim = dim;
  equation.divisor = form.getDivisor();
  equation.offset = form.getOffset();
  AffineMap seen = getContractionMap(Viewed);
  for (const layout::AccessTerm &term : form.getTerms()) {
    const int64_t position =
        view.getTargetType().findDim(access.getLoops()[term.loop]);
    const unsigned loop = seen.getDimPosition(unsigned(position));
    const bool inResult = getContractionMap(Result).isFunctionOfDim(loop);
    const bool inOther = getContractionMap(Other).isFunctionOfDim(loop);
    const Place place = inResult ? Result : Other;
    if (inResult == inOther || equation.loops[place])
      return std::nullopt;
    equation.loops[place] = loop;
    equation.factors[place] = term.factor;
  }
  return equation;
}

bool ConvMatcher::readView() {
  llvm::SmallDenseSet<unsigned> used;
  AffineMap seen = getContractionMap(Viewed);
  for (auto [index, dim] : llvm::enumerate(view.getSourceType().getDims())) {
    std::optional<nd::DimAccess> access = view.getLocalAccess(dim.getName());
    if (!access)
      return false;
    loops.emplace_back();
    if (StringAttr loop = access->getLoop()) {
      const int64_t position = view.getTargetType().findDim(loop);
      loops.back() = seen.getDimPosition(unsigned(position));
      if (!used.insert(*loops.back()).second)
        return false;
      continue;
    }
    std::optional<Equation> equation = readAccess(unsigned(index), *access);
    if (!equation)
      return false;
    for (std::optional<unsigned> loop : equation->loops)
      if (loop && !used.insert(*loop).second)
        return false;
    equations.push_back(*equation);
  }
  // A window: positions of the result beside positions of the other factor,
  // some of which fall on one. What has none is a matmul of a slice, or of what
  // is gathered with a stride; windows side by side are a matmul of what lies
  // there: of patches of 16 x 16 in half the time of the convolution
  // (bench/cliffs/patchify.mesh), of 2 x 2 in the same.
  const SmallVector<int64_t> sizes = getLoopSizes(contraction);
  return llvm::any_of(equations, [&](const Equation &equation) {
    if (!equation.loops[Other] || !equation.loops[Result])
      return false;
    auto small = std::abs(equation.factors[Other]);
    auto large = std::abs(equation.factors[Result]);
    int64_t size = sizes[*equation.loops[Other]];
    if (small > large) {
      std::swap(small, large);
      size = sizes[*equation.loops[Result]];
    }
    return small * size > large;
  });
}

/// An equation solved for its dimension of the tensor `source`: the factors of
/// those of the other two, in order; nothing where that is no window. The
/// offset is the equation's for the viewed tensor, the opposite otherwise.
std::optional<std::array<int64_t, 2>>
ConvMatcher::getSourceFactors(const Equation &equation, Place source) {
  auto isForward = [&](Place place, int64_t sign) {
    return !equation.loops[place] || sign * equation.factors[place] > 0;
  };
  if (source == Viewed) {
    if (equation.divisor != 1 || !isForward(Other, 1) || !isForward(Result, 1))
      return std::nullopt;
    return std::array{equation.factors[Other], equation.factors[Result]};
  }
  const Place rest = source == Other ? Result : Other;
  if (!equation.loops[source] || equation.factors[source] != 1 ||
      !isForward(rest, -1))
    return std::nullopt;
  return std::array{equation.divisor, -equation.factors[rest]};
}

/// Positions in space of a tensor.
int64_t ConvMatcher::countSpace(Place place) {
  SmallVector<int64_t> sizes = getLoopSizes(contraction);
  ArrayRef<int64_t> shape =
      cast<RankedTensorType>(view.getInput().getType()).getShape();
  int64_t count = 1;
  for (const Equation &equation : equations)
    if (place == Viewed)
      count *= shape[equation.dim];
    else if (equation.loops[place])
      count *= sizes[*equation.loops[place]];
  return count;
}

/// The map of a tensor over the loops of the contraction, and behind them one
/// for each equation: the position of its dimension in what is viewed.
AffineMap ConvMatcher::getMap(Place place, Place source) {
  MLIRContext *context = contraction.getContext();
  const unsigned numLoops = contraction.getNumLoops();
  auto getLoop = [&](unsigned loop) { return getAffineDimExpr(loop, context); };
  SmallVector<AffineExpr> exprs;
  if (place == Viewed) {
    for (std::optional<unsigned> loop : loops)
      exprs.push_back(loop ? getLoop(*loop) : AffineExpr());
    for (auto [number, equation] : llvm::enumerate(equations))
      exprs[equation.dim] = getLoop(numLoops + unsigned(number));
  } else {
    AffineMap map = getContractionMap(place);
    exprs.append(map.getResults().begin(), map.getResults().end());
  }
  // The source is at what its equations say.
  for (auto [number, equation] : llvm::enumerate(equations)) {
    if (place != source)
      break;
    const std::array<int64_t, 2> factors = *getSourceFactors(equation, source);
    AffineExpr sum = getAffineConstantExpr(
        source == Viewed ? equation.offset : -equation.offset, context);
    if (source == Viewed) {
      constexpr std::array places = {Other, Result};
      for (auto [place, factor] : llvm::zip_equal(places, factors))
        if (equation.loops[place])
          sum = sum + getLoop(*equation.loops[place]) * factor;
      exprs[equation.dim] = sum;
      continue;
    }
    const Place rest = source == Other ? Result : Other;
    sum = sum + getLoop(numLoops + unsigned(number)) * factors[0];
    if (equation.loops[rest])
      sum = sum + getLoop(*equation.loops[rest]) * factors[1];
    for (AffineExpr &expr : exprs)
      if (expr == getLoop(*equation.loops[source]))
        expr = sum;
  }
  return AffineMap::get(numLoops + equations.size(), 0, exprs, context);
}

/// Terms that the library adds up for an element of the source or destination;
/// weights are summed in blocks. Longer sums are products, which are cut.
/// Source: error of sums of 0.1f with oneDNN 2.6.3, in units of 2^-24, an
/// eighth of the number of terms at most: 1084 of 8190 ("brgconv:avx512_core").
static constexpr int64_t longestSum = 8192;

static bool hasLongSums(const ConvForm &form, ConvTensor result) {
  int64_t terms = 1;
  for (const ConvForm::Space &dim : form.space)
    terms *= dim.weightsSize;
  switch (result) {
  case ConvTensor::Destination:
    return terms * form.inputs.size > longestSum;
  case ConvTensor::Source:
    return terms * form.outputs.size > longestSum;
  case ConvTensor::Weights:
    return false;
  }
  llvm_unreachable("not a tensor of a convolution");
}

std::optional<ConvMatch> ConvMatcher::matchWith(Place source) {
  if (!llvm::all_of(equations, [&](const Equation &equation) {
        return getSourceFactors(equation, source).has_value();
      }))
    return std::nullopt;
  SmallVector<Place, 2> others;
  for (Place place : {Viewed, Other, Result})
    if (place != source)
      others.push_back(place);
  // Windows are what is smaller: either way it is the same sum.
  const bool swaps = countSpace(others[0]) < countSpace(others[1]);
  const Place places[3] = {source, others[swaps ? 0 : 1],
                           others[swaps ? 1 : 0]};
  constexpr ConvTensor tensors[3] = {ConvTensor::Source, ConvTensor::Weights,
                                     ConvTensor::Destination};
  ConvMatch match;
  match.contraction = contraction;
  match.viewed = viewed;
  match.isViewedFirst = llvm::find(places, Viewed) < llvm::find(places, Other);
  SmallVector<AffineMap> maps;
  std::array<ArrayRef<int64_t>, 3> shapes;
  for (size_t i = 0; i < 3; ++i) {
    Value tensor = getTensor(places[i]);
    maps.push_back(getMap(places[i], source));
    shapes[i] = cast<RankedTensorType>(tensor.getType()).getShape();
    if (places[i] == Result)
      match.result = tensors[i];
  }
  match.maps = compressUnusedDims(maps);
  std::optional<ConvForm> form = getConvForm(match.maps, shapes, match.result);
  if (!form || hasLongSums(*form, match.result))
    return std::nullopt;
  return match;
}

std::optional<ConvMatch> ConvMatcher::match() {
  if (!view || !readView())
    return std::nullopt;
  for (Place source : {Viewed, Result, Other})
    if (auto match = matchWith(source))
      return match;
  return std::nullopt;
}

spmd::ViewOp ConvMatch::getView() const {
  return contraction->getOperand(viewed).getDefiningOp<spmd::ViewOp>();
}

bool ConvMatch::readsThrough(OpOperand &use) const {
  return use.getOwner() == contraction && use.getOperandNumber() == viewed;
}

std::array<Value, 2> ConvMatch::getOperands() const {
  const Value seen = getView().getInput();
  const Value other = contraction->getOperand(1 - viewed);
  return isViewedFirst ? std::array{seen, other} : std::array{other, seen};
}

std::optional<ConvMatch>
meshc::codegen::matchConv(linalg::GenericOp contraction) {
  if (!isLibraryMatmul(contraction) ||
      !isZeroFilled(contraction.getDpsInits()[0]) ||
      !llvm::all_of(contraction.getDpsInputs(), [](Value factor) {
        Type type = getElementTypeOrSelf(factor);
        return type.isF32() || type.isBF16();
      }))
    return std::nullopt;
  for (unsigned viewed : {0u, 1u})
    if (auto match = ConvMatcher(contraction, viewed).match())
      return match;
  return std::nullopt;
}
