#ifndef MESHC_CODEGEN_PROGRAMBUILDER_H
#define MESHC_CODEGEN_PROGRAMBUILDER_H

#include "codegen/ExecTypes.h"
#include "codegen/exec/EqualKernels.h"
#include "codegen/exec/SlotPlan.h"
#include "codegen/kernels/KernelTarget.h"

namespace meshc::codegen {

/// Turns the steps of one program into a command list and gives every value its
/// place in the arena.
class ProgramBuilder {
public:
  ProgramBuilder(steps::ProgramOp source, ExecTypes &types,
                 exec::ExecutableT &executable,
                 const SlotPlan::Lasting &lasting, KernelTarget &target,
                 EqualKernels &emitted)
      : source(source), types(types), executable(executable), lasting(lasting),
        target(target), emitted(emitted), bodies(target.getSumPlace()),
        slots(source, lasting, bodies, target.getOperandAlignment()) {}

  /// Adds the program; its buffers start at `arenaStart`. Fails with a
  /// diagnostic.
  mlir::LogicalResult build(uint64_t arenaStart);

private:
  void addCopies(class CommandBuilder &commands);
  void addPorts();

  steps::ProgramOp source;
  ExecTypes &types;
  exec::ExecutableT &executable;
  const SlotPlan::Lasting &lasting;
  KernelTarget &target;
  EqualKernels &emitted; ///< of all programs
  KernelBodies bodies;
  SlotPlan slots;
  std::unique_ptr<exec::ProgramT> program;
};

} // namespace meshc::codegen

#endif
