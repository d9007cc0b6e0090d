#include "codegen/gpu/GpuImages.h"

#include "codegen/kernels/LowerKernels.h"
#include "codegen/machine/Link.h"
#include "codegen/machine/MachineCode.h"
#include "codegen/machine/OutputFile.h"

#include "mlir/IR/Verifier.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;

static constexpr StringLiteral gpuTriple = "nvptx64-nvidia-cuda";
/// The first architecture that CUDA 13 has, whose cuBLASLt executables load,
/// and one that LLVM knows by a name that it had before. Source: "ptxas --help"
/// of CUDA 13.0, and its release notes: sm_101 is sm_110 now.
static constexpr unsigned firstArchitecture = 75, renamedArchitecture = 101;

/// 90 for "sm_90" and "sm_90a"; 0 for what begins otherwise.
static unsigned getNumber(StringRef architecture) {
  unsigned number = 0;
  if (!architecture.consume_front("sm_") ||
      architecture.take_while(llvm::isDigit).getAsInteger(10, number))
    return 0;
  return number;
}

/// Why `architecture` is none that kernels can be compiled for, or empty.
static std::string checkGpuArchitecture(StringRef architecture) {
  if (architecture == "host")
    return "";
  MLIRContext context;
  std::unique_ptr<llvm::TargetMachine> machine =
      createTargetMachine(UnknownLoc::get(&context), gpuTriple, "", "");
  if (!machine)
    return "this LLVM has no code generator for GPUs";
  std::vector<StringRef> supported;
  for (const llvm::SubtargetSubTypeKV &processor :
       machine->getMCSubtargetInfo()->getAllProcessorDescriptions())
    if (unsigned number = getNumber(processor.Key);
        number >= firstArchitecture && number != renamedArchitecture)
      supported.push_back(processor.Key);
  if (llvm::is_contained(supported, architecture))
    return "";
  llvm::sort(supported, [](StringRef lhs, StringRef rhs) {
    return std::pair(getNumber(lhs), lhs) < std::pair(getNumber(rhs), rhs);
  });
  return (architecture + " is none of " + llvm::join(supported, ", ")).str();
}

std::string meshc::codegen::checkGpuArchitectures(StringRef list) {
  SmallVector<StringRef> architectures;
  list.split(architectures, ',');
  for (auto [index, architecture] : llvm::enumerate(architectures)) {
    if (architecture.empty())
      return ("expected architectures with a comma between, found '" + list +
              "'")
          .str();
    if (std::string problem = checkGpuArchitecture(architecture);
        !problem.empty())
      return problem;
    if (llvm::is_contained(ArrayRef(architectures).take_front(index),
                           architecture))
      return (architecture + " is there twice").str();
  }
  return "";
}

//===-- PTX and machine code ----------------------------------------------===//

std::string meshc::codegen::findAssembler() {
  if (std::optional<std::string> named =
          llvm::sys::Process::GetEnv("MESHC_PTXAS"))
    return *named;
  SmallVector<std::string> folders;
  for (StringRef variable : {"CUDA_HOME", "CUDA_PATH"})
    if (std::optional<std::string> home = llvm::sys::Process::GetEnv(variable))
      folders.push_back(*home + "/bin");
  for (const std::string &folder : folders)
    if (auto path = llvm::sys::findProgramByName("ptxas", {folder}))
      return *path;
  if (auto path = llvm::sys::findProgramByName("ptxas"))
    return *path;
  if (auto path =
          llvm::sys::findProgramByName("ptxas", {"/usr/local/cuda/bin"}))
    return *path;
  return "";
}

/// Whether the GPU rounds f32 to bf16 in one instruction. Source: PTX ISA,
/// "cvt": .bf16 needs sm_80 or later.
static bool convertsToBf16(StringRef architecture) {
  return getNumber(architecture) >= 80;
}

static FailureOr<std::string> emitPtx(gpu::GPUModuleOp lowered,
                                      StringRef architecture) {
  std::unique_ptr<llvm::TargetMachine> machine =
      createTargetMachine(lowered.getLoc(), gpuTriple, architecture, "");
  if (!machine)
    return failure();
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module =
      translateKernels(lowered, context, *machine);
  if (!module)
    return failure();
  return emitMachineCode(lowered.getLoc(), *module, *machine,
                         llvm::CodeGenFileType::AssemblyFile);
}

static std::string readLog(StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  return buffer ? (*buffer)->getBuffer().str() : "";
}

static FailureOr<std::string> assemble(Location loc, StringRef assembler,
                                       StringRef architecture, StringRef ptx) {
  std::vector<TemporaryFile> files;
  for (StringRef suffix : {".ptx", ".cubin", ".log"}) {
    llvm::Expected<TemporaryFile> file = TemporaryFile::create(suffix);
    if (!file)
      return emitError(loc, llvm::toString(file.takeError()));
    files.push_back(std::move(*file));
  }
  StringRef source = files[0].getPath(), target = files[1].getPath(),
            log = files[2].getPath();
  if (llvm::Error error = files[0].write(ptx))
    return emitError(loc, llvm::toString(std::move(error)));
  std::optional<StringRef> redirects[] = {StringRef(""), log, log};
  std::string message;
  int status = llvm::sys::ExecuteAndWait(
      assembler,
      {assembler, "-arch", architecture, "-O3", source, "-o", target},
      std::nullopt, redirects, 0, 0, &message);
  if (status != 0)
    return emitError(loc, "")
           << assembler << " refuses kernels: " << message << readLog(log);
  auto cubin = llvm::MemoryBuffer::getFile(target);
  if (std::error_code unread = cubin.getError())
    return emitError(loc, "cannot read what the assembler wrote: ")
           << unread.message();
  return (*cubin)->getBuffer().str();
}

//===-- Host --------------------------------------------------------------===//

static FailureOr<std::string> emitHostObject(gpu::GPUModuleOp kernels) {
  FailureOr<OwningOpRef<ModuleOp>> lowered = lowerGpuKernelsForHost(kernels);
  if (failed(lowered))
    return failure();
  // The base of what kernels for the CPU may use: emulation need not be fast.
  std::unique_ptr<llvm::TargetMachine> machine = createTargetMachine(
      kernels.getLoc(), "x86_64-unknown-linux-gnu", "x86-64-v3", "");
  if (!machine)
    return failure();
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module =
      translateKernels(**lowered, context, *machine);
  if (!module)
    return failure();
  FailureOr<std::string> object = emitMachineCode(
      kernels.getLoc(), *module, *machine, llvm::CodeGenFileType::ObjectFile);
  if (failed(object))
    return failure();
  llvm::Expected<std::string> shared = linkSharedObject(*object);
  if (!shared)
    return emitError(kernels.getLoc(), llvm::toString(shared.takeError()));
  return *shared;
}

//===-- All ---------------------------------------------------------------===//

static exec::GpuImageT makeImage(StringRef architecture, exec::ImageKind kind,
                                 StringRef data) {
  exec::GpuImageT image;
  image.architecture = architecture.str();
  image.kind = kind;
  image.data.assign(data.bytes_begin(), data.bytes_end());
  return image;
}

FailureOr<std::vector<exec::GpuImageT>>
meshc::codegen::compileGpuImages(gpu::GPUModuleOp kernels,
                                 ArrayRef<std::string> architectures) {
  std::vector<exec::GpuImageT> images;
  if (llvm::is_contained(architectures, "host")) {
    FailureOr<std::string> object = emitHostObject(kernels);
    if (failed(object))
      return failure();
    images.push_back(makeImage("host", exec::ImageKind::host, *object));
  }
  OwningOpRef<gpu::GPUModuleOp> forms[2]; ///< by whether bf16 is converted
  const std::string assembler = findAssembler();
  for (const std::string &architecture : architectures) {
    if (architecture == "host")
      continue;
    const bool hasConversions = convertsToBf16(architecture);
    OwningOpRef<gpu::GPUModuleOp> &lowered = forms[hasConversions];
    if (!lowered) {
      lowered = cast<gpu::GPUModuleOp>(kernels->clone());
      if (failed(lowerGpuKernels(*lowered, hasConversions)))
        return failure();
    }
    FailureOr<std::string> ptx = emitPtx(*lowered, architecture);
    if (failed(ptx))
      return failure();
    if (!assembler.empty()) {
      FailureOr<std::string> cubin =
          assemble(kernels.getLoc(), assembler, architecture, *ptx);
      if (failed(cubin))
        return failure();
      images.push_back(makeImage(architecture, exec::ImageKind::cubin, *cubin));
    }
    images.push_back(makeImage(architecture, exec::ImageKind::ptx, *ptx));
  }
  return images;
}
