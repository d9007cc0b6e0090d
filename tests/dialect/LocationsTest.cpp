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
  mlir::Location inside = asInside(h);
  expectSays(inside, "h", true, nd::Phase::Forward);
  mlir::Location backward = withPhase(inside, nd::Phase::Backward);
  expectSays(backward, "h", true, nd::Phase::Backward);
  // Another name, another phase: the old ones are gone, not wrapped.
  expectSays(withName(backward, "g"), "g", false, nd::Phase::Backward);
  EXPECT_EQ(withName(asInside(withName(backward, "x")), "g"),
            withName(backward, "g"));
  // What has no name is inside of nothing.
  EXPECT_EQ(asInside(position), position);
  EXPECT_EQ(asInside(position, getOrigin(h)), inside);
  // What meshc adds is on the way, but for what is gathered: that is the value.
  expectSays(asPart(h, nd::OriginPart::Copy), "h", true, nd::Phase::Forward);
  expectSays(asPart(inside, nd::OriginPart::Gathered), "h", false,
             nd::Phase::Forward);
  EXPECT_EQ(asPart(position, nd::OriginPart::Padded), position);
  EXPECT_EQ(asPart(inside, nd::OriginPart::Copy), inside);
  EXPECT_EQ(withPhase(withPhase(h, nd::Phase::Update), nd::Phase::Forward), h);
}

TEST_F(LocationsTest, NamesAreMadeOfOrigins) {
  context.loadDialect<nd::NDDialect>();
  auto text = [&](llvm::StringRef given) {
    return mlir::StringAttr::get(&context, given);
  };
  auto layer = nd::ScopeAttr::get(nd::ScopeAttr(), text("layer"));
  auto attention = nd::ScopeAttr::get(layer, text("attn"));
  auto w = nd::OriginAttr::get(attention, text("w"));
  EXPECT_EQ(w.getText(), "layer/attn/w");
  nd::OriginAttr third = w.inScope(attention.inIteration(layer, 3));
  EXPECT_EQ(third.getText(), "layer/3/attn/w");
  EXPECT_FALSE(third.isOf(w));
  // Another scope of the name is not that loop.
  auto other = nd::ScopeAttr::get(attention, text("layer"));
  EXPECT_EQ(other.inIteration(layer, 2).getText(), "layer/2/attn/layer");
  EXPECT_EQ(attention.inIteration(other, 2), attention);

  EXPECT_EQ(w.asState("adam/m").getText(), "adam/m/layer/attn/w");
  EXPECT_TRUE(w.asState("adam/m").isOf(w));
  nd::OriginAttr narrow = third.asElement("bf16");
  EXPECT_EQ(narrow.getText(), "layer/3/attn/w as bf16");
  expectSays(asGradient(withName(position, narrow)),
             "gradient of layer/3/attn/w as bf16", false, nd::Phase::Backward);
  expectSays(withName(position, "adam", "step"), "adam/step", false,
             nd::Phase::Forward);
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
  expectSays(
      gradient(asInside(withName(position, "h")), withName(position, "y")),
      "gradient of h", true, Phase::Backward);
  expectSays(gradient(position, withName(position, "y")), "gradient of y", true,
             Phase::Backward);
  expectSays(gradient(position, position), "", false, Phase::Backward);
  module.erase();
}
