// Gradients of loops, as loops and written out, against differences: what a
// loop carries, slices, stacks, sums and captures, and bodies at random.

#include "GradientCheck.h"

#include <gtest/gtest.h>

#include <random>

using namespace meshc::test;

namespace {

class LoopGradient : public ::testing::TestWithParam<Function> {};

TEST_P(LoopGradient, MatchesDifferences) { checkGradients(GetParam()); }

std::string getName(const ::testing::TestParamInfo<Function> &info) {
  return info.param.name;
}

const Function functions[] = {
    // What is carried is set anew: only the first iteration reads it.
    {"carried_anew",
     {{"h", "b"}, {"x", "db"}},
     R"(%k, %l = nd.loop "d"=7 carries(%h) slices(%x) : (!b, !db) -> (!b, !b) {
        ^bb0(%t: !is, %g: !b, %s: !b):
          %n = nd.constant(0.5 : f64) : !b
          %m = nd.mul %g, %s : (!b, !b) -> !b
          nd.yield carries(%n : !b) sums(%m : !b)
        }
        %y = nd.add %k, %l : (!b, !b) -> !b)",
     "b"},
    // Carried values change places and one is yielded in three ways.
    {"exchange",
     {{"u", "b"}, {"v", "b"}},
     R"(%r:4 = nd.loop "d"=7 carries(%u, %v) : (!b, !b) -> (!b, !b, !db, !b) {
        ^bb0(%t: !is, %g: !b, %h: !b):
          %n = nd.tanh %g : (!b) -> !b
          nd.yield carries(%h, %n : !b, !b) stacks(%n : !b) sums(%n : !b)
        }
        %a = nd.mul %r#0, %r#2 : (!b, !db) -> !db
        %c = nd.mul %a, %r#3 : (!db, !b) -> !db
        %y = nd.add %c, %r#1 : (!db, !b) -> !db)",
     "db"},
    // From the last position to the first, an integer carried along.
    {"reverse",
     {{"h", "b"}, {"x", "bd"}},
     R"(%i = nd.constant(1 : i32) : !is
        %r:3 = nd.loop "d"=7 reverse carries(%h, %i) slices(%x)
            : (!b, !is, !bd) -> (!b, !is, !db) {
        ^bb0(%t: !is, %g: !b, %n: !is, %s: !b):
          %p = nd.add %n, %t : (!is, !is) -> !is
          %f = nd.cast %p : (!is) -> !s
          %e = nd.div %s, %f : (!b, !s) -> !b
          %m = nd.tanh %g : (!b) -> !b
          %k = nd.add %m, %e : (!b, !b) -> !b
          nd.yield carries(%k, %p : !b, !is) stacks(%m : !b)
        }
        %y = nd.mul %r#0, %r#2 : (!b, !db) -> !bd)",
     "bd"},
    // A value of the region has the dimension of the loop.
    {"captured_with_the_dimension",
     {{"h", "b"}, {"x", "db"}},
     R"(%y = nd.loop "d"=7 carries(%h) slices(%x) : (!b, !db) -> !b {
        ^bb0(%t: !is, %g: !b, %s: !b):
          %m = nd.mul %x, %g : (!db, !b) -> !db
          %e = nd.tanh %m : (!db) -> !db
          %n = nd.einsum %e, %s : (!db, !b) -> !b
          nd.yield carries(%n : !b)
        })",
     "b"},
    // Slices of one tensor, read twice and whole; an operation of the region
    // that reads nothing of the iteration.
    {"slices_and_invariants",
     {{"x", "db"}, {"w", "b"}},
     R"(%k, %q = nd.loop "d"=7 slices(%x, %x) : (!db, !db) -> (!db, !s) {
        ^bb0(%t: !is, %s: !b, %u: !b):
          %e = nd.exp %w : (!b) -> !b
          %m = nd.mul %s, %e : (!b, !b) -> !b
          %n = nd.mul %m, %u : (!b, !b) -> !b
          %o = nd.einsum %n, %w : (!b, !b) -> !s
          nd.yield stacks(%n : !b) sums(%o : !s)
        }
        %z = nd.mul %k, %q : (!db, !s) -> !db
        %y = nd.mul %z, %x : (!db, !db) -> !db)",
     "db"},
    // What is carried, kept for the gradient, stacked and summed has a sharding
    // of its own.
    {"constraints",
     {{"h", "b"}, {"x", "db"}},
     R"(%k = nd.reshard %h : !b -> !nd.tensor<["b"=3], f64, <"b"@x>>
        %r:3 = nd.loop "d"=7 carries(%k) slices(%x)
            : (!nd.tensor<["b"=3], f64, <"b"@x>>, !db)
            -> (!nd.tensor<["b"=3], f64, <"b"@x>>, !db, !b) {
        ^bb0(%t: !is, %g: !nd.tensor<["b"=3], f64, <"b"@x>>, %s: !b):
          %e = nd.tanh %g : (!nd.tensor<["b"=3], f64, <"b"@x>>) -> !b
          %f = nd.reshard %e : !b -> !nd.tensor<["b"=3], f64, <"b"@x>>
          %m = nd.mul %f, %s : (!nd.tensor<["b"=3], f64, <"b"@x>>, !b) -> !b
          %n = nd.reshard %m : !b -> !nd.tensor<["b"=3], f64, <"b"@x>>
          nd.yield carries(%n : !nd.tensor<["b"=3], f64, <"b"@x>>)
              stacks(%f : !nd.tensor<["b"=3], f64, <"b"@x>>)
              sums(%n : !nd.tensor<["b"=3], f64, <"b"@x>>)
        }
        %l = nd.add %r#0, %r#2
            : (!nd.tensor<["b"=3], f64, <"b"@x>>, !b) -> !b
        %y = nd.mul %r#1, %l : (!db, !b) -> !db)",
     "db"},
    // What the region makes of a result that nothing reads has no gradient.
    {"results_that_nothing_reads",
     {{"h", "b"}, {"x", "cb"}},
     R"(%y, %l, %m = nd.loop "c"=5 carries(%h) slices(%x)
            : (!b, !cb) -> (!b, !cb, !b) {
        ^bb0(%t: !is, %g: !b, %s: !b):
          %e = nd.mul %g, %s : (!b, !b) -> !b
          %f = nd.log %s : (!b) -> !b
          nd.yield carries(%e : !b) stacks(%f : !b) sums(%f : !b)
        })",
     "b"},
    // Three loops, one in the other: each keeps what those inside need.
    {"three_loops",
     {{"h", "b"}, {"x", "cb"}, {"w", "bp"}},
     R"(%y = nd.loop "c"=5 carries(%h) slices(%x) : (!b, !cb) -> !b {
        ^bb0(%o: !is, %g: !b, %s: !b):
          %a = nd.mul %g, %s : (!b, !b) -> !b
          %k = nd.loop "a"=2 reverse carries(%a) : (!b) -> !b {
          ^bb0(%i: !is, %u: !b):
            %l = nd.loop "q"=2 carries(%u) : (!b) -> !b {
            ^bb0(%j: !is, %v: !b):
              %c = nd.cast %o : (!is) -> !s
              %tenth = nd.constant(0.1 : f64) : !s
              %m = nd.mul %c, %tenth : (!s, !s) -> !s
              %d = nd.mul %v, %m : (!b, !s) -> !b
              %e = nd.einsum %d, %w : (!b, !bp) -> !p
              %f = nd.tanh %e : (!p) -> !p
              %n = nd.einsum %f, %w, %a : (!p, !bp, !b) -> !b
              nd.yield carries(%n : !b)
            }
            nd.yield carries(%l : !b)
          }
          %z = nd.add %k, %g : (!b, !b) -> !b
          nd.yield carries(%z : !b)
        })",
     "b"},
};

INSTANTIATE_TEST_SUITE_P(Loops, LoopGradient, ::testing::ValuesIn(functions),
                         getName);

/// A loop whose body is made at random: of what it carries, slices and captures
/// in two shapes, `values` operations, and yields of any of them.
Function makeRandom(uint64_t seed) {
  std::mt19937_64 bits(seed);
  auto pick = [&](size_t count) { return size_t(bits() % count); };
  // Shapes "b" and "p", and what has each so far.
  std::vector<std::string> values[2] = {{"%g", "%s", "%h"}, {"%r", "%e"}};
  const std::string types[2] = {"!b", "!p"};
  std::string body;
  auto any = [&](size_t shape) {
    return values[shape][pick(values[shape].size())];
  };
  for (int i = 0; i < 9; ++i) {
    size_t shape = pick(2);
    std::string type = types[shape], name = "%v" + std::to_string(i);
    body += name + " = ";
    switch (pick(5)) {
    case 0:
      body += "nd.tanh " + any(shape) + " : (" + type + ") -> " + type;
      break;
    case 1:
    case 2:
      body += (pick(2) ? "nd.mul " : "nd.sub ") + any(shape) + ", " +
              any(shape) + " : (" + type + ", " + type + ") -> " + type;
      break;
    case 3:
      body += "nd.einsum " + any(1 - shape) + ", %w : (" + types[1 - shape] +
              ", !bp) -> " + type;
      break;
    default: // of small numbers, so that nothing grows
      body += "nd.logistic " + any(shape) + " : (" + type + ") -> " + type;
      break;
    }
    body += "\n";
    values[shape].push_back(name);
  }
  auto tame = [&](const std::string &name, size_t shape) {
    body += name + " = nd.tanh " + any(shape) + " : (" + types[shape] +
            ") -> " + types[shape] + "\n";
  };
  tame("%nextg", 0);
  tame("%nextr", 1);
  std::string direction = pick(2) ? "reverse " : "";
  return {"random_" + std::to_string(seed),
          {{"h", "b"}, {"k", "p"}, {"x", "cb"}, {"z", "pc"}, {"w", "bp"}},
          "%o:5 = nd.loop \"c\"=5 " + direction +
              "carries(%h, %k) slices(%x, %z) : (!b, !p, !cb, !pc)"
              " -> (!b, !p, !cb, !cp, !b) {\n"
              "^bb0(%t: !is, %g: !b, %r: !p, %s: !b, %e: !p):\n" +
              body + "nd.yield carries(%nextg, %nextr : !b, !p) stacks(" +
              any(0) + ", " + any(1) + " : !b, !p) sums(" + any(0) +
              " : !b)\n}\n" +
              R"(%a = nd.einsum %o#0, %o#1 : (!b, !p) -> !bp
                 %c = nd.einsum %o#2, %o#3 : (!cb, !cp) -> !bp
                 %d = nd.add %a, %c : (!bp, !bp) -> !bp
                 %y = nd.add %d, %o#4 : (!bp, !b) -> !bp)",
          "bp"};
}

TEST(RandomLoops, MatchDifferences) {
  for (uint64_t seed = 1; seed <= 40; ++seed)
    checkGradients(makeRandom(seed), seed);
}

} // namespace
