#ifndef MESHC_CODEGEN_KERNELS_ELEMENTBUILDER_H
#define MESHC_CODEGEN_KERNELS_ELEMENTBUILDER_H

#include "codegen/exec/KernelBody.h"
#include "codegen/kernels/Schedule.h"

#include "mlir/IR/Builders.h"

#include <map>

namespace meshc::codegen {

/// How the code of a kernel reaches what the runtime hands over.
class KernelFrame {
public:
  virtual ~KernelFrame();
  /// Address of the first element of an operand: inputs, then outputs.
  virtual mlir::Value getOperand(mlir::OpBuilder &builder, unsigned index) = 0;
  /// The device's coordinate (i64) on a mesh axis.
  virtual mlir::Value getCoordinate(mlir::OpBuilder &builder,
                                    unsigned axis) = 0;
};

/// What the code of elements depends on the target for.
struct ElementOptions {
  /// Width of positions and of offsets into tensors.
  unsigned positionBits = 64;
  /// Vectors are aligned to as many bytes where positions allow it; 0: to an
  /// element.
  int64_t vectorBytes = 0;
  /// Whether what passes between stages lies in row buffers. If not, it is in
  /// chunks that are left and resumed, or computed again.
  bool hasRowBuffers = true;
  /// Whether a vector of which lanes are masked is loaded in one instruction.
  bool hasMaskedLoads = true;
};

/// Builds the values of a kernel's tensors at one position of its loops.
///
/// Three scopes nest: the kernel's entry, a row, a chunk of consecutive
/// columns. A value that does not depend on the columns is a scalar in the
/// row's scope, before the loop over columns; any other is a vector with one
/// lane per column of the chunk. What has been built in a scope is not built
/// again.
///
/// Memory is dense row-major; booleans take a byte each.
class ElementBuilder {
public:
  ElementBuilder(const KernelBody &kernel, mlir::Location loc,
                 mlir::OpBuilder entry, KernelFrame &frame,
                 ElementOptions options = {});

  mlir::Location getLoc() const { return loc; }
  /// A constant of the type of positions, in the entry.
  mlir::Value getConstant(int64_t value);
  mlir::Type getPositionType() { return entry.getIntegerType(positionBits()); }
  /// A constant of any scalar type, in the entry.
  mlir::Value getConstant(mlir::TypedAttr value);

  /// Sets the position along a dimension.
  void setPosition(unsigned dim, mlir::Value position) {
    positions[dim] = position;
  }
  /// Where the entry's code goes from now on.
  void setEntryPoint(mlir::Operation *before) {
    entry.setInsertionPoint(before);
  }
  /// Begins a row whose code goes to `builder`.
  void beginRow(mlir::OpBuilder builder);
  /// Where the row's scalars go from now on.
  void setRowPoint(mlir::Operation *before) {
    row.builder.setInsertionPoint(before);
  }
  mlir::OpBuilder &getRowBuilder() { return row.builder; }
  /// Begins a chunk of `lanes` columns at the current positions.
  void beginChunk(mlir::OpBuilder builder, int64_t lanes, unsigned stage);
  mlir::OpBuilder &getChunkBuilder() { return chunk.builder; }

  using Key = std::pair<void *, Cluster::Dims>;
  /// What has been built at one place.
  struct Scope {
    mlir::OpBuilder builder;
    std::map<Key, mlir::Value> elements;
    std::map<Key, mlir::Value> pointers;
  };
  /// The chunk as it is, to be resumed where it dominates: on the same
  /// positions, in a later stage.
  Scope leaveChunk() { return std::move(chunk); }
  void resumeChunk(Scope left, mlir::OpBuilder builder, int64_t lanes,
                   unsigned stage);
  /// Columns start at multiples of `grain`, which aligns their vectors.
  void setGrain(int64_t newGrain) { grain = newGrain; }
  /// Memory of `tensor` from now on.
  void setBase(mlir::Value tensor, mlir::Value pointer) {
    bases[tensor] = pointer;
  }
  /// Memory of one row of a tensor, dense over its columns from `firstColumn`
  /// of the last dimension on; null: from 0 on.
  struct RowMemory {
    mlir::Value pointer, firstColumn;
  };
  /// Where the elements of `tensor` are in every row from now on; a null
  /// pointer: in the tensor's own memory again.
  void setRowMemory(mlir::Value tensor, RowMemory memory) {
    rowMemory[tensor] = memory;
  }

  /// Element of `tensor` at `dims`.
  mlir::Value getElement(mlir::Value tensor, llvm::ArrayRef<unsigned> dims);
  /// Gives the chunk an element, a vector of its lanes, that is not to be
  /// loaded or computed.
  void setElement(mlir::Value tensor, llvm::ArrayRef<unsigned> dims,
                  mlir::Value value) {
    chunk.elements[Key(tensor.getAsOpaquePointer(), Cluster::Dims(dims))] =
        value;
  }
  /// What a reduction combines with its accumulator: `value`, or, where
  /// `factor` is not null, their product, which is not rounded before.
  struct Term {
    mlir::Value value, factor;
  };
  Term getTerm(const Cluster::Member &member);
  /// Factors with as many lanes as the chunk has.
  Term broadcast(Term term);
  /// What the reduction `member` makes of its accumulator and `term`.
  mlir::Value combine(mlir::OpBuilder &builder, const Cluster::Member &member,
                      mlir::Value accumulator, Term term);
  /// `term` as one value.
  mlir::Value getValue(mlir::OpBuilder &builder, Term term);
  /// Element of the tensor that `member` reduces into.
  mlir::Value getInit(const Cluster::Member &member);
  /// The row's result of a reduction, for everything after it.
  void setReduced(const Cluster::Member &member, mlir::Value result);

  /// Memory of `tensor` at `dims`.
  mlir::Value load(mlir::Value tensor, llvm::ArrayRef<unsigned> dims);
  void store(mlir::Value value, mlir::Value tensor,
             llvm::ArrayRef<unsigned> dims);
  /// `value` as a vector of the chunk's lanes.
  mlir::Value broadcast(mlir::Value value);

  /// Whether elements at `dims` differ between the columns of a row.
  bool hasColumns(llvm::ArrayRef<unsigned> dims) const;

private:
  using Values = llvm::DenseMap<mlir::Value, mlir::Value>;

  mlir::Value findElement(mlir::Value tensor, llvm::ArrayRef<unsigned> dims);
  std::optional<Cluster::Dims>
  getComputedLoops(mlir::Value tensor, llvm::ArrayRef<unsigned> dims) const;
  std::optional<std::pair<mlir::Value, Cluster::Dims>>
  findMissing(mlir::Value tensor, llvm::ArrayRef<unsigned> dims);
  mlir::Value buildElement(mlir::Value tensor, llvm::ArrayRef<unsigned> dims);
  mlir::Value compute(mlir::Operation *op, llvm::ArrayRef<unsigned> loops,
                      Scope &scope);
  Values computeBody(mlir::linalg::GenericOp op, llvm::ArrayRef<unsigned> loops,
                     Scope &scope, mlir::Operation *end);
  void computeScalar(mlir::Operation &op, llvm::ArrayRef<unsigned> loops,
                     Scope &scope, Values &values);
  mlir::Value getCaptured(mlir::Value value);
  mlir::Value getCoordinate(mlir::Operation *axisIndex);
  mlir::Value getPosition(unsigned dim, Scope &scope);
  void noteSteps(mlir::Operation &op, llvm::ArrayRef<mlir::Value> arguments,
                 mlir::Value built);
  mlir::Value gather(mlir::Value tensor, llvm::ArrayRef<mlir::Value> indices,
                     Scope &scope);
  mlir::Value loadSteps(mlir::Value tensor,
                        llvm::ArrayRef<mlir::Value> indices);
  mlir::Value getScalar(mlir::OpFoldResult splat);

  struct Place {
    mlir::Value pointer;
    int64_t stride = 0; ///< along the lanes, in elements; 0: one scalar
    unsigned alignment; ///< bytes
  };
  unsigned positionBits() const { return options.positionBits; }
  unsigned getVectorAlignment(mlir::Value tensor,
                              llvm::ArrayRef<unsigned> dims) const;
  Place getPlace(mlir::Value tensor, llvm::ArrayRef<unsigned> dims);
  Place getBufferPlace(mlir::Value tensor, int64_t offset);
  Place getRowPlace(mlir::Value tensor, RowMemory memory);
  mlir::Value loadFrom(mlir::OpBuilder &builder, Place place,
                       mlir::Type element);
  void storeTo(mlir::OpBuilder &builder, mlir::Value value, Place place);
  mlir::Value offsetPointer(mlir::OpBuilder &builder, mlir::Value pointer,
                            mlir::Type element, mlir::Value offset);

  const KernelBody &kernel;
  const Cluster &cluster;
  const Schedule &schedule;
  mlir::Location loc;
  mlir::OpBuilder entry;
  KernelFrame &frame;
  ElementOptions options;
  mlir::Value scratch;
  llvm::DenseMap<mlir::Value, mlir::Value> bases;
  llvm::DenseMap<mlir::Value, RowMemory> rowMemory;
  llvm::DenseMap<mlir::Value, mlir::Value> captured;
  llvm::DenseMap<mlir::Attribute, mlir::Value> constants;
  llvm::DenseMap<unsigned, mlir::Value> positions;
  llvm::DenseMap<mlir::Operation *, mlir::Value> reduced;
  /// What is known of an index that differs between the lanes.
  struct Steps {
    mlir::Value first; ///< of lane 0
    int64_t step;      ///< from lane to lane
    /// Lanes that have 0 in place of it do not have their bit; null: all do.
    mlir::Value mask;
  };
  std::optional<Steps> findSteps(mlir::Value value) const;
  mlir::Value compareSteps(mlir::arith::CmpIOp op,
                           llvm::ArrayRef<mlir::Value> arguments);
  /// Constant offsets of the lanes from the first one, of type `position`.
  mlir::Value getLaneOffsets(mlir::OpBuilder &builder, mlir::Type position,
                             int64_t stride);
  llvm::DenseMap<mlir::Value, Steps> steps; ///< of the chunk
  /// No lane is further from lane 0: half of it and twice it are numbers of 32
  /// bits.
  static constexpr int64_t maxLaneDistance = int64_t(1) << 29;
  Scope row, chunk;
  int64_t lanes = 0;
  int64_t grain = 1;
  unsigned stage = 0;
};

} // namespace meshc::codegen

#endif
