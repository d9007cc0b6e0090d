// The builder as a C++ program uses it: without a spec.

#include "frontend/BuilderModule.h"

#include "dialect/Locations.h"
#include "mlir/IR/PatternMatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace meshc::frontend;
using testing::HasSubstr;

namespace {

std::string print(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  return text;
}

BuildError getOnlyError(Builder &builder) {
  std::vector<BuildError> errors = builder.takeErrors();
  EXPECT_EQ(errors.size(), 1u);
  return errors.empty() ? BuildError() : errors.front();
}

class BuilderTest : public testing::Test {
protected:
  Builder builder;
  Dim batch = builder.dim("batch", 6), in = builder.dim("in", 5),
      out = builder.dim("out", 3);
};

} // namespace

TEST_F(BuilderTest, MakesAModuleWithTheCallersLines) {
  builder.setMesh({{"data", 2}, {"model", 3}});
  builder.addRule({"batch", {"data"}});
  Tensor x = builder.input("x", ElementType::F32, {batch, in});
  builder.enterScope("layer");
  Tensor w = builder.parameter("w", ElementType::F32, {in, out},
                               Initializer::normal(0, 0.05));
  int line = __LINE__ + 1;
  Tensor y = builder.einsum({x, w}, {batch, out});
  builder.setName(y, "y");
  builder.leaveScope();
  Tensor loss = builder.reduce(Reduction::Mean, builder.tanh(y), {batch, out});
  builder.output("loss", loss);
  builder.training({"loss", "sgd", {{"lr", 0.1}}, 2});
  builder.finish();
  ASSERT_FALSE(builder.hasErrors());
  EXPECT_EQ(toString(y.getElementType(), y.getDims()), "f32[batch, out]");

  auto module = takeModule(builder);
  ASSERT_TRUE(module);
  EXPECT_THAT(print(*module), HasSubstr("nd.variable"));
  EXPECT_THAT(print(*module), HasSubstr("@\"layer/w\""));
  module->walk([&](meshc::nd::EinsumOp op) {
    std::optional<meshc::SourceSpan> span = meshc::getSpan(op.getLoc());
    ASSERT_TRUE(span);
    EXPECT_THAT(span->file, testing::EndsWith("BuilderTest.cpp"));
    EXPECT_EQ(span->line, unsigned(line));
    EXPECT_EQ(meshc::getValueName(op.getLoc()), "layer/y");
  });
}

TEST_F(BuilderTest, ErrorsHaveTheCallersLineAndPassSilently) {
  Tensor x = builder.input("x", ElementType::F32, {batch, in});
  Tensor n = builder.input("n", ElementType::I32, {batch});
  uint32_t line = __LINE__ + 1;
  Tensor bad = builder.add(x, n);
  EXPECT_FALSE(bad);
  Tensor more = builder.exp(builder.mul(bad, x));
  EXPECT_FALSE(more);
  builder.output("o", more);
  builder.finish();
  BuildError error = getOnlyError(builder);
  EXPECT_EQ(error.code, Code::ElementTypeMismatch);
  EXPECT_EQ(error.where.line, line);
  EXPECT_THAT(error.where.file, testing::EndsWith("BuilderTest.cpp"));
  EXPECT_FALSE(takeModule(builder));
}

TEST_F(BuilderTest, ADimHasOneSize) {
  builder.input("x", ElementType::F32, {batch, Dim{"in", 4}});
  BuildError error = getOnlyError(builder);
  EXPECT_EQ(error.code, Code::ContradictingSizes);
  EXPECT_THAT(error.message, HasSubstr("size 4 here and 5 before"));
}

TEST_F(BuilderTest, RulesAreCheckedAtTheEnd) {
  builder.setMesh({{"data", 2}});
  builder.addRule({"batch", {"data"}});
  builder.addRule({"in", {"data"}});
  builder.addRule({"out", {"model"}});
  builder.output("o", builder.input("x", ElementType::F32, {batch, in}));
  builder.finish();
  BuildError error = getOnlyError(builder);
  EXPECT_EQ(error.code, Code::UnknownAxis);
  EXPECT_THAT(error.message, HasSubstr("model"));
}

TEST_F(BuilderTest, TwoDimsOfOneTensorOnOneAxis) {
  builder.setMesh({{"data", 2}});
  builder.addRule({"batch", {"data"}});
  builder.addRule({"in", {"data"}});
  builder.output("o", builder.input("x", ElementType::F32, {batch, in}));
  builder.finish();
  EXPECT_EQ(getOnlyError(builder).code, Code::SharedAxis);
}

TEST_F(BuilderTest, OptimizersHaveDefaults) {
  Tensor w =
      builder.parameter("w", ElementType::F32, {in}, Initializer::fill(1));
  builder.output("o", builder.reduce(Reduction::Sum, w, {in}));
  builder.training({"o", "adam", {{"beta1", 0.75}, {"lr", 0.5}}, 0, 7});
  builder.finish();
  auto module = takeModule(builder);
  ASSERT_TRUE(module);
  module->walk([](meshc::nd::TrainingOp op) {
    auto get = [&](llvm::StringRef name) {
      return mlir::cast<mlir::FloatAttr>(op.getHyper().get(name))
          .getValueAsDouble();
    };
    EXPECT_EQ(op.getOptimizer(), "adam");
    EXPECT_EQ(op.getHyper().size(), 4u);
    EXPECT_EQ(get("lr"), 0.5);
    EXPECT_EQ(get("beta1"), 0.75);
    EXPECT_EQ(get("beta2"), 0.999);
    EXPECT_EQ(get("epsilon"), 1e-8);
    EXPECT_EQ(op.getEpochs(), 0u);
    EXPECT_EQ(op.getSteps(), 7u);
  });
}

TEST_F(BuilderTest, PositionsThatDoNotFit) {
  Dim most = builder.dim("most", (int64_t(1) << 31) - 1),
      more = builder.dim("more", int64_t(1) << 31),
      beyond = builder.dim("beyond", (int64_t(1) << 31) + 1);
  EXPECT_TRUE(builder.iota(more));
  EXPECT_FALSE(builder.iota(beyond));
  EXPECT_EQ(getOnlyError(builder).code, Code::NotRepresentable);
  Tensor x = builder.input("x", ElementType::F32, {most}),
         y = builder.input("y", ElementType::F32, {more});
  EXPECT_TRUE(builder.argReduce(Extreme::Max, x, most));
  EXPECT_FALSE(builder.argReduce(Extreme::Max, y, more));
  EXPECT_EQ(getOnlyError(builder).code, Code::NotRepresentable);
}

TEST_F(BuilderTest, ConstantsThatDoNotFit) {
  EXPECT_TRUE(builder.constant(int64_t(-1) << 31, ElementType::I32));
  EXPECT_FALSE(builder.constant(int64_t(1) << 31, ElementType::I32));
  EXPECT_EQ(getOnlyError(builder).code, Code::NotRepresentable);
  EXPECT_FALSE(builder.constant(2.5, ElementType::I64));
  EXPECT_EQ(getOnlyError(builder).code, Code::NotRepresentable);
  EXPECT_FALSE(builder.constant(std::nan(""), ElementType::I32));
  EXPECT_EQ(getOnlyError(builder).code, Code::NotRepresentable);
  EXPECT_FALSE(builder.constant(9.3e18, ElementType::I64));
  EXPECT_EQ(getOnlyError(builder).code, Code::NotRepresentable);
}
