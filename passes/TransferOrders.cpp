#include "passes/TransferOrders.h"

#include "dialect/Locations.h"
#include "passes/ChooseOrders.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

namespace {

/// What makes the value of a transfer, as far as another order reaches: the
/// value, and those that it is made of element by element.
struct Chain {
  SmallVector<Value> values; ///< from the value back
  EinsumOp einsum;           ///< that makes the last; none if it is no other's
};

class Orderer {
public:
  Orderer(ProgramOp program, const ModuleLayout &layout)
      : layout(layout), machine(nd::getMachine(program)) {}

  void order(const ValueTransfer &transfer);
  PinnedOrders take() && { return std::move(pinned); }

private:
  double getSendUs(const ValueTransfer &transfer, ArrayRef<DimAttr> order);
  double getCopyUs(NamedTensorType type, const layout::Sharding &sharding);
  void pin(const Chain &chain, ArrayRef<DimAttr> order);
  void copyArriving(const ValueTransfer &transfer, Value value);

  const ModuleLayout &layout;
  const layout::Machine &machine;
  PinnedOrders pinned;
};

} // namespace

static NamedTensorType getType(Value value) {
  return cast<NamedTensorType>(value.getType());
}

/// The operand that an elementwise operation has each element of its result of;
/// none if there are several.
static Value findOnlyOperand(Operation *op, NamedTensorType result) {
  Value found;
  if (!isa<ElementwiseOpInterface, RenameOp>(op))
    return found;
  for (Value operand : op->getOperands()) {
    if (getType(operand).getRank() == 0)
      continue;
    if (found || getType(operand).getRank() != result.getRank())
      return Value();
    found = operand;
  }
  return found;
}

/// The contraction that makes `value`, or none.
static EinsumOp findEinsum(Value value) {
  auto einsum = value.getDefiningOp<EinsumOp>();
  return einsum && einsum.getInputs().size() == 2 ? einsum : EinsumOp();
}

static Chain getChain(Value value) {
  Chain chain{{value}, findEinsum(value)};
  while (!chain.einsum) {
    Value last = chain.values.back();
    Value operand = findOnlyOperand(last.getDefiningOp(), getType(last));
    if (!operand || !operand.hasOneUse())
      break;
    chain.values.push_back(operand);
    chain.einsum = findEinsum(operand);
  }
  return chain;
}

/// `order`, of the result of `op`, by the names that its operand `from` has.
static Order getOperandOrder(Operation *op, Value from,
                             ArrayRef<DimAttr> order) {
  Order result;
  for (OpOperand &operand : op->getOpOperands()) {
    if (operand.get() != from)
      continue;
    auto partitioned = cast<PartitionOpInterface>(op);
    for (DimAttr dim : order)
      for (DimAttr own : getType(from).getDims())
        if (partitioned
                .getOperandAccess(operand.getOperandNumber(), own.getName())
                .getLoop() == dim.getName())
          result.push_back(own);
    return result;
  }
  llvm_unreachable("not an operand");
}

/// The orders of the values of a chain if the first is stored in `order`; fewer
/// where names are not kept.
static SmallVector<Order> getOrders(const Chain &chain,
                                    ArrayRef<DimAttr> order) {
  SmallVector<Order> orders{Order(order)};
  for (size_t i = 1; i < chain.values.size(); ++i) {
    orders.push_back(getOperandOrder(chain.values[i - 1].getDefiningOp(),
                                     chain.values[i], orders.back()));
    if (orders.back().size() != order.size()) {
      orders.pop_back();
      break;
    }
  }
  return orders;
}

/// `sharding` of a value of these dimensions as one of a value stored in
/// `order`.
static layout::Sharding reorder(const layout::Sharding &sharding,
                                ArrayRef<DimAttr> dims,
                                ArrayRef<DimAttr> order) {
  layout::Sharding result = sharding;
  for (auto [place, dim] : llvm::enumerate(order))
    result.dims[place] =
        sharding.dims[size_t(llvm::find(dims, dim) - dims.begin())];
  return result;
}

/// Orders that begin with a dimension whose split changes: with it alone, the
/// others as they are, or with all from it on, those before it behind them.
static SmallVector<Order> getCandidates(const ValueTransfer &transfer) {
  const ArrayRef<DimAttr> dims = getType(transfer.value).getDims();
  SmallVector<Order> candidates;
  auto add = [&](Order order) {
    if (order != dims && !llvm::is_contained(candidates, order))
      candidates.push_back(std::move(order));
  };
  for (size_t d = 0; d < dims.size(); ++d) {
    if (llvm::all_of(transfer.changes,
                     [&](const ValueTransfer::Change &change) {
                       return change.had.dims[d] == change.wanted.dims[d];
                     }))
      continue;
    Order first{dims[d]};
    llvm::append_range(first, dims.take_front(d));
    llvm::append_range(first, dims.drop_front(d + 1));
    add(std::move(first));
    Order rotated(dims.drop_front(d));
    llvm::append_range(rotated, dims.take_front(d));
    add(std::move(rotated));
  }
  return candidates;
}

double Orderer::getSendUs(const ValueTransfer &transfer,
                          ArrayRef<DimAttr> order) {
  const NamedTensorType type = getType(transfer.value);
  const auto stored = NamedTensorType::get(order, type.getElementType());
  double us = 0;
  for (const auto &[had, wanted] : transfer.changes)
    us += layout
              .planReshard(stored, reorder(had, type.getDims(), order),
                           reorder(wanted, type.getDims(), order))
              .best.costUs;
  return us;
}

/// A copy of a device's block.
double Orderer::getCopyUs(NamedTensorType type,
                          const layout::Sharding &sharding) {
  int64_t bytes = getElementBytes(type);
  for (int64_t size : layout::getLocalShape(type.getSizes(), sharding))
    bytes *= size;
  return machine.getKernelPrice(0, 2 * double(bytes)).us;
}

void Orderer::pin(const Chain &chain, ArrayRef<DimAttr> order) {
  for (auto [value, stored] : llvm::zip(chain.values, getOrders(chain, order)))
    pinned[value] = std::move(stored);
}

/// A copy of `value` for `uses`.
static Value insertCopy(Value value, ArrayRef<OpOperand *> uses) {
  OpBuilder builder(value.getContext());
  builder.setInsertionPointAfterValue(value);
  Value copy = ReduceOp::create(builder, asInside(value.getLoc()),
                                getType(value), Reduction::Sum, value);
  for (OpOperand *use : uses)
    use->set(copy);
  return copy;
}

/// Copies what arrives of `value` to the order that its type has, for those who
/// read it. Under a new name it is copied there: the split that is asked for
/// may be of that name.
void Orderer::copyArriving(const ValueTransfer &transfer, Value value) {
  SmallVector<OpOperand *> direct;
  for (OpOperand *use : transfer.uses) {
    auto rename = dyn_cast<RenameOp>(use->getOwner());
    if (!rename) {
      direct.push_back(use);
      continue;
    }
    SmallVector<OpOperand *> uses;
    for (OpOperand &other : rename->getUses())
      uses.push_back(&other);
    pinned[insertCopy(rename, uses)] = Order(rename.getType().getDims());
  }
  if (!direct.empty())
    pinned[insertCopy(value, direct)] = Order(getType(value).getDims());
}

void Orderer::order(const ValueTransfer &transfer) {
  const NamedTensorType type = getType(transfer.value);
  if (type.getRank() < 2 || isForData(type.getElementType()) ||
      pinned.contains(transfer.value) ||
      llvm::any_of(transfer.changes, [](const ValueTransfer::Change &change) {
        return change.had.hasWindow() || change.wanted.hasWindow();
      }))
    return;
  Chain chain = getChain(transfer.value);
  // A product writes any order; all else that reads another order is a copy.
  const bool isWritten =
      chain.einsum &&
      getOrders(chain, type.getDims()).size() == chain.values.size();
  if (!isWritten)
    chain.values.truncate(1);
  auto getStorage = [&](ArrayRef<DimAttr> order) {
    return getStorageCost(chain.values.back(), getOrders(chain, order).back());
  };
  const StorageCost asStored = getStorage(type.getDims());
  const double copyUs = getCopyUs(type, transfer.changes[0].had);
  double readUs = 0; // of copies of what arrives
  for (const ValueTransfer::Change &change : transfer.changes)
    readUs += getCopyUs(type, change.wanted);
  double leastUs = getSendUs(transfer, type.getDims());
  std::optional<Order> best;
  bool isReadSlower = false, isCopied = false;
  for (const Order &order : getCandidates(transfer)) {
    const StorageCost storage = getStorage(order);
    const bool isSlower = storage.ofReadersPs > asStored.ofReadersPs;
    const bool copies = !isWritten || storage.ofWriterPs > asStored.ofWriterPs;
    const double us = getSendUs(transfer, order) + (copies ? copyUs : 0) +
                      (isSlower || storage.hasOthers ? readUs : 0);
    if (us >= leastUs)
      continue;
    leastUs = us;
    best = order;
    isReadSlower = isSlower;
    isCopied = isWritten && copies;
  }
  if (!best)
    return;
  // The operations whose results have an order that is chosen, a rename if its
  // operand is stored so, too; a product whose own order is cheaper keeps it.
  if (isCopied || chain.values.back().getDefiningOp<RenameOp>() ||
      !isa<EinsumOp, ViewOp, ElementwiseOpInterface, ReduceOp, RenameOp>(
          transfer.value.getDefiningOp())) {
    chain.values.truncate(1);
    chain.values[0] = insertCopy(transfer.value, transfer.uses);
    chain.values[0].getDefiningOp()->setAttr(copyToSendAttr,
                                             UnitAttr::get(type.getContext()));
  }
  if (isReadSlower)
    copyArriving(transfer, chain.values[0]);
  pin(chain, *best);
}

bool meshc::orderTransfers(ProgramOp program, const ModuleLayout &layout,
                           ArrayRef<ValueTransfer> transfers) {
  if (!nd::getMachine(program).needsContiguousBlocks())
    return false;
  Orderer orderer(program, layout);
  for (const ValueTransfer &transfer : transfers)
    orderer.order(transfer);
  const PinnedOrders pinned = std::move(orderer).take();
  if (!pinned.empty())
    chooseOrders(program, pinned);
  return !pinned.empty();
}
