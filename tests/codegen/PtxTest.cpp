// What the PTX of kernels looks like, and what the toolkit's assembler makes of
// it where it is: accesses, registers, arithmetic of positions.

#include "codegen/gpu/GpuImages.h"
#include "codegen/gpu/GpuKernelTarget.h"
#include "codegen/gpu/MoveKernels.h"
#include "codegen/steps/FormSteps.h"
#include "codegen/steps/GroupKernels.h"
#include "tests/codegen/KernelFamilies.h"
#include "tests/codegen/KernelRunner.h"
#include "tests/codegen/NamedPrograms.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "gmock/gmock.h"

#include <map>
#include <regex>

using namespace meshc;
using namespace meshc::test;
using ::testing::HasSubstr;
using ::testing::Not;

namespace {

/// The PTX of a program's kernels, and what the assembler says about it, if
/// there is one.
struct Assembly {
  std::string ptx;
  std::string resources;
};

std::string getPtx(mlir::gpu::GPUModuleOp kernels,
                   const std::string &architecture) {
  auto images = codegen::compileGpuImages(kernels, {architecture});
  if (mlir::failed(images)) {
    ADD_FAILURE() << "does not compile";
    return "";
  }
  for (const exec::GpuImageT &image : *images)
    if (image.kind == exec::ImageKind::ptx)
      return std::string(image.data.begin(), image.data.end());
  ADD_FAILURE() << "no PTX";
  return "";
}

/// `isShared`: each operand may lie where another one does.
Assembly assemble(const std::string &text,
                  const std::string &architecture = "sm_90",
                  bool isShared = false) {
  auto context = makeContext();
  auto module = parseFused(*context, text);
  auto program = codegen::formSteps(module->lookupSymbol<spmd::ProgramOp>("p"),
                                    codegen::MatmulLibrary::CublasLt);
  EXPECT_TRUE(mlir::succeeded(codegen::groupKernels(*program)));
  auto kernels = mlir::OwningOpRef<mlir::ModuleOp>(
      mlir::ModuleOp::create(mlir::UnknownLoc::get(context.get())));
  codegen::GpuKernelTarget target(*kernels);
  for (auto [index, step] : llvm::enumerate(steps::getSteps(*program)))
    EXPECT_TRUE(mlir::succeeded(
        emitStep(step, target, "kernel_" + std::to_string(index), isShared)));
  Assembly result{
      getPtx(*kernels->getOps<mlir::gpu::GPUModuleOp>().begin(), architecture),
      ""};
  const std::string assembler = codegen::findAssembler();
  if (assembler.empty())
    return result;
  llvm::SmallString<128> source, log;
  llvm::sys::fs::createTemporaryFile("meshc", "ptx", source);
  llvm::sys::fs::createTemporaryFile("meshc", "log", log);
  {
    std::error_code error;
    llvm::raw_fd_ostream(source, error) << result.ptx;
  }
  std::optional<llvm::StringRef> redirects[] = {"", log.str(), log.str()};
  EXPECT_EQ(llvm::sys::ExecuteAndWait(assembler,
                                      {assembler, "-v", "-arch", architecture,
                                       source, "-o", "/dev/null"},
                                      std::nullopt, redirects),
            0);
  if (auto buffer = llvm::MemoryBuffer::getFile(log))
    result.resources = (*buffer)->getBuffer().str();
  llvm::sys::fs::remove(source);
  llvm::sys::fs::remove(log);
  return result;
}

Assembly assemble(const ProgramText &text,
                  const std::string &architecture = "sm_90") {
  return assemble(text.str(), architecture);
}

int count(const std::string &text, const std::string &pattern) {
  std::regex regex(pattern);
  return int(
      std::distance(std::sregex_iterator(text.begin(), text.end(), regex), {}));
}

/// Registers of a thread by function; nothing without the assembler. No
/// function keeps anything of a thread in memory.
std::map<std::string, int> expectNoSpills(const Assembly &assembly) {
  EXPECT_THAT(assembly.ptx, Not(HasSubstr(".local")));
  const std::regex function("Compiling entry function '([^']*)'[^]*?"
                            "([0-9]+) bytes spill stores, ([0-9]+) bytes spill "
                            "loads[^]*?Used ([0-9]+) registers");
  std::map<std::string, int> used;
  for (std::sregex_iterator match(assembly.resources.begin(),
                                  assembly.resources.end(), function),
       end;
       match != end; ++match) {
    EXPECT_EQ((*match)[2], "0") << assembly.resources;
    EXPECT_EQ((*match)[3], "0") << assembly.resources;
    used[(*match)[1]] = std::stoi((*match)[4]);
  }
  return used;
}

/// No register spills; about as many registers per thread as the golden
/// numbers, by function in the order of their names. Versions of the assembler
/// differ by a few (the numbers are those of CUDA 13.0); a margin beyond that
/// is a change to look at.
void expectResources(const Assembly &assembly,
                     const std::vector<int> &registers) {
  constexpr int margin = 4;
  const std::map<std::string, int> used = expectNoSpills(assembly);
  if (assembly.resources.empty())
    GTEST_SKIP() << "the CUDA toolkit's ptxas is not here";
  ASSERT_EQ(used.size(), registers.size()) << assembly.resources;
  size_t number = 0;
  for (const auto &[name, count] : used)
    EXPECT_NEAR(count, registers[number++], margin) << name;
}

TEST(Ptx, ElementwiseIsWide) {
  ProgramText text;
  text.dim("d", 1 << 20);
  text.input("x", "d");
  text.input("y", "d");
  text.pointwise("z", "d", {"x", "y"}, "%r = arith.mulf %a0, %a1 : f32");
  text.output("z");
  Assembly assembly = assemble(text);
  // Two chunks of two operands, and of the result.
  EXPECT_EQ(count(assembly.ptx, "ld\\.global\\.nc\\.v4"), 4);
  EXPECT_EQ(count(assembly.ptx, "st\\.global\\.v4"), 2);
  EXPECT_EQ(count(assembly.ptx, "(ld|st)\\.global"), 6);
  EXPECT_THAT(assembly.ptx, HasSubstr(".maxntid 256"));
  expectResources(assembly, {26});
}

/// A product that is needed itself is rounded before it is added, by
/// instructions that the assembler and the driver's compiler may not fuse:
/// those that name a rounding (PTX ISA 9.0, 9.7.3.5).
TEST(Ptx, NothingIsFusedButWhatTheProgramFuses) {
  for (const std::string type : {"f32", "f64"})
    for (bool isRead : {false, true}) {
      SCOPED_TRACE(type + (isRead ? ", read" : ""));
      ProgramText text;
      text.dim("d", 1 << 20);
      for (const char *name : {"x", "y", "z"})
        text.input(name, "d", type);
      text.pointwise("p", "d", {"x", "y"}, "%r = arith.mulf %a0, %a1 : " + type,
                     type);
      text.pointwise("s", "d", {"p", "z"}, "%r = arith.addf %a0, %a1 : " + type,
                     type);
      text.pointwise("t", "d", {"p", "z"}, "%r = arith.subf %a1, %a0 : " + type,
                     type);
      if (isRead)
        text.output("p");
      text.output("s");
      text.output("t");
      const std::string ptx = assemble(text).ptx;
      const int perThread = count(ptx, "\\bfma\\.rn\\." + type) +
                            count(ptx, "\\badd\\.rn\\." + type) +
                            count(ptx, "\\bsub\\.rn\\." + type);
      EXPECT_GT(perThread, 0);
      EXPECT_EQ(count(ptx, "\\bfma\\.rn\\." + type), isRead ? 0 : perThread);
      EXPECT_EQ(count(ptx, "\\bmul\\.rn\\." + type),
                isRead ? perThread / 2 : 0);
      EXPECT_EQ(count(ptx, "\\b(mul|add|sub)\\." + type), 0);
    }
}

TEST(Ptx, TransposesGoThroughSharedMemory) {
  for (auto [type, p, q, registers] :
       {std::tuple("f32", 4096, 1024, 22), std::tuple("bf16", 4096, 1024, 32),
        std::tuple("f32", 4095, 1023, 28)}) {
    SCOPED_TRACE(std::string(type) + " " + std::to_string(p));
    ProgramText text;
    text.dim("p", p);
    text.dim("q", q);
    text.input("x", "p q", type);
    text.input("w", "p", type);
    text.pointwise("y", "q p", {"x", "w"},
                   std::string("%r = arith.addf %a0, %a1 : ") + type, type);
    text.output("y");
    Assembly assembly = assemble(text);
    if (p == 4096) {
      // 16 bytes of each tensor at once: a tile has 1024 elements of 32 bits,
      // 4096 of 16 bits. A thread's chunks have one place along p.
      const int chunks = type[0] == 'f' ? 1 : 2;
      const int lanes = type[0] == 'f' ? 4 : 8;
      EXPECT_EQ(count(assembly.ptx, "ld\\.global\\.nc\\.v4"), chunks + 1);
      EXPECT_EQ(count(assembly.ptx, "st\\.global\\.v4"), chunks);
      EXPECT_EQ(count(assembly.ptx, "(ld|st)\\.global"), 2 * chunks + 1);
      EXPECT_EQ(count(assembly.ptx, "ld\\.shared"), lanes * chunks);
      EXPECT_EQ(count(assembly.ptx, "st\\.shared"), lanes * chunks);
    } else {
      // Element by element, neighbours by neighbouring threads.
      EXPECT_EQ(count(assembly.ptx, "ld\\.global\\.nc\\.(b|f)32"),
                count(assembly.ptx, "ld\\.global"));
      EXPECT_EQ(count(assembly.ptx, "st\\.global\\.(b|f)32"), 4);
      EXPECT_EQ(count(assembly.ptx, "ld\\.shared\\.(b|f)32"), 4);
      EXPECT_EQ(count(assembly.ptx, "st\\.shared\\.(b|f)32"), 4);
    }
    EXPECT_EQ(count(assembly.ptx, "bar\\.sync|barrier"), 1);
    expectResources(assembly, {registers});
  }
}

/// Four parameters of momentum's update: one body, wide accesses but for the
/// rests.
TEST(Ptx, UpdatesShareOneBody) {
  ProgramText text;
  int number = 0;
  for (int64_t size : {1 << 20, 4096, 5, 1001}) {
    const std::string n = std::to_string(number++);
    text.dim("d" + n, size);
    for (const char *name : {"w", "g", "v"})
      text.input(name + n, "d" + n);
    text.pointwise("new_v" + n, "d" + n, {"v" + n, "g" + n},
                   "%c = arith.constant 0.875 : f32\n"
                   "%o = arith.mulf %a0, %c : f32\n"
                   "%r = arith.addf %o, %a1 : f32");
    text.pointwise("new_w" + n, "d" + n, {"w" + n, "new_v" + n},
                   "%c = arith.constant 0.125 : f32\n"
                   "%o = arith.mulf %a1, %c : f32\n"
                   "%r = arith.subf %a0, %o : f32");
    text.output("new_v" + n);
    text.output("new_w" + n);
  }
  Assembly assembly = assemble(text);
  EXPECT_EQ(count(assembly.ptx, "\\.entry"), 1);
  EXPECT_THAT(assembly.ptx, HasSubstr("kernel_0_of_4"));
  EXPECT_EQ(count(assembly.ptx, "ld\\.global\\.nc\\.v4"), 2 * 3);
  EXPECT_EQ(count(assembly.ptx, "st\\.global\\.v4"), 2 * 2);
  EXPECT_EQ(count(assembly.ptx, "ld\\.global"), 2 * 3 + 3);
  EXPECT_EQ(count(assembly.ptx, "st\\.global"), 2 * 2 + 2);
  expectResources(assembly, {32});
}

/// What is computed from 16-bit floats is computed in f32 and rounded, two
/// numbers by one instruction, the upper half first: two chunks of eight.
/// Before sm_80 half of the last place is added to the bits of what becomes
/// bf16.
TEST(Ptx, OneInstructionRoundsTwoNumbersTo16Bits) {
  for (const std::string type : {"bf16", "f16"}) {
    ProgramText text;
    text.dim("d", 1 << 20);
    text.input("x", "d", type);
    text.input("y", "d", type);
    text.pointwise("z", "d", {"x", "y"}, "%r = arith.mulf %a0, %a1 : " + type,
                   type);
    text.output("z");
    for (const std::string architecture : {"sm_90", "sm_80", "sm_75"}) {
      SCOPED_TRACE(type + " on " + architecture);
      Assembly assembly = assemble(text, architecture);
      const bool hasPairs = architecture != "sm_75";
      EXPECT_EQ(count(assembly.ptx, "cvt\\.rn\\." + type + "x2\\.f32"),
                hasPairs ? 8 : 0);
      EXPECT_EQ(count(assembly.ptx, "cvt\\.rn\\." + type + "\\.f32"),
                !hasPairs && type == "f16" ? 16 : 0);
      EXPECT_EQ(count(assembly.ptx, "32767"),
                !hasPairs && type == "bf16" ? 16 : 0);
      EXPECT_EQ(count(assembly.ptx, "mul(\\.rn)?\\.f32"), 16);
      EXPECT_EQ(count(assembly.ptx, "mul(\\.rn)?\\.b?f16"), 0);
    }
  }
}

TEST(Ptx, FunctionsCallNoLibrary) {
  for (const std::string type : {"f32", "f64"}) {
    ProgramText text;
    text.dim("d", 1024);
    text.input("x", "d", type);
    text.pointwise(
        "y", "d", {"x"},
        "%a = math.exp %a0 : " + type + "\n%b = math.log %a : " + type +
            "\n%c = math.tanh %b : " + type + "\n%d = math.erf %c : " + type +
            "\n%e = math.cos %d : " + type + "\n%f = math.sqrt %e : " + type +
            "\n%r = math.powf %f, %a0 : " + type,
        type);
    text.output("y");
    Assembly assembly = assemble(text);
    EXPECT_THAT(assembly.ptx, Not(HasSubstr("call")));
    EXPECT_THAT(assembly.ptx, Not(HasSubstr(".extern .func")));
    EXPECT_THAT(assembly.ptx, Not(HasSubstr(".local")));
  }
}

TEST(Ptx, SoftmaxReadsAndWritesOnce) {
  Assembly assembly = assemble(getSoftmax(64, 4096));
  EXPECT_EQ(count(assembly.ptx, "ld\\.global\\.nc\\.v4"), 4);
  EXPECT_EQ(count(assembly.ptx, "st\\.global\\.v4"), 4);
  EXPECT_EQ(count(assembly.ptx, "(ld|st)\\.global"), 8);
  // Two reductions: within warps, over the eight warps.
  EXPECT_EQ(count(assembly.ptx, "shfl\\.sync"), 2 * (5 + 3));
  EXPECT_EQ(count(assembly.ptx, "bar\\.sync|barrier"), 2);
  expectResources(assembly, {32});
}

TEST(Ptx, AWarpPerShortRow) {
  Assembly assembly = assemble(getSoftmax(64, 512));
  EXPECT_EQ(count(assembly.ptx, "bar\\.sync|barrier"), 0);
  EXPECT_EQ(count(assembly.ptx, "(ld|st)\\.global"), 8);
  EXPECT_EQ(count(assembly.ptx, "\\.shared"), 0);
  expectResources(assembly, {32});
}

TEST(Ptx, ColumnSumsHaveWideAccesses) {
  ProgramText text;
  text.dim("b", 4096);
  text.dim("d", 1024);
  text.input("x", "b d");
  text.reduce("s", "d", {"x"}, "arith.addf", "0.0");
  text.output("s");
  Assembly assembly = assemble(text);
  EXPECT_GE(count(assembly.ptx, "ld\\.global\\.nc\\.v4"), 1);
  EXPECT_THAT(assembly.ptx, HasSubstr("kernel_0_sum"));
  expectResources(assembly, {32, 26});
}

/// 16-bit floats are accessed 16 bytes at a time beside f32 of the same
/// columns, which take two accesses, and beside f32 that a row has once.
TEST(Ptx, HalvesBesideFloatsAreWide) {
  const std::vector<std::pair<const char *, ProgramText>> programs = {
      {"to f32", getConversion(1 << 20, "bf16", "f32")},
      {"to f16", getConversion(1 << 20, "f32", "f16")},
      {"column sum", getColumnSum(4096, 1024, "bf16")},
      {"layer norm", getLayerNorm(8192, 2048, "bf16")},
      {"norm gradient", getNormGradient(8192, 2048, "f16")},
      {"cross entropy", getCrossEntropy(4096, 4096, "bf16")},
      {"update", getAdam({1 << 20, 4096}, "bf16")}};
  for (const auto &[name, text] : programs) {
    SCOPED_TRACE(name);
    const std::string ptx = assemble(text).ptx;
    EXPECT_GE(count(ptx, "ld\\.global\\.nc\\.v4"), 1);
    EXPECT_EQ(count(ptx, "(ld|st)\\.global(\\.nc)?\\.v2"), 0) << ptx;
  }
}

/// Of the loads and stores of a function's global memory, in the order of its
/// text, the first letters of those between its first label and its last.
std::string getLoopAccesses(const std::string &ptx,
                            const std::string &function) {
  const size_t begin = ptx.find(".entry " + function + "(");
  EXPECT_NE(begin, std::string::npos) << function;
  const std::string body = ptx.substr(begin, ptx.find("\n}", begin) - begin);
  const std::regex access("(ld|st)\\.global|^\\$L__BB|\\bbra\\b",
                          std::regex::multiline);
  std::string order;
  for (std::sregex_iterator match(body.begin(), body.end(), access), end;
       match != end; ++match)
    order += (*match)[1] == "ld" ? 'l' : (*match)[1] == "st" ? 's' : '|';
  return order;
}

/// An operand whose memory the result takes: nothing may be read ahead of a
/// store by the assembler.
std::string getInPlacePtx(const ProgramText &text) {
  return assemble(text.str(), "sm_90", /*isShared=*/true).ptx;
}

/// Where a row is read again by every stage four chunks are read before one is
/// written, also if they lie in the same memory.
TEST(Ptx, LoopedRowsReadAhead) {
  const std::string order =
      getLoopAccesses(getInPlacePtx(getSoftmax(64, 65536)), "kernel_0");
  EXPECT_THAT(order, HasSubstr("|llllssss|")) << order;
  EXPECT_EQ(count(order, "s"), 4) << order;
}

/// Eight parts of a sum are loaded before they are added.
TEST(Ptx, PartsAreReadAhead) {
  const std::string ptx = assemble(getColumnSum(8192, 16384)).ptx;
  const std::string order = getLoopAccesses(ptx, "kernel_0_sum");
  EXPECT_THAT(order, HasSubstr("llllllll")) << order;
}

/// Two rows of two operands, and of the result, of a gradient that is summed.
TEST(Ptx, SummedRowsThatAreStoredReadAhead) {
  for (const std::string type : {"f32", "bf16"}) {
    SCOPED_TRACE(type);
    const std::string order = getLoopAccesses(
        getInPlacePtx(getSummedGeluGradient(8192, 4096, type)), "kernel_0");
    EXPECT_THAT(order, HasSubstr("|llllss|")) << order;
  }
}

//===-- Families ----------------------------------------------------------===//

/// The windows of 3 by 3 that a convolution of stride 2 sees of an image.
std::string getWindows(const std::string &type) {
  const std::string element = "], " + type + ", <>";
  return getViewProgram(R"(["b"=32, "v"=65, "w"=65, "c"=64)" + element,
                        R"("v" = 2 "r" + "k" - 1, "w" = 2 "s" + "l" - 1)",
                        R"(["b"=32, "r"=33, "s"=33, "k"=3, "l"=3, "c"=64)" +
                            element);
}

std::string getTableGather(const std::string &type) {
  return getGatherProgram(R"(["v"=32000, "c"=1024], )" + type + ", <>",
                          R"(["b"=4, "p"=512], i32, <>)",
                          R"(["b"=4, "p"=512, "c"=1024], )" + type + ", <>");
}

/// With the gradient of everything that goes with it: a sum, a conversion.
std::string getTableGradient(const std::string &type) {
  return getGatherGradient(
      R"(["v"=1009, "c"=256], )" + type, R"(["b"=4, "p"=128], i32)",
      R"(["b"=4, "p"=128, "c"=256], )" + type, "[], " + type);
}

std::string getNumbers(const std::string &distribution,
                       const std::string &type) {
  return getRandomProgram(distribution, 5,
                          R"(["a"=1024, "b"=1000], )" + type + ", <>");
}

/// A family of kernels, and the registers of its functions by architecture, as
/// expectResources takes them.
struct Family {
  const char *name;
  std::string (*write)();
  std::vector<int> sm80, sm90;
};
void PrintTo(const Family &family, std::ostream *out) { *out << family.name; }

class PtxFamilies : public ::testing::TestWithParam<Family> {};

const std::vector<Family> families = {
    {"elementwise_f32",
     [] { return getProduct(1 << 20, "f32").str(); },
     {26},
     {26}},
    {"elementwise_bf16",
     [] { return getProduct(1 << 20, "bf16").str(); },
     {32},
     {32}},
    {"conversion_to_bf16",
     [] { return getConversion(1 << 20, "f32", "bf16").str(); },
     {22},
     {26}},
    {"conversion_to_f32",
     [] { return getConversion(1 << 20, "bf16", "f32").str(); },
     {24},
     {24}},
    {"gelu_f32", [] { return getGelu(1 << 20).str(); }, {32}, {30}},
    {"gelu_bf16", [] { return getGelu(1 << 20, "bf16").str(); }, {32}, {32}},
    {"gelu_gradient_f32",
     [] { return getGeluGradient(1 << 20).str(); },
     {32},
     {32}},
    {"gelu_gradient_bf16",
     [] { return getGeluGradient(1 << 20, "bf16").str(); },
     {38},
     {34}},
    {"logistic_f32", [] { return getLogistic(1 << 20).str(); }, {26}, {26}},
    {"logistic_bf16",
     [] { return getLogistic(1 << 20, "bf16").str(); },
     {32},
     {32}},
    {"softmax_gradient_f32",
     [] { return getSoftmaxGradient(64, 4096).str(); },
     {48},
     {48}},
    {"softmax_gradient_bf16",
     [] { return getSoftmaxGradient(64, 4096, "bf16").str(); },
     {77},
     {78}},
    {"softmax_f32", [] { return getSoftmax(64, 4096).str(); }, {32}, {35}},
    {"softmax_bf16",
     [] { return getSoftmax(64, 4096, "bf16").str(); },
     {64},
     {48}},
    {"layer_norm_f32",
     [] { return getLayerNorm(8192, 2048).str(); },
     {40},
     {40}},
    {"layer_norm_bf16",
     [] { return getLayerNorm(8192, 2048, "bf16").str(); },
     {63},
     {63}},
    {"norm_gradient_f32",
     [] { return getNormGradient(8192, 2048).str(); },
     {119, 30},
     {119, 30}},
    {"norm_gradient_bf16",
     [] { return getNormGradient(8192, 2048, "bf16").str(); },
     {122, 30},
     {123, 30}},
    {"cross_entropy_f32",
     [] { return getCrossEntropy(4096, 32000).str(); },
     {52},
     {54}},
    {"cross_entropy_bf16",
     [] { return getCrossEntropy(4096, 32000, "bf16").str(); },
     {55},
     {51}},
    {"column_sum_f32",
     [] { return getColumnSum(4096, 1024).str(); },
     {32, 26},
     {32, 26}},
    {"column_sum_bf16",
     [] { return getColumnSum(4096, 1024, "bf16").str(); },
     {40, 26},
     {40, 26}},
    {"summed_gelu_gradient_f32",
     [] { return getSummedGeluGradient(8192, 4096).str(); },
     {43, 26},
     {43, 26}},
    {"summed_gelu_gradient_bf16",
     [] { return getSummedGeluGradient(8192, 4096, "bf16").str(); },
     {48, 26},
     {48, 26}},
    {"mean_square_f32",
     [] { return getMeanSquare(8 * 2048, 2048).str(); },
     {32, 11},
     {32, 12}},
    {"mean_square_bf16",
     [] { return getMeanSquare(8191, 2047, "bf16").str(); },
     {40, 12},
     {39, 12}},
    {"transpose_f32",
     [] { return getTranspose(4096, 1024).str(); },
     {22},
     {22}},
    {"transpose_bf16",
     [] { return getTranspose(4096, 1024, "bf16").str(); },
     {31},
     {32}},
    {"windows_f32", [] { return getWindows("f32"); }, {20}, {22}},
    {"windows_bf16", [] { return getWindows("bf16"); }, {23}, {23}},
    {"gather_f32", [] { return getTableGather("f32"); }, {18}, {18}},
    {"gather_bf16", [] { return getTableGather("bf16"); }, {17}, {18}},
    {"gather_gradient_f32",
     [] { return getTableGradient("f32"); },
     {32, 11, 31, 31, 30, 22, 16, 16, 12, 64},
     {32, 11, 34, 34, 34, 26, 16, 16, 14, 64}},
    {"gather_gradient_bf16",
     [] { return getTableGradient("bf16"); },
     {32, 11, 31, 31, 30, 22, 16, 16, 12, 38, 22},
     {32, 11, 34, 34, 34, 26, 16, 16, 14, 42, 24}},
    {"uniform_f32",
     [] { return getNumbers("uniform(-1.0, 3.0)", "f32"); },
     {26},
     {28}},
    {"uniform_bf16",
     [] { return getNumbers("uniform(-1.0, 3.0)", "bf16"); },
     {48},
     {48}},
    {"normal_f32",
     [] { return getNumbers("normal(0.0, 3.0)", "f32"); },
     {36},
     {32}},
    {"normal_bf16",
     [] { return getNumbers("normal(0.0, 3.0)", "bf16"); },
     {55},
     {61}},
    {"update_f32",
     [] {
       return getAdam({1 << 20, 4096, 5, 1001}).str();
     },
     {40},
     {40}},
    {"update_bf16",
     [] {
       return getAdam({1 << 20, 4096, 5, 1001}, "bf16").str();
     },
     {42},
     {38}},
};

INSTANTIATE_TEST_SUITE_P(Of, PtxFamilies, ::testing::ValuesIn(families),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

TEST_P(PtxFamilies, HaveTheirRegisters) {
  const std::string text = GetParam().write();
  for (const auto &[architecture, registers] :
       {std::pair("sm_80", GetParam().sm80),
        std::pair("sm_90", GetParam().sm90)}) {
    SCOPED_TRACE(architecture);
    expectResources(assemble(text, architecture), registers);
  }
}

/// What 64-bit arithmetic of several instructions there is: products that are
/// not of two 32-bit numbers, quotients.
int countWideArithmetic(const std::string &ptx) {
  return count(ptx, "\\b(mul|mad)\\.(lo|hi)\\.[us]64") +
         count(ptx, "\\b(div|rem)\\.[us]64");
}

/// Positions, places in memory, counters of random numbers: all of them fit 32
/// bits here, or are products of two such numbers.
TEST_P(PtxFamilies, CountIn32Bits) {
  const Assembly assembly = assemble(GetParam().write());
  EXPECT_EQ(countWideArithmetic(assembly.ptx), 0) << assembly.ptx;
  // Sizes are static: what quotients there are is a product with a constant.
  EXPECT_EQ(count(assembly.ptx, "\\b(div|rem)\\.[us]32"), 0) << assembly.ptx;
}

/// Quotients and roots whose rounding is correct take a branch to a function
/// for numbers of unusual size, which the assembler moves no load across.
TEST_P(PtxFamilies, HaveNoBranchesInArithmetic) {
  const Assembly assembly = assemble(GetParam().write());
  EXPECT_EQ(count(assembly.ptx, "\\b(div|sqrt|rcp)\\.rn\\.f32"), 0)
      << assembly.ptx;
  EXPECT_THAT(assembly.ptx, Not(HasSubstr("call")));
}

/// Of f32, the quotients that become integers alone.
TEST(Ptx, QuotientsThatBecomeIntegersAreRoundedCorrectly) {
  for (const std::string type : {"f32", "i32"}) {
    ProgramText text;
    text.dim("d", 1024);
    text.input("x", "d");
    text.input("y", "d");
    text.pointwise("z", "d", {"x", "y"},
                   type == "f32" ? "%r = arith.divf %a0, %a1 : f32"
                                 : "%q = arith.divf %a0, %a1 : f32\n"
                                   "%r = arith.fptosi %q : f32 to i32",
                   type);
    text.output("z");
    const Assembly assembly = assemble(text);
    EXPECT_EQ(count(assembly.ptx, "div\\.full\\.f32") > 0, type == "f32");
    EXPECT_EQ(count(assembly.ptx, "div\\.rn\\.f32") > 0, type == "i32");
  }
}

/// A GPU of 132 processors issues 128 instructions in the time in which its
/// memory copies an f32 or two bf16 (H200: 4.3 TB/s, 1.755 GHz), so functions
/// may take some twenty.
TEST(Ptx, FunctionsTakeFewInstructions) {
  struct Case {
    const char *name;
    ProgramText (*write)(int64_t, const std::string &);
    int instructions; ///< of PTX, each element
    int powers, reciprocals;
  };
  for (const auto &[name, write, instructions, powers, reciprocals] :
       {Case{"gelu", getGelu, 18, 1, 0},
        Case{"gelu's gradient", getGeluGradient, 32, 2, 0},
        Case{"logistic", getLogistic, 15, 1, 1}}) {
    SCOPED_TRACE(name);
    for (const std::string type : {"f32", "bf16"}) {
      const std::string ptx = assemble(write(1 << 20, type)).ptx;
      const int elements =
          count(ptx, "st\\.global\\.v4") * (type == "f32" ? 4 : 8);
      ASSERT_GT(elements, 0);
      EXPECT_LE(count(ptx, "\n\t[a-z@][^\n]*;"),
                elements * (instructions + (type == "f32" ? 0 : 4)) + 40);
      EXPECT_EQ(count(ptx, "ex2\\.approx\\.ftz\\.f32"), elements * powers);
      EXPECT_EQ(count(ptx, "rcp\\.approx\\.ftz\\.f32"), elements * reciprocals);
    }
  }
}

/// Of rows that no thread's registers hold: they are read again, not spilt.
TEST(Ptx, LongRowsDoNotSpill) {
  for (const std::string type : {"f32", "bf16"})
    for (int64_t columns : {8192, 16384, 32768}) {
      SCOPED_TRACE(type + " " + std::to_string(columns));
      for (const ProgramText &text :
           {getNormGradient(64, columns, type), getLayerNorm(64, columns, type),
            getSoftmax(64, columns, type), getCrossEntropy(64, columns, type)})
        expectNoSpills(assemble(text));
    }
}

/// Nor do sums in blocks, whose accumulators are there twice: rows of several
/// warps and of one, parts of more than a block of them, many passes of a part.
TEST(Ptx, LongSumsDoNotSpill) {
  constexpr int64_t many = int64_t(1) << 20;
  for (const std::string type : {"f32", "bf16"}) {
    const std::vector<std::pair<const char *, ProgramText>> programs = {
        {"column sum", getColumnSum(many, 1024, type)},
        {"norm gradient, 512", getNormGradient(many, 512, type)},
        {"norm gradient, 1024", getNormGradient(many, 1024, type)},
        {"norm gradient, 4096", getNormGradient(many, 4096, type)},
        {"norm gradient, 8192", getNormGradient(many, 8192, type)},
        {"norm gradient, 32768", getNormGradient(32768, 32768, type)},
        {"gelu gradient", getSummedGeluGradient(many, 1024, type)},
        {"mean square", getMeanSquare(many, 4096, type)},
        {"softmax", getSoftmax(1, many, type)}};
    for (const auto &[name, text] : programs) {
      SCOPED_TRACE(type + " " + name);
      expectNoSpills(assemble(text));
    }
  }
}

TEST(Ptx, MovesCountIn32Bits) {
  for (const bool isWide : {false, true}) {
    auto context = makeContext();
    auto module = mlir::OwningOpRef<mlir::ModuleOp>(
        mlir::ModuleOp::create(mlir::UnknownLoc::get(context.get())));
    codegen::GpuKernelTarget target(*module);
    auto kernels = *module->getOps<mlir::gpu::GPUModuleOp>().begin();
    for (auto [kind, element] :
         {std::pair(exec::ReduceKind::none, exec::ElementType::f32),
          std::pair(exec::ReduceKind::none, exec::ElementType::boolean),
          std::pair(exec::ReduceKind::sum, exec::ElementType::i8),
          std::pair(exec::ReduceKind::sum, exec::ElementType::i16),
          std::pair(exec::ReduceKind::sum, exec::ElementType::bf16),
          std::pair(exec::ReduceKind::max, exec::ElementType::f64)})
      codegen::emitMoveKernel(kind, element, isWide, kernels);
    const std::string ptx = getPtx(kernels, "sm_90");
    EXPECT_EQ(count(ptx, "\\.entry"), 6);
    EXPECT_EQ(countWideArithmetic(ptx) > 0, isWide) << ptx;
    if (!isWide) {
      EXPECT_EQ(count(ptx, "\\b(div|rem)\\.[us]32"), 0) << ptx;
    }
    EXPECT_THAT(ptx, Not(HasSubstr(".local")));
    EXPECT_GE(count(ptx, "ld\\.global(\\.nc)?\\.v4"), 4);
  }
}

/// Of more elements than 32 bits number.
TEST(Ptx, WidePutsDoNotSpill) {
  const Assembly assembly = assemble(R"(
nd.mesh ["x"=1]
spmd.program @p {
  %x = spmd.input "x" of !nd.tensor<["t"=3000000, "c"=1024], bf16, <>> : tensor<3000000x1024xbf16>
  %i = spmd.input "i" of !nd.tensor<["t"=3000000], i64, <>> : tensor<3000000xi64>
  %y = spmd.put %x[%i] {indexing_maps = [affine_map<(v, c, t) -> (t, c)>,
      affine_map<(v, c, t) -> (t)>, affine_map<(v, c, t) -> (v, c)>]}
      : tensor<3000000x1024xbf16>, tensor<3000000xi64> -> tensor<50257x1024xf32>
  spmd.output "y" of !nd.tensor<["v"=50257, "c"=1024], f32, <>>, %y : tensor<50257x1024xf32>
})");
  EXPECT_GT(countWideArithmetic(assembly.ptx), 0);
  expectNoSpills(assembly);
}

} // namespace
