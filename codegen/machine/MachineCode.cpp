#include "codegen/machine/MachineCode.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"

#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"

using namespace mlir;
using namespace meshc::codegen;

std::unique_ptr<llvm::TargetMachine>
meshc::codegen::createTargetMachine(Location loc, StringRef tripleName,
                                    StringRef cpu, StringRef features) {
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  llvm::Triple triple(tripleName);
  std::string error;
  const llvm::Target *backend =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!backend) {
    emitError(loc, "LLVM has no code generator for ")
        << tripleName << ": " << error;
    return nullptr;
  }
  llvm::TargetOptions options;
  // What is rounded once is math.fma in the program; LLVM would decide anew in
  // every basic block. For NVIDIA's GPUs it then writes add.rn and mul.rn,
  // which no assembler fuses (PTX ISA 9.0, 9.7.3.5).
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(backend->createTargetMachine(
      triple, cpu, features, options, llvm::Reloc::PIC_, std::nullopt,
      llvm::CodeGenOptLevel::Default));
}

std::unique_ptr<llvm::Module>
meshc::codegen::translateKernels(Operation *kernels, llvm::LLVMContext &context,
                                 llvm::TargetMachine &machine) {
  registerBuiltinDialectTranslation(*kernels->getContext());
  registerGPUDialectTranslation(*kernels->getContext());
  registerLLVMDialectTranslation(*kernels->getContext());
  registerNVVMDialectTranslation(*kernels->getContext());
  std::unique_ptr<llvm::Module> module =
      translateModuleToLLVMIR(kernels, context, "kernels");
  if (!module) {
    emitError(kernels->getLoc(), "kernels do not translate to LLVM IR");
    return nullptr;
  }
  module->setTargetTriple(machine.getTargetTriple());
  module->setDataLayout(machine.createDataLayout());
  return module;
}

/// What kernels need of LLVM's passes: their vectors are explicit, there is
/// nothing to inline, and their loops are already the ones that will run.
/// Source: samples/transformer_block.mesh compiles in 1.5 s so, in 2.1 s with
/// LLVM's O2; its kernels run equally fast but for noise.
static constexpr const char *pipeline =
    "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,"
    "simplifycfg,loop-mssa(loop-rotate,licm),early-cse<memssa>,"
    "instcombine<no-verify-fixpoint>,simplifycfg)";

static LogicalResult optimize(Location loc, llvm::Module &module,
                              llvm::TargetMachine &machine) {
  llvm::PassBuilder builder(&machine);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager cgscc;
  llvm::ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(cgscc);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, cgscc, modules);
  llvm::ModulePassManager passes;
  if (llvm::Error error = builder.parsePassPipeline(passes, pipeline))
    return emitError(loc, "LLVM does not know the passes of kernels: ")
           << llvm::toString(std::move(error));
  passes.run(module, modules);
  return success();
}

FailureOr<std::string>
meshc::codegen::emitMachineCode(Location loc, llvm::Module &module,
                                llvm::TargetMachine &machine,
                                llvm::CodeGenFileType type) {
  if (failed(optimize(loc, module, machine)))
    return failure();
  SmallString<0> code;
  llvm::raw_svector_ostream stream(code);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, type))
    return emitError(loc, "LLVM's code generator for ")
           << machine.getTargetTriple().str() << " does not write this";
  passes.run(module);
  return std::string(code.begin(), code.end());
}
