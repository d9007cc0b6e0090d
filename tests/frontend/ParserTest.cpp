#include "frontend/syntax/Parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

using namespace meshc::frontend;

namespace {

/// Prints the tree of a text; empty after an error.
std::string reprint(const std::string &text) {
  SourceSet sources;
  Diagnostics diagnostics(sources);
  uint32_t source = sources.add("test.mesh", text);
  ast::File file = Parser(sources, source, diagnostics).parseFile();
  EXPECT_FALSE(diagnostics.hasErrors())
      << text << "\n"
      << render(diagnostics, MessageFormat::Text);
  return print(file);
}

/// The canonical form of one expression.
std::string reprintExpression(const std::string &expression) {
  std::string text = reprint("let a = " + expression + "\n");
  EXPECT_EQ(text.substr(0, 8), "let a = ");
  return text.substr(8, text.size() - 9);
}

std::vector<Code> getCodes(const std::string &text) {
  SourceSet sources;
  Diagnostics diagnostics(sources);
  uint32_t source = sources.add("test.mesh", text);
  Parser(sources, source, diagnostics).parseFile();
  std::vector<Code> codes;
  for (const Diagnostic &error : diagnostics.getErrors())
    codes.push_back(error.code);
  return codes;
}

} // namespace

TEST(Parser, Precedence) {
  // An expression and what it must mean, with parentheses where the canonical
  // form has none.
  const std::pair<const char *, const char *> cases[] = {
      {"a + b * c", "a + (b * c)"},
      {"a - b - c", "a - b - c"},
      {"a * b / c % d", "a * b / c % d"},
      {"-a ^ 2", "-(a ^ 2)"},
      {"a ^ -b ^ c", "a ^ (-(b ^ c))"},
      {"a ^ b ^ c", "a ^ b ^ c"},
      {"2 * -3", "2 * (-3)"},
      {"not a == b", "not (a == b)"},
      {"not a and b", "(not a) and b"},
      {"a or b and c", "a or (b and c)"},
      {"a < b + 1 or c", "(a < (b + 1)) or c"},
      {"-f(a)", "-(f(a))"},
      {"a[n = i + 1] ^ 2", "(a[n = (i + 1)]) ^ 2"},
      {"-a[n = i]", "-(a[n = i])"},
  };
  for (auto [plain, explicitly] : cases)
    EXPECT_EQ(reprintExpression(plain), reprintExpression(explicitly)) << plain;
}

TEST(Parser, ParenthesesThatMatterStay) {
  for (const char *text : {"(a + b) * c",
                           "a - (b - c)",
                           "(a ^ b) ^ c",
                           "(-a) ^ 2",
                           "(not a) == b",
                           "(a or b) and c",
                           "a / (b / c)",
                           "--a",
                           "not not a",
                           "a ^ --b",
                           "(a, b)",
                           "f(a) as g",
                           "f(x, y = 1.5, z -> a, b)",
                           "einsum(a, b ->)",
                           "1e-05",
                           "2.0",
                           "(a + b)[n = i]",
                           "a[n = i][m = j]",
                           "a[(n, m) = 2 * (i, j) - 1, k = f(l') else -inf]",
                           "f(a, over = ())"})
    EXPECT_EQ(reprintExpression(text), text);
}

TEST(Parser, PrintedFormIsAFixedPoint) {
  for (const char *name : {"mlp.mesh", "transformer_block.mesh"}) {
    std::ifstream file(std::string(SAMPLES_DIRECTORY "/") + name);
    std::stringstream text;
    text << file.rdbuf();
    ASSERT_FALSE(text.str().empty()) << name;
    std::string once = reprint(text.str());
    EXPECT_EQ(reprint(once), once);
    EXPECT_THAT(once, testing::HasSubstr("model "));
  }
}

TEST(Parser, EveryItem) {
  std::string text = "import \"layers.mesh\"\n"
                     "mesh data = 2, model = 2 * 2\n"
                     "let lr = 0.001\n"
                     "dim batch = 6\n"
                     "layout {\n"
                     "  batch -> data\n"
                     "  pos -> (data, model)\n"
                     "}\n"
                     "fn f(x, n = 2) {\n"
                     "  let y = x * n\n"
                     "  y = y + 1\n"
                     "  let a, b = h(y) as s\n"
                     "  dim half = size(n) / 2\n"
                     "  let c: f32[x] = 0\n"
                     "  let d, e: [.., x] = h(y)\n"
                     "  a, b = h(b) with s\n"
                     "  a = g(b) with s as t\n"
                     "  return a + b, y\n"
                     "}\n"
                     "fn g(a: dim, b: dims = (), c: number = 2, d: truth, x: "
                     "f32, y: [..], z: [], u: [a, b], v: i32[.., a]) {\n"
                     "  assert size(a) > c and d\n"
                     "  for t in a {\n"
                     "    assert d\n"
                     "  }\n"
                     "  if d and c > 1 {\n"
                     "    x = 2 * x\n"
                     "  } else if d {\n"
                     "    x = x\n"
                     "  } else {\n"
                     "    if d {\n"
                     "      x = x\n"
                     "    }\n"
                     "    param w: f32 = ones\n"
                     "  }\n"
                     "  return x\n"
                     "}\n"
                     "model m(x: f32[batch], s: f32) {\n"
                     "  param a, b: f32[batch] = normal(stddev = 0.1)\n"
                     "  output o = x\n"
                     "}\n"
                     "data over batch {\n"
                     "  x = idx(\"a\", test = \"b\")\n"
                     "}\n"
                     "train {\n"
                     "  minimize o\n"
                     "  optimizer adam(lr = lr)\n"
                     "}\n";
  EXPECT_EQ(reprint(text), text);
}

TEST(Parser, WordsThatBeginItemsAreNamesElsewhere) {
  reprint("mesh data = 2, model = 3\n"
          "layout { train -> data\n mesh -> model }\n"
          "model layout(data: f32[train, mesh]) {\n"
          "  let model = data + 1\n"
          "  model = model * 2\n"
          "  output train = model\n"
          "}\n");
}

TEST(Parser, BodiesNeedNoIndent) {
  reprint("fn f(x) {\nlet a = x\nlet b = a\nreturn b\n}\n");
}

TEST(Parser, LineEndsAndByteOrderMark) {
  EXPECT_EQ(reprint("\xEF\xBB\xBF"
                    "dim a = 1\r\ndim b = 2\r\n// end"),
            "dim a = 1\ndim b = 2\n");
}

TEST(Parser, GoesOnAfterErrors) {
  // A mistake in each of three items and three statements: six errors.
  EXPECT_THAT(getCodes("dim a 5\n"
                       "mesh = 2\n"
                       "model m(x: f32[a]) {\n"
                       "  let b = x +\n"
                       "  param c f32[a] = zeros\n"
                       "  let d = exp(x\n"
                       "  output e = x\n"
                       "}\n"
                       "trian { minimize e }\n"),
              testing::ElementsAre(Code::ExpectedToken, Code::ExpectedToken,
                                   Code::ExpectedExpression,
                                   Code::ExpectedToken, Code::ExpectedToken,
                                   Code::ExpectedItem));
}

/// One mistake in an entry, a head or a condition hides none behind it.
TEST(Parser, EveryErrorOfABlockIsFound) {
  const std::pair<const char *, size_t> cases[] = {
      {"layout {\n  a b\n  c -> \n  d -> e\n  f = g\n}\n", 3},
      {"train {\n  minimize +\n  optimizer = 3\n  steps 1\n  epochs +\n}\n", 3},
      {"data over a {\n  x idx\n  y = \n  z = idx(\"a\", \"b\")\n  w +\n}\n",
       3},
      {"data {\n  x idx\n  y = \n}\n", 3},
      {"data over {\n  x idx\n  y = \n}\n", 3},
      {"fn f(x y) {\n  let a = \n  let b = x *\n  return b\n}\n", 3},
      {"model m(x: f32[a) {\n  let b = \n  output c\n}\nfn f( {\n}\n", 4},
      {"fn f(x) {\n  for t of a {\n    x = )\n    let y 3\n  }\n  x =\n"
       "  return x\n}\n",
       4},
      {"fn f(x) {\n  for t in a while x < 1 {\n    x =\n  }\n"
       "  return x\n}\n",
       2},
      {"fn f(x) {\n  if x > 1 {\n    x =\n  } else {\n    x =\n  }\n"
       "  while x > 1 {\n    x =\n  }\n  return x\n}\n",
       4},
      {"fn f(x) {\n  x[a = ] = 2\n  x[a = 1] = +\n  x[a = 2] 3\n"
       "  return x\n}\n",
       3},
      {"fn f(x) {\n  for t in a b {\n    x =\n  }\n  for t d {\n    x =\n"
       "  }\n  if x {\n    x =\n  }\n  return x\n}\n",
       5},
      // What belongs to a call is no statement.
      {"fn f(x) {\n  let a = g(x, by = ,\n    over = x,\n    at = x\n  )\n"
       "  let b =\n  return a\n}\n",
       2},
      {"dim a = 1; dim b = 2; # two; of them {\ndim c =\n", 4},
  };
  for (auto [text, count] : cases) {
    std::vector<Code> codes = getCodes(text);
    EXPECT_EQ(codes.size(), count) << text;
  }
}

TEST(Parser, MissingBraceIsFoundAtTheNextItem) {
  EXPECT_THAT(getCodes("fn f(x) {\n  return x\n\nfn g(x) { return x }\n"),
              testing::ElementsAre(Code::ExpectedToken));
  EXPECT_THAT(getCodes("fn f(x) {\n  return x\n"),
              testing::ElementsAre(Code::ExpectedToken));
}
