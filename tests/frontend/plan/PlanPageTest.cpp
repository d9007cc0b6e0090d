#include "ExampleExecutable.h"

#include "frontend/plan/json/PlanJson.h"
#include "frontend/plan/page/GraphLayout.h"
#include "frontend/plan/page/PlanPage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sodium.h>
#include <zlib.h>

using namespace meshc;
using Json = nlohmann::ordered_json;
using testing::HasSubstr;

namespace {
std::string renderPlan(const std::string &specText) {
  return plan::renderPlanJson(
      plan::makeExample(),
      [&](std::string_view) -> std::optional<std::string> { return specText; });
}

/// What stands between `begin` and the next `end`, from `from` on.
std::string getBetween(const std::string &text, std::string_view begin,
                       std::string_view end, size_t from = 0) {
  const size_t first = text.find(begin, from);
  EXPECT_NE(first, std::string::npos) << begin;
  const size_t at = first + begin.size();
  return text.substr(at, text.find(end, at) - at);
}

size_t count(const std::string &text, std::string_view part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1))
    ++found;
  return found;
}

std::string getHash(const std::string &text) {
  unsigned char hash[crypto_hash_sha256_BYTES];
  crypto_hash_sha256(hash, reinterpret_cast<const unsigned char *>(text.data()),
                     text.size());
  char base64[64];
  return std::string("sha256-") +
         sodium_bin2base64(base64, sizeof base64, hash, sizeof hash,
                           sodium_base64_VARIANT_ORIGINAL);
}

Json unpack(const std::string &text) {
  std::vector<unsigned char> packed(text.size());
  size_t size = 0;
  EXPECT_EQ(sodium_base642bin(packed.data(), packed.size(), text.data(),
                              text.size(), nullptr, &size, nullptr,
                              sodium_base64_VARIANT_ORIGINAL),
            0);
  std::string json(1 << 20, '\0');
  uLongf length = json.size();
  EXPECT_EQ(uncompress(reinterpret_cast<unsigned char *>(json.data()), &length,
                       packed.data(), size),
            Z_OK);
  return Json::parse(json.substr(0, length));
}

/// A plan of `size` operations, each of which reads those at `inputs`.
Json makePlan(const std::vector<std::vector<int>> &inputs,
              const std::vector<std::string> &phases = {}) {
  Json plan = {{"scopes", Json::array()},
               {"ops", Json::array()},
               {"collectives", Json::array()},
               {"transfers", Json::array()},
               {"schedule", Json::array()}};
  for (size_t op = 0; op < inputs.size(); ++op) {
    const std::string id = "o" + std::to_string(op);
    Json read = Json::array();
    for (int input : inputs[op])
      read.push_back("o" + std::to_string(input));
    plan["ops"].push_back({{"id", id},
                           {"name", "value" + std::to_string(op)},
                           {"phase", phases.empty() ? "forward" : phases[op]},
                           {"inputs", read},
                           {"outputs", {id}},
                           {"scope", nullptr},
                           {"fold", id}});
    plan["schedule"].push_back(id);
  }
  return plan;
}

std::vector<std::string> getIds(const Json &graph) {
  std::vector<std::string> ids;
  for (const Json &node : graph["nodes"])
    ids.push_back(node["id"]);
  return ids;
}
} // namespace

TEST(PlanPage, lets_only_its_own_style_and_script_run) {
  const std::string page =
      plan::renderPlanPage(std::vector{renderPlan("model tiny\n")});
  const std::string policy = getBetween(page, "content=\"", "\"");
  EXPECT_THAT(policy, HasSubstr("default-src 'none'"));
  EXPECT_THAT(policy,
              HasSubstr(getHash(getBetween(page, "<style>", "</style>"))));
  EXPECT_THAT(policy,
              HasSubstr(getHash(getBetween(page, "<script>", "</script>"))));
  EXPECT_EQ(count(page, "http://") - count(page, "http://www.w3.org"), 0u);
  EXPECT_EQ(count(page, "https://"), 0u);
}

TEST(PlanPage, keeps_markup_of_a_spec_as_text) {
  const std::string spec =
      "// </script><img src=x onerror=alert(1)><!--<script> & @SCRIPT@\n";
  const std::string text = renderPlan(spec);
  const std::string page = plan::renderPlanPage(std::vector{text, text});
  EXPECT_EQ(count(page, "<script"), 3u);
  EXPECT_EQ(count(page, "<img"), 0u);
  EXPECT_EQ(count(page, "<!--"), 0u);
  const Json data = unpack(getBetween(page, "id=\"plan\">", "</script>"));
  ASSERT_EQ(data.size(), 2u);
  EXPECT_EQ(data[1]["spec"]["files"][0]["text"], spec);
  Json plan = data[0];
  plan.erase("graph");
  // What of buffers the page does not read it has not.
  Json expected = Json::parse(text);
  for (Json &buffer : expected["memory"]["buffers"])
    for (const char *field : {"name", "tensor", "form", "offset"})
      buffer.erase(field);
  EXPECT_EQ(plan, expected);
}

TEST(PlanPage, says_the_answer_in_front_of_the_script) {
  // A plan that a page compares is a file, with names of any kind.
  Json plan = Json::parse(renderPlan("model tiny\n"));
  plan["model"] = "</script><script>alert(1)</script>";
  const std::string page =
      plan::renderPlanPage(std::vector{plan.dump(), plan.dump()});
  EXPECT_EQ(count(page, "<script"), 3u);
  EXPECT_LT(page.find("id=\"answer\">"), page.find("<script>"));
  EXPECT_LT(page.find("<script>"), page.find("id=\"plan\">"));
  const Json answer =
      Json::parse(getBetween(page, "id=\"answer\">", "</script>"));
  for (const char *field :
       {"model", "program", "target", "devices", "mesh", "totals"})
    EXPECT_EQ(answer[field], plan[field]) << field;
  plan["memory"].erase("at_peak");
  plan["memory"].erase("buffers");
  EXPECT_EQ(answer["memory"], plan["memory"]);
}

TEST(GraphLayout, puts_what_reads_below_what_it_reads) {
  const Json graph = plan::layOutGraph(makePlan({{}, {0}, {0}, {1, 2}}));
  EXPECT_THAT(getIds(graph),
              testing::UnorderedElementsAre("o0", "o1", "o2", "o3"));
  std::map<std::string, Json> nodes;
  for (const Json &node : graph["nodes"])
    nodes[node["id"]] = node;
  ASSERT_EQ(graph["edges"].size(), 4u);
  for (const Json &edge : graph["edges"]) {
    const Json &from = nodes.at(edge["from"]), &to = nodes.at(edge["to"]);
    EXPECT_LT(from["y"].get<double>() + from["h"].get<double>(),
              to["y"].get<double>());
    EXPECT_FALSE(edge["back"]);
    // One curve has a start and three points for each of its parts.
    EXPECT_EQ(edge["points"].size() % 3, 1u);
  }
  EXPECT_NE(nodes.at("o1")["x"], nodes.at("o2")["x"]);
}

TEST(GraphLayout, draws_no_row_that_nothing_is_joined_to) {
  // The second phase reads the first: no edge of either.
  EXPECT_THAT(
      getIds(plan::layOutGraph(makePlan(
          {{}, {0}, {1}, {}}, {"forward", "forward", "update", "forward"}))),
      testing::UnorderedElementsAre("o0", "o1"));
  EXPECT_TRUE(plan::layOutGraph(makePlan({{}, {}, {}})).is_null());
}

TEST(GraphLayout, joins_what_is_of_one_fold_and_shows_what_it_carries) {
  // Two iterations of "a reads the last b, b reads a".
  Json plan = makePlan({{}, {0}, {1}, {2}});
  plan["scopes"] = {{{"id", "s0"}, {"name", "l/0"}, {"like", "s0"}},
                    {{"id", "s1"}, {"name", "l/1"}, {"like", "s0"}}};
  for (size_t op = 0; op < 4; ++op) {
    plan["ops"][op]["scope"] = op < 2 ? "s0" : "s1";
    plan["ops"][op]["fold"] = "o" + std::to_string(op % 2);
  }
  const Json graph = plan::layOutGraph(plan);
  EXPECT_THAT(getIds(graph), testing::UnorderedElementsAre("o0", "o1"));
  ASSERT_EQ(graph["edges"].size(), 2u);
  EXPECT_EQ(graph["edges"][0]["back"], false);
  EXPECT_EQ(graph["edges"][1]["back"], true);
  ASSERT_EQ(graph["frames"].size(), 1u);
  const Json &frame = graph["frames"][0];
  EXPECT_EQ(frame["scope"], "s0");
  EXPECT_EQ(frame["count"], 2);
  for (const Json &node : graph["nodes"]) {
    EXPECT_GT(node["x"].get<double>() - node["w"].get<double>() / 2,
              frame["x"].get<double>());
    EXPECT_LT(node["y"].get<double>() + node["h"].get<double>() / 2,
              frame["y"].get<double>() + frame["h"].get<double>());
  }
}

TEST(GraphLayout, joins_collectives_of_one_fold_and_no_others) {
  // c1 and c2 say the same of everything but their fold.
  Json plan = makePlan({{}, {}, {}, {}, {}});
  const auto add = [&](int number, const std::string &fold) {
    const std::string id = "c" + std::to_string(number);
    plan["collectives"].push_back({{"id", id},
                                   {"phase", "forward"},
                                   {"inputs", {"o0"}},
                                   {"outputs", {id}},
                                   {"scope", nullptr},
                                   {"fold", fold}});
    plan["transfers"].push_back({{"id", "x" + id}, {"collectives", {id}}});
    plan["schedule"].insert(plan["schedule"].begin() + number, "x" + id);
    plan["ops"][size_t(number)]["inputs"] = {id};
  };
  add(1, "c1");
  add(2, "c2");
  add(3, "c1");
  EXPECT_THAT(
      getIds(plan::layOutGraph(plan)),
      testing::UnorderedElementsAre("o0", "c1", "c2", "o1", "o2", "o3"));
}

TEST(GraphLayout, draws_no_phase_of_more_rows_than_are_read) {
  std::vector<std::vector<int>> chain(plan::maxGraphNodes + 1);
  for (size_t op = 1; op < chain.size(); ++op)
    chain[op] = {int(op) - 1};
  EXPECT_TRUE(plan::layOutGraph(makePlan(chain)).is_null());
  chain.pop_back();
  EXPECT_EQ(plan::layOutGraph(makePlan(chain))["nodes"].size(),
            plan::maxGraphNodes);
}

TEST(GraphLayout, lists_collectives_that_nothing_of_their_phase_reads) {
  Json plan = makePlan({{}, {0}});
  for (const char *id : {"c1", "c2"}) {
    const std::string transfer = std::string("x") + id;
    plan["collectives"].push_back({{"id", id},
                                   {"phase", "forward"},
                                   {"inputs", {"o0"}},
                                   {"outputs", {id}},
                                   {"scope", nullptr},
                                   {"fold", id}});
    plan["transfers"].push_back({{"id", transfer}, {"collectives", {id}}});
    plan["schedule"].insert(plan["schedule"].begin() + 1, transfer);
  }
  plan["ops"][1]["inputs"] = {"c1"};
  EXPECT_THAT(getIds(plan::layOutGraph(plan)),
              testing::UnorderedElementsAre("o0", "c1", "o1"));
}
