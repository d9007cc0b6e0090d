#include "ExecutableTesting.h"

#include "frontend/Spec.h"
#include "passes/Passes.h"
#include "runtime/data/Npy.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <random>
#include <sstream>

using namespace meshc;
using namespace meshc::test;
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

static exec::ElementType getElement(nd::NamedTensorType type) {
  mlir::Type element = type.getElementType();
  if (element.isF32())
    return exec::ElementType::f32;
  if (element.isF64())
    return exec::ElementType::f64;
  if (element.isInteger(32))
    return exec::ElementType::i32;
  if (element.isInteger(64))
    return exec::ElementType::i64;
  if (element.isInteger(1))
    return exec::ElementType::boolean;
  if (element.isUnsignedInteger(8))
    return exec::ElementType::u8;
  if (element.isInteger(8))
    return exec::ElementType::i8;
  if (element.isInteger(16))
    return exec::ElementType::i16;
  llvm::report_fatal_error("a test model has elements of another type");
}

/// Random elements that f32 holds exactly, booleans, or integers: in [0,
/// bound); if `bound` is 0 in [-9, 9], of data all there are.
static interpreter::Tensor<F64> makeRandom(nd::NamedTensorType type,
                                           int64_t bound, double scale,
                                           std::mt19937 &random) {
  interpreter::Tensor<F64> tensor(type.getSizes());
  std::normal_distribution<float> normal(0, float(scale));
  for (auto &element : tensor.elements) {
    if (isFloat(type))
      element = double(normal(random));
    else if (type.getElementType().isInteger(1))
      element = int64_t(random() % 2);
    else if (bound)
      element = int64_t(random() % uint64_t(bound));
    else if (nd::isForData(type.getElementType()))
      element = interpreter::wrapInteger(
          int64_t(random()),
          interpreter::getElementKind(type.getElementType()));
    else
      element = int64_t(random() % 19) - 9;
  }
  return tensor;
}

void Reference::fill(mlir::ModuleOp module, unsigned seed) {
  std::mt19937 random(seed);
  auto program = module.lookupSymbol<nd::ProgramOp>("gradient");
  interpreter::ProgramState<F64> state;
  for (auto input : program.getBody().getOps<nd::InputOp>()) {
    std::string name = input.getName().str();
    state.inputs[name] =
        makeRandom(input.getType(), input.getIndexBound(), 1, random);
    inputs[name] = {state.inputs[name], getElement(input.getType())};
  }
  // The loss scale has to be a power of two.
  for (auto precision : module.getOps<nd::PrecisionOp>())
    state.variables["fp16/loss_scale"] =
        interpreter::Tensor<F64>({}, precision.getScale().convertToDouble());
  // Never the values that parameters start with: a bias of 0 hides a bias that
  // is added too often.
  for (auto variable : module.getOps<nd::VariableOp>()) {
    std::string name = variable.getSymName().str();
    if (variable.getRole() != nd::VariableRole::Parameter)
      continue;
    state.variables[name] =
        makeRandom(variable.getTensorType(), 0, 0.4, random);
    parameters[name] = {state.variables[name],
                        getElement(variable.getTensorType())};
  }
  bool overflows = true;
  while (overflows) {
    if (failed(interpreter::runProgram<F64>(program, state)))
      llvm::report_fatal_error("the reference program does not run");
    auto retry = state.outputs.find("fp16/retry");
    overflows = retry != state.outputs.end() &&
                std::get<int64_t>(retry->second.elements[0]) != 0;
  }
  for (auto output : program.getBody().getOps<nd::OutputOp>()) {
    std::string name = output.getName().str();
    expected[name] = {state.outputs.at(name),
                      getElement(output.getValue().getType())};
  }
}

Reference::Reference(std::string spec, std::vector<std::string> defines,
                     int64_t reductionLength, unsigned seed,
                     Precision precision)
    : spec(std::move(spec)), defines(std::move(defines)),
      reductionLength(reductionLength), precision(std::move(precision)) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  frontend::SourceSet sources;
  frontend::Diagnostics diagnostics(sources);
  frontend::SpecOptions options;
  options.path = this->spec;
  options.defines = this->defines;
  options.precision = this->precision.name;
  auto module = frontend::compileSpec(options, context, sources, diagnostics);
  if (!module)
    llvm::report_fatal_error(llvm::StringRef(
        frontend::render(diagnostics, frontend::MessageFormat::Text)));
  auto forward = module->lookupSymbol<nd::ProgramOp>("forward");
  DifferentiateOptions wanted;
  llvm::SmallVector<std::string> names;
  for (auto variable : module->getOps<nd::VariableOp>())
    if (variable.getRole() == nd::VariableRole::Parameter)
      names.push_back(variable.getSymName().str());
  for (auto input : forward.getBody().getOps<nd::InputOp>())
    if (isFloat(input.getType()))
      names.push_back(input.getName().str());
  wanted.wanted = names;
  mlir::PassManager manager(&context);
  manager.addPass(createUnroll());
  manager.addPass(createLowerPrecision());
  manager.addPass(createDifferentiate(wanted));
  if (failed(manager.run(*module)))
    llvm::report_fatal_error("cannot differentiate the reference program");
  fill(*module, seed);
}

/// Calls `visit` with a null pointer to the type that holds `element` on the
/// host.
template <class Visit>
static auto withHostType(exec::ElementType element, Visit visit) {
  switch (element) {
  case exec::ElementType::f32:
    return visit(static_cast<float *>(nullptr));
  case exec::ElementType::f64:
    return visit(static_cast<double *>(nullptr));
  case exec::ElementType::i32:
    return visit(static_cast<int32_t *>(nullptr));
  case exec::ElementType::i64:
    return visit(static_cast<int64_t *>(nullptr));
  case exec::ElementType::boolean:
  case exec::ElementType::u8:
    return visit(static_cast<uint8_t *>(nullptr));
  case exec::ElementType::i8:
    return visit(static_cast<int8_t *>(nullptr));
  case exec::ElementType::i16:
    return visit(static_cast<int16_t *>(nullptr));
  case exec::ElementType::bf16:
  case exec::ElementType::f16:
    break;
  }
  llvm::report_fatal_error("no test model has floats of 16 bits");
}

static runtime::HostArray toArray(const interpreter::Tensor<F64> &tensor,
                                  exec::ElementType type) {
  runtime::HostArray array;
  array.shape.assign(tensor.sizes.begin(), tensor.sizes.end());
  array.element = type;
  withHostType(type, [&]<class Host>(Host *) {
    for (const auto &element : tensor.elements) {
      Host number;
      if constexpr (std::is_floating_point_v<Host>)
        number = Host(std::get<double>(element));
      else
        number = Host(std::get<int64_t>(element));
      auto *bytes = reinterpret_cast<const std::byte *>(&number);
      array.data.insert(array.data.end(), bytes, bytes + sizeof(Host));
    }
  });
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
                  "'{}' --precision {}",
                  folder, MESHC_EXECUTABLE, spec, mesh, layout, precision.name);
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
  return command;
}

/// Compares floats; `bound` is relative to the largest element.
template <class Host>
static std::string compareFloats(const std::string &name,
                                 const interpreter::Tensor<F64> &expected,
                                 const Host *found, double bound) {
  double largest = 0, worst = 0;
  for (const auto &element : expected.elements)
    largest = std::max(largest, std::abs(std::get<double>(element)));
  for (size_t i = 0; i < expected.elements.size(); ++i) {
    double error =
        std::abs(std::get<double>(expected.elements[i]) - double(found[i]));
    // A NaN compares false: it has to count as the worst.
    worst = error >= 0 ? std::max(worst, error) : HUGE_VAL;
  }
  bound *= largest;
  if (worst <= bound)
    return "";
  return fmt::format("{}: error {:.3g}, allowed {:.3g}, largest {:.3g}\n", name,
                     worst, bound, largest);
}

template <class Host>
static std::string compareIntegers(const std::string &name,
                                   const interpreter::Tensor<F64> &expected,
                                   const Host *found) {
  for (size_t i = 0; i < expected.elements.size(); ++i)
    if (std::get<int64_t>(expected.elements[i]) != int64_t(found[i]))
      return fmt::format("{}: element {} is {}, expected {}\n", name, i,
                         int64_t(found[i]),
                         std::get<int64_t>(expected.elements[i]));
  return "";
}

static std::string compareTensor(const std::string &name,
                                 const interpreter::Tensor<F64> &expected,
                                 exec::ElementType type,
                                 const runtime::HostArray &found,
                                 double roundings, double slack) {
  if (found.shape.size() != expected.sizes.size() ||
      !std::equal(found.shape.begin(), found.shape.end(),
                  expected.sizes.begin()) ||
      found.element != type)
    return fmt::format("{}: found {}\n", name,
                       runtime::toString(found.element, found.shape));
  return withHostType(type, [&]<class Host>(Host *) {
    auto *values = reinterpret_cast<const Host *>(found.data.data());
    if constexpr (std::is_floating_point_v<Host>)
      return compareFloats(
          name, expected, values,
          slack + roundings * double(std::numeric_limits<Host>::epsilon()) / 2);
    else
      return compareIntegers(name, expected, values);
  });
}

std::string Reference::compare(const std::string &mesh,
                               const std::string &layout,
                               const std::string &options) const {
  return compareRun("", mesh, layout, options);
}

/// What a command on emulated GPUs has in front of it.
static std::string getGpuVariables(int devices) {
  return fmt::format("MESHC_CUDA_LIBRARIES={} MESHC_EMULATION_DEVICES={} ",
                     MESHC_EMULATION_FOLDER, devices);
}
static constexpr const char *gpuFlags = " --target cuda --gpu host ";

std::string Reference::compareOnGpus(const std::string &mesh,
                                     const std::string &layout, int devices,
                                     const std::string &options) const {
  return compareRun(getGpuVariables(devices), mesh, layout, gpuFlags + options);
}

std::string Reference::writeInputs(const std::string &folder) const {
  for (const auto *tensors : {&inputs, &parameters})
    for (const auto &[name, tensor] : *tensors)
      if (!runtime::writeNpy(getFile(folder, name),
                             toArray(tensor.values, tensor.element)))
        return "cannot write " + name;
  return "";
}

std::string Reference::runCommand(const std::string &folder,
                                  const std::string &command) {
  const int status =
      std::system((command + " > " + folder + "/log 2>&1").c_str());
  if (status == 0)
    return "";
  std::ifstream log(folder + "/log");
  std::stringstream text;
  text << "status " << status << " of " << command << "\n" << log.rdbuf();
  return text.str();
}

std::string
Reference::compareBits(const std::string &mesh, const std::string &layout,
                       const std::vector<Surroundings> &commands) const {
  TemporaryFolder folder;
  const std::string &path = folder.getPath();
  std::string failure = writeInputs(path);
  std::map<std::string, std::vector<std::byte>> first;
  for (const auto &[variables, flags] : commands) {
    if (failure.empty())
      failure =
          runCommand(path, variables + getCommand(path, mesh, layout) + flags);
    for (const auto &[name, tensor] : expected) {
      if (!failure.empty())
        return failure;
      auto found = runtime::readNpy(getFile(path, "result_" + name));
      if (!found)
        return "no result " + name;
      auto [known, isFirst] = first.try_emplace(name, found->data);
      if (known->second != found->data)
        failure = name + " differs with " + variables + flags;
    }
  }
  return failure;
}

std::string Reference::compareThreads(const std::string &mesh,
                                      const std::string &layout,
                                      const std::vector<int> &threads,
                                      const std::string &options) const {
  std::vector<Surroundings> commands;
  for (int count : threads)
    commands.push_back({"", " --threads " + std::to_string(count) + options});
  return compareBits(mesh, layout, commands);
}

std::string
Reference::compareGpuOrders(const std::string &mesh, const std::string &layout,
                            int devices,
                            const std::vector<std::string> &orders) const {
  std::vector<Surroundings> commands;
  for (const std::string &order : orders)
    commands.push_back(
        {getGpuVariables(devices) + "MESHC_EMULATION_ORDER=" + order + " ",
         gpuFlags});
  return compareBits(mesh, layout, commands);
}

std::string Reference::compareRun(const std::string &variables,
                                  const std::string &mesh,
                                  const std::string &layout,
                                  const std::string &flags) const {
  TemporaryFolder folder;
  std::string failure = writeInputs(folder.getPath());
  if (failure.empty())
    failure = runCommand(
        folder.getPath(),
        variables + getCommand(folder.getPath(), mesh, layout) + flags);
  if (!failure.empty())
    return failure;
  return compareFiles(folder.getPath(), reductionLength, true);
}

std::string Reference::compareFiles(const std::string &folder, int64_t length,
                                    bool hasGradients) const {
  const double unit = precision.name == "bf16" ? 0x1p-8 : 0x1p-11;
  const double slack = double(precision.roundings) * unit;
  std::string differences;
  for (const auto &[name, tensor] : expected) {
    if (!hasGradients && llvm::StringRef(name).starts_with("grad:"))
      continue;
    auto found = runtime::readNpy(getFile(folder, "result_" + name));
    differences += found ? compareTensor(name, tensor.values, tensor.element,
                                         *found, 4.0 * double(length), slack)
                         : "no result " + name + "\n";
  }
  return differences;
}

/// A parameter's file in a folder for --from.
static std::string getParameterFile(const std::string &folder,
                                    std::string name) {
  std::replace(name.begin(), name.end(), '/', '.');
  return folder + "/" + name + ".npy";
}

std::string Reference::comparePrediction(const Prediction &prediction,
                                         const std::string &cache) const {
  TemporaryFolder folder;
  const std::string &path = folder.getPath();
  std::string command = fmt::format(
      "MESHC_CACHE_DIR={} {} run {} --mesh '{}' --layout '{}'", cache,
      MESHC_EXECUTABLE, spec, prediction.mesh, prediction.layout);
  if (prediction.gpus > 0)
    command = fmt::format(
        "MESHC_CUDA_LIBRARIES={} MESHC_EMULATION_DEVICES={} {} --target cuda "
        "--gpu host",
        MESHC_EMULATION_FOLDER, prediction.gpus, command);
  for (const std::string &define : defines)
    if (!llvm::StringRef(define).starts_with(prediction.batchDim + "="))
      command += " -D " + define;
  command += fmt::format(" -D {}={} -- predict {}", prediction.batchDim,
                         prediction.batchSize, prediction.flags);
  for (const auto &[name, tensor] : inputs)
    command += fmt::format(" --in '{}={}'", name, getFile(path, name));
  const std::string from = path + "/from";
  std::filesystem::create_directory(from);
  command += " --from " + from;
  for (const auto &[name, tensor] : parameters)
    if (!runtime::writeNpy(getParameterFile(from, name),
                           toArray(tensor.values, tensor.element)))
      return "cannot write " + name;
  for (const auto &[name, tensor] : expected)
    if (!llvm::StringRef(name).starts_with("grad:"))
      command +=
          fmt::format(" --out '{}={}'", name, getFile(path, "result_" + name));
  std::string failure = writeInputs(path);
  if (failure.empty())
    failure = runCommand(path, command);
  return failure.empty() ? compareFiles(path, 3 * reductionLength, false)
                         : failure;
}
