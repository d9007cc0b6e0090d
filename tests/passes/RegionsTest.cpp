// Programs with regions: passes find what is inside, and values that no
// operation defines do them no harm. The loops are those of scf.

#include "tests/dialect/Programs.h"

#include "dialect/ProgramWalk.h"
#include "passes/Passes.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/PassManager.h"

#include "gmock/gmock.h"

using namespace meshc;
using namespace meshc::test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

namespace {

class Regions : public ::testing::Test {
protected:
  Regions() : context(makeContext()) {
    context->loadDialect<mlir::scf::SCFDialect>();
  }

  /// A module with a program of these lines, on the mesh m = 2.
  mlir::OwningOpRef<mlir::ModuleOp> parse(llvm::StringRef declarations,
                                          llvm::StringRef program) {
    auto module = meshc::test::parse(*context, R"(
      !x = !nd.tensor<["a"=4, "b"=3], f32>
      #ab = affine_map<(d0, d1) -> (d0, d1)>
      module {
        nd.mesh ["m"=2]
        )" + declarations.str() + program.str() + "}");
    EXPECT_TRUE(module);
    return module;
  }

  /// Runs one pass and verifies what it leaves; the messages if it fails.
  std::string run(mlir::ModuleOp module, std::unique_ptr<mlir::Pass> pass) {
    std::string message;
    mlir::ScopedDiagnosticHandler handler(
        context.get(),
        [&](mlir::Diagnostic &error) { message += error.str(); });
    mlir::PassManager passes(context.get());
    passes.addPass(std::move(pass));
    return failed(passes.run(module)) || failed(mlir::verify(module)) ? message
                                                                      : "";
  }

  static std::string print(mlir::ModuleOp module) {
    std::string text;
    llvm::raw_string_ostream os(text);
    module.print(os);
    return text;
  }

  std::unique_ptr<mlir::MLIRContext> context;
};

// A loop that carries a product, with an einsum and a sum of its own.
const char *const loop = R"(nd.program @forward {
  %x = nd.input "x" : !x
  %low = arith.constant 0 : index
  %high = arith.constant 5 : index
  %step = arith.constant 1 : index
  %y = scf.for %i = %low to %high step %step iter_args(%carried = %x) -> !x {
    %sum = nd.add %carried, %x : (!x, !x) -> !x
    %product = nd.einsum %sum, %x : (!x, !x) -> !x
    scf.yield %product : !x
  }
  nd.output "y", %y : !x })";

TEST_F(Regions, AreWalkedInTheOrderOfTheProgram) {
  auto module = parse("", loop);
  auto program = module->lookupSymbol<nd::ProgramOp>("forward");
  std::vector<std::string> names;
  for (mlir::Operation *op : getOperations(program))
    names.push_back(op->getName().getStringRef().str());
  EXPECT_THAT(names, ElementsAre("nd.input", "arith.constant", "arith.constant",
                                 "arith.constant", "scf.for", "nd.add",
                                 "nd.einsum", "scf.yield", "nd.output"));
  EXPECT_EQ(getBlocks(program).size(), 2u);
}

TEST_F(Regions, BodiesOfKernelsAreNoBlocks) {
  auto module = parse("", R"(spmd.program @p {
    %e = tensor.empty() : tensor<4x3xf32>
    %y = linalg.generic {indexing_maps = [#ab],
                         iterator_types = ["parallel", "parallel"]}
        outs(%e : tensor<4x3xf32>) {
      ^bb0(%b: f32):
        linalg.yield %b : f32
    } -> tensor<4x3xf32> })");
  auto program = module->lookupSymbol<spmd::ProgramOp>("p");
  EXPECT_EQ(getBlocks(program).size(), 1u);
  EXPECT_EQ(getOperations(program).size(), 2u);
}

TEST_F(Regions, AreCheckedAgainstTheLayout) {
  const char *const rules = R"(nd.rule "a -> m"
                               nd.rule "b -> m"
                               )";
  auto module = parse(rules, R"(nd.program @forward {
    scf.execute_region {
      %x = nd.constant(1.0 : f32) : !x
      scf.yield
    } })");
  EXPECT_THAT(run(*module, createCheckLayout()), HasSubstr("axis, \"m\""));
}

// What goes in, round and out is f32; what the loop computes is not.
TEST_F(Regions, AreLoweredInPrecision) {
  auto module = parse("nd.precision bf16\n", loop);
  EXPECT_EQ(run(*module, createLowerPrecision()), "");
  auto program = module->lookupSymbol<nd::ProgramOp>("forward");
  size_t einsums = 0;
  for (mlir::Operation *op : getOperations(program)) {
    if (auto einsum = llvm::dyn_cast<nd::EinsumOp>(op)) {
      ++einsums;
      EXPECT_TRUE(einsum.getType().getElementType().isBF16());
    }
    if (llvm::isa<mlir::scf::ForOp>(op) || isRegionEnd(op))
      EXPECT_TRUE(
          llvm::cast<nd::NamedTensorType>(op->getOperands().back().getType())
              .getElementType()
              .isF32());
  }
  EXPECT_EQ(einsums, 1u);
}

// An operation that shardings know nothing of is an error at its place, and
// what reads its arguments is looked at no further.
TEST_F(Regions, WithoutAnInterfaceAreAnError) {
  auto module = parse("nd.rule \"a -> m\"\n", loop);
  EXPECT_THAT(run(*module, createAssignShardings()),
              HasSubstr("'scf.for' cannot be partitioned"));
}

TEST_F(Regions, ShardingsInsideAreVerified) {
  auto module = parse("", R"(nd.program @forward {
    scf.execute_region {
      %x = nd.constant(1.0 : f32) : !x
      scf.yield
    } })");
  EXPECT_THAT(run(*module, createPartition()),
              HasSubstr("has a value without a sharding"));
}

/// A loop on blocks whose body adds `addend` to the square of what it carries.
std::string getBlockLoop(llvm::StringRef before, llvm::StringRef addend) {
  return R"(spmd.program @p {
    %x = spmd.input "x" of !nd.tensor<["a"=4, "b"=3], f32, <>> : tensor<4x3xf32>
    %e = tensor.empty() : tensor<4x3xf32>
    %low = arith.constant 0 : index
    %high = arith.constant 5 : index
    %step = arith.constant 1 : index
    )" + before.str() +
         R"(
    %y = scf.for %i = %low to %high step %step iter_args(%c = %x)
        -> tensor<4x3xf32> {
      %square = linalg.generic {indexing_maps = [#ab, #ab],
          iterator_types = ["parallel", "parallel"]}
          ins(%c : tensor<4x3xf32>) outs(%e : tensor<4x3xf32>) {
        ^bb0(%a: f32, %b: f32):
          %m = arith.mulf %a, %a : f32
          linalg.yield %m : f32
      } -> tensor<4x3xf32>
      %sum = linalg.generic {indexing_maps = [#ab, #ab, #ab],
          iterator_types = ["parallel", "parallel"]}
          ins()" +
         addend.str() +
         R"(, %c : tensor<4x3xf32>, tensor<4x3xf32>) outs(%e : tensor<4x3xf32>) {
        ^bb0(%a: f32, %d: f32, %b: f32):
          %s = arith.addf %a, %d : f32
          linalg.yield %s : f32
      } -> tensor<4x3xf32>
      scf.yield %sum : tensor<4x3xf32>
    }
    spmd.output "y" of !nd.tensor<["a"=4, "b"=3], f32, <>>, %y : tensor<4x3xf32>
  })";
}

TEST_F(Regions, ArithmeticInsideIsFused) {
  auto module = parse("", getBlockLoop("", "%square"));
  EXPECT_EQ(run(*module, createFuseArithmetic()), "");
  EXPECT_THAT(print(*module), HasSubstr("math.fma"));
}

// A product that is computed once stays before the loop that adds it often.
TEST_F(Regions, ProductsStayOutside) {
  const char *const square = R"(
    %once = linalg.generic {indexing_maps = [#ab, #ab],
        iterator_types = ["parallel", "parallel"]}
        ins(%x : tensor<4x3xf32>) outs(%e : tensor<4x3xf32>) {
      ^bb0(%a: f32, %b: f32):
        %m = arith.mulf %a, %a : f32
        linalg.yield %m : f32
    } -> tensor<4x3xf32>)";
  auto module = parse("", getBlockLoop(square, "%once"));
  EXPECT_EQ(run(*module, createFuseArithmetic()), "");
  EXPECT_THAT(print(*module), Not(HasSubstr("math.fma")));
}

// The carried value has no operation that defines it.
TEST_F(Regions, ResidualsPassThemBy) {
  auto module = parse("", getBlockLoop("", "%square"));
  const std::string before = print(*module);
  EXPECT_EQ(run(*module, createRecomputeResiduals()), "");
  EXPECT_EQ(print(*module), before);
}

} // namespace
