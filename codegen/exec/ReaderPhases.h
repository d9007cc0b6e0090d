#ifndef MESHC_CODEGEN_EXEC_READERPHASES_H
#define MESHC_CODEGEN_EXEC_READERPHASES_H

#include "codegen/exec/Exec.h"
#include "dialect/Locations.h"

namespace meshc::codegen {

/// When the results of the steps of a program are needed: the earliest phase of
/// any that reads them, itself or through others. A kernel of the forward phase
/// may compute along what the backward phase needs, and read for that what an
/// earlier kernel has: that one runs in the forward phase, too. A loop may
/// compute both phases in turns; which of them a step in it is for is told by
/// what is made of its results alone, in the loop and behind it.
class ReaderPhases {
public:
  explicit ReaderPhases(steps::ProgramOp program);

  /// Of the phases of the results of `op`, and of what reads them.
  nd::Phase get(mlir::Operation *op) const;

private:
  nd::Phase getKnown(mlir::Value value) const;
  nd::Phase getOfReaders(mlir::Value value) const;

  /// Of results and of the arguments of loops.
  llvm::DenseMap<mlir::Value, nd::Phase> phases;
};

} // namespace meshc::codegen

#endif
