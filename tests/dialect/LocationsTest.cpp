#include "dialect/Locations.h"

#include "tests/dialect/Programs.h"

#include "gtest/gtest.h"

using namespace meshc;

namespace {
class LocationsTest : public ::testing::Test {
protected:
  mlir::MLIRContext context;
  mlir::Location position = withSpan(&context, {"f.mesh", 2, 3, 2, 9});
};
} // namespace

static void expectSays(mlir::Location loc, llvm::StringRef name, bool inside,
                       nd::Phase phase) {
  EXPECT_EQ(getValueName(loc), name);
  EXPECT_EQ(isInside(loc), inside);
  EXPECT_EQ(getPhase(loc), phase);
  EXPECT_EQ(getSpan(loc), (SourceSpan{"f.mesh", 2, 3, 2, 9}));
}

TEST_F(LocationsTest, NamePlaceAndPhaseDoNotDisturbEachOther) {
  context.loadDialect<nd::NDDialect>();
  expectSays(position, "", false, nd::Phase::Forward);
  mlir::Location h = withName(position, "h");
  expectSays(h, "h", false, nd::Phase::Forward);
  mlir::Location inside = withNameInside(position, "h");
  expectSays(inside, "h", true, nd::Phase::Forward);
  mlir::Location backward = withPhase(inside, nd::Phase::Backward);
  expectSays(backward, "h", true, nd::Phase::Backward);
  // Another name, another phase: the old ones are gone, not wrapped.
  expectSays(withName(backward, "g"), "g", false, nd::Phase::Backward);
  EXPECT_EQ(withName(withNameInside(withName(backward, "x"), "y"), "g"),
            withName(backward, "g"));
  EXPECT_EQ(withPhase(withPhase(h, nd::Phase::Update), nd::Phase::Forward), h);
}

TEST_F(LocationsTest, GradientsAreCalledAfterTheirOperand) {
  context.loadDialect<nd::NDDialect>();
  mlir::OpBuilder builder(&context);
  auto module = mlir::ModuleOp::create(builder, position);
  builder.setInsertionPointToEnd(module.getBody());
  auto type = nd::NamedTensorType::get({}, builder.getF32Type());
  auto make = [&](mlir::Location loc) -> mlir::Value {
    return nd::ConstantOp::create(builder, loc, type,
                                  builder.getF32FloatAttr(1));
  };
  auto gradient = [&](mlir::Location operand, mlir::Location result) {
    mlir::Value x = make(operand);
    mlir::Operation *op = nd::ExpOp::create(builder, result, type, x);
    return getGradientLoc(op, x);
  };
  using nd::Phase;
  expectSays(gradient(withName(position, "h"), withName(position, "y")),
             "gradient of h", false, Phase::Backward);
  expectSays(gradient(withNameInside(position, "h"), withName(position, "y")),
             "gradient of h", true, Phase::Backward);
  expectSays(gradient(position, withName(position, "y")), "gradient of y", true,
             Phase::Backward);
  expectSays(gradient(position, position), "", false, Phase::Backward);
  module.erase();
}
