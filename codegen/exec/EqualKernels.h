#ifndef MESHC_CODEGEN_EXEC_EQUALKERNELS_H
#define MESHC_CODEGEN_EXEC_EQUALKERNELS_H

#include "codegen/exec/Exec.h"
#include "codegen/kernels/EmittedKernel.h"

#include <unordered_map>

namespace meshc::codegen {

/// Code of kernels, groups and puts, to be found for others that need the same:
/// a model of many layers has one kernel for what they all do.
///
/// Two steps need the same code if their bodies are the same, with the same
/// operations on the same sizes in the same order, or they have none and their
/// attributes and types are the same, and the same operands lie where another
/// one does. Locations do not count: code has none.
class EqualKernels {
public:
  /// The code of a step that was added and is equal to `step`; null if there is
  /// none. `isShared` as for KernelTarget::emitKernel.
  const EmittedKernel *find(steps::StepOpInterface step,
                            llvm::ArrayRef<bool> isShared) const;
  void add(steps::StepOpInterface step, llvm::ArrayRef<bool> isShared,
           const EmittedKernel &code);

private:
  struct Entry {
    steps::StepOpInterface step;
    llvm::SmallVector<bool> isShared;
    EmittedKernel code;
  };
  std::unordered_multimap<size_t, Entry> entries; ///< by hash of the step
};

} // namespace meshc::codegen

#endif
