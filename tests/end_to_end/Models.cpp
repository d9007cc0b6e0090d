#include "tests/end_to_end/Models.h"

#include <cmath>
#include <limits>

using namespace meshc;
using namespace meshc::test;
using mlir::Value;

Model meshc::test::makePlainMlp(mlir::MLIRContext &context, int64_t batch,
                                int64_t io, int64_t hidden) {
  ModelBuilder b(context, {{"batch", batch}, {"io", io}, {"hidden", hidden}});
  Value x = b.parameter("x", {"batch", "io"});
  Value w = b.parameter("w", {"io", "hidden"});
  Value bias = b.parameter("bias", {"hidden"});
  Value v = b.parameter("v", {"hidden", "io"});
  Value dy = b.input("dy", {"batch", "io"});
  Value h =
      b.relu(b.make<nd::AddOp>(b.einsum({x, w}, {"batch", "hidden"}), bias));
  Value y = b.einsum({h, v}, {"batch", "io"});
  b.output("y", y);
  b.output("loss", b.einsum({b.make<nd::TanhOp>(y), dy}, {}));
  b.train("loss", "sgd", {{"lr", 0.25}});
  return b.take();
}

Model meshc::test::makeClassifier(mlir::MLIRContext &context, int64_t batch,
                                  int64_t pixel, int64_t hidden,
                                  int64_t classes, const Recipe &recipe) {
  ModelBuilder b(context, {{"batch", batch},
                           {"pixel", pixel},
                           {"hidden", hidden},
                           {"class", classes}});
  Value image = b.input("image", {"batch", "pixel"}, {0, 1});
  Value label = b.indexInput("label", {"batch"}, classes);
  Value w1 = b.parameter("w1", {"pixel", "hidden"});
  Value b1 = b.parameter("b1", {"hidden"});
  Value w2 = b.parameter("w2", {"hidden", "class"});
  Value b2 = b.parameter("b2", {"class"});
  Value h =
      b.relu(b.make<nd::AddOp>(b.einsum({image, w1}, {"batch", "hidden"}), b1));
  Value logits = b.make<nd::AddOp>(b.einsum({h, w2}, {"batch", "class"}), b2);
  b.output("loss", b.reduce(nd::Reduction::Mean,
                            b.crossEntropy(logits, label, "class"), {}));
  Value right = b.compare(
      nd::Predicate::Eq, b.argReduce(nd::ArgKind::Max, logits, "class"), label);
  b.output("accuracy",
           b.reduce(nd::Reduction::Mean,
                    b.cast(right, b.getBuilder().getF64Type()), {}));
  b.train("loss", recipe.optimizer, recipe.hyper);
  return b.take();
}

static Value makeAttention(ModelBuilder &b, Value x, const std::string &scope,
                           int64_t dHead) {
  auto weight = [&](const char *name) {
    return b.parameter(scope + name, {"d_model", "heads", "d_head"});
  };
  Value wq = weight("wq"), wk = weight("wk"), wv = weight("wv");
  Value wo = b.parameter(scope + "wo", {"heads", "d_head", "d_model"});
  Value m = b.rename(x, "pos", "key_pos");
  Value q = b.einsum({x, wq}, {"batch", "heads", "pos", "d_head"});
  Value k = b.einsum({m, wk}, {"batch", "heads", "key_pos", "d_head"});
  Value v = b.einsum({m, wv}, {"batch", "heads", "key_pos", "d_head"});
  Value scores = b.scale(b.einsum({q, k}, {"batch", "heads", "pos", "key_pos"}),
                         1 / std::sqrt(double(dHead)));
  Value isPast = b.compare(nd::Predicate::Ge, b.iota("pos"), b.iota("key_pos"));
  Value seen = b.make<nd::SelectOp>(
      isPast, scores, b.constant(-std::numeric_limits<double>::infinity()));
  Value read = b.einsum({b.softmax(seen, "key_pos"), v},
                        {"batch", "heads", "pos", "d_head"});
  return b.einsum({read, wo}, {"batch", "pos", "d_model"});
}

static Value makeFeedForward(ModelBuilder &b, Value x,
                             const std::string &scope) {
  Value w1 = b.parameter(scope + "w1", {"d_model", "d_ff"});
  Value b1 = b.parameter(scope + "b1", {"d_ff"});
  Value w2 = b.parameter(scope + "w2", {"d_ff", "d_model"});
  Value b2 = b.parameter(scope + "b2", {"d_model"});
  Value h = b.gelu(
      b.make<nd::AddOp>(b.einsum({x, w1}, {"batch", "pos", "d_ff"}), b1));
  return b.make<nd::AddOp>(b.einsum({h, w2}, {"batch", "pos", "d_model"}), b2);
}

static Value makeNorm(ModelBuilder &b, Value x, const std::string &scope) {
  return b.layerNorm(x, "d_model", b.parameter(scope + "gain", {"d_model"}),
                     b.parameter(scope + "bias", {"d_model"}));
}

Model meshc::test::makeBlocks(mlir::MLIRContext &context, int blocks,
                              const BlockSizes &sizes, const Recipe &recipe) {
  ModelBuilder b(context, {{"batch", sizes.batch},
                           {"pos", sizes.pos},
                           {"key_pos", sizes.pos},
                           {"d_model", sizes.dModel},
                           {"heads", sizes.heads},
                           {"d_head", sizes.dHead},
                           {"d_ff", sizes.dFf}});
  Value x = b.input("x", {"batch", "pos", "d_model"});
  Value target = b.input("target", {"batch", "pos", "d_model"});
  for (int i = 1; i <= blocks; ++i) {
    std::string scope = "b" + std::to_string(i) + "/";
    x = b.make<nd::AddOp>(x, makeAttention(b, makeNorm(b, x, scope + "norm1/"),
                                           scope + "attention/", sizes.dHead));
    x = b.make<nd::AddOp>(x,
                          makeFeedForward(b, makeNorm(b, x, scope + "norm2/"),
                                          scope + "feed_forward/"));
  }
  Value error = b.make<nd::SubOp>(x, target);
  b.output("loss",
           b.reduce(nd::Reduction::Mean, b.make<nd::MulOp>(error, error), {}));
  if (!recipe.optimizer.empty())
    b.train("loss", recipe.optimizer, recipe.hyper);
  return b.take();
}
