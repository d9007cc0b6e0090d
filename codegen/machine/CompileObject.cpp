// Kernels to an object file.

#include "codegen/machine/CompileObject.h"

#include "codegen/kernels/LowerKernels.h"
#include "codegen/machine/MachineCode.h"
#include "codegen/steps/ArenaPlan.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include "llvm/IR/Constants.h"

#include <set>

using namespace mlir;
using namespace meshc::codegen;

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

std::map<std::string, KernelUse>
meshc::codegen::findKernelUses(const exec::ExecutableT &executable) {
  std::map<std::string, KernelUse> uses;
  for (const auto &program : executable.programs)
    for (const auto &command : program->commands) {
      const exec::KernelT *kernel = command->action.AsKernel();
      if (!kernel)
        continue;
      KernelUse &use = uses[kernel->symbol];
      const bool isFirst = use.operands.empty();
      assert((isFirst || use.extent == kernel->extent) && "two kernels");
      use.extent = kernel->extent;
      assert((isFirst || use.launches.size() == kernel->launches.size()) &&
             "two kernels");
      use.launches.clear();
      for (const auto &launch : kernel->launches)
        use.launches.push_back(launch.get());
      use.operands.resize(command->operands.size(), {0, bufferAlignment});
      for (auto [found, operand] :
           llvm::zip_equal(use.operands, command->operands)) {
        uint64_t elements = 1;
        for (auto [size, stride] :
             llvm::zip_equal(operand->shape, operand->strides))
          elements = size == 0 || elements == 0
                         ? 0
                         : elements + uint64_t((size - 1) * stride);
        const uint64_t bytes =
            elements * uint64_t(runtime::getElementBytes(operand->element));
        assert((isFirst || found.bytes == bytes) && "two kernels");
        found.bytes = bytes;
        const uint64_t place =
            executable.buffers[operand->buffer]->offset + operand->offset;
        found.alignment = llvm::MinAlign(found.alignment, place);
      }
    }
  return uses;
}

/// A constant array of its own.
static llvm::Constant *addArray(llvm::Module &module, llvm::Type *type,
                                ArrayRef<llvm::Constant *> values) {
  auto *array = llvm::ConstantArray::get(
      llvm::ArrayType::get(type, values.size()), values);
  return new llvm::GlobalVariable(module, array->getType(), /*isConstant=*/true,
                                  llvm::GlobalValue::PrivateLinkage, array);
}

/// The four symbols of runtime/exec/KernelTable.h.
static void addTables(llvm::Module &module, ArrayRef<char> program,
                      ArrayRef<std::pair<std::string, std::string>> functionOf,
                      const std::map<std::string, KernelUse> &uses) {
  llvm::LLVMContext &context = module.getContext();
  auto *integer = llvm::Type::getInt64Ty(context);
  auto *half = llvm::Type::getInt32Ty(context);
  auto *pointer = llvm::PointerType::get(context, 0);
  auto *operand = llvm::StructType::get(integer, integer);
  auto *launch = llvm::StructType::get(pointer, integer, half, half);
  auto *entry = llvm::StructType::get(pointer, pointer, integer, integer,
                                      pointer, integer, pointer);
  auto toConstant = [&](uint64_t value) {
    return llvm::ConstantInt::get(integer, value);
  };
  llvm::Constant *null = llvm::ConstantPointerNull::get(pointer);
  SmallVector<llvm::Constant *> entries;
  auto addEntry = [&](StringRef name, llvm::Constant *function,
                      const KernelUse *use) {
    SmallVector<llvm::Constant *> operands, launches;
    for (const meshcOperandUse &found :
         use ? use->operands : std::vector<meshcOperandUse>())
      operands.push_back(llvm::ConstantStruct::get(
          operand, toConstant(found.bytes), toConstant(found.alignment)));
    for (const meshc::exec::LaunchT *found :
         use ? use->launches : std::vector<const meshc::exec::LaunchT *>())
      launches.push_back(llvm::ConstantStruct::get(
          launch, addText(module, found->symbol),
          toConstant(uint64_t(found->grid)),
          llvm::ConstantInt::get(half, uint64_t(found->block)),
          llvm::ConstantInt::get(half, uint64_t(found->shared_bytes))));
    entries.push_back(llvm::ConstantStruct::get(
        entry, addText(module, name), function,
        toConstant(use ? uint64_t(use->extent) : 0),
        toConstant(operands.size()),
        use ? addArray(module, operand, operands) : null,
        toConstant(launches.size()), addArray(module, launch, launches)));
  };
  std::set<StringRef> named;
  for (const auto &[name, function] : functionOf) {
    auto use = uses.find(name);
    addEntry(name, module.getFunction(function),
             use == uses.end() ? nullptr : &use->second);
    named.insert(name);
  }
  for (const auto &[name, use] : uses)
    if (!named.contains(name))
      addEntry(name, null, &use);
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

FailureOr<std::string>
meshc::codegen::compileCpuObject(ModuleOp kernels, const CpuTarget &target,
                                 ArrayRef<char> program,
                                 const std::map<std::string, KernelUse> &uses) {
  std::string features;
  for (const std::string &feature : target.features)
    features += "+" + feature + ",";
  // The base processor plus what is recorded: kernels cannot use more.
  std::unique_ptr<llvm::TargetMachine> machine = createTargetMachine(
      kernels.getLoc(), "x86_64-unknown-linux-gnu", "x86-64", features);
  if (!machine)
    return failure();
  auto functionOf = mergeEqualKernels(kernels);
  if (failed(lowerKernels(kernels)))
    return failure();
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module =
      translateKernels(kernels, context, *machine);
  if (!module)
    return failure();
  for (llvm::Function &function : *module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", machine->getTargetCPU());
    function.addFnAttr("tune-cpu", target.cpu);
    function.addFnAttr("target-features", machine->getTargetFeatureString());
    function.addFnAttr(llvm::Attribute::NoUnwind);
  }
  addTables(*module, program, functionOf, uses);
  return emitMachineCode(kernels.getLoc(), *module, *machine,
                         llvm::CodeGenFileType::ObjectFile);
}
