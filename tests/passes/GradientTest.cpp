// The gradient of every operation against differences. Dimensions broadcast in
// both directions; sizes are all different.

#include "GradientCheck.h"

#include <gtest/gtest.h>

using namespace meshc::test;

namespace {

class Gradient : public ::testing::TestWithParam<Function> {};

TEST_P(Gradient, MatchesDifferences) { checkGradients(GetParam()); }

/// y = op(x)
Function unary(const std::string &op, double low, double high) {
  return {op,
          {{"x", "ab", low, high}},
          "%y = nd." + op + " %x : (!ab) -> !ab",
          "ab"};
}

/// z = op(x, y) for every way in which the dimensions can overlap.
std::vector<Function> binary(const std::string &op, double low = -1,
                             double high = 1) {
  std::vector<Function> functions;
  const char *shapes[][3] = {
      {"ab", "ab", "ab"}, {"ab", "ba", "ab"}, {"ab", "b", "ab"},
      {"b", "ab", "ba"},  {"a", "c", "ac"},   {"ab", "bc", "abc"},
      {"s", "ab", "ab"},  {"ab", "s", "ab"},  {"s", "s", "s"}};
  for (auto [x, y, z] : shapes)
    functions.push_back(
        {op + "_" + x + "_" + y,
         {{"u", x, low, high}, {"v", y, low, high}},
         "%y = nd." + op + " %u, %v : (!" + x + ", !" + y + ") -> !" + z,
         z});
  return functions;
}

/// y = einsum(inputs of these types)
Function einsum(const std::string &name, std::vector<std::string> types,
                const std::string &result) {
  Function function{"einsum_" + name, {}, "%y = nd.einsum ", result};
  std::string signature;
  for (auto [number, type] : llvm::enumerate(types)) {
    std::string input = "x" + std::to_string(number);
    function.inputs.push_back({input, type});
    function.body += (number ? ", %" : "%") + input;
    signature += (number ? ", !" : "!") + type;
  }
  function.body += " : (" + signature + ") -> !" + result;
  return function;
}

/// y = x at the positions of `accesses`
Function view(const std::string &name, const std::string &type,
              const std::string &accesses, const std::string &result) {
  return {"view_" + name,
          {{"x", type}},
          "%y = nd.view %x [" + accesses + "] : (!" + type + ") -> !" + result,
          result};
}

std::vector<Function> views() {
  return {
      view("slice", "cd", R"("d" = "a" + 3)", "ca"),
      view("stride", "d", R"("d" = 2 "b" + 1)", "b"),
      view("shift_under_its_name", "d", R"("d" = "d" - 1)", "d"),
      view("reverse", "dc", R"("d" = -"d" + 6)", "dc"),
      view("window", "d", R"("d" = "c" + "b" - 1)", "cb"),
      view("window_under_its_name", "d", R"("d" = "d" + "b" - 1)", "db"),
      view("strided_window", "da", R"("d" = 2 "c" + "b" - 1)", "cba"),
      view("dilated_window", "d", R"("d" = "c" + 3 "b" - 2)", "cb"),
      view("two_windows", "cd", R"("c" = "a" + "b", "d" = "q" + 2 "b")", "abq"),
      view("one_position", "cd", R"("d" = 4)", "c"),
      view("no_position", "cd", R"("d" = 9)", "c"),
      view("roll", "d", R"("d" = ("d" + 3) mod 7)", "d"),
      view("roll_along_two", "c", R"("c" = ("c" + "b") mod 5)", "cb"),
      view("more_than_the_modulus", "b", R"("b" = "d" mod 3)", "d"),
      view("modulus_beyond_the_size", "b", R"("b" = ("d" + 2) mod 5)", "d"),
      view("modulus_below_the_size", "c", R"("c" = ("d" + 1) mod 3)", "d"),
      view("modulus_below_both_sizes", "d", R"("d" = "b" mod 2)", "b"),
      view("two_remainders", "bc", R"("b" = "d" mod 2, "c" = ("d" + 1) mod 4)",
           "d"),
      view("remainder_and_itself", "cd", R"("c" = "d" mod 3)", "d"),
      view("multiple_in_a_modulus", "c", R"("c" = (2 "b" + "d") mod 5)", "bd"),
      view("loop_left_beside_its_name", "d", R"("d" = ("c" + 2 "d") mod 7)",
           "cd"),
      view("rounded", "b", R"("b" = floor("d" / 2))", "d"),
      view("rounded_below_zero", "b", R"("b" = floor(("d" - 2) / 3))", "d"),
      view("rounded_of_two", "c", R"("c" = floor(("d" + 2 "b" - 1) / 2))",
           "db"),
      view("whole_quotient", "b", R"("b" = ("d" - 1) / 2)", "d"),
      view("whole_quotient_of_two", "c", R"("c" = ("d" - "b") / 2)", "db"),
      view("diagonal", "cp", R"("p" = "c")", "c"),
      view("line", "cd", R"("c" = "b" + 1, "d" = 2 "b")", "b"),
      view("rounded_and_itself", "bc", R"("b" = floor("d" / 3), "c" = "d" - 1)",
           "d"),
      view("quotient_and_itself", "bc", R"("b" = "d" / 2, "c" = "d" - 1)", "d"),
      view("quotients_of_one", "bc", R"("b" = "d" / 2, "c" = ("d" + 3) / 3)",
           "d"),
      view("digits", "cd", R"("d" = 3 "a" + "b")", "cab"),
      view("digits_in_another_order", "d", R"("d" = "b" + 3 "a" + 1)", "ba"),
      view("digits_outside", "c", R"("c" = 3 "a" + "b" - 1)", "ab"),
      view("digits_with_a_gap", "d", R"("d" = 4 "a" + "b")", "ab"),
      view("digits_that_overlap", "d", R"("d" = 2 "a" + "b")", "ab"),
      view("digits_and_itself", "bd", R"("d" = 3 "a" + "b")", "ab"),
      view("number", "cab", R"("a" = floor("d" / 3), "b" = "d" mod 3)", "cd"),
      view("number_from_an_offset_on", "ab",
           R"("a" = floor(("d" + 2) / 3), "b" = ("d" + 2) mod 3)", "d"),
      view("number_outside", "ab",
           R"("a" = floor(("d" - 2) / 3), "b" = ("d" - 2) mod 3)", "d"),
      view("number_with_a_gap", "ab",
           R"("a" = floor("d" / 5), "b" = "d" mod 5)", "d"),
      view("number_with_a_small_base", "ab",
           R"("a" = floor("d" / 2), "b" = "d" mod 2)", "d"),
      view("number_of_two_offsets", "ab",
           R"("a" = floor("d" / 3), "b" = ("d" + 1) mod 3)", "d"),
      view("number_and_itself", "abd",
           R"("a" = floor("d" / 3), "b" = "d" mod 3)", "d"),
      view("names_change_places", "bd", R"("b" = "d" - 2, "d" = 2 "b" + 1)",
           "bd"),
  };
}

Function reduce(const std::string &kind, const std::string &type,
                const std::string &result) {
  return {"reduce_" + kind + "_" + type + "_" + result,
          {{"x", type}},
          "%y = nd.reduce " + kind + " %x : (!" + type + ") -> !" + result,
          result};
}

std::vector<Function> getFunctions() {
  std::vector<Function> functions = {
      unary("neg", -2, 2),
      unary("exp", -2, 2),
      unary("log", 0.5, 3),
      unary("tanh", -2, 2),
      unary("logistic", -4, 4),
      unary("erf", -2, 2),
      unary("sqrt", 0.5, 3),
      unary("rsqrt", 0.5, 3),
      unary("abs", -2, 2),
      {"select",
       {{"x", "a"}, {"u", "b"}, {"v", "cb"}},
       R"(%zero = nd.constant(0.0 : f64) : !s
          %w = nd.add %x, %u : (!a, !b) -> !ab
          %c = nd.compare lt %w, %zero : (!ab, !s) -> !tab
          %y = nd.select %c, %u, %v : (!tab, !b, !cb) -> !abc)",
       "abc"},
      {"cast",
       {{"x", "ab"}},
       R"(%h = nd.cast %x : (!ab) -> !hab
          %y = nd.cast %h : (!hab) -> !ab)",
       "ab"},
      einsum("product", {"ab", "bc"}, "ac"),
      einsum("product_in_other_order", {"ba", "cb"}, "ca"),
      einsum("batched", {"abc", "acd"}, "abd"),
      einsum("outer", {"a", "b"}, "ba"),
      einsum("dot", {"ab", "ba"}, "s"),
      einsum("row_dot", {"ab", "ab"}, "a"),
      einsum("elementwise", {"ab", "b"}, "ab"),
      einsum("lone_dim", {"abc", "bd"}, "ad"),
      einsum("lone_dims_on_both_sides", {"ab", "cb"}, "b"),
      einsum("one", {"abc"}, "ca"),
      einsum("three", {"ab", "bc", "cd"}, "ad"),
      einsum("three_share_a_dim", {"ab", "ac", "ad"}, "bcd"),
      einsum("with_scalar", {"ab", "s", "bc"}, "ca"),
      {"einsum_of_one_with_itself",
       {{"x", "ab"}},
       "%y = nd.einsum %x, %x : (!ab, !ab) -> !b",
       "b"},
      {"broadcast", {{"x", "b"}}, "%y = nd.broadcast %x : (!b) -> !abc", "abc"},
      {"broadcast_permutes",
       {{"x", "ab"}},
       "%y = nd.broadcast %x : (!ab) -> !bca",
       "bca"},
      {"rename",
       {{"x", "cb"}},
       R"(%z = nd.rename %x "c" -> "p" : (!cb) -> !pb
          %y = nd.mul %x, %z : (!cb, !pb) -> !cbp)",
       "cbp"},
      {"rename_two",
       {{"x", "ca"}},
       R"(%z = nd.rename %x "c" -> "p", "a" -> "q" : (!ca) -> !pq
          %n = nd.reduce sum %x : (!ca) -> !c
          %y = nd.mul %n, %z : (!c, !pq) -> !cpq)",
       "cpq"},
      {"exchange",
       {{"x", "pcb"}},
       R"(%z = nd.rename %x "p" -> "c", "c" -> "p" : (!pcb) -> !cpb
          %y = nd.mul %x, %z : (!pcb, !cpb) -> !pcb)",
       "pcb"},
      {"reshard",
       {{"x", "ab"}},
       R"(%z = nd.reshard %x
              : !ab -> !nd.tensor<["a"=2, "b"=3], f64, <"b"@x>>
          %y = nd.exp %z
              : (!nd.tensor<["a"=2, "b"=3], f64, <"b"@x>>) -> !ab)",
       "ab"},
      {"gather",
       {{"x", "cb"}, {"i", "ia", 0, 5}},
       R"(%y = nd.gather %x[%i] over "c" : (!cb, !ia) -> !ba)",
       "ba"},
      {"gather_by_a_shared_dim",
       {{"x", "cb"}, {"i", "iba", 0, 5}},
       R"(%y = nd.gather %x[%i] over "c" : (!cb, !iba) -> !ab)",
       "ab"},
      {"gather_picks_twice_and_outside",
       {{"x", "bc"}, {"i", "id", -2, 5}},
       R"(%y = nd.gather %x[%i] over "b" : (!bc, !id) -> !dc)",
       "dc"},
      {"gather_from_a_vector",
       {{"x", "c"}, {"i", "id", 0, 5}},
       R"(%y = nd.gather %x[%i] over "c" : (!c, !id) -> !d)",
       "d"},
  };
  llvm::append_range(functions, views());
  for (const char *kind : {"sum", "mean", "max", "min"})
    for (auto [type, result] :
         {std::pair("abc", "b"), {"abc", "ca"}, {"ab", "s"}, {"ab", "ba"}})
      functions.push_back(reduce(kind, type, result));
  for (const char *op : {"add", "sub", "mul", "maximum", "minimum"})
    llvm::append_range(functions, binary(op));
  llvm::append_range(functions, binary("div", 0.5, 2));
  llvm::append_range(functions, binary("pow", 0.5, 2));
  for (const char *power : {"-3.0", "-2.0", "-1.0", "0.5", "1.0", "2.0", "3.0"})
    functions.push_back(
        {"pow_to_" + std::string(power),
         {{"x", "ab", 0.5, 2}},
         "%n = nd.constant(" + std::string(power) + R"( : f64) : !s
          %y = nd.pow %x, %n : (!ab, !s) -> !ab)",
         "ab"});
  return functions;
}

std::string getName(const ::testing::TestParamInfo<Function> &info) {
  std::string name = info.param.name;
  for (char &letter : name)
    if (!std::isalnum(static_cast<unsigned char>(letter)))
      letter = letter == '-' ? 'm' : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(EveryOperation, Gradient,
                         ::testing::ValuesIn(getFunctions()), getName);

/// Every kind of access, with divisors and moduli below, at and above the sizes
/// of what is read and of the loops.
TEST(ViewGradient, OfEveryKindOfAccess) {
  const std::string kinds[] = {"(SUM) / BY", "floor((SUM) / BY)",
                               "(SUM) mod BY"};
  struct Sum {
    const char *text, *result;
  };
  const Sum sums[] = {
      {"\"d\"", "d"},          {"-\"d\" + 2", "d"},
      {"2 \"d\" - 3", "d"},    {"\"b\" - 1", "b"},
      {"\"c\" + \"b\"", "cb"}, {"-\"d\" + 2 \"a\" + 1", "da"},
  };
  for (const std::string &kind : kinds)
    for (const Sum &sum : sums)
      for (const char *by : {"2", "3", "5", "6", "7", "9"})
        for (const char *type : {"b", "c", "d"}) {
          std::string access = kind, text = sum.text;
          // A loop whose factor the modulus divides is none of the view.
          if (kind.ends_with("mod BY") && by == std::string("2") &&
              text.find("2 ") != text.npos)
            continue;
          access.replace(access.find("SUM"), 3, text);
          access.replace(access.find("BY"), 2, by);
          checkGradients(view(type + (" at " + access), type,
                              "\"" + std::string(type) + "\" = " + access,
                              sum.result));
        }
}

//===-- Compositions ------------------------------------------------------===//

std::vector<Function> getCompositions() {
  return {
      {"softmax",
       {{"x", "bc", -3, 3}},
       R"(%m = nd.reduce max %x : (!bc) -> !b
          %k = nd.stop_gradient %m : (!b) -> !b
          %z = nd.sub %x, %k : (!bc, !b) -> !bc
          %e = nd.exp %z : (!bc) -> !bc
          %n = nd.reduce sum %e : (!bc) -> !b
          %y = nd.div %e, %n : (!bc, !b) -> !bc)",
       "bc"},
      {"softmax_whose_shift_has_a_gradient",
       {{"x", "bc", -3, 3}},
       R"(%m = nd.reduce max %x : (!bc) -> !b
          %z = nd.sub %x, %m : (!bc, !b) -> !bc
          %e = nd.exp %z : (!bc) -> !bc
          %n = nd.reduce sum %e : (!bc) -> !b
          %y = nd.div %e, %n : (!bc, !b) -> !bc)",
       "bc"},
      {"cross_entropy",
       {{"x", "bc", -3, 3}, {"label", "ib", 0, 5}},
       R"(%e = nd.exp %x : (!bc) -> !bc
          %n = nd.reduce sum %e : (!bc) -> !b
          %l = nd.log %n : (!b) -> !b
          %p = nd.gather %x[%label] over "c" : (!bc, !ib) -> !b
          %d = nd.sub %l, %p : (!b, !b) -> !b
          %y = nd.reduce mean %d : (!b) -> !s)",
       "s"},
      {"layer_norm",
       {{"x", "ad"}, {"gain", "d", 0.5, 2}, {"bias", "d"}},
       R"(%m = nd.reduce mean %x : (!ad) -> !a
          %z = nd.sub %x, %m : (!ad, !a) -> !ad
          %q = nd.mul %z, %z : (!ad, !ad) -> !ad
          %v = nd.reduce mean %q : (!ad) -> !a
          %epsilon = nd.constant(1.0e-5 : f64) : !s
          %w = nd.add %v, %epsilon : (!a, !s) -> !a
          %r = nd.rsqrt %w : (!a) -> !a
          %n = nd.mul %z, %r : (!ad, !a) -> !ad
          %g = nd.mul %n, %gain : (!ad, !d) -> !ad
          %y = nd.add %g, %bias : (!ad, !d) -> !ad)",
       "ad"},
      {"gelu",
       {{"x", "ab", -3, 3}},
       R"(%h = nd.constant(0.5 : f64) : !s
          %r = nd.constant(0.7071067811865476 : f64) : !s
          %one = nd.constant(1.0 : f64) : !s
          %z = nd.mul %x, %r : (!ab, !s) -> !ab
          %e = nd.erf %z : (!ab) -> !ab
          %c = nd.add %e, %one : (!ab, !s) -> !ab
          %d = nd.mul %c, %h : (!ab, !s) -> !ab
          %y = nd.mul %x, %d : (!ab, !ab) -> !ab)",
       "ab"},
      // Position c looks at the positions p up to its own.
      {"causal_attention",
       {{"x", "cd"}, {"wq", "db"}, {"wk", "db"}, {"wv", "dq"}},
       R"(%q = nd.einsum %x, %wq : (!cd, !db) -> !cb
          %z = nd.rename %x "c" -> "p" : (!cd) -> !pd
          %k = nd.einsum %z, %wk : (!pd, !db) -> !pb
          %v = nd.einsum %z, %wv : (!pd, !dq) -> !pq
          %r = nd.einsum %q, %k : (!cb, !pb) -> !cp
          %i = nd.iota : !ic
          %j = nd.iota : !ip
          %c = nd.compare ge %i, %j : (!ic, !ip) -> !tcp
          %inf = nd.constant(0xFFF0000000000000 : f64) : !s
          %w = nd.select %c, %r, %inf : (!tcp, !cp, !s) -> !cp
          %m = nd.reduce max %w : (!cp) -> !c
          %t = nd.stop_gradient %m : (!c) -> !c
          %f = nd.sub %w, %t : (!cp, !c) -> !cp
          %e = nd.exp %f : (!cp) -> !cp
          %n = nd.reduce sum %e : (!cp) -> !c
          %a = nd.div %e, %n : (!cp, !c) -> !cp
          %y = nd.einsum %a, %v : (!cp, !pq) -> !cq)",
       "cq"},
      {"two_layers_with_a_residual",
       {{"x", "ab"}, {"w1", "bd"}, {"b1", "d"}, {"w2", "db"}},
       R"(%u = nd.einsum %x, %w1 : (!ab, !bd) -> !ad
          %v = nd.add %u, %b1 : (!ad, !d) -> !ad
          %zero = nd.constant(0.0 : f64) : !s
          %h = nd.maximum %v, %zero : (!ad, !s) -> !ad
          %z = nd.einsum %h, %w2 : (!ad, !db) -> !ab
          %y = nd.add %z, %x : (!ab, !ab) -> !ab)",
       "ab"},
      // The gradient of a choice flows on through a product and a sum.
      {"guarded_products",
       {{"x", "ab"}, {"u", "b"}},
       R"(%zero = nd.constant(0.0 : f64) : !s
          %c = nd.compare gt %x, %zero : (!ab, !s) -> !tab
          %e = nd.exp %x : (!ab) -> !ab
          %t = nd.tanh %e : (!ab) -> !ab
          %v = nd.mul %t, %u : (!ab, !b) -> !ab
          %d = nd.div %v, %e : (!ab, !ab) -> !ab
          %y = nd.select %c, %d, %x : (!tab, !ab, !ab) -> !ab)",
       "ab"},
      {"stack",
       {{"x", "ab"}, {"u", "ab"}},
       R"(%y = nd.stack %u, %x, %u, %u, %x along "c"
              : (!ab, !ab, !ab, !ab, !ab) -> !cab)",
       "cab"},
      {"unstack_of_which_some_is_read",
       {{"x", "bad"}},
       R"(%s:2 = nd.unstack %x along "a" : (!bad) -> (!bd, !bd)
          %e = nd.exp %s#1 : (!bd) -> !bd
          %y = nd.mul %e, %s#1 : (!bd, !bd) -> !bd)",
       "bd"},
      // A recurrence: what is carried, sliced in two orders, stacked, summed,
      // captured.
      {"loop",
       {{"h", "b"}, {"x", "db"}, {"z", "bd"}, {"w", "pb"}, {"v", "bp"}},
       R"(%r:3 = nd.loop "d"=7 carries(%h) slices(%x, %z)
              : (!b, !db, !bd) -> (!b, !db, !p) {
          ^bb0(%t: !is, %before: !b, %s: !b, %u: !b):
            %i = nd.cast %t : (!is) -> !s
            %a = nd.einsum %before, %w : (!b, !pb) -> !p
            %e = nd.tanh %a : (!p) -> !p
            %c = nd.einsum %e, %v : (!p, !bp) -> !b
            %f = nd.mul %c, %s : (!b, !b) -> !b
            %n = nd.add %f, %u : (!b, !b) -> !b
            %m = nd.mul %e, %i : (!p, !s) -> !p
            nd.yield carries(%n : !b) stacks(%f : !b) sums(%m : !p)
          }
          %k = nd.einsum %r#0, %r#2 : (!b, !p) -> !pb
          %l = nd.einsum %r#1, %k : (!db, !pb) -> !pd
          %y = nd.einsum %l, %z : (!pd, !bd) -> !pb)",
       "pb"},
      // In each position of "c" a loop over "d"; the last position has a row of
      // its own.
      {"nested_loops",
       {{"h", "b"}, {"x", "cb"}},
       R"(%y, %l = nd.loop "c"=5 carries(%h) slices(%x)
              : (!b, !cb) -> (!b, !cb) {
          ^bb0(%o: !is, %before: !b, %s: !b):
            %r = nd.loop "d"=7 carries(%before) : (!b) -> !b {
            ^bb0(%i: !is, %g: !b):
              %e = nd.tanh %g : (!b) -> !b
              %n = nd.add %e, %s : (!b, !b) -> !b
              nd.yield carries(%n : !b)
            }
            nd.yield carries(%r : !b) stacks(%before : !b)
          })",
       "b"},
      // Nothing is carried: sliced in two orders, stacked, summed, captured,
      // the same at each position.
      {"map",
       {{"x", "db"}, {"z", "bd"}, {"w", "pb"}},
       R"(%r:3 = nd.loop "d"=7 slices(%x, %z) : (!db, !bd) -> (!dp, !db, !p) {
          ^bb0(%t: !is, %s: !b, %u: !b):
            %i = nd.cast %t : (!is) -> !s
            %m = nd.mul %s, %u : (!b, !b) -> !b
            %a = nd.einsum %m, %w : (!b, !pb) -> !p
            %n = nd.rename %a "p" -> "c" : (!p) -> !c
            %e = nd.tanh %n : (!c) -> !c
            %o = nd.rename %e "c" -> "p" : (!c) -> !p
            %f = nd.mul %o, %i : (!p, !s) -> !p
            %k = nd.reduce sum %w : (!pb) -> !b
            nd.yield stacks(%f, %k : !p, !b) sums(%a : !p)
          }
          %g = nd.einsum %r#0, %r#2 : (!dp, !p) -> !dp
          %y = nd.einsum %g, %r#1 : (!dp, !db) -> !pb)",
       "pb"},
      // At each position a loop that carries, stacks and sums, and a map.
      {"map_of_loops",
       {{"x", "cdb"}, {"h", "b"}, {"v", "bq"}},
       R"(%r:4 = nd.loop "c"=5 slices(%x) : (!cdb) -> (!cb, !cdb, !cq, !b) {
          ^bb0(%o: !is, %s: !db):
            %k:3 = nd.loop "d"=7 carries(%h) slices(%s)
                : (!b, !db) -> (!b, !db, !b) {
            ^bb0(%i: !is, %g: !b, %u: !b):
              %e = nd.tanh %g : (!b) -> !b
              %n = nd.add %e, %u : (!b, !b) -> !b
              nd.yield carries(%n : !b) stacks(%e : !b) sums(%n : !b)
            }
            %m = nd.loop "q"=2 slices(%v) : (!bq) -> !q {
            ^bb0(%i: !is, %u: !b):
              %f = nd.einsum %u, %k#2 : (!b, !b) -> !s
              nd.yield stacks(%f : !s)
            }
            nd.yield stacks(%k#0, %k#1, %m : !b, !db, !q) sums(%k#2 : !b)
          }
          %f = nd.einsum %r#0, %r#1, %r#3 : (!cb, !cdb, !b) -> !cd
          %y = nd.einsum %f, %r#2 : (!cd, !cq) -> !dq)",
       "dq"},
      {"mean_of_a_product",
       {{"x", "ab"}, {"w", "bc"}},
       R"(%p = nd.einsum %x, %w : (!ab, !bc) -> !ac
          %y = nd.reduce mean %p : (!ac) -> !s)",
       "s"},
  };
}

INSTANTIATE_TEST_SUITE_P(Compositions, Gradient,
                         ::testing::ValuesIn(getCompositions()), getName);

} // namespace
