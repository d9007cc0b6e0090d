#ifndef MESHC_TESTS_FUZZ_DEVICES_H
#define MESHC_TESTS_FUZZ_DEVICES_H

#include "runtime/exec/exec_generated.h"
#include "tests/fuzz/Evaluate.h"

#include "mlir/IR/BuiltinOps.h"

namespace meshc::fuzz {

/// Plans the steps of one device's programs, compiles and links their kernels,
/// and runs @gradient on CPU devices. `executable` has the tensors
/// (collectTensors); outputs come by name, gradients as "grad:NAME". Sets
/// `error` if something fails.
std::map<std::string, Tensor>
runOnDevices(const Tree &tree, mlir::ModuleOp module,
             exec::ExecutableT &executable, const std::vector<Leaf> &leaves,
             const Feeds &feeds, std::string &error);

} // namespace meshc::fuzz

#endif
