// Whole models and their training steps under many layouts.

#include "tests/end_to_end/Models.h"
#include "tests/end_to_end/Harness.h"

using namespace meshc;
using namespace meshc::test;
using mlir::Value;

namespace {

class Models : public ::testing::Test {
protected:
  void check(const Model &model, llvm::StringRef mesh,
             llvm::ArrayRef<std::string> dims, unsigned maxAxes, size_t limit) {
    const std::vector<Layout> layouts = sampleLayouts(
        model.module.get(), mesh, dims, maxAxes, limit, /*seed=*/11);
    size_t numLegal = 0;
    for (const Layout &layout : layouts) {
      numLegal += isLegal(model.module.get(), layout);
      ASSERT_TRUE(matches(model, layout));
    }
    EXPECT_GE(numLegal, layouts.size() / 4) << "values are hardly compared";
  }

  std::unique_ptr<mlir::MLIRContext> context = makeContext();
};

const std::vector<std::string> mlpDims = {"batch", "pixel", "hidden", "class"};
const std::vector<std::string> blockDims = {
    "batch", "pos", "key_pos", "d_model", "heads", "d_head", "d_ff"};

struct ClassifierCase {
  const char *name;
  const char *mesh;
  Recipe (*recipe)();
};
void PrintTo(const ClassifierCase &item, std::ostream *out) {
  *out << item.name;
}

class Classifier : public Models,
                   public ::testing::WithParamInterface<ClassifierCase> {};

TEST_P(Classifier, SizesThatDivide) {
  check(makeClassifier(*context, 8, 16, 24, 8, GetParam().recipe()),
        GetParam().mesh, mlpDims, 2, 60);
}

TEST_P(Classifier, SizesThatDoNot) {
  check(makeClassifier(*context, 10, 9, 7, 5, GetParam().recipe()),
        GetParam().mesh, mlpDims, 2, 90);
}

INSTANTIATE_TEST_SUITE_P(
    All, Classifier,
    ::testing::Values(ClassifierCase{"Sgd4", "m=4", Recipe::sgd},
                      ClassifierCase{"Adam4", "m=4", Recipe::adam},
                      ClassifierCase{"Sgd2x2", "d=2,m=2", Recipe::sgd},
                      ClassifierCase{"Momentum2x3", "d=2,m=3",
                                     Recipe::momentum},
                      ClassifierCase{"Adam2x3", "d=2,m=3", Recipe::adam},
                      ClassifierCase{"Sgd8", "m=8", Recipe::sgd},
                      ClassifierCase{"Adam2x2x2", "d=2,m=2,p=2", Recipe::adam}),
    [](const auto &info) { return std::string(info.param.name); });

class Block : public Models,
              public ::testing::WithParamInterface<const char *> {};

/// Each dimension alone over each axis and over two.
TEST_P(Block, OneDimensionSplit) {
  Model model = makeBlocks(*context, 1, BlockSizes(), Recipe::adam());
  for (const std::string &dim : blockDims)
    check(model, GetParam(), dim, 2, 100);
}

TEST_P(Block, RandomLayouts) {
  Model model = makeBlocks(*context, 1, BlockSizes(), Recipe::sgd());
  check(model, GetParam(), blockDims, 2, 40);
}

INSTANTIATE_TEST_SUITE_P(Meshes, Block,
                         ::testing::Values("m=2", "m=4", "d=2,m=2", "d=2,m=3",
                                           "d=2,m=2,p=2"),
                         [](const auto &info) {
                           std::string name = info.param;
                           std::erase_if(name,
                                         [](char c) { return !isalnum(c); });
                           return name;
                         });

TEST_F(Models, TwoBlocksUnderUsualLayouts) {
  Model model = makeBlocks(*context, 2, BlockSizes(), Recipe::adam());
  for (const char *rules :
       {"", "batch=d", "heads=m,d_ff=m", "batch=d,heads=m,d_ff=m", "batch=d+m",
        "batch=m,d_model=d", "pos=d,heads=m,d_ff=m", "key_pos=d,heads=m",
        "batch=d,pos=m", "d_model=d,heads=m,d_ff=m", "d_model=d+m",
        "d_head=m,batch=d"})
    ASSERT_TRUE(matches(model, {"d=2,m=3", rules}));
}

} // namespace
