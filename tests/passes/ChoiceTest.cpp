// What a choice did not take stays out of gradients, through contractions too:
// they are those of the same program with harmless numbers in those places.

#include "GradientCheck.h"

#include <gtest/gtest.h>

#include <random>

using namespace meshc;
using namespace meshc::interpreter;
using namespace meshc::test;

namespace {

/// %y is made of %u, of dimensions "cb", and %keep, which holds for the rows c
/// that are taken.
struct Choice {
  const char *name;
  std::string body;
  std::string result;
  double harmful = 0;  ///< in rows that are not taken
  double harmless = 1; ///< the same
};

void PrintTo(const Choice &choice, std::ostream *out) { *out << choice.name; }

Function getFunction(const Choice &choice) {
  return {choice.name,
          {{"u", "cb", 0.5, 2},
           {"i", "ic", 0, 2},
           {"j", "icd", 0, 2},
           {"w", "bd", 0.5, 1},
           {"v", "da"},
           {"r", "b"}},
          R"(%zero = nd.constant(0.0 : f64) : !s
             %one = nd.constant(1.0 : f64) : !s
             %izero = nd.constant(0 : i32) : !is
             %keep = nd.compare gt %i, %izero : (!ic, !is) -> !tc
             %some = nd.compare gt %j, %izero : (!icd, !is) -> !tcd
             %log = nd.log %u : (!cb) -> !cb
             )" +
              choice.body,
          choice.result};
}

class Choices : public ::testing::TestWithParam<Choice> {};

TEST_P(Choices, NothingLeaks) {
  const Choice &choice = GetParam();
  Function function = getFunction(choice);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    F64State state = makeState(function, seed);
    F64Tensor &u = state.inputs["u"];
    const std::vector<Scalar<F64>> keep = state.inputs["i"].elements;
    std::mt19937_64 random(seed);
    // A row without, with one and with only harmful numbers.
    std::vector<bool> isReplaced;
    for (size_t element = 0; element < u.elements.size(); ++element)
      isReplaced.push_back(asInteger<F64>(keep[element / 3]) == 0 &&
                           random() % 2);
    auto fill = [&](double value) {
      for (size_t element = 0; element < isReplaced.size(); ++element)
        if (isReplaced[element])
          u.elements[element] = value;
    };
    fill(choice.harmless);
    auto expected = runGradient(function, state, /*decompose=*/false);
    fill(choice.harmful);
    for (auto [decompose, loops] :
         {std::pair(false, Loops::WrittenOutFirst),
          std::pair(true, Loops::WrittenOutFirst),
          std::pair(false, Loops::Stay), std::pair(true, Loops::Stay)}) {
      auto found = runGradient(function, state, decompose, loops);
      for (const auto &[name, tensor] : expected)
        for (size_t i = 0; i < tensor.elements.size(); ++i) {
          double wanted = asNumber<F64>(tensor.elements[i]);
          if (name == "grad:u" && isReplaced[i])
            wanted = 0;
          EXPECT_NEAR(asNumber<F64>(found.at(name).elements[i]), wanted,
                      1e-12 * (1 + std::abs(wanted)))
              << name << " " << i << ", seed " << seed;
        }
    }
  }
}

const Choice choices[] = {
    {"dot",
     R"(%e = nd.einsum %log, %r : (!cb, !b) -> !c
        %y = nd.select %keep, %e, %zero : (!tc, !c, !s) -> !c)",
     "c"},
    {"product",
     R"(%e = nd.einsum %log, %w : (!cb, !bd) -> !cd
        %y = nd.select %keep, %e, %zero : (!tc, !cd, !s) -> !cd)",
     "cd"},
    {"other_operand_first",
     R"(%e = nd.einsum %w, %log : (!bd, !cb) -> !dc
        %y = nd.select %keep, %e, %one : (!tc, !dc, !s) -> !cd)",
     "cd"},
    {"some_results_of_a_row",
     R"(%both = nd.and %keep, %some : (!tc, !tcd) -> !tcd
        %e = nd.einsum %log, %w : (!cb, !bd) -> !cd
        %y = nd.select %both, %e, %zero : (!tcd, !cd, !s) -> !cd)",
     "cd"},
    {"two_products",
     R"(%e = nd.einsum %log, %w : (!cb, !bd) -> !cd
        %f = nd.einsum %e, %v : (!cd, !da) -> !ca
        %y = nd.select %keep, %f, %zero : (!tc, !ca, !s) -> !ca)",
     "ca"},
    {"three_operands",
     R"(%e = nd.einsum %log, %w, %v : (!cb, !bd, !da) -> !ca
        %y = nd.select %keep, %e, %zero : (!tc, !ca, !s) -> !ca)",
     "ca"},
    {"with_itself",
     R"(%e = nd.einsum %log, %log : (!cb, !cb) -> !c
        %y = nd.select %keep, %e, %zero : (!tc, !c, !s) -> !c)",
     "c"},
    {"summed_alone",
     R"(%e = nd.einsum %log, %v : (!cb, !da) -> !cd
        %y = nd.select %keep, %e, %zero : (!tc, !cd, !s) -> !cd)",
     "cd"},
    {"quotient",
     R"(%q = nd.div %r, %u : (!b, !cb) -> !cb
        %e = nd.einsum %q, %w : (!cb, !bd) -> !cd
        %y = nd.select %keep, %e, %zero : (!tc, !cd, !s) -> !cd)",
     "cd"},
    {"roots_and_powers",
     R"(%h = nd.constant(-0.5 : f64) : !s
        %p = nd.pow %u, %h : (!cb, !s) -> !cb
        %k = nd.rsqrt %u : (!cb) -> !cb
        %x = nd.sub %p, %log : (!cb, !cb) -> !cb
        %z = nd.mul %x, %k : (!cb, !cb) -> !cb
        %e = nd.einsum %z, %w : (!cb, !bd) -> !cd
        %y = nd.select %keep, %e, %zero : (!tc, !cd, !s) -> !cd)",
     "cd"},
    {"slope_without_a_value_that_is_wrong", // the root of 0 has none
     R"(%k = nd.sqrt %u : (!cb) -> !cb
        %e = nd.einsum %k, %w : (!cb, !bd) -> !cd
        %y = nd.select %keep, %e, %zero : (!tc, !cd, !s) -> !cd)",
     "cd"},
    {"nothing_else_in_between",
     R"(%e = nd.einsum %log, %w : (!cb, !bd) -> !cd
        %t = nd.tanh %e : (!cd) -> !cd
        %f = nd.einsum %t, %v : (!cd, !da) -> !ca
        %n = nd.neg %f : (!ca) -> !ca
        %z = nd.add %n, %n : (!ca, !ca) -> !ca
        %y = nd.select %keep, %z, %zero : (!tc, !ca, !s) -> !ca)",
     "ca", -1},
    {"overflow_of_an_exponential",
     R"(%x = nd.exp %u : (!cb) -> !cb
        %e = nd.einsum %x, %w : (!cb, !bd) -> !cd
        %y = nd.select %keep, %e, %zero : (!tc, !cd, !s) -> !cd)",
     "cd", 1e4},
    {"both_of_two_sums",
     R"(%e = nd.einsum %log, %w : (!cb, !bd) -> !cd
        %f = nd.einsum %log, %r : (!cb, !b) -> !c
        %g = nd.select %keep, %e, %zero : (!tc, !cd, !s) -> !cd
        %h = nd.select %keep, %f, %zero : (!tc, !c, !s) -> !c
        %y = nd.add %g, %h : (!cd, !c) -> !cd)",
     "cd"},
    {"rectified", // -inf is below every bound
     R"(%n = nd.constant(-9.0 : f64) : !s
        %e = nd.einsum %log, %w : (!cb, !bd) -> !cd
        %y = nd.maximum %e, %n : (!cd, !s) -> !cd)",
     "cd", 0, 1e-30},
    {"in_a_loop",
     R"(%y = nd.loop "d"=7 slices(%w) : (!bd) -> !dc {
        ^bb0(%t: !is, %s: !b):
          %e = nd.einsum %log, %s : (!cb, !b) -> !c
          %k = nd.select %keep, %e, %zero : (!tc, !c, !s) -> !c
          nd.yield stacks(%k : !c)
        })",
     "dc"},
    {"after_a_loop",
     R"(%f = nd.loop "d"=7 carries(%log) slices(%w) : (!cb, !bd) -> !cb {
        ^bb0(%t: !is, %g: !cb, %s: !b):
          %n = nd.mul %g, %s : (!cb, !b) -> !cb
          nd.yield carries(%n : !cb)
        }
        %e = nd.einsum %f, %r : (!cb, !b) -> !c
        %y = nd.select %keep, %e, %zero : (!tc, !c, !s) -> !c)",
     "c"},
    {"after_what_a_loop_stacks",
     R"(%l, %f = nd.loop "d"=7 carries(%log) slices(%w)
            : (!cb, !bd) -> (!cb, !dcb) {
        ^bb0(%t: !is, %g: !cb, %s: !b):
          %e = nd.mul %g, %s : (!cb, !b) -> !cb
          %n = nd.sub %e, %g : (!cb, !cb) -> !cb
          nd.yield carries(%n : !cb) stacks(%e : !cb)
        }
        %e = nd.einsum %f, %r : (!dcb, !b) -> !cd
        %y = nd.select %keep, %e, %zero : (!tc, !cd, !s) -> !cd)",
     "cd"},
};

INSTANTIATE_TEST_SUITE_P(All, Choices, ::testing::ValuesIn(choices),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

} // namespace
