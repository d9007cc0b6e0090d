#ifndef MESHC_TESTS_END_TO_END_MODELS_H
#define MESHC_TESTS_END_TO_END_MODELS_H

#include "tests/end_to_end/ModelBuilder.h"

namespace meshc::test {

/// How a model is trained; no optimizer for one that is not.
struct Recipe {
  std::string optimizer;
  std::map<std::string, double> hyper;

  static Recipe sgd() { return {"sgd", {{"lr", 0.25}}}; }
  static Recipe momentum() {
    return {"momentum", {{"lr", 0.25}, {"beta", 0.75}}};
  }
  static Recipe adam() {
    return {"adam",
            {{"lr", 0.25}, {"beta1", 0.75}, {"beta2", 0.5}, {"epsilon", 1e-3}}};
  }
};

/// y = relu(x w + bias) v with x, y: [batch, io] and loss = sum of tanh(y) *
/// dy, where dy is an input. x is a parameter, so its gradient is taken. What
/// reads "y" needs all of it; the loss is a scalar.
Model makePlainMlp(mlir::MLIRContext &context, int64_t batch, int64_t io,
                   int64_t hidden);

/// A classifier: relu(image w1 + b1) w2 + b2, the mean cross entropy with
/// labels, and the accuracy.
Model makeClassifier(mlir::MLIRContext &context, int64_t batch, int64_t pixel,
                     int64_t hidden, int64_t classes, const Recipe &recipe);

struct BlockSizes {
  int64_t batch = 6, pos = 5, dModel = 9, heads = 3, dHead = 4, dFf = 7;
};

/// `blocks` pre-norm decoder blocks (layer norm with gain and bias, causal
/// attention, exact gelu), residuals, and a mean-square head. Dimensions:
/// batch, pos, key_pos, d_model, heads, d_head, d_ff.
Model makeBlocks(mlir::MLIRContext &context, int blocks,
                 const BlockSizes &sizes, const Recipe &recipe);

} // namespace meshc::test

#endif
