#include "ExecutableTesting.h"

#include "frontend/Spec.h"
#include "passes/Passes.h"
#include "runtime/Npy.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <random>
#include <sstream>

using namespace meshc;
using namespace meshc::testing;
using interpreter::F64;

TemporaryFolder::TemporaryFolder() {
  std::string pattern =
      (std::filesystem::temp_directory_path() / "meshc-XXXXXX").string();
  path = mkdtemp(pattern.data());
}

TemporaryFolder::~TemporaryFolder() { std::filesystem::remove_all(path); }

static bool isFloat(nd::NamedTensorType type) {
  return llvm::isa<mlir::FloatType>(type.getElementType());
}

/// Random elements that f32 holds exactly, or integers in [0, bound).
static interpreter::Tensor<F64> makeRandom(nd::NamedTensorType type,
                                           int64_t bound, double scale,
                                           std::mt19937 &random) {
  interpreter::Tensor<F64> tensor(type.getSizes());
  std::normal_distribution<float> normal(0, float(scale));
  for (auto &element : tensor.elements) {
    if (isFloat(type))
      element = double(normal(random));
    else
      element = int64_t(random() % uint64_t(bound));
  }
  return tensor;
}

void Reference::fill(mlir::ModuleOp module, unsigned seed) {
  std::mt19937 random(seed);
  auto program = module.lookupSymbol<nd::ProgramOp>("gradient");
  interpreter::ProgramState<F64> state;
  for (auto input : program.getBody().getOps<nd::InputOp>())
    inputs[input.getName().str()] = state.inputs[input.getName().str()] =
        makeRandom(input.getType(), int64_t(input.getIndexBound()), 1, random);
  // Never the values that parameters start with: a bias of 0 hides a bias that
  // is added too often.
  for (auto variable : module.getOps<nd::VariableOp>())
    parameters[variable.getSymName().str()] =
        state.variables[variable.getSymName().str()] =
            makeRandom(variable.getTensorType(), 0, 0.4, random);
  if (failed(interpreter::runProgram<F64>(program, state)))
    llvm::report_fatal_error("the reference program does not run");
  expected = state.outputs;
}

Reference::Reference(std::string spec, std::vector<std::string> defines,
                     int64_t reductionLength, unsigned seed)
    : spec(std::move(spec)), defines(std::move(defines)),
      reductionLength(reductionLength) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  frontend::SourceSet sources;
  frontend::Diagnostics diagnostics(sources);
  frontend::SpecOptions options;
  options.path = this->spec;
  options.defines = this->defines;
  auto module = frontend::compileSpec(options, context, sources, diagnostics);
  if (!module)
    llvm::report_fatal_error(llvm::StringRef(
        frontend::render(diagnostics, frontend::MessageFormat::Text)));
  auto forward = module->lookupSymbol<nd::ProgramOp>("forward");
  DifferentiateOptions wanted;
  llvm::SmallVector<std::string> names;
  for (auto variable : module->getOps<nd::VariableOp>())
    names.push_back(variable.getSymName().str());
  for (auto input : forward.getBody().getOps<nd::InputOp>())
    if (isFloat(input.getType()))
      names.push_back(input.getName().str());
  wanted.wanted = names;
  mlir::PassManager manager(&context);
  manager.addPass(createDifferentiate(wanted));
  if (failed(manager.run(*module)))
    llvm::report_fatal_error("cannot differentiate the reference program");
  fill(*module, seed);
}

static runtime::HostArray toArray(const interpreter::Tensor<F64> &tensor) {
  runtime::HostArray array;
  array.shape.assign(tensor.sizes.begin(), tensor.sizes.end());
  bool isInteger = !tensor.elements.empty() &&
                   std::holds_alternative<int64_t>(tensor.elements.front());
  array.element = isInteger ? exec::ElementType::i32 : exec::ElementType::f32;
  for (const auto &element : tensor.elements) {
    float number = isInteger ? 0 : float(std::get<double>(element));
    int32_t integer = isInteger ? int32_t(std::get<int64_t>(element)) : 0;
    const void *from = isInteger ? static_cast<const void *>(&integer)
                                 : static_cast<const void *>(&number);
    auto *bytes = static_cast<const std::byte *>(from);
    array.data.insert(array.data.end(), bytes, bytes + 4);
  }
  return array;
}

/// A name as part of a file name.
static std::string getFile(const std::string &folder, std::string name) {
  for (char &character : name)
    if (character == '/' || character == ':')
      character = '_';
  return folder + "/" + name + ".npy";
}

std::string Reference::getCommand(const std::string &folder,
                                  const std::string &mesh,
                                  const std::string &layout) const {
  std::string command =
      fmt::format("MESHC_CACHE_DIR={} {} run {} --eval --mesh '{}' --layout "
                  "'{}'",
                  folder, MESHC_EXECUTABLE, spec, mesh, layout);
  for (const std::string &define : defines)
    command += " -D " + define;
  for (const auto &[name, tensor] : inputs)
    command += fmt::format(" --in '{}={}'", name, getFile(folder, name));
  for (const auto &[name, tensor] : parameters)
    command += fmt::format(" --param '{}={}'", name, getFile(folder, name));
  for (const auto &[name, tensor] : expected) {
    std::string file = getFile(folder, "result_" + name);
    if (llvm::StringRef(name).starts_with("grad:"))
      command += fmt::format(" --grad '{}={}'", name.substr(5), file);
    else
      command += fmt::format(" --out '{}={}'", name, file);
  }
  return command + " > " + folder + "/log 2>&1";
}

static std::string compareTensor(const std::string &name,
                                 const interpreter::Tensor<F64> &expected,
                                 const runtime::HostArray &found,
                                 double relativeBound) {
  if (found.shape.size() != expected.sizes.size() ||
      !std::equal(found.shape.begin(), found.shape.end(),
                  expected.sizes.begin()) ||
      found.element != exec::ElementType::f32)
    return fmt::format("{}: found {}\n", name,
                       runtime::toString(found.element, found.shape));
  auto *values = reinterpret_cast<const float *>(found.data.data());
  double largest = 0, worst = 0;
  for (const auto &element : expected.elements)
    largest = std::max(largest, std::abs(std::get<double>(element)));
  for (size_t i = 0; i < expected.elements.size(); ++i) {
    double error = std::abs(std::get<double>(expected.elements[i]) - values[i]);
    // A NaN compares false: it has to count as the worst.
    worst = error >= 0 ? std::max(worst, error) : HUGE_VAL;
  }
  double bound = relativeBound * largest;
  if (worst <= bound)
    return "";
  return fmt::format("{}: error {:.3g}, allowed {:.3g}, largest {:.3g}\n", name,
                     worst, bound, largest);
}

std::string Reference::compare(const std::string &mesh,
                               const std::string &layout) const {
  TemporaryFolder folder;
  for (const auto *tensors : {&inputs, &parameters})
    for (const auto &[name, tensor] : *tensors)
      if (!runtime::writeNpy(getFile(folder.getPath(), name), toArray(tensor)))
        return "cannot write " + name;
  std::string command = getCommand(folder.getPath(), mesh, layout);
  if (int status = std::system(command.c_str())) {
    std::ifstream log(folder.getPath() + "/log");
    std::stringstream text;
    text << "status " << status << " of " << command << "\n" << log.rdbuf();
    return text.str();
  }
  std::string differences;
  for (const auto &[name, tensor] : expected) {
    auto found = runtime::readNpy(getFile(folder.getPath(), "result_" + name));
    differences += found
                       ? compareTensor(name, tensor, *found,
                                       4.0 * double(reductionLength) * 0x1p-24)
                       : "no result " + name + "\n";
  }
  return differences;
}
