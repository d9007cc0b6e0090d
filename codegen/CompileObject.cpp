// Kernels to an object file.

#include "codegen/CompileObject.h"

#include "codegen/LowerKernels.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"

#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace meshc::codegen;

static std::unique_ptr<llvm::TargetMachine>
createTargetMachine(Location loc, const CpuTarget &target) {
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  llvm::Triple triple("x86_64-unknown-linux-gnu");
  std::string error;
  const llvm::Target *backend =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!backend) {
    emitError(loc, "LLVM has no x86-64 code generator: ") << error;
    return nullptr;
  }
  std::string features;
  for (const std::string &feature : target.features)
    features += "+" + feature + ",";
  llvm::TargetOptions options;
  // a * b + c is rounded once, as a matmul does.
  options.AllowFPOpFusion = llvm::FPOpFusion::Fast;
  // The base processor plus what is recorded: kernels cannot use more.
  return std::unique_ptr<llvm::TargetMachine>(backend->createTargetMachine(
      triple, "x86-64", features, options, llvm::Reloc::PIC_, std::nullopt,
      llvm::CodeGenOptLevel::Default));
}

//===-- Equal kernels -----------------------------------------------------===//

/// A number that equal bodies share.
static llvm::hash_code hashBody(LLVM::LLVMFuncOp function) {
  llvm::hash_code hash(0);
  function.getBody().walk([&](Operation *op) {
    hash = llvm::hash_combine(hash, op->getName().getAsOpaquePointer(),
                              op->getNumOperands(), op->hashProperties());
  });
  return hash;
}

/// Erases kernels that equal an earlier one (blocks of one model, repeated) and
/// returns the function of each kernel, in order.
static std::vector<std::pair<std::string, std::string>>
mergeEqualKernels(ModuleOp kernels) {
  std::vector<std::pair<std::string, std::string>> functionOf;
  llvm::DenseMap<uint64_t, SmallVector<LLVM::LLVMFuncOp, 1>> known;
  for (auto function :
       llvm::make_early_inc_range(kernels.getOps<LLVM::LLVMFuncOp>())) {
    auto &candidates = known[uint64_t(size_t(hashBody(function)))];
    auto equal = llvm::find_if(candidates, [&](LLVM::LLVMFuncOp other) {
      return OperationEquivalence::isRegionEquivalentTo(
          &function.getBody(), &other.getBody(),
          OperationEquivalence::IgnoreLocations);
    });
    if (equal == candidates.end()) {
      candidates.push_back(function);
      functionOf.emplace_back(function.getName(), function.getName());
      continue;
    }
    functionOf.emplace_back(function.getName(), equal->getName());
    function.erase();
  }
  return functionOf;
}

//===-- Tables ------------------------------------------------------------===//

static llvm::Constant *addText(llvm::Module &module, StringRef text) {
  auto *data = llvm::ConstantDataArray::getString(module.getContext(), text);
  return new llvm::GlobalVariable(module, data->getType(), /*isConstant=*/true,
                                  llvm::GlobalValue::PrivateLinkage, data);
}

static void addGlobal(llvm::Module &module, StringRef name,
                      llvm::Constant *value, unsigned alignment) {
  auto *global =
      new llvm::GlobalVariable(module, value->getType(), /*isConstant=*/true,
                               llvm::GlobalValue::ExternalLinkage, value, name);
  global->setAlignment(llvm::Align(alignment));
}

/// The four symbols of runtime/KernelTable.h.
static void
addTables(llvm::Module &module, ArrayRef<char> program,
          ArrayRef<std::pair<std::string, std::string>> functionOf) {
  llvm::LLVMContext &context = module.getContext();
  auto *integer = llvm::Type::getInt64Ty(context);
  auto *pointer = llvm::PointerType::get(context, 0);
  auto *entry = llvm::StructType::get(pointer, pointer);
  SmallVector<llvm::Constant *> entries;
  for (const auto &[name, function] : functionOf)
    entries.push_back(llvm::ConstantStruct::get(entry, addText(module, name),
                                                module.getFunction(function)));
  addGlobal(module, "meshc_kernel_table",
            llvm::ConstantArray::get(
                llvm::ArrayType::get(entry, entries.size()), entries),
            16);
  addGlobal(module, "meshc_kernel_count",
            llvm::ConstantInt::get(integer, entries.size()), 8);
  auto bytes = llvm::ArrayRef(reinterpret_cast<const uint8_t *>(program.data()),
                              program.size());
  addGlobal(module, "meshc_program_data",
            llvm::ConstantDataArray::get(context, bytes), 16);
  addGlobal(module, "meshc_program_size",
            llvm::ConstantInt::get(integer, program.size()), 8);
}

//===-- Machine code ------------------------------------------------------===//

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

static FailureOr<std::string> emitObject(Location loc, llvm::Module &module,
                                         llvm::TargetMachine &machine) {
  SmallString<0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr,
                                  llvm::CodeGenFileType::ObjectFile))
    return emitError(loc, "LLVM's x86-64 code generator writes no objects");
  passes.run(module);
  return std::string(object.begin(), object.end());
}

FailureOr<std::string>
meshc::codegen::compileCpuObject(ModuleOp kernels, const CpuTarget &target,
                                 ArrayRef<char> program) {
  std::unique_ptr<llvm::TargetMachine> machine =
      createTargetMachine(kernels.getLoc(), target);
  if (!machine)
    return failure();
  auto functionOf = mergeEqualKernels(kernels);
  if (failed(lowerKernels(kernels)))
    return failure();
  registerBuiltinDialectTranslation(*kernels.getContext());
  registerLLVMDialectTranslation(*kernels.getContext());
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module =
      translateModuleToLLVMIR(kernels, context, "kernels");
  if (!module)
    return emitError(kernels.getLoc(), "kernels do not translate to LLVM IR");
  module->setTargetTriple(machine->getTargetTriple());
  module->setDataLayout(machine->createDataLayout());
  for (llvm::Function &function : *module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", machine->getTargetCPU());
    function.addFnAttr("tune-cpu", target.cpu);
    function.addFnAttr("target-features", machine->getTargetFeatureString());
    function.addFnAttr(llvm::Attribute::NoUnwind);
  }
  addTables(*module, program, functionOf);
  if (failed(optimize(kernels.getLoc(), *module, *machine)))
    return failure();
  return emitObject(kernels.getLoc(), *module, *machine);
}
