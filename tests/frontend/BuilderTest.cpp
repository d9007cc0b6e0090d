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
  builder.addRule("batch -> data");
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
  builder.training({"loss", "sgd(lr = 0.1)", 2});
  builder.beginUpdates();
  Builder::Update update = builder.beginUpdate("layer/w", "sgd");
  builder.endUpdate(builder.sub(update.parameter, update.gradient));
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

TEST_F(BuilderTest, ViewsReadDimensionsAtPositions) {
  Dim pixel = builder.dim("pixel", 7), tap = builder.dim("tap", 3);
  Tensor x = builder.input("x", ElementType::F32, {batch, pixel});
  // pixel = 2 out + tap, out of 3 and tap of 3: positions 0 to 6.
  ViewAccess window{
      pixel, meshc::layout::Access::linear({{0, 2}, {1, 1}}, 0), {out, tap}};
  Tensor seen = builder.view(x, {window}, /*isPadded=*/false);
  EXPECT_EQ(toString(seen.getElementType(), seen.getDims()),
            "f32[batch, out, tap]");
  EXPECT_FALSE(builder.isInside({window}));
  // A dim of the tensor that is a loop of its own access stays where it was.
  ViewAccess shift{pixel, meshc::layout::Access::linear({{0, 1}}, -1), {pixel}};
  Tensor shifted = builder.view(x, {shift}, /*isPadded=*/true);
  EXPECT_EQ(shifted.getDims()[1].name, "pixel");
  Tensor isThere = builder.isInside({shift});
  EXPECT_EQ(toString(isThere.getElementType(), isThere.getDims()),
            "bool[pixel]");
  // Both dims at once: the diagonal of the first five.
  Tensor y = builder.input("y", ElementType::I32, {in, pixel});
  auto same = meshc::layout::Access::linear({{0, 1}}, 0);
  Tensor line = builder.view(y, {{in, same, {out}}, {pixel, same, {out}}},
                             /*isPadded=*/false);
  EXPECT_EQ(toString(line.getElementType(), line.getDims()), "i32[out]");
  EXPECT_FALSE(builder.hasErrors());
  EXPECT_FALSE(builder.view(Tensor(), {window}, true));
  EXPECT_FALSE(builder.hasErrors());
}

TEST_F(BuilderTest, ViewsThatCannotBe) {
  using meshc::layout::Access;
  Dim tap = builder.dim("tap", 3);
  Tensor x = builder.input("x", ElementType::F32, {batch, in});
  auto expect = [&](const std::vector<ViewAccess> &accesses, bool isPadded,
                    Code code, int operand, const std::string &message) {
    EXPECT_FALSE(builder.view(x, accesses, isPadded));
    BuildError error = getOnlyError(builder);
    EXPECT_EQ(error.code, code);
    EXPECT_EQ(error.operand, operand);
    EXPECT_THAT(error.message, HasSubstr(message));
  };
  ViewAccess fits{in, Access::linear({{0, 1}}, 1), {out}};
  ViewAccess out1{in, Access::linear({{0, 1}}, 3), {out}};
  expect({out1}, false, Code::ReadsOutside, 1, "is read at 3 to 5");
  EXPECT_TRUE(builder.view(x, {out1}, true));
  ViewAccess halved{
      in, Access::quotient(Access::Kind::Exact, {{0, 1}}, 0, 2), {out}};
  expect({halved}, false, Code::ReadsOutside, 1, "not always whole");
  ViewAccess far{in, Access::linear({{0, 1}, {1, 5}}, 0), {out, tap}};
  expect({far}, true, Code::WindowTooLarge, 1, "at position 2 of \"tap\"");
  expect({{tap, Access::linear({}, 0), {}}}, true, Code::DimNotInTensor, 2,
         "\"tap\"");
  expect({fits, fits}, true, Code::RepeatedDim, 4, "\"in\" twice");
  expect({{in, Access::linear({{0, int64_t(1) << 31}}, 0), {out}}}, true,
         Code::NumberOverflow, 1, "beyond 2^31");
}

/// Their keys are of the scopes around, the name, and how many there were of
/// it; those in loops are drawn from other seeds, of one number for all loops.
TEST_F(BuilderTest, RandomNumbersHaveKeys) {
  const Initializer uniform = Initializer::uniform(0, 1);
  auto draw = [&] {
    EXPECT_TRUE(builder.random("u", uniform, ElementType::F32, {in}));
  };
  builder.enterScope("layer");
  draw();
  draw();
  builder.leaveScope();
  builder.beginLoop("i", builder.dim("outer", 2), {});
  builder.beginLoop("k", builder.dim("inner", 3), {});
  draw();
  ASSERT_TRUE(builder.endLoop({}, {}, {}));
  ASSERT_TRUE(builder.endLoop({}, {}, {}));
  builder.output("x", builder.input("x", ElementType::F32, {in}));
  std::vector<int64_t> keys;
  std::string text;
  builder.finish();
  auto module = takeModule(builder);
  ASSERT_TRUE(module);
  module->walk([&](meshc::nd::RandomOp op) {
    keys.push_back(int64_t(op.getKey()));
    if (auto fold = op.getSeed().getDefiningOp<meshc::nd::FoldInOp>())
      for (mlir::Operation *made = fold.getNumber().getDefiningOp(); made;
           made = made->getOperand(0).getDefiningOp())
        text += made->getName().stripDialect().str() + " ";
  });
  EXPECT_THAT(
      keys, testing::UnorderedElementsAre(meshc::nd::getRandomKey("layer/u#0"),
                                          meshc::nd::getRandomKey("layer/u#1"),
                                          meshc::nd::getRandomKey("i/k/u#0")));
  EXPECT_EQ(text, "add mul cast ");
}

TEST_F(BuilderTest, RandomNumbersAreFloats) {
  EXPECT_FALSE(
      builder.random("u", Initializer::uniform(0, 1), ElementType::I32, {in}));
  const BuildError error = getOnlyError(builder);
  EXPECT_EQ(error.code, Code::WrongElementType);
  EXPECT_EQ(error.message, "random numbers are floats, not i32");
}

TEST_F(BuilderTest, OneScopeOfANameOwnsParameters) {
  for (int i = 0; i < 2; ++i) {
    builder.enterNumberedScope("free");
    builder.leaveScope();
  }
  builder.enterNumberedScope("layer");
  builder.parameter("w", ElementType::F32, {in}, Initializer());
  builder.leaveScope();
  EXPECT_FALSE(builder.hasErrors());
  uint32_t line = __LINE__ + 1;
  builder.enterNumberedScope("layer");
  builder.parameter("w", ElementType::F32, {in}, Initializer());
  builder.leaveScope();
  BuildError error = getOnlyError(builder);
  EXPECT_EQ(error.code, Code::SharedScope);
  EXPECT_EQ(error.where.line, line);
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
  builder.addRule("batch -> data");
  builder.addRule("in -> data");
  builder.addRule("out -> model");
  builder.output("o", builder.input("x", ElementType::F32, {batch, in}));
  builder.finish();
  BuildError error = getOnlyError(builder);
  EXPECT_EQ(error.code, Code::UnknownAxis);
  EXPECT_THAT(error.message, HasSubstr("model"));
}

TEST_F(BuilderTest, RulesAreTextAsInASpec) {
  builder.setMesh({{"data", 2}});
  builder.addRule("params: * -> data");
  builder.addRule("weights: * -> data");
  builder.addRule("batch -> ");
  const std::vector<BuildError> errors = builder.takeErrors();
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0].code, Code::UnknownRole);
  EXPECT_EQ(errors[0].message,
            "\"weights: * -> data\" is no rule of a layout: a layout has no "
            "rules for \"weights\"");
  EXPECT_EQ(errors[1].code, Code::ExpectedToken);
  EXPECT_EQ(errors[1].message,
            "\"batch -> \" is no rule of a layout: expected a mesh axis");
}

/// A rule that is not made of text may be one that no text says.
TEST_F(BuilderTest, RulesThatNoTextSays) {
  using meshc::layout::Role;
  builder.setMesh({{"data", 2}});
  builder.addRule({{{"batch"}, {"data"}, Role::Parameter, {}, "w"}});
  builder.addRule({{{}, {"data"}}});
  builder.addRule({{{"a\"b"}, {"data"}}});
  const std::vector<BuildError> errors = builder.takeErrors();
  ASSERT_EQ(errors.size(), 3u);
  EXPECT_THAT(errors[0].message, HasSubstr("one by a name has no role"));
  EXPECT_THAT(errors[1].message, HasSubstr("\"*\" stands behind a role"));
  EXPECT_EQ(errors[2].code, Code::ExpectedToken);
}

TEST_F(BuilderTest, TwoDimsOfOneTensorOnOneAxis) {
  builder.setMesh({{"data", 2}});
  builder.addRule("batch -> data");
  builder.addRule("in -> data");
  builder.output("o", builder.input("x", ElementType::F32, {batch, in}));
  builder.finish();
  EXPECT_EQ(getOnlyError(builder).code, Code::SharedAxis);
}

/// Once for each parameter, in the loops that it is stacked over.
TEST_F(BuilderTest, UpdatesAreOfEachParameter) {
  Dim layer = builder.dim("layer", 3);
  builder.parameter("bias", ElementType::F64, {}, Initializer::fill(1));
  builder.beginLoop("i", layer, {});
  Tensor w =
      builder.parameter("w", ElementType::F32, {in}, Initializer::fill(1));
  auto sums =
      builder.endLoop({}, {}, {{"o", builder.reduce(Reduction::Sum, w, {in})}});
  ASSERT_TRUE(sums);
  builder.output("o", sums->summed.front());
  builder.training({"o", "heavy", 0, 7});
  builder.beginUpdates();
  EXPECT_THAT(builder.getParameters(), testing::ElementsAre("bias", "i/w"));
  for (const std::string &parameter : builder.getParameters()) {
    auto [old, gradient] = builder.beginUpdate(parameter, "heavy");
    EXPECT_FALSE(old.hasDim("layer"));
    builder.enterScope("heavy");
    std::vector<Dim> dims(old.getDims().begin(), old.getDims().end());
    Tensor sum = builder.modelState("v", old.getElementType(), dims,
                                    Initializer::fill(0));
    sum = builder.add(sum, gradient);
    builder.setModelState("v", sum);
    builder.leaveScope();
    // A number of the step takes the elements of what it stands beside.
    Tensor rate = builder.cast(builder.step(), ElementType::F32);
    builder.endUpdate(builder.sub(old, builder.mul(rate, sum)));
  }
  builder.finish();
  ASSERT_THAT(builder.takeErrors(), testing::IsEmpty());
  auto module = takeModule(builder);
  ASSERT_TRUE(module);
  auto getState = [&](llvm::StringRef name) {
    auto state = module->lookupSymbol<meshc::nd::VariableOp>(name);
    EXPECT_TRUE(state) << name.str();
    EXPECT_EQ(state.getRole(), meshc::nd::VariableRole::State);
    return state.getTensorType();
  };
  EXPECT_TRUE(getState("heavy/v/bias").getElementType().isF64());
  EXPECT_EQ(getState("heavy/v/i/w").getSizes(),
            (llvm::SmallVector<int64_t>{3, 5}));
  auto program = module->lookupSymbol<meshc::nd::ProgramOp>("update");
  ASSERT_TRUE(program);
  std::vector<std::string> written;
  for (auto write : program.getOps<meshc::nd::WriteOp>())
    written.push_back(write.getVariable().str());
  EXPECT_THAT(written, testing::ElementsAre("bias", "heavy/v/bias",
                                            "heavy/v/i/w", "i/w"));
  EXPECT_EQ(llvm::range_size(program.getOps<meshc::nd::InputOp>()), 1);
}

TEST_F(BuilderTest, SetsStateInTheTrainingStepAlone) {
  Dim wide = builder.dim("wide", 3);
  auto build = [&] {
    Tensor w =
        builder.parameter("w", ElementType::F32, {wide}, Initializer::fill(1));
    builder.modelState("a", ElementType::F32, {wide}, Initializer::fill(0));
    return w;
  };
  builder.setModelState("a", build());
  EXPECT_THAT(getOnlyError(builder).message,
              HasSubstr("\"a\" is set in the program of the training step"));
  builder.beginTraining();
  Tensor w = build();
  for (const char *name : {"w", "b"}) {
    builder.setModelState(name, w);
    EXPECT_THAT(getOnlyError(builder).message,
                HasSubstr("there is no state \"" + std::string(name) + "\""));
  }
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
