// What the operations on the border of a program say of themselves.

#include "tests/dialect/Programs.h"

#include "gmock/gmock.h"

using namespace meshc;
using ::testing::ElementsAre;

namespace {

/// "in variable w: <type>" of each border operation of the program @p.
std::vector<std::string> describeBorder(mlir::MLIRContext &context,
                                        llvm::StringRef program) {
  std::string text = R"(
    !w = !nd.tensor<["x"=4], f32, <"x"@m>>
    module {
      nd.mesh ["m"=2]
      nd.variable parameter @w : !w = #nd.fill<0.0 : f64>
      )" + program.str() +
                     "}";
  auto module = meshc::test::parse(context, text);
  std::vector<std::string> lines;
  if (!module) {
    ADD_FAILURE() << "the program does not parse";
    return lines;
  }
  module->walk([&](nd::BorderOpInterface border) {
    std::string line;
    llvm::raw_string_ostream os(line);
    EXPECT_NE(border.isEntry(), border.isExit());
    os << (border.isEntry() ? "in " : "out ")
       << (border.isVariable() ? "variable " : "") << border.getBorderName()
       << ": " << border.getGlobalType().getSharding().getSplits().size()
       << " split of " << border.getGlobalType().getSizes()[0];
    // An entry defines its value; an exit reads it.
    EXPECT_EQ(border.getBorderValue().getDefiningOp() == border,
              border.isEntry());
    lines.push_back(line);
  });
  return lines;
}

TEST(Border, OfWholeTensors) {
  auto context = meshc::test::makeContext();
  EXPECT_THAT(describeBorder(*context, R"(
    nd.program @p {
      %x = nd.input "x" : !nd.tensor<["x"=5], f32, <"x"@m>>
      %w = nd.read @w : !w
      nd.output "y", %x : !nd.tensor<["x"=5], f32, <"x"@m>>
      nd.write @w, %w : !w
    })"),
              ElementsAre("in x: 1 split of 5", "in variable w: 1 split of 4",
                          "out y: 1 split of 5",
                          "out variable w: 1 split of 4"));
}

// Blocks know the tensor they are of: by an attribute, or by their variable.
TEST(Border, OfBlocks) {
  auto context = meshc::test::makeContext();
  EXPECT_THAT(describeBorder(*context, R"(
    spmd.program @p {
      %x = spmd.input "x" of !nd.tensor<["x"=5], f32, <"x"@m>> : tensor<3xf32>
      %w = spmd.read @w : tensor<2xf32>
      spmd.output "y" of !nd.tensor<["x"=5], f32, <"x"@m>>, %x : tensor<3xf32>
      spmd.write @w, %w : tensor<2xf32>
    })"),
              ElementsAre("in x: 1 split of 5", "in variable w: 1 split of 4",
                          "out y: 1 split of 5",
                          "out variable w: 1 split of 4"));
}

} // namespace
