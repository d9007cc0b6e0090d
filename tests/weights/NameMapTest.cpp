/// Maps of names by their description, and every way for a line to be wrong.

#include "runtime/weights/NameMap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace meshc;
using namespace meshc::runtime;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

NameMap parse(const std::string &text) {
  Result<NameMap> map = parseNameMap(text, "a.map");
  EXPECT_TRUE(map) << map.getError().message;
  return map ? *map : NameMap();
}

TEST(NameMapTest, a_rule_has_a_name_and_axes) {
  const NameMap map = parse(
      "# of a decoder\n"
      "\n"
      "layer/wq =h.{layers}.attn{ part = q , k }.w[d, 2 of 3 heads e]#\n");
  ASSERT_EQ(map.rules.size(), 1u);
  const NameRule &rule = map.rules[0];
  EXPECT_EQ(rule.line, 3);
  EXPECT_EQ(rule.parameter, "layer/wq");
  EXPECT_EQ(rule.slicedDim, "");
  ASSERT_EQ(rule.name.size(), 3u);
  EXPECT_EQ(rule.name[0].text, "h.");
  EXPECT_EQ(rule.name[0].dim, "layers");
  EXPECT_THAT(rule.name[0].positions, ElementsAre());
  EXPECT_EQ(rule.name[1].text, ".attn");
  EXPECT_EQ(rule.name[1].dim, "part");
  EXPECT_THAT(rule.name[1].positions, ElementsAre("q", "k"));
  EXPECT_EQ(rule.name[2].text, ".w");
  EXPECT_EQ(rule.name[2].dim, "");
  ASSERT_TRUE(rule.axes);
  ASSERT_EQ(rule.axes->size(), 2u);
  EXPECT_THAT((*rule.axes)[0].dims, ElementsAre("d"));
  EXPECT_EQ((*rule.axes)[0].slice.count, 1);
  EXPECT_THAT((*rule.axes)[1].dims, ElementsAre("heads", "e"));
  EXPECT_EQ((*rule.axes)[1].slice.index, 1);
  EXPECT_EQ((*rule.axes)[1].slice.count, 3);
}

TEST(NameMapTest, a_parameter_may_be_sliced_and_axes_left_out) {
  const NameMap map = parse("w [2 of 2 d] = a\r\nprefix = b []\nv = c");
  ASSERT_EQ(map.rules.size(), 3u);
  EXPECT_EQ(map.rules[0].slicedDim, "d");
  EXPECT_EQ(map.rules[0].slice.index, 1);
  EXPECT_EQ(map.rules[0].slice.count, 2);
  EXPECT_FALSE(map.rules[0].axes);
  EXPECT_EQ(map.rules[1].parameter, "prefix");
  ASSERT_TRUE(map.rules[1].axes);
  EXPECT_TRUE(map.rules[1].axes->empty());
  EXPECT_EQ(map.rules[2].line, 3);
}

TEST(NameMapTest, what_is_ignored) {
  const NameMap map = parse("prefix bert.\n"
                            "ignore h.*.attn.bias\n"
                            "ignore *_ids\n"
                            "ignore head\n");
  EXPECT_THAT(map.prefixes, ElementsAre("bert."));
  for (const char *name :
       {"h.0.attn.bias", "h..attn.bias", "h.x.y.attn.bias",
        "bert.h.11.attn.bias", "position_ids", "_ids", "head", "bert.head"})
    EXPECT_TRUE(map.ignores(name)) << name;
  for (const char *name :
       {"h.attn.bias", "h.0.attn.bias.weight", "position_ids_", "heads",
        "ahead", "h.0.attn.bia", "", "bert.bert.head"})
    EXPECT_FALSE(map.ignores(name)) << name;
}

TEST(NameMapTest, lines_that_are_wrong) {
  for (const auto &[line, words] :
       std::initializer_list<std::pair<const char *, const char *>>{
           {"w", "expected '=', found the end of the line"},
           {"w =", "expected the name of a tensor, found the end"},
           {"= w", "expected a parameter, found '= w'"},
           {"w = [d]", "expected the name of a tensor"},
           {"w = a b", "expected the end of the line, found 'b'"},
           {"w = a [d", "expected ']', found the end of the line"},
           {"w = a [d,]", "expected a dim, found ']'"},
           {"w = a [1 of d]", "expected a number, found 'd]'"},
           {"w = a [1 in 2 d]", "expected 'of' behind the number of a slice"},
           {"w = a [0 of 2 d]", "there is no slice 0 of 2"},
           {"w = a [3 of 2 d]", "there is no slice 3 of 2"},
           {"w = a [99999999999999999999 of 2 d]", "expected a number"},
           {"w [1 of 2] = a", "expected a dim, found '] = a'"},
           {"w = a.{}", "expected a dim, found '}'"},
           {"w = a.{d", "expected '}', found the end of the line"},
           {"w = a.{d = }", "expected the name of a position"},
           {"prefix", "expected a prefix, found the end of the line"},
           {"prefix a b", "expected one word"},
           {"ignore", "expected the name of a tensor"}}) {
    Result<NameMap> map = parseNameMap(std::string("\n") + line, "a.map");
    ASSERT_FALSE(map) << line;
    EXPECT_EQ(map.getError().code, ErrorCode::WrongParameters);
    EXPECT_THAT(map.getError().message, HasSubstr(words)) << line;
    EXPECT_THAT(map.getError().message, testing::StartsWith("a.map:2: "));
  }
}

} // namespace
