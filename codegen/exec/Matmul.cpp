#include "codegen/exec/CommandBuilder.h"
#include "codegen/exec/Exec.h"
#include "codegen/exec/KernelBody.h"

#include "runtime/exec/MatmulOperands.h"
#include "runtime/plans/MatmulPlan.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::steps;
using codegen::ColumnSum;
using codegen::MatmulActivation;
using codegen::MatmulForm;

static ArrayRef<int64_t> getShape(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getShape();
}

static SmallVector<AffineMap> getMaps(MatmulOp op) {
  return llvm::to_vector(op.getIndexingMaps().getAsValueRange<AffineMapAttr>());
}

/// What the maps index.
static std::array<Value, 3> getTensors(MatmulOp op) {
  return {op.getLhs(), op.getRhs(), op.getResult()};
}

//===-- Verifier ----------------------------------------------------------===//

/// (C1)
static LogicalResult verifyMaps(MatmulOp op) {
  SmallVector<AffineMap> maps = getMaps(op);
  if (maps.size() != 3)
    return op.emitOpError("(C1) needs three indexing maps");
  SmallVector<int64_t> sizes(maps[0].getNumDims(), 0);
  for (auto [map, tensor] : llvm::zip_equal(maps, getTensors(op))) {
    ArrayRef<int64_t> shape = getShape(tensor);
    if (map.getNumDims() != sizes.size() || map.getNumSymbols() != 0 ||
        !map.isProjectedPermutation() || map.getNumResults() != shape.size())
      return op.emitOpError("(C1) ") << AffineMapAttr::get(map)
                                     << " does not index " << tensor.getType();
    for (auto [dim, size] : llvm::enumerate(shape)) {
      int64_t &known = sizes[map.getDimPosition(dim)];
      if (known != 0 && known != size)
        return op.emitOpError("(C1) a loop has the sizes ")
               << known << " and " << size;
      known = size;
    }
  }
  return success();
}

LogicalResult MatmulOp::verify() {
  if (failed(verifyMaps(*this)))
    return failure();
  const bool isActive = getActivation() != MatmulActivation::None;
  if (getAddend() && getAddend().getType() != getResult().getType())
    return emitOpError("(C2) the addend is ")
           << getAddend().getType() << ", the result " << getResult().getType();
  if (getAddend() && isActive)
    return emitOpError("(C2) has both an addend and an activation");
  if ((getAux() || getSlope()) && !isActive)
    return emitOpError("(C3) has no activation that leaves something behind");
  if (getAux() && getSlope())
    return emitOpError("(C3) leaves something behind and reads it");
  if (!getForm().outerK.empty() && (getBias() || isActive))
    return emitOpError("(C4) a matmul over several strided contracted "
                       "dimensions takes no bias or activation");
  if (bool(getColumnSum()) != (getColumnSumOf() != ColumnSum::None))
    return emitOpError("(C5) has column sums of nothing, or does not give "
                       "those that it has");
  return success();
}

//===-- Planning ----------------------------------------------------------===//

MatmulForm MatmulOp::getForm() {
  return codegen::getMatmulForm(getMaps(*this),
                                {codegen::getStridedTensor(getLhs()),
                                 codegen::getStridedTensor(getRhs()),
                                 codegen::getStridedTensor(getResult())});
}

SmallVector<int64_t> MatmulOp::getLoopSizes() {
  SmallVector<AffineMap> maps = getMaps(*this);
  SmallVector<int64_t> sizes(maps[0].getNumDims(), 1);
  for (auto [map, tensor] : llvm::zip_equal(maps, getTensors(*this)))
    for (auto [dim, size] : llvm::enumerate(getShape(tensor)))
      sizes[map.getDimPosition(dim)] = size;
  return sizes;
}

Location MatmulOp::getResultLoc(unsigned result) {
  const Value value = getOperation()->getResult(result);
  std::optional<LocationAttr> loc;
  if (value == getAux())
    loc = getAuxLoc();
  else if (value == getColumnSum())
    loc = getSumLoc();
  return loc ? Location(*loc) : getLoc();
}

/// A result may take the place of its addend: the library adds in place.
Sharing MatmulOp::getSharing(codegen::KernelBodies &) {
  Sharing sharing(getOperation()->getNumResults());
  if (getAddend() && getAddend() != getLhs() && getAddend() != getRhs())
    sharing[0].push_back(getODSOperandIndexAndLength(2).first);
  return sharing;
}

bool MatmulOp::readsAnywhere() { return true; }

bool MatmulOp::accumulates() { return bool(getAddend()); }

std::optional<Mask> MatmulOp::getMask(unsigned result) {
  if (getActivation() != MatmulActivation::Relu || !getAux() ||
      getOperation()->getResult(result) != getAux())
    return std::nullopt;
  MatmulForm form = getForm();
  return Mask{form.m.size, runtime::getMaskRowWords(form.n.size)};
}

static double countElements(Value tensor) {
  return double(cast<RankedTensorType>(tensor.getType()).getNumElements());
}

/// Of each term a product, a sum and the widening of 16-bit factors, then one
/// addition's work for each part of the epilogue.
double MatmulOp::getWork() {
  double iterations = 2;
  for (Value factor : {Value(getLhs()), Value(getRhs())})
    iterations += getElementTypeOrSelf(factor).getIntOrFloatBitWidth() < 32;
  for (int64_t size : getLoopSizes())
    iterations *= double(size);
  const int parts = (getAddend() ? 1 : 0) + (getBias() ? 1 : 0) +
                    (getActivation() != MatmulActivation::None ? 1 : 0);
  double epilogue = parts * countElements(getResult());
  switch (getColumnSumOf()) {
  case ColumnSum::None:
    break;
  case ColumnSum::Result:
    epilogue += countElements(getResult());
    break;
  case ColumnSum::FirstFactor:
    epilogue += countElements(getLhs());
    break;
  case ColumnSum::SecondFactor:
    epilogue += countElements(getRhs());
    break;
  }
  return iterations + epilogue;
}

//===-- Commands ----------------------------------------------------------===//

static exec::Activation getExecActivation(MatmulActivation activation) {
  switch (activation) {
  case MatmulActivation::None:
    return exec::Activation::none;
  case MatmulActivation::Relu:
    return exec::Activation::relu;
  case MatmulActivation::GeluErf:
    return exec::Activation::gelu_erf;
  case MatmulActivation::GeluTanh:
    return exec::Activation::gelu_tanh;
  }
  llvm_unreachable("not an activation");
}

/// The sum in the words of a command whose factors are swapped or not.
static exec::ColumnSum getExecColumnSum(ColumnSum of, bool swapped) {
  switch (of) {
  case ColumnSum::None:
    return exec::ColumnSum::none;
  case ColumnSum::Result:
    return exec::ColumnSum::c;
  case ColumnSum::FirstFactor:
    return swapped ? exec::ColumnSum::b : exec::ColumnSum::a;
  case ColumnSum::SecondFactor:
    return swapped ? exec::ColumnSum::a : exec::ColumnSum::b;
  }
  llvm_unreachable("not a column sum");
}

static exec::MatmulT getAction(MatmulOp op, const MatmulForm &form) {
  exec::MatmulT action;
  for (const MatmulForm::Loop &loop : form.batch) {
    action.batch.push_back(loop.size);
    action.a_strides.push_back(loop.a);
    action.b_strides.push_back(loop.b);
    action.c_strides.push_back(loop.c);
  }
  action.m = form.m.size;
  action.n = form.n.size;
  action.k = form.k.size;
  for (auto [strides, rows, columns] :
       {std::tuple(&action.a_strides, form.m.a, form.k.a),
        std::tuple(&action.b_strides, form.k.b, form.n.b),
        std::tuple(&action.c_strides, form.m.c, form.n.c)}) {
    strides->push_back(rows);
    strides->push_back(columns);
  }
  action.has_bias = bool(op.getBias());
  action.activation = getExecActivation(op.getActivation());
  action.has_aux = op.getAux() || op.getSlope();
  action.is_gradient = op.isGradient();
  action.column_sum = getExecColumnSum(op.getColumnSumOf(), form.swapped);
  return action;
}

/// An executable that cannot run is none.
static LogicalResult checkOperands(MatmulOp op, const MatmulForm &form) {
  constexpr const char *names[] = {"left factor", "right factor", "result"};
  const std::array<bool, 3> refused =
      form.findRefused(codegen::MatmulLibrary::OneDnn);
  for (auto [name, isRefused] : llvm::zip_equal(names, refused))
    if (isRefused)
      return op.emitError(
                 "oneDNN cannot compute this product: it does not take "
                 "its ")
             << name << " as it lies in memory";
  return success();
}

LogicalResult MatmulOp::addCommands(codegen::CommandBuilder &commands) {
  const MatmulForm form = getForm();
  const codegen::MatmulLibrary library =
      commands.getTarget().getMatmulLibrary();
  if (library == codegen::MatmulLibrary::OneDnn &&
      failed(checkOperands(*this, form)))
    return failure();
  Value a = getLhs(), b = getRhs();
  if (form.swapped)
    std::swap(a, b);
  SmallVector<Value> operands = {a, b}; // as getOperandOrder() says
  if (getBias())
    operands.push_back(getBias());
  // What lies elsewhere is added by the first call, or copied to the result.
  const bool isElsewhere =
      getAddend() && !commands.lieTogether(getAddend(), getResult());
  const bool hasAddend =
      isElsewhere && library == codegen::MatmulLibrary::CublasLt;
  SmallVector<Value> first = operands;
  if (hasAddend)
    first.push_back(getAddend());
  SmallVector<Value> ends;
  for (Value end : {Value(getSlope()), Value(getColumnSum()), Value(getAux()),
                    Value(getResult())})
    if (end)
      ends.push_back(end);
  first.append(ends);
  operands.append(ends);
  if (isElsewhere && !hasAddend)
    commands.addCommand(getLoc(), {getAddend(), getResult()}, 1)
        .action.Set(exec::CopyT());

  // One call per position of the loops over k that the library does not take;
  // all but the first accumulate.
  int64_t calls = 1;
  for (const MatmulForm::Loop &loop : form.outerK)
    calls *= loop.size;
  const int64_t elementBytes =
      codegen::getElementBytes(getElementTypeOrSelf(a));
  for (int64_t call = 0; call < calls; ++call) {
    exec::CommandT &command =
        commands.addCommand(getLoc(), call == 0 ? first : operands,
                            getOperation()->getNumResults());
    int64_t rest = call, aOffset = 0, bOffset = 0;
    for (const MatmulForm::Loop &loop : llvm::reverse(form.outerK)) {
      aOffset += rest % loop.size * loop.a;
      bOffset += rest % loop.size * loop.b;
      rest /= loop.size;
    }
    // Each reads its part of both.
    for (Value operand : {a, b}) {
      const int64_t bytes = commands.getStoredBytes(operand);
      command.bytes -=
          bytes - (bytes * (call + 1) / calls - bytes * call / calls);
    }
    command.operands[0]->offset += uint64_t(aOffset * elementBytes);
    command.operands[1]->offset += uint64_t(bOffset * elementBytes);
    exec::MatmulT action = getAction(*this, form);
    action.has_addend = call == 0 && hasAddend;
    action.accumulate = call > 0 || (getAddend() && !hasAddend);
    SmallVector<int64_t> factors = {2, action.m, action.n, action.k};
    factors.append(action.batch.begin(), action.batch.end());
    if (failed(commands.addFlops(getLoc(), command, factors)))
      return failure();
    command.action.Set(std::move(action));
    if (library == codegen::MatmulLibrary::CublasLt)
      if (auto plan = runtime::cuda::planMatmul(command); !plan)
        return emitError(plan.getError().message);
  }
  return success();
}
