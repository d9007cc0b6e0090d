// What only GPU kernels do: several warps per row, rows that do not fit into
// registers, sums in two launches, tails, types that shuffles do not know.
// Sizes as of real models are in the range of fibers.

#include "codegen/gpu/GpuImages.h"
#include "codegen/gpu/GpuKernelTarget.h"

#include "codegen/gpu/MoveKernels.h"
#include "codegen/steps/FormSteps.h"
#include "runtime/exec/Executable.h"
#include "runtime/exec/GpuKernels.h"
#include "tests/codegen/KernelFamilies.h"
#include "tests/codegen/KernelRunner.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Verifier.h"

#include "gmock/gmock.h"

#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

using namespace meshc;
using namespace meshc::test;
using ::testing::HasSubstr;

namespace {

class GpuRows : public ::testing::TestWithParam<std::pair<int64_t, int64_t>> {};

// A warp per row; several warps; with a remainder; too long for registers.
INSTANTIATE_TEST_SUITE_P(
    Sizes, GpuRows,
    ::testing::Values(std::pair(3, 1024), std::pair(5, 1028),
                      std::pair(2, 4096), std::pair(2, 4100),
                      std::pair(3, 5001), std::pair(1, 16384),
                      std::pair(1, 33000), std::pair(2, 40004)));

TEST_P(GpuRows, Softmax) {
  expectAgreement(getSoftmax(GetParam().first, GetParam().second));
}

TEST_P(GpuRows, SumsOfWholeTensors) {
  ProgramText text;
  text.dim("b", GetParam().first);
  text.dim("d", GetParam().second);
  text.input("x", "b d");
  text.reduce("s", "", {"x"}, "arith.addf", "0.25");
  text.output("s");
  expectAgreement(text, {}, 1e-4);
}

class GpuColumns
    : public ::testing::TestWithParam<std::pair<int64_t, int64_t>> {};

// One part; several; of unequal length in one warp, and in several; two warps a
// row; more parts than long rows have, of equal and unequal length.
INSTANTIATE_TEST_SUITE_P(
    Sizes, GpuColumns,
    ::testing::Values(std::pair(3, 512), std::pair(8, 64), std::pair(37, 7),
                      std::pair(101, 10), std::pair(67, 256),
                      std::pair(41, 1500), std::pair(19, 4096),
                      std::pair(37, 1024), std::pair(4000, 8),
                      std::pair(4003, 8)));

TEST_P(GpuColumns, NormGradient) {
  expectAgreement(getNormGradient(GetParam().first, GetParam().second), {},
                  1e-5);
}

/// What is summed and stored, where an operand was.
TEST_P(GpuColumns, StoredSums) {
  ProgramText text;
  text.dim("b", GetParam().first);
  text.dim("d", GetParam().second);
  text.dim("k", 2);
  text.input("p", "b k");
  text.input("q", "k d");
  text.input("w", "b d");
  text.contraction("x", "b d", "p", "q");
  text.pointwise("y", "b d", {"x", "w"}, "%r = arith.mulf %a0, %a1 : f32");
  text.reduce("s", "d", {"y"}, "arith.addf", "0.5");
  text.output("y");
  text.output("s");
  expectAgreement(text, {}, 1e-5);
}

TEST_P(GpuColumns, Sums) {
  ProgramText text;
  text.dim("b", GetParam().first);
  text.dim("d", GetParam().second);
  text.input("x", "b d");
  text.reduce("s", "d", {"x"}, "arith.addf", "0.5");
  text.reduce("m", "d", {"x"}, "arith.maximumf", "-1.0");
  text.output("s");
  text.output("m");
  expectAgreement(text, {}, 1e-5);
}

/// Parts of more elements than threads that a GPU has for them: eight, four,
/// two threads and one for an element.
TEST(GpuKernels, PartsOfManyElements) {
  for (auto [rows, columns] : {std::pair(40, 8200), std::pair(36, 20003),
                               std::pair(9, 40000), std::pair(20, 70000)}) {
    SCOPED_TRACE(columns);
    expectAgreement(getColumnSum(rows, columns), {}, 1e-5);
  }
}

TEST_P(GpuColumns, Transposes) {
  ProgramText text;
  text.dim("b", GetParam().first);
  text.dim("d", GetParam().second);
  text.input("x", "b d");
  text.input("w", "d");
  text.pointwise("y", "d b", {"x", "w"}, "%r = arith.addf %a0, %a1 : f32");
  text.output("y");
  expectAgreement(text);
}

//===-- Tiles -------------------------------------------------------------===//

class GpuTiles : public ::testing::TestWithParam<std::pair<int64_t, int64_t>> {
};

// Whole tiles; tiles with a rest; rows that no vector divides; 16-bit floats in
// tiles of 64; too short for tiles on one side.
INSTANTIATE_TEST_SUITE_P(
    Sizes, GpuTiles,
    ::testing::Values(std::pair(32, 64), std::pair(64, 128), std::pair(72, 136),
                      std::pair(33, 47), std::pair(50, 34), std::pair(36, 31),
                      std::pair(100, 7)));

TEST_P(GpuTiles, StagesInputsAndOutputs) {
  for (const std::string type : {"f32", "f64", "i32", "i1", "bf16", "f16"}) {
    const std::string add = type == "i1"     ? "arith.xori"
                            : type[0] == 'i' ? "arith.addi"
                                             : "arith.addf";
    auto sum = [&](const std::string &a, const std::string &b) {
      return "%r = " + add + " " + a + ", " + b + " : " + type;
    };
    ProgramText text;
    text.dim("n", 3);
    text.dim("p", GetParam().first);
    text.dim("q", GetParam().second);
    for (const char *name : {"x", "y"})
      text.input(name, "n p q", type);
    for (const char *name : {"u", "v"})
      text.input(name, "q n p", type);
    text.input("w", "p", type);
    text.pointwise(
        "along", "n p q", {"x", "u", "w"},
        "%s = " + add + " %a0, %a1 : " + type + "\n" + sum("%s", "%a2"), type);
    text.pointwise("across", "q n p", {"v", "y"}, sum("%a0", "%a1"), type);
    text.output("along");
    text.output("across");
    SCOPED_TRACE(type);
    expectAgreement(text, {}, type == "bf16" ? 1e-2 : 2e-3);
  }
}

/// Staged and other tensors in one kernel, some of which take dead ones'
/// memory.
TEST_P(GpuTiles, ResultsTakeTheMemoryOfOperands) {
  ProgramText text;
  text.dim("k", 2);
  text.dim("p", GetParam().first);
  text.dim("q", GetParam().second);
  text.input("a", "p k");
  text.input("b", "k q");
  text.contraction("x", "p q", "a", "b");
  text.contraction("y", "q p", "b", "a");
  text.pointwise("along", "p q", {"x", "y"},
                 "%t = math.tanh %a0 : f32\n%r = arith.subf %t, %a1 : f32");
  text.pointwise("across", "q p", {"x", "y"},
                 "%t = math.exp %a0 : f32\n%r = arith.mulf %t, %a1 : f32");
  text.output("along");
  text.output("across");
  expectAgreement(text);
}

/// Sums across rows that are too long for registers: one part, several parts,
/// rows that no vector divides.
TEST(GpuKernels, SumsAcrossLongRows) {
  for (auto [rows, columns] : {std::pair(2, 40000), std::pair(11, 33003)}) {
    SCOPED_TRACE(rows);
    ProgramText text = getNormGradient(rows, columns);
    text.reduce("all", "", {"gx"}, "arith.addf", "0.5");
    text.reduce("most", "d", {"x"}, "arith.maximumf", "0.25");
    text.output("all");
    text.output("most");
    expectAgreement(text, {}, 1e-4);
  }
}

/// Rows that are too long for registers and that CPUs would keep on the stack:
/// what is computed from an operand again must not find a result in its place.
TEST(GpuKernels, LongRowsTakeTheMemoryOfOperandsOnceTheyAreRead) {
  for (auto [columns, numOperands] :
       {std::pair(10001, 1), std::pair(12288, 3)}) {
    SCOPED_TRACE(columns);
    ProgramText text;
    text.dim("b", 3);
    text.dim("k", 2);
    text.dim("d", columns);
    text.input("a", "b k");
    std::vector<std::string> operands;
    for (int number = 0; number < numOperands; ++number) {
      const std::string suffix = std::to_string(number);
      text.input("w" + suffix, "k d");
      operands.push_back("x" + suffix);
      text.contraction(operands.back(), "b d", "a", "w" + suffix);
    }
    std::string exponent = "%a0";
    std::string body;
    for (int number = 1; number < numOperands; ++number) {
      const std::string next = "%t" + std::to_string(number);
      body += next + " = arith.addf " + exponent + ", %a" +
              std::to_string(number) + " : f32\n";
      exponent = next;
    }
    text.pointwise("e", "b d", operands,
                   body + "%r = math.exp " + exponent + " : f32");
    text.reduce("s", "b", {"e"}, "arith.addf", "0.0");
    text.pointwise("y", "b d", {"e", "s"}, "%r = arith.divf %a0, %a1 : f32");
    text.pointwise("z", "b d", {"x0"}, "%r = arith.addf %a0, %a0 : f32");
    text.output("y");
    text.output("z");
    expectAgreement(text, {}, 1e-5);
  }
}

//===-- Reductions of what is too long for one block ----------------------===//

class GpuParts : public ::testing::TestWithParam<std::pair<int64_t, int64_t>> {
};

// Whole passes; with a rest of chunks; with a tail of elements, in one row and
// in rows that no vector divides; several passes for a block, the last of which
// has fewer.
INSTANTIATE_TEST_SUITE_P(Sizes, GpuParts,
                         ::testing::Values(std::pair(1, 65536),
                                           std::pair(3, 33000),
                                           std::pair(1, 300001),
                                           std::pair(3, 60001),
                                           std::pair(89, 9301)));

/// Whole tensors, from 32-bit and 16-bit floats. Squares of small integers, of
/// which no sum is rounded: none may be missing.
TEST_P(GpuParts, OfWholeTensors) {
  const auto [rows, columns] = GetParam();
  for (const std::string type : {"f32", "bf16"}) {
    SCOPED_TRACE(type);
    F64State state;
    std::mt19937 random(7);
    for (const std::string name : {"x", "y"}) {
      F64Tensor tensor({rows, columns});
      for (auto &element : tensor.elements)
        element = double(random() % 3);
      state.inputs[type == "f32" ? name : "narrow_" + name] = tensor;
    }
    expectAgreement(getMeanSquare(rows, columns, type), state, 1e-7);
  }
}

/// A tensor that neighbouring columns of the row do not step through as one.
TEST_P(GpuParts, OfSeveralDimensions) {
  const auto [rows, columns] = GetParam();
  ProgramText text;
  text.dim("b", rows + 1);
  text.dim("d", columns);
  text.input("x", "b d");
  text.input("w", "d");
  text.reduce("s", "", {"x", "w"}, "arith.maximumf", "-2.0",
              "%r = arith.mulf %a0, %a1 : f32");
  text.output("s");
  expectAgreement(text);
}

/// Of other types: what shuffles take in two words, and in less than one.
TEST_P(GpuParts, OfIntegers) {
  const auto [rows, columns] = GetParam();
  ProgramText text;
  text.dim("b", rows);
  text.dim("d", columns);
  text.input("x", "b d", "i64");
  text.reduce("most", "", {"x"}, "arith.maxsi", "-5", "", "i64");
  text.reduce("sum", "", {"x"}, "arith.addi", "1", "", "i64");
  text.reduce("all", "", {"x"}, "arith.andi", "1",
              "%c = arith.constant 3 : i64\n"
              "%r = arith.cmpi slt, %a0, %c : i64",
              "i1");
  for (const char *name : {"most", "sum", "all"})
    text.output(name);
  for (const bool all : {true, false}) {
    F64State state;
    F64Tensor tensor({rows, columns});
    for (size_t i = 0; i < tensor.elements.size(); ++i)
      tensor.elements[i] = int64_t(i % 3);
    if (!all)
      tensor.elements.back() = int64_t(7);
    state.inputs["x"] = tensor;
    expectAgreement(text, state);
  }
}

/// Several reductions of each row, what is computed of two of them, and a
/// result with columns, which may take an operand's memory.
TEST_P(GpuParts, OfRows) {
  const auto [rows, columns] = GetParam();
  ProgramText text;
  text.dim("b", rows);
  text.dim("d", columns);
  text.dim("k", 1);
  text.input("p", "b k");
  text.input("q", "k d");
  text.input("w", "d");
  text.contraction("x", "b d", "p", "q");
  text.reduce("sum", "b", {"x"}, "arith.addf", "0.5",
              "%r = arith.mulf %a0, %a0 : f32");
  text.reduce("most", "b", {"x", "w"}, "arith.maximumf", "-3.0",
              "%r = arith.mulf %a0, %a1 : f32");
  text.reduce("least", "b", {"x"}, "arith.minimumf", "3.0");
  text.pointwise("y", "b", {"sum", "most"}, "%r = arith.divf %a1, %a0 : f32");
  text.pointwise("z", "b d", {"x", "w"},
                 "%i = arith.index_cast $d : index to i32\n"
                 "%f = arith.sitofp %i : i32 to f32\n"
                 "%t = arith.mulf %a0, %a1 : f32\n"
                 "%r = arith.addf %t, %f : f32");
  for (const char *name : {"y", "z", "least", "most"})
    text.output(name);
  expectAgreement(text, {}, 1e-5);
}

TEST(GpuKernels, functions_without_a_formula_are_an_error) {
  ProgramText text;
  text.dim("d", 5);
  text.input("x", "d", "f64");
  text.pointwise("z", "d", {"x"}, "%r = math.tan %a0 : f64", "f64");
  text.output("z");
  auto context = makeContext();
  auto module = parse(*context, text.str());
  auto program = codegen::formSteps(module->lookupSymbol<spmd::ProgramOp>("p"),
                                    codegen::MatmulLibrary::CublasLt);
  ASSERT_TRUE(mlir::succeeded(program));
  auto kernels = mlir::OwningOpRef<mlir::ModuleOp>(
      mlir::ModuleOp::create(mlir::UnknownLoc::get(context.get())));
  codegen::GpuKernelTarget target(*kernels);
  ASSERT_TRUE(mlir::succeeded(
      emitStep(steps::getSteps(*program).front(), target, "k")));
  std::string message;
  mlir::ScopedDiagnosticHandler handler(context.get(),
                                        [&](mlir::Diagnostic &diagnostic) {
                                          message += diagnostic.str();
                                          return mlir::success();
                                        });
  EXPECT_TRUE(mlir::failed(codegen::compileGpuImages(
      *kernels->getOps<mlir::gpu::GPUModuleOp>().begin(), {"sm_90"})));
  EXPECT_THAT(message,
              HasSubstr("'math.tan' of 'f64' is not built for GPUs yet"));
}

//===-- Types -------------------------------------------------------------===//

struct TypeCase {
  const char *type, *add, *zero, *combine;
};

class GpuTypes : public ::testing::TestWithParam<TypeCase> {};

INSTANTIATE_TEST_SUITE_P(
    Types, GpuTypes,
    ::testing::Values(TypeCase{"f64", "arith.addf", "0.0", "arith.mulf"},
                      TypeCase{"i32", "arith.addi", "0", "arith.muli"},
                      TypeCase{"i64", "arith.addi", "0", "arith.muli"}),
    [](const auto &info) { return std::string(info.param.type); });

TEST_P(GpuTypes, RowsColumnsAndTails) {
  const auto [type, add, zero, combine] = GetParam();
  for (int64_t columns : {7, 130, 4098}) {
    ProgramText text;
    text.dim("b", 13);
    text.dim("d", columns);
    text.input("x", "b d", type);
    text.reduce("s", "b", {"x"}, add, zero, "", type);
    text.pointwise("y", "b d", {"x", "s"},
                   std::string("%r = ") + combine + " %a0, %a1 : " + type,
                   type);
    text.reduce("t", "d", {"x"}, add, zero, "", type);
    text.output("y");
    text.output("t");
    SCOPED_TRACE(columns);
    expectAgreement(text, {}, 1e-6);
  }
}

TEST(GpuKernels, TailsOfOneRow) {
  for (int64_t size : {1, 2, 3, 5, 6, 1025, 2050, 4099}) {
    ProgramText text;
    text.dim("d", size);
    text.input("x", "d");
    text.input("y", "d");
    text.pointwise("z", "d", {"x", "y"},
                   "%i = arith.index_cast $d : index to i32\n"
                   "%f = arith.sitofp %i : i32 to f32\n"
                   "%t = arith.mulf %a0, %a1 : f32\n"
                   "%r = arith.addf %t, %f : f32");
    text.output("z");
    SCOPED_TRACE(size);
    expectAgreement(text);
  }
}

/// A kernel of a module as it runs on the host.
static emulation::KernelFunction compileForHost(mlir::ModuleOp module,
                                                const std::string &name) {
  auto kernels = *module.getOps<mlir::gpu::GPUModuleOp>().begin();
  EXPECT_TRUE(mlir::succeeded(mlir::verify(module)));
  auto images = codegen::compileGpuImages(kernels, {"host"});
  if (mlir::failed(images))
    return nullptr;
  std::string error;
  const std::vector<uint8_t> &data = images->front().data;
  auto image = emulation::HostImage::load(
      {reinterpret_cast<const char *>(data.data()), data.size()}, error);
  EXPECT_TRUE(image) << error;
  return image ? image->find(name) : nullptr;
}

TEST(GpuKernels, threads_that_part_are_found) {
  auto context = makeContext();
  context->loadDialect<mlir::gpu::GPUDialect, mlir::LLVM::LLVMDialect,
                       mlir::scf::SCFDialect>();
  auto module = parse(*context, R"(
gpu.module @kernels {
  gpu.func @parted(%limit: i64) kernel {
    %end = arith.index_cast %limit : i64 to index
    %thread = gpu.thread_id x
    %isFirst = arith.cmpi ult, %thread, %end : index
    gpu.barrier
    scf.if %isFirst {
      gpu.barrier
    } else {
      gpu.barrier
    }
    gpu.return
  }
})");
  ASSERT_TRUE(module);
  auto kernel = compileForHost(*module, "parted");
  ASSERT_TRUE(kernel);
  for (auto [limit, message] :
       {std::pair<int64_t, std::string>{0, ""},
        {64, ""},
        {5, "kernel 'parted', block 0, thread 5 waits at barrier 3 while "
            "thread 0 waits at barrier 2"}}) {
    void *parameters[] = {&limit};
    EXPECT_EQ(emulation::launch(kernel, "parted", 1, 64, 0, parameters),
              message);
  }
}

//===-- Moves between devices ---------------------------------------------===//

/// The host images of the kernels that move data, whose parameter says whether
/// they are the wide ones.
class MoveKernels : public ::testing::TestWithParam<bool> {
protected:
  emulation::KernelFunction compile(exec::ReduceKind kind,
                                    exec::ElementType element) {
    context = makeContext();
    mlir::OwningOpRef<mlir::ModuleOp> module =
        mlir::ModuleOp::create(mlir::UnknownLoc::get(context.get()));
    codegen::GpuKernelTarget target(*module);
    auto kernels = *module->getOps<mlir::gpu::GPUModuleOp>().begin();
    codegen::emitMoveKernel(kind, element, GetParam(), kernels);
    return compileForHost(
        *module, runtime::getMoveKernelName(kind, element, GetParam()));
  }

  void run(emulation::KernelFunction kernel, runtime::MovePiece &piece,
           const std::vector<uint64_t> &sources,
           const std::vector<uint64_t> &targets) {
    piece.numSources = int64_t(sources.size());
    piece.numTargets = int64_t(targets.size());
    piece.sources = reinterpret_cast<uint64_t>(sources.data());
    piece.targets = reinterpret_cast<uint64_t>(targets.data());
    if (!GetParam())
      for (int64_t dim = 0; dim < piece.rank; ++dim)
        piece.divisors[dim] = runtime::getMoveDivisor(piece.sizes[dim]);
    void *address = &piece;
    void *parameters[] = {&address};
    ASSERT_EQ(emulation::launch(kernel, "move", 1, runtime::moveKernelThreads,
                                0, parameters),
              "");
  }

  std::unique_ptr<mlir::MLIRContext> context;
};

INSTANTIATE_TEST_SUITE_P(Arithmetic, MoveKernels,
                         ::testing::Values(false, true), [](const auto &info) {
                           return info.param ? "Wide" : "Narrow";
                         });

template <class T> uint64_t addressOf(T *pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

TEST_P(MoveKernels, SumsRunsInOrder) {
  auto kernel = compile(exec::ReduceKind::sum, exec::ElementType::f32);
  ASSERT_TRUE(kernel);
  // 1e8 + 1 - 1e8 is 0 in this order and 1 in another one.
  for (int64_t shift : {0, 1, 3}) {
    constexpr int64_t size = 1031;
    std::vector<std::vector<float>> sources(3, std::vector<float>(size + 8));
    for (int64_t i = 0; i < size; ++i) {
      sources[0][i + shift] = 1e8f;
      sources[1][i + shift] = float(i % 7);
      sources[2][i + shift] = -1e8f;
    }
    std::vector<float> target(size + 8, 77);
    runtime::MovePiece piece{};
    piece.end = size - 2;
    piece.begin = 1;
    piece.rank = 1;
    piece.sizes[0] = size;
    piece.fromStrides[0] = piece.toStrides[0] = 1;
    run(kernel, piece,
        {addressOf(&sources[0][shift]), addressOf(&sources[1][shift]),
         addressOf(&sources[2][shift])},
        {addressOf(&target[shift])});
    for (int64_t i = 1; i < size - 2; ++i)
      ASSERT_EQ(target[i + shift], (1e8f + float(i % 7)) + -1e8f) << i;
    EXPECT_EQ(target[shift], 77);
    EXPECT_EQ(target[size - 2 + shift], 77);
  }
}

TEST_P(MoveKernels, CopiesBoxesToSeveralTargets) {
  auto kernel = compile(exec::ReduceKind::none, exec::ElementType::bf16);
  ASSERT_TRUE(kernel);
  std::vector<uint16_t> source(2 * 3 * 5), first(60, 9), second(60, 9);
  std::iota(source.begin(), source.end(), uint16_t(100));
  runtime::MovePiece piece{};
  piece.end = 30;
  piece.rank = 3;
  const int64_t sizes[] = {2, 3, 5}, to[] = {1, 20, 2};
  std::copy_n(sizes, 3, piece.sizes);
  std::copy_n(to, 3, piece.toStrides);
  const int64_t from[] = {15, 5, 1};
  std::copy_n(from, 3, piece.fromStrides);
  run(kernel, piece, {addressOf(source.data())},
      {addressOf(first.data()), addressOf(second.data())});
  std::vector<uint16_t> expected(60, 9);
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t j = 0; j < 3; ++j)
      for (int64_t k = 0; k < 5; ++k)
        expected[i + 20 * j + 2 * k] = source[15 * i + 5 * j + k];
  EXPECT_EQ(first, expected);
  EXPECT_EQ(second, expected);
}

/// Boxes of up to four dimensions in odd orders, from an element in the middle
/// on, as a later piece has it.
TEST_P(MoveKernels, FindEveryPlace) {
  auto kernel = compile(exec::ReduceKind::none, exec::ElementType::f32);
  ASSERT_TRUE(kernel);
  std::mt19937 random(3);
  for (int trial = 0; trial < 60; ++trial) {
    const int64_t rank = 1 + trial % 4;
    runtime::MovePiece piece{};
    piece.rank = rank;
    int64_t count = 1;
    std::vector<int> order(static_cast<size_t>(rank));
    std::iota(order.begin(), order.end(), 0);
    for (int64_t dim = 0; dim < rank; ++dim) {
      piece.sizes[dim] = 1 + int64_t(random() % 11);
      count *= piece.sizes[dim];
    }
    int64_t ends[2];
    for (int64_t *strides : {piece.fromStrides, piece.toStrides}) {
      std::shuffle(order.begin(), order.end(), random);
      int64_t stride = 1 + int64_t(random() % 2);
      for (int dim : order) {
        strides[dim] = stride;
        stride *= piece.sizes[dim] + int64_t(random() % 3);
      }
      ends[strides == piece.toStrides] = stride;
    }
    piece.begin = int64_t(random() % uint64_t(count));
    piece.end = count;
    std::vector<float> source(static_cast<size_t>(ends[0])),
        target(static_cast<size_t>(ends[1]), -1);
    std::iota(source.begin(), source.end(), 0.0f);
    std::vector<float> expected = target;
    for (int64_t i = piece.begin; i < count; ++i) {
      int64_t from = 0, to = 0, rest = i;
      for (int64_t dim = rank; dim-- > 0; rest /= piece.sizes[dim]) {
        from += rest % piece.sizes[dim] * piece.fromStrides[dim];
        to += rest % piece.sizes[dim] * piece.toStrides[dim];
      }
      expected[size_t(to)] = source[size_t(from)];
    }
    run(kernel, piece, {addressOf(source.data())}, {addressOf(target.data())});
    ASSERT_EQ(target, expected) << "trial " << trial;
  }
}

TEST_P(MoveKernels, SixteenBitFloatsAreSummedInThirtyTwo) {
  auto kernel = compile(exec::ReduceKind::sum, exec::ElementType::bf16);
  ASSERT_TRUE(kernel);
  auto toBf16 = [](float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return uint16_t(bits >> 16);
  };
  // 256 + 1 + 1 is 258; rounded after each addition it would stay 256.
  std::vector<uint16_t> big(16, toBf16(256)), one(16, toBf16(1)), target(16);
  runtime::MovePiece piece{};
  piece.end = 16;
  piece.rank = 1;
  piece.sizes[0] = 16;
  piece.fromStrides[0] = piece.toStrides[0] = 1;
  run(kernel, piece,
      {addressOf(big.data()), addressOf(one.data()), addressOf(one.data())},
      {addressOf(target.data())});
  EXPECT_EQ(target, std::vector<uint16_t>(16, toBf16(258)));
}

TEST_P(MoveKernels, WithoutSourcesTheIdentityIsWritten) {
  auto kernel = compile(exec::ReduceKind::max, exec::ElementType::f32);
  ASSERT_TRUE(kernel);
  std::vector<float> target(5, 1);
  runtime::MovePiece piece{};
  piece.end = 5;
  piece.rank = 1;
  piece.sizes[0] = 5;
  piece.fromStrides[0] = piece.toStrides[0] = 1;
  run(kernel, piece, {}, {addressOf(target.data())});
  EXPECT_EQ(target, std::vector<float>(5, -INFINITY));
}

TEST_P(MoveKernels, TheIdentityOfBooleansIsABoolean) {
  for (auto [kind, identity] : {std::pair(exec::ReduceKind::max, 0),
                                std::pair(exec::ReduceKind::min, 1)}) {
    auto kernel = compile(kind, exec::ElementType::boolean);
    ASSERT_TRUE(kernel);
    std::vector<uint8_t> target(5, 7);
    runtime::MovePiece piece{};
    piece.end = 5;
    piece.rank = 1;
    piece.sizes[0] = 5;
    piece.fromStrides[0] = piece.toStrides[0] = 1;
    run(kernel, piece, {}, {addressOf(target.data())});
    EXPECT_EQ(target, std::vector<uint8_t>(5, uint8_t(identity)));
  }
}

/// Programs with an operand that 32 bits do not count through have both kinds.
TEST(MoveKernelsOfPrograms, AreWideWhereOperandsAre) {
  const int64_t limit = runtime::maxNarrowElements;
  struct Case {
    std::vector<int64_t> shape, strides;
    bool isWide;
  };
  for (const auto &[shape, strides, isWide] :
       {Case{{3, limit / 3}, {limit / 3, 1}, false},
        Case{{3, limit / 3 + 1}, {limit / 3 + 1, 1}, true},
        Case{{2, 3}, {limit - 3, 1}, false},
        Case{{2, 3}, {limit - 2, 1}, true}}) {
    exec::ExecutableT executable;
    auto command = std::make_unique<exec::CommandT>();
    command->action.Set(exec::CopyT());
    for (const std::vector<int64_t> &steps :
         {strides, std::vector<int64_t>{1, shape[0]}}) {
      auto operand = std::make_unique<exec::OperandT>();
      operand->element = exec::ElementType::bf16;
      operand->shape = shape;
      operand->strides = steps;
      command->operands.push_back(std::move(operand));
    }
    executable.programs.push_back(std::make_unique<exec::ProgramT>());
    executable.programs[0]->commands.push_back(std::move(command));
    auto context = makeContext();
    mlir::OwningOpRef<mlir::ModuleOp> module =
        mlir::ModuleOp::create(mlir::UnknownLoc::get(context.get()));
    codegen::GpuKernelTarget target(*module);
    auto kernels = *module->getOps<mlir::gpu::GPUModuleOp>().begin();
    codegen::emitMoveKernels(executable, layout::Mesh(), kernels);
    EXPECT_TRUE(kernels.lookupSymbol("meshc_move_2"));
    EXPECT_EQ(kernels.lookupSymbol("meshc_move_2_wide") != nullptr, isWide)
        << ::testing::PrintToString(shape);
  }
}

} // namespace
