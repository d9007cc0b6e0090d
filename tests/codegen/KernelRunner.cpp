#include "tests/codegen/KernelRunner.h"

#include "codegen/ExecTypes.h"
#include "dialect/interpreter/SPMDInterpreter.h"

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
using namespace meshc::testing;
using codegen::Step;

namespace {
struct TableEntry {
  const char *name;
  KernelRunner::Function function;
};
} // namespace

std::unique_ptr<KernelRunner> KernelRunner::create(const std::string &text,
                                                   llvm::StringRef cpu) {
  std::unique_ptr<KernelRunner> runner(new KernelRunner);
  runner->context = makeContext();
  runner->module = parse(*runner->context, text);
  if (!runner->module) {
    ADD_FAILURE() << "does not parse:\n" << text;
    return nullptr;
  }
  runner->program = runner->module->lookupSymbol<spmd::ProgramOp>("p");
  FailureOr<std::vector<Step>> steps = codegen::formSteps(
      runner->program, /*hasGeluEpilogue=*/true);
  if (failed(steps)) {
    ADD_FAILURE() << "no steps for\n" << text;
    return nullptr;
  }
  runner->steps = std::move(*steps);
  OwningOpRef<ModuleOp> kernels =
      ModuleOp::create(UnknownLoc::get(runner->context.get()));
  for (auto [index, step] : llvm::enumerate(runner->steps)) {
    runner->extents.push_back(0);
    if (step.kind != Step::Kind::Kernel)
      continue;
    auto kernel = codegen::emitCpuKernel(
        step, "kernel_" + std::to_string(index), *kernels);
    if (failed(kernel) || failed(verify(*kernels))) {
      ADD_FAILURE() << "no kernel for step " << index << " of\n" << text;
      return nullptr;
    }
    runner->extents.back() = kernel->extent;
  }
  FailureOr<std::string> object = codegen::compileCpuObject(
      *kernels, *codegen::CpuTarget::get(cpu), {'p', 'q', 'r'});
  if (failed(object)) {
    ADD_FAILURE() << "kernels do not compile\n" << text;
    return nullptr;
  }
  runner->object = *object;
  return runner->link() ? std::move(runner) : nullptr;
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
  auto *table = static_cast<TableEntry *>(dlsym(library, "meshc_kernel_table"));
  uint64_t count =
      *static_cast<uint64_t *>(dlsym(library, "meshc_kernel_count"));
  std::map<std::string, Function> byName;
  for (uint64_t entry = 0; entry < count; ++entry)
    byName[table[entry].name] = table[entry].function;
  for (size_t step = 0; step < steps.size(); ++step)
    functions.push_back(byName["kernel_" + std::to_string(step)]);
  auto *size = static_cast<uint64_t *>(dlsym(library, "meshc_program_size"));
  auto *data = static_cast<char *>(dlsym(library, "meshc_program_data"));
  EXPECT_EQ(std::string(data, *size), "pqr");
  return true;
}

unsigned KernelRunner::countKernels() const {
  return unsigned(llvm::count_if(
      steps, [](const Step &step) { return step.kind == Step::Kind::Kernel; }));
}

size_t KernelRunner::countFunctions() const {
  std::set<Function> different;
  for (size_t step = 0; step < steps.size(); ++step)
    if (steps[step].kind == Step::Kind::Kernel)
      different.insert(functions[step]);
  return different.size();
}

//===-- Memory ------------------------------------------------------------===//

static KernelRunner::Block makeBlock(RankedTensorType type) {
  size_t bytes = size_t(codegen::getBytes(type));
  KernelRunner::Block block;
  block.bytes.reset(new char[bytes + 128]);
  block.data = block.bytes.get() +
               (64 - reinterpret_cast<uintptr_t>(block.bytes.get()) % 64) % 64;
  std::fill_n(block.data, bytes, char(0x5a));
  return block;
}

using Element = interpreter::Scalar<interpreter::F64>;

/// Calls `visit(pointer)` with the C type of the elements.
template <class Visit>
static void withElementType(Type type, char *data, Visit visit) {
  if (type.isF32())
    visit(reinterpret_cast<float *>(data));
  else if (type.isF64())
    visit(reinterpret_cast<double *>(data));
  else if (type.isInteger(32))
    visit(reinterpret_cast<int32_t *>(data));
  else if (type.isInteger(64))
    visit(reinterpret_cast<int64_t *>(data));
  else
    visit(reinterpret_cast<int8_t *>(data));
}

static void writeBlock(const F64Tensor &tensor, RankedTensorType type,
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
      if constexpr (std::is_floating_point_v<
                        std::remove_pointer_t<decltype(elements)>>)
        element = double(*elements++);
      else
        element = int64_t(*elements++);
    }
  });
  return tensor;
}

/// Gives the step's outputs memory: that of an input whose last reader it is
/// where it may.
void KernelRunner::allocate(unsigned index) {
  const Step &step = steps[index];
  llvm::DenseSet<Value> taken;
  auto isDead = [&](Value value) {
    if (value.getDefiningOp<spmd::InputOp>() || taken.contains(value))
      return false;
    for (Operation *user : value.getUsers())
      if (isa<spmd::OutputOp>(user))
        return false;
    for (size_t later = index + 1; later < steps.size(); ++later)
      if (llvm::is_contained(steps[later].inputs, value))
        return false;
    return true;
  };
  for (auto [position, output] : llvm::enumerate(step.outputs)) {
    Block block;
    for (unsigned candidate : step.mayShare[position]) {
      Value input = step.inputs[candidate];
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

void KernelRunner::runKernel(unsigned index, ArrayRef<int64_t> coordinates) {
  const Step &step = steps[index];
  std::vector<void *> operands;
  for (Value value : llvm::concat<const Value>(step.inputs, step.outputs))
    operands.push_back(blocks.at(value).data);
  int64_t extent = extents[index];
  for (int64_t end = extent; end > 0;) {
    int64_t begin = std::max<int64_t>(0, end - extent / 3 - 1);
    functions[index](operands.data(), coordinates.data(), begin, end);
    end = begin;
  }
}

/// result = activation(a * b + addend + bias) in f64, rounded once.
void KernelRunner::runMatmul(const Step &step) {
  auto contraction = cast<linalg::GenericOp>(step.ops.front());
  Value result = step.outputs.front();
  auto type = cast<RankedTensorType>(result.getType());
  auto maps = contraction.getIndexingMapsArray();
  auto walk = [&](Value tensor, AffineMap map) {
    auto shape = cast<RankedTensorType>(tensor.getType()).getShape();
    interpreter::Sizes strides = interpreter::getStrides(shape);
    interpreter::Walked walked{0, interpreter::Sizes(map.getNumDims(), 0)};
    for (unsigned dim = 0; dim < map.getNumResults(); ++dim)
      walked.strides[map.getDimPosition(dim)] = strides[dim];
    return walked;
  };
  std::vector<double> sums(size_t(type.getNumElements()), 0.0);
  auto data = [&](Value value) {
    return reinterpret_cast<const float *>(blocks.at(value).data);
  };
  Value a = contraction.getDpsInputs()[0], b = contraction.getDpsInputs()[1];
  interpreter::forEachPoint(
      contraction.getStaticLoopRanges(),
      {walk(a, maps[0]), walk(b, maps[1]), walk(result, maps[2])},
      [&](ArrayRef<int64_t>, ArrayRef<int64_t> at) {
        sums[size_t(at[2])] += double(data(a)[at[0]]) * double(data(b)[at[1]]);
      });
  int64_t last = type.getRank() == 0 ? 1 : type.getShape().back();
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    if (step.addend)
      sums[size_t(i)] += data(step.addend)[i];
    if (step.bias)
      sums[size_t(i)] += data(step.bias)[i % last];
    if (step.activation == codegen::MatmulActivation::GeluErf)
      sums[size_t(i)] *= 0.5 * (1 + std::erf(sums[size_t(i)] * M_SQRT1_2));
  }
  auto *out = reinterpret_cast<float *>(blocks.at(result).data);
  for (size_t i = 0; i < sums.size(); ++i)
    out[i] = float(sums[i]);
}

void KernelRunner::run(F64State &state, std::vector<int64_t> coordinates) {
  blocks.clear();
  for (auto input : program.getBody().getOps<spmd::InputOp>()) {
    auto type = cast<RankedTensorType>(input.getType());
    blocks[input] = makeBlock(type);
    writeBlock(state.inputs.at(input.getName().str()), type,
               blocks[input].data);
  }
  for (auto [index, step] : llvm::enumerate(steps)) {
    for (Value input : step.inputs)
      ASSERT_TRUE(blocks.contains(input))
          << "a step reads what no earlier step "
             "computes";
    allocate(unsigned(index));
    if (step.kind == Step::Kind::Kernel)
      runKernel(unsigned(index), coordinates);
    else if (step.kind == Step::Kind::Matmul)
      runMatmul(step);
    else
      FAIL() << "the runner has no collectives";
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
        element = double(normal(random));
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

void meshc::testing::expectAgreement(const ProgramText &text, F64State state,
                                     double tolerance, unsigned seed) {
  std::unique_ptr<KernelRunner> runner = KernelRunner::create(text.str());
  ASSERT_TRUE(runner);
  auto program = runner->getModule().lookupSymbol<spmd::ProgramOp>("p");
  fillInputs(program, state, seed);
  F64State expected = state;
  ASSERT_TRUE(succeeded(interpreter::runProgram(program, expected)));
  runner->run(state);
  for (const auto &[name, tensor] : expected.outputs)
    expectClose(name, state.outputs.at(name), tensor, tolerance);
  if (::testing::Test::HasFailure())
    std::cerr << text.str();
}
