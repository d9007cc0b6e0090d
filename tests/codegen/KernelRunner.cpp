#include "tests/codegen/KernelRunner.h"

#include "codegen/ExecTypes.h"
#include "codegen/gpu/GpuImages.h"
#include "codegen/gpu/GpuKernelTarget.h"
#include "codegen/machine/CompileObject.h"
#include "codegen/steps/FormSteps.h"
#include "codegen/steps/GroupKernels.h"
#include "dialect/interpreter/SPMDInterpreter.h"
#include "runtime/exec/KernelTable.h"
#include "tests/codegen/KernelCases.h"
#include "tests/runtime/StoredHalf.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include "gtest/gtest.h"

#include <cfloat>
#include <cmath>
#include <dlfcn.h>
#include <random>
#include <set>

using namespace mlir;
using namespace meshc;
using namespace meshc::test;

bool KernelRunner::parse(const std::string &text,
                         codegen::MatmulLibrary library, bool groups) {
  context = makeContext();
  module = parseFused(*context, text);
  if (!module) {
    ADD_FAILURE() << "does not parse:\n" << text;
    return false;
  }
  source = module->clone();
  FailureOr<steps::ProgramOp> formed =
      codegen::formSteps(module->lookupSymbol<spmd::ProgramOp>("p"), library);
  if (failed(formed) || failed(verify(*module))) {
    ADD_FAILURE() << "no steps for\n" << text;
    return false;
  }
  program = *formed;
  if (groups)
    EXPECT_TRUE(succeeded(codegen::groupKernels(program)));
  EXPECT_TRUE(succeeded(verify(*module)));
  all = steps::getSteps(program);
  kernels.resize(all.size());
  return true;
}

spmd::ProgramOp KernelRunner::getSource() {
  return source->lookupSymbol<spmd::ProgramOp>("p");
}

SmallVector<Value> KernelRunner::getTensors(steps::StepOpInterface step) {
  auto tensors = llvm::to_vector_of<Value>(step->getOperands());
  llvm::append_range(tensors, step->getResults());
  return tensors;
}

FailureOr<codegen::EmittedKernel>
meshc::test::emitStep(steps::StepOpInterface step,
                      codegen::KernelBodies &bodies,
                      codegen::KernelTarget &target, const std::string &name,
                      ArrayRef<bool> isShared) {
  if (auto kernel = dyn_cast<steps::KernelOp>(step.getOperation()))
    return target.emitKernel(bodies.get(kernel), name, isShared);
  if (auto group = dyn_cast<steps::GroupOp>(step.getOperation()))
    return target.emitGroup(codegen::KernelGroup::get(group, bodies), name,
                            isShared);
  if (auto put = dyn_cast<steps::PutOp>(step.getOperation()))
    return target.emitPut(put, name, isShared);
  return codegen::EmittedKernel();
}

FailureOr<codegen::EmittedKernel>
meshc::test::emitStep(steps::StepOpInterface step,
                      codegen::KernelTarget &target, const std::string &name,
                      bool areShared) {
  codegen::KernelBodies bodies(target.getSumPlace());
  const size_t count = step->getNumOperands() + step->getNumResults();
  return emitStep(step, bodies, target, name,
                  SmallVector<bool>(count, areShared));
}

std::unique_ptr<KernelRunner>
KernelRunner::create(const std::string &text, llvm::StringRef cpu,
                     const codegen::PartLimits &limits) {
  std::unique_ptr<KernelRunner> runner(
      new KernelRunner(codegen::SumPlace::Memory));
  if (!runner->parse(text, codegen::MatmulLibrary::OneDnn, /*groups=*/false))
    return nullptr;
  OwningOpRef<ModuleOp> kernels =
      ModuleOp::create(UnknownLoc::get(runner->context.get()));
  for (auto [index, step] : llvm::enumerate(runner->all)) {
    auto op = dyn_cast<steps::KernelOp>(step.getOperation());
    if (!op)
      continue;
    auto kernel = codegen::emitCpuKernel(runner->bodies.get(op),
                                         "kernel_" + std::to_string(index),
                                         *kernels, limits);
    if (failed(kernel) || failed(verify(*kernels))) {
      ADD_FAILURE() << "no kernel for step " << index << " of\n" << text;
      return nullptr;
    }
    runner->kernels[index] = std::move(*kernel);
  }
  FailureOr<std::string> object = codegen::compileCpuObject(
      *kernels, *codegen::CpuTarget::get(cpu), {'p', 'q', 'r'}, {});
  if (failed(object)) {
    ADD_FAILURE() << "kernels do not compile\n" << text;
    return nullptr;
  }
  runner->object = *object;
  return runner->link() ? std::move(runner) : nullptr;
}

/// Whether each operand of a step may lie where another one does.
static SmallVector<bool> findShared(steps::StepOpInterface step,
                                    const steps::Sharing &sharing) {
  const unsigned numInputs = step->getNumOperands();
  SmallVector<bool> isShared(numInputs + step->getNumResults(), false);
  for (auto [output, inputs] : llvm::enumerate(sharing))
    for (unsigned input : inputs)
      isShared[input] = isShared[numInputs + output] = true;
  return isShared;
}

std::unique_ptr<KernelRunner> KernelRunner::createGpu(const std::string &text) {
  std::unique_ptr<KernelRunner> runner(
      new KernelRunner(codegen::SumPlace::Registers));
  if (!runner->parse(text, codegen::MatmulLibrary::CublasLt, /*groups=*/true))
    return nullptr;
  OwningOpRef<ModuleOp> kernels =
      ModuleOp::create(UnknownLoc::get(runner->context.get()));
  codegen::GpuKernelTarget target(*kernels);
  for (auto [index, step] : llvm::enumerate(runner->all)) {
    auto kernel = emitStep(step, runner->bodies, target,
                           "kernel_" + std::to_string(index),
                           findShared(step, runner->getSharing(step)));
    if (failed(kernel) || failed(verify(*kernels))) {
      ADD_FAILURE() << "no GPU kernel for step " << index << " of\n" << text;
      return nullptr;
    }
    runner->kernels[index] = *kernel;
  }
  auto images = codegen::compileGpuImages(
      *kernels->getOps<gpu::GPUModuleOp>().begin(), {"host"});
  if (failed(images)) {
    ADD_FAILURE() << "GPU kernels do not compile\n" << text;
    return nullptr;
  }
  const std::vector<uint8_t> &data = images->front().data;
  std::string error;
  runner->image = emulation::HostImage::load(
      {reinterpret_cast<const char *>(data.data()), data.size()}, error);
  if (!runner->image) {
    ADD_FAILURE() << error;
    return nullptr;
  }
  return runner;
}

KernelRunner::~KernelRunner() {
  if (library)
    dlclose(library);
}

bool KernelRunner::link() {
  SmallString<128> path, shared;
  llvm::sys::fs::createTemporaryFile("meshc-kernels", "o", path);
  llvm::sys::fs::createTemporaryFile("meshc-kernels", "so", shared);
  llvm::FileRemover removeObject(path), removeShared(shared);
  {
    std::error_code error;
    llvm::raw_fd_ostream(path, error) << object;
  }
  llvm::ErrorOr<std::string> linker = llvm::sys::findProgramByName("ld.lld-22");
  if (!linker ||
      llvm::sys::ExecuteAndWait(
          *linker, {*linker, "-shared", path, "-o", StringRef(shared)}) != 0) {
    ADD_FAILURE() << "ld.lld-22 fails";
    return false;
  }
  library = dlopen(shared.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    ADD_FAILURE() << dlerror();
    return false;
  }
  auto *table =
      static_cast<meshcKernelEntry *>(dlsym(library, "meshc_kernel_table"));
  uint64_t count =
      *static_cast<uint64_t *>(dlsym(library, "meshc_kernel_count"));
  for (uint64_t entry = 0; entry < count; ++entry)
    functions[table[entry].name] = table[entry].function;
  auto *size = static_cast<uint64_t *>(dlsym(library, "meshc_program_size"));
  auto *data = static_cast<char *>(dlsym(library, "meshc_program_data"));
  EXPECT_EQ(std::string(data, *size), "pqr");
  return true;
}

unsigned KernelRunner::countKernels() const {
  return unsigned(llvm::count_if(all, [](steps::StepOpInterface step) {
    return isa<steps::KernelOp, steps::GroupOp>(step.getOperation());
  }));
}

size_t KernelRunner::countFunctions() const {
  std::set<Function> different;
  for (const auto &[name, function] : functions)
    different.insert(function);
  return different.size();
}

bool KernelRunner::hasParts() const {
  return llvm::any_of(kernels, [](const codegen::EmittedKernel &kernel) {
    return kernel.sum.has_value();
  });
}

//===-- Memory ------------------------------------------------------------===//

/// What lies around every tensor, and in it before it is written.
static constexpr char filling = 0x5a;
static constexpr size_t guardBytes = 64;

static KernelRunner::Block makeBlock(size_t size) {
  KernelRunner::Block block;
  block.size = size;
  const size_t bytes = block.size + 3 * guardBytes;
  block.bytes.reset(new char[bytes]);
  std::fill_n(block.bytes.get(), bytes, filling);
  const auto start = reinterpret_cast<uintptr_t>(block.bytes.get());
  block.data = block.bytes.get() + guardBytes + (64 - start % 64) % 64;
  return block;
}

static KernelRunner::Block makeBlock(RankedTensorType type) {
  return makeBlock(size_t(codegen::getBytes(type)));
}

bool KernelRunner::Block::isIntact() const {
  auto isFilled = [](const char *begin) {
    return std::all_of(begin, begin + guardBytes,
                       [](char byte) { return byte == filling; });
  };
  return isFilled(data - guardBytes) && isFilled(data + size);
}

using Element = interpreter::Scalar<interpreter::F64>;

/// Calls `visit(pointer)` with the C type of the elements.
template <class Visit>
static void withElementType(Type type, char *data, Visit visit) {
  if (type.isF32())
    visit(reinterpret_cast<float *>(data));
  else if (type.isF64())
    visit(reinterpret_cast<double *>(data));
  else if (type.isBF16())
    visit(reinterpret_cast<runtime::test::StoredBF16 *>(data));
  else if (type.isF16())
    visit(reinterpret_cast<runtime::test::StoredF16 *>(data));
  else if (type.isInteger(32))
    visit(reinterpret_cast<int32_t *>(data));
  else if (type.isInteger(64))
    visit(reinterpret_cast<int64_t *>(data));
  else if (type.isInteger(16))
    visit(reinterpret_cast<int16_t *>(data));
  else
    visit(reinterpret_cast<int8_t *>(data));
}

void meshc::test::writeBlock(const F64Tensor &tensor, RankedTensorType type,
                             char *data) {
  withElementType(type.getElementType(), data, [&](auto *elements) {
    for (const Element &element : tensor.elements)
      std::visit(
          [&](auto value) {
            if constexpr (!std::is_same_v<decltype(value), interpreter::Poison>)
              *elements++ =
                  static_cast<std::remove_reference_t<decltype(*elements)>>(
                      value);
          },
          element);
  });
}

static F64Tensor readBlock(RankedTensorType type, char *data) {
  F64Tensor tensor(type.getShape());
  withElementType(type.getElementType(), data, [&](auto *elements) {
    for (Element &element : tensor.elements) {
      if constexpr (std::is_integral_v<
                        std::remove_pointer_t<decltype(elements)>>)
        element = int64_t(*elements++);
      else
        element = double(*elements++);
    }
  });
  return tensor;
}

/// Gives the step's outputs memory: that of an input whose last reader it is
/// where it may.
void KernelRunner::allocate(unsigned index) {
  steps::StepOpInterface step = all[index];
  const steps::Sharing sharing = getSharing(step);
  llvm::DenseSet<Value> taken;
  auto isDead = [&](Value value) {
    if (value.getDefiningOp<spmd::InputOp>() || taken.contains(value))
      return false;
    for (Operation *user : value.getUsers())
      if (isa<spmd::OutputOp>(user))
        return false;
    for (size_t later = index + 1; later < all.size(); ++later)
      if (llvm::is_contained(all[later]->getOperands(), value))
        return false;
    return true;
  };
  for (OpResult output : step->getResults()) {
    Block block;
    for (unsigned candidate : sharing[output.getResultNumber()]) {
      Value input = step->getOperand(candidate);
      if (!block.data && isDead(input)) {
        block = blocks[input];
        taken.insert(input);
      }
    }
    blocks[output] = block.data
                         ? block
                         : makeBlock(cast<RankedTensorType>(output.getType()));
  }
}

//===-- Running -----------------------------------------------------------===//

SmallVector<void *>
KernelRunner::getOperands(steps::StepOpInterface step) const {
  SmallVector<void *> operands;
  for (Value value : getTensors(step))
    operands.push_back(blocks.at(value).data);
  return operands;
}

void KernelRunner::call(unsigned index, ArrayRef<void *> operands,
                        ArrayRef<int64_t> coordinates, int64_t pieces) const {
  const codegen::EmittedKernel &kernel = kernels[index];
  auto run = [&](const std::string &symbol, int64_t extent,
                 ArrayRef<void *> arguments) {
    const Function function = functions.at(symbol);
    const int64_t length =
        std::max<int64_t>(llvm::divideCeil(extent, pieces), 1);
    for (int64_t end = extent; end > 0; end -= length)
      function(arguments.data(), coordinates.data(),
               std::max<int64_t>(0, end - length), end);
  };
  if (!kernel.sum)
    return run(kernel.symbol, kernel.extent, operands);
  Block workspace = makeBlock(kernel.workspaceBytes);
  SmallVector<void *> arguments, sums = {workspace.data};
  const size_t numInputs = steps::StepOpInterface(all[index])->getNumOperands();
  for (auto [number, operand] : llvm::enumerate(operands)) {
    const bool isSum =
        number >= numInputs &&
        llvm::is_contained(kernel.sum->outputs, unsigned(number - numInputs));
    (isSum ? sums : arguments).push_back(operand);
  }
  arguments.push_back(workspace.data);
  run(kernel.symbol, kernel.extent, arguments);
  run(kernel.sum->symbol, kernel.sum->extent, sums);
  EXPECT_TRUE(workspace.isIntact())
      << kernel.symbol << " writes beside its workspace";
}

void KernelRunner::runGpuKernel(unsigned index, ArrayRef<int64_t> coordinates) {
  steps::StepOpInterface step = all[index];
  const codegen::EmittedKernel &kernel = kernels[index];
  SmallVector<void *> operands = getOperands(step);
  Block workspace;
  if (kernel.workspaceBytes > 0) {
    workspace = makeBlock(kernel.workspaceBytes);
    operands.push_back(workspace.data);
  }
  std::vector<int64_t> places(coordinates.begin(), coordinates.end());
  std::vector<void *> parameters;
  for (void *&operand : operands)
    parameters.push_back(&operand);
  for (int64_t &place : places)
    parameters.push_back(&place);
  for (const codegen::KernelLaunch &launch : kernel.launches) {
    emulation::KernelFunction function = image->find(launch.symbol);
    ASSERT_TRUE(function) << launch.symbol;
    ASSERT_EQ(emulation::launch(
                  function, launch.symbol, launch.grid, int32_t(launch.block),
                  int32_t(launch.sharedBytes), parameters.data(), order),
              "");
  }
  EXPECT_TRUE(!workspace.data || workspace.isIntact())
      << kernel.symbol << " writes beside its workspace";
  for (Value value : getTensors(step))
    EXPECT_TRUE(blocks.at(value).isIntact())
        << kernel.symbol << " writes beside an operand";
}

/// `x` with the activation of a step, or times its slope at `aux`.
static double activate(steps::MatmulOp step, double x, double aux) {
  const double scale = std::sqrt(2 / M_PI);
  auto getTanh = [&](double at) {
    return std::tanh(scale * (at + 0.044715 * at * at * at));
  };
  switch (step.getActivation()) {
  case codegen::MatmulActivation::None:
    return x;
  case codegen::MatmulActivation::GeluErf:
    return x * 0.5 * (1 + std::erf(x * M_SQRT1_2));
  case codegen::MatmulActivation::Relu:
    if (step.isGradient())
      return aux != 0 ? x : 0;
    return std::isnan(x) ? x : std::max(x, 0.0);
  case codegen::MatmulActivation::GeluTanh: {
    const double t = getTanh(step.isGradient() ? aux : x);
    if (!step.isGradient())
      return 0.5 * x * (1 + t);
    return x * (0.5 * (1 + t) + 0.5 * aux * (1 - t * t) * scale *
                                    (1 + 3 * 0.044715 * aux * aux));
  }
  }
  __builtin_unreachable();
}

/// result = activation(a * b + addend + bias) and what goes with it, in f64,
/// rounded once.
void KernelRunner::runMatmul(steps::MatmulOp step) {
  Value result = step.getResult();
  auto type = cast<RankedTensorType>(result.getType());
  auto maps =
      llvm::to_vector(step.getIndexingMaps().getAsValueRange<AffineMapAttr>());
  auto walk = [&](Value tensor, AffineMap map) {
    auto shape = cast<RankedTensorType>(tensor.getType()).getShape();
    interpreter::Sizes strides = interpreter::getStrides(shape);
    interpreter::Walked walked{0, interpreter::Sizes(map.getNumDims(), 0)};
    for (unsigned dim = 0; dim < map.getNumResults(); ++dim)
      walked.strides[map.getDimPosition(dim)] = strides[dim];
    return walked;
  };
  std::vector<double> sums(size_t(type.getNumElements()), 0.0);
  auto read = [&](Value value) {
    std::vector<double> numbers;
    F64Tensor tensor = readBlock(cast<RankedTensorType>(value.getType()),
                                 blocks.at(value).data);
    for (const Element &element : tensor.elements) {
      const auto *integer = std::get_if<int64_t>(&element);
      numbers.push_back(integer ? double(*integer) : std::get<double>(element));
    }
    return numbers;
  };
  Value a = step.getLhs(), b = step.getRhs();
  std::vector<double> lhs = read(a), rhs = read(b), addend, bias, aux;
  if (step.getAddend())
    addend = read(step.getAddend());
  if (step.getBias())
    bias = read(step.getBias());
  if (step.isGradient())
    aux = read(step.getSlope());
  auto write = [&](Value value, const std::vector<double> &numbers) {
    auto target = cast<RankedTensorType>(value.getType());
    F64Tensor rounded(target.getShape());
    for (size_t i = 0; i < numbers.size(); ++i)
      if (isa<IntegerType>(target.getElementType()))
        rounded.elements[i] = int64_t(numbers[i]);
      else
        rounded.elements[i] = numbers[i];
    writeBlock(rounded, target, blocks.at(value).data);
  };
  interpreter::forEachPoint(
      step.getLoopSizes(),
      {walk(a, maps[0]), walk(b, maps[1]), walk(result, maps[2])},
      [&](ArrayRef<int64_t>, ArrayRef<int64_t> at) {
        sums[size_t(at[2])] += lhs[size_t(at[0])] * rhs[size_t(at[1])];
      });
  for (size_t i = 0; i < sums.size(); ++i) {
    if (step.getAddend())
      sums[i] += addend[i];
    if (step.getBias())
      sums[i] += bias[i % bias.size()];
  }
  if (step.getAux()) {
    std::vector<double> left = sums;
    if (step.getActivation() == codegen::MatmulActivation::Relu)
      for (double &number : left)
        number = number > 0;
    write(step.getAux(), left);
  }
  for (size_t i = 0; i < sums.size(); ++i)
    sums[i] = activate(step, sums[i], step.isGradient() ? aux[i] : 0);
  write(result, sums);
  if (!step.getColumnSum())
    return;
  std::vector<double> columns(size_t(
      cast<RankedTensorType>(step.getColumnSum().getType()).getNumElements()));
  const std::vector<double> &summed =
      step.getColumnSumOf() == codegen::ColumnSum::Result        ? sums
      : step.getColumnSumOf() == codegen::ColumnSum::FirstFactor ? lhs
                                                                 : rhs;
  for (size_t i = 0; i < summed.size(); ++i)
    columns[i % columns.size()] += summed[i];
  write(step.getColumnSum(), columns);
}

void KernelRunner::run(F64State &state, std::vector<int64_t> coordinates) {
  blocks.clear();
  for (auto input : program.getBody().getOps<spmd::InputOp>()) {
    auto type = cast<RankedTensorType>(input.getType());
    blocks[input] = makeBlock(type);
    writeBlock(state.inputs.at(input.getName().str()), type,
               blocks[input].data);
  }
  for (auto [index, step] : llvm::enumerate(all)) {
    for (Value input : step->getOperands())
      ASSERT_TRUE(blocks.contains(input))
          << "a step reads what no earlier step "
             "computes";
    allocate(unsigned(index));
    if (auto matmul = dyn_cast<steps::MatmulOp>(step.getOperation()))
      runMatmul(matmul);
    else if (step.communicates())
      FAIL() << "the runner has no collectives";
    else if (image)
      runGpuKernel(unsigned(index), coordinates);
    else
      call(unsigned(index), getOperands(step), coordinates, 3);
  }
  for (auto output : program.getBody().getOps<spmd::OutputOp>())
    state.outputs[output.getName().str()] =
        readBlock(cast<RankedTensorType>(output.getValue().getType()),
                  blocks.at(output.getValue()).data);
}

//===-- Comparison --------------------------------------------------------===//

static void fillInputs(spmd::ProgramOp program, F64State &state,
                       unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (auto input : program.getBody().getOps<spmd::InputOp>()) {
    auto [entry, isMissing] = state.inputs.try_emplace(input.getName().str());
    if (!isMissing)
      continue;
    auto type = cast<RankedTensorType>(input.getType());
    entry->second = F64Tensor(type.getShape());
    for (Element &element : entry->second.elements) {
      if (isa<FloatType>(type.getElementType()))
        element = interpreter::roundTo<interpreter::F64>(
            double(normal(random)),
            interpreter::getElementKind(type.getElementType()));
      else if (nd::isForData(type.getElementType())) // all there are
        element = interpreter::wrapInteger(
            int64_t(random()),
            interpreter::getElementKind(type.getElementType()));
      else
        element =
            int64_t(random() % (type.getElementType().isInteger(1) ? 2 : 3));
    }
  }
}

static void expectClose(const std::string &name, const F64Tensor &actual,
                        const F64Tensor &expected, double tolerance) {
  ASSERT_EQ(actual.sizes, expected.sizes) << name;
  double largest = 0;
  for (const Element &element : expected.elements)
    if (auto *number = std::get_if<double>(&element))
      if (std::isfinite(*number))
        largest = std::max(largest, std::abs(*number));
  for (size_t i = 0; i < expected.elements.size(); ++i) {
    if (auto *integer = std::get_if<int64_t>(&expected.elements[i])) {
      ASSERT_EQ(std::get<int64_t>(actual.elements[i]), *integer)
          << name << " at " << i;
      continue;
    }
    ASSERT_TRUE(std::holds_alternative<double>(expected.elements[i]))
        << name << " is poison at " << i;
    double want = std::get<double>(expected.elements[i]);
    double got = std::get<double>(actual.elements[i]);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(got)) << name << " at " << i << ": " << got;
    } else if (std::isinf(want)) {
      ASSERT_EQ(got, want) << name << " at " << i;
    } else {
      ASSERT_NEAR(got, want, tolerance * largest + FLT_MIN)
          << name << " at " << i;
    }
  }
}

void meshc::test::expectAgreement(const std::string &text, F64State state,
                                  double tolerance, unsigned seed) {
  std::unique_ptr<KernelRunner> cpu = KernelRunner::create(text);
  ASSERT_TRUE(cpu);
  spmd::ProgramOp program = cpu->getSource();
  fillInputs(program, state, seed);
  F64State expected = state;
  ASSERT_TRUE(succeeded(interpreter::runProgram(program, expected)));
  if (writesKernelCases())
    return writeKernelCase(text, state, expected, tolerance);
  auto expectOutputs = [&](KernelRunner &runner) {
    F64State actual = state;
    runner.run(actual);
    for (const auto &[name, tensor] : expected.outputs)
      expectClose(name, actual.outputs.at(name), tensor, tolerance);
  };
  expectOutputs(*cpu);
  // Parts of two or three rows, which are worth nothing in the product.
  std::unique_ptr<KernelRunner> parts =
      KernelRunner::create(text, "native", {.minBytes = 1, .minRows = 2});
  ASSERT_TRUE(parts);
  if (parts->hasParts()) {
    SCOPED_TRACE("in parts");
    expectOutputs(*parts);
  }
  std::unique_ptr<KernelRunner> gpu = KernelRunner::createGpu(text);
  ASSERT_TRUE(gpu);
  using emulation::FiberOrder;
  for (FiberOrder order :
       {FiberOrder{FiberOrder::forward}, FiberOrder{FiberOrder::backward},
        FiberOrder{FiberOrder::random, seed}}) {
    SCOPED_TRACE("GPU kernels, order " + std::to_string(order.kind));
    gpu->setOrder(order);
    expectOutputs(*gpu);
  }
  if (::testing::Test::HasFailure())
    std::cerr << text;
}
