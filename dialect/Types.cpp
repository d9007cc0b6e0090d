#include "dialect/ND.h"

#include "layout/Digits.h"
#include "layout/Machine.h"

#include "llvm/ADT/SmallSet.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

/// Two uses of an axis clash unless both are parts that are disjoint: one ends
/// before the other begins.
static bool overlap(AxisRefAttr a, AxisRefAttr b) {
  if (a.getName() != b.getName())
    return false;
  if (a.getSize() == 0 || b.getSize() == 0)
    return true;
  return !(a.getPre() * a.getSize() <= b.getPre() ||
           b.getPre() * b.getSize() <= a.getPre());
}

bool nd::isForData(Type elementType) {
  return elementType.isUnsignedInteger(8) || elementType.isSignlessInteger(8) ||
         elementType.isSignlessInteger(16);
}

Type nd::getSignless(Type elementType) {
  if (!elementType.isUnsignedInteger())
    return elementType;
  return IntegerType::get(elementType.getContext(),
                          elementType.getIntOrFloatBitWidth());
}

LogicalResult
NamedTensorType::verify(function_ref<InFlightDiagnostic()> emitError,
                        ArrayRef<DimAttr> dims, Type elementType,
                        ShardingAttr sharding) {
  llvm::SmallSet<StringRef, 8> names;
  int64_t elements = 1;
  for (DimAttr dim : dims) {
    if (!names.insert(dim.getName().getValue()).second)
      return emitError() << "(C1) dimension " << dim.getName()
                         << " occurs twice";
    if (llvm::MulOverflow(elements, dim.getSize(), elements))
      return emitError() << "(C3) the number of elements overflows";
  }
  if (!isa<Float16Type, BFloat16Type, Float32Type, Float64Type>(elementType) &&
      !elementType.isSignlessInteger(1) && !elementType.isSignlessInteger(32) &&
      !elementType.isSignlessInteger(64) && !isForData(elementType))
    return emitError() << "(C2) element type " << elementType
                       << " is not one of f16, bf16, f32, f64, i1, i8, i16, "
                          "i32, i64, ui8";
  if (!sharding)
    return success();

  SmallVector<AxisRefAttr> used(sharding.getPartialAxes());
  size_t next = 0;
  for (DimSplitAttr split : sharding.getSplits()) {
    while (next < dims.size() && dims[next].getName() != split.getDim())
      ++next;
    if (next == dims.size())
      return emitError() << "(C4) the sharding splits " << split.getDim()
                         << ", which is no dimension of the type or out of "
                            "the type's order";
    llvm::append_range(used, split.getAxes());
  }
  for (size_t i = 0; i < used.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (overlap(used[i], used[j]))
        return emitError() << "(C5) axis " << used[i].getName()
                           << " serves two purposes in one sharding";
  return success();
}

int64_t NamedTensorType::findDim(StringRef name) const {
  for (auto [index, dim] : llvm::enumerate(getDims()))
    if (dim.getName().getValue() == name)
      return int64_t(index);
  return -1;
}

SmallVector<int64_t> NamedTensorType::getSizes() const {
  return llvm::map_to_vector(getDims(),
                             [](DimAttr dim) { return dim.getSize(); });
}

int64_t NamedTensorType::getNumElements() const {
  int64_t elements = 1;
  for (DimAttr dim : getDims())
    elements *= dim.getSize();
  return elements;
}

//===-- The mesh and the terms of layout/ ---------------------------------===//

/// The mesh of the module around `op`, its only one; null if there is none.
static MeshOp findMesh(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  // It stands in front of thousands of variables, none of which is looked at.
  auto meshes = module.getOps<MeshOp>();
  return meshes.empty() ? MeshOp() : *meshes.begin();
}

layout::Mesh nd::getMesh(Operation *op) {
  std::vector<layout::MeshAxis> axes;
  if (MeshOp mesh = findMesh(op))
    for (auto axis : mesh.getAxes().getAsRange<DimAttr>())
      axes.push_back({axis.getName().str(), axis.getSize()});
  return layout::Mesh(std::move(axes));
}

const layout::Machine &nd::getMachine(Operation *op) {
  if (MeshOp mesh = findMesh(op); mesh && mesh.getMachine())
    return *layout::findMachine(*mesh.getMachine());
  return layout::getCpuMachine();
}

std::optional<layout::MatmulType> nd::findMatmulType(Type element) {
  if (element.isF64())
    return layout::MatmulType::F64;
  if (element.isF32())
    return layout::MatmulType::F32;
  if (element.isF16())
    return layout::MatmulType::F16;
  if (element.isBF16())
    return layout::MatmulType::Bf16;
  return std::nullopt;
}

layout::AxisRef nd::getAxisRef(AxisRefAttr ref, const layout::Mesh &mesh) {
  std::optional<int32_t> axis = mesh.findAxis(ref.getName().getValue());
  assert(axis && "the verifier checks axis names");
  if (ref.getSize() == 0)
    return mesh.getWholeAxis(*axis);
  return {*axis, ref.getPre(), ref.getSize()};
}

AxisRefAttr nd::getAxisRefAttr(MLIRContext *context, layout::AxisRef ref,
                               const layout::Mesh &mesh) {
  const layout::MeshAxis &axis = mesh.getAxes()[ref.axis];
  auto axisName = StringAttr::get(context, axis.name);
  if (ref == mesh.getWholeAxis(ref.axis))
    return AxisRefAttr::get(context, axisName, 1, 0);
  return AxisRefAttr::get(context, axisName, ref.pre, ref.size);
}

layout::ReduceKind nd::toLayout(ReduceKind kind) {
  switch (kind) {
  case ReduceKind::Sum:
    return layout::ReduceKind::Sum;
  case ReduceKind::Max:
    return layout::ReduceKind::Max;
  case ReduceKind::Min:
    return layout::ReduceKind::Min;
  }
  llvm_unreachable("not a reduce kind");
}

ReduceKind nd::fromLayout(layout::ReduceKind kind) {
  switch (kind) {
  case layout::ReduceKind::None:
    break;
  case layout::ReduceKind::Sum:
    return ReduceKind::Sum;
  case layout::ReduceKind::Max:
    return ReduceKind::Max;
  case layout::ReduceKind::Min:
    return ReduceKind::Min;
  }
  llvm_unreachable("not the kind of a partial value");
}

layout::Window nd::toLayout(WindowAttr window) {
  const DimAttr loop = window.getLoop();
  return {loop ? loop.getName().str() : "",
          loop ? loop.getSize() : 1,
          window.getFactor(),
          window.getLow(),
          window.getHigh(),
          window.getDivisor(),
          window.getModulus()};
}

layout::Sharding nd::getSharding(NamedTensorType type,
                                 const layout::Mesh &mesh) {
  ShardingAttr attr = type.getSharding();
  assert(attr && "the type has no sharding");
  layout::Sharding sharding;
  if (attr.hasWindow())
    sharding.windows.resize(size_t(type.getRank()));
  for (auto [number, dim] : llvm::enumerate(type.getDims())) {
    layout::DimSplit split;
    for (AxisRefAttr axis : attr.getAxes(dim.getName()))
      split.push_back(getAxisRef(axis, mesh));
    sharding.dims.push_back(std::move(split));
    if (WindowAttr window = attr.getWindow(dim.getName()))
      sharding.windows[number] = toLayout(window);
  }
  for (AxisRefAttr axis : attr.getPartialAxes())
    sharding.partialAxes.push_back(getAxisRef(axis, mesh));
  llvm::sort(sharding.partialAxes);
  if (attr.getPartialKind())
    sharding.partialKind = toLayout(*attr.getPartialKind());
  return sharding;
}

ShardingAttr nd::getShardingAttr(NamedTensorType type, const layout::Mesh &mesh,
                                 const layout::Sharding &sharding) {
  MLIRContext *context = type.getContext();
  auto nameAll = [&](const std::vector<layout::AxisRef> &axes) {
    return llvm::map_to_vector(axes, [&](layout::AxisRef axis) {
      return getAxisRefAttr(context, axis, mesh);
    });
  };
  SmallVector<DimSplitAttr> splits;
  for (auto [number, dim] : llvm::enumerate(type.getDims())) {
    const layout::DimSplit &split = sharding.dims[number];
    const layout::Window *known = sharding.getWindow(number);
    if (split.empty() && !known)
      continue;
    WindowAttr window;
    if (known) {
      DimAttr loop;
      if (!known->loop.empty())
        loop = DimAttr::get(StringAttr::get(context, known->loop),
                            known->loopSize);
      window = WindowAttr::get(context, loop, known->factor, known->low,
                               known->high, known->divisor, known->modulus);
    }
    splits.push_back(
        DimSplitAttr::get(context, dim.getName(), nameAll(split), window));
  }
  std::optional<ReduceKind> kind;
  if (sharding.isPartial())
    kind = fromLayout(sharding.partialKind);
  return ShardingAttr::get(context, splits, kind,
                           nameAll(sharding.partialAxes));
}

RankedTensorType nd::getLocalType(NamedTensorType type,
                                  const layout::Mesh &mesh) {
  return RankedTensorType::get(
      layout::getLocalShape(type.getSizes(), getSharding(type, mesh)),
      getSignless(type.getElementType()));
}

StringAttr DimAccess::getLoop() const {
  return form ? StringAttr() : loops.front();
}

StringAttr DimAccess::getSplitLoop() const {
  bool isIndexed = form && form->getKind() == layout::Access::Kind::Indexed;
  return isIndexed ? loops.front() : getLoop();
}

std::optional<layout::Window> nd::getWindow(const DimAccess &access,
                                            StringAttr loop,
                                            ArrayRef<DimAttr> loops) {
  std::vector<layout::Range> ranges;
  for (StringAttr name : access.getLoops())
    for (DimAttr known : loops)
      if (known.getName() == name)
        ranges.push_back({0, known.getSize()});
  assert(ranges.size() == access.getLoops().size() && "a loop is missing");
  if (!loop) {
    // Of what goes around a ring all may be read.
    const layout::Access form = access.getForm();
    if (form.getKind() != layout::Access::Kind::Exact &&
        form.getKind() != layout::Access::Kind::Floor)
      return std::nullopt;
    const layout::Range image = form.getImage(ranges);
    if (image.count == 0)
      return std::nullopt;
    return layout::Window{"", 1, 1, image.offset,
                          image.offset + image.count - 1};
  }
  auto number = llvm::find(access.getLoops(), loop);
  if (number == access.getLoops().end())
    return std::nullopt;
  auto window = access.getForm().getWindow(
      int32_t(number - access.getLoops().begin()), ranges);
  if (window)
    window->loop = loop.str();
  return window;
}

std::optional<DigitBlocks>
nd::findDigitBlocks(const DimAccess &access, int64_t size,
                    ArrayRef<DimAttr> loops,
                    function_ref<layout::DimSplit(StringAttr)> getSplit) {
  std::vector<int64_t> sizes;
  std::vector<layout::DimSplit> splits;
  for (StringAttr name : access.getLoops()) {
    for (DimAttr known : loops)
      if (known.getName() == name)
        sizes.push_back(known.getSize());
    splits.push_back(getSplit(name));
  }
  assert(sizes.size() == splits.size() && "a loop is missing");
  auto blocks = layout::findDigitBlocks(access.getForm(), sizes, splits, size);
  if (!blocks)
    return std::nullopt;
  return DigitBlocks{std::move(blocks->split),
                     DimAccess(std::move(blocks->local), access.getLoops())};
}

std::string nd::toString(const DimAccess &access) {
  std::vector<std::string> names;
  for (StringAttr loop : access.getLoops())
    names.push_back(loop.str());
  return access.getForm().toString(names);
}

SmallVector<DimAttr> nd::getUnionOfDims(Operation *op) {
  SmallVector<DimAttr> dims;
  auto add = [&](Type type) {
    auto named = dyn_cast<NamedTensorType>(type);
    if (!named)
      return;
    for (DimAttr dim : named.getDims())
      if (llvm::none_of(dims, [&](DimAttr known) {
            return known.getName() == dim.getName();
          }))
        dims.push_back(dim);
  };
  llvm::for_each(op->getResultTypes(), add);
  llvm::for_each(op->getOperandTypes(), add);
  return dims;
}

NamedTensorType nd::getBroadcastType(ValueRange operands) {
  SmallVector<DimAttr> dims;
  for (Value operand : operands)
    for (DimAttr dim : cast<NamedTensorType>(operand.getType()).getDims())
      if (llvm::none_of(dims, [&](DimAttr known) {
            return known.getName() == dim.getName();
          }))
        dims.push_back(dim);
  auto last = cast<NamedTensorType>(operands.back().getType());
  return NamedTensorType::get(dims, last.getElementType());
}
