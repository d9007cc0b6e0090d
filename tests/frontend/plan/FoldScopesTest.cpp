#include "frontend/plan/text/FoldScopes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

using namespace meshc;
using plan::ValueRow;
using testing::ElementsAre;

static const std::vector<plan::EqualScopes::Scope> scopes = {
    {"b1"},
    {"b2"},
    {"b3"},
    {"layer"},
    {.name = "layer/0", .iteration = 0},
    {.name = "layer/1", .iteration = 1},
    {.name = "layer/2", .iteration = 2},
    {.name = "b1/t/0", .parent = 0, .iteration = 0},
    {.name = "b1/t/1", .parent = 0, .iteration = 1},
    {.name = "b2/t/0", .parent = 1, .iteration = 0},
    {.name = "b2/t/1", .parent = 1, .iteration = 1}};

/// Name, shape and communication of each row, for comparison.
static std::vector<std::string> fold(std::vector<ValueRow> rows) {
  std::vector<std::string> texts;
  for (const ValueRow &row : plan::foldScopes(std::move(rows), scopes)) {
    std::string text = row.name;
    if (row.times > 1)
      text += " x " + std::to_string(row.times);
    for (const std::string &piece : row.shape)
      text += ", " + piece;
    text += ": " + std::to_string(row.bytes);
    for (const plan::Communication &entry : row.communication)
      text += "; " + entry.id + entry.what;
    texts.push_back(text);
  }
  return texts;
}

static ValueRow makeRow(const std::string &name, int64_t bytes = 8,
                        std::vector<plan::Communication> communication = {}) {
  ValueRow row{.name = name,
               .shape = {"batch 2"},
               .bytes = bytes,
               .communication = std::move(communication)};
  for (const char *lead : {"gradient of ", "adam/m/"})
    if (name.starts_with(lead))
      row.lead = std::string_view(lead).size();
  // The longest that fits, the innermost.
  for (size_t scope = 0, longest = 0; scope < scopes.size(); ++scope)
    if (const std::string &given = scopes[scope].name;
        name.compare(row.lead, given.size() + 1, given + "/") == 0 &&
        given.size() > longest) {
      row.inScope = int(scope);
      longest = given.size();
    }
  return row;
}

TEST(FoldScopes, equal_scopes_become_one_row) {
  EXPECT_THAT(fold({makeRow("x"), makeRow("b1/h"),
                    makeRow("b1/y", 4, {{"c1", "sum"}}), makeRow("b2/h"),
                    makeRow("b2/y", 4, {{"c2", "sum"}}), makeRow("b3/h"),
                    makeRow("b3/y", 4, {{"c3", "sum"}}), makeRow("loss")}),
              ElementsAre("x, batch 2: 8", "b1/h, batch 2: 8",
                          "b1/y, batch 2: 4; c1sum",
                          "b2, b3, each as b1, with c2, c3: 24",
                          "loss, batch 2: 8"));
}

TEST(FoldScopes, scopes_stand_behind_what_a_name_begins_with) {
  EXPECT_THAT(fold({makeRow("gradient of b3/h"), makeRow("gradient of b2/h"),
                    makeRow("adam/m/b1/w"), makeRow("adam/m/b2/w")}),
              ElementsAre("gradient of b3/h, batch 2: 8", "b2, as b3: 8",
                          "adam/m/b1/w, batch 2: 8", "b2, as b1: 8"));
}

TEST(FoldScopes, iterations_of_a_loop_are_scopes) {
  EXPECT_THAT(
      fold({makeRow("layer/ff/w"), makeRow("layer/0/h"), makeRow("layer/0/ff"),
            makeRow("layer/1/h"), makeRow("layer/1/ff"), makeRow("layer/2/h"),
            makeRow("layer/2/ff"), makeRow("loss"),
            makeRow("gradient of layer/2/h"),
            makeRow("gradient of layer/1/h")}),
      ElementsAre("layer/ff/w, batch 2: 8", "layer/0/h, batch 2: 8",
                  "layer/0/ff, batch 2: 8",
                  "layer/1, layer/2, each as layer/0: 32", "loss, batch 2: 8",
                  "gradient of layer/2/h, batch 2: 8",
                  "layer/1, as layer/2: 8"));
}

TEST(FoldScopes, iterations_in_a_call_are_folded_within_it) {
  EXPECT_THAT(fold({makeRow("b1/x"), makeRow("b1/t/0/h"), makeRow("b1/t/1/h"),
                    makeRow("b2/x"), makeRow("b2/t/0/h"), makeRow("b2/t/1/h"),
                    makeRow("loss")}),
              ElementsAre("b1/x, batch 2: 8", "b1/t/0/h, batch 2: 8",
                          "b1/t/1, as b1/t/0: 8", "b2, as b1: 24",
                          "loss, batch 2: 8"));
}

TEST(FoldScopes, what_differs_is_not_folded) {
  // Another size, another collective, another place.
  EXPECT_EQ(fold({makeRow("b1/h", 8), makeRow("b2/h", 9)}).size(), 2u);
  EXPECT_EQ(fold({makeRow("b1/h"), makeRow("b2/h", 8, {{"c1", "sum"}})}).size(),
            2u);
  EXPECT_EQ(fold({makeRow("b1/h"), makeRow("x"), makeRow("b2/h")}).size(), 3u);
}

TEST(FoldScopes, a_few_rows_more_or_less_are_named) {
  std::vector<ValueRow> rows;
  for (const char *scope : {"b1", "b2", "b3"})
    for (const char *name : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
      if (scope == std::string("b3") && name == std::string("c"))
        continue;
      rows.push_back(makeRow(std::string(scope) + "/" + name));
      if (scope == std::string("b3") && name == std::string("e"))
        rows.push_back(makeRow("b3/new"));
    }
  std::vector<std::string> folded = fold(std::move(rows));
  ASSERT_EQ(folded.size(), 8u + 3u);
  EXPECT_EQ(folded[8], "b2, as b1: 64");
  EXPECT_EQ(folded[9], "b3, as b1, without c, and these:: 64");
  EXPECT_EQ(folded[10], "b3/new, batch 2: 8");
}

TEST(FoldScopes, what_several_have_more_is_named_once) {
  std::vector<ValueRow> rows;
  for (const char *scope : {"b1", "b2", "b3"}) {
    for (const char *name : {"a", "b", "c", "d", "e", "f", "g", "h"})
      rows.push_back(makeRow(std::string(scope) + "/" + name));
    if (scope != std::string("b1"))
      rows.push_back(makeRow(std::string(scope) + "/new", 8,
                             {{std::string("c") + scope[1], " sum"}}));
  }
  std::vector<std::string> folded = fold(std::move(rows));
  ASSERT_EQ(folded.size(), 8u + 2u);
  EXPECT_EQ(folded[8], "b2, b3, each as b1, with c2, c3, and these:: 144");
  EXPECT_EQ(folded[9], "b2/new x 2, batch 2: 16; c2, c3 sum");
}

TEST(FoldScopes, ids_are_told_by_their_runs) {
  const auto foldIds = [](const std::vector<int> &ids) {
    std::vector<ValueRow> rows = {makeRow("b1/a"), makeRow("b1/b")};
    for (int layer = 2; const int id : ids) {
      const std::string scope = fmt::format("b{}", layer++ % 2 + 2);
      rows.push_back(makeRow(scope + "/a"));
      rows.push_back(makeRow(scope + "/b"));
      rows.back().communication = {{fmt::format("c{}", id), "sum"}};
    }
    rows[1].communication = {{"c1", "sum"}};
    return fold(std::move(rows)).back();
  };
  EXPECT_THAT(foldIds({2, 3}), testing::HasSubstr(", with c2, c3:"));
  EXPECT_THAT(foldIds({2, 3, 4, 7}), testing::HasSubstr("c2 to c4, c7:"));
  EXPECT_THAT(foldIds({2, 4, 6, 8, 10}),
              testing::HasSubstr("with 5 collectives from c2 on:"));
}

TEST(FoldScopes, what_says_little_is_compared_and_left_out) {
  std::vector<ValueRow> rows;
  for (const char *name : {"b1/h", "b1/aside", "b1/y", "b2/h", "b2/y"}) {
    rows.push_back(makeRow(name));
    rows.back().isAside = rows.back().name.ends_with("aside");
  }
  // One of three is more than a quarter.
  EXPECT_THAT(fold(rows), ElementsAre("b1/h, batch 2: 8", "b1/y, batch 2: 8",
                                      "b2/h, batch 2: 8", "b2/y, batch 2: 8"));
  for (const char *scope : {"b1/", "b2/"})
    for (const char *name : {"i", "j", "k"})
      rows.insert(scope[1] == '1' ? rows.begin() : rows.end(),
                  makeRow(scope + std::string(name)));
  EXPECT_EQ(fold(rows).back(), "b2, as b1: 40");
}

TEST(FoldScopes, types_are_not_compared) {
  EXPECT_EQ(fold({makeRow("b1/h", 8), makeRow("b2/h", 4)}).back(),
            "b2, as b1: 4");
}

TEST(FoldScopes, bytes_are_those_that_are_stored) {
  ValueRow fused = makeRow("b2/h");
  fused.isStored = false;
  ValueRow first = makeRow("b1/h");
  first.isStored = false;
  EXPECT_EQ(fold({first, makeRow("b1/y"), fused, makeRow("b2/y")}).back(),
            "b2, as b1: 8");
}
