#ifndef MESHC_CODEGEN_PROGRAMBUILDER_H
#define MESHC_CODEGEN_PROGRAMBUILDER_H

#include "codegen/ExecTypes.h"
#include "codegen/kernels/KernelTarget.h"
#include "codegen/steps/ArenaPlan.h"
#include "codegen/steps/Steps.h"

#include "llvm/ADT/DenseMap.h"

#include <array>

namespace meshc::codegen {

/// Turns one spmd program into a command list and gives every value its place
/// in the arena.
///
/// A *slot* is a place that values occupy one after the other: an operation
/// that may overwrite its operand takes over the operand's slot, and the new
/// value of a variable is computed into the variable's own slot where nothing
/// reads the old value any more. Otherwise it is copied there at the end.
///
/// Sums over devices that go in one transfer are made in place, in slots that
/// lie one behind the other, so that the transfer is of one piece of memory.
class ProgramBuilder {
public:
  /// Buffers of variables, by symbol; alive in every program.
  using Variables = llvm::StringMap<int>;

  ProgramBuilder(spmd::ProgramOp source, ExecTypes &types,
                 exec::ExecutableT &executable, const Variables &variables,
                 KernelTarget &target, int64_t bucketBytes)
      : source(source), types(types), executable(executable),
        tensors(executable), variables(variables), target(target),
        bucketBytes(bucketBytes) {}

  /// Adds the program; its buffers start at `arenaStart`. Fails with a
  /// diagnostic.
  mlir::LogicalResult build(uint64_t arenaStart);

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
  struct PendingCopy {
    mlir::Value value;
    llvm::StringRef variable;
  };

  /// A kernel and the slot of its workspace; -1: none.
  struct StepKernel {
    EmittedKernel code;
    int workspace = -1;
  };

  void assignBorderSlots();
  void assignStepSlots(int64_t index);
  int getVariableSlot(llvm::StringRef variable);
  /// Slot of the variable that `value` may be computed into by step `index`.
  std::optional<int> findWritableVariable(mlir::Value value, int64_t index);
  std::optional<int> findTakeover(const Step &step, unsigned output,
                                  int64_t index);
  /// Bytes that a value has in memory.
  uint64_t getStoredBytes(mlir::Value value) const;
  int addSlot(mlir::Value value, int64_t first, exec::BufferRole role);
  /// Finds the operands of transfers whose results take their memory.
  void findTransfers();
  void place(uint64_t arenaStart);

  mlir::LogicalResult emitKernels();
  mlir::LogicalResult emitStep(size_t index);
  /// Sets what `command` computes: the sum over `parts` of the products of
  /// their factors. The bounds leave room for sums over a program.
  mlir::LogicalResult
  setFlops(mlir::Operation *op, exec::CommandT &command,
           llvm::ArrayRef<llvm::SmallVector<int64_t>> parts);
  mlir::LogicalResult addKernel(size_t index);
  std::unique_ptr<exec::OperandT> getWorkspace(const StepKernel &kernel) const;
  mlir::LogicalResult addPartSum(const Step &step, const StepKernel &kernel);
  mlir::LogicalResult emitMatmul(const Step &step);
  exec::CollectiveT getCollective(spmd::CollectiveOpInterface op);
  void emitCollective(const Step &step);
  void emitCopies();
  exec::CommandT &addCommand(mlir::Operation *op,
                             llvm::ArrayRef<mlir::Value> operands,
                             unsigned results);
  std::unique_ptr<exec::OperandT> getOperand(mlir::Value value) const;
  void addWaits();
  void addPorts();

  spmd::ProgramOp source;
  ExecTypes &types;
  exec::ExecutableT &executable;
  TensorIndex tensors;
  const Variables &variables;
  KernelTarget &target;
  const int64_t bucketBytes; ///< see mergeCollectives

  std::unique_ptr<exec::ProgramT> program;
  std::vector<Step> steps;
  std::vector<StepKernel> stepKernels; ///< by step
  std::vector<Slot> slots;
  llvm::DenseMap<mlir::Value, int> slotOf;
  /// Values that lie beside others of a transfer: its step, and which member.
  llvm::DenseMap<mlir::Value, std::pair<int64_t, size_t>> transferOf;
  llvm::StringMap<int> variableSlots;
  llvm::DenseMap<mlir::Value, int64_t> lastUse;
  llvm::StringMap<int64_t> lastVariableRead;
  /// Comparisons that are one bit for each element in memory: rows, and 32-bit
  /// words of a row.
  llvm::DenseMap<mlir::Value, std::array<int64_t, 2>> masks;
  std::vector<PendingCopy> copies;
  int nextCollective = 1;
  int64_t flops = 0; ///< of all commands so far
};

} // namespace meshc::codegen

#endif
