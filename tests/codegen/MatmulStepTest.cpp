// What becomes of products that no library computes, or none at once.

#include "codegen/BuildExecutable.h"
#include "codegen/cpu/CpuKernelTarget.h"
#include "codegen/exec/Exec.h"
#include "codegen/gpu/GpuKernelTarget.h"
#include "tests/dialect/Programs.h"

#include "mlir/IR/Diagnostics.h"

#include "gtest/gtest.h"

using namespace meshc;

namespace {

/// A product x w by affine maps, with the type of its result, local and global.
struct Product {
  std::string left, right, result, local, global;
};

/// Builds the executable for GPUs or CPUs. Returns "", or the error.
template <class Target = codegen::GpuKernelTarget>
std::string build(const Product &product, exec::ExecutableT &executable) {
  auto context = meshc::test::makeContext();
  context->loadDialect<steps::ExecDialect>();
  auto module = meshc::test::parse(
      *context,
      "nd.mesh [\"d\"=1]\nexec.program @p {\n"
      "%x = spmd.input \"x\" of !nd.tensor<[\"a\"=5, \"b\"=3, \"c\"=7], f32, "
      "<>> : tensor<5x3x7xf32>\n"
      "%w = spmd.input \"w\" of !nd.tensor<[\"a\"=7, \"b\"=3, \"c\"=2], f32, "
      "<>> : tensor<7x3x2xf32>\n"
      "%y = exec.matmul %x, %w {indexing_maps = [" +
          product.left + ", " + product.right + ", " + product.result +
          "]} : tensor<5x3x7xf32>, tensor<7x3x2xf32> -> " + product.local +
          "\nspmd.output \"y\" of " + product.global +
          ", %y : " + product.local + "\n}\n");
  EXPECT_TRUE(module);
  std::string message;
  mlir::ScopedDiagnosticHandler handler(
      context.get(), [&](mlir::Diagnostic &error) { message += error.str(); });
  mlir::OwningOpRef<mlir::ModuleOp> code =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(context.get()));
  Target target(*code);
  EXPECT_EQ(succeeded(codegen::buildExecutable(*module, executable, target)),
            message.empty());
  return message;
}

TEST(MatmulStep, WhatCublasLtRefusesIsNoExecutable) {
  exec::ExecutableT executable;
  // The batch is last in x.
  EXPECT_EQ(build({"affine_map<(b, m, n, k) -> (m, k, b)>",
                   "affine_map<(b, m, n, k) -> (b, k, n)>",
                   "affine_map<(b, m, n, k) -> (b, m, n)>", "tensor<7x5x2xf32>",
                   "!nd.tensor<[\"a\"=7, \"b\"=5, \"c\"=2], f32, <>>"},
                  executable),
            "cuBLASLt cannot compute this product: no dimension of its left "
            "factor is contiguous");
}

TEST(MatmulStep, WhatOneDnnRefusesIsNoExecutable) {
  exec::ExecutableT executable;
  EXPECT_EQ(build<codegen::CpuKernelTarget>(
                {"affine_map<(b, m, n, k) -> (m, k, b)>",
                 "affine_map<(b, m, n, k) -> (b, k, n)>",
                 "affine_map<(b, m, n, k) -> (b, m, n)>", "tensor<7x5x2xf32>",
                 "!nd.tensor<[\"a\"=7, \"b\"=5, \"c\"=2], f32, <>>"},
                executable),
            "oneDNN cannot compute this product: it does not take its left "
            "factor as it lies in memory");
}

TEST(MatmulStep, CallsOfOneProductReadItsFactorsOnceTogether) {
  exec::ExecutableT executable;
  // The sums of w are in another order than those of x.
  EXPECT_EQ(build({"affine_map<(m, n, j, k) -> (m, j, k)>",
                   "affine_map<(m, n, j, k) -> (k, j, n)>",
                   "affine_map<(m, n, j, k) -> (m, n)>", "tensor<5x2xf32>",
                   "!nd.tensor<[\"a\"=5, \"c\"=2], f32, <>>"},
                  executable),
            "");
  int64_t calls = 0, bytes = 0, flops = 0;
  for (const auto &command : executable.programs.at(0)->commands)
    if (command->action.type == exec::Action::Matmul) {
      ++calls;
      bytes += command->bytes;
      flops += command->flops;
    }
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(bytes, 4 * (5 * 3 * 7 + 7 * 3 * 2 + 3 * (5 * 2)));
  EXPECT_EQ(flops, 2 * 5 * 2 * 3 * 7);
}

} // namespace
