#include "dialect/ND.h"
#include "passes/Passes.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

namespace meshc {
#define GEN_PASS_DEF_WRITESTACKS
#include "passes/Passes.h.inc"
} // namespace meshc

namespace {

/// How many tensors one choice by position takes: each is read for every
/// element of the result, and what is chosen is written once more for every
/// factor of this in their number.
constexpr size_t maxChoices = 8;

/// Tensors that are put one after the other, and where.
struct Parts {
  SmallVector<Value> values;
  /// The dimension of a part along which its positions lie; null: it has one
  /// position and no such dimension.
  SmallVector<StringAttr> dims;
  SmallVector<int64_t> starts; ///< the last one is where the last part ends

  Parts slice(size_t first, size_t count) const {
    return {SmallVector<Value>(ArrayRef(values).slice(first, count)),
            SmallVector<StringAttr>(ArrayRef(dims).slice(first, count)),
            SmallVector<int64_t>(ArrayRef(starts).slice(first, count + 1))};
  }
};

/// Writes one nd.stack, whose values have shardings, as choices by position.
class Writing {
public:
  explicit Writing(StackOp op)
      : op(op), builder(op), loc(op.getLoc()),
        dim(DimAttr::get(op.getDimAttr(), int64_t(op.getInputs().size()))) {}

  void run() {
    Parts parts;
    parts.values.append(op.getInputs().begin(), op.getInputs().end());
    parts.dims.resize(parts.values.size());
    parts.starts = llvm::to_vector(llvm::seq<int64_t>(0, dim.getSize() + 1));
    while (parts.values.size() > maxChoices)
      parts = joinByEights(parts);
    op.getResult().replaceAllUsesWith(choose(dim, op.getType(), parts));
    op.erase();
  }

private:
  Parts joinByEights(const Parts &parts) {
    Parts joined;
    for (size_t i = 0; i < parts.values.size(); i += maxChoices) {
      size_t count = std::min(maxChoices, parts.values.size() - i);
      // A name has one size: what is put together on the way has another.
      int64_t size = parts.starts[i + count] - parts.starts[i];
      auto name = builder.getStringAttr(dim.getName().getValue() + " of " +
                                        Twine(size));
      auto type =
          withDimFirst(withoutDim(op.getType(), dim.getName().getValue()),
                       DimAttr::get(name, size));
      joined.values.push_back(
          choose(type.getDims().front(), shard(type), parts.slice(i, count)));
      joined.dims.push_back(name);
      joined.starts.push_back(parts.starts[i]);
    }
    joined.starts.push_back(parts.starts.back());
    return joined;
  }

  /// `parts` one after the other along `along`, a dimension of `type`: where
  /// the position is before the end of the first that one, else the others.
  Value choose(DimAttr along, NamedTensorType type, const Parts &parts) {
    Type integer = builder.getI32Type();
    auto getComplete = [&](ArrayRef<DimAttr> dims, Type elementType) {
      return shard(NamedTensorType::get(dims, elementType),
                   /*isPartial=*/false);
    };
    Value position;
    Value chosen;
    for (size_t i = parts.values.size(); i-- > 0;) {
      int64_t start = parts.starts[i] - parts.starts.front();
      Value part =
          buildPart(parts.values[i], parts.dims[i], along, start, type);
      if (!chosen) {
        chosen = part;
        continue;
      }
      if (!position)
        position = IotaOp::create(builder, loc, getComplete({along}, integer));
      Value end =
          ConstantOp::create(builder, loc, getComplete({}, integer),
                             builder.getI32IntegerAttr(int32_t(
                                 parts.starts[i + 1] - parts.starts.front())));
      Value isBefore = CompareOp::create(
          builder, loc, getComplete({along}, builder.getI1Type()),
          Predicate::Lt, position, end);
      chosen = SelectOp::create(builder, loc, type, isBefore, part, chosen);
    }
    return chosen;
  }

  /// `value` from position `start` of `along` on, in a tensor of `type`.
  Value buildPart(Value value, StringAttr valueDim, DimAttr along,
                  int64_t start, NamedTensorType type) {
    if (!valueDim)
      return BroadcastOp::create(builder, loc, type, value);
    DimAccess access(layout::Access::linear({{0, 1}}, -start),
                     {along.getName()});
    return ViewOp::create(
        builder, loc, type, value,
        builder.getArrayAttr(AccessAttr::get(valueDim, access)));
  }

  /// `type` split as the result is, and partial as it is unless it need not be.
  NamedTensorType shard(NamedTensorType type, bool isPartial = true) {
    ShardingAttr whole = op.getType().getSharding();
    SmallVector<DimSplitAttr> splits;
    for (DimAttr dim : type.getDims())
      for (DimSplitAttr split : whole.getSplits())
        if (split.getDim() == dim.getName())
          splits.push_back(split);
    MLIRContext *context = builder.getContext();
    return type.withSharding(
        isPartial ? ShardingAttr::get(context, splits, whole.getPartialKind(),
                                      whole.getPartialAxes())
                  : ShardingAttr::get(context, splits, std::nullopt, {}));
  }

  StackOp op;
  OpBuilder builder;
  Location loc;
  DimAttr dim;
};

struct WriteStacks : meshc::impl::WriteStacksBase<WriteStacks> {
  void runOnOperation() override {
    SmallVector<StackOp> stacks;
    getOperation().walk([&](StackOp op) { stacks.push_back(op); });
    if (stacks.empty())
      return markAllAnalysesPreserved();
    for (StackOp op : stacks) {
      if (!op.getType().getSharding()) {
        op.emitOpError("has no sharding (nd-assign-shardings gives it one)");
        return signalPassFailure();
      }
      if (!op.isWhole())
        Writing(op).run();
    }
  }
};

} // namespace
