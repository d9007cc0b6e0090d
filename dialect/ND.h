#ifndef MESHC_DIALECT_ND_H
#define MESHC_DIALECT_ND_H

#include "layout/Access.h"
#include "layout/Mesh.h"
#include "layout/Sharding.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/FloatingPointMode.h"

namespace mlir {
class PatternRewriter; // for the declarations of canonicalisations
}
namespace meshc::layout {
class Machine;
enum class MatmulType : uint8_t;
struct LayoutRule;
} // namespace meshc::layout

#include "dialect/NDDialect.h.inc"

#include "dialect/NDEnums.h.inc"

namespace meshc::nd {
class DimAccess;
}

#define GET_ATTRDEF_CLASSES
#include "dialect/NDAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialect/NDTypes.h.inc"

namespace meshc::nd {

class GradientBuilder;
class PartitionBuilder;

/// Whether elements of this type are for data: ui8, i8, i16. They are moved,
/// compared and converted; nothing computes with them.
bool isForData(mlir::Type elementType);
/// What a device holds of an element type: the signless integer in place of the
/// unsigned one, any other type itself.
mlir::Type getSignless(mlir::Type elementType);

/// What partitioning may do with one loop of an operation.
struct DimUse {
  enum class Kind : uint8_t { Parallel, Reduced, Blocked, Ordered, Whole };
  Kind kind = Kind::Parallel;
  ReduceKind reduce = ReduceKind::Sum; ///< Reduced only

  static DimUse parallel() { return {}; }
  static DimUse reduced(ReduceKind kind) { return {Kind::Reduced, kind}; }
  static DimUse blocked() { return {Kind::Blocked}; }
  static DimUse ordered() { return {Kind::Ordered}; }
  static DimUse whole() { return {Kind::Whole}; }

  bool isReduced() const { return kind == Kind::Reduced; }
  /// Whether devices may each have a part of it.
  bool maySplit() const { return kind == Kind::Parallel || isReduced(); }
};

/// How a dimension of an operand or result follows from the loops of an
/// operation. Almost all dimensions are a loop: that allocates nothing.
///
/// A dimension that *is* a loop has its size, so that blocks of one are blocks
/// of the other. The form that takes the position of a loop of another size, of
/// the first 3 elements of 7, is a form like any other.
class DimAccess {
public:
  /// `form`, in which the loops have their places in `loops`.
  DimAccess(layout::Access form, llvm::ArrayRef<mlir::StringAttr> loops)
      : loops(loops), form(std::move(form)) {}
  /// The loop of this name, whose size the dimension has.
  static DimAccess itself(mlir::StringAttr loop) { return DimAccess(loop); }
  /// By a tensor; `loop` runs over the dimension.
  static DimAccess indexed(mlir::StringAttr loop) {
    return {layout::Access::indexed(0), {loop}};
  }

  layout::Access getForm() const {
    return form ? *form : layout::Access::itself(0);
  }
  /// The loops that occur, by their places in the form.
  llvm::ArrayRef<mlir::StringAttr> getLoops() const { return loops; }

  /// The loop that this access is; null if it is another form.
  mlir::StringAttr getLoop() const;
  /// The loop whose blocks are blocks of the dimension: the one that the access
  /// is, or that runs over a dimension indexed by a tensor. Null if there is
  /// none: then every device may need all of the dimension.
  mlir::StringAttr getSplitLoop() const;

private:
  explicit DimAccess(mlir::StringAttr loop) : loops{loop} {}

  llvm::SmallVector<mlir::StringAttr, 2> loops;
  std::optional<layout::Access> form; ///< none: the one loop itself
};

/// "2 row + dy - 1", for messages.
std::string toString(const DimAccess &access);

/// The window that blocks of `loop`, of null all of them together, read of a
/// dimension with this access, the
/// other loops running over all of their positions. `loops` has every loop of
/// the access. Nothing if that is no window (layout::Access::getWindow).
std::optional<layout::Window> getWindow(const DimAccess &access,
                                        mlir::StringAttr loop,
                                        llvm::ArrayRef<DimAttr> loops);

/// The blocks of a dimension of `size` that is a digit of one loop, or whose
/// digits are loops, with the position in them by the loops' names
/// (layout::findDigitBlocks). `getSplit` says how a loop is split.
struct DigitBlocks {
  layout::DimSplit split;
  DimAccess local;
};
std::optional<DigitBlocks> findDigitBlocks(
    const DimAccess &access, int64_t size, llvm::ArrayRef<DimAttr> loops,
    llvm::function_ref<layout::DimSplit(mlir::StringAttr)> getSplit);

/// What an operation is on one device: a value for each result.
using LocalResults = mlir::FailureOr<llvm::SmallVector<mlir::Value>>;

/// Whether an operand may hold pending terms.
enum class PartialUse : uint8_t {
  Complete, ///< it may not
  Joint,    ///< it may, if every Joint operand does, over the same axes
  Alone,    ///< it may, if no other operand does over these axes
};

/// What an operation needs of the width of floats where a program computes in
/// 16 bits. Values that are f32 in memory anyway (parameters, inputs,
/// constants, positions, converted integers) fit either width.
enum class PrecisionUse : uint8_t {
  Product, ///< 16-bit operands, f32 sums, rounded once to a 16-bit result
  Wide,    ///< f32: small terms add up, or the result varies too fast
  Follow,  ///< f32 if an operand is, or if only f32 operations read the result
  Move,    ///< moves elements: as wide as its operand
  Keep,    ///< no float operand, or it converts: as it is written
};

/// Dimensions of the results, then those of operands that results lack, in the
/// order in which they first occur.
llvm::SmallVector<DimAttr> getUnionOfDims(mlir::Operation *op);

/// Type of an elementwise result: union of the operands' dimensions, element
/// type of the last operand, no sharding.
NamedTensorType getBroadcastType(mlir::ValueRange operands);

/// The key of nd.random for numbers that are called `name`: they depend on what
/// they are called, not on where they stand.
int64_t getRandomKey(llvm::StringRef name);

/// The mesh of the module around `op`; a mesh without axes if it has none.
layout::Mesh getMesh(mlir::Operation *op);
/// The machine that the program of the module around `op` is planned for.
const layout::Machine &getMachine(mlir::Operation *op);
/// As what a library multiplies elements of this type; nothing of integers.
std::optional<layout::MatmulType> findMatmulType(mlir::Type element);

/// `sharding` in the terms of layout/, for the dimensions of `type`. The type
/// must have a sharding whose axes `mesh` has.
layout::Sharding getSharding(NamedTensorType type, const layout::Mesh &mesh);

/// The inverse, on the dimensions of `type`.
ShardingAttr getShardingAttr(NamedTensorType type, const layout::Mesh &mesh,
                             const layout::Sharding &sharding);

/// `ref` in the terms of layout/; `mesh` must have its axis.
layout::AxisRef getAxisRef(AxisRefAttr ref, const layout::Mesh &mesh);
/// `ref` by the name of its axis.
AxisRefAttr getAxisRefAttr(mlir::MLIRContext *context, layout::AxisRef ref,
                           const layout::Mesh &mesh);

/// The type of a value of a program, which is a tensor.
inline NamedTensorType getTensorType(mlir::Value value) {
  return llvm::cast<NamedTensorType>(value.getType());
}

/// `type` without the dimension `dim`, or with it before the others; without
/// sharding.
NamedTensorType withoutDim(NamedTensorType type, llvm::StringRef dim);
NamedTensorType withDimFirst(NamedTensorType type, DimAttr dim);

/// The builtin tensor that one device holds of `type`, its integers signless.
mlir::RankedTensorType getLocalType(NamedTensorType type,
                                    const layout::Mesh &mesh);

/// Checks the broadcasting rules of an elementwise operation: (C1), (C2), and
/// that `typed` share one element type (C3).
llvm::LogicalResult verifyElementwise(mlir::Operation *op,
                                      mlir::ValueRange typed);
/// The local form of an elementwise operation.
LocalResults buildElementwise(mlir::Operation *op, PartitionBuilder &builder,
                              mlir::ValueRange shards);

layout::ReduceKind toLayout(ReduceKind kind);
layout::Window toLayout(WindowAttr window);
ReduceKind fromLayout(layout::ReduceKind kind); // not None

} // namespace meshc::nd

#include "dialect/NDInterfaces.h.inc"

#define GET_OP_CLASSES
#include "dialect/NDOps.h.inc"

namespace meshc::nd {

/// What the running mean of a parameter is called: a variable that is state,
/// starts as the parameter, and is what evaluations read instead of it.
inline constexpr llvm::StringLiteral meanScope = "ema";
std::string getMeanName(llvm::StringRef parameter);
/// The running mean of a parameter; null without one.
VariableOp findMean(mlir::ModuleOp module, llvm::StringRef parameter);

/// "sharding<"a"@x> partial sum over y", for messages.
std::string toString(ShardingAttr sharding);
/// Checks that `type` has a sharding and that its axes are axes of the mesh, or
/// parts of them that go together. An error stands at `op`, behind `label`.
llvm::LogicalResult verifySharding(mlir::Operation *op, NamedTensorType type,
                                   const layout::Mesh &mesh,
                                   llvm::StringRef label = "");
/// Checks that every value of the program has a sharding and that the shardings
/// of each operation's operands and result are what PartitionOpInterface says
/// they may be together. One error per operation.
llvm::LogicalResult verifyShardings(ProgramOp program);

} // namespace meshc::nd

#endif
