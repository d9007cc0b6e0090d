// What fusion asks about lists of operations, once for each form of list.

#include "codegen/kernels/ClusterForms.h"
#include "codegen/kernels/Schedule.h"
#include "codegen/kernels/StructuredOps.h"
#include "tests/codegen/KernelFamilies.h"
#include "tests/dialect/Programs.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace meshc;
using namespace meshc::codegen;
using namespace meshc::test;

namespace {

const std::string addOne = "%c = arith.constant 1.0 : f32\n"
                           "%r = arith.addf %a0, %c : f32";
const std::string addTwo = "%c = arith.constant 2.0 : f32\n"
                           "%r = arith.addf %a0, %c : f32";
const std::string tangent = "%r = math.tanh %a0 : f32";
const std::string multiply = "%r = arith.mulf %a0, %a1 : f32";

class ClusterFormsTest : public ::testing::Test {
protected:
  using Ops = std::vector<Operation *>;

  /// The operations of a program that kernels are made of.
  Ops parse(const ProgramText &text) {
    modules.push_back(parseFused(*context, text.str()));
    return getComputations(*modules.back());
  }

  /// Results that are read outside of the list.
  static SmallVector<Value> getOutputs(ArrayRef<Operation *> ops) {
    SmallVector<Value> outputs;
    for (Operation *op : ops)
      if (!llvm::all_of(op->getUsers(), [&](Operation *user) {
            return llvm::is_contained(ops, user);
          }))
        outputs.push_back(op->getResult(0));
    return outputs;
  }

  bool canRun(ArrayRef<Operation *> ops) {
    return forms.canRun(ops, getOutputs(ops));
  }

  std::unique_ptr<MLIRContext> context = makeContext();
  std::vector<OwningOpRef<ModuleOp>> modules;
  ClusterForms forms;
};

/// y = tanh(x + 1) z, or what is asked for.
struct Layer {
  std::string dims = "r n", first = addOne, factor = "z";
  bool isOutput = false; ///< the tangent, too
};

ProgramText makeLayers(const std::vector<Layer> &layers) {
  ProgramText text;
  text.dim("r", 5);
  text.dim("n", 7);
  text.input("z", "r n");
  text.input("x", "r n");
  text.input("v", "n r");
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer &layer = layers[i];
    const std::string number = std::to_string(i);
    text.pointwise("s" + number, layer.dims, {layer.dims == "r n" ? "x" : "v"},
                   layer.first);
    text.pointwise("t" + number, layer.dims, {"s" + number}, tangent);
    const std::string factor =
        layer.factor == "itself" ? "t" + number : layer.factor;
    text.pointwise("y" + number, layer.dims, {"t" + number, factor}, multiply);
    if (layer.isOutput)
      text.output("t" + number);
    text.output("y" + number);
  }
  return text;
}

TEST_F(ClusterFormsTest, layers_that_are_alike_are_tried_once) {
  const Ops ops = parse(makeLayers(std::vector<Layer>(5)));
  ASSERT_EQ(ops.size(), 15u);
  for (size_t i = 0; i < ops.size(); i += 3)
    EXPECT_TRUE(canRun(ArrayRef(ops).slice(i, 3)));
  EXPECT_EQ(forms.getNumTried(), 1u);
}

TEST_F(ClusterFormsTest, layers_that_differ_are_not) {
  // In a number, in a shape, in which values are the same, in what is needed.
  const Ops ops = parse(makeLayers({{},
                                    {.first = addTwo},
                                    {.dims = "n r", .factor = "v"},
                                    {.factor = "x"},
                                    {.factor = "itself"},
                                    {.isOutput = true}}));
  ASSERT_EQ(ops.size(), 18u);
  for (size_t i = 0; i < ops.size(); i += 3)
    EXPECT_TRUE(canRun(ArrayRef(ops).slice(i, 3)));
  EXPECT_EQ(forms.getNumTried(), 6u);
}

TEST_F(ClusterFormsTest, what_is_computed_again_is_a_part_of_its_readers) {
  ProgramText text;
  text.dim("r", 5);
  text.dim("n", 7);
  text.input("x", "r n");
  text.input("v", "n");
  text.input("w", "r n");
  // Two tensors that are broadcast, of which one is computed: not again.
  text.pointwise("wide", "r n", {"v"}, "");
  text.pointwise("made", "r n", {"w"}, tangent);
  text.pointwise("y", "r n", {"x", "wide"}, multiply);
  text.pointwise("z", "r n", {"x", "made"}, multiply);
  text.output("made");
  text.output("y");
  text.output("z");
  const Ops ops = parse(text);
  ASSERT_EQ(ops.size(), 4u);
  ASSERT_TRUE(isRecomputed(ops[0]));
  ASSERT_FALSE(isRecomputed(ops[1]));
  EXPECT_TRUE(canRun(ops[2]));
  EXPECT_TRUE(canRun(ops[3]));
  EXPECT_EQ(forms.getNumTried(), 2u);
}

TEST_F(ClusterFormsTest, every_list_is_answered_as_if_it_were_tried) {
  std::vector<ProgramText> programs;
  for (const std::string type : {"f32", "bf16"}) {
    programs.push_back(getGeluGradient(70, type));
    programs.push_back(getSummedGeluGradient(6, 14, type));
    programs.push_back(getMeanSquare(5, 7, type));
    programs.push_back(getTranspose(5, 7, type));
    programs.push_back(getAdam({35, 14}, type));
    for (int64_t columns : {7, 12, 40000}) {
      programs.push_back(getSoftmax(5, columns, type));
      programs.push_back(getSoftmaxGradient(5, columns, type));
      programs.push_back(getLayerNorm(5, columns, type));
      programs.push_back(getNormGradient(5, columns, type));
      programs.push_back(getCrossEntropy(5, columns, type));
    }
  }
  size_t asked = 0, refused = 0;
  for (int round = 0; round < 2; ++round)
    for (const ProgramText &program : programs) {
      const Ops ops = parse(program);
      for (size_t begin = 0; begin < ops.size(); ++begin)
        for (size_t size = 1; size <= 8 && begin + size <= ops.size(); ++size) {
          const ArrayRef<Operation *> list = ArrayRef(ops).slice(begin, size);
          const SmallVector<Value> outputs = getOutputs(list);
          std::optional<Cluster> cluster = Cluster::build(list, outputs);
          const bool expected = cluster && Schedule::build(*cluster);
          EXPECT_EQ(forms.canRun(list, outputs), expected);
          ++asked;
          refused += !expected;
        }
    }
  EXPECT_GT(refused, 100u);
  EXPECT_LE(2 * forms.getNumTried(), asked);
}

} // namespace
