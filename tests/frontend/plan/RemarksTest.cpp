// What was not written: which collectives --strict speaks of, copies, views,
// what is whole on every device; and what is said of them.

#include "ExampleExecutable.h"
#include "Origins.h"

#include "frontend/plan/Remarks.h"
#include "frontend/plan/json/PlanJson.h"
#include "frontend/plan/text/PlanText.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace meshc;
using namespace meshc::plan;
using exec::CauseKind;
using testing::IsEmpty;

namespace {
/// The example; c1 is an all_reduce of 12 bytes with one cause, c2 one of 60
/// with two.
class RemarksTest : public testing::Test {
protected:
  exec::CollectiveT &getCollective(size_t command) {
    return *executable.programs[0]->commands[command]->action.AsCollective();
  }
  exec::CollectiveT &c1() { return getCollective(2); }
  exec::CollectiveT &c2() { return getCollective(6); }

  std::vector<plan::Remark> find(int64_t bytes = 0) {
    plan.emplace(executable);
    return findReshardings(*plan, EqualScopes(*plan), bytes);
  }
  std::vector<plan::Remark> findAll(int64_t bytes = 0) {
    plan.emplace(executable);
    return findRemarks(*plan, EqualScopes(*plan), bytes);
  }
  std::string getId(const plan::Remark &remark) {
    return plan->commands[size_t(remark.command)].id;
  }
  std::vector<std::string> findIds(int64_t bytes = 0) {
    std::vector<std::string> ids;
    for (const plan::Remark &one : find(bytes))
      ids.push_back(getId(one));
    return ids;
  }
  /// Has the kernel that computes the gradient of y store something.
  exec::RemarkT &addRemark(exec::RemarkKind kind, exec::OriginPart part) {
    auto remark = std::make_unique<exec::RemarkT>();
    remark->kind = kind;
    remark->bytes = 2 << 20;
    remark->origin = makeOrigin(executable, "y");
    remark->origin->part = part;
    remark->purpose = makeOrigin(executable, "gradient of w");
    remark->span = std::make_unique<exec::Span>(0, 8, 16, 8, 46);
    auto &remarks = executable.programs[0]->commands[4]->remarks;
    remarks.push_back(std::move(remark));
    return *remarks.back();
  }

  exec::ExecutableT executable = makeExample();
  std::optional<Plan> plan;
};
} // namespace

TEST_F(RemarksTest, what_the_layout_means_is_none) {
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

TEST_F(RemarksTest, what_the_model_asks_for_is_none) {
  c1().causes[0]->kind = CauseKind::constraint;
  c1().causes[0]->written = true;
  EXPECT_THAT(findIds(), IsEmpty());
}

TEST_F(RemarksTest, only_what_is_larger_than_the_size) {
  c1().causes[0]->kind = CauseKind::rule;
  for (const auto &cause : c2().causes)
    cause->kind = CauseKind::no_rule;
  EXPECT_THAT(findIds(11), testing::ElementsAre("c1", "c2"));
  EXPECT_THAT(findIds(12), testing::ElementsAre("c2"));
  EXPECT_THAT(findIds(60), IsEmpty());
}

TEST_F(RemarksTest, one_cause_that_the_layout_means_is_enough) {
  c2().causes[0]->kind = CauseKind::rule;
  EXPECT_THAT(findIds(), IsEmpty());
  c2().causes[1]->kind = CauseKind::conflict;
  EXPECT_THAT(findIds(), testing::ElementsAre("c2"));
}

TEST_F(RemarksTest, says_what_moves_and_where_it_is_needed) {
  c1().causes[0]->kind = CauseKind::rule;
  const std::vector<plan::Remark> found = find();
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

TEST_F(RemarksTest, alike_iterations_are_told_once) {
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
  const std::vector<plan::Remark> found = find();
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].count, 2);
  EXPECT_THAT(found[0].text, testing::EndsWith("; 2 times"));
  EXPECT_EQ(getId(found[1]), "c3");
  EXPECT_EQ(getId(found[2]), "c4");
}

TEST_F(RemarksTest, windows_that_are_gathered_whole) {
  const auto findGathers = [&] {
    std::vector<plan::Remark> found = findAll(12);
    std::erase_if(found, [](const plan::Remark &remark) {
      return remark.kind != plan::Remark::Kind::Gather;
    });
    return found;
  };
  c2().kind = exec::CollectiveKind::all_gather;
  EXPECT_THAT(findGathers(), IsEmpty());
  for (const auto &cause : c2().causes)
    cause->kind = CauseKind::window;
  const std::vector<plan::Remark> found = findGathers();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(getId(found[0]), "c2");
  EXPECT_EQ(found[0].bytes, 60);
  EXPECT_THAT(found[0].text,
              testing::AllOf(testing::StartsWith("c2 all_gather over"),
                             testing::EndsWith(": each device gets all of it, "
                                               "of which it reads a part")));
  c2().kind = exec::CollectiveKind::exchange;
  EXPECT_THAT(findGathers(), IsEmpty());
}

//===-- What commands store -----------------------------------------------===//

TEST_F(RemarksTest, copies_and_views_say_what_is_stored_and_why) {
  const auto getText = [&] {
    const std::vector<plan::Remark> found = findAll(100);
    EXPECT_EQ(found.size(), 1u);
    return found.at(0).text;
  };
  exec::RemarkT &remark =
      addRemark(exec::RemarkKind::library_copy, exec::OriginPart::copy);
  EXPECT_EQ(getText(), "o4 stores a copy of y, 2 MiB, for gradient of w: no "
                       "library takes it as it lies");
  remark.origin->part = exec::OriginPart::padded;
  EXPECT_EQ(getText(), "o4 stores a padded form of y, 2 MiB, for gradient of "
                       "w: sizes that are multiples of 8 are computed faster");
  EXPECT_EQ(findAll(100)[0].advice, "choose sizes that are multiples of 8");
  remark.kind = exec::RemarkKind::stored_view;
  remark.origin->part = exec::OriginPart::inside;
  EXPECT_EQ(getText(), "o4 stores a view inside y, 2 MiB, for gradient of w: "
                       "what reads it needs all of it in memory");
  remark.origin->part = exec::OriginPart::itself;
  remark.purpose = nullptr;
  EXPECT_EQ(getText(), "o4 stores the view y, 2 MiB: what reads it needs all "
                       "of it in memory");
  EXPECT_EQ(findAll(100)[0].span->line(), 8);
  EXPECT_EQ(findAll(2 << 20).size(), 0u);
}

TEST_F(RemarksTest, large_values_that_are_not_computed_in_tiles) {
  exec::RemarkT &remark =
      addRemark(exec::RemarkKind::uncut, exec::OriginPart::itself);
  remark.purpose = nullptr;
  const auto getText = [&] {
    const std::vector<plan::Remark> found = findAll(100);
    EXPECT_EQ(found.size(), 1u);
    EXPECT_EQ(found.at(0).kind, plan::Remark::Kind::Untiled);
    return found.at(0).text;
  };
  EXPECT_EQ(getText(), "o4 stores y, 2 MiB: its dimensions cannot be cut into "
                       "tiles, or only into too many");
  remark.kind = exec::RemarkKind::computed_again;
  EXPECT_EQ(getText(), "o4 stores y, 2 MiB: in tiles too many products would "
                       "be computed again");
  remark.kind = exec::RemarkKind::read_whole;
  EXPECT_EQ(getText(), "o4 stores y, 2 MiB: it is not computed in tiles, as "
                       "something reads all of it");
}

//===-- Loops that are written out ----------------------------------------===//

TEST_F(RemarksTest, loops_of_many_commands) {
  const exec::CommandT model = *executable.programs[0]->commands[4];
  auto &commands = executable.programs[0]->commands;
  commands.clear();
  for (int i = 0; i < 255; ++i) {
    commands.push_back(std::make_unique<exec::CommandT>(model));
    commands.back()->origin =
        makeOrigin(executable, "rnn/time/" + std::to_string(i % 5) + "/h");
  }
  EXPECT_THAT(findAll(100), IsEmpty());
  commands.push_back(std::make_unique<exec::CommandT>(model));
  commands.back()->origin = makeOrigin(executable, "rnn/time/4/last");
  commands.push_back(std::make_unique<exec::CommandT>(model));
  commands.back()->origin = makeOrigin(executable, "rnn/y");
  const std::vector<plan::Remark> found = findAll(100);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, plan::Remark::Kind::Unrolled);
  EXPECT_EQ(found[0].bytes, 0);
  EXPECT_EQ(found[0].command, 0);
  EXPECT_EQ(found[0].text,
            "the loop \"rnn/time\" is written out, as it carries a value from "
            "one iteration to the next: 5 iterations, 256 of the step's 257 "
            "commands");
}

//===-- Replicated values -------------------------------------------------===//

TEST_F(RemarksTest, what_no_rule_splits_is_whole_on_every_device) {
  // Of w, in x hidden@model, no dimension has a rule over data; the batch of x
  // and y has one, and nothing of x has one over model.
  const std::vector<plan::Remark> found = findAll(59);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].kind, plan::Remark::Kind::Replicated);
  EXPECT_EQ(found[0].bytes, 60);
  EXPECT_EQ(found[0].command, -1);
  EXPECT_EQ(found[0].text,
            "\"x\", 60 B, is whole on each of the 3 devices along model: no "
            "rule splits one of its dimensions over it");
  EXPECT_EQ(found[0].advice, "a rule such as \"in -> model\" splits it");
  EXPECT_EQ(found[1].text,
            "\"w\", 60 B, is whole on each of the 2 devices along data: no "
            "rule splits one of its dimensions over it");
  EXPECT_THAT(findAll(60), IsEmpty());
}

TEST_F(RemarksTest, an_axis_that_splits_nothing_is_no_reason) {
  executable.dims[0]->axes.clear(); // batch
  const std::vector<plan::Remark> found = findAll(59);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].text, testing::StartsWith("\"x\""));
}

//===-- Rules that add nothing --------------------------------------------===//

TEST_F(RemarksTest, rules_that_add_nothing_to_a_parameter) {
  auto rule = std::make_unique<exec::LayoutRuleT>();
  rule->text = "params: * -> data";
  executable.rules.push_back(std::move(rule));
  // w is [in 5, hidden 7@model], on data=2 model=3.
  std::vector<plan::Remark> found = findAll(60);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind, plan::Remark::Kind::LostRule);
  EXPECT_EQ(found[0].bytes, 60);
  EXPECT_EQ(found[0].text, "\"params: * -> data\" adds nothing to \"w\", 60 B: "
                           "data divides no dimension");
  executable.rules.back()->text = "params: * -> (model, data)";
  found = findAll(60);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].text,
            "\"params: * -> (model, data)\" adds nothing to \"w\", 60 B: "
            "already split over model");
  executable.rules.back()->text = "gradients: * -> (model, data)";
  EXPECT_THAT(findAll(60), IsEmpty());
}

//===-- Where they are told -----------------------------------------------===//

TEST_F(RemarksTest, text_has_them_where_they_are_asked_for) {
  addRemark(exec::RemarkKind::stored_view, exec::OriginPart::itself);
  const std::string without = renderPlanText(executable, {});
  const std::string with = renderPlanText(executable, {.showsRemarks = true});
  EXPECT_THAT(with, testing::StartsWith(without));
  EXPECT_THAT(with.substr(without.size()),
              testing::HasSubstr("2 MiB  tiny.mesh:8  o4 stores the view y"));
  executable.programs[0]->commands[4]->remarks.clear();
  EXPECT_THAT(
      renderPlanText(executable, {.showsRemarks = true}),
      testing::HasSubstr("remarks\n  none: nothing of more than 1 MiB"));
}
