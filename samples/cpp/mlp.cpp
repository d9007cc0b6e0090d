// A multilayer perceptron from C++: builds it, prints its plan and writes an
// executable that trains it on image.npy and target.npy.

#include <meshc.h>

#include <iostream>

using enum meshc::ElementType;

int main(int, char **arguments) {
  meshc::Builder b;
  b.setMesh({{"data", 2}, {"model", 2}});
  b.addRule("batch -> data");
  b.addRule("hidden -> model");
  const auto batch = b.dim("batch", 32), pixel = b.dim("pixel", 784),
             hidden = b.dim("hidden", 512), kind = b.dim("class", 10);
  const auto image = b.input("image", F32, {batch, pixel});
  const auto target = b.input("target", F32, {batch, kind});
  const auto start = meshc::Initializer::normal(0, 0.05);
  const auto w1 = b.parameter("w1", F32, {pixel, hidden}, start);
  const auto w2 = b.parameter("w2", F32, {hidden, kind}, start);
  const auto h =
      b.maximum(b.einsum({image, w1}, {batch, hidden}), b.constant(0.0, F32));
  const auto y = b.einsum({h, w2}, {batch, kind});
  const auto off = b.sub(y, target);
  b.output("y", y);
  b.output("loss",
           b.reduce(meshc::Reduction::Mean, b.mul(off, off), {batch, kind}));

  // How it is trained: on these files, for 20 steps, by gradient descent.
  b.data({"image", "batch", "npy", "image.npy"});
  b.data({"target", "batch", "npy", "target.npy"});
  b.training({.minimize = "loss", .optimizer = "sgd", .steps = 20});
  b.beginUpdates();
  for (const std::string &name : b.getParameters()) {
    const auto [parameter, gradient] = b.beginUpdate(name, "sgd");
    b.endUpdate(b.sub(parameter, b.mul(gradient, b.constant(0.1, F32))));
  }

  meshc::Program program(b, {.name = "mlp"});
  if (!program) {
    std::cerr << program.getErrors();
    return 1;
  }
  std::cout << program.getPlan();
  if (!program.write(arguments[1])) {
    std::cerr << program.getErrors();
    return 1;
  }
}
