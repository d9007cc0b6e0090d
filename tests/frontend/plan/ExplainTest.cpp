#include "ExampleExecutable.h"

#include "frontend/plan/text/Explain.h"

#include <gmock/gmock.h>

using namespace meshc;
using testing::HasSubstr;
using testing::Not;

namespace {
class ExplainTest : public testing::Test {
protected:
  std::string explain(std::string_view id) {
    return plan::explain(executable, id, readSource, message).value_or("");
  }

  exec::ExecutableT executable = plan::makeExample();
  plan::ReadSource readSource = [](std::string_view path) {
    EXPECT_EQ(path, "tiny.mesh");
    return std::string(plan::exampleSpec);
  };
  std::string message;
};
} // namespace

TEST_F(ExplainTest, a_collective_reads_like_this) {
  EXPECT_EQ(explain("c1"),
            R"(c1: all_reduce over model in groups of 3 devices, forward pass
  It belongs to 'loss': <batch@data> partial sum over model before, <batch@data> after.
  Each device brings in 3 elements (12 B) and sends 16 B.
  Nothing is computed while it is under way: o3 (loss) waits for it.

  It is there because 'loss' needs 'y' as <batch@data>, which is computed as <batch@data> partial sum over model.
  Rule: contraction over split dimension 'hidden'.
  The best alternative was an all_gather of 'y' over model: 12.5 us instead of 7.2 us under the cost model.
  The lines of the spec that lead to it:

  tiny.mesh:5:24
      5 | layout { batch -> data hidden -> model }
        |                        ^^^^^^^^^^^^^^^
  tiny.mesh:9:17
      9 |   output loss = sum(y)
        |                 ^^^^^^
)");
}

TEST_F(ExplainTest, an_alternative_that_looks_the_same_is_not_told) {
  const auto &cause =
      executable.programs[0]->commands[2]->action.AsCollective()->causes.back();
  cause->alternative->chosen_cost_us = 7.21;
  cause->alternative->cost_us = 7.23;
  EXPECT_THAT(explain("c1"), Not(HasSubstr("alternative")));
}

TEST_F(ExplainTest, a_collective_says_what_is_computed_meanwhile) {
  executable = plan::makeExampleWithOverlap();
  EXPECT_THAT(
      explain("c1"),
      HasSubstr("\n  While it is under way CPU devices compute 1 matmul and 2 "
                "other commands (102 flop, 1020 B read and written), o3 to o5; "
                "then o8 (w) waits for it.\n"));
  executable.target = exec::Target::cuda;
  EXPECT_THAT(explain("c1"),
              HasSubstr("\n  While it is under way GPUs compute 1 matmul"));
  executable.target = exec::Target::cpu;
  EXPECT_THAT(explain("c2"),
              HasSubstr("\n  It goes in one transfer with c3: 72 B in all.\n"));
  EXPECT_THAT(explain("c3"),
              HasSubstr("\n  It goes in one transfer with c2: 72 B in all.\n"));
  // The last transfer of a program that only evaluates.
  executable.programs[0]->commands.pop_back();
  EXPECT_THAT(explain("c3"), HasSubstr("nothing in the program waits for it"));
}

TEST_F(ExplainTest, a_merged_collective_gives_every_reason) {
  // Of values that are not the same.
  for (const auto &command : executable.programs[0]->commands)
    if (auto *collective = command->action.AsCollective();
        collective && collective->id == "c2")
      collective->causes.at(1)->operand->name = "y";
  std::string text = explain("c2");
  EXPECT_THAT(text,
              HasSubstr("\nreason 1 of 2\n  It is there because 'w' needs "
                        "'gradient of w'"));
  EXPECT_THAT(text, HasSubstr("\nreason 2 of 2\n  It is there because an inner "
                              "mul needs"));
}

TEST_F(ExplainTest, readers_that_need_the_same_are_one_reason) {
  auto &causes =
      executable.programs[0]->commands[2]->action.AsCollective()->causes;
  const exec::CauseT first = *causes.front();
  for (const char *reader : {"h", "y", "loss", "k"}) {
    causes.push_back(std::make_unique<exec::CauseT>(first));
    causes.back()->consumer->name = reader;
  }
  causes.back()->consumer_operation = "mul";
  // One of them leads there by another line too.
  causes[2]->spans.push_back(exec::Span(0, 4, 1, 4, 4));
  std::string text = explain("c1");
  EXPECT_THAT(text,
              HasSubstr("\n\n  It is there because 'loss', 'h' and the mul "
                        "inside 'k' need 'y' as <batch@data>, which is "
                        "computed as <batch@data> partial sum over "
                        "model.\n"
                        "  Rule: contraction over split dimension "
                        "'hidden'.\n"
                        "  The best alternative was"));
  auto count = [&](std::string_view part) {
    size_t found = 0;
    for (size_t at = text.find(part); at != std::string::npos;
         at = text.find(part, at + 1))
      ++found;
    return found;
  };
  EXPECT_EQ(count("It is there because"), 1u);
  EXPECT_EQ(count("Rule:"), 1u);
  EXPECT_EQ(count("The best alternative"), 1u);
  EXPECT_EQ(count("tiny.mesh:5:24\n"), 1u);
  EXPECT_EQ(count("tiny.mesh:4:1\n"), 1u);
  EXPECT_THAT(text, Not(HasSubstr("reason 1 of")));
}

TEST_F(ExplainTest, a_value_reads_like_this) {
  EXPECT_EQ(explain("y"),
            R"('y': activation, f32 [batch 6, hidden 7], 168 B
  Each device holds [batch 3, hidden 3], 36 B; layout <batch@data, hidden@model>.

  'batch' is split over data by this rule:
  tiny.mesh:5:10
      5 | layout { batch -> data hidden -> model }
        |          ^^^^^^^^^^^^^

  'hidden' is split over model by this rule:
  tiny.mesh:5:24
      5 | layout { batch -> data hidden -> model }
        |                        ^^^^^^^^^^^^^^^

  It comes from:
  tiny.mesh:8:7
      8 |   let y = relu(einsum(x, w -> batch, hidden))
        |       ^

  Written by o0; read by o1, o4.

  It needs no communication.
)");
}

TEST_F(ExplainTest, a_partial_value_says_who_completes_it) {
  EXPECT_THAT(explain("t5"),
              HasSubstr("It leaves its operation as a partial sum over data: "
                        "each device along data has the sum of its own terms.\n"
                        "  Whoever reads the output completes it.\n"));
}

TEST_F(ExplainTest, a_dimension_split_against_the_layout_is_pointed_out) {
  executable.tensors[3]->layout->dims[0]->axes.clear();
  EXPECT_THAT(explain("y"),
              HasSubstr("'batch' is whole here, although a rule splits it over "
                        "data"));
  executable.rules.erase(executable.rules.begin());
  EXPECT_THAT(explain("y"), HasSubstr("'batch' is whole: no rule splits it."));
}

TEST_F(ExplainTest, an_axis_of_one_device_splits_nothing) {
  executable.mesh->axes[0]->size = 1;
  executable.tensors[3]->layout->dims[0]->axes.clear();
  EXPECT_THAT(explain("y"),
              HasSubstr("'batch' is whole: its rule splits it over data, an "
                        "axis of one device:\n  tiny.mesh:5:10\n"));
  EXPECT_THAT(explain("y"), Not(HasSubstr("although")));
  // Beside another axis it changes nothing either.
  executable.rules[1]->text = "hidden -> (data, model)";
  EXPECT_THAT(explain("y"), HasSubstr("'hidden' is split over model by this"));
}

static std::unique_ptr<exec::LayoutRuleT> makeRule(const char *text) {
  auto rule = std::make_unique<exec::LayoutRuleT>();
  rule->text = text;
  rule->span = std::make_unique<exec::Span>(0, 5, 10, 5, 23);
  return rule;
}

TEST_F(ExplainTest, rules_that_do_not_hold_are_pointed_out) {
  // w is [in 5, hidden 7].
  executable.rules.push_back(makeRule("in -> data unless hidden"));
  EXPECT_THAT(explain("w"), HasSubstr("'in' is whole: no rule splits it.\n"));
  EXPECT_THAT(explain("w"), HasSubstr("This rule does not split it: not "
                                      "beside \"hidden\".\n"
                                      "  tiny.mesh:5:10\n"));
  executable.rules.back() = makeRule("params: * -> data");
  EXPECT_THAT(explain("w"),
              HasSubstr("This rule does not split it: data divides no "
                        "dimension.\n"));
  executable.rules.back() = makeRule("params: * -> model");
  EXPECT_THAT(explain("w"),
              HasSubstr("This rule does not split it: already split over "
                        "model.\n"));
  executable.rules.back() = makeRule("params: hidden -> data");
  EXPECT_THAT(explain("w"),
              HasSubstr("This rule does not split it: \"params: hidden -> "
                        "data\" says otherwise.\n"));
}

TEST_F(ExplainTest, an_operation_reads_like_this) {
  EXPECT_EQ(explain("o3"), R"(o3: a generated kernel, forward pass
  It computes 'loss' from the result of c1 inside 'loss'.
  On each device: 3 flop, 30 B read and written.

  It comes from:
  tiny.mesh:9:17
      9 |   output loss = sum(y)
        |                 ^^^^^^
)");
}

TEST_F(ExplainTest, an_operation_on_a_gpu_says_what_is_launched) {
  executable = plan::makeGpuExample();
  EXPECT_THAT(explain("o4"),
              HasSubstr("  It launches step_3: 5 blocks of 256 threads, 0 B of "
                        "shared memory.\n"
                        "  It launches step_3_sum: 1 block of 256 threads, 1 "
                        "KiB of shared memory.\n"));
  EXPECT_THAT(explain("o0"), HasSubstr("  It is 1 call of cuBLASLt.\n"));
  EXPECT_THAT(explain("o5"), HasSubstr("  It is 1 call of cuBLASLt.\n"));
  EXPECT_THAT(explain("o1"),
              HasSubstr("  cuBLASLt cannot compute this product: its elements "
                        "are i32.\n"));
}

TEST_F(ExplainTest, the_end_of_a_name_is_enough_if_it_is_the_only_one) {
  executable.tensors[3]->name = "block/ff/y";
  EXPECT_THAT(explain("y"), HasSubstr("'block/ff/y': activation"));
  EXPECT_THAT(explain("ff/y"), HasSubstr("'block/ff/y': activation"));
  executable.tensors[6]->name = "gradient of block/ff/y";
  EXPECT_THAT(explain("y"), HasSubstr("'block/ff/y': activation"));
  EXPECT_THAT(explain("gradient of y"), HasSubstr("'gradient of block/ff/y'"));
  executable.tensors[4]->name = "block/y";
  EXPECT_EQ(explain("y"), "");
  EXPECT_EQ(message, "the plan has no collective, value or operation 'y'; "
                     "several end so: 'block/ff/y', 'block/y'");
  // Of several the only parameter is meant.
  executable.tensors[1]->name = "block/ff/out/y";
  EXPECT_THAT(explain("y"), HasSubstr("'block/ff/out/y': parameter"));
}

TEST_F(ExplainTest, what_a_loop_computes_is_known_as_rules_call_it) {
  plan::setName(executable, *executable.tensors[3], "layer/0/y");
  EXPECT_THAT(explain("layer/y"), HasSubstr("'layer/0/y': activation"));
  // What is inside of a value is not what is suggested.
  executable.tensors[3]->inside = true;
  executable.tensors[3]->origin->part = exec::OriginPart::inside;
  EXPECT_EQ(explain("layer/0/y"), "");
  EXPECT_THAT(message, Not(HasSubstr("did you mean 'layer/0/y'")));
}

TEST_F(ExplainTest, a_value_lists_its_collectives) {
  EXPECT_THAT(explain("gradient of w"), HasSubstr("\nc2: all_reduce"));
}

TEST_F(ExplainTest, an_id_names_one_of_several_values_of_one_name) {
  EXPECT_THAT(explain("t4"), HasSubstr("'loss': activation"));
  EXPECT_THAT(explain("t5"), HasSubstr("'loss': output"));
  EXPECT_THAT(explain("t5"), Not(HasSubstr("activation")));
}

TEST_F(ExplainTest, an_unknown_id_is_an_error_with_a_suggestion) {
  EXPECT_EQ(explain("gradients of w"), "");
  EXPECT_EQ(message,
            "the plan has no collective, value or operation 'gradients of w'; "
            "did you mean 'gradient of w'?");
  EXPECT_EQ(explain("something else"), "");
  EXPECT_EQ(
      message,
      "the plan has no collective, value or operation 'something else'; its "
      "collectives are c1 to c2");
}

TEST_F(ExplainTest, an_output_that_is_a_named_value_is_explained_once) {
  std::string text = explain("loss");
  EXPECT_THAT(text, HasSubstr("'loss': activation, f32 one number, 4 B"));
  EXPECT_THAT(text, Not(HasSubstr("'loss': output")));
}

TEST_F(ExplainTest, columns_are_code_points) {
  executable.programs[0]->commands[2]->action.AsCollective()->causes[0]->spans =
      {exec::Span(0, 1, 7, 1, 9)};
  readSource = [](std::string_view) { return "let \xc3\xa4\xc3\xb6xy\r\n"; };
  EXPECT_THAT(explain("c1"), HasSubstr("      1 | let \xc3\xa4\xc3\xb6xy\n"
                                       "        |       ^^\n"));
}

TEST_F(ExplainTest, text_that_is_gone_is_not_quoted) {
  readSource = [](std::string_view) { return std::nullopt; };
  EXPECT_THAT(explain("c1"), HasSubstr("  tiny.mesh:5:24\n  tiny.mesh:9:17\n"));
  readSource = [](std::string_view) { return "only one line"; };
  EXPECT_THAT(explain("c1"), HasSubstr("  tiny.mesh:5:24\n  tiny.mesh:9:17\n"));
}

TEST_F(ExplainTest, options_are_not_files) {
  executable.files[0] = "--layout";
  readSource = [](std::string_view) -> std::optional<std::string> {
    ADD_FAILURE() << "reads an option";
    return std::nullopt;
  };
  EXPECT_THAT(explain("c1"),
              HasSubstr("\n  --layout on the command line, column 24\n"));
}

TEST_F(ExplainTest, a_span_over_several_lines_is_underlined_on_its_first) {
  executable.programs[0]->commands[2]->action.AsCollective()->causes[0]->spans =
      {exec::Span(0, 2, 5, 4, 2)};
  EXPECT_THAT(explain("c1"), HasSubstr("      2 | dim batch = 6\n"
                                       "        |     ^^^^^^^^^\n"));
}
