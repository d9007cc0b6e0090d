#include "frontend/driver/Compiler.h"

#include "codegen/BuildExecutable.h"
#include "codegen/ExecTypes.h"
#include "codegen/cpu/CpuKernelTarget.h"
#include "codegen/gpu/GpuImages.h"
#include "codegen/gpu/GpuKernelTarget.h"
#include "codegen/machine/CompileObject.h"
#include "codegen/machine/Link.h"
#include "frontend/driver/Sharing.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <dlfcn.h>
#include <link.h>

using namespace mlir;
using namespace meshc;
using namespace meshc::driver;

static LogicalResult
runPipeline(ModuleOp module, const CompileOptions &options,
            llvm::function_ref<void(OpPassManager &)> build) {
  PassManager manager(module.getContext());
  manager.enableVerifier(options.verifyEach);
  build(manager);
  return manager.run(module);
}

/// Verifies what `stage` left. The user can do nothing about an error, so it is
/// kept apart from the diagnostics.
static LogicalResult verifyStage(ModuleOp module, StringRef stage,
                                 std::string &internalError) {
  std::string errors;
  ScopedDiagnosticHandler handler(
      module.getContext(), [&](Diagnostic &diagnostic) {
        errors += (errors.empty() ? "" : "; ") + diagnostic.str();
        return success();
      });
  if (succeeded(verify(module)))
    return success();
  internalError = (stage + " left a wrong program: " + errors).str();
  return failure();
}

LogicalResult meshc::driver::compile(ModuleOp module,
                                     const CompileOptions &options, Stage stage,
                                     Compilation &result) {
  std::string machine = options.machine;
  if (machine.empty() && options.target == exec::Target::cuda)
    machine = layout::getAssumedGpu().getName();
  if (!machine.empty())
    for (auto mesh : module.getOps<nd::MeshOp>())
      mesh.setMachine(machine);
  if (stage == Stage::Nd)
    return success();
  Sharing sharing;
  sharing.noteLoops(module);
  if (failed(runPipeline(
          module, options,
          [&](OpPassManager &manager) {
            bool isWanted =
                llvm::is_contained(options.programs, "gradient") ||
                llvm::is_contained(options.programs, "training_gradient");
            buildShardingPipeline(
                manager, {isWanted, options.gradients, options.inputsOf});
          })) ||
      failed(verifyStage(module, "sharding", result.internalError)))
    return failure();
  for (auto program :
       llvm::make_early_inc_range(module.getOps<nd::ProgramOp>()))
    if (!llvm::is_contained(options.programs, program.getSymName()))
      program.erase();
  if (stage == Stage::Sharded)
    return success();

  sharing.measureProducts(module);
  codegen::collectTensors(module, result.executable);
  if (failed(runPipeline(module, options, buildPartitionPipeline)) ||
      failed(verifyStage(module, "partitioning", result.internalError)))
    return failure();
  if (stage == Stage::Spmd)
    return success();

  result.kernels = ModuleOp::create(module.getLoc());
  std::unique_ptr<codegen::KernelTarget> target;
  if (options.target == exec::Target::cuda)
    target = std::make_unique<codegen::GpuKernelTarget>(*result.kernels,
                                                        options.epilogues);
  else
    target = std::make_unique<codegen::CpuKernelTarget>(*result.kernels);
  if (failed(codegen::planSteps(module, *target, options.steps)) ||
      failed(verifyStage(module, "forming steps", result.internalError)))
    return failure();
  if (stage == Stage::Steps)
    return success();
  if (failed(codegen::buildExecutable(module, result.executable, *target)))
    return failure();
  sharing.writeTo(result.executable);
  return success();
}

std::string meshc::driver::getLibraryFolder() {
  // Of the program that this is in, or of the library that it is in.
  auto *here = reinterpret_cast<void *>(&getLibraryFolder);
  Dl_info info;
  link_map *object = nullptr;
  const bool isKnown = dladdr1(here, &info, reinterpret_cast<void **>(&object),
                               RTLD_DL_LINKMAP) != 0;
  llvm::SmallString<128> path;
  if (!isKnown || StringRef(object->l_name).empty() ||
      llvm::sys::fs::real_path(object->l_name, path))
    path = llvm::sys::fs::getMainExecutable(nullptr, here);
  llvm::sys::path::remove_filename(path);
  llvm::sys::path::append(path, "..", "lib");
  llvm::sys::path::remove_dots(path, /*remove_dot_dot=*/true);
  return std::string(path);
}

LogicalResult meshc::driver::link(ModuleOp module,
                                  const CompileOptions &options,
                                  Compilation &compilation, StringRef output) {
  std::optional<codegen::CpuTarget> target =
      codegen::CpuTarget::get(options.cpu);
  if (!target)
    return module.emitError("unknown processor '")
           << options.cpu << "'; expected native, x86-64-v3 or x86-64-v4";
  compilation.executable.cpu = target->cpu;
  compilation.executable.cpu_features = target->features;
  OwningOpRef<ModuleOp> empty;
  ModuleOp kernels = *compilation.kernels;
  if (options.target == exec::Target::cuda) {
    FailureOr<std::vector<exec::GpuImageT>> images = codegen::compileGpuImages(
        *kernels.getOps<gpu::GPUModuleOp>().begin(), options.gpus);
    if (failed(images))
      return failure();
    for (exec::GpuImageT &image : *images)
      compilation.executable.images.push_back(
          std::make_unique<exec::GpuImageT>(std::move(image)));
    // The host has none.
    empty = ModuleOp::create(module.getLoc());
    kernels = *empty;
  }
  FailureOr<std::string> object = codegen::compileCpuObject(
      kernels, *target, codegen::serialize(compilation.executable),
      codegen::findKernelUses(compilation.executable));
  if (failed(object))
    return failure();
  if (llvm::Error error = codegen::linkExecutable(
          *object, options.target, output, getLibraryFolder(), options.main))
    return module.emitError(llvm::toString(std::move(error)));
  return success();
}
