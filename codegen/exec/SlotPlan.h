#ifndef MESHC_CODEGEN_EXEC_SLOTPLAN_H
#define MESHC_CODEGEN_EXEC_SLOTPLAN_H

#include "codegen/exec/KernelBody.h"
#include "codegen/steps/ArenaPlan.h"

#include "runtime/exec/exec_generated.h"

#include "llvm/ADT/StringMap.h"

#include <string>
#include <vector>

namespace meshc::codegen {

/// What the plan calls the memory of a value.
std::string getBufferName(mlir::Value value);

/// Gives every value of a program its place in the arena.
///
/// A *slot* is a place that values occupy one after the other: an operation
/// that may overwrite its operand takes over the operand's slot, and the new
/// value of a variable is computed into the variable's own slot where nothing
/// reads the old value any more. Otherwise it is copied there at the end.
///
/// Sums over devices that go in one transfer are made in place, in slots that
/// lie one behind the other, so that the transfer is of one piece of memory.
class SlotPlan {
public:
  /// Buffers of variables, by symbol; alive in every program.
  using Variables = llvm::StringMap<int>;

  /// A new value that has to be copied to its variable at the end.
  struct Copy {
    mlir::Value value;
    llvm::StringRef variable;
  };

  SlotPlan(steps::ProgramOp source, const Variables &variables,
           KernelBodies &bodies)
      : source(source), stepList(steps::getSteps(source)), variables(variables),
        bodies(bodies) {}

  /// Gives every value a slot. Fails with a diagnostic.
  mlir::LogicalResult assign();
  /// A slot for what step `step` alone needs.
  int addWorkspace(std::string name, uint64_t bytes, int64_t step);
  /// Gives every slot a buffer of `executable`, from `arenaStart` on. Returns
  /// the end of the arena.
  uint64_t place(uint64_t arenaStart, exec::ExecutableT &executable);

  int getSlot(mlir::Value value) const { return slotOf.at(value); }
  int getBuffer(int slot) const { return slots[size_t(slot)].buffer; }
  /// Bytes that a value has in memory.
  uint64_t getStoredBytes(mlir::Value value) const;
  /// Of a value that is one bit for each element in memory.
  std::optional<steps::Mask> findMask(mlir::Value value) const;
  /// None of them lies in another variable's memory, so their order does not
  /// matter.
  llvm::ArrayRef<Copy> getCopies() const { return copies; }

private:
  struct Slot {
    int buffer = -1; ///< a variable's buffer; -1: still to be placed
    uint64_t bytes = 0;
    int64_t first = 0, last = 0;
    exec::BufferRole role = exec::BufferRole::activation;
    std::string name;
    bool isReusable = true; ///< whether another value may take it over
    /// The transfer (a step) and the number of the member of it whose operand
    /// lies here; -1: of none.
    int64_t transfer = -1;
    size_t member = 0;
    uint64_t offset = 0; ///< behind the first of the transfer
  };

  int64_t getEnd() const { return int64_t(stepList.size()); }
  void assignBorder();
  void findTransfers();
  void assignStep(int64_t index);
  mlir::LogicalResult assignWrites();
  int getVariableSlot(llvm::StringRef variable);
  /// Slot of the variable that result `output` of step `index` may be computed
  /// into.
  std::optional<int> findWritableVariable(mlir::OpResult output,
                                          llvm::ArrayRef<unsigned> sharing,
                                          int64_t index);
  std::optional<int> findTakeover(mlir::OpResult output,
                                  llvm::ArrayRef<unsigned> sharing,
                                  int64_t index);
  int addSlot(mlir::Value value, int64_t first, exec::BufferRole role);

  steps::ProgramOp source;
  std::vector<steps::StepOpInterface> stepList;
  const Variables &variables;
  KernelBodies &bodies;

  std::vector<Slot> slots;
  llvm::DenseMap<mlir::Value, int> slotOf;
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
