// Sums across rows on the CPU, cut into parts for several threads.

#include "tests/codegen/KernelRunner.h"

#include "gtest/gtest.h"

using namespace meshc;
using namespace meshc::test;
using codegen::EmittedKernel;

namespace {

/// Products of x and y, whose sums over the rows are wanted, on a mesh.
ProgramText makeProducts(int64_t rows, int64_t columns,
                         const std::string &mesh = "") {
  ProgramText text;
  text.header = mesh;
  text.dim("b", rows);
  text.dim("d", columns);
  text.input("x", "b d");
  text.input("y", "b d");
  text.pointwise("z", "b d", {"x", "y"}, "%r = arith.mulf %a0, %a1 : f32");
  text.reduce("s", "d", {"z"}, "arith.addf", "0.5");
  text.output("z");
  text.output("s");
  return text;
}

struct Case {
  int64_t rows, columns;
  int64_t blocks; ///< of columns: iterations without parts
  int64_t parts;
  const char *mesh = "";
};

/// Three tensors of rows * columns floats go through the kernel, half a MiB of
/// them at least through a part of it.
const Case cases[] = {
    // As many parts as the bytes are worth: 12 MiB are 24 parts.
    {2048, 512, 1, 24},
    {2048, 500, 1, 23},
    // Two blocks of columns of half as many parts.
    {1024, 2048, 2, 16},
    // At most 32 iterations.
    {4096, 1000, 1, 32},
    {4096, 16384, 16, 2},
    {4096, 32768, 32, 1},
    // 2 and 4 devices have 4 and 2 of the 8 threads each; 8 have one.
    {4096, 1000, 1, 16, "  nd.mesh [\"a\"=2]\n"},
    {4096, 1000, 1, 8, "  nd.mesh [\"a\"=2, \"b\"=2]\n"},
    {4096, 1000, 1, 1, "  nd.mesh [\"a\"=8]\n"},
    // At least 32 rows.
    {64, 2000, 1, 2},
    {63, 2000, 1, 1},
    {96, 12000, 12, 2},
    // Too little to cut: two parts of 480 KiB.
    {160, 512, 1, 1},
};

TEST(RowParts, DependOnShapesAndDevices) {
  for (const Case &shape : cases) {
    SCOPED_TRACE(std::to_string(shape.rows) + " x " +
                 std::to_string(shape.columns) + shape.mesh);
    auto runner = KernelRunner::create(
        makeProducts(shape.rows, shape.columns, shape.mesh).str(), "x86-64-v3");
    ASSERT_TRUE(runner);
    ASSERT_EQ(runner->getSteps().size(), 1u);
    const EmittedKernel &kernel = runner->getKernel(0);
    EXPECT_EQ(kernel.extent, shape.blocks * shape.parts);
    EXPECT_EQ(kernel.sum.has_value(), shape.parts > 1);
    if (!kernel.sum) {
      EXPECT_EQ(kernel.workspaceBytes, 0u);
      continue;
    }
    EXPECT_EQ(kernel.sum->extent, shape.blocks);
    EXPECT_EQ(kernel.sum->parts, shape.parts);
    EXPECT_EQ(kernel.sum->outputs, std::vector<unsigned>{1});
    const int64_t lines = (shape.columns * 4 + 63) / 64;
    EXPECT_EQ(kernel.workspaceBytes, uint64_t(lines * 64 * shape.parts));
  }
}

// Nothing is summed across rows, however large it is.
TEST(RowParts, RowsAreCutAnyway) {
  ProgramText text;
  text.dim("b", 4096);
  text.dim("d", 1000);
  text.input("x", "b d");
  text.reduce("s", "b", {"x"}, "arith.addf", "0.0");
  text.output("s");
  auto runner = KernelRunner::create(text.str(), "x86-64-v3");
  ASSERT_TRUE(runner);
  EXPECT_FALSE(runner->hasParts());
  EXPECT_EQ(runner->getKernel(0).extent, 4096);
}

/// What a backward pass does in one kernel: results by row and by element, sums
/// of several kinds across rows, and one of everything.
ProgramText makeMixed(int64_t rows, int64_t columns) {
  ProgramText text = makeProducts(rows, columns);
  text.reduce("mean", "b", {"z"}, "arith.addf", "0.0");
  text.pointwise("c", "b d", {"z", "mean"}, "%r = arith.subf %a0, %a1 : f32");
  text.reduce("t", "d", {"c"}, "arith.addf", "0.0");
  text.reduce("most", "d", {"z"}, "arith.maximumf", "0xFF800000");
  text.reduce("all", "", {"z"}, "arith.addf", "1.5");
  text.reduce("least", "", {"mean"}, "arith.minimumf", "0x7F800000");
  for (const char *name : {"mean", "c", "t", "most", "all", "least"})
    text.output(name);
  return text;
}

// Sizes of the product's own parts, the last one shorter.
TEST(RowParts, LastPartMayBeShorter) {
  const ProgramText text = makeMixed(1031, 261);
  auto runner = KernelRunner::create(text.str());
  ASSERT_TRUE(runner);
  EXPECT_TRUE(runner->hasParts());
  // Sums of a quarter of a million products of either sign.
  expectAgreement(text, {}, 1e-5);
}

TEST(RowParts, SeveralSummedDimensionsBesideAnother) {
  ProgramText text;
  text.dim("b", 5);
  text.dim("h", 3);
  text.dim("p", 7);
  text.dim("d", 33);
  text.input("x", "b h p d");
  text.pointwise("y", "b h p d", {"x"}, "%r = math.absf %a0 : f32");
  text.reduce("s", "h d", {"y"}, "arith.addf", "0.0");
  text.reduce("most", "h", {"y"}, "arith.maximumf", "0.25");
  for (const char *name : {"y", "s", "most"})
    text.output(name);
  expectAgreement(text);
}

/// Sums over b for each p and d, of values that all p or all d read.
ProgramText makeOuterSums(int64_t rows, int64_t positions, int64_t columns) {
  ProgramText text;
  text.dim("b", rows);
  text.dim("p", positions);
  text.dim("d", columns);
  text.input("x", "b d");
  text.input("y", "b p");
  text.pointwise("z", "b p d", {"x", "y"}, "%r = arith.mulf %a0, %a1 : f32");
  text.reduce("s", "p d", {"z"}, "arith.addf", "0.25");
  text.reduce("most", "p d", {"z"}, "arith.maximumf", "-0.5");
  text.output("s");
  text.output("most");
  return text;
}

// What all p read is read once, if it is large and their sums stay near.
TEST(RowParts, SumsOfSeveralPositionsAtOnce) {
  struct {
    int64_t rows, positions, columns, extent;
  } const cases[] = {
      {10501, 5, 103, 8},   // 4.1 MiB, 515 sums of either kind: in parts
      {10501, 10, 103, 10}, // 2060 sums are too many
      {5000, 5, 103, 5},    // 2 MiB: too little for parts for 8 threads
  };
  for (const auto &[rows, positions, columns, extent] : cases) {
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(positions) +
                 " x " + std::to_string(columns));
    const ProgramText text = makeOuterSums(rows, positions, columns);
    auto runner = KernelRunner::create(text.str(), "x86-64-v3");
    ASSERT_TRUE(runner);
    ASSERT_EQ(runner->getSteps().size(), 1u);
    EXPECT_EQ(runner->getKernel(0).extent, extent);
    if (extent != positions)
      expectAgreement(text, {}, 1e-5);
  }
}

TEST(RowParts, SumsOf16BitsAndOfIntegers) {
  for (const char *type : {"bf16", "f16"}) {
    ProgramText text;
    text.dim("b", 11);
    text.dim("d", 50);
    text.input("x", "b d", type);
    text.reduce("most", "d", {"x"}, "arith.maximumf", "-4.0", "", type);
    const std::string widen =
        std::string("%r = arith.extf %a0 : ") + type + " to f32";
    text.reduce("s", "d", {"x"}, "arith.addf", "0.0", widen);
    text.output("most");
    text.output("s");
    expectAgreement(text);
  }
  ProgramText text;
  text.dim("b", 11);
  text.dim("d", 50);
  text.input("x", "b d", "i32");
  text.reduce("s", "d", {"x"}, "arith.addi", "3", "", "i32");
  text.reduce("most", "", {"x"}, "arith.maxsi", "-7", "", "i32");
  text.output("s");
  text.output("most");
  expectAgreement(text);
}

// Wherever threads cut the iterations.
TEST(RowParts, CutsChangeNoBit) {
  const ProgramText text = makeMixed(1031, 261);
  auto runner = KernelRunner::create(text.str());
  ASSERT_TRUE(runner);
  for (unsigned index = 0; index < runner->getSteps().size(); ++index) {
    std::vector<std::vector<float>> memory;
    std::vector<void *> operands;
    for (mlir::Value value :
         KernelRunner::getTensors(runner->getSteps()[index])) {
      auto type = llvm::cast<mlir::RankedTensorType>(value.getType());
      memory.emplace_back(size_t(type.getNumElements()));
      operands.push_back(memory.back().data());
    }
    std::vector<std::vector<float>> expected;
    for (int64_t pieces : {1, 2, 3, 8}) {
      for (std::vector<float> &block : memory)
        for (size_t i = 0; i < block.size(); ++i)
          block[i] = float(i * 7919 % 1021) / 1021 - 0.5f;
      runner->call(index, operands, {0}, pieces);
      if (expected.empty())
        expected = memory;
      EXPECT_EQ(memory, expected) << pieces << " pieces";
    }
  }
}

} // namespace
