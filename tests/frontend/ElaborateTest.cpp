// The module that a spec becomes: names, places, declarations, order of dims.

#include "SpecTesting.h"

#include "dialect/Locations.h"
#include "mlir/IR/PatternMatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

using namespace meshc;
using namespace meshc::frontend;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

namespace {

std::vector<std::string> getValueNames(SpecRun &run) {
  std::vector<std::string> names;
  run.module->walk([&](mlir::Operation *op) {
    if (op->getNumResults() && !getValueName(op->getLoc()).empty())
      names.push_back(getValueName(op->getLoc()));
  });
  return names;
}

/// The text that an operation's location covers.
std::string getCoveredText(SpecRun &run, mlir::Operation *op) {
  std::optional<SourceSpan> span = getSpan(op->getLoc());
  EXPECT_TRUE(span);
  EXPECT_EQ(span->file, "test.mesh");
  const Source &source = run.sources.get(0);
  uint32_t begin = source.getOffset({span->line, span->column});
  uint32_t end = source.getOffset({span->endLine, span->endColumn});
  return std::string(source.getText().substr(begin, end - begin));
}

const std::string head = "mesh data = 2, model = 3\ndim batch = 6\n"
                         "dim in = 5\ndim out = 7\n";

//===-- Requirements ------------------------------------------------------===//

/// Parameters take what they say in any order of dims, and what they ask of a
/// later parameter or of a list; a call that fits adds nothing to the program.
TEST(Elaborate, ParametersThatFit) {
  const std::string body = " {\n  assert size(over) >= n and not t\n"
                           "  return sum(x, over = over) * n\n}\n"
                           "model m(x: f32[batch, in, out]) {\n"
                           "  output o = f(x, (in, batch), t = 1 > 2)\n"
                           "  output p = f(x, out, n = batch, t = 1 > 2)\n}\n";
  SpecRun plain(head + "fn f(x, over, n = 2, t)" + body);
  ASSERT_TRUE(plain.module) << plain.getText();
  for (const char *parameters :
       {"x: [.., over], over: dims, n: number = 2, t: truth",
        "x: [out, batch, in], over, n = 2, t", "x: [..], over, n = 2, t",
        "x: f32[.., out, over], over: dims, n = 2, t: truth"}) {
    SpecRun run(head + "fn f(" + parameters + ")" + body);
    ASSERT_TRUE(run.module) << parameters << "\n" << run.getText();
    EXPECT_EQ(run.printModule(), plain.printModule()) << parameters;
  }
}

/// What a call says of its argument is all that is said of it, and what the
/// user wrote is what is marked.
TEST(Elaborate, ACallIsWrongOnce) {
  SpecRun run(head + "fn inner(x: [.., over], over: dims) {\n"
                     "  return softmax(x, over)\n}\n"
                     "fn outer(x) { return inner(x, out) }\n"
                     "model m(x: f32[batch, in]) {\n"
                     "  output o = outer(x)\n}\n");
  ASSERT_EQ(run.diagnostics.getErrors().size(), 1u) << run.getText();
  const Diagnostic &error = run.diagnostics.getErrors()[0];
  EXPECT_EQ(error.code, Code::DimNotInTensor);
  EXPECT_EQ(run.sources.getText(error.primary), "out");
  ASSERT_EQ(error.labels.size(), 2u) << run.getText();
  EXPECT_EQ(run.sources.getText(error.labels[0].span), "outer(x)");
  EXPECT_EQ(run.sources.getText(error.labels[1].span), "x");
  EXPECT_EQ(error.labels[1].text, "f32[batch, in]");
}

/// A name that a block only adds to is a sum, unless an assert reads it too.
TEST(Elaborate, AssertsReadNames) {
  const std::string text = head + "model m(x: f32[batch, in]) {\n"
                                  "  let s = 1\n"
                                  "  for t in out {\n"
                                  "    s += sum(x)\n"
                                  "    assert s == 1\n  }\n"
                                  "  output o = s\n}\n";
  SpecRun run(text);
  ASSERT_FALSE(run.module);
  EXPECT_EQ(run.diagnostics.getErrors()[0].code, Code::WrongKind)
      << run.getText();
}

} // namespace

TEST(Elaborate, CallsOpenScopes) {
  SpecRun run(head + "fn inner(x) {\n"
                     "  param p: f32[in] = ones\n"
                     "  return x * p\n}\n"
                     "fn outer(x, shared) {\n"
                     "  param q: f32[in] = ones\n"
                     "  return inner(inner(x * q) as first) * shared\n}\n"
                     "fn free(x) {\n  let y = exp(x)\n  return y\n}\n"
                     "model m(x: f32[batch, in]) {\n"
                     "  param s: f32[in] = ones\n"
                     "  let h = outer(free(x), s)\n"
                     "  let h = outer(free(h), s) as last\n"
                     "  output o = h\n}\n");
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_THAT(getParameterNames(run),
              ElementsAre("s", "outer/q", "outer/first/p", "outer/inner/p",
                          "last/q", "last/first/p", "last/inner/p"));
  // Those that own no parameters are told apart by numbers.
  EXPECT_THAT(getValueNames(run), Contains("free/y"));
  EXPECT_THAT(getValueNames(run), Contains("free_2/y"));
}

TEST(Elaborate, ValuesHaveNamesAndPlaces) {
  SpecRun run(head + "fn double(x) {\n"
                     "  let twice = x + x\n"
                     "  return -twice\n}\n"
                     "model m(x: f32[batch, in]) {\n"
                     "  param w: f32[in, out] = zeros\n"
                     "  let h = einsum(x, w\n -> batch, out)\n"
                     "  let same = h\n"
                     "  output o = double(h) as d\n}\n");
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_THAT(getValueNames(run), ElementsAre("x", "w", "h", "d/twice", "o"));
  EXPECT_EQ(getCoveredText(run, getOnly<nd::EinsumOp>(run)),
            "einsum(x, w\n -> batch, out)");
  EXPECT_EQ(getCoveredText(run, getOnly<nd::NegOp>(run)), "-twice");
  EXPECT_EQ(getCoveredText(run, getOnly<nd::VariableOp>(run)), "w");
  EXPECT_EQ(getCoveredText(run, getOnly<nd::InputOp>(run)),
            "x: f32[batch, in]");
  EXPECT_EQ(getCoveredText(run, getOnly<nd::OutputOp>(run)),
            "o = double(h) as d");
}

/// What a fold would take for the value in front of it keeps the name that the
/// statement gives, and an error stays one.
TEST(Elaborate, NeutralNumbersMakeNoValue) {
  SpecRun run(head + "model m(x: f32[batch, in]) {\n"
                     "  param w: f32[in, out] = zeros\n"
                     "  let h = (1 * einsum(x, w, over = in) / 1 - 0) * 1\n"
                     "  let k = 0 + dense(h, out, in, biased = false)\n"
                     "  output o = sum(k + 0)\n}\n");
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_THAT(getOwnNames(run),
              ElementsAre("x", "w", "h", "dense/weight", "dense", "o"));
  // Neither is the other way around.
  SpecRun others(head + "model m(x: f32[batch, in], i: i32[batch]) {\n"
                        "  let h = 1 / x\n  let k = 0 - h\n"
                        "  output p = 1 - i\n  output o = k * 0\n}\n");
  ASSERT_TRUE(others.module) << others.getText();
  EXPECT_THAT(getOwnNames(others), ElementsAre("x", "i", "h", "k", "p", "o"));
}

TEST(Elaborate, ValuesOfCallsHaveTheNamesOfTheirScopes) {
  SpecRun run(head + "fn f(x) {\n"
                     "  let y = -x\n"
                     "  return exp(y) }\n"
                     "fn g(x) { return f(x) }\n"
                     "model m(x: f32[batch, in]) {\n"
                     "  let h = f(x) as a\n"
                     "  let h = f(h) as b\n"
                     "  let h = g(h)\n"
                     "  let h = h + tanh(f(h) as c)\n"
                     "  let h = abs(f(h))\n"
                     "  output o = sum(h)\n}\n");
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_THAT(getOwnNames(run),
              ElementsAre("x", "a/y", "a/h", "b/y", "b/h", "g/f/y", "h", "c/y",
                          "c", "h_2", "f/y", "f", "h_3", "o"));
}

TEST(Elaborate, WhatLeadsToAValueIsInsideIt) {
  SpecRun run(head + "model m(x: f32[batch, in]) {\n"
                     "  param w: f32[in, out] = zeros\n"
                     "  let h = tanh(einsum(x, w -> batch, out) + 1)\n"
                     "  let z = exp(h)\n"
                     "  output o = sum(z * z)\n}\n");
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_THAT(getOwnNames(run), ElementsAre("x", "w", "h", "z", "o"));
  mlir::Location product = getOnly<nd::EinsumOp>(run)->getLoc();
  EXPECT_TRUE(isInside(product));
  EXPECT_EQ(getValueName(product), "h");
  EXPECT_EQ(getValueName(getOnly<nd::MulOp>(run)->getLoc()), "o");
}

TEST(Elaborate, OperationsOfTheLibraryAreAtTheUsersCall) {
  SpecRun run(head + "model m(x: f32[batch, in]) {\n"
                     "  output o = sum(softmax(x * 2, over = in))\n}\n");
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_EQ(getCoveredText(run, getOnly<nd::ExpOp>(run)),
            "softmax(x * 2, over = in)");
  EXPECT_EQ(getCoveredText(run, getOnly<nd::MulOp>(run)), "x * 2");
}

TEST(Elaborate, DeclarationsInTheModule) {
  SpecRun run(head + "dim hidden = 4 * in\n"
                     "layout { batch -> (data, model) }\n"
                     "model m(x: f32[batch, in], y: i32[batch]) {\n"
                     "  param a: f32[in, hidden] = uniform(-1, high = 2)\n"
                     "  param b: f32[in] = constant(3)\n"
                     "  let h = gather(x, y, over = in)\n"
                     "  output loss = sum(h) + sum(a) + sum(b)\n}\n"
                     "data over batch { x = idx(\"p\", test = \"q\")\n"
                     "       y = idx(\"r\", \"s\") }\n"
                     "train { minimize loss optimizer momentum(lr = 1 / 4) "
                     "steps 30 }\n");
  ASSERT_TRUE(run.module) << run.getText();
  std::string text = run.printModule();
  for (const char *line :
       {"nd.mesh [\"data\"=2, \"model\"=3]\n", "nd.dim \"hidden\" = 20\n",
        "nd.rule \"batch -> (data, model)\"\n",
        "#nd.random<uniform, -1.000000e+00 : f64, 2.000000e+00 : f64>\n",
        "#nd.fill<3.000000e+00 : f64>\n",
        "nd.data \"x\" over \"batch\" = \"idx\"(\"p\", \"q\")\n",
        "nd.data \"y\" over \"batch\" = \"idx\"(\"r\", \"s\")\n",
        "nd.training minimize \"loss\" by \"momentum(lr = 0.25, beta = 0.9)\" "
        "epochs 0 steps 30\n",
        "nd.variable state @\"momentum/v/a\"",
        // Labels are checked where they are read.
        "nd.input \"y\" {index_bound = 5 : i64} : !batch_i32\n"})
    EXPECT_THAT(text, HasSubstr(line));
}

/// The bound of input "t" of a model with these statements; 0: none.
static int64_t getBound(const std::string &statements) {
  SpecRun run(head +
              "dim chunk = in + 1\ndim few = 3\n"
              "model m(t: i32[batch, chunk]) {\n"
              "  param w: f32[in] = ones\n"
              "  param v: f32[few] = ones\n" +
              statements + "}\n");
  EXPECT_TRUE(run.module) << run.getText();
  int64_t bound = -1;
  if (run.module)
    run.module->walk(
        [&](nd::InputOp input) { bound = int64_t(input.getIndexBound()); });
  return bound;
}

TEST(Elaborate, BoundsOfIndicesThroughViews) {
  const std::string sumOf = "  output o = sum(gather(";
  EXPECT_EQ(getBound(sumOf + "w, t, over = in))\n"), 5);
  // The smallest bound of those that all elements have to keep to.
  EXPECT_EQ(getBound(sumOf + "w, t, over = in)) + sum(gather(v, t, over = "
                             "few))\n"),
            3);
  // A view leaves the last one out; two of them leave out none.
  const std::string first = "t[chunk = in]", last = "t[chunk = in + 1]";
  EXPECT_EQ(getBound(sumOf + "v, " + first + ", over = few))\n"), 0);
  EXPECT_EQ(getBound(sumOf + "v, " + first + ", over = few)) + sum(gather(v, " +
                     last + ", over = few))\n"),
            3);
  // Not every position, and what is not moved alone.
  EXPECT_EQ(getBound(sumOf + "v, t[chunk = 2 * few], over = few))\n"), 0);
  EXPECT_EQ(getBound(sumOf + "v, t + 1, over = few))\n"), 0);
}

TEST(Elaborate, DataReaders) {
  SpecRun run(
      head +
      "dim y = 4\ndim x = 3\ndim rgb = 3\n"
      "model m(a: f32[batch, in], i: i32[batch, in], t: i32[in, batch],\n"
      "        r: f32[batch, in], s: i64[batch], g: f32[batch, y, x],\n"
      "        c: f32[batch, y, x, rgb], k: i32[batch]) {\n"
      "  output o = sum(a) + sum(f32(i)) + sum(f32(t)) + sum(r) +\n"
      "    sum(f32(s)) + sum(g) + sum(c) + sum(f32(k))\n}\n"
      "data over batch {\n"
      "  a = npy(\"a.npy\", test = \"b.npy\")\n"
      "  i = tokens(\"a.bin\", test = \"b.bin\", type = u16)\n"
      "  t = text(\"a.txt\", test = \"b.txt\", stride = in - 1)\n"
      "  r = rows(\"a.csv\", test = \"b.csv\",\n"
      "           columns = \"a, b,c ,  d d, e\")\n"
      "  s = rows(\"a.csv\", test = \"b.csv\")\n"
      "  g = images(\"a\", test = \"b\")\n"
      "  c = images(\"a\", test = \"b\")\n"
      "  k = classes(\"a\", test = \"b\")\n}\n");
  ASSERT_TRUE(run.module) << run.getText();
  std::string text = run.printModule();
  for (const char *line :
       {"nd.data \"a\" over \"batch\" = \"npy\"(\"a.npy\", \"b.npy\")\n",
        // Windows follow each other, unless it is said how far.
        "nd.data \"i\" over \"batch\" = \"tokens\"(\"a.bin\", \"b.bin\") "
        "stride 5 units \"u16\"\n",
        "nd.data \"t\" over \"batch\" = \"text\"(\"a.txt\", \"b.txt\") "
        "stride 4 units \"bytes\"\n",
        "nd.data \"r\" over \"batch\" = \"rows\"(\"a.csv\", \"b.csv\") columns "
        "[\"a\", \"b\", \"c\", \"d d\", \"e\"]\n",
        // A column is called as its input, unless it is said.
        "nd.data \"s\" over \"batch\" = \"rows\"(\"a.csv\", \"b.csv\") columns "
        "[\"s\"]\n",
        "nd.data \"g\" over \"batch\" = \"images\"(\"a\", \"b\")\n",
        "nd.data \"c\" over \"batch\" = \"images\"(\"a\", \"b\")\n",
        "nd.data \"k\" over \"batch\" = \"classes\"(\"a\", \"b\")\n"})
    EXPECT_THAT(text, HasSubstr(line));
}

TEST(Elaborate, BoundOfAnIndexIsWithinItsType) {
  for (auto [type, bound] :
       {std::pair{"i32", "2147483648"}, std::pair{"i64", "52147483647"}}) {
    SpecRun run("dim row = 2\ndim item = 52147483647\n"
                "model m(x: f32[item], y: " +
                std::string(type) +
                "[row]) {\n  output o = gather(x, y, over = item)\n}\n");
    ASSERT_TRUE(run.module) << run.getText();
    EXPECT_THAT(run.printModule(),
                HasSubstr("index_bound = " + std::string(bound) + " : i64"));
  }
}

/// What is for data is converted before it is an index, and checked before
/// that: in its own type.
TEST(Elaborate, BoundOfAnIndexOfData) {
  for (auto [type, size, bound] : {std::tuple{"u8", "10", "10"},
                                   {"u8", "784", "256"},
                                   {"i8", "784", "128"},
                                   {"i16", "784", "784"},
                                   {"i16", "40000", "32768"}})
    for (const char *read : {"x[item = y]", "gather(x, y, over = item)",
                             "x[item = i32(y)]", "pick(x, y)"}) {
      SpecRun run("dim row = 2\ndim item = " + std::string(size) +
                  "\nfn pick(x, at) { return x[item = at] }\n"
                  "model m(x: f32[item], y: " +
                  type + "[row]) {\n  output o = " + read + "\n}\n");
      ASSERT_TRUE(run.module) << run.getText();
      const std::string text = run.printModule();
      EXPECT_THAT(text,
                  HasSubstr("index_bound = " + std::string(bound) + " : i64"));
      EXPECT_THAT(text, HasSubstr("nd.cast"));
    }
}

/// `else` says that an index may lie outside.
TEST(Elaborate, AnIndexWithElseHasNoBound) {
  const std::string front = "dim row = 2\ndim item = 5\n"
                            "model m(x: f32[item], y: i32[row]) {\n";
  for (const char *number : {"0", "-1.5"}) {
    const std::string read =
        "  output o = x[item = y else " + std::string(number) + "]\n";
    SpecRun alone(front + read + "}\n");
    ASSERT_TRUE(alone.module) << alone.getText();
    EXPECT_THAT(alone.printModule(), Not(HasSubstr("index_bound")));
    // Where another use has none, that one counts.
    SpecRun both(front + read + "  output p = x[item = y]\n}\n");
    ASSERT_TRUE(both.module) << both.getText();
    EXPECT_THAT(both.printModule(), HasSubstr("index_bound = 5 : i64"));
  }
}

TEST(Elaborate, MinimizeAloneIsNoRecipe) {
  SpecRun run(head + "model m(x: f32[batch]) {\n  output loss = sum(x)\n}\n"
                     "train { minimize loss precision bf16 }\n");
  ASSERT_TRUE(run.module) << run.getText();
  std::string text = run.printModule();
  EXPECT_THAT(text, HasSubstr("nd.objective minimize \"loss\"\n"));
  EXPECT_THAT(text, HasSubstr("nd.precision bf16"));
  EXPECT_THAT(text, testing::Not(HasSubstr("nd.training")));
}

TEST(Elaborate, ElementwiseResultsAreStoredLikeTheLargestOperand) {
  SpecRun run(head + "model m(x: f32[batch, in, out], v: f32[in]) {\n"
                     "  let a = v + x\n"
                     "  let b = where(iota(out) >= iota(in), x, 0)\n"
                     "  let c = v * rename(v, in -> batch2)\n"
                     "  output o = a + b\n}\ndim batch2 = 5\n");
  ASSERT_TRUE(run.module) << run.getText();
  run.module->walk([](nd::AddOp op) {
    EXPECT_THAT(getDims(op.getResult()), ElementsAre("batch", "in", "out"));
  });
  EXPECT_THAT(getDims(getOnly<nd::SelectOp>(run).getResult()),
              ElementsAre("batch", "in", "out"));
  EXPECT_THAT(getDims(getOnly<nd::MulOp>(run).getResult()),
              ElementsAre("in", "batch2"));
}

TEST(Elaborate, DimsPassThroughFunctions) {
  SpecRun run(head + "fn pool(x, over, by) {\n"
                     "  param w: f32[over, by] = zeros\n"
                     "  return einsum(x, w, over = over)\n}\n"
                     "model m(x: f32[batch, in]) {\n"
                     "  let group = (in, batch)\n"
                     "  let a = pool(x, over = in, by = out) as a\n"
                     "  let b = pool(x, group, out) as b\n"
                     "  output o = sum(a) + sum(b)\n}\n");
  ASSERT_TRUE(run.module) << run.getText();
  std::vector<std::vector<std::string>> dims;
  run.module->walk(
      [&](nd::EinsumOp op) { dims.push_back(getDims(op.getResult())); });
  EXPECT_THAT(dims,
              ElementsAre(ElementsAre("batch", "out"), ElementsAre("out")));
  std::vector<std::vector<std::string>> weights;
  run.module->walk(
      [&](nd::ReadOp op) { weights.push_back(getDims(op.getResult())); });
  EXPECT_THAT(weights, ElementsAre(ElementsAre("in", "out"),
                                   ElementsAre("in", "batch", "out")));
}

TEST(Elaborate, DefaultsMayUseOtherParameters) {
  SpecRun run("fn f(x, n = 2, m = n * n) { return x * m }\n"
              "model m(x: f32) {\n"
              "  output o = f(x)\n  output p = f(x, 3)\n"
              "  output q = f(x, m = 5)\n}\n");
  ASSERT_TRUE(run.module) << run.getText();
  std::vector<double> factors;
  run.module->walk([&](nd::ConstantOp op) {
    factors.push_back(
        mlir::cast<mlir::FloatAttr>(op.getValue()).getValueAsDouble());
  });
  EXPECT_THAT(factors, ElementsAre(4, 9, 5));
}

TEST(Elaborate, RulesOfValuesReplaceThoseOfDims) {
  SpecRun run(head + "layout {\n"
                     "  batch -> data\n"
                     "  \"a\": in -> model\n"
                     "  \"b\": batch -> (model, data)\n"
                     "  \"c\": batch -> ()\n}\n"
                     "model m(x: f32[batch, in]) {\n"
                     "  let a = x\n"
                     "  let b = x\n"
                     "  let c = x\n"
                     "  output o = a + b + c\n}\n");
  ASSERT_TRUE(run.module) << run.getText();
  std::vector<std::string> types;
  run.module->walk([&](nd::ReshardOp op) {
    std::string text;
    llvm::raw_string_ostream(text)
        << mlir::cast<nd::NamedTensorType>(op.getType()).getSharding();
    types.push_back(text);
    EXPECT_FALSE(op.getInput().getType().getSharding());
  });
  ASSERT_EQ(types.size(), 3u);
  EXPECT_THAT(types[0], HasSubstr("\"batch\"@data"));
  EXPECT_THAT(types[0], HasSubstr("\"in\"@model"));
  EXPECT_THAT(types[1], HasSubstr("\"batch\"@model@data"));
  EXPECT_THAT(types[2], ::testing::Not(HasSubstr("@")));
  // What follows has no sharding of its own.
  run.module->walk([](nd::AddOp op) {
    EXPECT_FALSE(op.getResult().getType().getSharding());
  });
}

TEST(Elaborate, UserFunctionsReplaceThoseOfTheLibraryForTheUserOnly) {
  SpecRun run(head + "fn relu(x) { return tanh(x) }\n"
                     "fn max_of(x) { return relu(x) }\n"
                     "model m(x: f32[batch, in]) { output o = max_of(x) }\n");
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_THAT(run.printModule(), HasSubstr("nd.tanh"));
  EXPECT_THAT(run.printModule(), ::testing::Not(HasSubstr("nd.maximum")));
}

TEST(Elaborate, WithoutAMeshThereIsOneDevice) {
  SpecRun run("model m(x: f32) { output o = x }");
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_THAT(run.printModule(), HasSubstr("nd.mesh []"));
}

TEST(Samples, Mlp) {
  SpecRun run(SpecOptions{SAMPLES_DIRECTORY "/mlp.mesh"});
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_THAT(getParameterNames(run), ElementsAre("w1", "b1", "w2", "b2"));
  EXPECT_THAT(getValueNames(run), Contains("h"));
  EXPECT_THAT(getValueNames(run), Contains("logits"));
}

TEST(Samples, TransformerBlock) {
  SpecRun run(SpecOptions{SAMPLES_DIRECTORY "/transformer_block.mesh"});
  ASSERT_TRUE(run.module) << run.getText();
  std::vector<std::string> names = getParameterNames(run);
  EXPECT_EQ(names.size(), 12u);
  for (const char *name : {"layer/block/attn/wq", "layer/block/attn/wo",
                           "layer/block/ff/w1", "layer/block/norm2/gain",
                           "layer/block/ff/b2", "layer/block/norm1/bias"})
    EXPECT_THAT(names, Contains(name));
  for (const char *name :
       {"layer/block/attn/scores", "layer/h", "layer/block/attn",
        "layer/block/ff", "layer/block/norm1", "layer/block/attn/softmax"})
    EXPECT_THAT(getOwnNames(run), Contains(name));
}

/// The sizes and layouts that the end-to-end tests use.
TEST(Samples, TransformerBlockUnderEveryLayout) {
  for (const char *layout :
       {"", "batch=data", "batch=data+model", "batch=data,heads=model",
        "pos=model,batch=data", "key_pos=model", "d_head=model",
        "d_model=model", "d_ff=model+data", "pos=data,key_pos=model",
        "batch=data,heads=model,d_ff=model"}) {
    SpecOptions options{SAMPLES_DIRECTORY "/transformer_block.mesh"};
    options.defines = {"batch=6", "pos=5",    "d_model=9",
                       "heads=3", "d_head=4", "d_ff=7"};
    options.mesh = "data=2,model=3";
    options.layout = layout;
    SpecRun run(options);
    EXPECT_TRUE(run.module) << layout << "\n" << run.getText();
  }
}
