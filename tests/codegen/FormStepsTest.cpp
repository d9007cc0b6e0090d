// Which operations become one step, and what a library call takes along.

#include "tests/codegen/KernelRunner.h"

#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/MemoryBuffer.h"

#include "gtest/gtest.h"

#include <algorithm>

using namespace meshc;
using namespace meshc::codegen;
using namespace meshc::test;

namespace {

/// y = x w + b with sizes that no vector width divides.
ProgramText makeLinear() {
  ProgramText text;
  text.dim("r", 5);
  text.dim("k", 7);
  text.dim("n", 37);
  text.input("x", "r k");
  text.input("w", "k n");
  text.input("b", "n");
  text.contraction("product", "r n", "x", "w");
  text.pointwise("y", "r n", {"product", "b"},
                 "%r = arith.addf %a0, %a1 : f32");
  return text;
}

/// The same in bf16, but for the bias, as "z".
ProgramText makeNarrowLinear() {
  ProgramText text;
  text.dim("r", 5);
  text.dim("k", 7);
  text.dim("n", 37);
  text.input("x", "r k", "bf16");
  text.input("w", "k n", "bf16");
  text.input("b", "n");
  text.contraction("product", "r n", "x", "w");
  const std::string round = "%r = arith.truncf %a0 : f32 to bf16";
  text.pointwise("rounded", "r n", {"product"}, round, "bf16");
  text.pointwise("b16", "n", {"b"}, round, "bf16");
  text.pointwise("z", "r n", {"rounded", "b16"},
                 "%r = arith.addf %a0, %a1 : bf16", "bf16");
  return text;
}

/// g = 0.5 y (1 + erf(scale y)): gelu, if `scale` is the root of 1/2.
void addGelu(ProgramText &text, const std::string &scale = "0.707106769") {
  text.constant("scale", "", scale);
  text.constant("one", "", "1.0");
  text.constant("middle", "", "0.5");
  text.pointwise("h", "r n", {"middle", "y"}, "%r = arith.mulf %a0, %a1 : f32");
  text.pointwise("s", "r n", {"y", "scale"}, "%r = arith.mulf %a0, %a1 : f32");
  text.pointwise("e", "r n", {"s"}, "%r = math.erf %a0 : f32");
  text.pointwise("p", "r n", {"one", "e"}, "%r = arith.addf %a0, %a1 : f32");
  text.pointwise("g", "r n", {"h", "p"}, "%r = arith.mulf %a0, %a1 : f32");
}

enum class Kind : uint8_t { Kernel, Matmul };
using enum Kind;

std::vector<Kind> getKinds(const KernelRunner &runner) {
  std::vector<Kind> kinds;
  for (steps::StepOpInterface step : runner.getSteps())
    kinds.push_back(mlir::isa<steps::MatmulOp>(step.getOperation()) ? Matmul
                                                                    : Kernel);
  return kinds;
}

TEST(FormSteps, BiasAndGeluGoIntoTheLibraryCall) {
  ProgramText text = makeLinear();
  addGelu(text);
  text.output("g");
  auto runner = KernelRunner::create(text.str());
  ASSERT_TRUE(runner);
  ASSERT_EQ(getKinds(*runner), std::vector{Matmul});
  EXPECT_TRUE(runner->getStep<steps::MatmulOp>(0).getBias());
  EXPECT_EQ(runner->getStep<steps::MatmulOp>(0).getActivation(),
            MatmulActivation::GeluErf);
  expectAgreement(text);
}

/// The bias is rounded ahead of the product, which rounds once.
TEST(FormSteps, ANarrowBiasGoesIntoTheLibraryCall) {
  ProgramText text = makeNarrowLinear();
  text.output("z");
  for (const auto &runner : {KernelRunner::create(text.str()),
                             KernelRunner::createGpu(text.str())}) {
    ASSERT_TRUE(runner);
    ASSERT_EQ(getKinds(*runner), (std::vector{Kernel, Matmul}));
    EXPECT_TRUE(runner->getStep<steps::MatmulOp>(1).getBias());
  }
  // The program rounds the product, whose rounding is left out, and the sum.
  expectAgreement(text, {}, 2 * 0x1p-8);
}

TEST(FormSteps, ANarrowGeluGoesIntoTheLibraryCall) {
  for (bool isRounded : {true, false}) {
    ProgramText text = makeNarrowLinear();
    text.pointwise("y", "r n", {"z"}, "%r = arith.extf %a0 : bf16 to f32");
    addGelu(text);
    text.pointwise("g16", "r n", {"g"}, "%r = arith.truncf %a0 : f32 to bf16",
                   "bf16");
    text.output(isRounded ? "g16" : "g");
    auto runner = KernelRunner::create(text.str());
    ASSERT_TRUE(runner);
    ASSERT_EQ(getKinds(*runner), isRounded
                                     ? (std::vector{Kernel, Matmul})
                                     : (std::vector{Kernel, Matmul, Kernel}));
    // Three roundings to bf16; gelu has slopes of up to 1.13.
    expectAgreement(text, {}, 4 * 0x1p-8);
  }
}

/// A bias that is computed from what comes behind the product does not exist in
/// front of it.
TEST(FormSteps, ABiasThatIsComputedLaterStaysAKernel) {
  ProgramText text = makeLinear();
  text.pointwise("half", "n", {"b"}, "%r = arith.mulf %a0, %a0 : f32");
  text.contraction("again", "r n", "x", "w");
  text.pointwise("late", "n", {"half"}, "%r = arith.truncf %a0 : f32 to bf16",
                 "bf16");
  text.pointwise("late32", "n", {"late"}, "%r = arith.extf %a0 : bf16 to f32");
  text.pointwise("z", "r n", {"again", "late32"},
                 "%r = arith.addf %a0, %a1 : f32");
  text.output("z");
  auto runner = KernelRunner::create(text.str());
  ASSERT_TRUE(runner);
  for (auto matmul : runner->getProgram().getBody().getOps<steps::MatmulOp>())
    EXPECT_FALSE(matmul.getBias());
  expectAgreement(text);
}

TEST(FormSteps, GeluStaysAKernelWhereItsArgumentIsNeeded) {
  ProgramText text = makeLinear();
  addGelu(text);
  text.output("y");
  text.output("g");
  auto runner = KernelRunner::create(text.str());
  ASSERT_TRUE(runner);
  ASSERT_EQ(getKinds(*runner), (std::vector{Matmul, Kernel}));
  EXPECT_TRUE(runner->getStep<steps::MatmulOp>(0).getBias());
  EXPECT_EQ(runner->getStep<steps::MatmulOp>(0).getActivation(),
            MatmulActivation::None);
  expectAgreement(text);
}

TEST(FormSteps, OtherMultiplesOfTheErrorFunctionAreNoGelu) {
  ProgramText text = makeLinear();
  addGelu(text, "0.70");
  text.output("g");
  auto runner = KernelRunner::create(text.str());
  ASSERT_TRUE(runner);
  EXPECT_EQ(getKinds(*runner), (std::vector{Matmul, Kernel}));
  expectAgreement(text);
}

TEST(FormSteps, ReluPassesNaNOn) {
  ProgramText text = makeLinear();
  text.constant("zero", "", "0.0");
  text.pointwise("z", "r n", {"y", "zero"},
                 "%r = arith.maximumf %a0, %a1 : f32");
  text.output("z");
  auto runner = KernelRunner::create(text.str());
  ASSERT_TRUE(runner);
  F64State state;
  using Block = interpreter::Tensor<interpreter::F64>;
  state.inputs["x"] = Block({5, 7}, std::nan(""));
  state.inputs["w"] = Block({7, 37}, 1.0);
  state.inputs["b"] = Block({37}, 0.0);
  runner->run(state);
  for (const auto &value : state.outputs["z"].elements)
    EXPECT_TRUE(std::isnan(std::get<double>(value)));
}

TEST(FormSteps, AnAddendThatDiesGivesItsMemory) {
  ProgramText text = makeLinear();
  text.input("z", "r n");
  text.pointwise("old", "r n", {"z"}, "%r = arith.mulf %a0, %a0 : f32");
  text.contraction("second", "r n", "x", "w");
  text.pointwise("sum", "r n", {"second", "old"},
                 "%r = arith.addf %a0, %a1 : f32");
  text.output("sum");
  auto runner = KernelRunner::create(text.str());
  ASSERT_TRUE(runner);
  ASSERT_EQ(getKinds(*runner), (std::vector{Kernel, Matmul}));
  auto matmul = runner->getStep<steps::MatmulOp>(1);
  ASSERT_TRUE(matmul.getAddend());
  const steps::Sharing sharing = runner->getSharing(runner->getSteps()[1]);
  ASSERT_EQ(sharing[0].size(), 1u);
  EXPECT_EQ(matmul->getOperand(sharing[0][0]), matmul.getAddend());
  expectAgreement(text);
}

TEST(FormSteps, LayerNormalisationIsOneKernel) {
  ProgramText text;
  text.dim("b", 3);
  text.dim("d", 41);
  text.input("x", "b d");
  text.input("gain", "d");
  text.reduce("s", "b", {"x"}, "arith.addf", "0.0");
  text.pointwise("c", "b d", {"x", "s"},
                 "%n = arith.constant 41.0 : f32\n"
                 "%m = arith.divf %a1, %n : f32\n"
                 "%r = arith.subf %a0, %m : f32");
  text.reduce("v", "b", {"c", "c"}, "arith.addf", "0.0",
              "%r = arith.mulf %a0, %a1 : f32");
  text.pointwise("y", "b d", {"c", "v", "gain"},
                 "%e = arith.constant 1.0e-5 : f32\n"
                 "%t = arith.addf %a1, %e : f32\n"
                 "%q = math.rsqrt %t : f32\n"
                 "%u = arith.mulf %a0, %q : f32\n"
                 "%r = arith.mulf %u, %a2 : f32");
  text.output("y");
  auto runner = KernelRunner::create(text.str());
  ASSERT_TRUE(runner);
  EXPECT_EQ(getKinds(*runner), std::vector{Kernel});
  expectAgreement(text);
}

/// As many kernels as it takes: the three that hold 600 operations could be
/// one, which would take compilers long.
TEST(FormSteps, LongChainsAreSeveralKernels) {
  constexpr int count = 600;
  ProgramText text;
  text.dim("r", 5);
  text.dim("n", 37);
  text.input("x", "r n");
  std::string last = "x";
  for (int i = 0; i < count; ++i) {
    const std::string next = "y" + std::to_string(i);
    text.pointwise(next, "r n", {last, "x"},
                   "%h = arith.constant 0.5 : f32\n"
                   "%m = arith.mulf %a0, %h : f32\n"
                   "%r = arith.addf %m, %a1 : f32");
    last = next;
  }
  text.output(last);
  auto runner = KernelRunner::create(text.str());
  ASSERT_TRUE(runner);
  size_t operations = 0;
  for (size_t index = 0; index < runner->getSteps().size(); ++index) {
    auto kernel = runner->getStep<steps::KernelOp>(index);
    const auto ops = kernel.getBody().getOps<mlir::linalg::GenericOp>();
    const auto count = size_t(std::distance(ops.begin(), ops.end()));
    EXPECT_LE(count, 256u);
    operations += count;
  }
  EXPECT_EQ(operations, size_t(count));
  EXPECT_GT(runner->getSteps().size(), 2u);
  EXPECT_LT(runner->getSteps().size(), 8u);
  expectAgreement(text);
}

/// Symbols that the object takes from elsewhere.
std::vector<std::string> getUndefinedSymbols(const std::string &object) {
  auto buffer = llvm::MemoryBuffer::getMemBuffer(object, "", false);
  auto file = llvm::object::ObjectFile::createObjectFile(*buffer);
  if (!file)
    return {"not an object: " + llvm::toString(file.takeError())};
  std::vector<std::string> names;
  for (llvm::object::SymbolRef symbol : (*file)->symbols()) {
    llvm::Expected<uint32_t> flags = symbol.getFlags();
    llvm::Expected<llvm::StringRef> name = symbol.getName();
    if (!flags || !name)
      return {"a damaged symbol"};
    if (*flags & llvm::object::SymbolRef::SF_Undefined && !name->empty())
      names.push_back(name->str());
  }
  return names;
}

/// x - mean in f32, for 16-bit x, on both sides of a product: the second side
/// reads x and the means again, not differences of twice the size.
TEST(FormSteps, DifferencesFromNarrowTensorsAreComputedAgain) {
  ProgramText text;
  text.dim("b", 5);
  text.dim("d", 37);
  text.dim("n", 3);
  text.input("x", "b d", "bf16");
  text.input("w", "d n");
  text.pointwise("wide", "b d", {"x"}, "%r = arith.extf %a0 : bf16 to f32");
  text.reduce("m", "b", {"wide"}, "arith.addf", "0.0");
  text.pointwise("c", "b d", {"wide", "m"}, "%r = arith.subf %a0, %a1 : f32");
  text.pointwise("e", "b d", {"c"}, "%r = math.exp %a0 : f32");
  text.contraction("product", "b n", "e", "w");
  text.reduce("s", "b", {"product"}, "arith.addf", "0.0");
  text.pointwise("y", "b d", {"c", "s"}, "%r = arith.mulf %a0, %a1 : f32");
  text.output("y");
  auto runner = KernelRunner::create(text.str());
  ASSERT_TRUE(runner);
  ASSERT_EQ(getKinds(*runner), (std::vector{Kernel, Matmul, Kernel, Kernel}));
  steps::StepOpInterface last = runner->getSteps().back();
  std::vector<mlir::Value> large;
  for (mlir::Value input : last->getOperands())
    if (mlir::cast<mlir::RankedTensorType>(input.getType()).getNumElements() ==
        5 * 37)
      large.push_back(input);
  ASSERT_EQ(large.size(), 1u);
  EXPECT_TRUE(mlir::getElementTypeOrSelf(large[0]).isBF16());
  // A sum of 37 terms, an exponential, sums of 37 and 3: roundings of f32.
  expectAgreement(text, {}, 100 * 0x1p-24);
}

/// y = x w; h = e^y and h w3; then, in the backward phase, the
/// product d = h w3 w2 and g = f(y) d. Returns the outputs of the kernel that
/// computes h, in bits of one element, smallest first.
std::vector<int64_t> getWidthsBesideBackward(const std::string &f,
                                             const std::string &type,
                                             const std::string &gradient) {
  ProgramText text = makeLinear();
  text.input("w2", "k n");
  text.pointwise("h", "r n", {"y"}, "%r = math.exp %a0 : f32");
  text.input("w3", "n k");
  text.contraction("read", "r k", "h", "w3");
  text.phase = "backward";
  text.pointwise("f", "r n", {"y"}, f, type);
  text.contraction("d", "r n", "read", "w2");
  text.pointwise("g", "r n", {"f", "d"}, gradient);
  text.output("read");
  text.output("g");
  auto runner = KernelRunner::create(text.str());
  EXPECT_TRUE(runner);
  if (!runner)
    return {};
  EXPECT_EQ(getKinds(*runner),
            (std::vector{Matmul, Kernel, Matmul, Matmul, Kernel}));
  expectAgreement(text);
  std::vector<int64_t> widths;
  for (mlir::Value output : runner->getStep<steps::KernelOp>(1).getOutputs())
    widths.push_back(
        int64_t(mlir::getElementTypeOrSelf(output).getIntOrFloatBitWidth()));
  std::ranges::sort(widths);
  return widths;
}

TEST(FormSteps, TheBackwardPhaseComputesWhatItNeedsWhenItNeedsIt) {
  EXPECT_EQ(getWidthsBesideBackward("%r = math.tanh %a0 : f32", "f32",
                                    "%r = arith.mulf %a0, %a1 : f32"),
            std::vector<int64_t>{32});
}

TEST(FormSteps, OneByteForTheBackwardPhaseIsWrittenEarly) {
  EXPECT_EQ(getWidthsBesideBackward("%z = arith.constant 0.5 : f32\n"
                                    "%r = arith.cmpf ogt, %a0, %z : f32",
                                    "i1",
                                    "%z = arith.constant 0.0 : f32\n"
                                    "%r = arith.select %a0, %a1, %z : f32"),
            (std::vector<int64_t>{1, 32}));
}

TEST(FormSteps, KernelsOfFloatsCallNothing) {
  ProgramText text;
  text.dim("b", 3);
  text.dim("d", 41);
  text.input("x", "b d");
  text.input("z", "b d");
  text.reduce("m", "b", {"x"}, "arith.maximumf", lowestF32);
  text.pointwise("y", "b d", {"x", "m", "z"},
                 "%c = arith.subf %a0, %a1 : f32\n"
                 "%e = math.exp %c : f32\n"
                 "%t = math.tanh %a2 : f32\n"
                 "%f = math.erf %a2 : f32\n"
                 "%q = math.absf %a2 : f32\n"
                 "%l = math.log %q : f32\n"
                 "%g = math.fma %e, %t, %f : f32\n"
                 "%s = math.sqrt %q : f32\n"
                 "%u = arith.addf %g, %l : f32\n"
                 "%r = arith.mulf %u, %s : f32");
  text.output("y");
  for (const char *cpu : {"x86-64-v3", "x86-64-v4", "native"}) {
    auto runner = KernelRunner::create(text.str(), cpu);
    ASSERT_TRUE(runner) << cpu;
    EXPECT_EQ(getUndefinedSymbols(runner->getObject()),
              std::vector<std::string>());
  }
}

} // namespace
