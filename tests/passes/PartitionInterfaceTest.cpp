// Partitioning asks an operation for its loops and accesses, and for nothing
// else: what no operation of nd has yet - several results, positions that are
// no loop's - is said here by models of other operations' interfaces.

#include "tests/dialect/Programs.h"

#include "dialect/PartitionBuilder.h"
#include "dialect/interpreter/SPMDInterpreter.h"
#include "passes/Passes.h"

#include "mlir/Pass/PassManager.h"

#include "gmock/gmock.h"

using namespace meshc;
using namespace meshc::test;
using mlir::UnrealizedConversionCastOp;
using ::testing::HasSubstr;

namespace {

mlir::Value passOn(mlir::OpBuilder &, mlir::Location, mlir::ValueRange x,
                   nd::PartitionBuilder::GlobalIndex) {
  return x[0];
}

nd::NamedTensorType getType(mlir::Value value) {
  return llvm::cast<nd::NamedTensorType>(value.getType());
}

/// The sums over "b" of its operand and the operand itself.
struct SumAndCopy
    : nd::PartitionOpInterface::ExternalModel<SumAndCopy,
                                              UnrealizedConversionCastOp> {
  nd::DimUse getDimUse(mlir::Operation *, llvm::StringRef loop) const {
    return loop == "b" ? nd::DimUse::reduced(nd::ReduceKind::Sum)
                       : nd::DimUse::parallel();
  }
  nd::LocalResults buildLocal(mlir::Operation *op,
                              nd::PartitionBuilder &builder,
                              mlir::ValueRange shards) const {
    auto operands =
        builder.getOperands(llvm::cast<nd::PartitionOpInterface>(op), shards);
    return llvm::SmallVector{
        builder.buildReduction(getType(op->getResult(0)), operands,
                               nd::ReduceKind::Sum, passOn),
        builder.buildPointwise(getType(op->getResult(1)), operands, passOn)};
  }
};

/// x[y = 2 half + 1] of an operand with the dimension y.
struct EveryOther
    : nd::PartitionOpInterface::ExternalModel<EveryOther,
                                              UnrealizedConversionCastOp> {
  llvm::SmallVector<nd::DimAttr> getIterationDims(mlir::Operation *op) const {
    return llvm::SmallVector<nd::DimAttr>(getType(op->getResult(0)).getDims());
  }
  nd::DimUse getDimUse(mlir::Operation *, llvm::StringRef) const {
    return nd::DimUse::parallel();
  }
  nd::DimAccess getOperandAccess(mlir::Operation *op, unsigned,
                                 mlir::StringAttr dim) const {
    if (dim != "y")
      return nd::DimAccess::itself(dim);
    return {layout::Access::linear({{0, 2}}, 1),
            {mlir::StringAttr::get(op->getContext(), "half")}};
  }
  nd::LocalResults buildLocal(mlir::Operation *op,
                              nd::PartitionBuilder &builder,
                              mlir::ValueRange shards) const {
    return llvm::SmallVector{builder.buildPointwise(
        getType(op->getResult(0)),
        builder.getOperands(llvm::cast<nd::PartitionOpInterface>(op), shards),
        passOn)};
  }
};

/// A loop that goes one position after the other.
struct Ordered
    : nd::PartitionOpInterface::ExternalModel<Ordered,
                                              UnrealizedConversionCastOp> {
  nd::DimUse getDimUse(mlir::Operation *, llvm::StringRef loop) const {
    return loop == "b" ? nd::DimUse::ordered() : nd::DimUse::parallel();
  }
  nd::LocalResults buildLocal(mlir::Operation *, nd::PartitionBuilder &,
                              mlir::ValueRange shards) const {
    return llvm::to_vector(shards);
  }
};

/// Programs with an operation that `Model` describes, on the mesh m = 2.
template <class Model> class PartitionInterface {
public:
  PartitionInterface() : context(makeContext()) {
    context->loadDialect<mlir::BuiltinDialect>();
    UnrealizedConversionCastOp::attachInterface<Model>(*context);
  }

  /// What the program gives out for the input "x" after `passes`; the texts of
  /// its operations are kept.
  F64State run(llvm::StringRef rule, llvm::StringRef lines, F64Tensor x) {
    F64State state;
    state.inputs["x"] = std::move(x);
    auto module = parse(*context, R"(
      !ab = !nd.tensor<["a"=3, "b"=4], f64>
      !a = !nd.tensor<["a"=3], f64>
      !y = !nd.tensor<["a"=2, "y"=6], f64>
      !half = !nd.tensor<["a"=2, "half"=3], f64>
      module {
        nd.mesh ["m"=2]
        nd.rule ")" + rule.str() + R"( -> m"
        nd.program @p {)" + lines.str() +
                                      "}}");
    EXPECT_TRUE(module);
    mlir::PassManager passes(context.get());
    passes.addPass(createAssignShardings());
    EXPECT_TRUE(succeeded(passes.run(*module)));
    assigned = print(*module);
    mlir::PassManager partition(context.get());
    partition.addPass(createPartition());
    EXPECT_TRUE(succeeded(partition.run(*module)));
    EXPECT_TRUE(succeeded(
        runProgram(module->lookupSymbol<spmd::ProgramOp>("p"), state)));
    return state;
  }

  /// What nd-partition says about a program with shardings.
  std::string check(llvm::StringRef lines) {
    std::string message;
    mlir::ScopedDiagnosticHandler handler(
        context.get(),
        [&](mlir::Diagnostic &error) { message += error.str(); });
    auto module =
        parse(*context, "module { nd.mesh [\"m\"=2]\nnd.program @p {" +
                            lines.str() + "}}");
    if (!module)
      return "the program does not parse: " + message;
    mlir::PassManager partition(context.get());
    partition.addPass(createPartition());
    return failed(partition.run(*module)) ? message : "";
  }

  std::string assigned; ///< the program with its shardings

private:
  static std::string print(mlir::ModuleOp module) {
    std::string text;
    llvm::raw_string_ostream os(text);
    module.print(os);
    return text;
  }

  std::unique_ptr<mlir::MLIRContext> context;
};

const char *const sumAndCopy = R"(
  %x = nd.input "x" : !ab
  %s, %c = builtin.unrealized_conversion_cast %x : !ab to !a, !ab
  nd.output "s", %s : !a
  nd.output "c", %c : !ab)";

// A loop that one result lacks and the other has: terms of the one, blocks of
// the other.
TEST(PartitionInterface, ResultsDifferInTheirLoops) {
  const F64Tensor x = floats({3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const F64Tensor sums = floats({3}, {10, 26, 42});
  for (const char *rule : {"a", "b"}) {
    PartitionInterface<SumAndCopy> test;
    F64State state = test.run(rule, sumAndCopy, x);
    EXPECT_EQ(state.outputs["s"], sums) << rule;
    EXPECT_EQ(state.outputs["c"], x) << rule;
    const bool sumsTerms = rule == std::string("b");
    EXPECT_EQ(test.assigned.find("partial sum over m>") != std::string::npos,
              sumsTerms)
        << test.assigned;
  }
}

TEST(PartitionInterface, EveryResultIsChecked) {
  PartitionInterface<SumAndCopy> test;
  EXPECT_THAT(test.check(R"(
    %x = nd.input "x" : !nd.tensor<["a"=3, "b"=4], f64, <"b"@m>>
    %s, %c = builtin.unrealized_conversion_cast %x
      : !nd.tensor<["a"=3, "b"=4], f64, <"b"@m>>
      to !nd.tensor<["a"=3], f64, <> partial sum over (m)>,
         !nd.tensor<["a"=3, "b"=4], f64, <"a"@m>>)"),
              HasSubstr("splits dimension \"a\" in two ways"));
  EXPECT_THAT(test.check(R"(
    %x = nd.input "x" : !nd.tensor<["a"=3, "b"=4], f64, <"b"@m>>
    %s, %c = builtin.unrealized_conversion_cast %x
      : !nd.tensor<["a"=3, "b"=4], f64, <"b"@m>>
      to !nd.tensor<["a"=3], f64, <>>,
         !nd.tensor<["a"=3, "b"=4], f64, <"b"@m>>)"),
              HasSubstr("result must be sharding<> partial sum over m, "
                        "found sharding<>"));
}

// What takes other positions than a loop's reads its operand whole.
TEST(PartitionInterface, PositionsThatAreNoLoops) {
  const F64Tensor x = floats({2, 6}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  for (const char *rule : {"a", "y"}) {
    PartitionInterface<EveryOther> test;
    F64State state = test.run(rule, R"(
      %x = nd.input "x" : !y
      %h = builtin.unrealized_conversion_cast %x : !y to !half
      nd.output "h", %h : !half)",
                              x);
    EXPECT_EQ(state.outputs["h"], floats({2, 3}, {1, 3, 5, 7, 9, 11})) << rule;
  }
  PartitionInterface<EveryOther> test;
  EXPECT_THAT(test.check(R"(
    %x = nd.input "x" : !nd.tensor<["y"=6], f64, <"y"@m>>
    %h = builtin.unrealized_conversion_cast %x
      : !nd.tensor<["y"=6], f64, <"y"@m>> to !nd.tensor<["half"=3], f64, <>>)"),
              HasSubstr("needs dimension \"y\" whole, as it takes position 2 "
                        "half + 1, found it split over \"m\""));
}

TEST(PartitionInterface, AnOrderedLoopIsNotSplit) {
  const F64Tensor x = floats({3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  PartitionInterface<Ordered> test;
  F64State state = test.run("b", R"(
    %x = nd.input "x" : !ab
    %y = builtin.unrealized_conversion_cast %x : !ab to !ab
    nd.output "y", %y : !ab)",
                            x);
  EXPECT_EQ(state.outputs["y"], x);
  EXPECT_THAT(test.assigned,
              HasSubstr("nd.reshard")) // the input is split over m
      << test.assigned;
  EXPECT_THAT(test.check(R"(
    %x = nd.input "x" : !nd.tensor<["b"=4], f64, <"b"@m>>
    %y = builtin.unrealized_conversion_cast %x
      : !nd.tensor<["b"=4], f64, <"b"@m>>
      to !nd.tensor<["b"=4], f64, <"b"@m>>)"),
              HasSubstr("needs dimension \"b\" whole, found it split over "
                        "\"m\""));
}

} // namespace
