#include "codegen/steps/MatmulActivation.h"

#include "codegen/kernels/StructuredOps.h"
#include "codegen/steps/MatmulEpilogue.h"
#include "codegen/steps/MatmulForm.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <array>
#include <cmath>
#include <numbers>
#include <set>

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

bool codegen::isPlainResult(linalg::GenericOp product) {
  MatmulForm form = getMatmulForm(product);
  return form.batch.empty() && form.outerK.empty() && form.n.c == 1 &&
         form.m.c == form.n.size && form.n.size % 8 == 0;
}

bool codegen::sumsTerms(linalg::GenericOp product) {
  return getMatmulForm(product).k.size > 1;
}

/// What reads `value`, 16-bit elements also as wider ones.
static SmallVector<Operation *> getReaders(Value value) {
  SmallVector<Operation *> readers;
  for (Operation *user : value.getUsers()) {
    if (getElementwise<arith::ExtFOp>(user, value))
      llvm::append_range(readers, user->getUsers());
    else
      readers.push_back(user);
  }
  return readers;
}

linalg::GenericOp codegen::findColumnSum(Value matrix, int64_t size) {
  for (Operation *user : getReaders(matrix)) {
    auto sum = dyn_cast<linalg::GenericOp>(user);
    if (!sum || sum.getNumDpsInputs() != 1 || sum.getNumReductionLoops() == 0 ||
        !isZeroFilled(sum.getDpsInitOperand(0)->get()))
      continue;
    Operation *combiner = getCombiner(sum);
    if (!isa_and_present<arith::AddFOp>(combiner))
      continue;
    Value term = getTerm(sum, combiner);
    if (auto widening = term.getDefiningOp<arith::ExtFOp>())
      term = widening.getIn();
    if (term != sum.getRegionInputArgs().front())
      continue;
    AffineMap from = sum.getMatchingIndexingMap(sum.getDpsInputOperand(0));
    AffineMap to = sum.getMatchingIndexingMap(sum.getDpsInitOperand(0));
    auto type = cast<RankedTensorType>(sum->getResult(0).getType());
    if (type.getNumElements() == size && from.getNumResults() > 0 &&
        from.getResults().take_back(to.getNumResults()) == to.getResults())
      return sum;
  }
  return {};
}

/// The product whose result `value` is, rounded or not, if nothing else is done
/// with that result; null if it is none.
static linalg::GenericOp getProduct(Value value) {
  Operation *op = value.getDefiningOp();
  if (auto generic = dyn_cast_if_present<linalg::GenericOp>(op);
      generic && !isLibraryMatmul(op) && generic.getNumDpsInputs() == 1) {
    Value whole = generic.getDpsInputs().front();
    if (!getRounding(op, whole) || !whole.hasOneUse())
      return {};
    op = whole.getDefiningOp();
  }
  if (!op || !isLibraryMatmul(op))
    return {};
  auto product = cast<linalg::GenericOp>(op);
  return isZeroFilled(product.getDpsInitOperand(0)->get())
             ? product
             : linalg::GenericOp();
}

/// Whether what `first` leaves behind lies as `second` reads it, and the
/// library takes the end of `second`.
static bool agree(linalg::GenericOp first, linalg::GenericOp second) {
  return isPlainResult(first) && isPlainResult(second) && sumsTerms(second) &&
         getMatmulForm(first).n.size == getMatmulForm(second).n.size &&
         first->getBlock() == second->getBlock() &&
         first->isBeforeInBlock(second);
}

//===-- Relu --------------------------------------------------------------===//

/// Adds the gradient of the relu in `match` if `h > 0` is there for one choice
/// between a product and 0, and nothing else.
static void matchReluGradient(linalg::GenericOp product,
                              ActivationMatch &match) {
  for (Operation *user : match.result.getUsers()) {
    auto compare = getElementwise<arith::CmpFOp>(user, match.result);
    if (!compare || compare.getNumDpsInputs() != 2 ||
        compare.getDpsInputs()[0] != match.result ||
        !isZeroFilled(compare.getDpsInputs()[1]) ||
        cast<arith::CmpFOp>(compare.getBody()->front()).getPredicate() !=
            arith::CmpFPredicate::OGT ||
        !compare->hasOneUse())
      continue;
    Value isPositive = compare->getResult(0);
    auto choice =
        getElementwise<arith::SelectOp>(*isPositive.user_begin(), isPositive);
    if (!choice || choice.getNumDpsInputs() != 3 ||
        choice.getDpsInputs()[0] != isPositive ||
        !isZeroFilled(choice.getDpsInputs()[2]))
      continue;
    OpOperand *upstream = choice.getDpsInputOperand(1);
    linalg::GenericOp other = getProduct(upstream->get());
    if (!other || !upstream->get().hasOneUse() ||
        !choice.getMatchingIndexingMap(upstream).isIdentity() ||
        choice->getResult(0).getType() != match.result.getType() ||
        !agree(product, other))
      continue;
    match.aux = isPositive;
    match.gradientProduct = other;
    match.upstream = upstream->get();
    match.gradient = choice->getResult(0);
    match.absorbed.push_back(compare);
    match.absorbed.push_back(choice);
    return;
  }
}

/// Whether `product` computes with f16, or `x`, its result, is stored as such.
/// All trainings in f16 scale their loss, and look for NaN to find the scale.
static bool mayOverflow(linalg::GenericOp product, Value x) {
  return getElementTypeOrSelf(x).isF16() ||
         llvm::any_of(product.getDpsInputs(), [](Value factor) {
           return getElementTypeOrSelf(factor).isF16();
         });
}

static std::optional<ActivationMatch> matchRelu(linalg::GenericOp product,
                                                Value x) {
  if (!x.hasOneUse() || mayOverflow(product, x))
    return std::nullopt;
  auto relu = getElementwise<arith::MaximumFOp>(*x.user_begin(), x);
  if (!relu || relu.getNumDpsInputs() != 2 ||
      !isZeroFilled(relu.getDpsInputs()[relu.getDpsInputs()[0] == x]))
    return std::nullopt;
  ActivationMatch match;
  match.activation = MatmulActivation::Relu;
  match.result = relu->getResult(0);
  match.absorbed.push_back(relu);
  matchReluGradient(product, match);
  return match;
}

//===-- Gelu --------------------------------------------------------------===//

namespace {
/// Far out as well, where a polynomial would show; no point is a simple number.
constexpr unsigned numSamples = 48;
using Samples = std::array<double, numSamples>;

/// x at sample `i`, between -13 and 13, denser around 0.
double getPoint(unsigned i) {
  double t = (2.0 * i + 1.0) / numSamples - 1 + 0.0117;
  return 13 * t * t * t + 1.31 * t;
}

/// The gradient that arrives at sample `i`.
double getUpstream(unsigned i) { return std::cos(1.7 * i) + 0.3; }

/// gelu and its slope with tanh. Source: Hendrycks and Gimpel 2016, section 2.
double gelu(double x) {
  double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1 + std::tanh(u));
}
double geluSlope(double x) {
  double scale = std::sqrt(2 / std::numbers::pi);
  double t = std::tanh(scale * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) +
         0.5 * x * (1 - t * t) * scale * (1 + 3 * 0.044715 * x * x);
}

/// Evaluates what is computed element by element from one tensor x, constants
/// and the results of products.
class FunctionsOf {
public:
  /// What an operation computes: the values at the sample points, and the
  /// product that takes part beside x, if one does.
  struct Function {
    Samples samples;
    Value upstream;
  };

  explicit FunctionsOf(Value x);

  /// Operations that compute functions, in program order.
  ArrayRef<linalg::GenericOp> getOps() const { return ops; }
  const Function *find(Value value) const {
    auto found = functions.find(value);
    return found == functions.end() ? nullptr : &found->second;
  }

private:
  bool visit(linalg::GenericOp op);
  std::optional<Function> getOperand(linalg::GenericOp op, OpOperand *operand);

  ArrayRef<int64_t> shape;
  SmallVector<linalg::GenericOp> ops;
  llvm::DenseMap<Value, Function> functions;
};
} // namespace

/// The value of a scalar operation; nothing if it is no sum, product, tanh or
/// conversion.
static std::optional<double> evaluate(Operation &op, ArrayRef<double> values) {
  if (isa<math::FmaOp>(op))
    return values[0] * values[1] + values[2];
  if (isa<arith::AddFOp>(op))
    return values[0] + values[1];
  if (isa<arith::SubFOp>(op))
    return values[0] - values[1];
  if (isa<arith::MulFOp>(op))
    return values[0] * values[1];
  if (isa<arith::NegFOp>(op))
    return -values[0];
  if (isa<math::TanhOp>(op))
    return std::tanh(values[0]);
  if (isa<arith::ExtFOp, arith::TruncFOp>(op))
    return values[0];
  return std::nullopt;
}

/// What the body of `op` yields for `inputs`; nothing if it has an operation
/// that `evaluate` does not know.
static std::optional<double> evaluateBody(linalg::GenericOp op,
                                          ArrayRef<double> inputs) {
  llvm::SmallDenseMap<Value, double> known;
  for (auto [argument, number] :
       llvm::zip_equal(op.getRegionInputArgs(), inputs))
    known[argument] = number;
  for (Operation &scalar : op.getBody()->without_terminator()) {
    SmallVector<double, 3> values;
    for (Value operand : scalar.getOperands()) {
      auto found = known.find(operand);
      if (found == known.end())
        return std::nullopt;
      values.push_back(found->second);
    }
    std::optional<double> value = evaluate(scalar, values);
    if (!value)
      return std::nullopt;
    known[scalar.getResult(0)] = *value;
  }
  auto result = known.find(op.getBody()->getTerminator()->getOperand(0));
  if (result == known.end())
    return std::nullopt;
  return result->second;
}

std::optional<FunctionsOf::Function>
FunctionsOf::getOperand(linalg::GenericOp op, OpOperand *operand) {
  Function function;
  if (std::optional<APFloat> fill = getFill(operand->get())) {
    bool lost;
    fill->convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
    function.samples.fill(fill->convertToDouble());
    return function;
  }
  if (!op.getMatchingIndexingMap(operand).isIdentity())
    return std::nullopt;
  if (const Function *known = find(operand->get()))
    return *known;
  if (!getProduct(operand->get()))
    return std::nullopt;
  for (unsigned i = 0; i < numSamples; ++i)
    function.samples[i] = getUpstream(i);
  function.upstream = operand->get();
  return function;
}

/// Whether `op` computes a function; notes it.
bool FunctionsOf::visit(linalg::GenericOp op) {
  if (op.getNumReductionLoops() != 0 || op->getNumResults() != 1 ||
      cast<RankedTensorType>(op->getResult(0).getType()).getShape() != shape ||
      !op.getMatchingIndexingMap(op.getDpsInitOperand(0)).isIdentity())
    return false;
  // The product alone only where it is widened before it meets x.
  if (!isa<arith::ExtFOp>(op.getBody()->front()) &&
      llvm::none_of(op.getDpsInputs(), [&](Value x) { return find(x); }))
    return false;
  Function result;
  SmallVector<Function, 3> operands;
  for (OpOperand *operand : op.getDpsInputOperands()) {
    std::optional<Function> function = getOperand(op, operand);
    if (!function || (result.upstream && function->upstream &&
                      result.upstream != function->upstream))
      return false;
    if (function->upstream)
      result.upstream = function->upstream;
    operands.push_back(*function);
  }
  for (unsigned i = 0; i < numSamples; ++i) {
    SmallVector<double, 3> inputs;
    for (const Function &operand : operands)
      inputs.push_back(operand.samples[i]);
    std::optional<double> value = evaluateBody(op, inputs);
    if (!value)
      return false;
    result.samples[i] = *value;
  }
  functions[op->getResult(0)] = result;
  ops.push_back(op);
  return true;
}

FunctionsOf::FunctionsOf(Value x)
    : shape(cast<RankedTensorType>(x.getType()).getShape()) {
  Function identity;
  for (unsigned i = 0; i < numSamples; ++i)
    identity.samples[i] = getPoint(i);
  functions[x] = identity;
  // What reads x, and what reads that, in program order.
  auto isBefore = [](Operation *a, Operation *b) {
    return a->isBeforeInBlock(b);
  };
  std::set<Operation *, decltype(isBefore)> open(isBefore);
  auto addReaders = [&](Value value) {
    for (Operation *user : value.getUsers())
      if (isa<linalg::GenericOp>(user))
        open.insert(user);
  };
  addReaders(x);
  while (!open.empty()) {
    auto generic = cast<linalg::GenericOp>(*open.begin());
    open.erase(open.begin());
    // A product is widened ahead of where it meets x.
    for (Value operand : generic.getDpsInputs())
      if (auto producer = operand.getDefiningOp<linalg::GenericOp>();
          producer && !find(operand) && !open.contains(producer) &&
          x.getDefiningOp()->isBeforeInBlock(producer) &&
          isa<arith::ExtFOp>(producer.getBody()->front()))
        visit(producer);
    if (visit(generic))
      addReaders(generic->getResult(0));
  }
  llvm::sort(ops, isBefore);
}

/// Whether `samples` are those of `expected`, up to the rounding of constants
/// to `element`.
static bool areNear(const Samples &samples, Type element,
                    llvm::function_ref<double(unsigned)> expected) {
  double unit = element.isF32() ? 0x1p-20 : element.isF16() ? 0x1p-10 : 0x1p-7;
  for (unsigned i = 0; i < numSamples; ++i) {
    double value = expected(i);
    if (!(std::abs(samples[i] - value) <= unit * (std::abs(value) + 0.01)))
      return false;
  }
  return true;
}

/// Operations of `functions` that nothing needs once `results` come from
/// elsewhere.
static llvm::DenseSet<Operation *> getDead(const FunctionsOf &functions,
                                           ArrayRef<Value> results) {
  llvm::DenseSet<Operation *> dead;
  for (Value result : results)
    dead.insert(result.getDefiningOp());
  for (linalg::GenericOp op : llvm::reverse(functions.getOps()))
    if (llvm::all_of(op->getUsers(),
                     [&](Operation *user) { return dead.contains(user); }))
      dead.insert(op);
  return dead;
}

/// Whether all operations of `functions` that `result` comes from are dead.
static bool isDeadBefore(const FunctionsOf &functions, Value result,
                         const llvm::DenseSet<Operation *> &dead) {
  SmallVector<Value> pending{result};
  llvm::DenseSet<Value> seen;
  while (!pending.empty()) {
    Value value = pending.pop_back_val();
    auto op = value.getDefiningOp<linalg::GenericOp>();
    if (!seen.insert(value).second || !op ||
        !llvm::is_contained(functions.getOps(), op))
      continue;
    if (!dead.contains(op))
      return false;
    llvm::append_range(pending, op.getDpsInputs());
  }
  return true;
}

static std::optional<ActivationMatch> matchGeluTanh(linalg::GenericOp product,
                                                    Value x) {
  FunctionsOf functions(x);
  Type element = cast<RankedTensorType>(x.getType()).getElementType();
  ActivationMatch match;
  match.activation = MatmulActivation::GeluTanh;
  for (linalg::GenericOp op : functions.getOps()) {
    Value value = op->getResult(0);
    const FunctionsOf::Function &function = *functions.find(value);
    if (value.getType() != x.getType())
      continue;
    if (!match.result && !function.upstream && !value.use_empty() &&
        areNear(function.samples, element,
                [](unsigned i) { return gelu(getPoint(i)); }))
      match.result = value;
    if (!match.gradient && function.upstream &&
        areNear(function.samples, element, [](unsigned i) {
          return getUpstream(i) * geluSlope(getPoint(i));
        })) {
      match.gradient = value;
      match.upstream = function.upstream;
      match.gradientProduct = getProduct(function.upstream);
    }
  }
  if (!match.result)
    return std::nullopt;
  llvm::DenseSet<Operation *> dead;
  if (match.gradient) {
    dead = getDead(functions, {match.result, match.gradient});
    bool forms = agree(product, match.gradientProduct) &&
                 isDeadBefore(functions, match.gradient, dead) &&
                 llvm::all_of(match.upstream.getUsers(), [&](Operation *user) {
                   return dead.contains(user);
                 });
    if (!forms) {
      match.gradient = match.upstream = {};
      match.gradientProduct = {};
    }
  }
  if (!match.gradient)
    dead = getDead(functions, {match.result});
  if (!isDeadBefore(functions, match.result, dead))
    return std::nullopt;
  bool isReadOtherwise = llvm::any_of(
      x.getUsers(), [&](Operation *user) { return !dead.contains(user); });
  if (match.gradient || isReadOtherwise) {
    if (!isPlainResult(product))
      return std::nullopt;
    match.aux = x;
  }
  for (linalg::GenericOp op : functions.getOps())
    if (dead.contains(op))
      match.absorbed.push_back(op);
  return match;
}

std::optional<ActivationMatch>
codegen::matchActivation(linalg::GenericOp product, Value x) {
  if (std::optional<ActivationMatch> relu = matchRelu(product, x))
    return relu;
  return matchGeluTanh(product, x);
}
