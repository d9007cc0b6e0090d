// What becomes of products that no library computes.

#include "codegen/BuildExecutable.h"
#include "codegen/exec/Exec.h"
#include "codegen/gpu/GpuKernelTarget.h"
#include "tests/dialect/Programs.h"

#include "mlir/IR/Diagnostics.h"

#include "gtest/gtest.h"

using namespace meshc;

namespace {

/// "" if there is an executable for GPUs of x w, whose rows, sums and columns
/// are stored in these orders; else the error.
std::string build(const std::string &left, const std::string &right,
                  const std::string &types) {
  auto context = meshc::testing::makeContext();
  context->loadDialect<steps::ExecDialect>();
  auto module = meshc::testing::parse(
      *context,
      "nd.mesh [\"d\"=1]\nexec.program @p {\n"
      "%x = spmd.input \"x\" of !nd.tensor<[\"a\"=5, \"b\"=3, \"c\"=7], f32, "
      "<>> : tensor<5x3x7xf32>\n"
      "%w = spmd.input \"w\" of !nd.tensor<[\"a\"=7, \"b\"=3, \"c\"=2], f32, "
      "<>> : tensor<7x3x2xf32>\n"
      "%y = exec.matmul %x, %w {indexing_maps = [" +
          left + ", " + right +
          ", affine_map<(b, m, n, k) -> (b, m, n)>]} : tensor<5x3x7xf32>, "
          "tensor<7x3x2xf32> -> " +
          types +
          "\nspmd.output \"y\" of !nd.tensor<[\"a\"=7, \"b\"=5, \"c\"=2], f32, "
          "<>>, %y : " +
          types + "\n}\n");
  EXPECT_TRUE(module);
  std::string message;
  mlir::ScopedDiagnosticHandler handler(
      context.get(), [&](mlir::Diagnostic &error) { message += error.str(); });
  mlir::OwningOpRef<mlir::ModuleOp> code =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(context.get()));
  codegen::GpuKernelTarget target(*code);
  exec::ExecutableT executable;
  EXPECT_EQ(succeeded(codegen::buildExecutable(*module, executable, target)),
            message.empty());
  return message;
}

TEST(MatmulStep, WhatCublasLtRefusesIsNoExecutable) {
  // The batch is last in x.
  EXPECT_EQ(build("affine_map<(b, m, n, k) -> (m, k, b)>",
                  "affine_map<(b, m, n, k) -> (b, k, n)>", "tensor<7x5x2xf32>"),
            "cuBLASLt cannot compute this product: no dimension of its left "
            "factor is contiguous");
}

} // namespace
