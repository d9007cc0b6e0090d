#include "tests/codegen/KernelFamilies.h"

using namespace meshc::test;

namespace {
/// Writes f32 arithmetic on tensors of any float type.
class FloatText : public ProgramText {
public:
  explicit FloatText(const std::string &type) : type(type) {}

  void floatInput(const std::string &name, const std::string &dims) {
    if (type == "f32")
      return input(name, dims);
    input("narrow_" + name, dims, type);
    pointwise(name, dims, {"narrow_" + name},
              "%r = arith.extf %a0 : " + type + " to f32");
  }
  void floatOutput(const std::string &name, const std::string &dims) {
    if (type == "f32")
      return output(name);
    pointwise("narrow_" + name, dims, {name},
              "%r = arith.truncf %a0 : f32 to " + type, type);
    output("narrow_" + name);
  }

private:
  std::string type;
};
} // namespace

ProgramText meshc::test::getProduct(int64_t size, const std::string &type) {
  ProgramText text;
  text.dim("d", size);
  text.input("x", "d", type);
  text.input("y", "d", type);
  text.pointwise("z", "d", {"x", "y"}, "%r = arith.mulf %a0, %a1 : " + type,
                 type);
  text.output("z");
  return text;
}

ProgramText meshc::test::getConversion(int64_t size, const std::string &from,
                                       const std::string &to) {
  ProgramText text;
  text.dim("d", size);
  text.input("x", "d", from);
  text.pointwise("y", "d", {"x"},
                 (to == "f32" ? "%r = arith.extf" : "%r = arith.truncf") +
                     (" %a0 : " + from) + " to " + to,
                 to);
  text.output("y");
  return text;
}

/// %p: twice the probability that a normal number is below %a0; %s: %a0 times
/// sqrt(1/2).
static const std::string twiceProbability =
    "%c = arith.constant 0.70710678 : f32\n"
    "%one = arith.constant 1.0 : f32\n"
    "%h = arith.constant 0.5 : f32\n"
    "%s = arith.mulf %a0, %c : f32\n"
    "%e = math.erf %s : f32\n"
    "%p = arith.addf %one, %e : f32\n";

ProgramText meshc::test::getGelu(int64_t size, const std::string &type) {
  FloatText text(type);
  text.dim("d", size);
  text.floatInput("x", "d");
  text.pointwise("y", "d", {"x"},
                 twiceProbability + "%q = arith.mulf %h, %a0 : f32\n"
                                    "%r = arith.mulf %q, %p : f32");
  text.floatOutput("y", "d");
  return text;
}

ProgramText meshc::test::getGeluGradient(int64_t size,
                                         const std::string &type) {
  FloatText text(type);
  text.dim("d", size);
  text.floatInput("x", "d");
  text.floatInput("g", "d");
  text.pointwise("y", "d", {"x", "g"},
                 twiceProbability + "%k = arith.constant 0.3989423 : f32\n"
                                    "%square = arith.mulf %s, %s : f32\n"
                                    "%n = arith.negf %square : f32\n"
                                    "%f = math.exp %n : f32\n"
                                    "%density = arith.mulf %k, %f : f32\n"
                                    "%t = arith.mulf %a0, %density : f32\n"
                                    "%q = arith.mulf %h, %p : f32\n"
                                    "%slope = arith.addf %q, %t : f32\n"
                                    "%r = arith.mulf %a1, %slope : f32");
  text.floatOutput("y", "d");
  return text;
}

ProgramText meshc::test::getLogistic(int64_t size, const std::string &type) {
  FloatText text(type);
  text.dim("d", size);
  text.floatInput("x", "d");
  text.pointwise("y", "d", {"x"},
                 "%one = arith.constant 1.0 : f32\n"
                 "%n = arith.negf %a0 : f32\n"
                 "%e = math.exp %n : f32\n"
                 "%s = arith.addf %one, %e : f32\n"
                 "%r = arith.divf %one, %s : f32");
  text.floatOutput("y", "d");
  return text;
}

ProgramText meshc::test::getSoftmax(int64_t rows, int64_t columns,
                                    const std::string &type) {
  FloatText text(type);
  text.dim("b", rows);
  text.dim("d", columns);
  text.floatInput("x", "b d");
  text.reduce("m", "b", {"x"}, "arith.maximumf", lowestF32);
  text.pointwise("c", "b d", {"x", "m"}, "%r = arith.subf %a0, %a1 : f32");
  text.pointwise("e", "b d", {"c"}, "%r = math.exp %a0 : f32");
  text.reduce("s", "b", {"e"}, "arith.addf", "0.0");
  text.pointwise("y", "b d", {"e", "s"}, "%r = arith.divf %a0, %a1 : f32");
  text.floatOutput("y", "b d");
  return text;
}

ProgramText meshc::test::getSoftmaxGradient(int64_t rows, int64_t columns,
                                            const std::string &type) {
  FloatText text(type);
  text.dim("b", rows);
  text.dim("d", columns);
  text.floatInput("y", "b d");
  text.floatInput("g", "b d");
  text.reduce("s", "b", {"y", "g"}, "arith.addf", "0.0",
              "%r = arith.mulf %a0, %a1 : f32");
  text.pointwise("dx", "b d", {"y", "g", "s"},
                 "%t = arith.subf %a1, %a2 : f32\n"
                 "%r = arith.mulf %a0, %t : f32");
  text.floatOutput("dx", "b d");
  return text;
}

ProgramText meshc::test::getLayerNorm(int64_t rows, int64_t columns,
                                      const std::string &type) {
  FloatText text(type);
  text.dim("b", rows);
  text.dim("d", columns);
  text.floatInput("x", "b d");
  text.input("gain", "d");
  text.input("bias", "d");
  const std::string factor = "%n = arith.constant " +
                             std::to_string(1.0 / double(columns)) + " : f32\n";
  text.reduce("row_sum", "b", {"x"}, "arith.addf", "0.0");
  text.pointwise("c", "b d", {"x", "row_sum"},
                 factor + "%m = arith.mulf %a1, %n : f32\n"
                          "%r = arith.subf %a0, %m : f32");
  text.reduce("squares", "b", {"c"}, "arith.addf", "0.0",
              "%r = arith.mulf %a0, %a0 : f32");
  text.pointwise("scale", "b", {"squares"},
                 factor + "%e = arith.constant 0.00001 : f32\n"
                          "%one = arith.constant 1.0 : f32\n"
                          "%v = arith.mulf %a0, %n : f32\n"
                          "%w = arith.addf %v, %e : f32\n"
                          "%q = math.sqrt %w : f32\n"
                          "%r = arith.divf %one, %q : f32");
  text.pointwise("y", "b d", {"c", "scale", "gain", "bias"},
                 "%s = arith.mulf %a0, %a1 : f32\n"
                 "%t = arith.mulf %s, %a2 : f32\n"
                 "%r = arith.addf %t, %a3 : f32");
  text.floatOutput("y", "b d");
  return text;
}

ProgramText meshc::test::getNormGradient(int64_t rows, int64_t columns,
                                         const std::string &type) {
  FloatText text(type);
  text.dim("b", rows);
  text.dim("d", columns);
  text.floatInput("x", "b d");
  text.floatInput("g", "b d");
  text.input("w", "d");
  text.pointwise("gw", "b d", {"g", "w"}, "%r = arith.mulf %a0, %a1 : f32");
  text.reduce("s", "b", {"gw"}, "arith.addf", "0.0");
  text.pointwise("dx", "b d", {"gw", "s", "x"},
                 "%t = arith.mulf %a1, %a2 : f32\n"
                 "%r = arith.subf %a0, %t : f32");
  text.pointwise("gx", "b d", {"g", "x"}, "%r = arith.mulf %a0, %a1 : f32");
  text.reduce("dw", "d", {"gx"}, "arith.addf", "0.0");
  text.reduce("db", "d", {"g"}, "arith.addf", "0.0");
  text.floatOutput("dx", "b d");
  text.output("dw");
  text.output("db");
  return text;
}

ProgramText meshc::test::getCrossEntropy(int64_t rows, int64_t columns,
                                         const std::string &type) {
  FloatText text(type);
  text.dim("b", rows);
  text.dim("d", columns);
  text.floatInput("x", "b d");
  text.input("label", "b", "i32");
  text.reduce("m", "b", {"x"}, "arith.maximumf", lowestF32);
  text.pointwise("c", "b d", {"x", "m"}, "%r = arith.subf %a0, %a1 : f32");
  text.pointwise("e", "b d", {"c"}, "%r = math.exp %a0 : f32");
  text.reduce("s", "b", {"e"}, "arith.addf", "0.0");
  const std::string table = type == "f32" ? "x" : "narrow_x";
  std::string pick = "%at = arith.index_cast %a0 : i32 to index\n"
                     "%p = tensor.extract %" +
                     table + "[$b, %at] : " + text.getTensorType(table) + "\n";
  pick += type == "f32" ? "%zero = arith.constant 0.0 : f32\n"
                          "%r = arith.addf %p, %zero : f32"
                        : "%r = arith.extf %p : " + type + " to f32";
  text.pointwise("picked", "b", {"label"}, pick);
  text.pointwise("y", "b", {"s", "m", "picked"},
                 "%l = math.log %a0 : f32\n"
                 "%t = arith.subf %a2, %a1 : f32\n"
                 "%r = arith.subf %l, %t : f32");
  text.output("y");
  return text;
}

ProgramText meshc::test::getColumnSum(int64_t rows, int64_t columns,
                                      const std::string &type) {
  FloatText text(type);
  text.dim("b", rows);
  text.dim("d", columns);
  text.floatInput("x", "b d");
  text.reduce("s", "d", {"x"}, "arith.addf", "0.0");
  text.output("s");
  return text;
}

ProgramText meshc::test::getSummedGeluGradient(int64_t rows, int64_t columns,
                                               const std::string &type) {
  FloatText text(type);
  text.dim("b", rows);
  text.dim("d", columns);
  text.floatInput("x", "b d");
  text.floatInput("g", "b d");
  text.pointwise("dx", "b d", {"x", "g"},
                 "%half = arith.constant 0.5 : f32\n"
                 "%one = arith.constant 1.0 : f32\n"
                 "%k = arith.constant 0.7978845608 : f32\n"
                 "%c = arith.constant 0.044715 : f32\n"
                 "%three_c = arith.constant 0.134145 : f32\n"
                 "%x2 = arith.mulf %a0, %a0 : f32\n"
                 "%cx2 = arith.mulf %c, %x2 : f32\n"
                 "%p = arith.addf %cx2, %one : f32\n"
                 "%kx = arith.mulf %k, %a0 : f32\n"
                 "%u = arith.mulf %kx, %p : f32\n"
                 "%t = math.tanh %u : f32\n"
                 "%t2 = arith.mulf %t, %t : f32\n"
                 "%s = arith.subf %one, %t2 : f32\n"
                 "%tcx2 = arith.mulf %three_c, %x2 : f32\n"
                 "%q = arith.addf %tcx2, %one : f32\n"
                 "%kq = arith.mulf %kx, %q : f32\n"
                 "%v = arith.mulf %kq, %s : f32\n"
                 "%w = arith.addf %t, %one : f32\n"
                 "%y = arith.addf %v, %w : f32\n"
                 "%z = arith.mulf %y, %half : f32\n"
                 "%r = arith.mulf %z, %a1 : f32");
  text.reduce("db", "d", {"dx"}, "arith.addf", "0.0");
  text.floatOutput("dx", "b d");
  text.output("db");
  return text;
}

ProgramText meshc::test::getMeanSquare(int64_t rows, int64_t columns,
                                       const std::string &type) {
  FloatText text(type);
  text.dim("b", rows);
  text.dim("d", columns);
  text.floatInput("x", "b d");
  text.floatInput("y", "b d");
  text.reduce("s", "", {"x", "y"}, "arith.addf", "0.0",
              "%c = arith.subf %a0, %a1 : f32\n"
              "%r = arith.mulf %c, %c : f32");
  text.pointwise("mean", "", {"s"},
                 "%n = arith.constant " + std::to_string(rows * columns) +
                     ".0 : f32\n%r = arith.divf %a0, %n : f32");
  text.output("mean");
  return text;
}

ProgramText meshc::test::getTranspose(int64_t rows, int64_t columns,
                                      const std::string &type) {
  ProgramText text;
  text.dim("p", rows);
  text.dim("q", columns);
  text.input("x", "p q", type);
  text.input("w", "p", type);
  text.pointwise("y", "q p", {"x", "w"}, "%r = arith.addf %a0, %a1 : " + type,
                 type);
  text.output("y");
  return text;
}

ProgramText meshc::test::getAdam(const std::vector<int64_t> &sizes,
                                 const std::string &type) {
  FloatText text(type);
  text.input("rate", "");
  int number = 0;
  for (int64_t size : sizes) {
    const std::string n = std::to_string(number++), dim = "d" + n;
    text.dim(dim, size);
    for (const char *name : {"w", "m", "v"})
      text.input(name + n, dim);
    text.floatInput("g" + n, dim);
    text.pointwise("mean" + n, dim, {"m" + n, "g" + n},
                   "%c = arith.constant 0.9 : f32\n"
                   "%d = arith.constant 0.1 : f32\n"
                   "%o = arith.mulf %a0, %c : f32\n"
                   "%p = arith.mulf %a1, %d : f32\n"
                   "%r = arith.addf %o, %p : f32");
    text.pointwise("square" + n, dim, {"v" + n, "g" + n},
                   "%c = arith.constant 0.999 : f32\n"
                   "%d = arith.constant 0.001 : f32\n"
                   "%s = arith.mulf %a1, %a1 : f32\n"
                   "%o = arith.mulf %a0, %c : f32\n"
                   "%p = arith.mulf %s, %d : f32\n"
                   "%r = arith.addf %o, %p : f32");
    text.pointwise("new" + n, dim, {"w" + n, "mean" + n, "square" + n, "rate"},
                   "%e = arith.constant 1.0e-8 : f32\n"
                   "%q = math.sqrt %a2 : f32\n"
                   "%d = arith.addf %q, %e : f32\n"
                   "%s = arith.mulf %a1, %a3 : f32\n"
                   "%t = arith.divf %s, %d : f32\n"
                   "%r = arith.subf %a0, %t : f32");
    for (const char *name : {"mean", "square", "new"})
      text.output(name + n);
  }
  return text;
}
