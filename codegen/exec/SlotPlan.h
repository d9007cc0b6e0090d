#ifndef MESHC_CODEGEN_EXEC_SLOTPLAN_H
#define MESHC_CODEGEN_EXEC_SLOTPLAN_H

#include "codegen/ExecTypes.h"
#include "codegen/exec/KernelBody.h"
#include "codegen/steps/ArenaPlan.h"

#include "runtime/exec/exec_generated.h"

#include "llvm/ADT/StringMap.h"

#include <string>
#include <vector>

namespace meshc::codegen {

/// Gives every value of a program its place in the arena.
///
/// A *slot* is a place that values occupy one after the other: an operation
/// that may overwrite its operand takes over the operand's slot, and the new
/// value of a variable is computed into the variable's own slot where nothing
/// reads the old value any more. Otherwise it is copied there at the end.
///
/// A slice lies where it lies in its whole, and what is stacked is computed
/// where it lies in the stack, if each begins at a multiple of `alignment`;
/// else they are copied. So a slot has values at several places in it.
///
/// In loops a place moves: slices are read, and stacked values computed, where
/// they lie in the whole, if each begins on a cache line; else they are copied.
/// A carried value has one slot, in which the next one is computed if nothing
/// reads it from then on, or copied to at the end of the iteration. What the
/// body has besides, and slots from outside that it reads, are not shared with
/// anything while the loop runs.
///
/// What a transfer sends stays until it is likely through, as far as the memory
/// of the machine goes: no step that would be written over it waits for that.
///
/// Sums over devices that go in one transfer are made in place, in slots that
/// lie one behind the other, so that the transfer is of one piece of memory;
/// those that are stacked, in the stack.
class SlotPlan {
public:
  /// Buffers that are alive in every program: of variables, by symbol, and of
  /// inputs, by name, if programs have them in common.
  struct Lasting {
    llvm::StringMap<int> variables, inputs;
  };

  /// A new value that has to be copied to its variable at the end. One that
  /// lies in another variable, which may change too, is copied to a slot before
  /// that.
  struct Copy {
    mlir::Value value;
    llvm::StringRef variable;
    std::optional<int> through = std::nullopt;
  };

  /// Where a value lies: in a slot, which moves in loops, by `steps` bytes from
  /// one position to the next of each loop around it, the outermost first. No
  /// steps: it lies still. `offset` is in bytes.
  struct Place {
    int slot = -1;
    llvm::SmallVector<int64_t, 2> steps = {};
    int64_t offset = 0;
    bool operator==(const Place &) const = default;
  };
  /// A copy of a value that is needed elsewhere.
  struct Move {
    mlir::Value value;
    Place from, to;
  };
  /// Copies of a loop, before it, and at both ends of each iteration; of a
  /// slice or a stack, all of them `before`.
  struct Moves {
    std::vector<Move> before, first, last;
  };

  /// `alignment`, in bytes, is that of what kernels read and write
  /// (KernelTarget).
  SlotPlan(steps::ProgramOp source, const Lasting &lasting,
           KernelBodies &bodies, int64_t alignment)
      : source(source), lasting(lasting), bodies(bodies), alignment(alignment) {
  }

  /// Gives every value a slot. Fails with a diagnostic.
  void assign();
  /// A slot for what the step at `time` alone needs, a part of `value`.
  int addWorkspace(mlir::Value value, nd::OriginPart part, uint64_t bytes,
                   int64_t time);
  /// Gives every slot a buffer of `executable`, from `arenaStart` on. Returns
  /// the end of the arena.
  uint64_t place(uint64_t arenaStart, ExecTypes &types,
                 exec::ExecutableT &executable);

  int getSlot(mlir::Value value) const { return placeOf.at(value).slot; }
  const Place &getPlace(mlir::Value value) const { return placeOf.at(value); }
  /// Copies of a loop, a slice or a stack.
  const Moves &getMoves(mlir::Operation *step) const {
    return movesOf.at(step);
  }
  /// What `value` lies in if it is a slice, of a slice perhaps; else itself.
  static mlir::Value getWhole(mlir::Value value);
  /// Of each value, whether it has bytes in common with another one of the
  /// list.
  llvm::SmallVector<bool> findShared(llvm::ArrayRef<mlir::Value> values) const;
  /// When a step runs: steps are counted in order, those of a body behind their
  /// loop, whose end counts too.
  int64_t getTime(mlir::Operation *step) const { return times.at(step).begin; }
  int getBuffer(int slot) const { return slots[size_t(slot)].buffer; }
  /// Bytes that a value has in memory.
  uint64_t getStoredBytes(mlir::Value value) const;
  /// Of a value that is one bit for each element in memory.
  std::optional<steps::Mask> findMask(mlir::Value value) const;
  /// Once those are done that go through a slot the order does not matter.
  llvm::ArrayRef<Copy> getCopies() const { return copies; }

private:
  struct Slot {
    int buffer = -1; ///< a variable's buffer; -1: still to be placed
    uint64_t bytes = 0;
    int64_t first = 0, last = 0;
    exec::BufferRole role = exec::BufferRole::activation;
    mlir::Value value; ///< the first that lies there
    /// What of it; nothing: what its location says.
    std::optional<nd::OriginPart> part = std::nullopt;
    bool isReusable = true; ///< whether another value may take it over
    /// The transfer (a step) and the number of the member of it whose operand
    /// lies here; -1: of none.
    int64_t transfer = -1;
    size_t member = 0;
    uint64_t offset = 0; ///< behind the first of the transfer
  };

  /// Of a step; a loop ends behind the last one of its body.
  struct Time {
    int64_t begin = 0, end = 0;
  };

  int64_t getEnd() const { return end; }
  /// Of each slot, when what is sent of it is likely through; -1: nothing is.
  std::vector<int64_t> findLandings();
  void countSteps(mlir::Block &block);
  void setLastUse(mlir::Value value, int64_t time);
  void findUses(mlir::Block &block);
  void assignBorder();
  void findTransfers();
  void assignBlock(mlir::Block &block);
  void assignStep(steps::StepOpInterface step);
  void assignOutput(mlir::OpResult output, llvm::ArrayRef<unsigned> sharing);
  void assignWrites();
  int getVariableSlot(llvm::StringRef variable);
  /// Slot of the variable that result `output` of a step may be computed into.
  std::optional<int> findWritableVariable(mlir::OpResult output,
                                          llvm::ArrayRef<unsigned> sharing);
  std::optional<int> findTakeover(mlir::OpResult output,
                                  llvm::ArrayRef<unsigned> sharing);
  int addSlot(mlir::Value value, int64_t first, exec::BufferRole role);
  /// Gives a value a slot that lies beside others if a transfer takes it from
  /// there.
  void addTransferSlot(mlir::Value value, int64_t first);

  //===-- Slices and stacks (PartPlaces.cpp) ------------------------------===//

  bool needsOwnMemory(mlir::Value value) const;
  mlir::OpOperand *findStacking(mlir::Value value) const;
  mlir::Value getSumInPlace(mlir::Value value);
  void assignSlice(steps::SliceOp slice);
  /// The place in a stack that `output` may be computed into.
  std::optional<Place> findPartPlace(mlir::OpResult output, int64_t time);
  /// The place of a stack whose first part is computed at `time`.
  const Place &assignStack(steps::StackOp stack, int64_t time);
  void addPartMoves(steps::StackOp stack);

  //===-- Loops (LoopSlots.cpp) -------------------------------------------===//

  void findLoopUses(steps::LoopOp loop);
  void assignLoop(steps::LoopOp loop);
  void assignCarried(steps::LoopOp loop, Moves &moves);
  void assignSlices(steps::LoopOp loop, Moves &moves);
  void assignStacked(steps::LoopOp loop);
  void addYieldMoves(steps::LoopOp loop, Moves &moves);
  /// The place in a carried or stacked value that `output`, which the body of a
  /// loop yields, may be computed into.
  std::optional<Place> findYieldPlace(mlir::OpResult output,
                                      llvm::ArrayRef<unsigned> sharing) const;
  /// Where the slices of `whole` lie by iteration of `loop`; nothing if they do
  /// not begin on cache lines.
  std::optional<Place> findSlices(steps::LoopOp loop, mlir::Value whole) const;
  /// The same, wherever they begin.
  Place getSlices(steps::LoopOp loop, mlir::Value whole) const;
  exec::BufferRole getRole(mlir::Value value) const;

  steps::ProgramOp source;
  int64_t end = 0; ///< the time behind all steps
  const Lasting &lasting;
  KernelBodies &bodies;
  int64_t alignment;

  std::vector<Slot> slots;
  llvm::DenseMap<mlir::Value, Place> placeOf;
  llvm::DenseMap<mlir::Operation *, Time> times;
  /// By loop, slice and stack.
  llvm::DenseMap<mlir::Operation *, Moves> movesOf;
  /// Values that lie beside others of a transfer: its step, and which member.
  llvm::DenseMap<mlir::Value, std::pair<int64_t, size_t>> transferOf;
  llvm::StringMap<int> variableSlots;
  llvm::DenseMap<mlir::Value, int64_t> lastUse;
  llvm::StringMap<int64_t> lastVariableRead;
  llvm::DenseMap<mlir::Value, steps::Mask> masks;
  std::vector<Copy> copies;
};

} // namespace meshc::codegen

#endif
