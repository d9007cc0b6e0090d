// The order of dimensions is storage, never meaning: this pass chooses it for
// values between operations. Variables, inputs and outputs keep the order the
// user wrote.
//
// A contraction is one library call when, in each of its three tensors, the
// dimensions of one class (batch, rows m, columns n, contracted k) lie next to
// each other in one order, and the innermost dimension of the result is not a
// batch dimension, nor one beside which an operand has another row or column
// innermost. Each contraction's result order is chosen by what it costs
// the contraction itself and the contractions that read it; everything else
// follows its operands.

#include "dialect/ProgramWalk.h"
#include "passes/Passes.h"

#include <map>
#include <vector>

namespace meshc {
#define GEN_PASS_DEF_CHOOSEORDERS
#include "passes/Passes.h.inc"
} // namespace meshc

using namespace mlir;
using namespace meshc;
using namespace meshc::nd;

namespace {

using Order = SmallVector<DimAttr>;

/// How much worse than one plain call a choice is. The figures only rank
/// choices: a contracted class in several pieces means one call per position of
/// the outer piece; rows or columns in several pieces mean smaller products; a
/// wrong innermost dimension makes the library reorder; a copy reads and writes
/// the value once more.
constexpr int splitContractedCost = 40;
constexpr int splitFreeCost = 6;
constexpr int innermostCost = 30;
constexpr int copyCost = 10;

enum class DimClass : uint8_t { Batch, M, N, K };

/// Class of `dim` in a contraction of `lhs` and `rhs` to `result`.
DimClass getClass(StringRef dim, NamedTensorType lhs, NamedTensorType rhs,
                  NamedTensorType result) {
  if (!result.hasDim(dim))
    return DimClass::K;
  if (lhs.hasDim(dim) && rhs.hasDim(dim))
    return DimClass::Batch;
  return lhs.hasDim(dim) ? DimClass::M : DimClass::N;
}

/// In how many pieces the dimensions for which `isMember` holds lie, when `b`
/// gives the order they have in the other tensor: a piece is a run that is
/// adjacent and in the same order in both.
int countPieces(ArrayRef<DimAttr> a, ArrayRef<DimAttr> b,
                llvm::function_ref<bool(DimAttr)> isMember) {
  int pieces = 0;
  std::optional<size_t> previousA, previousB;
  for (auto [position, dim] : llvm::enumerate(a)) {
    if (!isMember(dim) || dim.getSize() == 1)
      continue;
    size_t other = llvm::find(b, dim) - b.begin();
    if (!previousA || position != *previousA + 1 || other != *previousB + 1)
      ++pieces;
    previousA = position;
    previousB = other;
  }
  return pieces;
}

/// Whether `order` and an operand end in different dimensions for which
/// `isMember` holds: one is the library's, in which it can be contiguous alone.
bool endsInAnother(ArrayRef<DimAttr> order, ArrayRef<DimAttr> operand,
                   llvm::function_ref<bool(DimAttr)> isMember) {
  auto isLoop = [](DimAttr dim) { return dim.getSize() > 1; };
  auto last = llvm::find_if(llvm::reverse(order), isLoop);
  auto other = llvm::find_if(llvm::reverse(operand), isLoop);
  return last != order.rend() && other != operand.rend() && *last != *other &&
         isMember(*last) && isMember(*other);
}

/// Names that a value's dimensions have further on.
using Names = llvm::SmallDenseMap<StringAttr, StringAttr>;

/// A contraction that reads a value, perhaps through operations that keep its
/// order, and the names the value's dimensions have there.
struct Reader {
  EinsumOp einsum;
  unsigned operand;
  Names names; // the value's to the reader's
};

class Chooser {
public:
  explicit Chooser(ProgramOp program) : program(program) {}

  void run() {
    // What the outside sees stays as written.
    SmallVector<Operation *> operations = getOperations(program);
    for (Operation *op : operations)
      if (auto border = dyn_cast<BorderOpInterface>(op);
          border && border.isExit())
        required[op] = border.getGlobalType().withoutSharding();
    for (Operation *op : operations)
      for (OpResult result : op->getResults())
        setOrder(result);
    for (auto [border, type] : required)
      restore(border, type);
  }

private:
  void setOrder(OpResult result) {
    Operation *op = result.getOwner();
    auto type = cast<NamedTensorType>(result.getType());
    if (type.getRank() < 2 || isa<BorderOpInterface>(op))
      return;
    if (auto einsum = dyn_cast<EinsumOp>(op))
      return reorder(result, choose(einsum));
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

  /// The order of the operand with the most dimensions, then what it lacks.
  static Order follow(Operation *op, NamedTensorType type) {
    OpOperand *widest = &op->getOpOperand(0);
    auto getDims = [](OpOperand &operand) {
      return cast<NamedTensorType>(operand.get().getType()).getDims();
    };
    for (OpOperand &operand : op->getOpOperands())
      if (getDims(operand).size() > getDims(*widest).size())
        widest = &operand;
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

  static Key getKey(EinsumOp einsum, ArrayRef<Reader> readers,
                    ArrayRef<NamedTensorType> borders) {
    Key key;
    auto add = [&](auto attribute) {
      key.push_back(attribute.getAsOpaquePointer());
    };
    for (Value input : einsum.getInputs())
      add(input.getType());
    add(einsum.getType());
    for (Reader reader : readers) {
      add(reader.einsum.getInputs()[1 - reader.operand].getType());
      add(reader.einsum.getType());
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
    SmallVector<Reader> readers;
    SmallVector<NamedTensorType> borders;
    collectReaders(einsum, Names(), readers, borders);
    auto [known, isFirst] =
        chosen.try_emplace(getKey(einsum, readers, borders), order);
    if (!isFirst)
      return known->second;

    Order &best = known->second;
    // The order as written wins when nothing is better.
    std::pair<int, int> bestCost(getCost(einsum, order, readers, borders), -1);
    auto byName = [](DimAttr x, DimAttr y) {
      return x.getName().getValue() < y.getName().getValue();
    };
    llvm::sort(order, byName);
    do {
      std::pair<int, int> cost(getCost(einsum, order, readers, borders),
                               countTransposes(einsum, order, readers));
      if (cost < bestCost) {
        bestCost = cost;
        best = order;
      }
    } while (std::next_permutation(order.begin(), order.end(), byName));
    return best;
  }

  /// The contractions that read `value` and the border types it reaches, depth
  /// first, looking through operations that follow their operand.
  void collectReaders(Value value, const Names &names,
                      SmallVectorImpl<Reader> &readers,
                      SmallVectorImpl<NamedTensorType> &borders) {
    struct Frame {
      Value value;
      Names names;
      Value::use_iterator next;
    };
    SmallVector<Frame> open;
    open.push_back({value, names, value.use_begin()});
    for (size_t visits = 0; !open.empty() && visits < maxVisits; ++visits) {
      Frame &frame = open.back();
      if (frame.next == frame.value.use_end()) {
        open.pop_back();
        continue;
      }
      OpOperand &use = *frame.next++;
      Operation *user = use.getOwner();
      if (auto einsum = dyn_cast<EinsumOp>(user)) {
        if (einsum.getInputs().size() == 2)
          readers.push_back({einsum, use.getOperandNumber(), frame.names});
        continue;
      }
      if (auto known = required.find(user); known != required.end()) {
        if (frame.names.empty())
          borders.push_back(known->second);
        continue;
      }
      if (!isa<ElementwiseOpInterface, RenameOp, ReshardOp>(user) ||
          readers.size() > maxReaders)
        continue;
      Value followed = user->getResult(0);
      auto type = cast<NamedTensorType>(frame.value.getType());
      if (cast<NamedTensorType>(followed.getType()).getRank() != type.getRank())
        continue;
      Names following = frame.names;
      for (DimAttr dim : type.getDims())
        if (StringAttr name = getResultName(use, dim); name != dim.getName())
          following[dim.getName()] = name;
      open.push_back({followed, std::move(following), followed.use_begin()});
    }
  }

  static int getCost(EinsumOp einsum, ArrayRef<DimAttr> order,
                     ArrayRef<Reader> readers,
                     ArrayRef<NamedTensorType> borders) {
    auto lhs = cast<NamedTensorType>(einsum.getInputs()[0].getType());
    auto rhs = cast<NamedTensorType>(einsum.getInputs()[1].getType());
    NamedTensorType result = einsum.getType();
    auto isOf = [&](DimClass wanted) {
      return [&, wanted](DimAttr dim) {
        return getClass(dim.getName(), lhs, rhs, result) == wanted;
      };
    };
    int cost = 0;
    if (!order.empty() && isOf(DimClass::Batch)(order.back()))
      cost += innermostCost;
    if (endsInAnother(order, lhs.getDims(), isOf(DimClass::M)) ||
        endsInAnother(order, rhs.getDims(), isOf(DimClass::N)))
      cost += innermostCost;
    cost +=
        splitFreeCost *
        std::max(0, countPieces(order, lhs.getDims(), isOf(DimClass::M)) - 1);
    cost +=
        splitFreeCost *
        std::max(0, countPieces(order, rhs.getDims(), isOf(DimClass::N)) - 1);
    for (const Reader &reader : readers)
      cost += getReaderCost(reader, order);
    for (NamedTensorType border : borders)
      if (border.getDims() != order)
        cost += copyCost;
    return cost;
  }

  /// `order` by the names that its dimensions have in `reader`.
  static Order renameDims(const Reader &reader, ArrayRef<DimAttr> order) {
    Order seen;
    for (DimAttr dim : order) {
      auto renamed = reader.names.find(dim.getName());
      seen.push_back(renamed == reader.names.end()
                         ? dim
                         : DimAttr::get(renamed->second, dim.getSize()));
    }
    return seen;
  }

  /// Decides between orders of equal cost, none of which was written: matrices
  /// that are passed transposed. One is the result, if it is contiguous along
  /// m. The others are a reader's operands, if one is contiguous along the
  /// contracted dimensions and the other is not: both are then transposed, or
  /// neither is, which is the rarer case.
  static int countTransposes(EinsumOp einsum, ArrayRef<DimAttr> order,
                             ArrayRef<Reader> readers) {
    if (order.empty())
      return 0;
    auto type = [](Value value) {
      return cast<NamedTensorType>(value.getType());
    };
    int count =
        getClass(order.back().getName(), type(einsum.getInputs()[0]),
                 type(einsum.getInputs()[1]), einsum.getType()) == DimClass::M;
    for (Reader reader : readers) {
      NamedTensorType result = reader.einsum.getType();
      NamedTensorType other =
          type(reader.einsum.getInputs()[1 - reader.operand]);
      auto endsContracted = [&](ArrayRef<DimAttr> dims) {
        return !dims.empty() && !result.hasDim(dims.back().getName());
      };
      count += endsContracted(renameDims(reader, order)) !=
               endsContracted(other.getDims());
    }
    return count;
  }

  static int getReaderCost(Reader reader, ArrayRef<DimAttr> order) {
    const Order seen = renameDims(reader, order);
    auto other = cast<NamedTensorType>(
        reader.einsum.getInputs()[1 - reader.operand].getType());
    NamedTensorType result = reader.einsum.getType();
    auto isContracted = [&](DimAttr dim) {
      return !result.hasDim(dim.getName());
    };
    auto isFree = [&](DimAttr dim) {
      return !isContracted(dim) && !other.hasDim(dim.getName());
    };
    int cost =
        splitContractedCost *
        std::max(0, countPieces(seen, other.getDims(), isContracted) - 1);
    // The reader's own result is chosen later: only adjacency counts.
    Order free;
    llvm::copy_if(seen, std::back_inserter(free), isFree);
    cost += splitFreeCost * std::max(0, countPieces(seen, free, isFree) - 1);
    bool isInnermost =
        !seen.empty() && (isContracted(seen.back()) || isFree(seen.back()));
    return cost + (isInnermost ? 0 : innermostCost);
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
  llvm::MapVector<Operation *, NamedTensorType> required;
  /// Layers that are alike choose alike.
  std::map<Key, Order> chosen;
};

struct ChooseOrders : meshc::impl::ChooseOrdersBase<ChooseOrders> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<ProgramOp>())
      Chooser(program).run();
  }
};

} // namespace
