#ifndef MESHC_CODEGEN_CPU_KERNELBUILDER_H
#define MESHC_CODEGEN_CPU_KERNELBUILDER_H

#include "codegen/cpu/RowParts.h"
#include "codegen/kernels/ElementBuilder.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"

namespace meshc::codegen {

/// Addresses and coordinates as the arrays that the runtime hands over.
class ArrayFrame : public KernelFrame {
public:
  /// `places`: in the array, by number of the operand.
  ArrayFrame(mlir::Location loc, mlir::Value operands, mlir::Value coordinates,
             llvm::ArrayRef<unsigned> places)
      : loc(loc), operands(operands), coordinates(coordinates),
        places(places.begin(), places.end()) {}

  mlir::Value getOperand(mlir::OpBuilder &builder, unsigned index) override {
    return load(builder, operands.getType(), operands, places[index]);
  }
  mlir::Value getCoordinate(mlir::OpBuilder &builder, unsigned axis) override {
    return load(builder, builder.getI64Type(), coordinates, axis);
  }

private:
  mlir::Value load(mlir::OpBuilder &builder, mlir::Type type, mlir::Value array,
                   unsigned index) {
    mlir::Value place = mlir::LLVM::GEPOp::create(
        builder, loc, array.getType(), type, array,
        llvm::ArrayRef<mlir::LLVM::GEPArg>{int32_t(index)});
    return mlir::LLVM::LoadOp::create(builder, loc, type, place, 8);
  }

  mlir::Location loc;
  mlir::Value operands, coordinates;
  llvm::SmallVector<unsigned> places;
};

/// Builds the functions of one kernel: its loops, as Schedule.h describes them.
/// KernelEmitter.cpp has the iterations, the columns and the stages of a row,
/// KernelRows.cpp the rows that are summed.
class KernelBuilder {
public:
  /// `places`: of the operands of `kernel` and the workspace behind them in the
  /// function's array.
  KernelBuilder(const KernelBody &kernel, const RowParts &parts,
                llvm::StringRef name, mlir::ModuleOp kernels,
                llvm::ArrayRef<unsigned> places);

  /// What goes through all rows.
  void emitMain();
  /// What adds up the parts of their sums.
  void emitSum();

private:
  /// A number of columns from one position on, in chunks of equal width. Sizes
  /// are static, so what is left of a row is a narrower vector, not a mask.
  struct Segment {
    int64_t start, lanes, chunks;
  };
  /// Vector accumulators of the reductions of one stage, by segment.
  using Accumulators = llvm::SmallVector<mlir::Value>;
  using ChunkBody = llvm::function_ref<llvm::SmallVector<mlir::Value>(
      mlir::OpBuilder &, int64_t lanes,
      llvm::ArrayRef<mlir::Value> accumulators)>;
  /// The loops over columns: all dimensions but the last, and the chunks of
  /// each segment of that one.
  struct ColumnLoops {
    SumLoops outer;
    llvm::SmallVector<SumLoops> chunks;
  };
  /// What goes through the columns of a row.
  struct ColumnPass {
    ColumnLoops loops;
    size_t perSegment; ///< accumulators
    SumBlocks &sums;
    ChunkBody body;
  };
  /// `lanes` columns of an accumulator, by its place among them; 0: it has
  /// none.
  using AccumulatorBody = llvm::function_ref<void(
      mlir::OpBuilder &, int64_t lanes, size_t accumulator)>;

  llvm::ArrayRef<Cluster::Member> members() const {
    return cluster.getMembers();
  }
  /// An operation that keeps a place in a block until it is erased.
  static mlir::Operation *createAnchor(mlir::OpBuilder &builder,
                                       mlir::Location loc);
  mlir::Value constant(int64_t value) { return elements.getConstant(value); }
  mlir::OpBuilder beginIterations(mlir::Value &iteration);
  void setParallelPositions(mlir::OpBuilder &builder, mlir::Value iteration);
  void emitAccumulators(mlir::OpBuilder builder,
                        llvm::ArrayRef<size_t> accumulators,
                        AccumulatorBody body);
  llvm::SmallVector<size_t> getAllAccumulators() const {
    return llvm::to_vector(llvm::seq<size_t>(0, parts.accumulators.size()));
  }
  void emitInits(mlir::OpBuilder builder);
  mlir::Value getPart(mlir::OpBuilder &builder, size_t accumulator,
                      mlir::Value part);
  mlir::Value addParts(mlir::OpBuilder &builder, int64_t lanes,
                       size_t accumulator);
  SumRange getRowsOfPart(mlir::OpBuilder &builder, mlir::Value part);
  void setRowOfPart(mlir::OpBuilder &builder, mlir::Value row);
  using RowBody = llvm::function_ref<llvm::SmallVector<mlir::Value>(
      mlir::OpBuilder &, std::optional<SumRange> rest,
      llvm::ArrayRef<mlir::Value> carried)>;
  void emitRows(mlir::OpBuilder &builder, mlir::Value part);
  llvm::SmallVector<mlir::Value>
  emitRowLoops(mlir::OpBuilder &builder, llvm::ArrayRef<SumLoop> loops,
               std::optional<SumRange> range,
               llvm::ArrayRef<mlir::Value> carried, SumBlocks &sums,
               RowBody body);
  void emitRowsInside(mlir::OpBuilder &builder, std::optional<SumRange> range);
  void emitRow(mlir::OpBuilder builder);
  void emitStage(mlir::OpBuilder &builder, unsigned stage);
  void emitRowResults(mlir::OpBuilder &builder);
  ColumnLoops getColumnLoops(bool addsFloats) const;
  Accumulators emitColumns(mlir::OpBuilder &builder, const ColumnPass &pass,
                           llvm::ArrayRef<SumLoop> outer,
                           llvm::ArrayRef<mlir::Value> accumulators);
  Accumulators emitLastColumns(mlir::OpBuilder &builder, const ColumnPass &pass,
                               llvm::ArrayRef<mlir::Value> accumulators);
  llvm::SmallVector<mlir::Value>
  emitSegment(mlir::OpBuilder &builder, const ColumnPass &pass, size_t segment,
              llvm::ArrayRef<mlir::Value> accumulators);
  llvm::SmallVector<mlir::Value>
  emitStageChunk(mlir::OpBuilder &builder, unsigned stage, int64_t lanes,
                 llvm::ArrayRef<mlir::Value> accumulators);
  void finishReductions(mlir::OpBuilder &builder, unsigned stage,
                        llvm::ArrayRef<mlir::Value> accumulators);
  mlir::Value getNeutral(mlir::OpBuilder &builder, unsigned member,
                         int64_t lanes);
  mlir::Value combine(mlir::OpBuilder &builder, unsigned member,
                      mlir::Value accumulator, ElementBuilder::Term term);
  mlir::Value combine(mlir::OpBuilder &builder, unsigned member,
                      mlir::Value lhs, mlir::Value rhs) {
    return combine(builder, member, lhs, ElementBuilder::Term{rhs, {}});
  }
  void accumulate(mlir::OpBuilder &builder, unsigned member,
                  ElementBuilder::Term term);
  void setSegments();

  /// Sums across rows in blocks: those of a level are in a row on the stack.
  class RowLevels final : public SumBlocks {
  public:
    RowLevels(KernelBuilder &kernel) : kernel(kernel) {}
    llvm::SmallVector<mlir::Value>
    begin(mlir::OpBuilder &builder, llvm::ArrayRef<mlir::Value> outer) override;
    llvm::SmallVector<mlir::Value>
    end(mlir::OpBuilder &builder, llvm::ArrayRef<mlir::Value> outer,
        llvm::ArrayRef<mlir::Value> own) override;

  private:
    void setMemory(mlir::OpBuilder &builder);
    mlir::Value getTensor(size_t accumulator) const;

    KernelBuilder &kernel;
    int64_t level = 0; ///< of the rows that are summed now; 0: the results
  };

  const KernelBody &kernel;
  const Cluster &cluster;
  const Schedule &schedule;
  const RowParts &parts;
  mlir::Location loc;
  mlir::LLVM::LLVMFuncOp function;
  ArrayFrame frame;
  ElementBuilder elements;
  llvm::SmallVector<Segment> segments;
  mlir::Value blockStart, blockEnd; ///< of the last column dimension, if cut
  mlir::Value workspace;            ///< null with one part
  mlir::Value levels;               ///< the rows of sums on the stack, if any
  RowLevels rowLevels{*this};
};

} // namespace meshc::codegen

#endif
