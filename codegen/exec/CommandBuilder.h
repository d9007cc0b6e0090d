#ifndef MESHC_CODEGEN_EXEC_COMMANDBUILDER_H
#define MESHC_CODEGEN_EXEC_COMMANDBUILDER_H

#include "codegen/ExecTypes.h"
#include "codegen/exec/EqualKernels.h"
#include "codegen/exec/ReaderPhases.h"
#include "codegen/exec/SlotPlan.h"
#include "codegen/kernels/KernelTarget.h"

namespace meshc::codegen {

/// Builds the commands of one program, step by step: what the steps themselves
/// (StepOpInterface) write to.
class CommandBuilder {
public:
  CommandBuilder(steps::ProgramOp source, KernelTarget &target,
                 ExecTypes &types, const exec::ExecutableT &executable,
                 EqualKernels &emitted, KernelBodies &bodies, SlotPlan &slots,
                 exec::ProgramT &program)
      : source(source), target(target), types(types), tensors(executable),
        emitted(emitted), bodies(bodies), slots(slots), program(program),
        readers(source) {}

  KernelTarget &getTarget() { return target; }
  ExecTypes &getTypes() { return types; }
  KernelBodies &getBodies() { return bodies; }
  /// Whether two values have one place in memory.
  bool lieTogether(mlir::Value x, mlir::Value y) const {
    return slots.getPlace(x) == slots.getPlace(y);
  }
  /// Bytes of a value as it lies in memory.
  int64_t getStoredBytes(mlir::Value value) const {
    return int64_t(slots.getStoredBytes(value));
  }

  /// Emits the code of all steps of a block, in order, which tells what
  /// workspace they need. Fails with a diagnostic.
  mlir::LogicalResult prepare(llvm::ArrayRef<steps::StepOpInterface> all);
  /// Adds the commands of all steps of a block, in order; memory is planned by
  /// then. Fails with a diagnostic.
  mlir::LogicalResult addSteps(llvm::ArrayRef<steps::StepOpInterface> all);

  //===-- What steps ask for ----------------------------------------------===//

  /// Adds a command called like `loc`, with its phase and span, whose operands
  /// are `operands`. The last `results` of them are written.
  exec::CommandT &addCommand(mlir::Location loc,
                             llvm::ArrayRef<mlir::Value> operands,
                             unsigned results);
  /// Adds the copies of a slice or a stack.
  void addCopies(steps::StepOpInterface step);
  /// Adds the commands of a loop: copies, and the steps of its body, once.
  /// Fails with a diagnostic.
  mlir::LogicalResult addLoop(steps::LoopOp loop);
  /// Adds what `command` computes: the sum over `parts` of the products of
  /// their factors. The bounds leave room for sums over a program. Fails with a
  /// diagnostic.
  mlir::LogicalResult
  addFlops(mlir::Location loc, exec::CommandT &command,
           llvm::ArrayRef<llvm::SmallVector<int64_t>> parts);
  /// The id of the next collective that communicates.
  std::string getNextCollective() {
    return "c" + std::to_string(nextCollective++);
  }

  /// Emits the code of `step`, unless an equal one has been; `isShared` says
  /// which operands, inputs and then outputs, lie where another one does.
  mlir::LogicalResult
  emitKernel(steps::StepOpInterface step,
             llvm::function_ref<mlir::FailureOr<EmittedKernel>(
                 llvm::StringRef name, llvm::ArrayRef<bool> isShared)>
                 emit);
  /// Adds the commands of a step whose code emitKernel has emitted: of `ops`,
  /// and of `others` kernels beside the first.
  mlir::LogicalResult addKernel(steps::StepOpInterface step,
                                llvm::ArrayRef<mlir::linalg::LinalgOp> ops,
                                size_t others);
  /// The same of a step that computes `work` (addFlops), for which errors are
  /// at `loc`; returns the first command.
  mlir::FailureOr<exec::CommandT *>
  addKernel(steps::StepOpInterface step, mlir::Location loc,
            llvm::ArrayRef<llvm::SmallVector<int64_t>> work);

private:
  /// A step's code, if it is a kernel, and its workspace (a slot; -1: none).
  struct StepKernel {
    EmittedKernel code;
    int workspace = -1;
  };

  std::unique_ptr<exec::OperandT> getOperand(mlir::Value value) const;
  void setPlace(exec::OperandT &operand, const SlotPlan::Place &place) const;
  void addMoves(llvm::ArrayRef<SlotPlan::Move> moves);
  void addRemark(exec::CommandT &command, mlir::Value stored,
                 nd::RemarkKind kind) const;
  std::unique_ptr<exec::OperandT> getWorkspace(const StepKernel &kernel) const;
  mlir::LogicalResult addPartSum(steps::StepOpInterface step,
                                 const StepKernel &kernel);

  steps::ProgramOp source;
  KernelTarget &target;
  ExecTypes &types;
  const TensorIndex tensors;
  EqualKernels &emitted; ///< of all programs
  KernelBodies &bodies;
  SlotPlan &slots;
  exec::ProgramT &program;
  const ReaderPhases readers;

  int64_t step = 0;    ///< the time of the one at work
  size_t depth = 0;    ///< of loops around it
  int64_t repeats = 1; ///< their iterations
  llvm::DenseMap<mlir::Operation *, StepKernel> kernels;
  int nextCollective = 1;
  int64_t flops = 0; ///< of all commands so far
};

} // namespace meshc::codegen

#endif
