// The order of dimensions is storage, never meaning: this pass chooses it for
// values between operations. Variables, inputs and outputs keep the order the
// user wrote.
//
// A contraction is one library call when, in each of its three tensors, the
// dimensions of one class (batch, rows m, columns n, contracted k) lie next to
// each other in one order, and the innermost dimension of the result is not a
// batch dimension, nor one beside which an operand has another row or column
// innermost. Each contraction's result order is chosen by what it costs
// the contraction itself and the contractions that read it. So is that of a
// view that repeats elements and that contractions alone read: patches of an
// image are stored with the positions in one piece and what the windows see in
// another. Everything else follows its operands.

#include "passes/ChooseOrders.h"

#include "dialect/ProgramWalk.h"
#include "passes/Passes.h"

#include <limits>
#include <map>
#include <tuple>
#include <vector>

namespace meshc {
#define GEN_PASS_DEF_CHOOSEORDERS
#include "passes/Passes.h.inc"
} // namespace meshc

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

namespace {

/// What reads a value: contractions, borders by the types that they ask for,
/// and whether there is anything else.
struct Readers {
  SmallVector<StorageReader> einsums;
  SmallVector<NamedTensorType> borders;
  bool hasOthers = false;
};

class Chooser {
public:
  explicit Chooser(ProgramOp program, const PinnedOrders &pinned)
      : program(program), price(nd::getMachine(program)), pinned(pinned) {}

  void run() {
    // What the outside sees stays as written, by copies in front of it.
    for (Operation *op : getOperations(program))
      if (auto border = dyn_cast<BorderOpInterface>(op);
          border && border.isExit())
        required[op] = border.getGlobalType().withoutSharding();
    dropCopies();
    SmallVector<Operation *> operations = getOperations(program);
    for (Operation *op : operations)
      for (OpResult result : op->getResults())
        setOrder(result);
    // Readers come later, whose orders free values have.
    for (Operation *op : llvm::reverse(operations))
      if (op->getNumResults() == 1 && isFree(op->getResult(0)))
        followReader(op->getResult(0));
    for (auto [border, type] : required)
      restore(border, type);
  }

  /// See getStorageCost.
  StorageCost getStorageCost(Value value, ArrayRef<DimAttr> order) {
    const Readers readers = collectReaders(value);
    StorageCost cost;
    cost.hasOthers = readers.hasOthers || !readers.borders.empty();
    auto einsum = value.getDefiningOp<EinsumOp>();
    if (einsum && einsum.getInputs().size() == 2)
      cost.ofWriterPs = price.getWriterPs(einsum, order);
    for (const StorageReader &reader : readers.einsums)
      cost.ofReadersPs += price.getReaderPs(reader, order);
    return cost;
  }

private:
  /// Takes out the copies of an earlier choice in front of what the outside
  /// sees, but for those of a value with a sharding of its own, which it has
  /// not.
  void dropCopies() {
    for (Operation *op : getOperations(program)) {
      auto border = dyn_cast<BorderOpInterface>(op);
      if (!border || !border.isExit())
        continue;
      Operation *copy = op->getOperand(0).getDefiningOp();
      if (!copy || !isReordering(copy) ||
          cast<NamedTensorType>(copy->getOperand(0).getType()).getSharding())
        continue;
      op->setOperand(0, copy->getOperand(0));
      if (copy->use_empty())
        copy->erase();
    }
  }

  /// Whether `op` does nothing but store its operand in another order.
  static bool isReordering(Operation *op) {
    return isa<ReduceOp, BroadcastOp>(op) &&
           cast<NamedTensorType>(op->getOperand(0).getType()).getRank() ==
               cast<NamedTensorType>(op->getResult(0).getType()).getRank();
  }

  void setOrder(OpResult result) {
    Operation *op = result.getOwner();
    auto type = cast<NamedTensorType>(result.getType());
    if (auto order = pinned.find(result); order != pinned.end())
      return reorder(result, order->second);
    if (type.getRank() < 2 || isa<BorderOpInterface>(op))
      return;
    if (auto random = dyn_cast<RandomOp>(op); random && random.getOrderAttr())
      free.insert(result);
    if (auto einsum = dyn_cast<EinsumOp>(op))
      return reorder(result, choose(einsum));
    if (auto view = dyn_cast<ViewOp>(op))
      return reorder(result, choose(view));
    if (isa<ElementwiseOpInterface, ReduceOp, RenameOp, ReshardOp>(op))
      reorder(result, follow(op, type));
  }

  /// The name that dimension `dim` of an operand has in a result, if it is a
  /// loop.
  static StringAttr getResultName(OpOperand &operand, DimAttr dim) {
    auto op = dyn_cast<PartitionOpInterface>(operand.getOwner());
    StringAttr loop;
    if (op)
      loop = op.getOperandAccess(operand.getOperandNumber(), dim.getName())
                 .getLoop();
    return loop ? loop : dim.getName();
  }

  /// Whether nothing says how `value` is stored: random numbers, whose places
  /// are counted by names, and what is computed of them, elementwise and of
  /// nothing else that has as many dimensions.
  bool isFree(Value value) const { return free.contains(value); }

  /// Stores a free value as what it is computed with, if that is known, and no
  /// reader has the order of the value in its own type.
  void followReader(OpResult value) {
    auto type = cast<NamedTensorType>(value.getType());
    if (llvm::any_of(value.getUsers(), llvm::IsaPred<RenameOp, ReshardOp>))
      return;
    for (Operation *reader : value.getUsers()) {
      if (!isa<ElementwiseOpInterface>(reader))
        continue;
      Order order;
      for (DimAttr dim :
           cast<NamedTensorType>(reader->getResult(0).getType()).getDims())
        if (llvm::is_contained(type.getDims(), dim))
          order.push_back(dim);
      return reorder(value, order);
    }
  }

  /// The order of the operand with the most dimensions, then what it lacks. Of
  /// several one that is not free.
  Order follow(Operation *op, NamedTensorType type) {
    OpOperand *widest = &op->getOpOperand(0);
    auto getDims = [](OpOperand &operand) {
      return cast<NamedTensorType>(operand.get().getType()).getDims();
    };
    auto getRank = [&](OpOperand &operand) {
      return std::pair(getDims(operand).size(), !isFree(operand.get()));
    };
    for (OpOperand &operand : op->getOpOperands())
      if (getRank(operand) > getRank(*widest))
        widest = &operand;
    if (isa<ElementwiseOpInterface>(op) && isFree(widest->get()))
      free.insert(op->getResult(0));
    Order order;
    for (DimAttr dim : getDims(*widest))
      if (int64_t position = type.findDim(getResultName(*widest, dim));
          position >= 0)
        order.push_back(type.getDims()[position]);
    for (DimAttr dim : type.getDims())
      if (!llvm::is_contained(order, dim))
        order.push_back(dim);
    return order;
  }

  static void reorder(OpResult result, ArrayRef<DimAttr> order) {
    auto type = cast<NamedTensorType>(result.getType());
    auto reordered = NamedTensorType::get(order, type.getElementType());
    if (ShardingAttr sharding = type.getSharding())
      reordered = reordered.withSharding(follow(sharding, reordered));
    result.setType(reordered);
  }

  /// `sharding` with the split dimensions in the order of `type`, as a
  /// sharding lists them.
  static ShardingAttr follow(ShardingAttr sharding, NamedTensorType type) {
    SmallVector<DimSplitAttr> splits(sharding.getSplits());
    llvm::sort(splits, [&](DimSplitAttr a, DimSplitAttr b) {
      return type.findDim(a.getDim()) < type.findDim(b.getDim());
    });
    return ShardingAttr::get(type.getContext(), splits,
                             sharding.getPartialKind(),
                             sharding.getPartialAxes());
  }

  /// What an order is chosen by: the types that it costs something with, and
  /// how a value's dimensions are called there.
  using Key = std::vector<const void *>;

  static Key getKey(EinsumOp einsum, ArrayRef<StorageReader> readers,
                    ArrayRef<NamedTensorType> borders) {
    Key key;
    auto add = [&](auto attribute) {
      key.push_back(attribute.getAsOpaquePointer());
    };
    for (Value input : einsum.getInputs())
      add(input.getType());
    add(einsum.getType());
    for (const StorageReader &reader : readers) {
      add(reader.getOther());
      add(reader.getResult());
      // Nothing where the name stays: then the list has one length everywhere.
      for (DimAttr dim : einsum.getType().getDims())
        add(reader.names.lookup(dim.getName()));
    }
    key.push_back(nullptr); // no type: the borders follow
    for (NamedTensorType border : borders)
      add(border);
    return key;
  }

  Order choose(EinsumOp einsum) {
    Order order(einsum.getType().getDims());
    // Beyond five dimensions the 720 and more orders are not worth trying: such
    // a result keeps its order.
    if (einsum.getInputs().size() != 2 || order.size() > 5)
      return order;
    const auto [readers, borders, hasOthers] = collectReaders(einsum);
    auto [known, isFirst] =
        chosen.try_emplace(getKey(einsum, readers, borders), order);
    if (!isFirst)
      return known->second;

    Order &best = known->second;
    // The order as written wins when nothing is better.
    std::pair<int64_t, int> bestCost(
        getCost(einsum, order, readers, borders,
                std::numeric_limits<int64_t>::max()),
        -1);
    auto byName = [](DimAttr x, DimAttr y) {
      return x.getName().getValue() < y.getName().getValue();
    };
    llvm::sort(order, byName);
    do {
      const int64_t ps =
          getCost(einsum, order, readers, borders, bestCost.first);
      if (ps > bestCost.first)
        continue;
      const std::pair cost(ps, countTransposes(einsum, order, readers));
      if (cost < bestCost) {
        bestCost = cost;
        best = order;
      }
    } while (std::next_permutation(order.begin(), order.end(), byName));
    return best;
  }

  /// The order in which the contractions that read a view take it in the fewest
  /// pieces; the one it has where something else reads it too, or where it has
  /// each element once: then it may be read where that lies, in which order
  /// does not matter. Of two that cost the same, one that ends as what is
  /// viewed does: a row of that is read at a time.
  Order choose(ViewOp view) {
    Order best(view.getType().getDims());
    auto countElements = [](NamedTensorType type) {
      return llvm::product_of(type.getSizes());
    };
    if (countElements(view.getType()) <=
        countElements(view.getInput().getType()))
      return best;
    const Readers readers = collectReaders(view);
    if (readers.einsums.empty() || !readers.borders.empty() ||
        readers.hasOthers)
      return best;
    auto getViewCost = [&](ArrayRef<DimAttr> order) {
      int64_t cost = 0;
      for (const StorageReader &reader : readers.einsums)
        cost += price.getReaderPs(reader, order);
      return std::pair(cost, endsAsViewed(view, order) ? 0 : 1);
    };
    std::pair<int64_t, int> bestCost = getViewCost(best);
    for (const StorageReader &reader : readers.einsums)
      for (bool endsContracted : {true, false}) {
        Order order = getOrderFor(reader, best, endsContracted);
        if (const auto cost = getViewCost(order); cost < bestCost) {
          bestCost = cost;
          best = std::move(order);
        }
      }
    return best;
  }

  /// Whether the last dimension of `order` is one that the last one of what
  /// `view` reads is read by.
  static bool endsAsViewed(ViewOp view, ArrayRef<DimAttr> order) {
    const ArrayRef<DimAttr> viewed = view.getInput().getType().getDims();
    return viewed.empty() ||
           llvm::is_contained(
               view.getInputAccess(viewed.back().getName()).getLoops(),
               order.back().getName());
  }

  /// The dimensions `dims` of a value in the order that `reader` likes: what is
  /// in all tensors, then rows, then what is summed, or these two the other way
  /// round; the first and the last as the other operand has them.
  static Order getOrderFor(const StorageReader &reader, ArrayRef<DimAttr> dims,
                           bool endsContracted) {
    const NamedTensorType other = reader.getOther();
    const NamedTensorType result = reader.getResult();
    const Order seen = reader.rename(dims);
    // By class, place in the other operand, and place in this one.
    std::vector<std::tuple<int, int64_t, size_t>> keys;
    for (auto [number, dim] : llvm::enumerate(seen)) {
      const int64_t place = other.findDim(dim.getName());
      const bool isContracted = !result.hasDim(dim.getName());
      const bool isBatch = place >= 0 && !isContracted;
      keys.emplace_back(isBatch                          ? 0
                        : isContracted == endsContracted ? 2
                                                         : 1,
                        place, number);
    }
    llvm::sort(keys);
    return llvm::map_to_vector<5>(
        keys, [&](const auto &key) { return dims[std::get<2>(key)]; });
  }

  /// What reads `value`, depth first, looking through operations that follow
  /// their operand.
  Readers collectReaders(Value value) {
    struct Frame {
      Value value;
      DimNames names;
      Value::use_iterator next;
    };
    Readers readers;
    SmallVector<Frame> open;
    open.push_back({value, DimNames(), value.use_begin()});
    size_t visits = 0;
    for (; !open.empty() && visits < maxVisits; ++visits) {
      Frame &frame = open.back();
      if (frame.next == frame.value.use_end()) {
        open.pop_back();
        continue;
      }
      OpOperand &use = *frame.next++;
      Operation *user = use.getOwner();
      auto einsum = dyn_cast<EinsumOp>(user);
      if (einsum && einsum.getInputs().size() == 2) {
        readers.einsums.push_back(
            {einsum, use.getOperandNumber(), frame.names});
        continue;
      }
      auto known = required.find(user);
      if (known != required.end() && frame.names.empty()) {
        readers.borders.push_back(known->second);
        continue;
      }
      auto type = cast<NamedTensorType>(frame.value.getType());
      if (!isa<ElementwiseOpInterface, RenameOp, ReshardOp>(user) ||
          readers.einsums.size() > maxReaders ||
          cast<NamedTensorType>(user->getResult(0).getType()).getRank() !=
              type.getRank()) {
        readers.hasOthers = true;
        continue;
      }
      Value followed = user->getResult(0);
      DimNames following = frame.names;
      for (DimAttr dim : type.getDims())
        if (StringAttr name = getResultName(use, dim); name != dim.getName())
          following[dim.getName()] = name;
      open.push_back({followed, std::move(following), followed.use_begin()});
    }
    readers.hasOthers |= visits == maxVisits;
    return readers;
  }

  /// Some number above `limit` if it is more: what costs too much already is
  /// not priced to the end.
  int64_t getCost(EinsumOp einsum, ArrayRef<DimAttr> order,
                  ArrayRef<StorageReader> readers,
                  ArrayRef<NamedTensorType> borders, int64_t limit) const {
    int64_t cost = 0;
    for (NamedTensorType border : borders)
      if (border.getDims() != order)
        cost += price.getCopyPs(border);
    if (cost <= limit)
      cost += price.getWriterPs(einsum, order);
    for (const StorageReader &reader : readers) {
      if (cost > limit)
        break;
      cost += price.getReaderPs(reader, order);
    }
    return cost;
  }

  /// Decides between orders of equal cost, none of which was written: matrices
  /// that are passed transposed. One is the result, if it is contiguous along
  /// m. The others are a reader's operands, if one is contiguous along the
  /// contracted dimensions and the other is not: both are then transposed, or
  /// neither is, which is the rarer case.
  static int countTransposes(EinsumOp einsum, ArrayRef<DimAttr> order,
                             ArrayRef<StorageReader> readers) {
    if (order.empty())
      return 0;
    auto type = [](Value value) {
      return cast<NamedTensorType>(value.getType());
    };
    const StringAttr last = order.back().getName();
    int count = type(einsum.getInputs()[0]).hasDim(last) &&
                !type(einsum.getInputs()[1]).hasDim(last);
    for (const StorageReader &reader : readers) {
      NamedTensorType result = reader.getResult();
      NamedTensorType other = reader.getOther();
      auto endsContracted = [&](ArrayRef<DimAttr> dims) {
        return !dims.empty() && !result.hasDim(dims.back().getName());
      };
      count += endsContracted(reader.rename(order)) !=
               endsContracted(other.getDims());
    }
    return count;
  }

  /// Gives the border its value in the order it was written in.
  static void restore(Operation *border, NamedTensorType type) {
    OpOperand &operand = border->getOpOperand(0);
    auto found = cast<NamedTensorType>(operand.get().getType());
    if (found.withoutSharding() == type)
      return;
    OpBuilder builder(border);
    if (isForData(type.getElementType())) { // which has no sum
      operand.set(BroadcastOp::create(builder, operand.get().getLoc(), type,
                                      operand.get()));
      return;
    }
    operand.set(ReduceOp::create(builder, operand.get().getLoc(), type,
                                 Reduction::Sum, operand.get()));
  }

  /// A value read by more contractions than this is costed by the first ones.
  static constexpr size_t maxReaders = 16;
  /// Uses that are looked at for one contraction: paths that part and meet
  /// again are as many as there are ways. Far above what a layer has.
  static constexpr size_t maxVisits = 10'000;

  ProgramOp program;
  StoragePrice price;
  const PinnedOrders &pinned;
  llvm::MapVector<Operation *, NamedTensorType> required;
  llvm::DenseSet<Value> free; ///< see isFree
  /// Layers that are alike choose alike.
  std::map<Key, Order> chosen;
};

} // namespace

void meshc::chooseOrders(ProgramOp program, const PinnedOrders &pinned) {
  Chooser(program, pinned).run();
}

StorageCost meshc::getStorageCost(Value value, ArrayRef<DimAttr> order) {
  return Chooser(value.getDefiningOp()->getParentOfType<ProgramOp>(),
                 PinnedOrders())
      .getStorageCost(value, order);
}

namespace {

struct ChooseOrders : meshc::impl::ChooseOrdersBase<ChooseOrders> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<ProgramOp>())
      chooseOrders(program);
  }
};

} // namespace
