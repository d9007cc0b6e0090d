// How rows fall to blocks and threads.

#include "codegen/gpu/GpuKernelTarget.h"
#include "codegen/steps/FormSteps.h"
#include "tests/codegen/KernelFamilies.h"
#include "tests/codegen/KernelRunner.h"

#include "gmock/gmock.h"

using namespace meshc;
using namespace meshc::test;
using ::testing::ElementsAre;

namespace {

using Launch = std::pair<int64_t, int64_t>; ///< blocks, threads of each

/// The launches of a program's only kernel.
std::vector<Launch> getLaunches(const ProgramText &text) {
  auto context = makeContext();
  auto module = parse(*context, text.str());
  auto program = codegen::formSteps(module->lookupSymbol<spmd::ProgramOp>("p"),
                                    codegen::MatmulLibrary::CublasLt);
  const auto all = steps::getSteps(*program);
  EXPECT_EQ(all.size(), 1u);
  auto kernels = mlir::OwningOpRef<mlir::ModuleOp>(
      mlir::ModuleOp::create(mlir::UnknownLoc::get(context.get())));
  codegen::GpuKernelTarget target(*kernels);
  auto kernel = emitStep(all.front(), target, "kernel");
  std::vector<Launch> launches;
  if (mlir::succeeded(kernel))
    for (const codegen::KernelLaunch &launch : kernel->launches)
      launches.emplace_back(launch.grid, launch.block);
  return launches;
}

/// A warp's own row has 1024 columns, of any type; longer ones four chunks of
/// 16 bytes for each thread.
TEST(LaunchShape, RowsOfOneOperand) {
  EXPECT_THAT(getLaunches(getSoftmax(80, 1024)), ElementsAre(Launch(10, 256)));
  EXPECT_THAT(getLaunches(getSoftmax(80, 2048)), ElementsAre(Launch(80, 128)));
  EXPECT_THAT(getLaunches(getSoftmax(80, 1024, "bf16")),
              ElementsAre(Launch(10, 256)));
  EXPECT_THAT(getLaunches(getSoftmax(80, 2048, "bf16")),
              ElementsAre(Launch(80, 64)));
  EXPECT_THAT(getLaunches(getSoftmax(80, 4096, "bf16")),
              ElementsAre(Launch(80, 128)));
}

/// Two operands and two sums across rows: a warp's own row has 512 columns.
/// Parts of four rows or more, or, where more than 256 of them are needed until
/// 8 MiB of rows are on their way, of eight; blocks of
/// long rows are as many as those that a large GPU has room for.
TEST(LaunchShape, SumsAcrossShortRowsFillTheGpu) {
  EXPECT_THAT(getLaunches(getNormGradient(8192, 512)),
              ElementsAre(Launch(1024 / 8, 256), Launch(2 * 512 / 8, 256)));
  EXPECT_THAT(getLaunches(getNormGradient(8192, 1024)),
              ElementsAre(Launch(1024, 64), Launch(2 * 1024 / 8, 256)));
  EXPECT_THAT(getLaunches(getNormGradient(8192, 2048)),
              ElementsAre(Launch(512, 128), Launch(2 * 2048 / 8, 256)));
  EXPECT_THAT(getLaunches(getNormGradient(8192, 8192)),
              ElementsAre(Launch(256, 512), Launch(2 * 8192 / 16, 256)));
  EXPECT_THAT(getLaunches(getNormGradient(800, 1024)),
              ElementsAre(Launch(200, 64), Launch(2 * 1024 / 8, 256)));
}

/// Partial sums of 256 KiB: as many parts as multiprocessors, though they take
/// more than 16 MiB, but none of less than four rows.
TEST(LaunchShape, SumsAcrossLongRowsFillTheGpu) {
  EXPECT_THAT(getLaunches(getNormGradient(8192, 32768)),
              ElementsAre(Launch(131, 1024), Launch(2 * 32768 / 64, 256)));
  EXPECT_THAT(getLaunches(getNormGradient(400, 32768)),
              ElementsAre(Launch(100, 1024), Launch(2 * 32768 / 64, 256)));
  // What is added up in memory has parts of 64 rows at most.
  EXPECT_THAT(getLaunches(getNormGradient(32768, 32768)),
              ElementsAre(Launch(512, 1024), Launch(2 * 32768 / 64, 256)));
  // Columns are cut as well here.
  EXPECT_THAT(getLaunches(getColumnSum(8192, 131072)),
              ElementsAre(Launch(1024, 256), Launch(131072 / 256, 256)));
}

/// A reduction of few rows that are too long for registers is cut into as many
/// parts as blocks that a large GPU runs at once, in whole passes of a block,
/// 16 KiB of an operand. Rows that fit, and rows whose columns need the
/// reduction, are one block's.
TEST(LaunchShape, ReductionsOfFewLongRowsFillTheGpu) {
  EXPECT_THAT(getLaunches(getMeanSquare(8 * 2048, 2048)),
              ElementsAre(Launch(512, 256), Launch(1, 256)));
  EXPECT_THAT(getLaunches(getMeanSquare(8 * 2048, 2048, "bf16")),
              ElementsAre(Launch(512, 256), Launch(1, 256)));
  EXPECT_THAT(getLaunches(getMeanSquare(8191, 2047)),
              ElementsAre(Launch(512, 256), Launch(1, 256)));
  EXPECT_THAT(getLaunches(getMeanSquare(64, 1000)),
              ElementsAre(Launch(15, 256), Launch(1, 256)));
  EXPECT_THAT(getLaunches(getMeanSquare(16, 1024)),
              ElementsAre(Launch(1, 1024)));
  EXPECT_THAT(getLaunches(getSoftmax(1, 1 << 20)),
              ElementsAre(Launch(1, 1024)));
  for (auto [rows, blocks] :
       {std::pair(3, 3 * 128), std::pair(264, 2 * 264), std::pair(265, 265)}) {
    ProgramText text;
    text.dim("b", rows);
    text.dim("d", 1 << 20);
    text.input("x", "b d");
    text.reduce("m", "b", {"x"}, "arith.maximumf", "0xFF800000");
    text.output("m");
    SCOPED_TRACE(rows);
    std::vector<Launch> launches = getLaunches(text);
    EXPECT_EQ(launches.front().first, blocks);
    EXPECT_EQ(launches.size(), blocks == rows ? 1u : 2u);
  }
}

} // namespace
