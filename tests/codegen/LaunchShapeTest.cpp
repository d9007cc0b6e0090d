// How rows fall to blocks and threads.

#include "codegen/KernelTarget.h"
#include "tests/codegen/KernelFamilies.h"
#include "tests/codegen/KernelRunner.h"

#include "gmock/gmock.h"

using namespace meshc;
using namespace meshc::testing;
using ::testing::ElementsAre;

namespace {

using Launch = std::pair<int64_t, int64_t>; ///< blocks, threads of each

/// The launches of a program's only kernel.
std::vector<Launch> getLaunches(const ProgramText &text) {
  auto context = makeContext();
  auto module = parse(*context, text.str());
  auto steps = codegen::formSteps(module->lookupSymbol<spmd::ProgramOp>("p"),
                                  codegen::MatmulLibrary::CublasLt);
  EXPECT_EQ(steps->size(), 1u);
  auto kernels = mlir::OwningOpRef<mlir::ModuleOp>(
      mlir::ModuleOp::create(mlir::UnknownLoc::get(context.get())));
  codegen::GpuKernels target(*kernels);
  const codegen::Step &step = steps->front();
  auto kernel = target.emitKernel(
      step, "kernel",
      llvm::SmallVector<bool>(step.inputs.size() + step.outputs.size(), false));
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
              ElementsAre(Launch(256, 512), Launch(2 * 8192 / 8, 256)));
  EXPECT_THAT(getLaunches(getNormGradient(800, 1024)),
              ElementsAre(Launch(200, 64), Launch(2 * 1024 / 8, 256)));
}

} // namespace
