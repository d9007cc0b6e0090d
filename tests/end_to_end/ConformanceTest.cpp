// Single situations with a known best communication, and known pitfalls.

#include "tests/end_to_end/Harness.h"

#include "gmock/gmock.h"

using namespace meshc;
using namespace meshc::test;
using mlir::Value;
using ::testing::IsEmpty;

namespace {

using Expected = std::map<std::string, Traffic>;

class Conformance : public ::testing::Test {
protected:
  /// The traffic of the program under the layout; its values are checked too.
  Expected run(ModelBuilder &b, const Layout &layout,
               llvm::StringRef program = "eval") {
    Model model = b.take();
    EXPECT_TRUE(matches(model, layout));
    Compiled compiled = compile(model, layout);
    if (!compiled) {
      ADD_FAILURE() << compiled.diagnostics;
      return {};
    }
    return getTraffic(*compiled.local, program);
  }

  /// Every layout of the dimensions on two meshes.
  void checkAll(ModelBuilder &b, const std::vector<std::string> &dims) {
    Model model = b.take();
    for (const char *mesh : {"m=2", "m=2,n=3"})
      for (const Layout &layout : enumerateLayouts(mesh, dims, 1))
        ASSERT_TRUE(matches(model, layout));
  }

  std::unique_ptr<mlir::MLIRContext> context = makeContext();
};

TEST_F(Conformance, ASumOfPartialSumsIsReducedOnce) {
  ModelBuilder b(*context, {{"i", 3}, {"j", 5}, {"k", 4}});
  auto product = [&](const char *x, const char *y) {
    return b.einsum({b.input(x, {"i", "k"}), b.input(y, {"k", "j"})},
                    {"i", "j"});
  };
  Value sum = b.make<nd::AddOp>(product("x1", "y1"), product("x2", "y2"));
  b.output("y",
           b.make<nd::TanhOp>(b.make<nd::SubOp>(sum, product("x3", "y3"))));
  EXPECT_EQ(run(b, {"m=2", "k=m"}), (Expected{{"all_reduce m", {1, 15}}}));
}

TEST_F(Conformance, ScaledPartialSumsAreReducedOnce) {
  ModelBuilder b(*context, {{"i", 3}, {"j", 5}, {"k", 4}});
  auto product = [&](const char *x, const char *y) {
    return b.scale(
        b.einsum({b.input(x, {"i", "k"}), b.input(y, {"k", "j"})}, {"i", "j"}),
        0.5);
  };
  b.output("y",
           b.make<nd::TanhOp>(b.make<nd::AddOp>(
               product("x1", "y1"), b.make<nd::NegOp>(product("x2", "y2")))));
  EXPECT_EQ(run(b, {"m=2", "k=m"}), (Expected{{"all_reduce m", {1, 15}}}));
}

TEST_F(Conformance, ASumNeededSplitIsReduceScattered) {
  ModelBuilder b(*context, {{"b", 4}, {"c", 6}, {"d", 6}});
  Value sum = b.reduce(nd::Reduction::Sum, b.input("x", {"b", "c"}), {"c"});
  b.output("y", b.rename(sum, "c", "d"));
  EXPECT_EQ(run(b, {"m=2", "b=m,d=m"}),
            (Expected{{"reduce_scatter m", {1, 6}}}));
}

TEST_F(Conformance, ASumNeededSplitUnevenlyIsRight) {
  ModelBuilder b(*context, {{"b", 5}, {"c", 7}, {"d", 7}});
  Value sum = b.reduce(nd::Reduction::Sum, b.input("x", {"b", "c"}), {"c"});
  b.output("y", b.rename(sum, "c", "d"));
  EXPECT_EQ(run(b, {"m=3", "b=m,d=m"}),
            (Expected{{"reduce_scatter m", {1, 7}}}));
}

TEST_F(Conformance, AFullSumIsOneAllReduceOverBothAxes) {
  ModelBuilder b(*context, {{"b", 4}, {"c", 8}});
  Value sum = b.reduce(nd::Reduction::Sum, b.input("x", {"b", "c"}), {});
  b.output("y", b.make<nd::ExpOp>(sum));
  EXPECT_EQ(run(b, {"m=2,n=2", "b=m,c=n"}),
            (Expected{{"all_reduce m+n", {1, 1}}}));
}

TEST_F(Conformance, SumsOverOneAxisAfterAnotherAreOneAllReduce) {
  ModelBuilder b(*context, {{"b", 4}, {"c", 8}, {"d", 5}});
  Value x = b.input("x", {"b", "c", "d"});
  Value once = b.reduce(nd::Reduction::Sum, x, {"c", "d"});
  b.output("y", b.make<nd::TanhOp>(b.reduce(nd::Reduction::Sum, once, {"d"})));
  EXPECT_EQ(run(b, {"m=2,n=2", "b=m,c=n"}),
            (Expected{{"all_reduce m+n", {1, 5}}}));
}

TEST_F(Conformance, GatherCommunicatesWhereTheTableIsSplitAlone) {
  auto gather = [&](ModelBuilder &b) {
    Value table = b.parameter("table", {"vocab", "feature"});
    b.output("y", b.gather(table, b.indexInput("i", {"batch"}, 8), "vocab"));
  };
  std::map<std::string, int64_t> sizes = {
      {"vocab", 8}, {"feature", 6}, {"batch", 4}};
  ModelBuilder vocab(*context, sizes), batch(*context, sizes),
      feature(*context, sizes);
  gather(vocab);
  EXPECT_EQ(run(vocab, {"m=2", "vocab=m"}),
            (Expected{{"all_reduce m", {1, 4 * 6}}}));
  gather(batch);
  EXPECT_THAT(run(batch, {"m=2", "batch=m"}), IsEmpty());
  gather(feature);
  EXPECT_THAT(run(feature, {"m=2", "feature=m"}), IsEmpty());
}

TEST_F(Conformance, AVocabularyAndABatchMayShareAnAxis) {
  ModelBuilder b(*context, {{"vocab", 7}, {"feature", 3}, {"batch", 5}});
  Value table = b.parameter("table", {"vocab", "feature"});
  Value y = b.gather(table, b.indexInput("i", {"batch"}, 7), "vocab");
  b.output("loss", b.reduce(nd::Reduction::Mean, b.make<nd::MulOp>(y, y), {}));
  b.train("loss", "sgd", {{"lr", 0.5}});
  run(b, {"m=2", "vocab=m,batch=m"});
}

TEST_F(Conformance, SoftmaxAndLayerNormUnderEverySplit) {
  for (bool isNorm : {false, true}) {
    ModelBuilder b(*context, {{"i", 4}, {"j", 5}, {"k", 3}});
    Value x = b.parameter("x", {"i", "j", "k"});
    Value y = isNorm ? b.layerNorm(x, "j", b.parameter("gain", {"j"}),
                                   b.parameter("bias", {"j"}))
                     : b.softmax(x, "j");
    b.output("y", y);
    b.output("loss", b.einsum({y, b.input("dy", {"i", "j", "k"})}, {}));
    b.train("loss", "sgd", {{"lr", 0.5}});
    checkAll(b, {"i", "j", "k"});
  }
}

TEST_F(Conformance, FunctionsOfSplitContractions) {
  ModelBuilder b(*context, {{"i", 4}, {"j", 5}, {"k", 3}});
  Value product = b.einsum(
      {b.parameter("x", {"i", "j"}), b.parameter("w", {"j", "k"})}, {"i", "k"});
  Value y = b.make<nd::TanhOp>(b.make<nd::LogOp>(
      b.make<nd::AddOp>(b.make<nd::ExpOp>(product), b.constant(1))));
  b.output("loss", b.einsum({y, b.input("dy", {"i", "k"})}, {}));
  b.train("loss", "sgd", {{"lr", 0.5}});
  checkAll(b, {"i", "j", "k"});
}

TEST_F(Conformance, GradientOfABroadcastMaximum) {
  ModelBuilder b(*context, {{"i", 4}, {"j", 5}});
  Value y = b.make<nd::MaximumOp>(b.parameter("x", {"i", "j"}),
                                  b.parameter("z", {"j"}));
  b.output("loss", b.einsum({y, b.input("dy", {"i", "j"})}, {}));
  b.train("loss", "sgd", {{"lr", 0.5}});
  checkAll(b, {"i", "j"});
}

TEST_F(Conformance, NaNThatIsNotTakenStaysOut) {
  ModelBuilder b(*context, {{"i", 4}, {"j", 5}});
  Value x = b.parameter("x", {"i", "j"});
  Value isPositive = b.compare(nd::Predicate::Gt, x, b.constant(0));
  Value y =
      b.make<nd::SelectOp>(isPositive, b.make<nd::SqrtOp>(x), b.constant(0));
  b.output("loss", b.einsum({y, b.input("dy", {"i", "j"})}, {}));
  b.train("loss", "sgd", {{"lr", 0.5}});
  checkAll(b, {"i", "j"});
}

TEST_F(Conformance, AContractionOfThreeMayNeedToBeReassociated) {
  // No tensor has i and l, but the product of all has.
  ModelBuilder b(*context, {{"i", 4}, {"j", 5}, {"k", 3}, {"l", 6}});
  b.output("y", b.einsum({b.input("x", {"i", "j"}), b.input("y", {"j", "k"}),
                          b.input("z", {"k", "l"})},
                         {"j", "k"}));
  run(b, {"m=2", "i=m,l=m"});
}

TEST_F(Conformance, GradientsOfOneParameterUsedTwiceAreSummedOnce) {
  ModelBuilder b(*context, {{"batch", 4}, {"i", 5}, {"j", 5}, {"k", 5}});
  Value w = b.parameter("w", {"i", "j"});
  Value h = b.make<nd::TanhOp>(
      b.einsum({b.input("x", {"batch", "i"}), w}, {"batch", "j"}));
  Value again = b.einsum({b.rename(h, "j", "i"), w}, {"batch", "j"});
  b.output("loss",
           b.reduce(nd::Reduction::Mean, b.make<nd::MulOp>(again, again), {}));
  b.train("loss", "sgd", {{"lr", 0.5}});
  EXPECT_EQ(run(b, {"m=2", "batch=m"}, "step"),
            (Expected{{"all_reduce m", {1, 25}}}));
}

} // namespace
