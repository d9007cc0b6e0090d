#include "tests/codegen/StepsProgram.h"

#include "codegen/BuildExecutable.h"
#include "codegen/cpu/CpuKernelTarget.h"
#include "codegen/cpu/CpuTarget.h"
#include "codegen/exec/Exec.h"
#include "codegen/machine/CompileObject.h"
#include "tests/dialect/Programs.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include "gtest/gtest.h"

#include <cstring>
#include <dlfcn.h>

using namespace meshc;
using namespace meshc::test;

StepsProgram::StepsProgram(const std::string &steps,
                           const std::string &variables) {
  context = meshc::test::makeContext();
  context->loadDialect<steps::ExecDialect>();
  const std::string text = "#a = affine_map<(a) -> (a)>\n"
                           "nd.mesh [\"d\"=1]\n" +
                           variables + "exec.program @p {\n" + steps + "}\n";
  module = meshc::test::parse(*context, text);
  if (!module)
    llvm::report_fatal_error(llvm::StringRef("does not parse:\n" + text));
  build();
}

StepsProgram::~StepsProgram() {
  if (library)
    dlclose(library);
}

std::map<std::string, Numbers>
StepsProgram::run(const std::map<std::string, Numbers> &inputs) {
  link();
  auto executable = runtime::Executable::load(
      {reinterpret_cast<const uint8_t *>(program.data()), program.size()});
  if (!executable) {
    ADD_FAILURE() << executable.getError().message;
    return {};
  }
  auto executor = runtime::Executor::create(*executable, kernels, 2);
  if (!executor) {
    ADD_FAILURE() << executor.getError().message;
    return {};
  }
  const exec::ProgramT &loaded = *executable->data.programs.front();
  for (const auto &port : loaded.inputs) {
    const Numbers &numbers = inputs.at(port->name);
    std::memcpy((*executor)->getBlock(0, port->buffer), numbers.data(),
                numbers.size() * sizeof(float));
  }
  std::map<std::string, Numbers> outputs;
  // Nothing is left behind that another run would take up.
  for (int repeat = 0; repeat < 2; ++repeat) {
    EXPECT_TRUE((*executor)->run(loaded));
    for (const auto &port : loaded.outputs) {
      Numbers numbers(size_t(runtime::getLocalElements(*port->layout)));
      std::memcpy(numbers.data(), (*executor)->getBlock(0, port->buffer),
                  numbers.size() * sizeof(float));
      if (repeat == 1 && executable->data.variables.empty())
        EXPECT_EQ(outputs[port->name], numbers);
      outputs.insert_or_assign(port->name, numbers);
    }
  }
  return outputs;
}

void StepsProgram::build() {
  mlir::OwningOpRef<mlir::ModuleOp> code =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(context.get()));
  codegen::CpuKernelTarget target(*code);
  if (failed(codegen::buildExecutable(*module, data, target)))
    llvm::report_fatal_error("no executable");
  program = codegen::serialize(data);
  auto compiled =
      codegen::compileCpuObject(*code, *codegen::CpuTarget::get("native"),
                                program, codegen::findKernelUses(data));
  if (failed(compiled))
    llvm::report_fatal_error("no object");
  object = *compiled;
}

void StepsProgram::link() {
  llvm::SmallString<128> path, shared;
  llvm::sys::fs::createTemporaryFile("meshc-loops", "o", path);
  llvm::sys::fs::createTemporaryFile("meshc-loops", "so", shared);
  llvm::FileRemover removeObject(path), removeShared(shared);
  {
    std::error_code error;
    llvm::raw_fd_ostream(path, error) << object;
  }
  auto linker = llvm::sys::findProgramByName("ld.lld-22");
  ASSERT_TRUE(linker && llvm::sys::ExecuteAndWait(
                            *linker, {*linker, "-shared", path, "-o",
                                      llvm::StringRef(shared)}) == 0);
  library = dlopen(shared.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_TRUE(library) << dlerror();
  kernels = {static_cast<const meshcKernelEntry *>(
                 dlsym(library, "meshc_kernel_table")),
             *static_cast<uint64_t *>(dlsym(library, "meshc_kernel_count"))};
}

//===-- Text of programs --------------------------------------------------===//

std::string meshc::test::getType(std::vector<int64_t> shape) {
  std::string type = "tensor<";
  for (int64_t size : shape)
    type += std::to_string(size) + "x";
  return type + "f32>";
}

std::string meshc::test::addInput(const std::string &name,
                                  std::vector<int64_t> shape) {
  std::string dims;
  for (size_t i = 0; i < shape.size(); ++i)
    dims += llvm::formatv("{0}\"{1}\"={2}", i ? ", " : "", "abc"[i], shape[i]);
  return llvm::formatv("%{0} = spmd.input \"{0}\" of !nd.tensor<[{1}], f32, "
                       "<>> : {2}\n",
                       name, dims, getType(shape));
}

std::string meshc::test::addOutput(const std::string &name,
                                   const std::string &value,
                                   std::vector<int64_t> shape) {
  std::string dims;
  for (size_t i = 0; i < shape.size(); ++i)
    dims += llvm::formatv("{0}\"{1}\"={2}", i ? ", " : "", "abc"[i], shape[i]);
  return llvm::formatv("spmd.output \"{0}\" of !nd.tensor<[{1}], f32, <>>, "
                       "%{2} : {3}\n",
                       name, dims, value, getType(shape));
}

std::string meshc::test::addKernel(const std::string &result,
                                   const std::string &x, const std::string &y,
                                   int64_t size, const std::string &formula) {
  const std::string type = getType({size});
  return llvm::formatv(
      "%{0} = exec.kernel(%{1}, %{2}) {{\n"
      "^bb0(%in_p: {3}, %in_q: {3}):\n"
      "  %in_e = tensor.empty() : {3}\n"
      "  %in_r = linalg.generic {{indexing_maps = [#a, #a, #a], iterator_types "
      "= "
      "[\"parallel\"]} ins(%in_p, %in_q : {3}, {3}) outs(%in_e : {3}) {{\n"
      "  ^bb1(%in_u: f32, %in_v: f32, %in_o: f32):\n"
      "    %in_s = {4} %in_u, %in_v : f32\n"
      "    linalg.yield %in_s : f32\n"
      "  } -> {3}\n"
      "  exec.yield %in_r : {3}\n"
      "} : ({3}, {3}) -> {3}\n",
      result, x, y, type, formula);
}

Numbers meshc::test::count(int64_t size, float first) {
  Numbers numbers;
  for (int64_t i = 0; i < size; ++i)
    numbers.push_back(first + float(i % 11));
  return numbers;
}
