// Every operation alone, under every layout of its dimensions.

#include "tests/end_to_end/Harness.h"

using namespace meshc;
using namespace meshc::test;
using mlir::Value;

namespace {

/// An operation on dimensions of sizes that are unequal and mostly do not
/// divide; "k" and "n" are the ones to split differently.
struct Case {
  const char *name;
  std::vector<std::string> dims; ///< those that layouts split
  void (*build)(ModelBuilder &);
};

void PrintTo(const Case &operation, std::ostream *out) {
  *out << operation.name;
}

/// Outputs the result, and its gradient in a random direction where it is a
/// float: gradients are operations too.
void finish(ModelBuilder &b, Value y) {
  b.output("y", y);
  auto type = mlir::cast<nd::NamedTensorType>(y.getType());
  if (!mlir::isa<mlir::FloatType>(type.getElementType()))
    return;
  llvm::SmallVector<llvm::StringRef> dims;
  for (nd::DimAttr dim : type.getDims())
    dims.push_back(dim.getName());
  Value direction = b.input("direction", dims);
  b.output("loss", b.einsum({y, direction}, {}));
  b.train("loss", "sgd", {{"lr", 0.5}});
}

/// Of numbers in [low, low + 2.5).
template <class Op, int low = -1> void unary(ModelBuilder &b) {
  Value x = b.parameter("x", {"m", "n"});
  Value shift = b.input("shift", {"n"}, {low + 1.0, low + 1.5});
  finish(b, b.make<Op>(b.make<nd::AddOp>(x, shift)));
}

/// Of numbers within (-1, 1).
void inverse(ModelBuilder &b) {
  Value x = b.parameter("x", {"m", "n"});
  finish(b, b.make<nd::ErfInvOp>(b.make<nd::TanhOp>(x)));
}

template <class Op> void binary(ModelBuilder &b) {
  Value x = b.input("x", {"m", "n"}, {0.5, 2});
  Value w = b.parameter("w", {"m", "n"});
  Value y = b.parameter("y0", {"n", "k"});
  finish(b, b.make<Op>(b.make<nd::AddOp>(x, b.make<nd::AbsOp>(w)), y));
}

template <class Op> void logical(ModelBuilder &b) {
  Value x =
      b.compare(nd::Predicate::Lt, b.input("x", {"m", "n"}), b.constant(0));
  Value y =
      b.compare(nd::Predicate::Gt, b.input("z", {"n", "k"}), b.constant(0));
  finish(b, b.make<Op>(x, y));
}

template <class Op> void integer(ModelBuilder &b) {
  Value x = b.indexInput("x", {"m", "n"}, Model::Bounds{-1e9, 1e9});
  Value y = b.indexInput("z", {"n", "k"}, Model::Bounds{1, 1e5});
  finish(b, b.make<Op>(x, y));
}

template <nd::Reduction kind> void reduction(ModelBuilder &b) {
  Value x = b.parameter("x", {"m", "n", "k"});
  finish(b, b.reduce(kind, x, {"n"}));
}

template <nd::ArgKind kind> void argReduction(ModelBuilder &b) {
  Value x = b.input("x", {"m", "n", "k"});
  finish(b, b.argReduce(kind, x, "n"));
}

template <nd::Predicate predicate> void comparison(ModelBuilder &b) {
  Value x = b.indexInput("x", {"m", "n"}, 3);
  Value y = b.indexInput("z", {"n", "k"}, 3);
  finish(b, b.compare(predicate, x, y));
}

mlir::Type getDataType(ModelBuilder &b, unsigned bits, bool isUnsigned) {
  return mlir::IntegerType::get(b.getBuilder().getContext(), bits,
                                isUnsigned ? mlir::IntegerType::Unsigned
                                           : mlir::IntegerType::Signless);
}

/// What may be done with elements that are for data. That all of a view or of
/// what is picked may come from one device makes a sum of terms.
template <unsigned bits, bool isUnsigned> void data(ModelBuilder &b) {
  mlir::Type type = getDataType(b, bits, isUnsigned);
  Value x = b.dataInput("x", {"m", "n"}, type);
  Value y = b.dataInput("z", {"n", "k"}, type);
  Value least = b.compare(nd::Predicate::Lt, x, y);
  b.output("least", least);
  Value chosen = b.make<nd::SelectOp>(least, x, y);
  b.output("chosen", chosen);
  b.output("renamed", b.rename(chosen, "n", "other"));
  b.output("broadcast", b.broadcast(y, {"m", "n", "k"}));
  b.output("stopped", b.make<nd::StopGradientOp>(y));
  Value index = b.indexInput("i", {"m"}, Model::Bounds{-3, 10});
  b.output("picked", b.gather(chosen, index, "n"));
  b.output("seen", b.view(y, "n", layout::Access::linear({{0, 2}}, -1), {"m"}));
  b.output("stacked", b.stack({x, x, x, x}, "k"));
}

/// Every conversion from elements that are for data and to them.
template <unsigned bits, bool isUnsigned> void dataCast(ModelBuilder &b) {
  mlir::Type type = getDataType(b, bits, isUnsigned);
  Value x = b.dataInput("x", {"m", "n"}, type);
  mlir::OpBuilder &builder = b.getBuilder();
  const std::pair<const char *, mlir::Type> others[] = {
      {"i1", builder.getI1Type()},     {"i8", builder.getI8Type()},
      {"i16", builder.getI16Type()},   {"i32", builder.getI32Type()},
      {"i64", builder.getI64Type()},   {"u8", getDataType(b, 8, true)},
      {"f64", builder.getF64Type()},   {"f32", builder.getF32Type()},
      {"bf16", builder.getBF16Type()},
  };
  for (auto [name, other] : others)
    b.output(std::string("to_") + name, b.cast(x, other));
  Value whole = b.indexInput("whole", {"n", "k"}, Model::Bounds{-1e9, 1e9});
  b.output("from_i32", b.cast(whole, type));
  Value real = b.input("real", {"m", "n"}, {isUnsigned ? -0.9 : -128.9, 127.9});
  b.output("from_f64", b.cast(real, type));
  b.output("from_i1",
           b.cast(b.compare(nd::Predicate::Lt, real, b.constant(1)), type));
}

template <nd::Distribution distribution> void randomNumbers(ModelBuilder &b) {
  auto scalar = nd::NamedTensorType::get({}, b.getBuilder().getI64Type());
  Value seed = nd::InputOp::create(
      b.getBuilder(), b.getBuilder().getUnknownLoc(), scalar, "seed");
  b.output("y", b.random(distribution, {"m", "n", "k"}, seed, -77, -1, 2.5));
  // In another order, from a seed for each position of a dimension.
  Value number = b.cast(b.iota("m"), b.getBuilder().getI64Type());
  Value seeds = b.make<nd::FoldInOp>(seed, number);
  b.output("z", b.random(distribution, {"n", "m", "k"}, seeds, -78, -1, 2.5,
                         {"k", "n"}));
}

const Case cases[] = {
    {"neg", {"m", "n"}, unary<nd::NegOp>},
    {"exp", {"m", "n"}, unary<nd::ExpOp>},
    {"log", {"m", "n"}, unary<nd::LogOp, 1>},
    {"tanh", {"m", "n"}, unary<nd::TanhOp>},
    {"logistic", {"m", "n"}, unary<nd::LogisticOp>},
    {"erf", {"m", "n"}, unary<nd::ErfOp>},
    {"erf_inv", {"m", "n"}, inverse},
    {"sin", {"m", "n"}, unary<nd::SinOp>},
    {"cos", {"m", "n"}, unary<nd::CosOp>},
    {"sqrt", {"m", "n"}, unary<nd::SqrtOp, 1>},
    {"rsqrt", {"m", "n"}, unary<nd::RsqrtOp, 1>},
    {"abs", {"m", "n"}, unary<nd::AbsOp>},
    {"sign", {"m", "n"}, unary<nd::SignOp>},
    {"stop_gradient", {"m", "n"}, unary<nd::StopGradientOp>},
    {"add", {"m", "n", "k"}, binary<nd::AddOp>},
    {"sub", {"m", "n", "k"}, binary<nd::SubOp>},
    {"mul", {"m", "n", "k"}, binary<nd::MulOp>},
    {"div", {"m", "n", "k"}, binary<nd::DivOp>},
    {"minimum", {"m", "n", "k"}, binary<nd::MinimumOp>},
    {"maximum", {"m", "n", "k"}, binary<nd::MaximumOp>},
    {"pow", {"m", "n", "k"}, binary<nd::PowOp>},
    {"and", {"m", "n", "k"}, logical<nd::AndOp>},
    {"or", {"m", "n", "k"}, logical<nd::OrOp>},
    {"integer_add", {"m", "n", "k"}, integer<nd::AddOp>},
    {"integer_mul", {"m", "n", "k"}, integer<nd::MulOp>},
    {"integer_div", {"m", "n", "k"}, integer<nd::DivOp>},
    {"compare_eq", {"m", "n", "k"}, comparison<nd::Predicate::Eq>},
    {"compare_ne", {"m", "n", "k"}, comparison<nd::Predicate::Ne>},
    {"compare_lt", {"m", "n", "k"}, comparison<nd::Predicate::Lt>},
    {"compare_le", {"m", "n", "k"}, comparison<nd::Predicate::Le>},
    {"compare_gt", {"m", "n", "k"}, comparison<nd::Predicate::Gt>},
    {"compare_ge", {"m", "n", "k"}, comparison<nd::Predicate::Ge>},
    {"not",
     {"m", "n"},
     [](ModelBuilder &b) {
       finish(b,
              b.make<nd::NotOp>(b.compare(
                  nd::Predicate::Lt, b.input("x", {"m", "n"}), b.constant(0))));
     }},
    {"select",
     {"m", "n", "k"},
     [](ModelBuilder &b) {
       Value c = b.compare(nd::Predicate::Lt, b.input("c", {"m", "k"}),
                           b.constant(0));
       finish(b, b.make<nd::SelectOp>(c, b.parameter("x", {"m", "n"}),
                                      b.parameter("z", {"k", "n"})));
     }},
    {"select_nan_not_taken",
     {"m", "n"},
     [](ModelBuilder &b) {
       Value x = b.parameter("x", {"m", "n"});
       Value isPositive = b.compare(nd::Predicate::Gt, x, b.constant(0));
       Value safe = b.make<nd::SelectOp>(isPositive, x, b.constant(1));
       finish(b, b.make<nd::SelectOp>(isPositive, b.make<nd::LogOp>(safe),
                                      b.make<nd::SqrtOp>(safe)));
       b.output("log", b.make<nd::SelectOp>(isPositive, b.make<nd::LogOp>(x),
                                            b.constant(0)));
     }},
    {"cast",
     {"m", "n"},
     [](ModelBuilder &b) {
       Value x = b.input("x", {"m", "n"}, {-5, 5});
       Value i = b.cast(x, b.getBuilder().getI32Type());
       b.output("i", i);
       b.output("wide", b.cast(i, b.getBuilder().getI64Type()));
       b.output("b", b.cast(i, b.getBuilder().getI1Type()));
       finish(b, b.make<nd::MulOp>(b.cast(i, b.getBuilder().getF64Type()),
                                   b.parameter("w", {"n"})));
     }},
    {"data_u8", {"m", "n", "k", "other"}, data<8, true>},
    {"data_i8", {"m", "n", "k", "other"}, data<8, false>},
    {"data_i16", {"m", "n", "k", "other"}, data<16, false>},
    {"cast_u8", {"m", "n", "k"}, dataCast<8, true>},
    {"cast_i8", {"m", "n", "k"}, dataCast<8, false>},
    {"cast_i16", {"m", "n", "k"}, dataCast<16, false>},
    {"constant",
     {"m", "n"},
     [](ModelBuilder &b) {
       b.output("y", b.constant(2.5, {"m", "n"}));
     }},
    {"iota",
     {"m", "n", "k"},
     [](ModelBuilder &b) {
       b.output("m", b.iota("m"));
       b.output("y", b.compare(nd::Predicate::Ge, b.iota("n"), b.iota("k")));
     }},
    {"random_uniform",
     {"m", "n", "k"},
     randomNumbers<nd::Distribution::Uniform>},
    {"random_normal", {"m", "n", "k"}, randomNumbers<nd::Distribution::Normal>},
    {"random_truncated_normal",
     {"m", "n", "k"},
     randomNumbers<nd::Distribution::TruncatedNormal>},
    {"reduce_sum", {"m", "n", "k"}, reduction<nd::Reduction::Sum>},
    {"reduce_mean", {"m", "n", "k"}, reduction<nd::Reduction::Mean>},
    {"reduce_max", {"m", "n", "k"}, reduction<nd::Reduction::Max>},
    {"reduce_min", {"m", "n", "k"}, reduction<nd::Reduction::Min>},
    {"arg_max", {"m", "n", "k"}, argReduction<nd::ArgKind::Max>},
    {"arg_min", {"m", "n", "k"}, argReduction<nd::ArgKind::Min>},
    {"reduce_max_ties",
     {"m", "n", "k"},
     [](ModelBuilder &b) {
       // Integers among three values: ties are certain.
       Value i = b.cast(b.indexInput("x", {"m", "n", "k"}, 3),
                        b.getBuilder().getF64Type());
       Value w = b.parameter("w", {"n"});
       finish(b, b.reduce(nd::Reduction::Max, b.make<nd::AddOp>(i, w), {"m"}));
     }},
    {"reduce_integers",
     {"m", "n", "k"},
     [](ModelBuilder &b) {
       Value x = b.indexInput("x", {"m", "n", "k"}, Model::Bounds{-1e9, 1e9});
       b.output("sum", b.reduce(nd::Reduction::Sum, x, {"n"}));
       b.output("max", b.reduce(nd::Reduction::Max, x, {"k"}));
       b.output("min", b.reduce(nd::Reduction::Min, x, {}));
     }},
    {"broadcast",
     {"m", "n", "k"},
     [](ModelBuilder &b) {
       finish(b, b.broadcast(b.parameter("x", {"n"}), {"m", "n", "k"}));
     }},
    {"rename",
     {"m", "n", "other"},
     [](ModelBuilder &b) {
       Value x = b.parameter("x", {"m", "n"});
       finish(b, b.make<nd::MulOp>(b.rename(x, "n", "other"), x));
     }},
    {"gather",
     {"m", "n", "k"},
     [](ModelBuilder &b) {
       Value x = b.parameter("x", {"n", "k"});
       Value i = b.indexInput("i", {"m"}, Model::Bounds{-3, 10});
       finish(b, b.gather(x, i, "n"));
     }},
    {"gather_in_bounds",
     {"m", "n", "k"},
     [](ModelBuilder &b) {
       Value x = b.parameter("x", {"n", "k"});
       finish(b, b.gather(x, b.indexInput("i", {"m", "k"}, 7), "n"));
     }},
    {"gather_booleans",
     {"m", "n", "k"},
     [](ModelBuilder &b) {
       Value x = b.compare(nd::Predicate::Lt, b.input("x", {"n", "k"}),
                           b.constant(0));
       finish(b, b.gather(x, b.indexInput("i", {"m"}, 7), "n"));
     }},
    {"view_window",
     {"m", "n", "k"},
     [](ModelBuilder &b) {
       Value x = b.parameter("x", {"n", "m"});
       auto access = layout::Access::linear({{0, 2}, {1, 1}}, -1);
       finish(b, b.view(x, "n", access, {"n", "k"}));
     }},
    {"view_quotient",
     {"m", "n", "k"},
     [](ModelBuilder &b) {
       using Access = layout::Access;
       Value x = b.parameter("x", {"n", "m"});
       Value up =
           b.view(x, "n", Access::quotient(Access::Kind::Floor, {{0, 1}}, 1, 2),
                  {"k"});
       Value apart = b.view(
           x, "m", Access::quotient(Access::Kind::Exact, {{0, 1}}, -1, 2),
           {"k"});
       finish(b, b.make<nd::MulOp>(up,
                                   b.reduce(nd::Reduction::Sum, apart, {"k"})));
     }},
    {"view_roll",
     {"m", "n", "k"},
     [](ModelBuilder &b) {
       Value x = b.parameter("x", {"n", "m"});
       auto access = layout::Access::modulo({{0, -1}}, 3, 7);
       finish(b, b.view(x, "n", access, {"n"}));
     }},
    {"view_remainder",
     {"m", "n", "k"},
     [](ModelBuilder &b) {
       // Below, at and above the size of what is read and of the loop.
       Value x = b.parameter("x", {"n"});
       Value y = b.parameter("y0", {"k"});
       auto modulo = [](int64_t offset, int64_t modulus) {
         return layout::Access::modulo({{0, 1}}, offset, modulus);
       };
       Value all;
       for (int64_t modulus : {2, 4, 7, 9}) {
         Value sum =
             b.make<nd::AddOp>(b.view(x, "n", modulo(1, modulus), {"n"}),
                               b.view(y, "k", modulo(2, modulus), {"n"}));
         all = all ? b.make<nd::MulOp>(all, sum) : sum;
       }
       finish(b, b.make<nd::AddOp>(all, b.view(x, "n", modulo(0, 2), {"m"})));
     }},
    {"view_diagonal",
     {"m", "n", "other"},
     [](ModelBuilder &b) {
       // The loop is in two dimensions of one operand.
       Value x = b.parameter("x", {"other", "m", "n"});
       finish(b, b.view(x, "other", layout::Access::itself(0), {"n"}));
     }},
    {"view_booleans",
     {"m", "n", "k"},
     [](ModelBuilder &b) {
       Value x = b.compare(nd::Predicate::Lt, b.input("x", {"n", "k"}),
                           b.constant(0));
       auto access = layout::Access::linear({{0, 1}}, -2);
       finish(b, b.view(x, "n", access, {"m"}));
     }},
    {"stack",
     {"m", "n", "k"},
     [](ModelBuilder &b) {
       Value x = b.parameter("x", {"m", "k"});
       Value y = b.parameter("z", {"m", "k"});
       Value z = b.make<nd::MulOp>(x, y);
       llvm::SmallVector<Value> parts{x, y, z, x, z, z, y};
       finish(b, b.stack(parts, "n"));
     }},
    // More than one choice takes: 3 * 7 parts, and some of them.
    {"stack_of_many",
     {"m", "n", "k"},
     [](ModelBuilder &b) {
       Value x = b.parameter("x", {"n", "m", "k"});
       mlir::ResultRange rows = b.unstack(x, "n");
       llvm::SmallVector<Value> parts;
       for (unsigned i = 0; i < 21; ++i)
         parts.push_back(b.unstack(rows[5 * i % 7], "m")[i % 3]);
       Value all = b.stack(parts, "all");
       finish(b,
              b.view(all, "all", layout::Access::linear({{0, 3}}, 1), {"n"}));
     }},
    {"loop",
     {"m", "n", "k"},
     [](ModelBuilder &b) {
       Value x = b.parameter("x", {"n", "k"});
       Value h = b.parameter("h", {"m", "k"});
       Value w = b.parameter("w", {"k", "other"});
       auto body = [&](mlir::ValueRange at) -> ModelBuilder::Iteration {
         Value g = b.make<nd::TanhOp>(b.einsum({at[1], w}, {"m", "other"}));
         Value next = b.make<nd::AddOp>(b.einsum({g, w}, {"m", "k"}), at[2]);
         return {{next}, {g}, {b.make<nd::MulOp>(next, at[2])}};
       };
       mlir::ResultRange r = b.loop("n", {h}, {x}, body);
       b.output("last", r[0]);
       finish(b, b.einsum({r[1], r[2]}, {"n", "k", "other"}));
     }},
    {"einsum_matmul",
     {"m", "n", "k"},
     [](ModelBuilder &b) {
       finish(b, b.einsum({b.parameter("x", {"m", "n"}),
                           b.parameter("w", {"n", "k"})},
                          {"m", "k"}));
     }},
    {"einsum_batched",
     {"m", "n", "k"},
     [](ModelBuilder &b) {
       finish(b, b.einsum({b.parameter("x", {"m", "n"}),
                           b.parameter("w", {"n", "k", "m"})},
                          {"k", "m"}));
     }},
    {"einsum_outer",
     {"m", "n", "k"},
     [](ModelBuilder &b) {
       finish(b,
              b.einsum({b.parameter("x", {"m"}), b.parameter("w", {"n", "k"})},
                       {"n", "m", "k"}));
     }},
    {"einsum_of_one",
     {"m", "n", "k"},
     [](ModelBuilder &b) {
       finish(b, b.einsum({b.parameter("x", {"m", "n", "k"})}, {"k", "m"}));
     }},
    {"einsum_sums_alone",
     {"m", "n", "k"},
     [](ModelBuilder &b) {
       // m and k are summed in one input alone.
       finish(b, b.einsum({b.parameter("x", {"m", "n"}),
                           b.parameter("w", {"n", "k"})},
                          {"n"}));
     }},
    {"einsum_of_three",
     {"m", "n", "k", "other"},
     [](ModelBuilder &b) {
       finish(b, b.einsum({b.parameter("x", {"m", "n"}),
                           b.parameter("w", {"n", "k"}),
                           b.parameter("v", {"k", "other"})},
                          {"m", "other"}));
     }},
    {"einsum_of_four",
     {"m", "n", "k"},
     [](ModelBuilder &b) {
       finish(b, b.einsum({b.parameter("x", {"m", "n"}),
                           b.parameter("w", {"n", "k"}),
                           b.parameter("v", {"k"}), b.parameter("u", {"m"})},
                          {"n"}));
     }},
    {"einsum_of_itself",
     {"m", "n"},
     [](ModelBuilder &b) {
       Value x = b.parameter("x", {"m", "n"});
       finish(b, b.einsum({x, x}, {"m"}));
     }},
    {"read_and_write",
     {"m", "n"},
     [](ModelBuilder &b) {
       Value x = b.parameter("x", {"m", "n"});
       Value y = b.parameter("z", {"n", "m"});
       b.write("x", b.make<nd::AddOp>(x, y));
       b.write("z", b.make<nd::SubOp>(y, x));
       b.output("y", y);
     }},
};

class Operations : public ::testing::TestWithParam<Case> {
protected:
  Model makeModel() {
    // "other" is "n" under another name.
    ModelBuilder builder(*context,
                         {{"m", 3}, {"n", 7}, {"k", 4}, {"other", 7}});
    GetParam().build(builder);
    return builder.take();
  }

  void check(llvm::StringRef mesh, unsigned maxAxes, size_t limit) {
    Model model = makeModel();
    for (const Layout &layout :
         sampleLayouts(model.module.get(), mesh, GetParam().dims, maxAxes,
                       limit, /*seed=*/7)) {
      ::testing::AssertionResult result = matches(model, layout);
      ASSERT_TRUE(result);
    }
  }

  std::unique_ptr<mlir::MLIRContext> context = makeContext();
};

TEST_P(Operations, TwoDevices) { check("a=2", 1, 100); }
TEST_P(Operations, ThreeDevices) { check("a=3", 1, 100); }
TEST_P(Operations, FourDevices) { check("a=4", 1, 100); }
TEST_P(Operations, EightDevices) { check("a=8", 1, 100); }
TEST_P(Operations, TwoByTwo) { check("a=2,b=2", 2, 40); }
TEST_P(Operations, TwoByThree) { check("a=2,b=3", 2, 200); }
TEST_P(Operations, TwoByTwoByTwo) { check("a=2,b=2,c=2", 2, 40); }

INSTANTIATE_TEST_SUITE_P(All, Operations, ::testing::ValuesIn(cases),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

} // namespace
