// What the command line replaces: -D, --mesh, --layout; and errors of passes.

#include "SpecTesting.h"

#include "dialect/Locations.h"
#include "passes/Pipelines.h"

#include "mlir/IR/PatternMatch.h"
#include "mlir/Pass/PassManager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace meshc::frontend;
using testing::HasSubstr;
using testing::Not;

static const char *const spec =
    "mesh data = 2, model = 3\n"
    "let lr = 0.5\n"
    "dim batch = 6\n"
    "dim in = 5\n"
    "dim out = 2 * in\n"
    "layout { batch -> data  out -> model }\n"
    "model m(x: f32[batch, in]) {\n"
    "  param w: f32[in, out] = normal(stddev = out ^ -0.5)\n"
    "  let y = einsum(x, w -> batch, out)\n"
    "  output loss = mean(y * y)\n"
    "}\n"
    "train { minimize loss optimizer sgd(lr = lr) epochs 2 }\n";

static SpecOptions with(std::vector<std::string> defines) {
  SpecOptions options{"test.mesh"};
  options.defines = std::move(defines);
  return options;
}

static Code getOnlyCode(const SpecRun &run) {
  EXPECT_EQ(run.diagnostics.getErrors().size(), 1u) << run.getText();
  return run.diagnostics.getErrors().at(0).code;
}

TEST(Overrides, DerivedSizesFollow) {
  SpecRun run(spec, with({"in=8", "lr=1/8"}));
  ASSERT_TRUE(run.module) << run.getText();
  std::string text = run.printModule();
  EXPECT_THAT(text, HasSubstr("nd.dim \"in\" = 8\n"));
  EXPECT_THAT(text, HasSubstr("nd.dim \"out\" = 16\n"));
  EXPECT_THAT(text, HasSubstr("\"sgd(lr = 0.125)\""));
  // 16 ^ -0.5
  EXPECT_THAT(text, HasSubstr("#nd.random<normal, 0.000000e+00 : f64, "
                              "2.500000e-01 : f64>"));
}

/// An axis that no rule names is likely one that a rule names and the option
/// lacks.
TEST(Overrides, AxesOfTheOption) {
  SpecOptions options{"test.mesh"};
  options.mesh = "data=4,modle=2";
  SpecRun run(spec, options);
  EXPECT_EQ(getOnlyCode(run), Code::UnknownAxis);
  const Diagnostic &error = run.diagnostics.getErrors()[0];
  ASSERT_EQ(error.fixIts.size(), 1u) << run.getText();
  EXPECT_EQ(run.sources.getText(error.fixIts[0].span), "modle");
  EXPECT_EQ(error.fixIts[0].replacement, "model");
  EXPECT_TRUE(error.helps.empty()) << run.getText();

  options.mesh = "dat=4,modle=2";
  SpecRun both(spec, options);
  EXPECT_EQ(getOnlyCode(both), Code::UnknownAxis);
  EXPECT_EQ(both.diagnostics.getErrors()[0].fixIts.size(), 2u);

  options.mesh = "data=4,x=2";
  SpecRun other(spec, options);
  EXPECT_EQ(getOnlyCode(other), Code::UnknownAxis);
  EXPECT_TRUE(other.diagnostics.getErrors()[0].fixIts.empty());
  EXPECT_THAT(other.getText(), HasSubstr("--layout batch=data"));
}

TEST(Overrides, MayUseOtherDefinitions) {
  SpecRun run(spec, with({"batch=in+out,in=3"}));
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_THAT(run.printModule(), HasSubstr("nd.dim \"batch\" = 9\n"));
}

TEST(Overrides, Errors) {
  SpecRun unknown(spec, with({"bacth=3"}));
  EXPECT_EQ(getOnlyCode(unknown), Code::UnknownOverride);
  EXPECT_THAT(unknown.getText(), HasSubstr("-D:1:1: error"));
  EXPECT_THAT(unknown.getText(), HasSubstr("did you mean \"batch\""));
  EXPECT_EQ(getOnlyCode(SpecRun(spec, with({"in=0"}))), Code::SizeNotPositive);
  EXPECT_EQ(getOnlyCode(SpecRun(spec, with({"in=-4"}))), Code::SizeNotPositive);
  EXPECT_EQ(getOnlyCode(SpecRun(spec, with({"in=out"}))),
            Code::CyclicDefinition);
  EXPECT_EQ(getOnlyCode(SpecRun(spec, with({"in"}))), Code::ExpectedToken);
  EXPECT_EQ(getOnlyCode(SpecRun(spec, with({""}))), Code::InvalidOverride);
  EXPECT_EQ(getOnlyCode(SpecRun(spec, with({"in=2 3"}))), Code::ExpectedToken);
  EXPECT_EQ(getOnlyCode(SpecRun(spec, with({"in=2", "in=3"}))),
            Code::DuplicateName);
  EXPECT_EQ(getOnlyCode(SpecRun(spec, with({"in=\xFF"}))), Code::InvalidUtf8);
  SpecRun overflow(spec, with({"in=9223372036854775807"}));
  ASSERT_TRUE(overflow.diagnostics.hasErrors());
  EXPECT_EQ(overflow.diagnostics.getErrors()[0].code, Code::NumberOverflow);
}

TEST(Overrides, MeshAndLayoutReplaceThoseOfTheSpec) {
  SpecOptions options{"test.mesh"};
  options.mesh = "data=4,model=2";
  options.layout = "batch=data+model";
  SpecRun run(spec, options);
  ASSERT_TRUE(run.module) << run.getText();
  std::string text = run.printModule();
  EXPECT_THAT(text, HasSubstr("nd.mesh [\"data\"=4, \"model\"=2]\n"));
  EXPECT_THAT(text, HasSubstr("nd.rule \"batch -> (data, model)\"\n"));
  EXPECT_THAT(text, Not(HasSubstr("nd.rule \"out")));
}

TEST(Overrides, EmptyLayoutSplitsNothing) {
  SpecOptions options{"test.mesh"};
  options.layout = "";
  SpecRun run(spec, options);
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_THAT(run.printModule(), Not(HasSubstr("nd.rule")));
}

TEST(Overrides, EmptyMeshIsOneDevice) {
  SpecOptions options{"test.mesh"};
  options.mesh = "";
  options.layout = "";
  SpecRun run(spec, options);
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_THAT(run.printModule(), HasSubstr("nd.mesh []"));
}

TEST(Overrides, ASmallerMeshLacksAxesThatTheLayoutUses) {
  SpecOptions options{"test.mesh"};
  options.mesh = "data=4";
  SpecRun run(spec, options);
  EXPECT_EQ(getOnlyCode(run), Code::UnknownAxis);
  EXPECT_THAT(run.getText(),
              HasSubstr("--mesh:1:1: error[MC0601]: the mesh of the command "
                        "line has no axis \"model\", over which the spec "
                        "splits dimensions\n"));
  EXPECT_THAT(run.getText(), HasSubstr("test.mesh:6:25\n"));
  EXPECT_THAT(
      run.getText(),
      HasSubstr("= help: give another layout too: --layout batch=data\n"));
  options.layout = "batch=data";
  SpecRun advised(spec, options);
  EXPECT_TRUE(advised.module) << advised.getText();
}

TEST(Overrides, WhatAMeshLacksIsOneErrorForAllRules) {
  SpecOptions options{"test.mesh"};
  options.mesh = "rows=2,columns=3";
  SpecRun both(spec, options);
  EXPECT_EQ(getOnlyCode(both), Code::UnknownAxis);
  EXPECT_THAT(both.getText(), HasSubstr("no axes \"data\" and \"model\""));
  EXPECT_THAT(both.getText(), HasSubstr("test.mesh:6:10\n"));
  EXPECT_THAT(both.getText(), HasSubstr("test.mesh:6:25\n"));
  EXPECT_THAT(both.getText(), HasSubstr("--layout ''\n"));
  options.mesh = "";
  SpecRun none(spec, options);
  EXPECT_EQ(getOnlyCode(none), Code::UnknownAxis);
  EXPECT_THAT(none.getText(), HasSubstr("--layout ''\n"));
  // One axis of two is left to a dimension that has both.
  std::string wide = spec;
  wide.replace(wide.find("out -> model"), 12, "out -> (model, extra)");
  wide.replace(wide.find("model = 3"), 9, "model = 3, extra = 2");
  options.mesh = "data=2,extra=2";
  SpecRun left(wide, options);
  EXPECT_EQ(getOnlyCode(left), Code::UnknownAxis);
  EXPECT_THAT(left.getText(), HasSubstr("--layout batch=data,out=extra\n"));
}

TEST(Overrides, WhatAMeshLacksIsOneErrorForRulesOfValuesToo) {
  const std::string placed = R"(dim b = 6
dim w = 4
mesh data = 2, model = 2
layout { b -> data  "pinned*": w -> model }
model net(x: f32[b, w]) {
  let pinned = x * 2.0
  output y = pinned
}
)";
  SpecOptions options{"test.mesh"};
  options.mesh = "rows=3";
  SpecRun run(placed, options);
  EXPECT_EQ(getOnlyCode(run), Code::UnknownAxis);
  std::string text = run.getText();
  EXPECT_THAT(text, HasSubstr("--mesh:1:1: error[MC0601]: the mesh of the "
                              "command line has no axes \"data\" and "
                              "\"model\", over which the spec splits"));
  EXPECT_THAT(text, HasSubstr("--> test.mesh:4:10\n"));
  EXPECT_THAT(text, HasSubstr("--> test.mesh:4:21\n"));
  EXPECT_THAT(text, HasSubstr("by this rule"));
  EXPECT_THAT(text,
              HasSubstr("= help: give another layout too: --layout ''\n"));
  // Another layout replaces the rules of values too.
  options.layout = "";
  SpecRun advised(placed, options);
  EXPECT_TRUE(advised.module) << advised.getText();
  // What is left of the layout keeps them.
  options.mesh = "model=2";
  options.layout = std::nullopt;
  EXPECT_THAT(SpecRun(placed, options).getText(),
              HasSubstr("--layout '\"pinned*\": w -> model'\n"));
  // Without the option it is the spec that names an axis wrongly.
  std::string wrong = placed;
  wrong.replace(wrong.find("w -> model"), 10, "w -> modle");
  SpecRun misspelled(wrong, SpecOptions{"test.mesh"});
  EXPECT_THAT(misspelled.getText(),
              HasSubstr("error[MC0601]: the mesh has no axis \"modle\""));
}

TEST(Overrides, LayoutErrorsPointIntoTheOption) {
  SpecOptions options{"test.mesh"};
  options.layout = "batch=data,in=dat";
  SpecRun unknown(spec, options);
  EXPECT_EQ(getOnlyCode(unknown), Code::UnknownAxis);
  EXPECT_THAT(unknown.getText(), HasSubstr("--layout:1:15: error"));
  options.layout = "batch=model,out=model";
  SpecRun shared(spec, options);
  EXPECT_EQ(getOnlyCode(shared), Code::SharedAxis);
  EXPECT_THAT(shared.getText(), HasSubstr("--layout:1:13: error[MC0607]"));
  EXPECT_THAT(shared.getText(), HasSubstr("test.mesh:9:11"));
  // Of two ways to write a rule one is that of all.
  options.layout = "batch -> data, in=model";
  EXPECT_EQ(getOnlyCode(SpecRun(spec, options)), Code::ExpectedToken);
}

/// What `options.layout` comes to.
static std::string getRules(const std::string &layout) {
  SpecOptions options{"test.mesh"};
  options.layout = layout;
  SpecRun run(spec, options);
  EXPECT_TRUE(run.module) << run.getText();
  std::string text = run.module ? run.printModule() : "", rules;
  for (size_t at = 0; (at = text.find("nd.rule ", at)) != std::string::npos;) {
    const size_t end = text.find('\n', at);
    rules += text.substr(at, end - at) + "; ";
    at = end;
  }
  return rules;
}

TEST(Overrides, RulesAsASpecHasThem) {
  EXPECT_EQ(getRules("batch -> data"), "nd.rule \"batch -> data\"; ");
  EXPECT_EQ(getRules("batch -> data params: * -> (model, data)"),
            "nd.rule \"batch -> data\"; "
            "nd.rule \"params: * -> (model, data)\"; ");
  EXPECT_EQ(getRules("in -> data unless (batch, out), state: (out) -> model"),
            "nd.rule \"in -> data unless (batch, out)\"; "
            "nd.rule \"state: out -> model\"; ");
  EXPECT_EQ(getRules("batch -> data, in -> model,"),
            "nd.rule \"batch -> data\"; nd.rule \"in -> model\"; ");
}

/// What the short form cannot say is read as a rule of a spec.
TEST(Overrides, TheShortFormHasDimsAlone) {
  SpecOptions options{"test.mesh"};
  for (const char *layout :
       {"params:in=data", "\"h\":in=data", "batch=data unless in"}) {
    options.layout = layout;
    SpecRun run(spec, options);
    ASSERT_TRUE(run.diagnostics.hasErrors()) << layout;
    EXPECT_EQ(run.diagnostics.getErrors()[0].message,
              "expected \"->\" after the dimension, found \"=\"");
  }
}

/// A dim may be called as the word is.
TEST(Overrides, ADimThatIsCalledUnless) {
  SpecRun run("mesh a = 2, b = 2\ndim unless = 4\ndim y = 2\n"
              "layout { unless -> a  unless' -> b unless (y)\n"
              "  y -> b unless unless }\n"
              "model m(v: f32[unless', y], s: f32[unless, y]) {\n"
              "  output o = sum(v) + sum(s)\n}\n",
              SpecOptions{"test.mesh"});
  ASSERT_TRUE(run.module) << run.getText();
  EXPECT_THAT(run.printModule(), HasSubstr("nd.rule \"y -> b unless unless\""));
}

TEST(Overrides, MeshErrors) {
  SpecOptions options{"test.mesh"};
  for (auto [mesh, code] : std::initializer_list<std::pair<const char *, Code>>{
           {"data=0,model=2", Code::SizeNotPositive},
           {"data=1048577,model=1", Code::MeshTooLarge},
           {"data=9223372036854775807,model=2", Code::MeshTooLarge},
           {"data=2,data=2,model=2", Code::DuplicateName},
           {"data", Code::ExpectedToken},
           {"data=2;model=2", Code::UnexpectedCharacter}}) {
    options.mesh = mesh;
    SpecRun run(spec, options);
    ASSERT_TRUE(run.diagnostics.hasErrors()) << mesh;
    EXPECT_EQ(run.diagnostics.getErrors()[0].code, code) << mesh;
    EXPECT_THAT(run.getText(), HasSubstr("--mesh:1:")) << mesh;
  }
}

TEST(PassErrors, PointIntoTheSpec) {
  SourceSet sources;
  Diagnostics diagnostics(sources);
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false);
  PassErrors errors(context, diagnostics);
  SpecOptions options{"test.mesh"};
  options.text = spec;
  auto module = compileSpec(options, context, sources, diagnostics);
  ASSERT_TRUE(module);
  module->walk([](meshc::nd::EinsumOp op) {
    auto error = op->emitError("too clever");
    error.attachNote(op.getInputs()[1].getLoc()) << "with these weights";
  });
  ASSERT_EQ(diagnostics.getErrors().size(), 1u);
  const Diagnostic &error = diagnostics.getErrors()[0];
  EXPECT_EQ(error.code, Code::Refused);
  EXPECT_EQ(error.message, "too clever");
  EXPECT_EQ(sources.getText(error.primary), "einsum(x, w -> batch, out)");
  ASSERT_EQ(error.labels.size(), 1u);
  EXPECT_EQ(sources.getText(error.labels[0].span), "w");
  EXPECT_EQ(error.labels[0].text, "with these weights");
}

/// What a spec is told by the passes that decide where values lie.
static std::string shard(const std::string &text) {
  SourceSet sources;
  Diagnostics diagnostics(sources);
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  PassErrors errors(context, diagnostics);
  SpecOptions options{"test.mesh"};
  options.text = text;
  auto module = compileSpec(options, context, sources, diagnostics);
  EXPECT_TRUE(module) << render(diagnostics, MessageFormat::Text);
  mlir::PassManager passes(&context);
  meshc::buildShardingPipeline(passes, {});
  if (module)
    EXPECT_EQ(failed(passes.run(*module)), diagnostics.hasErrors());
  return render(diagnostics, MessageFormat::Text);
}

/// A loop that carries nothing adds its dim to what its block computes.
TEST(PassErrors, OfAnAxisThatALoopSharesHaveItsCode) {
  EXPECT_THAT(
      shard("mesh a = 2\ndim n = 4\ndim m = 3\nlayout { n -> a  m -> a }\n"
            "model f(x: f32[n], u: f32[m]) {\n  let v = x\n"
            "  for i in m { v += x * u[m = i] }\n  output v = v\n}\n"),
      ::testing::AllOf(HasSubstr("test.mesh:7:21: error[MC0607]: dimensions "
                                 "\"m\" and \"n\" of one tensor"),
                       HasSubstr("a loop that carries nothing")));
}

/// Passes drop values; the dims that rules name stay known.
TEST(PassErrors, NoneOfRulesForDimsThatOnlyDroppedValuesHave) {
  const std::string head = "mesh a = 2\ndim n = 4\nlayout { n' -> a }\n"
                           "model f(x: f32[n]) {\n";
  EXPECT_EQ(shard(head + "  let dead = rename(x, n -> n')\n"
                         "  output o = sum(x)\n}\n"),
            "");
  EXPECT_EQ(shard(head + "  let y = rename(x, n -> n')\n"
                         "  output o = sum(rename(y, n' -> n''))\n}\n"),
            "");
}
