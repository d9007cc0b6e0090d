#include "tests/codegen/KernelRunner.h"

#include "gtest/gtest.h"

#include <cmath>
#include <limits>

using namespace meshc;
using namespace meshc::test;

namespace {

/// Every kernel runs with row lengths around the vector widths.
class KernelSizes : public ::testing::TestWithParam<int64_t> {};

TEST_P(KernelSizes, AddsAndBroadcasts) {
  ProgramText text;
  text.dim("b", 3);
  text.dim("d", GetParam());
  text.input("x", "b d");
  text.input("bias", "d");
  text.input("scale", "b");
  text.pointwise("y", "b d", {"x", "bias", "scale"},
                 "%s = arith.addf %a0, %a1 : f32\n"
                 "%r = arith.mulf %s, %a2 : f32");
  text.output("y");
  expectAgreement(text);
}

TEST_P(KernelSizes, Flattens) {
  ProgramText text;
  text.dim("a", 2);
  text.dim("b", 3);
  text.dim("d", GetParam());
  text.input("x", "a b d");
  text.input("y", "a b d");
  text.pointwise("z", "a b d", {"x", "y"}, "%r = arith.subf %a0, %a1 : f32");
  text.output("z");
  expectAgreement(text);
}

TEST_P(KernelSizes, Transposes) {
  ProgramText text;
  text.dim("b", 2);
  text.dim("h", 3);
  text.dim("p", 5);
  text.dim("e", GetParam());
  text.input("x", "b h p e");
  text.input("w", "e h");
  text.pointwise("y", "b p h e", {"x", "w"}, "%r = arith.mulf %a0, %a1 : f32");
  text.output("y");
  expectAgreement(text);
}

TEST_P(KernelSizes, TransposesTheLastDimension) {
  ProgramText text;
  text.dim("b", 3);
  text.dim("p", 19);
  text.dim("e", GetParam());
  text.input("x", "b e p");
  text.input("w", "p b");
  text.pointwise("y", "b p e", {"x", "w"}, "%r = arith.mulf %a0, %a1 : f32");
  text.output("y");
  expectAgreement(text);
}

TEST_P(KernelSizes, Softmax) {
  ProgramText text;
  text.dim("b", 3);
  text.dim("d", GetParam());
  text.input("x", "b d");
  text.reduce("m", "b", {"x"}, "arith.maximumf", lowestF32);
  text.pointwise("c", "b d", {"x", "m"}, "%r = arith.subf %a0, %a1 : f32");
  text.pointwise("e", "b d", {"c"}, "%r = math.exp %a0 : f32");
  text.reduce("s", "b", {"e"}, "arith.addf", "0.0");
  text.pointwise("y", "b d", {"e", "s"}, "%r = arith.divf %a0, %a1 : f32");
  text.output("y");
  expectAgreement(text);
}

TEST_P(KernelSizes, ColumnSums) {
  ProgramText text;
  text.dim("b", 5);
  text.dim("p", 2);
  text.dim("d", GetParam());
  text.input("x", "b p d");
  text.input("y", "b p d");
  text.pointwise("z", "b p d", {"x", "y"}, "%r = arith.mulf %a0, %a1 : f32");
  text.reduce("s", "d", {"z"}, "arith.addf", "0.0");
  text.reduce("t", "", {"z"}, "arith.addf", "1.5");
  text.output("z");
  text.output("s");
  text.output("t");
  // Up to 90000 terms of either sign: their rounding errors do not cancel.
  expectAgreement(text, {}, 1e-5);
}

// Without a sign, with one, and of two bytes; what is moved, compared and
// converted. A transposed read gathers.
TEST_P(KernelSizes, ElementsForData) {
  ProgramText text;
  text.dim("b", 3);
  text.dim("d", GetParam());
  text.input("u", "b d", "i8");
  text.input("s", "b d", "i8");
  text.input("h", "d b", "i16");
  text.pointwise("scaled", "b d", {"u", "s", "h"},
                 "%x = arith.uitofp %a0 : i8 to f32\n"
                 "%y = arith.sitofp %a1 : i8 to f32\n"
                 "%z = arith.sitofp %a2 : i16 to f32\n"
                 "%t = arith.addf %x, %y : f32\n"
                 "%r = arith.subf %t, %z : f32");
  text.reduce("sum", "d", {"scaled"}, "arith.addf", "0.0");
  text.pointwise("exact", "b d", {"u", "s"},
                 "%x = arith.uitofp %a0 : i8 to f64\n"
                 "%y = arith.sitofp %a1 : i8 to f64\n"
                 "%r = arith.mulf %x, %y : f64",
                 "f64");
  text.pointwise("above", "b d", {"u", "s"},
                 "%r = arith.cmpi ugt, %a0, %a1 : i8", "i1");
  text.pointwise("below", "b d", {"u", "s"},
                 "%r = arith.cmpi slt, %a0, %a1 : i8", "i1");
  text.pointwise("chosen", "b d", {"above", "u", "s"},
                 "%r = arith.select %a0, %a1, %a2 : i8", "i8");
  text.pointwise("turned", "d b", {"u"}, "", "i8");
  text.pointwise("turned_wide", "b d", {"h"}, "", "i16");
  text.pointwise("low", "b d", {"h"}, "%r = arith.trunci %a0 : i16 to i8",
                 "i8");
  text.pointwise("wide", "b d", {"u", "s"},
                 "%x = arith.extui %a0 : i8 to i32\n"
                 "%y = arith.extsi %a1 : i8 to i32\n"
                 "%r = arith.addi %x, %y : i32",
                 "i32");
  text.pointwise("halved", "b d", {"u"},
                 "%x = arith.uitofp %a0 : i8 to f32\n"
                 "%c = arith.constant 5.0e-01 : f32\n"
                 "%y = arith.mulf %x, %c : f32\n"
                 "%r = arith.fptoui %y : f32 to i8",
                 "i8");
  text.pointwise("quarter", "b d", {"h"},
                 "%x = arith.sitofp %a0 : i16 to f32\n"
                 "%c = arith.constant 2.5e-01 : f32\n"
                 "%y = arith.mulf %x, %c : f32\n"
                 "%r = arith.fptosi %y : f32 to i16",
                 "i16");
  for (const char *name :
       {"scaled", "sum", "exact", "above", "below", "chosen", "turned",
        "turned_wide", "low", "wide", "halved", "quarter"})
    text.output(name);
  expectAgreement(text);
}

// NaN at every place of a row and of a column; a row and a column without any,
// of infinities and zeros.
TEST_P(KernelSizes, ExtremaPassNaNOn) {
  const int64_t columns = std::min<int64_t>(GetParam(), 50), rows = columns + 1;
  ProgramText text;
  text.dim("b", rows);
  text.dim("d", columns);
  text.input("x", "b d");
  text.reduce("row_most", "b", {"x"}, "arith.maximumf", lowestF32);
  text.reduce("row_least", "b", {"x"}, "arith.minimumf", "0x7F800000");
  text.reduce("column_most", "d", {"x"}, "arith.maximumf", lowestF32);
  text.reduce("column_least", "d", {"x"}, "arith.minimumf", "0x7F800000");
  text.pointwise("y", "b d", {"x", "row_most"},
                 "%r = arith.minimumf %a0, %a1 : f32");
  for (const char *name :
       {"row_most", "row_least", "column_most", "column_least", "y"})
    text.output(name);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  F64Tensor x({rows, columns});
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      x.elements[row * columns + column] =
          row == column && column + 1 < columns ? std::nan("")
          : row == rows - 1 ? (column % 3 == 0 ? -infinity : 0.0)
                            : double((7 * row + 5 * column) % 11) - 5;
  F64State state;
  state.inputs["x"] = x;
  expectAgreement(text, state);
}

INSTANTIATE_TEST_SUITE_P(Sizes, KernelSizes,
                         ::testing::Values(1, 2, 3, 5, 7, 16, 17, 33, 48, 50,
                                           1000, 9000));

} // namespace
