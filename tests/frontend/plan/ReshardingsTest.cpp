// Which collectives --strict speaks of, and what it says of them.

#include "ExampleExecutable.h"
#include "Origins.h"

#include "frontend/plan/Reshardings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace meshc;
using namespace meshc::plan;
using exec::CauseKind;
using testing::IsEmpty;

namespace {
/// The example; c1 is an all_reduce of 12 bytes with one cause, c2 one of 60
/// with two.
class ReshardingsTest : public testing::Test {
protected:
  exec::CollectiveT &getCollective(size_t command) {
    return *executable.programs[0]->commands[command]->action.AsCollective();
  }
  exec::CollectiveT &c1() { return getCollective(2); }
  exec::CollectiveT &c2() { return getCollective(6); }

  std::vector<InsertedResharding> find(int64_t bytes = 0) {
    plan.emplace(executable);
    return findReshardings(*plan, bytes);
  }
  std::vector<std::string> findIds(int64_t bytes = 0) {
    std::vector<std::string> ids;
    for (const InsertedResharding &one : find(bytes))
      ids.push_back(one.collective->id);
    return ids;
  }

  exec::ExecutableT executable = makeExample();
  std::optional<Plan> plan;
};
} // namespace

TEST_F(ReshardingsTest, what_the_layout_means_is_none) {
  for (CauseKind kind :
       {CauseKind::contraction, CauseKind::reduction, CauseKind::window}) {
    c1().causes[0]->kind = kind;
    EXPECT_THAT(findIds(), IsEmpty()) << exec::EnumNameCauseKind(kind);
  }
  for (CauseKind kind : {CauseKind::constraint, CauseKind::conflict,
                         CauseKind::rule, CauseKind::no_rule}) {
    c1().causes[0]->kind = kind;
    EXPECT_THAT(findIds(), testing::ElementsAre("c1"))
        << exec::EnumNameCauseKind(kind);
  }
}

TEST_F(ReshardingsTest, what_the_model_asks_for_is_none) {
  c1().causes[0]->kind = CauseKind::constraint;
  c1().causes[0]->written = true;
  EXPECT_THAT(findIds(), IsEmpty());
}

TEST_F(ReshardingsTest, only_what_is_larger_than_the_size) {
  c1().causes[0]->kind = CauseKind::rule;
  for (const auto &cause : c2().causes)
    cause->kind = CauseKind::no_rule;
  EXPECT_THAT(findIds(11), testing::ElementsAre("c1", "c2"));
  EXPECT_THAT(findIds(12), testing::ElementsAre("c2"));
  EXPECT_THAT(findIds(60), IsEmpty());
}

TEST_F(ReshardingsTest, one_cause_that_the_layout_means_is_enough) {
  c2().causes[0]->kind = CauseKind::rule;
  EXPECT_THAT(findIds(), IsEmpty());
  c2().causes[1]->kind = CauseKind::conflict;
  EXPECT_THAT(findIds(), testing::ElementsAre("c2"));
}

TEST_F(ReshardingsTest, says_what_moves_and_where_it_is_needed) {
  c1().causes[0]->kind = CauseKind::rule;
  const std::vector<InsertedResharding> found = find();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].count, 1);
  EXPECT_EQ(found[0].text,
            "c1 all_reduce over model of 12 B for \"loss\", which lies "
            "<batch@data> partial sum over model and is needed <batch@data>: "
            "contraction over split dimension 'hidden'");
  ASSERT_NE(found[0].span, nullptr);
  EXPECT_EQ(found[0].span->line(), 5);
  EXPECT_EQ(found[0].span->column(), 24);
  c1().causes[0]->spans.clear();
  EXPECT_EQ(find()[0].span, nullptr);
}

TEST_F(ReshardingsTest, alike_iterations_are_told_once) {
  c1().causes[0]->kind = CauseKind::rule;
  // Each iteration gathers its h; the last one another value too.
  auto &commands = executable.programs[0]->commands;
  const exec::CommandT gather = *commands[2];
  const exec::TensorT model = *executable.tensors[3];
  commands.clear();
  executable.tensors.clear();
  for (const char *name :
       {"layer/0/h", "layer/1/h", "layer/2/h", "layer/2/last"}) {
    executable.tensors.push_back(std::make_unique<exec::TensorT>(model));
    plan::setName(executable, *executable.tensors.back(), name);
    if (name == std::string_view("layer/2/last"))
      executable.tensors.back()->role = exec::BufferRole::gradient;
    commands.push_back(std::make_unique<exec::CommandT>(gather));
    commands.back()->operands[1]->tensor = int(commands.size()) - 1;
    commands.back()->action.AsCollective()->id =
        "c" + std::to_string(commands.size());
  }
  const std::vector<InsertedResharding> found = find();
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].count, 2);
  EXPECT_THAT(found[0].text, testing::EndsWith("; 2 times"));
  EXPECT_EQ(found[1].collective->id, "c3");
  EXPECT_EQ(found[2].collective->id, "c4");
}
