/// Into how many pieces commands of CPU devices are cut.

#include "runtime/plans/CpuPieces.h"

#include <gtest/gtest.h>

using namespace meshc;
using namespace meshc::runtime;

namespace {

/// Whose work is worth any number of pieces.
exec::CommandT makeKernel(int64_t extent) {
  exec::CommandT command;
  exec::KernelT kernel;
  kernel.extent = extent;
  command.action.Set(std::move(kernel));
  command.flops = int64_t(1) << 40;
  return command;
}

exec::CommandT makeCopy(std::vector<int64_t> shape) {
  exec::CommandT command;
  command.action.Set(exec::CopyT());
  command.bytes = int64_t(1) << 40;
  auto operand = std::make_unique<exec::OperandT>();
  operand->shape = std::move(shape);
  command.operands.push_back(std::move(operand));
  return command;
}

exec::CommandT makeConvolution(exec::ConvolutionTensor result, int64_t batch,
                               int64_t groups, int64_t outputs) {
  exec::CommandT command;
  exec::ConvolutionT shape;
  shape.result = result;
  shape.batch = batch;
  shape.groups = groups;
  shape.inputs = 64;
  shape.outputs = outputs;
  shape.weights = {3, 5};
  shape.destination = {320, 200};
  command.action.Set(std::move(shape));
  return command;
}

TEST(CpuPieces, KernelsAreCutBetweenVectors) {
  EXPECT_EQ(countPieces(makeKernel(0), 3, 5), 0);
  EXPECT_EQ(countPieces(makeKernel(1), 3, 5), 1);
  EXPECT_EQ(countPieces(makeKernel(63), 3, 5), 1);
  EXPECT_EQ(countPieces(makeKernel(130), 3, 5), 3);
  EXPECT_EQ(countPieces(makeKernel(64000), 3, 5), 20);
  EXPECT_EQ(countPieces(makeKernel(64000), 3, 1), 1);
  const PieceCut cut = cutKernel(makeKernel(130), 5);
  EXPECT_EQ(cut.perPiece, 64);
}

TEST(CpuPieces, KernelsOfRowsAreCutBetweenRows) {
  exec::CommandT rows = makeKernel(7);
  rows.bytes = 7 * 1024;
  EXPECT_EQ(countPieces(rows, 3, 5), 7);
}

TEST(CpuPieces, CopiesAreCutBetweenRows) {
  EXPECT_EQ(countPieces(makeCopy({}), 3, 5), 1);
  EXPECT_EQ(countPieces(makeCopy({5000}), 3, 5), 1);
  EXPECT_EQ(countPieces(makeCopy({7, 5000}), 3, 5), 7);
  EXPECT_EQ(countPieces(makeCopy({2, 3, 0}), 3, 5), 0);
  EXPECT_EQ(countPieces(makeCopy({7, 50, 3}), 3, 2), 8);
}

TEST(CpuPieces, ConvolutionsAreCutBetweenImagesOrOutputs) {
  using enum exec::ConvolutionTensor;
  auto count = [](exec::ConvolutionTensor result, int64_t batch, int64_t groups,
                  int64_t outputs) {
    return countPieces(makeConvolution(result, batch, groups, outputs), 2, 3);
  };
  EXPECT_EQ(count(destination, 1, 1, 48), 1);
  EXPECT_EQ(count(source, 1, 1, 48), 1);
  EXPECT_EQ(count(destination, 3, 1, 48), 3);
  EXPECT_EQ(count(source, 9, 1, 48), 3); // of three images each
  EXPECT_EQ(count(weights, 1, 1, 48), 3);
  EXPECT_EQ(count(weights, 9, 1, 15), 1);
  EXPECT_EQ(count(weights, 9, 2, 48), 1);
}

TEST(CpuPieces, ProductsAreCutForTheUsualThreads) {
  exec::CommandT product;
  product.action.Set(exec::MatmulT());
  product.flops = 1000000000;
  EXPECT_EQ(countPieces(product, 1, 2), 8);
  EXPECT_EQ(countPieces(product, 3, 2), 3);
  EXPECT_EQ(countPieces(product, 11, 2), 1);
  EXPECT_EQ(countPieces(product, 1, 13), 13);
  product.flops = 120000000;
  EXPECT_EQ(countPieces(product, 1, 2), 2);
  product.flops = 7;
  EXPECT_EQ(countPieces(product, 1, 2), 1);
}

} // namespace
