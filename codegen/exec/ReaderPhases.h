#ifndef MESHC_CODEGEN_EXEC_READERPHASES_H
#define MESHC_CODEGEN_EXEC_READERPHASES_H

#include "codegen/exec/Exec.h"
#include "dialect/Locations.h"

namespace meshc::codegen {

/// When the results of the steps of a program are needed: the earliest phase of
/// any that reads them, itself or through others. A kernel of the forward phase
/// may compute along what the backward phase needs, and read for that what an
/// earlier kernel has: that one runs in the forward phase, too.
class ReaderPhases {
public:
  explicit ReaderPhases(steps::ProgramOp program);

  /// Of the phases of the results of `op`, and of what reads them.
  nd::Phase get(mlir::Operation *op) const { return phases.at(op); }

private:
  llvm::DenseMap<mlir::Operation *, nd::Phase> phases;
};

} // namespace meshc::codegen

#endif
