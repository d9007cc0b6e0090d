// Patterns that never end are stopped, and named at a line of the spec.

#include "tests/frontend/SpecTesting.h"

#include "dialect/ND.h"
#include "passes/GreedyRewrite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace meshc;
using namespace meshc::frontend;
using ::testing::HasSubstr;

namespace {

/// x * y -> y * x
struct SwapFactors : mlir::OpRewritePattern<nd::MulOp> {
  using OpRewritePattern::OpRewritePattern;

  mlir::LogicalResult
  matchAndRewrite(nd::MulOp op,
                  mlir::PatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<nd::MulOp>(op, op.getType(), op.getRhs(),
                                           op.getLhs());
    return mlir::success();
  }
};

/// x + y -> y + x, in place and only once: by then the sum is not what it was.
struct SwapTermsOnce : mlir::OpRewritePattern<nd::AddOp> {
  using OpRewritePattern::OpRewritePattern;

  mlir::LogicalResult
  matchAndRewrite(nd::AddOp op,
                  mlir::PatternRewriter &rewriter) const override {
    if (op->hasAttr("swapped"))
      return rewriter.notifyMatchFailure(op, "is swapped");
    rewriter.modifyOpInPlace(op, [&] {
      op->setOperands({op.getRhs(), op.getLhs()});
      op->setAttr("swapped", rewriter.getUnitAttr());
    });
    return mlir::success();
  }
};

const char *const spec = "dim row = 2\n"
                         "model m(x: f32[row], y: f32[row]) {\n"
                         "  let s = x + y\n"
                         "  output p = exp(s) * y\n"
                         "}\n";

TEST(GreedyRewrite, NamesThePatternThatDoesNotEnd) {
  SpecRun run(spec);
  ASSERT_TRUE(run.module) << run.getText();
  mlir::RewritePatternSet patterns(&run.context);
  patterns.add<SwapFactors, SwapTermsOnce>(&run.context);
  {
    PassErrors errors(run.context, run.diagnostics);
    EXPECT_TRUE(failed(rewriteGreedily(*run.module, std::move(patterns))));
  }
  ASSERT_EQ(run.diagnostics.getErrors().size(), 1U);
  const Diagnostic &error = run.diagnostics.getErrors().front();
  EXPECT_EQ(error.code, Code::Refused);
  EXPECT_THAT(error.message, HasSubstr("does not end"));
  EXPECT_THAT(error.message, HasSubstr("SwapFactors"));
  EXPECT_THAT(run.getText(), HasSubstr("test.mesh:4:14"));
  EXPECT_THAT(run.getText(), HasSubstr("exp(s) * y"));
}

TEST(GreedyRewrite, PatternsThatEndSucceed) {
  SpecRun run(spec);
  ASSERT_TRUE(run.module) << run.getText();
  mlir::RewritePatternSet patterns(&run.context);
  patterns.add<SwapTermsOnce>(&run.context);
  EXPECT_TRUE(succeeded(rewriteGreedily(*run.module, std::move(patterns))));
  EXPECT_THAT(run.printModule(), HasSubstr("swapped"));
}

} // namespace
