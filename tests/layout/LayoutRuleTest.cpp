/// Rules of a layout as text.

#include "layout/LayoutRule.h"

#include <random>

#include <gtest/gtest.h>

using namespace meshc::layout;

/// A rule that could stand in a spec, with names as C++ may have them too.
static LayoutRule drawRule(std::mt19937 &draws) {
  const auto draw = [&](int below) { return int(draws() % unsigned(below)); };
  const auto drawNames = [&](int least, int most) {
    static const char *const known[] = {"batch",  "unless", "d'",  "d_ff",
                                        "params", "my dim", "a:b", "->"};
    std::vector<std::string> names;
    const int count = least + draw(most - least + 1);
    while (int(names.size()) < count)
      names.emplace_back(known[draw(8)]);
    return names;
  };
  LayoutRule rule;
  rule.role = Role(draw(numRoles));
  rule.dims = drawNames(rule.role == Role::Value ? 1 : 0, 3);
  rule.axes = drawNames(rule.isEvery() ? 1 : 0, 3);
  rule.unless = drawNames(0, 2);
  if (rule.role == Role::Value && draw(2) == 0)
    rule.values = draw(2) == 0 ? "layer/*/h" : "a: b -> c";
  return rule;
}

TEST(RuleText, IsReadAsItWasWritten) {
  std::mt19937 draws(7);
  for (int i = 0; i < 2000; ++i) {
    const LayoutRule rule = drawRule(draws);
    auto read = parseRule(toString(rule));
    ASSERT_TRUE(std::holds_alternative<LayoutRule>(read)) << toString(rule);
    EXPECT_EQ(std::get<LayoutRule>(read), rule) << toString(rule);
  }
}

TEST(RuleText, ReadsWhatASpecHas) {
  const auto read = [](std::string_view text) {
    return std::get<LayoutRule>(parseRule(text));
  };
  EXPECT_EQ(read("batch->data"), (LayoutRule{{"batch"}, {"data"}}));
  EXPECT_EQ(read("( a ,b )->\t(x,y) unless(c)"),
            (LayoutRule{{"a", "b"}, {"x", "y"}, Role::Value, {"c"}}));
  EXPECT_EQ(read("state : * -> x"), (LayoutRule{{}, {"x"}, Role::State}));
  EXPECT_EQ(read("state : a -> ()"), (LayoutRule{{"a"}, {}, Role::State}));
  EXPECT_EQ(read("\"l/*\": a -> x"),
            (LayoutRule{{"a"}, {"x"}, Role::Value, {}, "l/*"}));
  EXPECT_EQ(read("\"l/*\" : \"my dim\" -> x"),
            (LayoutRule{{"my dim"}, {"x"}, Role::Value, {}, "l/*"}));
  // A dim may be called so.
  EXPECT_EQ(read("unless -> x unless unless"),
            (LayoutRule{{"unless"}, {"x"}, Role::Value, {"unless"}}));
}

TEST(RuleText, SaysWhatIsWrong) {
  for (auto [text, word, message] :
       std::initializer_list<std::tuple<const char *, size_t, const char *>>{
           {"", 0, "expected a dimension"},
           {"(", 1, "expected a dimension"},
           {"()", 1, "expected a dimension"},
           {"(a, ) -> x", 3, "expected a dimension"},
           {"(a b) -> x", 2, "expected \")\" after the names"},
           {"a x", 1, "expected \"->\" after the dimension"},
           {"a ->", 2, "expected a mesh axis"},
           {"a -> (x", 4, "expected \")\" after the names"},
           {"a -> x unless", 4, "expected a dimension"},
           {"a -> x unless ()", 5, "expected a dimension"},
           {"a -> x b", 3, "expected the end"},
           {"a -> x \"b", 3, "expected the end"},
           {"weights: a -> x", 0, "a layout has no rules for \"weights\""},
           {"values: a -> x", 0, "a layout has no rules for \"values\""},
           {"\"\": a -> x", 0,
            "expected the name of values, found an empty one"},
           {"* -> x", 0, "\"*\" stands behind a role"},
           {"\"h\": * -> x", 2, "\"*\" stands behind a role"},
           {"params: * -> ()", 4, "\"*\" is split over an axis"}}) {
    auto read = parseRule(text);
    auto *error = std::get_if<RuleSyntaxError>(&read);
    ASSERT_TRUE(error) << text;
    EXPECT_EQ(error->word, word) << text;
    EXPECT_EQ(toString(*error), message) << text;
  }
}

TEST(RuleText, SaysWhereItsNamesAre) {
  static const std::string_view texts[] = {"(",  "a", ",",      "b", ")",
                                           "->", "x", "unless", "c", "d"};
  auto parsed = parseRule([](size_t index) {
    if (index >= std::size(texts))
      return RuleWord();
    const bool isName = std::isalpha(texts[index][0]) != 0;
    return RuleWord{isName ? RuleWord::Kind::Name : RuleWord::Kind::Mark,
                    texts[index]};
  });
  ASSERT_TRUE(std::holds_alternative<ParsedRule>(parsed));
  const auto &found = std::get<ParsedRule>(parsed);
  EXPECT_EQ(found.numWords, 9u); // "d" begins the next
  const std::map<RuleName, size_t> expected = {{{RulePart::Dims, 0}, 1},
                                               {{RulePart::Dims, 1}, 3},
                                               {{RulePart::Axes, 0}, 6},
                                               {{RulePart::Unless, 0}, 8}};
  EXPECT_EQ(found.words, expected);
}
