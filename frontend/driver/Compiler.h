#ifndef MESHC_FRONTEND_DRIVER_COMPILER_H
#define MESHC_FRONTEND_DRIVER_COMPILER_H

#include "codegen/BuildExecutable.h"
#include "codegen/machine/Link.h"
#include "codegen/steps/MatmulLibrary.h"

#include "mlir/IR/BuiltinOps.h"

#include "runtime/exec/exec_generated.h"

#include <string>
#include <vector>

namespace meshc::driver {

struct CompileOptions {
  exec::Target target = exec::Target::cpu;
  /// cuda: what to compile kernels for; see codegen::checkGpuArchitectures.
  std::vector<std::string> gpus;
  std::string cpu = "native"; ///< native, x86-64-v3 or x86-64-v4
  /// Programs to build, of init, step, eval, gradient, training and
  /// training_gradient; absent ones are skipped.
  std::vector<std::string> programs = {"init", "accumulate", "step", "eval"};
  /// Names whose gradients the program `gradient` gives; none: of every
  /// parameter.
  std::vector<std::string> gradients;
  /// The output that gradients by inputs are of; empty: what is minimized.
  std::string inputsOf;
  /// Verify the module after every pass, not after every stage alone: a third
  /// of the time of the passes, 8 % of a compilation (30 of 380 ms of processor
  /// time, samples/transformer_block.mesh).
  bool verifyEach = false;
  /// Kind of machine by whose prices the program is planned; empty: CPU devices
  /// or, for GPUs, layout::getAssumedGpu().
  std::string machine;
  codegen::StepOptions steps;
  codegen::MainFunction main = codegen::MainFunction::Commands;
  /// cuda: what matrix products end with.
  codegen::MatmulEpilogues epilogues = codegen::MatmulEpilogues::All;
};

/// The folder of the runtime's libraries: ../lib beside the folder of meshc.
std::string getLibraryFolder();

/// How far to go.
enum class Stage : uint8_t {
  Nd,      ///< the module as elaborated
  Sharded, ///< every value has its sharding
  Spmd,    ///< one device's programs
  Steps,   ///< their steps, as the target has them
  Exec,    ///< command lists
};

/// What a module becomes. `executable` is filled at stage Exec.
struct Compilation {
  exec::ExecutableT executable;
  mlir::OwningOpRef<mlir::ModuleOp> kernels;
  /// What is wrong with a module that the compiler itself got wrong.
  std::string internalError;
};

/// Takes `module` to `stage`, in place. Fails with diagnostics, or with
/// `result.internalError` if a stage left IR that does not verify.
mlir::LogicalResult compile(mlir::ModuleOp module,
                            const CompileOptions &options, Stage stage,
                            Compilation &result);

/// Compiles the kernels and links the executable `output`. Fails with a
/// diagnostic at the module.
mlir::LogicalResult link(mlir::ModuleOp module, const CompileOptions &options,
                         Compilation &compilation, llvm::StringRef output);

} // namespace meshc::driver

#endif
