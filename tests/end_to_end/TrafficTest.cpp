// What one device communicates, against closed formulas.
//
// Source of the formulas: Shazeer et al., "Mesh-TensorFlow: Deep Learning for
// Supercomputers", NeurIPS 2018, section 8, with the gradient of the bias and
// of the input added; all are counted in elements that one device brings into
// an all-reduce.

#include "tests/end_to_end/Harness.h"
#include "tests/end_to_end/Models.h"

#include "gmock/gmock.h"

using namespace meshc;
using namespace meshc::test;

namespace {

/// Elements per axis, over all collectives of the program.
std::map<std::string, int64_t> getAllReduced(mlir::ModuleOp local,
                                             llvm::StringRef program) {
  std::map<std::string, int64_t> elements;
  for (const auto &[name, traffic] : getTraffic(local, program)) {
    auto [kind, axes] = llvm::StringRef(name).split(' ');
    // Anything but an all-reduce shows under its own name.
    elements[kind == "all_reduce" ? axes.str() : name] += traffic.elements;
  }
  return elements;
}

struct Sizes3 {
  int64_t batch, io, hidden;
};

struct MlpCase {
  const char *name;
  Layout layout;
  /// Elements per axis, forward and added by the backward pass.
  std::map<std::string, int64_t> (*forward)(Sizes3), (*backward)(Sizes3);
};

void PrintTo(const MlpCase &mlp, std::ostream *out) { *out << mlp.name; }

using Elements = std::map<std::string, int64_t>;

// Mesh axes: rows r, cols c, planes p; their sizes are 2, 2, 2 and, in the
// larger model, 2, 3, 4.
const MlpCase mlpCases[] = {
    {"none",
     {"all=4", ""},
     [](Sizes3) { return Elements(); },
     [](Sizes3) { return Elements(); }},
    {"batch",
     {"all=4", "batch=all"},
     [](Sizes3) { return Elements(); },
     [](Sizes3 s) {
       return Elements{{"all", 2 * s.io * s.hidden + s.hidden}};
     }},
    {"hidden",
     {"all=4", "hidden=all"},
     [](Sizes3 s) {
       return Elements{{"all", s.batch * s.io}};
     },
     [](Sizes3 s) {
       return Elements{{"all", s.batch * s.io}};
     }},
    {"io",
     {"all=4", "io=all"},
     [](Sizes3 s) {
       return Elements{{"all", s.batch * s.hidden}};
     },
     [](Sizes3 s) {
       return Elements{{"all", s.batch * s.hidden}};
     }},
    {"batch_hidden",
     {"rows=2,cols=2", "batch=rows,hidden=cols"},
     [](Sizes3 s) {
       return Elements{{"cols", s.batch / 2 * s.io}};
     },
     [](Sizes3 s) {
       return Elements{{"cols", s.batch / 2 * s.io},
                       {"rows", 2 * s.io * s.hidden / 2 + s.hidden / 2}};
     }},
    {"batch_io",
     {"rows=2,cols=2", "batch=rows,io=cols"},
     [](Sizes3 s) {
       return Elements{{"cols", s.batch / 2 * s.hidden}};
     },
     [](Sizes3 s) {
       return Elements{{"cols", s.batch / 2 * s.hidden},
                       {"rows", 2 * s.io * s.hidden / 2 + s.hidden}};
     }},
    {"hidden_io",
     {"rows=2,cols=2", "hidden=rows,io=cols"},
     [](Sizes3 s) {
       return Elements{{"cols", s.batch * s.hidden / 2},
                       {"rows", s.batch * s.io / 2}};
     },
     [](Sizes3 s) {
       return Elements{{"cols", s.batch * s.hidden / 2},
                       {"rows", s.batch * s.io / 2}};
     }},
    {"batch_hidden_io",
     {"rows=2,cols=2,planes=2", "batch=rows,hidden=cols,io=planes"},
     [](Sizes3 s) {
       return Elements{{"planes", s.batch * s.hidden / 4},
                       {"cols", s.batch * s.io / 4}};
     },
     [](Sizes3 s) {
       return Elements{{"planes", s.batch * s.hidden / 4},
                       {"cols", s.batch * s.io / 4},
                       {"rows", 2 * s.io * s.hidden / 4 + s.hidden / 2}};
     }},
    {"batch_wide",
     {"all=8", "batch=all"},
     [](Sizes3) { return Elements(); },
     [](Sizes3 s) {
       return Elements{{"all", 2 * s.io * s.hidden + s.hidden}};
     }},
    {"batch_hidden_unequal",
     {"rows=2,cols=4", "batch=rows,hidden=cols"},
     [](Sizes3 s) {
       return Elements{{"cols", s.batch / 2 * s.io}};
     },
     [](Sizes3 s) {
       return Elements{{"cols", s.batch / 2 * s.io},
                       {"rows", 2 * s.io * s.hidden / 4 + s.hidden / 4}};
     }},
    {"batch_io_unequal",
     {"rows=4,cols=2", "batch=rows,io=cols"},
     [](Sizes3 s) {
       return Elements{{"cols", s.batch / 4 * s.hidden}};
     },
     [](Sizes3 s) {
       return Elements{{"cols", s.batch / 4 * s.hidden},
                       {"rows", 2 * s.io * s.hidden / 2 + s.hidden}};
     }},
    {"batch_over_two",
     {"rows=2,cols=4", "batch=rows+cols"},
     [](Sizes3) { return Elements(); },
     [](Sizes3 s) {
       return Elements{{"cols+rows", 2 * s.io * s.hidden + s.hidden}};
     }},
};

class MlpTraffic : public ::testing::TestWithParam<MlpCase> {
protected:
  void check(Sizes3 sizes) {
    Model model = makePlainMlp(*context, sizes.batch, sizes.io, sizes.hidden);
    Compiled compiled = compile(model, GetParam().layout);
    ASSERT_TRUE(compiled) << compiled.diagnostics;
    Elements forward = GetParam().forward(sizes), step = forward;
    for (const auto &[axes, elements] : GetParam().backward(sizes))
      step[axes] += elements;
    EXPECT_EQ(getAllReduced(*compiled.local, "eval"), forward);
    EXPECT_EQ(getAllReduced(*compiled.local, "gradient"), step);
    EXPECT_EQ(getAllReduced(*compiled.local, "step"), step);
  }

  std::unique_ptr<mlir::MLIRContext> context = makeContext();
};

TEST_P(MlpTraffic, Small) { check({8, 16, 32}); }
TEST_P(MlpTraffic, Larger) { check({24, 48, 96}); }

TEST_P(MlpTraffic, ValuesAreRight) {
  Model model = makePlainMlp(*context, 8, 16, 32);
  EXPECT_TRUE(matches(model, GetParam().layout));
}

INSTANTIATE_TEST_SUITE_P(Layouts, MlpTraffic, ::testing::ValuesIn(mlpCases),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

class BlockTraffic : public ::testing::Test {
protected:
  std::unique_ptr<mlir::MLIRContext> context = makeContext();
};

/// Elements of every parameter on one device.
std::pair<int64_t, int64_t> countParameters(mlir::ModuleOp local) {
  std::pair<int64_t, int64_t> count;
  layout::Mesh mesh = nd::getMesh(local);
  for (auto variable : local.getOps<nd::VariableOp>())
    if (variable.getRole() == nd::VariableRole::Parameter) {
      ++count.first;
      count.second +=
          nd::getLocalType(variable.getTensorType(), mesh).getNumElements();
    }
  return count;
}

TEST_F(BlockTraffic, TwoAllReducesForwardAndTwoBackward) {
  for (int blocks : {1, 2, 4}) {
    Model model =
        makeBlocks(*context, blocks, {4, 5, 8, 6, 3, 10}, Recipe::sgd());
    Compiled compiled =
        compile(model, {"data=2,model=2", "batch=data,heads=model,d_ff=model"});
    ASSERT_TRUE(compiled) << compiled.diagnostics;
    int64_t activation = 4 / 2 * 5 * 8;
    using Expected = std::map<std::string, Traffic>;
    EXPECT_EQ(getTraffic(*compiled.local, "eval"),
              (Expected{{"all_reduce model",
                         {2 * blocks, 2 * blocks * activation}}}));
    auto [parameters, elements] = countParameters(*compiled.local);
    EXPECT_EQ(
        getTraffic(*compiled.local, "step"),
        (Expected{{"all_reduce model", {4 * blocks, 4 * blocks * activation}},
                  {"all_reduce data", {parameters, elements}}}));
  }
}

TEST_F(BlockTraffic, DataParallelSumsGradientsOnly) {
  Model model = makeBlocks(*context, 2, {4, 5, 8, 6, 3, 10}, Recipe::adam());
  Compiled compiled = compile(model, {"data=4", "batch=data"});
  ASSERT_TRUE(compiled) << compiled.diagnostics;
  EXPECT_THAT(getTraffic(*compiled.local, "eval"), ::testing::IsEmpty());
  auto [parameters, elements] = countParameters(*compiled.local);
  EXPECT_EQ(getTraffic(*compiled.local, "step"),
            (std::map<std::string, Traffic>{
                {"all_reduce data", {parameters, elements}}}));
}

} // namespace
