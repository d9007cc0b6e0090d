#include "tests/codegen/KernelCases.h"

#include "codegen/BuildExecutable.h"
#include "codegen/ExecTypes.h"
#include "codegen/gpu/GpuImages.h"
#include "codegen/gpu/GpuKernelTarget.h"
#include "codegen/gpu/MoveKernels.h"
#include "runtime/exec/Executable.h"
#include "tests/codegen/KernelRunner.h"
#include "tests/cuda/kernel_case_generated.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include "gtest/gtest.h"

#include <cstdlib>

using namespace mlir;
using namespace meshc;
using namespace meshc::test;

bool meshc::test::writesKernelCases() {
  return std::getenv("MESHC_KERNEL_CASES") != nullptr;
}

/// Compiles the kernels and adds their images.
static LogicalResult addImages(ModuleOp kernels,
                               exec::ExecutableT &executable) {
  const char *named = std::getenv("MESHC_KERNEL_CASES_GPU");
  const StringRef list = named ? named : "sm_90";
  if (std::string problem = codegen::checkGpuArchitectures(list);
      !problem.empty())
    return kernels.emitError(problem);
  SmallVector<StringRef> parts;
  llvm::SplitString(list, parts, ",");
  std::vector<std::string> architectures(parts.begin(), parts.end());
  auto images = codegen::compileGpuImages(
      *kernels.getOps<gpu::GPUModuleOp>().begin(), architectures);
  if (failed(images))
    return failure();
  for (exec::GpuImageT &image : *images)
    executable.images.push_back(
        std::make_unique<exec::GpuImageT>(std::move(image)));
  return success();
}

/// Writes <name>.case, with other characters than letters, digits and '-' in
/// the name as '_'.
static void write(const KernelCaseT &entry) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(KernelCase::Pack(builder, &entry), KernelCaseIdentifier());
  std::string file = entry.name;
  for (char &c : file)
    if (!llvm::isAlnum(c) && c != '-')
      c = '_';
  const std::string folder = std::getenv("MESHC_KERNEL_CASES");
  std::error_code error = llvm::sys::fs::create_directories(folder);
  ASSERT_FALSE(error) << folder << ": " << error.message();
  llvm::raw_fd_ostream os(folder + "/" + file + ".case", error);
  os.write(reinterpret_cast<const char *>(builder.GetBufferPointer()),
           builder.GetSize());
  os.close();
  EXPECT_FALSE(os.has_error()) << os.error().message();
  os.clear_error();
}

static void setExecutable(KernelCaseT &entry,
                          const exec::ExecutableT &executable) {
  const std::string program = codegen::serialize(executable);
  entry.executable.assign(program.begin(), program.end());
}

/// The kernels that move data between devices, all of them.
static void writeMoveKernels() {
  auto context = makeContext();
  auto module =
      OwningOpRef<ModuleOp>(ModuleOp::create(UnknownLoc::get(context.get())));
  codegen::GpuKernelTarget target(*module);
  auto kernels = *module->getOps<gpu::GPUModuleOp>().begin();
  for (exec::ElementType element : exec::EnumValuesElementType())
    for (exec::ReduceKind kind : exec::EnumValuesReduceKind()) {
      const bool isSum = kind == exec::ReduceKind::sum;
      const bool isOrder =
          kind == exec::ReduceKind::max || kind == exec::ReduceKind::min;
      if ((isSum && element == exec::ElementType::boolean) ||
          (isOrder && runtime::isForData(element)))
        continue;
      for (bool isWide : {false, true})
        codegen::emitMoveKernel(kind, element, isWide, kernels);
    }
  exec::ExecutableT executable;
  ASSERT_TRUE(succeeded(addImages(*module, executable)));
  KernelCaseT entry;
  entry.name = "moves";
  setExecutable(entry, executable);
  write(entry);
}

static std::unique_ptr<CaseInputT> makeInput(const exec::PortT &port,
                                             const F64Tensor &tensor,
                                             RankedTensorType type) {
  auto input = std::make_unique<CaseInputT>();
  input->name = port.name;
  input->buffer = port.buffer;
  input->data.resize(size_t(codegen::getBytes(type)));
  writeBlock(tensor, type, reinterpret_cast<char *>(input->data.data()));
  return input;
}

static std::unique_ptr<CaseOutputT> makeOutput(const exec::PortT &port,
                                               const F64Tensor &tensor) {
  auto output = std::make_unique<CaseOutputT>();
  output->name = port.name;
  output->buffer = port.buffer;
  output->element = int8_t(port.layout->element);
  for (const interpreter::Scalar<interpreter::F64> &value : tensor.elements) {
    if (auto *number = std::get_if<double>(&value))
      output->floats.push_back(*number);
    else if (auto *integer = std::get_if<int64_t>(&value))
      output->integers.push_back(*integer);
    else
      ADD_FAILURE() << port.name << " has no value everywhere";
  }
  return output;
}

/// What cuBLASLt's gradient of gelu may be wrong by, of the largest element: it
/// is 1e-5 of the product for 13.1 on an H200, which approximates tanh, and a
/// sum of columns adds up several.
static constexpr double geluGradientTolerance = 2e-5;

static bool hasGeluGradient(const exec::ProgramT &program) {
  return llvm::any_of(program.commands, [](const auto &command) {
    const exec::MatmulT *matmul = command->action.AsMatmul();
    return matmul && matmul->is_gradient &&
           matmul->activation == exec::Activation::gelu_tanh;
  });
}

void meshc::test::writeKernelCase(const std::string &text,
                                  const F64State &inputs,
                                  const F64State &expected, double tolerance) {
  [[maybe_unused]] static const bool hasMoves = (writeMoveKernels(), true);
  auto context = makeContext();
  auto module = parseFused(*context, text);
  ASSERT_TRUE(module);
  auto source = module->lookupSymbol<spmd::ProgramOp>("p");
  llvm::StringMap<RankedTensorType> types;
  for (auto input : source.getBody().getOps<spmd::InputOp>())
    types[input.getName()] = cast<RankedTensorType>(input.getType());

  static int number = 0;
  const ::testing::TestInfo &test =
      *::testing::UnitTest::GetInstance()->current_test_info();
  KernelCaseT entry;
  entry.name = std::string(test.test_suite_name()) + "." + test.name() + "-" +
               std::to_string(number++);
  entry.tolerance = tolerance;

  auto kernels =
      OwningOpRef<ModuleOp>(ModuleOp::create(UnknownLoc::get(context.get())));
  codegen::GpuKernelTarget target(*kernels);
  exec::ExecutableT executable;
  ScopedDiagnosticHandler handler(context.get(), [&](Diagnostic &diagnostic) {
    ADD_FAILURE() << diagnostic.str() << "\n" << text;
    return success();
  });
  ASSERT_TRUE(
      succeeded(codegen::planSteps(*module, target)) &&
      succeeded(codegen::buildExecutable(*module, executable, target)) &&
      succeeded(addImages(*kernels, executable)));
  exec::ProgramT &program = *executable.programs.front();
  if (hasGeluGradient(program))
    entry.tolerance = std::max(tolerance, geluGradientTolerance);
  for (const auto &port : program.inputs)
    entry.inputs.push_back(
        makeInput(*port, inputs.inputs.at(port->name), types.at(port->name)));
  for (const auto &port : program.outputs)
    entry.outputs.push_back(makeOutput(*port, expected.outputs.at(port->name)));
  program.inputs.clear();
  program.outputs.clear();
  setExecutable(entry, executable);
  write(entry);
}
