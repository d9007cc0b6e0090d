#ifndef MESHC_CODEGEN_KERNELS_STRUCTUREDOPS_H
#define MESHC_CODEGEN_KERNELS_STRUCTUREDOPS_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

#include <optional>

/// What fusion and emission ask about one tensor operation of an spmd program.
namespace meshc::codegen {

/// `linalg` on tensors, or a splat constant: what kernels are made of.
bool isComputation(mlir::Operation *op);

/// The scalar that fills `tensor`: an element attribute of a constant, or the
/// operand of a fill. Null if `tensor` is no splat.
mlir::OpFoldResult getSplat(mlir::Value tensor);

/// Sizes of the loops of `op`: of the result's dimensions, then the reduced.
llvm::SmallVector<int64_t> getLoopSizes(mlir::Operation *op);
/// The loop of each dimension of the tensor `op` computes.
llvm::SmallVector<unsigned> getResultLoops(mlir::Operation *op);

/// A tensor that the body of an operation reads at an element its loops give.
struct ReadOperand {
  mlir::Value tensor;
  llvm::SmallVector<unsigned> loops; ///< one per dimension of the tensor
};
/// Every read through an indexing map; tensors that the body indexes itself are
/// in getGatheredTensors.
llvm::SmallVector<ReadOperand> getReads(mlir::Operation *op);
/// Tensors read by `tensor.extract` inside the body, each once.
llvm::SmallVector<mlir::Value> getGatheredTensors(mlir::Operation *op);
/// An index of a body as a function of the loops.
struct IndexForm {
  mlir::AffineExpr expr; ///< dimension i is the position along loop i
  bool isChosen = false; ///< at some positions it is a constant instead
};
/// Sums and multiples of positions, and choices of one of them and constants;
/// none for any other index.
std::optional<IndexForm> getIndexForm(mlir::Value index);
/// Whether the body asks for the position along `loop`.
bool usesIndex(mlir::Operation *op, unsigned loop);

/// The reduced loops of `op` that have more than one iteration; empty for an
/// elementwise operation.
llvm::SmallVector<unsigned> getReducedLoops(mlir::Operation *op);
/// The operation in the body of a reduction that combines the accumulator with
/// a term; null if the body has another form.
mlir::Operation *getCombiner(mlir::linalg::GenericOp op);
/// What `combiner` combines with the accumulator.
mlir::Value getTerm(mlir::linalg::GenericOp op, mlir::Operation *combiner);
/// The product of f32 or f64 in the body of a sum of products: it goes into the
/// sum without being rounded. Null if what is summed is no product.
mlir::arith::MulFOp getSummedProduct(mlir::linalg::GenericOp op);

/// Whether the reduction `op` adds up floats, whose sum depends on the order.
bool addsFloats(mlir::Operation *op);

/// What the combiner of `op` makes of two values, scalars or vectors.
mlir::Value createCombination(mlir::OpBuilder &builder, mlir::Location loc,
                              mlir::linalg::GenericOp op, mlir::Value lhs,
                              mlir::Value rhs);

/// Sum of products of two tensors of one element type, nothing else in the body
/// but the widening of factors to the type of the sum.
bool isContraction(mlir::Operation *op);
/// Whether a library call is better than a generated loop: a contraction with
/// f32 sums that uses each element of both operands more than once.
bool isLibraryMatmul(mlir::Operation *op);

/// Whether `op` negates an operand of a fused multiply-add, whose instruction
/// does it.
bool isSignOfFma(mlir::Operation *op);

/// Work of one iteration, in units of one addition; transcendental functions
/// and divisions count `costlyWork` each.
unsigned getWork(mlir::Operation *op);
/// About what an exponential or a division costs per element beside an
/// addition. Source: measured with bench/KernelBench.cpp.
inline constexpr unsigned costlyWork = 8;

/// Whether consumers compute the result again rather than read it from memory:
/// splats, positions, copies along more dimensions than are read, floats that
/// are narrower in memory, and what takes little work on one such tensor and
/// smaller ones: what is kept for the backward phase is then the narrow tensor.
bool isRecomputed(mlir::Operation *op);

/// Fails with a diagnostic at `op` if no kernel can compute it.
llvm::LogicalResult checkComputation(mlir::Operation *op);

} // namespace meshc::codegen

#endif
