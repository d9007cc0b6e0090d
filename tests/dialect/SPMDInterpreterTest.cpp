#include "dialect/interpreter/SPMDInterpreter.h"

#include "tests/dialect/Programs.h"

#include "gmock/gmock.h"

using namespace meshc;
using namespace meshc::interpreter;
using meshc::test::F64State;
using meshc::test::F64Tensor;
using meshc::test::floats;
using meshc::test::ints;

namespace {

class SPMDInterpreterTest : public ::testing::Test {
protected:
  /// Runs a program of these lines on the mesh m = 2, n = 3; gives its output
  /// "y". Without success, `message` says why.
  F64Tensor run(llvm::StringRef lines) {
    std::string text = R"(
      !x = !nd.tensor<["x"=4], f64>
      !x_m = !nd.tensor<["x"=4], f64, <"x"@m>>
      !x_n = !nd.tensor<["x"=4], f64, <"x"@n>>
      !x_all = !nd.tensor<["x"=4], f64, <>>
      !x_sum_m = !nd.tensor<["x"=4], f64, <> partial sum over (m)>
      !s_all = !nd.tensor<[], f64, <>>
      !s_sum_n = !nd.tensor<[], f64, <> partial sum over (n)>
      !i_all = !nd.tensor<["x"=4], i32, <>>
      module {
        nd.mesh ["m"=2, "n"=3]
        nd.variable parameter @v : !x_n = #nd.fill<0.0 : f64>
        spmd.program @p {)" +
                       lines.str() + "}}";
    message.clear();
    mlir::ScopedDiagnosticHandler handler(
        context.get(),
        [&](mlir::Diagnostic &diagnostic) { message += diagnostic.str(); });
    auto module = meshc::test::parse(*context, text);
    if (!module) {
      ADD_FAILURE() << "the program does not parse: " << message;
      return {};
    }
    auto program = module->lookupSymbol<spmd::ProgramOp>("p");
    succeeded = llvm::succeeded(runProgram(program, state));
    return state.outputs["y"];
  }

  std::unique_ptr<mlir::MLIRContext> context = meshc::test::makeContext();
  F64State state;
  bool succeeded = false;
  std::string message;
};

TEST_F(SPMDInterpreterTest, PointwiseOnBlocks) {
  state.inputs["x"] = floats({4}, {1, 2, 3, 4});
  EXPECT_EQ(run(R"(
    %x = spmd.input "x" of !x_n : tensor<2xf64>
    %e = tensor.empty() : tensor<2xf64>
    %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>,
                                          affine_map<(i) -> (i)>],
                         iterator_types = ["parallel"]}
        ins(%x : tensor<2xf64>) outs(%e : tensor<2xf64>) {
      ^bb0(%a : f64, %unused : f64):
        %b = math.exp %a : f64
        %c = arith.mulf %b, %a : f64
        linalg.yield %c : f64
    } -> tensor<2xf64>
    spmd.output "y" of !x_n, %y : tensor<2xf64>)"),
            floats({4}, {std::exp(1.0), 2 * std::exp(2.0), 3 * std::exp(3.0),
                         4 * std::exp(4.0)}));
}

TEST_F(SPMDInterpreterTest, AReductionOverPaddingIsPoison) {
  state.inputs["x"] = floats({4}, {1, 2, 3, 4});
  const char *sum = R"(
    %x = spmd.input "x" of !x_n : tensor<2xf64>
    %zero = arith.constant 0.0 : f64
    %e = tensor.empty() : tensor<f64>
    %init = linalg.fill ins(%zero : f64) outs(%e : tensor<f64>) -> tensor<f64>
    %n = spmd.axis_index n
    %two = arith.constant 2 : index
    %begin = arith.muli %n, %two : index
    %end = arith.constant 4 : index
    %s = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>,
                                          affine_map<(i) -> ()>],
                         iterator_types = ["reduction"]}
        ins(%x : tensor<2xf64>) outs(%init : tensor<f64>) {
      ^bb0(%a : f64, %sum : f64):
        %i = linalg.index 0 : index
        %at = arith.addi %begin, %i : index
        %inside = arith.cmpi slt, %at, %end : index
        %masked = arith.select %inside, %a, %zero : f64
        %next = arith.addf %sum, VALUE : f64
        linalg.yield %next : f64
    } -> tensor<f64>
    %y = spmd.all_reduce %s from !s_sum_n to !s_all : tensor<f64> -> tensor<f64>
    spmd.output "y" of !s_all, %y : tensor<f64>)";
  auto with = [&](llvm::StringRef value) {
    std::string text = sum;
    text.replace(text.find("VALUE"), 5, value.str());
    return run(text);
  };
  EXPECT_EQ(with("%masked"), floats({}, {10}));
  EXPECT_EQ(with("%a"), F64Tensor());
}

TEST_F(SPMDInterpreterTest, UninitialisedMemoryIsPoison) {
  EXPECT_EQ(run(R"(
    %y = tensor.empty() : tensor<4xf64>
    spmd.output "y" of !x_all, %y : tensor<4xf64>)"),
            F64Tensor({4}));
}

TEST_F(SPMDInterpreterTest, ContractionWithPermutedMaps) {
  state.inputs["x"] = floats({4}, {1, 2, 3, 4});
  // y[i] = sum_j w[j, i] x[j]
  EXPECT_EQ(run(R"(
    %x = spmd.input "x" of !x_all : tensor<4xf64>
    %w = arith.constant dense<[[1.0, 0.0, 0.0, 0.0], [10.0, 1.0, 0.0, 0.0],
                               [100.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]>
        : tensor<4x4xf64>
    %init = arith.constant dense<0.0> : tensor<4xf64>
    %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>,
                                          affine_map<(i, j) -> (j)>,
                                          affine_map<(i, j) -> (i)>],
                         iterator_types = ["parallel", "reduction"]}
        ins(%w, %x : tensor<4x4xf64>, tensor<4xf64>)
        outs(%init : tensor<4xf64>) {
      ^bb0(%a : f64, %b : f64, %sum : f64):
        %p = arith.mulf %a, %b : f64
        %next = arith.addf %sum, %p : f64
        linalg.yield %next : f64
    } -> tensor<4xf64>
    spmd.output "y" of !x_all, %y : tensor<4xf64>)"),
            floats({4}, {321, 2, 3, 4}));
}

TEST_F(SPMDInterpreterTest, ExtractInsideABody) {
  state.inputs["x"] = floats({4}, {1, 2, 3, 4});
  state.inputs["i"] = ints({4}, {3, 0, 0, 2});
  const char *lookup = R"(
    %x = spmd.input "x" of !x_all : tensor<4xf64>
    %i = spmd.input "i" of !i_all : tensor<4xi32>
    %e = tensor.empty() : tensor<4xf64>
    %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>,
                                          affine_map<(i) -> (i)>],
                         iterator_types = ["parallel"]}
        ins(%i : tensor<4xi32>) outs(%e : tensor<4xf64>) {
      ^bb0(%a : i32, %unused : f64):
        %at = arith.index_cast %a : i32 to index
        %v = tensor.extract %x[%at] : tensor<4xf64>
        linalg.yield %v : f64
    } -> tensor<4xf64>
    spmd.output "y" of !x_all, %y : tensor<4xf64>)";
  EXPECT_EQ(run(lookup), floats({4}, {4, 1, 1, 3}));
  state.inputs["i"] = ints({4}, {3, 4, 0, 2});
  run(lookup);
  EXPECT_FALSE(succeeded);
  EXPECT_EQ(message, "'linalg.generic' op reads out of bounds");
}

TEST_F(SPMDInterpreterTest, CollectivesMakeTheirTarget) {
  state.inputs["x"] = floats({4}, {1, 2, 3, 4});
  // As terms over m, x counts twice.
  EXPECT_EQ(run(R"(
    %x = spmd.input "x" of !x_all : tensor<4xf64>
    %r = spmd.reduce_scatter %x from !x_sum_m to !x_m
        : tensor<4xf64> -> tensor<2xf64>
    %g = spmd.all_gather %r from !x_m to !x_all : tensor<2xf64> -> tensor<4xf64>
    %s = spmd.slice %g from !x_all to !x_n : tensor<4xf64> -> tensor<2xf64>
    %e = spmd.exchange %s from !x_n to !x_m : tensor<2xf64> -> tensor<2xf64>
    spmd.output "y" of !x_m, %e : tensor<2xf64>)"),
            floats({4}, {2, 4, 6, 8}));
}

TEST_F(SPMDInterpreterTest, ReplicasHaveToAgree) {
  run(R"(
    %m = spmd.axis_index m
    %i = arith.index_cast %m : index to i64
    %f = arith.sitofp %i : i64 to f64
    %y = tensor.splat %f : tensor<4xf64>
    spmd.output "y" of !x_all, %y : tensor<4xf64>)");
  EXPECT_FALSE(succeeded);
  EXPECT_EQ(message, "'spmd.output' op cannot be gathered: devices 0 and 3 "
                     "disagree about element 0");
}

TEST_F(SPMDInterpreterTest, VariablesChangeAtTheEnd) {
  state.variables["v"] = floats({4}, {1, 2, 3, 4});
  EXPECT_EQ(run(R"(
    %v = spmd.read @v : tensor<2xf64>
    %zero = arith.constant dense<0.0> : tensor<2xf64>
    spmd.write @v, %zero : tensor<2xf64>
    %y = spmd.read @v : tensor<2xf64>
    spmd.output "y" of !x_n, %y : tensor<2xf64>)"),
            floats({4}, {1, 2, 3, 4}));
  EXPECT_EQ(state.variables["v"], floats({4}, {0, 0, 0, 0}));
}

TEST_F(SPMDInterpreterTest, SlicesOfTensors) {
  state.inputs["x"] = floats({4}, {1, 2, 3, 4});
  EXPECT_EQ(run(R"(
    %x = spmd.input "x" of !x_all : tensor<4xf64>
    %m = spmd.axis_index m
    %h = tensor.extract_slice %x[%m] [2] [2] : tensor<4xf64> to tensor<2xf64>
    %f = arith.constant dense<0.0> : tensor<4xf64>
    %w = tensor.insert_slice %h into %f[1] [2] [1]
        : tensor<2xf64> into tensor<4xf64>
    %y = spmd.all_reduce %w from !x_sum_m to !x_all
        : tensor<4xf64> -> tensor<4xf64>
    spmd.output "y" of !x_all, %y : tensor<4xf64>)"),
            floats({4}, {0, 1 + 2, 3 + 4, 0}));
}

/// Integer operations as a device's words have them, each against C++.
TEST_F(SPMDInterpreterTest, IntegerOperationsHaveWidths) {
  auto binary = [&](std::string op, int64_t lhs, int64_t rhs) {
    std::string text = "%a = arith.constant " + std::to_string(lhs) +
                       " : i32\n%b = arith.constant " + std::to_string(rhs) +
                       " : i32\n" + op + R"(
      %y = tensor.splat %r : tensor<4xi32>
      spmd.output "y" of !i_all, %y : tensor<4xi32>)";
    return run(text).elements[0];
  };
  auto simple = [&](const char *op, int64_t lhs, int64_t rhs) {
    return binary(std::string("%r = arith.") + op + " %a, %b : i32", lhs, rhs);
  };
  uint32_t x = 0xD2511F53, y = 0x9E3779B9;
  int32_t xs = int32_t(x), ys = int32_t(y);
  EXPECT_EQ(simple("addi", xs, ys), Scalar<F64>(int64_t(int32_t(x + y))));
  EXPECT_EQ(simple("muli", xs, ys), Scalar<F64>(int64_t(int32_t(x * y))));
  EXPECT_EQ(simple("xori", xs, ys), Scalar<F64>(int64_t(xs ^ ys)));
  EXPECT_EQ(simple("shrui", xs, 8), Scalar<F64>(int64_t(x >> 8)));
  EXPECT_EQ(simple("shrsi", xs, 8), Scalar<F64>(int64_t(xs >> 8)));
  EXPECT_EQ(simple("shli", xs, 3), Scalar<F64>(int64_t(int32_t(x << 3))));
  EXPECT_EQ(simple("shli", xs, 32), Scalar<F64>(Poison()));
  EXPECT_EQ(simple("remsi", -7, 3), Scalar<F64>(int64_t(-1)));
  EXPECT_EQ(simple("divui", -7, 3), Scalar<F64>(int64_t((0u - 7) / 3)));
  EXPECT_EQ(simple("remui", -7, 3), Scalar<F64>(int64_t((0u - 7) % 3)));
  EXPECT_EQ(binary("%l, %r = arith.mului_extended %a, %b : i32", xs, ys),
            Scalar<F64>(int64_t(int32_t((uint64_t(x) * y) >> 32))));
  EXPECT_EQ(binary("%l, %r = arith.mulsi_extended %a, %b : i32", xs, ys),
            Scalar<F64>((int64_t(xs) * ys) >> 32));
  EXPECT_EQ(binary(R"(%wide = arith.extui %a : i32 to i64
      %c = arith.constant 4 : i64
      %s = arith.shrui %wide, %c : i64
      %r = arith.trunci %s : i64 to i32)",
                   xs, 0),
            Scalar<F64>(int64_t(x >> 4)));
}

TEST_F(SPMDInterpreterTest, BooleansConvertBySign) {
  EXPECT_EQ(run(R"(
    %t = arith.constant true
    %u = arith.uitofp %t : i1 to f64
    %s = arith.sitofp %t : i1 to f64
    %nan = arith.constant 0x7FF8000000000000 : f64
    %ult = arith.cmpf ult, %nan, %u : f64
    %olt = arith.cmpf olt, %nan, %u : f64
    %uno = arith.cmpf uno, %nan, %u : f64
    %a = arith.uitofp %ult : i1 to f64
    %b = arith.uitofp %olt : i1 to f64
    %y0 = tensor.empty() : tensor<4xf64>
    %s0 = tensor.splat %s : tensor<1xf64>
    %s1 = tensor.splat %a : tensor<1xf64>
    %s2 = tensor.splat %b : tensor<1xf64>
    %s3 = tensor.splat %u : tensor<1xf64>
    %y1 = tensor.insert_slice %s0 into %y0[0][1][1] : tensor<1xf64> into tensor<4xf64>
    %y2 = tensor.insert_slice %s1 into %y1[1][1][1] : tensor<1xf64> into tensor<4xf64>
    %y3 = tensor.insert_slice %s2 into %y2[2][1][1] : tensor<1xf64> into tensor<4xf64>
    %y4 = tensor.insert_slice %s3 into %y3[3][1][1] : tensor<1xf64> into tensor<4xf64>
    spmd.output "y" of !x_all, %y4 : tensor<4xf64>)"),
            floats({4}, {-1, 1, 0, 1}));
}

TEST_F(SPMDInterpreterTest, UnknownOperationsAreErrors) {
  run(R"(
    %a = arith.constant 1.0 : f64
    %b = math.cbrt %a : f64)");
  EXPECT_FALSE(succeeded);
  EXPECT_EQ(message, "'math.cbrt' op is unknown to the interpreter");
}

} // namespace
