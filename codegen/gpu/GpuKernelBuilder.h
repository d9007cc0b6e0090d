#ifndef MESHC_CODEGEN_GPU_GPUKERNELBUILDER_H
#define MESHC_CODEGEN_GPU_GPUKERNELBUILDER_H

#include "codegen/ExecTypes.h"
#include "codegen/exec/KernelBody.h"
#include "codegen/gpu/GpuFunction.h"
#include "codegen/gpu/LaunchShape.h"
#include "codegen/kernels/BlockedSums.h"
#include "codegen/kernels/ElementBuilder.h"
#include "codegen/kernels/EmittedKernel.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace meshc::codegen {

/// Builds the functions of one GPU kernel: GpuKernelEmitter.cpp has the
/// iterations of its threads and the whole, GpuKernelRows.cpp the stages of a
/// row, GpuReductions.cpp what threads reduce together and GpuAccumulators.cpp
/// the sums across rows.
///
/// Threads of a group (LaunchShape.h) take chunks of columns in turn, so that
/// neighbours access neighbouring memory:
///
///   thread        0     1     2     3     0     1     2     3
///   columns     0..3  4..7  8..11 12..15 16..19 ...
///
/// A thread has the same columns in every stage and every row. As long as a row
/// is short enough for its threads' registers, what a stage has loaded or
/// computed is still there in the next one: memory is read once and written
/// once.
class GpuKernelBuilder {
public:
  GpuKernelBuilder(const KernelBody &kernel, llvm::StringRef name,
                   llvm::ArrayRef<bool> isShared,
                   mlir::gpu::GPUModuleOp kernels);

  mlir::LogicalResult build(EmittedKernel &result);

private:
  /// Some consecutive columns of one thread.
  struct Chunk {
    llvm::SmallVector<mlir::Value> positions; ///< by column dimension
    mlir::Value isValid;                      ///< null: always
    std::optional<ElementBuilder::Scope> scope;
  };
  /// What a reduction has so far, by thread: a vector of lanes, or a scalar
  /// where the terms have no columns.
  using Partials = llvm::SmallVector<mlir::Value>;

  llvm::ArrayRef<Cluster::Member> members() const {
    return cluster.getMembers();
  }
  mlir::Value constant(int64_t value) { return elements->getConstant(value); }
  mlir::Type positionType() { return elements->getPositionType(); }
  bool isAccumulator(unsigned member) const {
    return llvm::is_contained(accumulators, member);
  }

  /// Whether a thread adds up in the accumulator's own memory, or that of its
  /// part: it has more columns than registers.
  bool isInMemory(unsigned member) const {
    return !shape.keepsChunks &&
           elements->hasColumns(cluster.getResultDims(members()[member]));
  }

  static mlir::RankedTensorType getResultType(const Cluster::Member &member) {
    return mlir::cast<mlir::RankedTensorType>(
        member.op->getResult(0).getType());
  }

  // Functions, iterations and what else all the others use.
  void createFunction(llvm::StringRef symbol, int64_t threads);
  mlir::Value getId(mlir::OpBuilder &builder, bool isBlock);
  std::pair<mlir::Value, mlir::Value>
  divide(mlir::OpBuilder &builder, mlir::Value value, int64_t divisor);
  mlir::Value add(mlir::OpBuilder &builder, mlir::Value value, int64_t addend);
  mlir::Value both(mlir::OpBuilder &builder, mlir::Value a, mlir::Value b);
  void ifAll(mlir::OpBuilder &builder, mlir::Value condition,
             llvm::function_ref<void(mlir::OpBuilder &)> body);
  void setIteration(mlir::OpBuilder &builder);
  llvm::SmallVector<mlir::Value> getChunkPositions(mlir::OpBuilder &builder,
                                                   mlir::Value number);
  Chunk getChunk(mlir::OpBuilder &builder, mlir::Value number, bool mayEnd);
  void setChunkPositions(const Chunk &chunk);
  void setChunks(mlir::OpBuilder &builder);
  void emitMain();

  // Reductions.
  mlir::Value getNeutral(mlir::OpBuilder &builder, unsigned member,
                         int64_t lanes);
  mlir::Value combine(mlir::OpBuilder &builder, unsigned member,
                      mlir::Value accumulator, ElementBuilder::Term term);
  mlir::Value combine(mlir::OpBuilder &builder, unsigned member,
                      mlir::Value lhs, mlir::Value rhs) {
    return combine(builder, member, lhs, ElementBuilder::Term{rhs, {}});
  }
  CarriedSums getSums(llvm::ArrayRef<mlir::Value> carried,
                      std::function<std::optional<unsigned>(size_t)> getMember);
  mlir::Value reduceLanes(mlir::OpBuilder &builder, unsigned member,
                          mlir::Value value);
  mlir::Value shuffle(mlir::OpBuilder &builder, mlir::Value value,
                      int64_t mask);
  mlir::Value reduceWarp(mlir::OpBuilder &builder, unsigned member,
                         mlir::Value value, int64_t width, int64_t stride = 1);
  mlir::Value getSharedPlace(mlir::OpBuilder &builder, int64_t slot,
                             mlir::Value warp);
  Partials reduceGroup(mlir::OpBuilder &builder,
                       llvm::ArrayRef<unsigned> reductions, Partials values);

  // Rows.
  using PassBody = llvm::function_ref<void(
      mlir::OpBuilder &, llvm::MutableArrayRef<Chunk>, Partials &)>;
  mlir::Value mayStore(mlir::OpBuilder &builder, mlir::Value condition) {
    return both(builder, condition, both(builder, isActive, isRow));
  }
  void addTerms(mlir::OpBuilder &builder, unsigned stage, const Chunk &chunk,
                Partials &partials);
  llvm::SmallVector<mlir::Value> getStored(unsigned stage);
  void store(unsigned stage, llvm::ArrayRef<mlir::Value> values);
  void emitKeptStage(mlir::OpBuilder &builder, unsigned stage,
                     Partials &partials, Partials &accumulators);
  Partials emitPasses(mlir::OpBuilder &builder,
                      llvm::ArrayRef<unsigned> reductions, Partials carried,
                      PassBody body);
  void emitMemoryAccumulators(
      mlir::OpBuilder &builder,
      llvm::function_ref<mlir::Value(mlir::OpBuilder &, unsigned member)>
          getValue);
  void resumeToStore(mlir::OpBuilder &builder, Chunk &chunk,
                     mlir::Value condition, unsigned stage);
  void emitPass(mlir::OpBuilder &builder, unsigned stage,
                llvm::MutableArrayRef<Chunk> pass, Partials &partials);
  void emitStage(mlir::OpBuilder &builder, unsigned stage,
                 Partials &accumulators);
  void accumulate(mlir::OpBuilder &builder, unsigned member, size_t chunk,
                  ElementBuilder::Term term, Partials &accumulated);
  bool overwritesRowInputs() const;
  void emitRowResults(mlir::OpBuilder &builder, Partials &accumulators);
  Partials getNeutralAccumulators(mlir::OpBuilder &builder);
  Partials emitRow(mlir::OpBuilder &builder, Partials accumulators);
  void setRow(mlir::OpBuilder &builder, mlir::Value row, bool mayEnd);
  void emitRows(mlir::OpBuilder &builder, mlir::Value first, bool mayEnd,
                Partials &accumulators);
  void emitTail(mlir::OpBuilder &builder, Partials &accumulators);

  // Accumulators.
  mlir::Value getPart(mlir::OpBuilder &builder, size_t accumulator,
                      mlir::Value split);
  void storeAccumulators(mlir::OpBuilder &builder,
                         llvm::ArrayRef<mlir::Value> accumulators);
  mlir::Value addParts(mlir::OpBuilder &builder, size_t accumulator,
                       mlir::Value first, int64_t step);
  void emitSum(EmittedKernel &result);
  void emitRowSum(EmittedKernel &result);

  const KernelBody &kernel;
  const Cluster &cluster;
  const Schedule &schedule;
  llvm::ArrayRef<bool> isShared;
  mlir::gpu::GPUModuleOp kernels;
  mlir::Location loc;
  std::string name;
  LaunchShape shape;
  unsigned positionBits = 32;

  /// Members that are summed across rows, or across the parts of a row.
  llvm::SmallVector<unsigned> accumulators;
  llvm::SmallVector<int64_t> accumulatorOffsets; ///< in the workspace, bytes
  int64_t workspaceBytes = 0;
  bool hasWorkspace() const { return shape.splits > 1; }

  std::optional<GpuFunction> function;
  std::optional<ElementBuilder> elements;
  mlir::Value thread;      ///< in its group
  mlir::Value split;       ///< null if there is one
  mlir::Value isActive;    ///< whether the group has an iteration; null: always
  mlir::Value isRow;       ///< whether it has the row; null: always
  mlir::Value columnBlock; ///< null if there is one
  llvm::SmallVector<Chunk> chunks;
  int64_t numSlots = 0; ///< of shared memory, one value per warp each
  int64_t getSharedBytes() const {
    return numSlots * (shape.groupThreads / warpThreads) * 8;
  }
};

} // namespace meshc::codegen

#endif
