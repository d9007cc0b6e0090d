#include "codegen/kernels/LowerKernels.h"
#include "dialect/interpreter/SPMDInterpreter.h"
#include "tests/codegen/KernelRunner.h"
#include "tests/runtime/StoredHalf.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include "gtest/gtest.h"

#include <bit>
#include <cmath>
#include <tuple>

using namespace meshc;
using namespace meshc::test;

namespace {

/// Rows of every length around the vector widths, of both 16-bit floats.
class NarrowFloats
    : public ::testing::TestWithParam<std::tuple<std::string, int64_t>> {
protected:
  NarrowFloats() : type(std::get<0>(GetParam())) {
    text.dim("b", 3);
    text.dim("d", std::get<1>(GetParam()));
  }

  /// y = body of x, z and w, all of `type`; w along the rows alone.
  void addPointwise(const std::string &name, const std::string &body,
                    const std::string &resultType = "") {
    std::string typed = body;
    for (size_t at; (at = typed.find('T')) != std::string::npos;)
      typed.replace(at, 1, type);
    text.pointwise(name, "b d", {"x", "z", "w"}, typed,
                   resultType.empty() ? type : resultType);
    text.output(name);
  }
  void addInputs() {
    text.input("x", "b d", type);
    text.input("z", "b d", type);
    text.input("w", "b", type);
  }
  /// Distance of neighbours relative to a number between them, at most.
  double getPlace() const { return type == "bf16" ? 0x1p-7 : 0x1p-10; }

  std::string type;
  ProgramText text;
};

/// f32 has more than twice the digits and two: these round once in effect.
TEST_P(NarrowFloats, ArithmeticIsRoundedExactly) {
  addInputs();
  addPointwise("add", "%r = arith.addf %a0, %a1 : T");
  addPointwise("sub", "%r = arith.subf %a0, %a2 : T");
  addPointwise("mul", "%r = arith.mulf %a0, %a1 : T");
  addPointwise("chain", "%c = arith.constant 0.1 : T\n"
                        "%s = arith.mulf %a0, %c : T\n"
                        "%t = arith.addf %s, %a1 : T\n"
                        "%r = arith.mulf %t, %a2 : T");
  expectAgreement(text, {}, 0);
}

/// On GPUs the f32 that is rounded is off by up to two places, which decides
/// next to the middle of two numbers.
TEST_P(NarrowFloats, QuotientsAndRootsOfGpusAreRoundedToANeighbour) {
  addInputs();
  addPointwise("root", "%s = math.absf %a0 : T\n%r = math.sqrt %s : T");
  addPointwise("inverse", "%c = arith.constant 0.25 : T\n"
                          "%s = math.absf %a2 : T\n"
                          "%t = arith.addf %s, %c : T\n"
                          "%r = arith.divf %a0, %t : T");
  expectAgreement(text, {}, getPlace());
}

TEST_P(NarrowFloats, QuotientsAndRootsOfCpusAreRoundedExactly) {
  addInputs();
  addPointwise("div", "%r = arith.divf %a0, %a2 : T");
  addPointwise("root", "%s = math.absf %a0 : T\n%r = math.sqrt %s : T");
  auto runner = KernelRunner::create(text.str());
  ASSERT_TRUE(runner);
  F64State actual;
  const int64_t columns = std::get<1>(GetParam());
  for (const std::string name : {"x", "z", "w"}) {
    F64Tensor tensor(name == "w" ? std::vector<int64_t>{3}
                                 : std::vector<int64_t>{3, columns});
    // Eight digits, which either type has.
    int64_t number = 7;
    for (auto &element : tensor.elements)
      element = double(number = number * 101 % 251) / 16;
    actual.inputs[name] = tensor;
  }
  F64State expected = actual;
  ASSERT_TRUE(
      mlir::succeeded(interpreter::runProgram(runner->getSource(), expected)));
  runner->run(actual);
  for (const char *name : {"div", "root"})
    for (auto [got, want] : llvm::zip_equal(actual.outputs[name].elements,
                                            expected.outputs[name].elements))
      EXPECT_EQ(got, want) << name;
}

TEST_P(NarrowFloats, WhatIsNotComputedIsNotRounded) {
  addInputs();
  addPointwise("neg", "%r = arith.negf %a0 : T");
  addPointwise("max", "%r = arith.maximumf %a0, %a2 : T");
  addPointwise("min", "%r = arith.minimumf %a0, %a1 : T");
  addPointwise("choice", "%c = arith.cmpf olt, %a0, %a1 : T\n"
                         "%r = arith.select %c, %a2, %a0 : T");
  addPointwise("less", "%r = arith.cmpf olt, %a0, %a2 : T", "i1");
  addPointwise("integer",
               "%c = arith.constant 100.0 : T\n%s = arith.mulf %a0, %c : T\n"
               "%r = arith.fptosi %s : T to i32",
               "i32");
  addPointwise("wide", "%r = arith.extf %a0 : T to f32", "f32");
  addPointwise("wider", "%r = arith.extf %a0 : T to f64", "f64");
  expectAgreement(text, {}, 0);
}

TEST_P(NarrowFloats, Functions) {
  addInputs();
  addPointwise("exp", "%r = math.exp %a0 : T");
  addPointwise("log", "%s = math.absf %a0 : T\n%r = math.log %s : T");
  addPointwise("tanh", "%r = math.tanh %a0 : T");
  addPointwise("erf", "%r = math.erf %a0 : T");
  addPointwise("power", "%s = math.absf %a0 : T\n%r = math.powf %s, %a2 : T");
  // One rounding may go the other way.
  expectAgreement(text, {}, getPlace());
}

TEST_P(NarrowFloats, Conversions) {
  text.input("x", "b d");
  text.input("y", "b d", "f64");
  text.input("i", "b d", "i32");
  text.input("c", "b d", "i1");
  std::string to = " to " + type;
  text.pointwise("fromF32", "b d", {"x"}, "%r = arith.truncf %a0 : f32" + to,
                 type);
  text.pointwise("fromF64", "b d", {"y"}, "%r = arith.truncf %a0 : f64" + to,
                 type);
  text.pointwise("fromI32", "b d", {"i"}, "%r = arith.sitofp %a0 : i32" + to,
                 type);
  text.pointwise("fromI1", "b d", {"c"}, "%r = arith.uitofp %a0 : i1" + to,
                 type);
  text.pointwise("twice", "b d", {"fromF32", "fromF64"},
                 "%r = arith.addf %a0, %a1 : " + type, type);
  for (const char *name : {"fromF32", "fromF64", "fromI32", "fromI1", "twice"})
    text.output(name);
  expectAgreement(text, {}, 0);
}

TEST_P(NarrowFloats, Transposes) {
  text.dim("h", 5);
  text.input("x", "b h d", type);
  text.input("t", "d b", type);
  text.pointwise("y", "b d h", {"x"}, "", type);
  text.pointwise("z", "b d", {"t"}, "%r = arith.addf %a0, %a0 : " + type, type);
  text.output("y");
  text.output("z");
  expectAgreement(text, {}, 0);
}

TEST_P(NarrowFloats, Gathers) {
  text.dim("k", 3);
  text.input("x", "k d", type);
  text.input("i", "b d", "i32");
  text.pointwise("y", "b d", {"i"},
                 "%p = arith.index_cast %a0 : i32 to index\n"
                 "%r = tensor.extract %x[%p, $d] : " +
                     text.getTensorType("x"),
                 type);
  text.output("y");
  expectAgreement(text, {}, 0);
}

TEST_P(NarrowFloats, ExtremesOfRowsAndColumns) {
  const std::string lowest = type == "bf16" ? "0xFF80" : "0xFC00";
  const std::string highest = type == "bf16" ? "0x7F80" : "0x7C00";
  text.input("x", "b d", type);
  text.reduce("row", "b", {"x"}, "arith.maximumf", lowest, "", type);
  text.reduce("column", "d", {"x"}, "arith.minimumf", highest, "", type);
  text.output("row");
  text.output("column");
  expectAgreement(text, {}, 0);
}

/// In f32 between 16-bit rows, as precision lowering leaves it.
TEST_P(NarrowFloats, Softmax) {
  text.input("x", "b d", type);
  const std::string lowest = type == "bf16" ? "0xFF80" : "0xFC00";
  const std::string widen = "%r = arith.extf %a0 : " + type + " to f32";
  text.reduce("m", "b", {"x"}, "arith.maximumf", lowest, "", type);
  text.pointwise("wide", "b d", {"x"}, widen);
  text.pointwise("most", "b", {"m"}, widen);
  text.pointwise("c", "b d", {"wide", "most"},
                 "%r = arith.subf %a0, %a1 : f32");
  text.pointwise("e", "b d", {"c"}, "%r = math.exp %a0 : f32");
  text.reduce("s", "b", {"e"}, "arith.addf", "0.0");
  text.pointwise("p", "b d", {"e", "s"}, "%r = arith.divf %a0, %a1 : f32");
  text.pointwise("y", "b d", {"p"}, "%r = arith.truncf %a0 : f32 to " + type,
                 type);
  text.output("y");
  expectAgreement(text, {}, getPlace());
}

TEST_P(NarrowFloats, ColumnSumsInF32) {
  text.input("x", "b d", type);
  text.reduce("s", "d", {"x"}, "arith.addf", "0.0",
              "%r = arith.extf %a0 : " + type + " to f32");
  text.pointwise("y", "d", {"s"}, "%r = arith.truncf %a0 : f32 to " + type,
                 type);
  text.output("s");
  text.output("y");
  // Three terms of 11 digits or less: exact in f32, so y is rounded once.
  expectAgreement(text, {}, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, NarrowFloats,
    ::testing::Combine(::testing::Values("bf16", "f16"),
                       ::testing::Values(1, 2, 3, 7, 16, 17, 33, 50, 1000)),
    [](const auto &info) {
      return std::get<0>(info.param) + "_" +
             std::to_string(std::get<1>(info.param));
    });

/// `body` makes %r, of `to`, of %a0, of `from`; applied to `numbers`.
template <class To, class From>
std::vector<To> compute(const std::string &from, const std::string &to,
                        const std::string &body, std::vector<From> numbers) {
  ProgramText text;
  text.dim("i", int64_t(numbers.size()));
  text.input("x", "i", from);
  text.pointwise("y", "i", {"x"}, body, to);
  text.output("y");
  auto runner = KernelRunner::create(text.str(), "x86-64-v3");
  std::vector<To> results(numbers.size());
  void *operands[] = {numbers.data(), results.data()};
  runner->call(0, operands);
  return results;
}

/// The host's conversions are tested against the formats' definition.
TEST(NarrowFloatsEdges, RoundLikeTheHost) {
  std::vector<float> numbers;
  // Every exponent, with significands at and around halves of last places.
  for (uint32_t exponent = 0; exponent < 256; ++exponent)
    for (uint32_t fraction :
         {0x000000u, 0x000001u, 0x000fffu, 0x001000u, 0x001001u,
          0x002fffu, 0x003000u, 0x003001u, 0x007fffu, 0x008000u,
          0x008001u, 0x017fffu, 0x018000u, 0x018001u, 0x7fe000u,
          0x7fefffu, 0x7ff000u, 0x7f7fffu, 0x7f8000u, 0x7fffffu})
      for (uint32_t sign : {0u, 1u})
        numbers.push_back(
            std::bit_cast<float>(sign << 31 | exponent << 23 | fraction));
  auto bf16 = compute<runtime::BFloat16>(
      "f32", "bf16", "%r = arith.truncf %a0 : f32 to bf16", numbers);
  auto f16 = compute<runtime::Float16>(
      "f32", "f16", "%r = arith.truncf %a0 : f32 to f16", numbers);
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (std::isnan(numbers[i])) {
      EXPECT_TRUE(std::isnan(bf16[i].toFloat()));
      EXPECT_TRUE(std::isnan(f16[i].toFloat()));
      continue;
    }
    EXPECT_EQ(bf16[i].bits, runtime::BFloat16::round(numbers[i]).bits)
        << numbers[i];
    EXPECT_EQ(f16[i].bits, runtime::Float16::round(numbers[i]).bits)
        << numbers[i];
  }
}

TEST(NarrowFloatsEdges, DoublesAreRoundedOnce) {
  // Just beyond the middle between two neighbours: by way of the nearest f32
  // they would be the middle itself.
  for (double sign : {1.0, -1.0}) {
    auto bf16 = compute<runtime::BFloat16>(
        "f64", "bf16", "%r = arith.truncf %a0 : f64 to bf16",
        std::vector<double>{sign * (1 + 0x1p-8 + 0x1p-40),
                            sign * (1 + 0x3p-8 - 0x1p-40), sign * 1e300});
    EXPECT_EQ(bf16[0].toFloat(), sign * (1 + 0x1p-7));
    EXPECT_EQ(bf16[1].toFloat(), sign * (1 + 0x1p-7));
    EXPECT_EQ(bf16[2].toFloat(), sign * HUGE_VAL);
    auto f16 = compute<runtime::Float16>(
        "f64", "f16", "%r = arith.truncf %a0 : f64 to f16",
        std::vector<double>{sign * (1 + 0x1p-11 + 0x1p-40),
                            sign * (1 + 0x3p-11 - 0x1p-40)});
    EXPECT_EQ(f16[0].toFloat(), sign * (1 + 0x1p-10));
    EXPECT_EQ(f16[1].toFloat(), sign * (1 + 0x1p-10));
  }
}

TEST(NarrowFloatsEdges, NoLibraryIsCalled) {
  for (const std::string type : {"bf16", "f16"})
    for (const char *cpu : {"x86-64-v3", "x86-64-v4"}) {
      ProgramText text;
      text.dim("b", 5);
      text.dim("d", 333);
      text.input("x", "b d", type);
      text.input("y", "b", type);
      text.pointwise("z", "b d", {"x", "y"},
                     "%s = arith.mulf %a0, %a1 : " + type +
                         "\n%r = math.tanh %s : " + type,
                     type);
      text.pointwise("w", "b", {"y"}, "%r = arith.addf %a0, %a0 : " + type,
                     type);
      text.output("z");
      text.output("w");
      auto runner = KernelRunner::create(text.str(), cpu);
      ASSERT_TRUE(runner);
      for (const char *name : {"__trunc", "__extend", "tanh"})
        EXPECT_EQ(runner->getObject().find(name), std::string::npos)
            << name << " for " << type << " on " << cpu;
    }
}

/// What nobody has thought of is not left with bits that are taken for numbers.
TEST(NarrowFloatsEdges, UnknownOperationsAreRefused) {
  auto context = makeContext();
  context->loadDialect<mlir::LLVM::LLVMDialect, mlir::vector::VectorDialect>();
  auto module = parse(*context, R"(
llvm.func @k(%p: !llvm.ptr) {
  %x = llvm.load %p : !llvm.ptr -> vector<2xbf16>
  %y = vector.interleave %x, %x : vector<2xbf16> -> vector<4xbf16>
  llvm.store %y, %p : vector<4xbf16>, !llvm.ptr
  llvm.return
})");
  ASSERT_TRUE(module);
  std::string message;
  mlir::ScopedDiagnosticHandler handler(context.get(),
                                        [&](mlir::Diagnostic &diagnostic) {
                                          message += diagnostic.str();
                                          return mlir::success();
                                        });
  EXPECT_TRUE(mlir::failed(codegen::lowerKernels(*module)));
  EXPECT_EQ(message,
            "'vector.interleave' is not built for floats of 16 bits yet");
}

} // namespace
